"""Two plans as operators write them, from the plan file to what was bought, counted again without our functions.

The first has segments with caps and floors, both lists, a contact rule and a bound on the chance to overspend. The
second has two channels with limits of their own, a shared code and a budget. Whatever is asserted here comes from the
raw tables, the plan files and the exported files, by plain SQL and pandas.
"""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import yaml

from disco.entrypoints import cli
from disco.entrypoints.python import Shop

FIRST = {
    "campaign": "first",
    "customers": {"table": "customers", "as_of": "2025-09-01"},
    "depths": {0.1: {"at_most": "15%"}, 0.2: {"at_most": "15%"}, 0.3: {"at_most": "15%"}},
    "objective": {"revenue_weight": 3},
    "policy": {"name": "random"},
    "valid": {"from": "2025-09-01", "days": 30},
    "seed": 7,
}
OPERATOR = {
    "campaign": "operator",
    "customers": {"table": "customers", "eligible": "country in ('GB', 'FR', 'DE')", "as_of": "2025-10-01"},
    "depths": {0.1: {"at_most": "35%"}, 0.2: {"at_most": "20%", "at_least": 30}, 0.3: {"at_most": 60}},
    "objective": {"revenue_weight": 8},
    "segments": {
        "column": "country",
        "limits": {"GB": {0.3: {"at_most": 15}, 0.2: {"at_most": "10%"}}, "FR": {0.1: {"at_least": 5}}},
    },
    "include": "lists/known.csv",
    "exclude": "lists/unsubscribed.txt",
    "control": {"share": "20%"},
    "holdout": {"share": "5%"},
    "reserve": {"share": "10%"},
    "valid": {"from": "2025-10-01", "days": 28},
    "seed": 11,
}
CHANNELS = {
    "campaign": "channels",
    "customers": {"table": "data/by_channel.csv", "as_of": "2025-11-03"},
    "depths": {0.1: {}, 0.2: {"at_most": "25%"}, 0.3: {"at_most": "15%"}},
    "objective": {"revenue_weight": 8},
    "channel": {"column": "channel"},
    "segments": {
        "column": "channel",
        "limits": {"sms": {0.1: {"at_most": 40}, 0.3: {"at_most": 0}}, "e-mail": {0.2: {"at_least": 20}}},
    },
    "codes": {"shared": {0.1: "NOVEMBER10"}},
    "conditions": {"minimum_basket": 20, "text": "Not on gift cards"},
    "control": {"share": "20%"},
    "valid": {"from": "2025-11-03", "days": 14},
    "seed": 13,
}


def disco(*arguments: object) -> dict[str, Any]:
    """The JSON that a command prints; it must end well."""
    before, sys.argv = sys.argv, ["disco", *map(str, arguments), "--json"]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv = before
    assert not ended.value.code, err.getvalue()
    result: dict[str, Any] = json.loads(out.getvalue())
    return result


def write(shop: Path, plan: dict[str, Any]) -> Path:
    file = shop / f"{plan['campaign']}.yaml"
    file.write_text(yaml.safe_dump(plan))
    return file


def run_campaign(shop: Path, plan: dict[str, Any], *, over: str) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Plan, launch, export, answer, ingest, learn: the plan's JSON, the exported codes and the outcomes."""
    name, place = plan["campaign"], ("--shop", shop)
    codes, outcomes = shop / f"{name}-codes.parquet", shop / f"{name}-outcomes.parquet"
    planned = disco("plan", write(shop, plan), *place)
    disco("launch", planned["plan_id"], *place)
    disco("export", name, "-o", codes, *place)
    disco("respond", shop / "data", codes, "-o", outcomes)
    disco("ingest", name, outcomes, *place)
    disco("learn", name, "--as-of", over, *place)
    return planned, pd.read_parquet(codes), pd.read_parquet(outcomes)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated shop after a random campaign, which was learned."""
    folder = tmp_path_factory.mktemp("two") / "shop"
    folder.mkdir()
    disco("simulate", "--customers", 1500, "--seed", 5, "-o", folder / "data")
    window = ("--tables", folder / "data", "--window-start", "2025-06-01", "--max-epochs", 2)
    disco("train", "context", *window, "-o", folder / "context.safetensors")
    run_campaign(folder, FIRST, over="2025-10-01")
    return folder


def sql(shop: Path, query: str) -> pd.DataFrame:
    """A query over the raw tables as they are now."""
    with duckdb.connect() as connection:
        for name in ("customers", "codes"):
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{shop / 'data' / name}.parquet'")
        return connection.execute(query).df()


def expected_markdown(shop: Path, planned: dict[str, Any], plan: Path) -> float:
    """Σ depth × expected basket × share who buy × what earlier campaigns cost per unit expected, from the decisions."""
    again = Shop.open(shop).plan(plan, dry_run=True)  # what was learned since counts, too
    rows = again.to_pandas().dropna(subset=["depth"])
    cost = rows["depth"] * rows["expected_full_price"] * rows["expected_engagement"]
    factors = {str(arm): one.correction for arm, one in again.arms.items()}
    at = zip(rows["arm"], rows["depth"], strict=True)
    each = [1.0 if factors[arm] is None else float(factors[arm].factors([depth])[0]) for arm, depth in at]
    return float((cost * each).sum())


def results_agree(shop: Path, campaign: str, codes: pd.DataFrame, outcomes: pd.DataFrame) -> None:
    """Revenue and markdown of all codes, from the outcomes alone, are those of `disco results`."""
    bought = outcomes.merge(codes, left_on=["code", "customer_id"], right_on=["code_id", "customer_id"])
    assert len(bought) == len(outcomes)
    found = disco("results", campaign, "--as-of", "2026-01-15", "--shop", shop)
    revenue = sum(arm["summary"]["revenue"] for arm in found["arms"].values())
    markdown = sum(arm["summary"]["markdown"] for arm in found["arms"].values())
    assert revenue == pytest.approx((bought["full_price"] * (1 - bought["depth"])).sum())
    assert markdown == pytest.approx((bought["full_price"] * bought["depth"]).sum())


def test_segments_floors_lists_contacts_and_a_budget(shop: Path) -> None:
    customers = sql(shop, "SELECT customer_id, country, joined_on FROM customers ORDER BY customer_id")
    known = customers["customer_id"][customers.index % 3 > 0].tolist()
    unsubscribed = customers["customer_id"][:90].tolist()
    (shop / "lists").mkdir(exist_ok=True)
    (shop / "lists" / "known.csv").write_text("\n".join(["customer_id", *known]) + "\n")
    (shop / "lists" / "unsubscribed.txt").write_text("\n".join([*unsubscribed, "nobody-1", "nobody-2"]) + "\n")
    received = sql(
        shop,
        """SELECT customer_id, count(*) AS codes FROM codes
           WHERE sent_at >= DATE '2025-08-02' AND sent_at < DATE '2025-10-02' GROUP BY customer_id""",
    ).set_index("customer_id")["codes"]
    at_most = int(received.max())
    plan = {**OPERATOR, "contact": {"at_most": at_most, "days": 60}}
    free = disco("plan", write(shop, plan), "--dry-run", "--shop", shop)
    budget = round(0.5 * free["total"]["markdown"]["value"])
    plan["budget"] = {"amount": budget, "overspend_risk": "20%"}
    planned, codes, outcomes = run_campaign(shop, plan, over="2025-11-01")

    joined = customers["joined_on"] < pd.Timestamp("2025-10-01")
    meets = customers[customers["country"].isin(["GB", "FR", "DE"]) & joined]
    on_list = meets[meets["customer_id"].isin(known)]
    wanted = on_list[~on_list["customer_id"].isin(unsubscribed)]
    before = wanted["customer_id"].map(received).fillna(0)
    allowed = wanted[before < at_most]
    assert planned["customers"] == len(allowed)
    assert planned["left_out"]["exclude"] >= len(on_list) - len(wanted) > 0
    assert planned["left_out"]["contact"] >= len(wanted) - len(allowed) > 0
    assert sum(planned["left_out"].values()) + len(allowed) - len(meets) <= int((~joined).sum())

    assert set(codes["customer_id"]) <= set(allowed["customer_id"])
    assert codes["customer_id"].is_unique
    country = allowed.set_index("customer_id")["country"]
    given = codes.groupby([codes["customer_id"].map(country), "depth"]).size()
    by_depth = codes.groupby("depth").size()
    assert by_depth[0.1] <= 0.9 * 0.35 * len(allowed)
    assert 30 <= by_depth[0.2] <= 0.9 * 0.2 * len(allowed)
    assert by_depth.get(0.3, 0) <= 0.9 * 60
    assert given.get(("GB", 0.3), 0) <= 0.9 * 15
    assert given.get(("GB", 0.2), 0) <= 0.9 * 0.1 * (country == "GB").sum()
    assert given["FR", 0.1] >= 5

    assert expected_markdown(shop, planned, shop / "operator.yaml") <= 0.9 * budget
    assert planned["overspend_chance"] <= 0.2
    assert planned["ceiling"] < budget
    results_agree(shop, "operator", codes, outcomes)


def test_two_channels_and_a_budget(shop: Path) -> None:
    customers = sql(shop, "SELECT * FROM customers ORDER BY customer_id")
    customers["channel"] = ["sms" if row % 4 == 0 else "e-mail" for row in range(len(customers))]
    customers.to_csv(shop / "data" / "by_channel.csv", index=False)
    plan = dict(CHANNELS)
    free = disco("plan", write(shop, plan), "--dry-run", "--shop", shop)
    plan["budget"] = round(0.6 * free["total"]["markdown"]["value"])
    planned, codes, outcomes = run_campaign(shop, plan, over="2025-11-20")

    channel = customers.set_index("customer_id")["channel"]
    assert (codes["channel"] == codes["customer_id"].map(channel)).all()
    given = codes.groupby(["channel", "depth"]).size()
    assert 0 < given["sms", 0.1] <= 40
    assert given.get(("sms", 0.3), 0) == 0
    assert given["e-mail", 0.2] >= 20
    joined = (customers["joined_on"] < pd.Timestamp("2025-11-03")).sum()
    by_depth = codes.groupby("depth").size()
    assert by_depth[0.2] <= 0.25 * joined
    assert by_depth.get(0.3, 0) <= 0.15 * joined
    assert expected_markdown(shop, planned, shop / "channels.yaml") <= plan["budget"]

    shared = codes["depth"] == 0.1
    assert set(codes["code_id"][shared]) == {"NOVEMBER10"}
    assert codes["code_id"][~shared].is_unique
    assert set(codes["minimum_basket"]) == {20.0}
    results_agree(shop, "channels", codes, outcomes)
    stranger = customers[~customers["customer_id"].isin(codes["customer_id"])]["customer_id"].iloc[0]
    foreign = outcomes.iloc[:1].assign(event_id="foreign", customer_id=stranger, code="NOVEMBER10")
    foreign.to_parquet(shop / "foreign.parquet")
    found = disco("ingest", "channels", shop / "foreign.parquet", "--shop", shop)
    assert (found["unmatched"], found["reasons"][0]["reason"]) == (1, "a shared code that this customer was not sent")
    assert disco("doctor", "--shop", shop)["ok"]
