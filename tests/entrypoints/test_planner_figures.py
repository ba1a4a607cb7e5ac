"""The planner over a shop's files: what it shows is what `disco plan --json` prints for the same limits."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import ShopService
from disco.operations.what_if import OpenAudience, OpenAudiences, audience_key, intervals, solve
from disco.records.errors import StateError
from disco.records.plan import Plan

Run = Callable[..., tuple[int, str, str]]

SHOWN = (
    "customers", "currency", "version", "prices", "budget_price", "ceiling", "status", "value", "bound", "gap",
    "reserve", "binding", "arms", "total", "overspend_chance",
)  # fmt: skip
LIMITS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "other caps": {"depths": {0.1: {"at_most": "15%"}, 0.2: {"at_most": 90}, 0.3: {"at_most": 40, "at_least": 10}}},
    "a budget": {"budget": 300},
    "a budget within a risk": {"budget": {"amount": 300, "overspend_risk": "20%"}},
    "groups and a reserve": {"control": {"share": "15%"}, "holdout": {"share": "5%"}, "reserve": {"share": "20%"}},
    "another weight": {"objective": {"revenue_weight": 1.5}},
    "segments": {"segments": {"column": "country", "limits": {"GB": {0.1: {"at_most": 30}}}}},
}


def written(shop: Path, **more: object) -> dict[str, Any]:
    return {**yaml.safe_load((shop / "second.yaml").read_text()), **more}


def opened(here: Shop, plan: Plan, kept: OpenAudiences, **more: Any) -> OpenAudience:
    with here.site() as site:
        return kept.of(site, plan, **more)


def test_the_planner_shows_what_a_plan_prints(shop: Path, disco: Run) -> None:
    here, kept = Shop.open(shop), OpenAudiences(100)
    for name, more in LIMITS.items():
        (shop / "tried.yaml").write_text(yaml.safe_dump(written(shop, **more)))
        code, out, _ = disco("plan", shop / "tried.yaml", "--shop", shop, "--dry-run", "--json")
        assert code == 0
        printed = json.loads(out)
        plan = here.read_plan(shop / "tried.yaml")
        one = opened(here, plan, kept)
        solved = solve(one, plan)
        found = {**solved.as_dict(), **intervals(one, plan, solved).as_dict()}
        assert {key: found[key] for key in SHOWN} == {key: printed[key] for key in SHOWN}, name
    assert len(kept) == 2, "limits share an audience; only labels of segments make another"


def test_an_audience_is_another_where_the_shop_has_changed(shop: Path) -> None:
    here = Shop.open(shop)
    plan = here.read_plan(written(shop))

    def key() -> str:
        with here.site() as site:
            return audience_key(site, plan)

    first = key()
    assert key() == first
    sold = here.export("first").to_pandas().head(1)
    outcome = pd.DataFrame(
        {
            "event_id": ["one more"],
            "campaign_id": "first",
            "customer_id": sold["customer_id"],
            "code": sold["code_id"],
            "ordered_at": pd.Timestamp("2025-09-20"),
            "full_price": 40.0,
            "kind": "purchase",
        }
    )
    here.ingest("first", outcome)
    here.learn("first", as_of=date(2025, 10, 20))
    learned = key()
    assert learned != first
    table = next((shop / "data").glob("customers*.parquet"))
    pq.write_table(pq.read_table(table).slice(0, 500), table)
    assert key() not in (first, learned)


def test_opening_says_how_far_it_is(shop: Path) -> None:
    here, told = Shop.open(shop), []
    plan = here.read_plan(written(shop))
    opened(here, plan, OpenAudiences(100), report=lambda done, total, stage: told.append((done, total, stage)))
    assert [done for done, _, _ in told] == [0, 1, 2, 3]
    assert {total for _, total, _ in told} == {3}
    assert told[0][2] == "reading customers and their features"


def test_the_bound_of_the_service_is_that_of_its_settings(shop: Path) -> None:
    (shop / "disco.yaml").write_text("service: {planner_megabytes: 16}\n")
    service = ShopService(Shop.open(shop))
    assert service.audiences is service.audiences
    here = Shop.open(shop)
    one = opened(here, here.read_plan(written(shop)), service.audiences)
    assert service.audiences.find(one.key) is one
    with pytest.raises(StateError, match="16 MB"):
        service.audiences.open("huge", lambda: enlarged(one))


def enlarged(one: OpenAudience) -> OpenAudience:
    rows = np.resize(np.arange(len(one)), 500_000)
    return replace(one, basis=replace(one.basis, audience=one.basis.audience.take(rows)))
