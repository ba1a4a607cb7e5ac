"""docs/tutorial.md, run as it is printed; and `./run drill year` in short, on the shop that the page leaves behind.

Only the number of customers is smaller. What a block shows is compared word by word, with figures left open: they
belong to the page's own size. A block that shows nothing has only to succeed.
"""

from pathlib import Path

import pytest
from as_printed import blocks, disco_in, run_blocks, words
from year_drill import FAULTS, PAGE, READ_OUT, SIMULATE, forecast_table, plant, year_forecasts

from disco.entrypoints.python import Shop

CUSTOMERS = 1500
SHORT = ("no table of site activity", "views 100 times too large", "pounds as pence", "ids of orders mixed up")


def test_the_year_runs_as_printed_and_its_check_finds_planted_faults(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert text.count(SIMULATE) == 1
    page = blocks(text.replace(SIMULATE, f"disco simulate --customers {CUSTOMERS} --seed 7 "))
    with disco_in(tmp_path / "bin"):
        printed = run_blocks(page, folder=tmp_path, path=tmp_path / "bin")
    compared = 0
    for block, got in zip(page, printed, strict=True):
        if block.shown.strip():
            assert words(got) == words(block.shown), block.commands
            compared += 1
    assert compared > 5
    shop = Shop.open(tmp_path / "shop")
    year = year_forecasts(shop, shop.results(as_of=READ_OUT))
    assert (len(year.revenue), len(year.markdown)) == (11, 11)
    assert sorted(year.depths) == [0.1, 0.2, 0.3, 0.4]
    assert sum(one.actual for one in year.revenue) == pytest.approx(
        sum((1 - depth) * total.actual for depth, total in year.depths.items())
    )
    assert forecast_table({7: year}).count("of 11") == 4
    network = shop.data.network()
    assert plant(shop.folder / "data", {}, network, scratch=tmp_path).how == "not found"
    for name in SHORT:
        planted = plant(shop.folder / "data", FAULTS[name], network, scratch=tmp_path)
        assert planted.found, name
