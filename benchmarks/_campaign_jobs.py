"""The measurements of `campaigns.py`: each runs in a process of its own and returns its stages and peak of memory."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

DEPTHS = (0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45)
CONTEXT = 6
NETWORK = "network"
_KEPT = ("event_id", "customer_id", "code", "ordered_at", "full_price")


@dataclass(frozen=True)
class FixedClock:
    moment: datetime = datetime(2027, 3, 8, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


@dataclass(frozen=True)
class Stage:
    """What one step took: on the clock, and of this process's processors; `amount` rows or bytes."""

    name: str
    seconds: float
    processor_seconds: float
    amount: float


class Watch:
    def __init__(self) -> None:
        self.stages: list[Stage] = []

    @contextmanager
    def stage(self, name: str, amount: float = 0.0) -> Iterator[None]:
        clock, processor = time.perf_counter(), time.process_time()
        yield
        self.stages.append(Stage(name, time.perf_counter() - clock, time.process_time() - processor, amount))


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


# ---- a campaign of any size ----


def audience(rows: int) -> Any:
    from disco.records.decisions import Audience

    context = np.random.default_rng(1).standard_normal((rows, CONTEXT)).clip(-4, 4)
    return Audience(ids=np.arange(rows) + 10**9, context=context, known=np.ones(rows, bool))


def planned(store: Any, rows: int, campaign: str = "bench") -> Any:
    """Everybody gets a code, assigned at random: no solve, so that the store's part shows."""
    from disco.operations.plan import plan_campaign
    from disco.records.plan import read_plan

    plan = read_plan(
        {
            "campaign": campaign,
            "customers": {"as_of": "2027-03-01"},
            "depths": {depth: {"at_most": rows} for depth in DEPTHS},
            "objective": {"revenue_weight": 3},
            "policy": {"name": "random"},
            "valid": {"from": "2027-03-08", "days": 14},
        }
    )
    return plan_campaign(
        store,
        plan,
        audience(rows),
        belief=no_belief(),
        version=None,
        network=NETWORK,
        inputs={},
        clock=FixedClock(),
    )


def no_belief() -> Any:
    from disco.belief import BasketModel, Engagement
    from disco.campaign import Belief

    return Belief(basket=BasketModel(), engagement=Engagement())


def purchases(decisions: pa.Table, campaign: str = "bench") -> pa.Table:
    """One purchase per code, in a random order."""
    rng = np.random.default_rng(2)
    rows = decisions.num_rows
    table = pa.table(
        {
            "event_id": pa.array(np.char.add("order-", np.arange(rows).astype(str))),
            "campaign_id": pa.array([campaign]).take(pa.array(np.zeros(rows, int))),
            "customer_id": decisions["customer_id"],
            "code": decisions["code"],
            "ordered_at": np.datetime64("2027-03-09", "us") + rng.integers(0, 10**12, rows).astype("timedelta64[us]"),
            "full_price": np.round(np.exp(rng.normal(4.0, 0.5, rows)), 2),
            "kind": pa.array(["purchase"]).take(pa.array(np.zeros(rows, int))),
            "refers_to": pa.nulls(rows, pa.string()),
        }
    )
    return table.take(pa.array(rng.permutation(rows)))


def opened(url: str) -> Any:
    """The store of a URL, with its artefacts beside the database or in the server's folder."""
    from disco.store import Store

    return Store(url, place_of(url) / "artefacts")


def place_of(url: str) -> Path:
    """The folder of the database, or of the server."""
    place = url.removeprefix("sqlite:///") if url.startswith("sqlite") else url.partition("host=")[2]
    return Path(place) if Path(place).is_dir() else Path(place).parent


# ---- the measurements: each runs alone and returns stages and its peak of memory ----


def life(url: str, rows: int) -> tuple[list[Stage], float]:
    from disco.operations.launch import launch
    from disco.operations.outcomes import ingest

    store, watch = opened(url), Watch()
    with watch.stage("plan", rows):
        plan = planned(store, rows)
    with watch.stage("launch", rows):
        launched = launch(store, plan, clock=FixedClock())
    outcomes = purchases(launched.decisions)
    del plan, launched  # whoever ingests has neither
    with watch.stage("ingest", rows):
        done = ingest(store, "bench", outcomes, source="bench", clock=FixedClock())
    assert done.counts.applied == rows, done.counts
    peak = peak_gb()  # before the driver's values are made
    clock, processor = write_plainly(url, outcomes)
    watch.stages.append(Stage("rows and two indexes", clock, processor, rows))
    watch.stages.append(Stage("a file with two indexes", *write_file(url, outcomes), rows))
    return watch.stages, peak


def refunds(url: str, rows: int) -> tuple[list[Stage], float]:
    """A batch of which four rows in five give back a part of a purchase of the fifth."""
    from disco.operations.launch import launch
    from disco.operations.outcomes import ingest

    store, watch = opened(url), Watch()
    bought = purchases(launch(store, planned(store, rows // 5), clock=FixedClock()).decisions)
    back = bought.take(pa.array(np.repeat(np.arange(bought.num_rows), 4)))
    changed = {
        "event_id": pa.array(np.char.add("refund-", np.arange(back.num_rows).astype(str))),
        "full_price": np.round(back["full_price"].to_numpy() / 5, 2),
        "kind": pa.array(["refund"]).take(pa.array(np.zeros(back.num_rows, int))),
        "refers_to": back["event_id"],
    }
    back = pa.table({name: changed.get(name, back[name]) for name in back.column_names})
    outcomes = pa.concat_tables([bought, back])
    outcomes = outcomes.take(pa.array(np.random.default_rng(4).permutation(outcomes.num_rows)))
    with watch.stage("ingest", rows):
        done = ingest(store, "bench", outcomes, source="bench", clock=FixedClock())
    assert done.counts.applied == outcomes.num_rows, done.counts
    peak = peak_gb()
    watch.stages.append(Stage("rows and two indexes", *write_plainly(url, outcomes), rows))
    return watch.stages, peak


def write_file(url: str, outcomes: pa.Table) -> tuple[float, float]:
    """Another limit: the same columns in one file, and the sorted keys of two of them in two others, all synced."""
    from disco.records.identity import customer_keys

    folder = place_of(url)
    started = time.perf_counter(), time.process_time()
    keys = [np.sort(customer_keys(outcomes[name])) for name in ("event_id", "code")]
    tables = [outcomes.select(list(_KEPT)), *(pa.table({"key": each}) for each in keys)]
    for place, table in enumerate(tables):
        with open(folder / f"plain-{place}", "wb") as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - started[0], time.process_time() - started[1]


def write_plainly(url: str, outcomes: pa.Table) -> tuple[float, float]:
    """The limit: the same rows by the driver alone, in one transaction, and two indexes built from them.

    Seconds of the clock and of this process's processors, without making the driver's values.
    """
    columns = _KEPT
    cells = outcomes.select(list(columns)).set_column(3, "ordered_at", outcomes["ordered_at"].cast(pa.int64()))
    cells = cells.set_column(4, "full_price", pa.array((outcomes["full_price"].to_numpy() * 100).astype(int)))
    cell_types = "event_id TEXT, customer_id TEXT, code TEXT, at BIGINT, price BIGINT"
    table = f"CREATE TABLE plain (number INTEGER PRIMARY KEY, {cell_types})"
    indexes = ("CREATE INDEX plain_event ON plain (event_id)", "CREATE INDEX plain_code ON plain (code)")
    if url.startswith("sqlite"):
        import sqlite3

        values = list(zip(range(len(cells)), *(cells[name].to_pylist() for name in columns), strict=True))
        started = time.perf_counter(), time.process_time()
        driver = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        driver.execute("PRAGMA synchronous = EXTRA")
        driver.execute("BEGIN IMMEDIATE")
        driver.execute(table)
        driver.executemany("INSERT INTO plain VALUES (?, ?, ?, ?, ?, ?)", values)
        for index in indexes:
            driver.execute(index)
        driver.execute("COMMIT")
    else:
        import io

        import psycopg
        import pyarrow.csv as csv

        sink = io.BytesIO()
        numbered = cells.add_column(0, "number", pa.array(np.arange(len(cells))))
        csv.write_csv(numbered, sink, csv.WriteOptions(include_header=False))
        started = time.perf_counter(), time.process_time()
        with psycopg.connect(url) as session:
            session.execute(table)
            with session.cursor() as cursor, cursor.copy("COPY plain FROM STDIN (FORMAT csv)") as copy:
                copy.write(sink.getbuffer())
            for index in indexes:
                session.execute(index)
    return time.perf_counter() - started[0], time.process_time() - started[1]


def second(url: str, rows: int, others: int = 9) -> tuple[list[Stage], float]:
    """A batch into a ledger that holds ten of its size: nine of other campaigns, and one of its own.

    Then the results of the campaign, as of a day on which a sixth of its purchases had been made, and as of the end.
    """
    from disco.operations.launch import launch
    from disco.operations.outcomes import ingest
    from disco.operations.results import read_out

    store, watch = opened(url), Watch()
    for number in range(others):
        campaign = f"other-{number}"
        launched = launch(store, planned(store, rows, campaign), clock=FixedClock())
        outcomes = purchases(launched.decisions, campaign)
        with watch.stage("ingest, empty ledger" if number == 0 else "ingest, another campaign", rows):
            ingest(store, campaign, outcomes, source="bench", clock=FixedClock())
    watch.stages = watch.stages[:1]
    launched = launch(store, planned(store, 2 * rows), clock=FixedClock())
    outcomes = purchases(launched.decisions)
    for name, first in ((f"ingest, {others}th to {others + 1}th", 0), ("ingest, second of its own", rows)):
        with watch.stage(name, rows):
            done = ingest(store, "bench", outcomes.slice(first, rows), source=name, clock=FixedClock())
        assert done.counts.applied == rows, done.counts
    peak = peak_gb()
    for name, day in (("results, early day", date(2027, 3, 10)), ("results, last day", date(2027, 3, 22))):
        with watch.stage(name, 2 * rows):
            read_out(store, "bench", as_of=day)
    return watch.stages, peak


def revert(url: str, rows: int, *, poisoned: bool) -> tuple[list[Stage], float, bytes]:
    """Ten batches; the sixth × 100 and taken back, or never sent."""
    from disco.operations.launch import launch
    from disco.operations.outcomes import ingest
    from disco.operations.outcomes import revert as take_back

    store, watch = opened(url), Watch()
    outcomes = purchases(launch(store, planned(store, rows), clock=FixedClock(), secret=b"s" * 32).decisions)
    batch_ids = {}
    with watch.stage("ingest of the batches", rows):
        for place in range(10):
            part = outcomes.slice(place * rows // 10, rows // 10)
            if place == 5:
                if not poisoned:
                    continue
                wrong = pa.array(part["full_price"].to_numpy() * 100)
                part = part.set_column(part.column_names.index("full_price"), "full_price", wrong)
            batch_ids[place] = ingest(store, "bench", part, source=f"batch {place}", clock=FixedClock()).batch_id
    if poisoned:
        with watch.stage("revert of the sixth", rows // 10):
            take_back(store, batch_ids[5], clock=FixedClock())
    with store.reading() as transaction:
        evidence = transaction.beliefs.evidence("bench", NETWORK)
    assert evidence is not None
    return watch.stages, peak_gb(), evidence


def lookup(url: str, rows: int) -> tuple[dict[str, list[tuple[float, float]]], float]:
    """Milliseconds of single questions, each a transaction of its own, on the clock and of processors; seconds to fill
    the table."""
    from disco.operations.explain import explain
    from disco.operations.launch import launch

    store = opened(url)
    started = time.perf_counter()
    launch(store, planned(store, rows), clock=FixedClock())
    filled = time.perf_counter() - started
    prior = no_belief()

    def decision(customer: int) -> None:
        with store.reading() as transaction:
            assert transaction.decisions.of("bench", customers=pa.array([customer])).num_rows == 1

    def explanation(customer: int) -> None:
        assert explain(store, "bench", customer, prior=prior).customer == customer

    took: dict[str, list[tuple[float, float]]] = {}
    for question in (decision, explanation):
        times = took.setdefault(question.__name__, [])
        for customer in (np.random.default_rng(3).integers(0, rows, 201) + 10**9).tolist():
            clock, processor = time.perf_counter(), time.process_time()
            question(customer)
            times.append((1000 * (time.perf_counter() - clock), 1000 * (time.process_time() - processor)))
        del times[0]  # the first also compiles the question, and compares the bytes of files with their names
    return took, filled


def fill_contexts(url: str, rows: int) -> None:
    """A campaign of the store without codes."""
    from disco.records.campaign_records import CampaignRecord, State

    store = opened(url)
    plan = planned(store, rows)
    with store.writing("bench", action="test") as transaction:
        transaction.plans.add(plan.record(), plan.tables())
        transaction.plans.launch(
            CampaignRecord(
                campaign="bench",
                plan_id=plan.plan_id,
                plan=plan.plan,
                state=State.LAUNCHED,
                integer_ids=True,
                context_size=CONTEXT,
                network=NETWORK,
                version=None,
                solution=plan.solution,
                launched_at=FixedClock().now(),
            )
        )


def decide_all(url: str, rows: int, out: str) -> tuple[list[Stage], float]:
    import pyarrow.parquet as pq

    from disco.adapters.engines import LocalEngine
    from disco.belief import BasketModel, Engagement, RadialBasis
    from disco.campaign import Belief, decide
    from disco.policy import Thompson
    from disco.records.decisions import Audience, Offer
    from disco.records.files import written_whole

    rng = np.random.default_rng(4)
    seen = rng.standard_normal((50_000, CONTEXT)).clip(-4, 4)
    basket = BasketModel(encoding=RadialBasis((0.25, 0.5, 0.75), gamma=20)).update(
        seen, rng.choice(DEPTHS, len(seen)), np.exp(rng.normal(4, 0.7, len(seen)))
    )
    belief = Belief(basket=basket, engagement=Engagement())
    offer = Offer(depths=DEPTHS, caps=(rows // 10,) * len(DEPTHS), revenue_weight=3.0)
    store, watch = opened(url), Watch()

    class Timed(Thompson):
        """Notes when the last chunk was drawn: what follows is the solve."""

        clock = processor = 0.0

        def full_prices(self, *arguments: Any, **named: Any) -> Any:
            drawn = super().full_prices(*arguments, **named)
            Timed.clock, Timed.processor = time.perf_counter(), time.process_time()
            return drawn

    def decided(people: Audience) -> Any:
        return decide(people, belief=belief, offer=offer, policy=Timed(), campaign="b", seed=1, engine=LocalEngine())

    decided(audience(20_000))  # kernels are compiled once per installation, not per campaign
    with watch.stage("read contexts", rows * CONTEXT * 8), store.reading() as transaction:
        context = transaction.contexts.of("bench", NETWORK)
    people = Audience(ids=np.arange(rows) + 10**9, context=context, known=np.ones(rows, bool))
    values = rows * len(DEPTHS) * 8  # bytes
    clock, processor = time.perf_counter(), time.process_time()
    result = decided(people)
    watch.stages.append(
        Stage("draw and value", Timed.clock - clock, Timed.processor - processor, rows * CONTEXT * 8 + values)
    )
    clock, processor = time.perf_counter() - Timed.clock, time.process_time() - Timed.processor
    watch.stages.append(Stage("allocate, expect", clock, processor, values))
    with watch.stage("write Parquet", 0):
        columns = {"customer_id": people.ids, "depth": pa.array(result.depth, from_pandas=True), "value": result.value}
        with written_whole(Path(out)) as partial:
            pq.write_table(pa.table(columns), partial, compression="zstd", compression_level=1)
    watch.stages[-1] = replace(watch.stages[-1], amount=os.path.getsize(out))
    return watch.stages, peak_gb()


def machine_limits(folder: str) -> tuple[float, float]:
    """Bytes per second: memory read by one thread, disk written and synced."""
    block = np.ones(2**25)
    reads = []
    for _ in range(5):
        started = time.perf_counter()
        block.sum()
        reads.append(block.nbytes / (time.perf_counter() - started))
    started = time.perf_counter()
    with open(Path(folder, "probe"), "wb") as file:
        file.write(block.tobytes())
        file.flush()
        os.fsync(file.fileno())
    written = block.nbytes / (time.perf_counter() - started)
    os.unlink(Path(folder, "probe"))
    return max(reads), written
