"""Looking at a plan before its launch: breakdowns that add up, counted differences, a copy to plan."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from disco.entrypoints.python import Shop

Run = Callable[..., tuple[int, str, str]]


def done(disco: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = disco(*arguments, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def test_a_breakdown_adds_up_to_the_plan_and_its_intervals_are_those_of_the_plan(disco: Run, shop: Path) -> None:
    planned = done(disco, "plan", shop / "second.yaml", "--shop", shop)
    review = done(disco, "plan", "show", planned["plan_id"], "--by", "country", "--shop", shop)
    assert not review["launched"]
    kinds = {one["by"] for one in review["groups"]}
    assert kinds == {"depth", "group", "history", "spend decile", "country"}
    for kind in kinds - {"spend decile"}:
        groups = [one for one in review["groups"] if one["by"] == kind]
        assert sum(one["customers"] for one in groups) == planned["customers"], kind
        for figure in ("revenue", "markdown"):
            whole = sum(one[figure]["value"] for one in groups if one[figure] is not None)
            assert whole == pytest.approx(planned["total"][figure]["value"], rel=1e-12), kind
        codes = sum(sum(one["codes"].values()) for one in groups)
        assert codes == sum(sum(arm["codes"].values()) for arm in planned["arms"].values()), kind
    by_group = {one["value"]: one for one in review["groups"] if one["by"] == "group"}
    for arm, forecast in planned["arms"].items():
        assert by_group[arm]["codes"] == forecast["codes"]
        if forecast["money"] is not None:
            assert by_group[arm]["revenue"] == pytest.approx(forecast["money"]["revenue"])
    (country,) = [one for one in review["groups"] if one["by"] == "country"]
    assert country["value"] == "GB"
    assert country["revenue"] == pytest.approx(planned["total"]["revenue"])
    deciles = [one["customers"] for one in review["groups"] if one["by"] == "spend decile"]
    history = next(one for one in review["groups"] if one["value"] == "bought in the past year")
    assert len(deciles) == 10
    assert sum(deciles) == history["customers"]
    assert max(deciles) - min(deciles) <= 1
    code, out, _ = disco("plan", "show", "second", "--shop", shop)
    assert (code, "90% intervals" in out, "Spend decile" in out) == (0, True, True)


def test_a_wrong_column_or_one_with_many_values_is_refused(disco: Run, shop: Path) -> None:
    done(disco, "plan", shop / "second.yaml", "--shop", shop)
    code, _, err = disco("plan", "show", "second", "--by", "contry", "--shop", shop)
    assert (code, "no column contry" in err, "country" in err) == (1, True, True)
    code, _, err = disco("plan", "show", "second", "--by", "joined_on", "--shop", shop)
    assert (code, "different values" in err) == (1, True)


def test_a_difference_counts_who_changes(disco: Run, shop: Path) -> None:
    first = done(disco, "plan", shop / "second.yaml", "--shop", shop)["plan_id"]
    content = yaml.safe_load((shop / "second.yaml").read_text())
    content["depths"][0.3] = {"at_most": "5%"}
    (shop / "other.yaml").write_text(yaml.safe_dump(content))
    other = Shop.open(shop).plan(shop / "other.yaml", dry_run=True)
    found = done(disco, "plan", "diff", first, shop / "other.yaml", "--shop", shop)
    assert (found["first"], found["second"]) == (first, other.plan_id)
    assert [(one["key"], one["before"], one["after"]) for one in found["settings"]] == [
        ("depths.0.3.at_most", "0.1", "0.05")
    ]
    was = dict(Shop.open(shop).plan(shop / "second.yaml", dry_run=True).to_pandas()[["customer_id", "depth"]].values)
    now = dict(other.to_pandas()[["customer_id", "depth"]].values)
    counted = Counter((repr(was[one]), repr(now[one])) for one in was if repr(was[one]) != repr(now[one]))
    assert found["both"] == len(was) == len(now)
    assert sorted(one["customers"] for one in found["changes"]) == sorted(counted.values())
    assert found["both"] - found["same"] == sum(counted.values()) > 0
    same = done(disco, "plan", "diff", first, first, "--shop", shop)
    assert (same["settings"], same["changes"], same["same"]) == ([], [], same["both"])
    code, out, _ = disco("plan", "diff", first, shop / "other.yaml", "--shop", shop)
    assert (code, "depths.0.3.at_most" in out) == (0, True)


def test_a_copy_is_the_plan_of_the_campaign_and_can_be_planned(disco: Run, shop: Path) -> None:
    code, out, _ = disco("plan", "copy", "first", "--shop", shop)
    assert code == 0
    assert out.count("# change") == 3
    (shop / "next.yaml").write_text(out)
    here = Shop.open(shop)
    assert here.read_plan(shop / "next.yaml") == here.read_plan(shop / "first.yaml")
    content = yaml.safe_load(out) | {"campaign": "third"}
    (shop / "next.yaml").write_text(yaml.safe_dump(content))
    assert done(disco, "plan", shop / "next.yaml", "--shop", shop)["customers"] > 0


@pytest.mark.parametrize("words", [("show",), ("diff", "a"), ("copy", "a", "b"), ("a.yaml", "b.yaml")])
def test_wrong_words_are_wrong_usage(disco: Run, shop: Path, words: tuple[str, ...]) -> None:
    code, _, err = disco("plan", *words, "--shop", shop)
    assert (code, "error" in err) == (2, True)


def test_a_file_called_show_yaml_is_a_plan_file(disco: Run, shop: Path) -> None:
    (shop / "show.yaml").write_text((shop / "first.yaml").read_text())
    assert done(disco, "plan", shop / "show.yaml", "--dry-run", "--shop", shop)["dry_run"]
    assert pq.read_table(shop / "data" / "customers.parquet").num_rows == 900
