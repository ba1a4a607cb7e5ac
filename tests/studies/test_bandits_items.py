"""The bandit items of the reproduction in small: do they run, keep their work, and say what their figures say?"""

from dataclasses import replace

import pytest

from disco.studies.paper import explanation, policies, ulcc
from disco.studies.paper.item import Item
from disco.studies.paper.lab import TINY, Lab
from disco.studies.readings import READINGS
from disco.studies.sample import Sample


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(settings=replace(TINY, environments=1), folder=tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def items(lab: Lab) -> dict[str, Item]:
    makers = (policies.run_warm, policies.run_cold, ulcc.run, explanation.run)
    return {item.key: item for item in (make(lab) for make in makers)}


def test_every_item_can_be_shown(items: dict[str, Item]) -> None:
    assert list(items) == ["warm", "cold", "ulcc", "explanation"]
    for item in items.values():
        for chart in item.charts:
            assert chart.option()
            assert chart.table().text()
        for table in item.tables:
            assert table.text()
        assert item.paper
        assert item.why
        assert item.reason


@pytest.mark.parametrize("key", ["warm", "cold", "ulcc"])
def test_claims_are_put_to_every_reading(items: dict[str, Item], key: str) -> None:
    item = items[key]
    assert list(item.verdict_by_reading) == list(READINGS)
    by_reading = {name: [c.claim for c in item.checks if c.reading == name] for name in item.verdict_by_reading}
    assert len({tuple(claims) for claims in by_reading.values()}) == 1


def test_verdicts_follow_from_the_figures(items: dict[str, Item]) -> None:
    for item in items.values():
        for check in item.checks:
            assert check.ours.half_width is None  # one environment: nothing that asks for an interval can hold
            if "interval" in check.rule:
                assert (check.holds, check.is_open) == (False, True)
            else:
                assert not (check.holds and check.is_open)


def test_shapes_of_one_environment_are_averaged_before_the_interval_is_taken() -> None:
    measured = {"concave": [{"x": 1.0}, {"x": 2.0}], "threshold": [{"x": 3.0}, {"x": 6.0}]}
    found = explanation._cells(measured, explanation._EVERYWHERE, lambda shop: shop["x"])  # type: ignore[arg-type]
    assert found.values == (2.0, 4.0)
    assert explanation._cells(measured, "concave", lambda shop: shop["x"]).values == (1.0, 2.0)  # type: ignore[arg-type]


def test_the_warm_uplift_is_that_of_the_item_and_nothing_is_played_again(lab: Lab, items: dict[str, Item]) -> None:
    pieces = lab.folder / "bandits" / "plays"
    before = {path: path.stat().st_mtime_ns for path in pieces.iterdir()}
    found: Sample = policies.warm_uplift(lab)
    assert {path: path.stat().st_mtime_ns for path in pieces.iterdir()} == before
    shown = next(check for check in items["warm"].checks if check.claim == "TS-IP beats Random")
    assert found == shown.ours
