"""One run of the product in a simulated world: a shop that is trained, tries random codes and then decides campaigns.

The run goes through `disco.Shop` as a retailer would: tables in a folder, a trained network, and for each campaign
plan, launch, export, answers of the simulated customers, ingest and learn. The truth judges every decision, and the
forecasts are those that the plans state. A `Run` says everything that decides its outcome, so equal runs have equal
figures.
"""

import os
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from disco import allocate, objective
from disco.adapters.config import ShopSettings
from disco.adapters.shop import WallClock
from disco.adapters.tables import open_tables
from disco.entrypoints.python import Shop
from disco.evaluation.accuracy import judge
from disco.features import ContextNetwork
from disco.operations.export import export_codes
from disco.operations.plan import Planned
from disco.operations.training import train_context
from disco.records.arrays import Integers, Vector
from disco.records.estimate import Estimate
from disco.records.files import temporary_folder
from disco.retailer import Retailer, RetailerSettings
from disco.retailer.settings import Shape
from disco.retailer.simulation import Response
from studies.cache import folder_written_whole, key_of, source_version

DEPTHS = (0.1, 0.2, 0.3)
FILLED, SCARCE = "filled", "scarce"
SHARES = {FILLED: (1 / 3, 1 / 3, 1 / 3), SCARCE: (0.3, 0.2, 0.1)}  # of the customers, shallow to deep
REVENUE_WEIGHT = 3.0
DAYS = 30  # from one campaign to the next, and what the world counts trend and fading by
VALID_DAYS = 27  # the tables reach the day on which the next campaign is planned, three days before it begins
LEAD_DAYS = DAYS - VALID_DAYS
TRAINING_MONTHS = 3

#: The source that decides what a history and a network are; what decides a run is all of the package.
HISTORY_ROOMS = ("retailer", "records/identity.py")
NETWORK_ROOMS = (*HISTORY_ROOMS, "features", "operations/training.py", "studies/year.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything that decides one run."""

    world: str = "ordinary"  # one of disco.retailer.settings.WORLDS
    shape: Shape = Shape.CONCAVE
    seed: int
    customers: int = 20_000
    at_random: int = 2  # campaigns whose codes are assigned at random to everybody, before the decided ones
    decided: int = 9
    caps: str = SCARCE
    control: float = 0.0  # share of the customers of decided campaigns who get random codes
    exploration: float | None = None  # of Thompson sampling; None: what a plan has that does not say
    forgetting: float | None = None  # weight of a campaign per campaign since; None: what the shop's settings say
    retrain_every: int = 0  # decided campaigns after which the network is trained anew; 0: never

    @property
    def case(self) -> str:
        """The run without its seed, in words.

        >>> Run(seed=3, world="trend").case
        'trend concave 20000 scarce 2+9'
        """
        words = [str(self.world), str(self.shape), str(self.customers), self.caps, f"{self.at_random}+{self.decided}"]
        words += [f"control {self.control:g}"] if self.control else []
        words += [] if self.exploration is None else [f"exploration {self.exploration:g}"]
        words += [] if self.forgetting is None else [f"forgetting {self.forgetting:g}"]
        words += [f"retrained every {self.retrain_every}"] if self.retrain_every else []
        return " ".join(words)

    @property
    def name(self) -> str:
        """Of its file: a field that is added later changes no name where it has its default."""
        return f"{self.case} seed {self.seed}".replace(" ", "-")

    @property
    def retailer(self) -> RetailerSettings:
        settings = RetailerSettings(customers=self.customers, seed=self.seed)
        return replace(settings, curves=replace(settings.curves, shape=self.shape)).in_world(self.world)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A figure of all codes of a campaign, as its plan forecast it, and what it became; money."""

    expected: float
    lower: float  # ends of the 90% interval
    upper: float
    actual: float

    @classmethod
    def of(cls, expected: Estimate, actual: float) -> "Forecast":
        lower, upper = expected.ends or (np.nan, np.nan)
        return cls(expected=expected.value, lower=float(lower), upper=float(upper), actual=actual)

    @property
    def is_inside(self) -> bool:
        return self.lower <= self.actual <= self.upper

    @property
    def error(self) -> float:
        """Expected over actual, minus 1: above 0 the plan promised too much."""
        return self.expected / self.actual - 1

    @property
    def width(self) -> float:
        """Of the interval, relative to the forecast."""
        return (self.upper - self.lower) / self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOutcome:
    """One decided campaign of a run."""

    number: int  # of all campaigns, from 0
    gain: float  # true expected objective over random allocation with the same codes, minus 1
    possible: float  # the same of an oracle
    rule: float  # the same of `rule_scores`
    revenue: Forecast | None  # None: nothing was learned before
    markdown: Forecast | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run showed."""

    run: Run
    label: str
    source: str  # of the package that ran
    seconds: float
    campaigns: tuple[CampaignOutcome, ...]

    def to_json(self) -> str:
        return _ADAPTER.dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: str) -> "Outcome":
        return _ADAPTER.validate_json(text)


_ADAPTER = TypeAdapter(Outcome)


# ---- a shop in a folder ----


@dataclass(slots=True)
class SimulatedShop:
    """A shop, its simulated customers, and the day both have reached."""

    shop: Shop
    retailer: Retailer

    @classmethod
    def make(cls, folder: Path, run: Run, *, cache: Path) -> "SimulatedShop":
        """On the morning after its history, with a trained network; both come from the cache where they are there."""
        settings = run.retailer
        history, network = history_of(settings, cache=cache), network_of(settings, cache=cache)
        for table in history.iterdir():
            place = folder / "data" / table.stem / "0.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(table, place)  # rows of later days become files of their own beside it
        model = "" if run.forgetting is None else f"model: {{forgetting: {run.forgetting:g}}}\n"
        (folder / "disco.yaml").write_text(f"data: data\nthreads: 1\n{model}", encoding="utf-8")
        (folder / "context.safetensors").write_bytes(network.read_bytes())
        return cls(Shop.open(folder), Retailer.simulate(settings))

    def at(self, day: date) -> Shop:
        """The shop with its clock at the morning of a day."""
        return replace(self.shop, clock=WallClock(datetime.combine(day, time(), UTC)))

    def answer(self, codes: pa.Table, *, step: int) -> Response:
        """The customers answer, and live on until the codes have expired; their rows go into the shop's tables."""
        response = self.retailer.respond(codes)
        for name, rows in response.tables().items():
            pq.write_table(rows, self.shop.folder / "data" / name / f"{step}.parquet")
        self.retailer = response.shop
        return response


def history_of(settings: RetailerSettings, *, cache: Path) -> Path:
    """A folder with the tables of a retailer's history, simulated once."""
    place = cache / f"history-{key_of(settings, source_version(HISTORY_ROOMS))}"
    if not place.is_dir():
        with folder_written_whole(place) as unfinished:
            for name, table in Retailer.simulate(settings).tables().items():
                pq.write_table(table, unfinished / f"{name}.parquet")
    return place


def network_of(settings: RetailerSettings, *, cache: Path) -> Path:
    """The file of the network that was trained on a retailer's history, once."""
    history = history_of(settings, cache=cache)
    place = cache / f"network-{key_of(settings, source_version(NETWORK_ROOMS))}.safetensors"
    if not place.is_file():
        train(history, until=settings.calendar.history_end, seed=settings.seed, out=place)  # written whole
    return place


def train(tables: Path, *, until: date, seed: int, out: Path) -> None:
    """As `disco train context` does, on the last three months before a day."""
    month = until.year * 12 + until.month - 1 - TRAINING_MONTHS
    train_context(
        ContextNetwork(seed=seed, device="cpu", habits=ShopSettings.model_validate({}).habits),
        lambda place: open_tables(place),
        out=out,
        tables=str(tables),
        window_start=date(month // 12, month % 12 + 1, 1),
        months=TRAINING_MONTHS,
        threads=1,
    )


# ---- a run ----


def play(run: Run, *, cache: Path) -> tuple[CampaignOutcome, ...]:
    """Play all campaigns of a run in a shop of its own; the decided ones."""
    found = []
    cache.mkdir(parents=True, exist_ok=True)
    with temporary_folder("year") as folder:
        here = SimulatedShop.make(folder, run, cache=cache)
        with here.shop.store(missing="create") as store:
            here.shop = replace(here.shop, held_store=store)
            for number in range(run.at_random + run.decided):
                if number < run.at_random:
                    _campaign(here, run, number=number)
                    continue
                found.append(_campaign(here, run, number=number))
                done = number + 1 - run.at_random
                if run.retrain_every and done % run.retrain_every == 0 and done < run.decided:
                    _retrain(here, run)
    return tuple(found)


def name_of(number: int) -> str:
    return f"c{number:02d}"


def _plan(run: Run, *, number: int, as_of: date) -> dict[str, Any]:
    is_random = number < run.at_random
    shares = SHARES[FILLED if is_random else run.caps]
    policy: dict[str, Any] = {"name": "random"} if is_random else {"name": "thompson"}
    if run.exploration is not None and not is_random:
        policy["exploration"] = run.exploration
    return {
        "campaign": name_of(number),
        "customers": {"table": "customers", "as_of": as_of},
        "depths": {depth: {"at_most": share} for depth, share in zip(DEPTHS, shares, strict=True)},
        "objective": {"revenue_weight": REVENUE_WEIGHT},
        "policy": policy,
        "control": {"share": 0.0 if is_random else run.control},
        "valid": {"from": as_of + timedelta(days=LEAD_DAYS), "days": VALID_DAYS},
        "seed": run.seed,
    }


def _campaign(here: SimulatedShop, run: Run, *, number: int) -> CampaignOutcome:
    today = here.retailer.today
    shop, before = here.at(today), here.retailer
    planned = shop.plan(_plan(run, number=number, as_of=today)).planned
    rule = rule_choice(here, run, planned) if number >= run.at_random else None
    shop.launch(planned.plan_id)
    with shop.store() as store:
        codes = export_codes(store, planned.plan.campaign)
    response = here.answer(codes, step=number + 1)
    shop = here.at(here.retailer.today + timedelta(days=LEAD_DAYS))  # the days of grace are over
    shop.ingest(planned.plan.campaign, response.outcomes)
    shop.learn(planned.plan.campaign)
    return _judged(planned, rule, before, codes, response.outcomes, number=number)


def _judged(
    planned: Planned, rule: Integers | None, retailer: Retailer, codes: pa.Table, outcomes: pa.Table, *, number: int
) -> CampaignOutcome:
    decisions, plan = planned.decisions, planned.plan
    arm = np.asarray(decisions["arm"].to_pylist(), object) == "decided"
    depth = np.nan_to_num(decisions["depth"].to_numpy())
    choice = np.where(depth > 0, np.searchsorted(DEPTHS, depth), -1)
    ids = decisions["customer_id"].to_numpy()
    truth = retailer.truth(ids[arm], DEPTHS, channel=str(plan.channel_name), on=plan.valid.start)
    law: dict[str, Any] = {
        "full_price": truth.expected_full_price,
        "purchase_probability": truth.purchase_probability,
        "depths": DEPTHS,
        "revenue_weight": REVENUE_WEIGHT,
    }
    found = judge(choice[arm], **law)
    place = pc.index_in(outcomes["code"].combine_chunks(), codes["code_id"].combine_chunks())
    off, full_price = codes["depth"].take(place).to_numpy(), outcomes["full_price"].to_numpy()
    total = planned.total
    return CampaignOutcome(
        number=number,
        gain=found.objective_uplift,
        possible=found.oracle_objective / found.random_objective - 1,
        rule=np.nan if rule is None else judge(rule[arm], **law).objective_uplift,
        revenue=Forecast.of(total.revenue, float(objective.revenue(full_price, off).sum())) if total else None,
        markdown=Forecast.of(total.markdown, float(objective.markdown(full_price, off).sum())) if total else None,
    )


def _retrain(here: SimulatedShop, run: Run) -> None:
    """A network on the last three months, and everything learned again for it, as `disco learn --rebuild` does."""
    today = here.retailer.today
    train(here.shop.folder / "data", until=today, seed=run.seed, out=here.shop.folder / here.shop.settings.context)
    here.at(today + timedelta(days=LEAD_DAYS)).rebuild()


# ---- the rule of thumb ----


def rule_choice(here: SimulatedShop, run: Run, planned: Planned) -> Integers:
    """Whom a rule of thumb would give which code, under the caps of a plan: place in DEPTHS, −1 = none, (n,).

    A customer counts by `rule_scores`, a depth by the full price that a random code of it brought. The allocation is
    the product's own.
    """
    since = pa.scalar(datetime.combine(here.retailer.today - timedelta(days=365), time()), pa.timestamp("us"))
    data = here.shop.folder / "data"
    orders = pq.read_table(data / "orders", columns=["customer_id", "ordered_at", "full_price", "code"])
    codes = pq.read_table(
        data / "codes", columns=["code_id", "customer_id", "campaign_id", "depth", "sent_at", "redeemed_at"]
    )
    orders, codes = (
        table.filter(pc.greater_equal(table[column], since))
        for table, column in ((orders, "ordered_at"), (codes, "sent_at"))
    )
    score = rule_scores(planned.decisions["customer_id"].combine_chunks(), orders=orders, codes=codes)
    brought = np.ones(len(DEPTHS))
    if run.at_random:
        tried = codes.filter(pc.is_in(codes["campaign_id"], pa.array([name_of(at) for at in range(run.at_random)])))
        place = pc.index_in(tried["code_id"], orders["code"].combine_chunks())
        full_price = np.nan_to_num(orders["full_price"].take(place).to_numpy())
        brought = np.array([full_price[tried["depth"].to_numpy() == depth].mean() for depth in DEPTHS])
    values = objective.values(
        np.asfortranarray(score[:, None] * brought),
        np.asarray(DEPTHS),
        np.ones(len(DEPTHS)),
        revenue_weight=REVENUE_WEIGHT,
    )
    caps = [int(share * score.size) for share in SHARES[run.caps]]
    return allocate(values, caps).choice


def rule_scores(ids: pa.Array, *, orders: pa.Table, codes: pa.Table) -> Vector:
    """(redeemed + 1) / (received + 6) · (average basket + 60) of each customer, (n,).

    >>> ids = pa.array(["a", "b"])
    >>> orders = pa.table({"customer_id": ["a", "a"], "full_price": [30.0, 50.0]})
    >>> codes = pa.table({"customer_id": ["a", "a", "a", "b"], "redeemed_at": [1, None, None, None]})
    >>> rule_scores(ids, orders=orders, codes=codes).round(2).tolist()
    [22.22, 8.57]
    """

    def counted(table: pa.Table, weights: Vector | None = None) -> Vector:
        place = pc.index_in(table["customer_id"], ids)
        here = pc.is_valid(place).to_numpy()
        rows = place.drop_null().to_numpy()
        return np.bincount(rows, weights=None if weights is None else weights[here], minlength=len(ids)).astype(
            np.float64
        )

    bought, spent = counted(orders), counted(orders, orders["full_price"].to_numpy())
    received = counted(codes)
    redeemed = counted(codes, codes["redeemed_at"].is_valid().to_numpy().astype(np.float64))
    return np.asarray((redeemed + 1) / (received + 6) * (spent / np.maximum(bought, 1) + 60), np.float64)
