"""What makes the demo's folder a shop to look around in: settings, a campaign that runs, and a draft of the next one.

Its own time is a few days after campaign D was learned, and passes from there on as it does here.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from disco.adapters.config import EXPLORATION, ShopSettings
from disco.adapters.shop_data import FolderShopData
from disco.campaign import Belief
from disco.office.drafts.use_cases import put_draft
from disco.operations.contexts import FeatureCache
from disco.operations.export import export_codes
from disco.operations.launch import launch_plan
from disco.operations.outcomes import ingest
from disco.operations.plan import make_plan
from disco.operations.site import Site
from disco.records.people import Actor, ActorKind, ApprovalRule
from disco.records.plan import read_plan
from disco.retailer import Retailer
from disco.store import Store

DATABASE = "disco.sqlite"
ARTEFACTS = "disco-artefacts"
TABLES = "shop"
NETWORK = "context.safetensors"
SETTINGS = "disco.yaml"
OPERATOR = Actor("Demo operator", ActorKind.PERSON)
RUNNING, NEXT = "E", "F"  # the campaign that runs, and the draft
_DAYS_TO_LAUNCH = 4  # from the end of the tables
_DAYS_OF_ANSWERS = 2  # since then
_DAYS_TO_NEXT = 12
_BUDGET_PER_CUSTOMER = 1.2  # currency units of markdown


@dataclass
class ShopClock:
    """The simulated shop's own time: the morning of a day."""

    today: date

    def now(self) -> datetime:
        return datetime(self.today.year, self.today.month, self.today.day, tzinfo=UTC)


def open_shop(folder: Path, *, clock: ShopClock) -> Store:
    """The database of the demo's shop, made where it is absent."""
    return Store(f"sqlite:///{folder / DATABASE}", folder / ARTEFACTS, clock=clock)


def shop_data(folder: Path) -> FolderShopData:
    """Its tables and its context network."""
    return FolderShopData(folder=folder, place=str(folder / TABLES), queries=None, network_file=folder / NETWORK)


def shop_prior() -> Belief:
    """The belief before any campaign: that of a shop whose settings do not say otherwise."""
    return ShopSettings.model_validate({}).prior()


def complete_shop(folder: Path, *, seed: int, secret: bytes) -> date:
    """Launch the next campaign, let two days of answers come in, and leave a draft; the shop's day at the end."""
    retailer = Retailer.load(folder / TABLES)
    clock = ShopClock(retailer.today + timedelta(days=_DAYS_TO_LAUNCH))
    data, prior = shop_data(folder), shop_prior()
    cache = FeatureCache(folder=folder / ARTEFACTS / "features")
    store = open_shop(folder, clock=clock).by(OPERATOR)
    try:
        site = Site(store=store, data=data, clock=clock, prior=prior, cache=cache)
        running = _plan(RUNNING, retailer=retailer, starts_on=clock.today, seed=seed)
        running["segments"] = {"column": "country", "limits": {"US": {"0.3": {"at_most": "2%"}}}}
        planned = make_plan(site, read_plan(running, exploration=EXPLORATION))
        launch_plan(site, planned.plan_id, approval=ApprovalRule.NONE, secret=secret)
        outcomes = retailer.respond(export_codes(store, RUNNING)).outcomes
        clock.today += timedelta(days=_DAYS_OF_ANSWERS)
        so_far = outcomes.filter(pc.less(outcomes["ordered_at"], clock.now().replace(tzinfo=None)))
        ingest(store, RUNNING, so_far, source="simulated customers", clock=clock)
        following = _plan(NEXT, retailer=retailer, starts_on=clock.today + timedelta(days=_DAYS_TO_NEXT), seed=seed)
        put_draft(store, NEXT, following, clock=clock)
    finally:
        store.close()
    _write_settings(folder, today=clock.today)
    return clock.today


def _plan(campaign: str, *, retailer: Retailer, starts_on: date, seed: int) -> dict[str, Any]:
    """A plan as JSON: everything an operator can limit, by shares, so that it suits any number of customers."""
    return {
        "campaign": campaign,
        "customers": {"table": "customers", "as_of": retailer.today.isoformat()},
        "depths": {
            "0.15": {"at_most": "25%"},
            "0.2": {"at_most": "15%"},
            "0.25": {"at_most": "10%"},
            "0.3": {"at_most": "5%"},
        },
        "objective": {"revenue_weight": 3},
        "budget": round(_BUDGET_PER_CUSTOMER * retailer.settings.customers, -2),
        "control": {"share": 0.1},
        "holdout": {"share": 0.05},
        "reserve": {"share": 0.02},
        "valid": {"from": starts_on.isoformat(), "days": 14},
        "channel": "e-mail",
        "seed": seed,
    }


def _write_settings(folder: Path, *, today: date) -> None:
    behind = (datetime.now(UTC).date() - today).days
    lines = (
        "# The demo's shop. `disco serve --demo` opens it in the browser; `disco demo` makes it anew.",
        f"data: {TABLES}",
        f"database_url: sqlite:///{DATABASE}",
        f"artefacts: {ARTEFACTS}",
        f"context: {NETWORK}",
        "# Its own time is that of the simulation, and passes as ours does.",
        f"simulated_days_behind: {behind}",
    )
    (folder / SETTINGS).write_text("\n".join(lines) + "\n", encoding="utf-8")
