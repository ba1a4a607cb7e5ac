"""A campaign's life at size: `./run bench campaigns [PART …] [--quick]`.

life      a million decisions launched and a million outcomes ingested, on SQLite and on PostgreSQL
revert    ten batches, the sixth poisoned (× 100): taken back, against a run that never saw it, bit for bit
lookup    one customer's decision among five million
decide    five million customers × eight depths, from stored contexts to a written Parquet of decisions

Every measurement has a process of its own, so its peak of memory is its own (a server's is not in it). Databases lie in
the temporary folder; the PostgreSQL server is a fresh one with its default settings.
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

DEPTHS = (0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45)
CONTEXT = 6
NETWORK = "network"
DATABASES = ("sqlite", "postgresql")


@dataclass(frozen=True)
class FixedClock:
    moment: datetime = datetime(2027, 3, 8, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


class Watch:
    """Seconds per stage, and what they moved."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, float, float]] = []

    @contextmanager
    def stage(self, name: str, amount: float = 0.0) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.stages.append((name, time.perf_counter() - started, amount))


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def alone(job: Callable[..., Any], *arguments: Any) -> Any:
    """The job in a fresh process."""
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(1) as pool:
        return pool.apply(job, arguments)


@contextmanager
def database(kind: str) -> Iterator[str]:
    from disco.adapters.store.trial_server import trial_server

    if kind == "sqlite":
        with TemporaryDirectory(prefix="disco-bench-") as folder:
            yield f"sqlite:///{folder}/campaigns.db"
    else:
        with trial_server() as server:
            server.execute("CREATE DATABASE campaigns")
            yield server.url("campaigns")


# ---- a campaign of any size ----


def audience(rows: int) -> Any:
    from disco.records.decisions import Audience

    context = np.random.default_rng(1).standard_normal((rows, CONTEXT)).clip(-4, 4)
    return Audience(ids=np.arange(rows) + 10**9, context=context, known=np.ones(rows, bool))


def planned(store: Any, rows: int) -> Any:
    """Everybody gets a code, dealt at random: no solve, so that the store's part shows."""
    from disco.belief import BasketModel, Engagement
    from disco.campaign import Belief
    from disco.operations.planning import plan_campaign
    from disco.records.plan import read_plan

    plan = read_plan(
        {
            "campaign": "bench",
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
        belief=Belief(basket=BasketModel(), engagement=Engagement()),
        version=None,
        network=NETWORK,
        inputs={},
        clock=FixedClock(),
    )


def purchases(decisions: pa.Table) -> pa.Table:
    """One purchase per code, in a random order."""
    rng = np.random.default_rng(2)
    rows = decisions.num_rows
    table = pa.table(
        {
            "event_id": pa.array(np.char.add("order-", np.arange(rows).astype(str))),
            "campaign_id": pa.array(["bench"]).take(pa.array(np.zeros(rows, int))),
            "customer_id": decisions["customer_id"],
            "code": decisions["code"],
            "ordered_at": np.datetime64("2027-03-09", "us") + rng.integers(0, 10**12, rows).astype("timedelta64[us]"),
            "full_price": np.round(np.exp(rng.normal(4.0, 0.5, rows)), 2),
            "kind": pa.array(["purchase"]).take(pa.array(np.zeros(rows, int))),
            "refers_to": pa.nulls(rows, pa.string()),
        }
    )
    return table.take(pa.array(rng.permutation(rows)))


# ---- the measurements: each runs alone and returns stages and its peak of memory ----


def life(url: str, rows: int) -> tuple[list[tuple[str, float, float]], float]:
    from disco.adapters.store import CampaignStore
    from disco.operations.launching import launch
    from disco.operations.ledger import ingest

    store, watch = CampaignStore(url), Watch()
    with watch.stage("plan", rows):
        plan = planned(store, rows)
    with watch.stage("launch", rows):
        launched = launch(store, plan, clock=FixedClock())
    outcomes = purchases(launched.decisions)
    with watch.stage("ingest", rows):
        done = ingest(store, "bench", outcomes, source="bench", clock=FixedClock())
    assert done.counts.applied == rows, done.counts
    return watch.stages, peak_gb()


def revert(url: str, rows: int, *, poisoned: bool) -> tuple[list[tuple[str, float, float]], float, bytes]:
    """Ten batches; the sixth × 100 and taken back, or never sent."""
    from disco.adapters.store import CampaignStore
    from disco.operations.launching import launch
    from disco.operations.ledger import ingest
    from disco.operations.ledger import revert as take_back

    store, watch = CampaignStore(url), Watch()
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
    with store.reading() as shelves:
        evidence = shelves.evidence("bench", NETWORK)
    assert evidence is not None
    return watch.stages, peak_gb(), evidence


def lookup(url: str, rows: int) -> tuple[list[float], float]:
    """Milliseconds of single questions, each a transaction of its own; seconds to fill the table."""
    from disco.adapters.store import CampaignStore
    from disco.operations.launching import launch

    store = CampaignStore(url)
    started = time.perf_counter()
    launch(store, planned(store, rows), clock=FixedClock())
    filled = time.perf_counter() - started
    asked = np.random.default_rng(3).integers(0, rows, 200) + 10**9
    took = []
    for customer in asked:
        started = time.perf_counter()
        with store.reading() as shelves:
            found = shelves.decisions("bench", customers=pa.array([customer]))
        took.append(1000 * (time.perf_counter() - started))
        assert found.num_rows == 1
    return took[1:], filled  # the first also compiles the question


def fill_contexts(url: str, rows: int) -> None:
    """A campaign of the store with contexts alone."""
    from disco.adapters.store import CampaignStore
    from disco.records.life import CampaignRecord, State

    store = CampaignStore(url)
    plan = planned(store, 10)
    with store.writing("bench") as shelves:
        shelves.add_plan(plan.record())
        shelves.add_campaign(
            CampaignRecord(
                campaign="bench",
                plan_id=plan.plan_id,
                plan=plan.plan,
                state=State.LAUNCHED,
                integer_ids=True,
                context_size=CONTEXT,
                network=NETWORK,
                version=None,
                solution="{}",
                launched_at=FixedClock().now(),
            )
        )
        shelves.add_contexts("bench", NETWORK, audience(rows).context, first_row=0)


def decide_all(url: str, rows: int, out: str) -> tuple[list[tuple[str, float, float]], float]:
    import pyarrow.parquet as pq

    from disco.adapters.engines import LocalEngine
    from disco.adapters.store import CampaignStore
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
    store, watch = CampaignStore(url), Watch()

    def decided(people: Audience) -> Any:
        return decide(people, belief=belief, offer=offer, policy=Thompson(), campaign="b", seed=1, engine=LocalEngine())

    decided(audience(20_000))  # kernels are compiled once per installation, not per campaign
    with watch.stage("read contexts", rows * CONTEXT * 8), store.reading() as shelves:
        context = shelves.contexts("bench", NETWORK)
    with watch.stage("draw, value, allocate", rows * len(DEPTHS) * 8):
        people = Audience(ids=np.arange(rows) + 10**9, context=context, known=np.ones(rows, bool))
        result = decided(people)
    with watch.stage("write Parquet", 0):
        columns = {"customer_id": people.ids, "depth": pa.array(result.depth, from_pandas=True), "value": result.value}
        with written_whole(Path(out)) as partial:
            pq.write_table(pa.table(columns), partial, compression="zstd", compression_level=1)
    name, seconds, _ = watch.stages[-1]
    watch.stages[-1] = (name, seconds, os.path.getsize(out))
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


# ---- what is shown ----


def show_stages(title: str, stages: list[tuple[str, float, float]], peak: float) -> None:
    print(f"{title} (peak {peak:.2f} GB)")
    for name, seconds, rows in stages:
        print(f"  {name:<24}{seconds:8.2f} s   {rows / seconds:>12,.0f} rows/s")


def show_life(rows: int) -> None:
    for kind in DATABASES:
        with database(kind) as url:
            stages, peak = alone(life, url, rows)
        show_stages(f"life, {kind}: {rows:,} decisions, {rows:,} outcomes", stages, peak)


def show_revert(rows: int) -> None:
    for kind in DATABASES:
        with database(kind) as url:
            stages, peak, evidence = alone(_poisoned, url, rows)
        with database("sqlite") as url:
            _, _, without = alone(_unpoisoned, url, rows)
        show_stages(f"revert, {kind}: {rows:,} outcomes in ten batches", stages, peak)
        print(f"  evidence equal to a run without the batch, bit for bit: {evidence == without}")


def _poisoned(url: str, rows: int) -> Any:
    return revert(url, rows, poisoned=True)


def _unpoisoned(url: str, rows: int) -> Any:
    return revert(url, rows, poisoned=False)


def show_lookup(rows: int) -> None:
    for kind in DATABASES:
        with database(kind) as url:
            took, filled = alone(lookup, url, rows)
        worst = statistics.quantiles(took, n=100)[98]
        print(
            f"lookup, {kind}: one customer's decision among {rows:,}: median {statistics.median(took):.2f} ms, "
            f"99 % within {worst:.2f} ms (planned and launched in {filled:.0f} s)"
        )


def show_decide(rows: int) -> None:
    with TemporaryDirectory(prefix="disco-bench-") as folder:
        memory, disk = machine_limits(folder)
        url = f"sqlite:///{folder}/contexts.db"
        alone(fill_contexts, url, rows)
        stages, peak = alone(decide_all, url, rows, f"{folder}/decisions.parquet")
    total = sum(seconds for _, seconds, _ in stages)
    print(f"decide: {rows:,} customers × {len(DEPTHS)} depths: {total:.1f} s, peak {peak:.2f} GB")
    print(f"  limits of this machine now: memory {memory / 1e9:.1f} GB/s read, disk {disk / 1e9:.2f} GB/s written")
    for (name, seconds, moved), limit in zip(stages, (memory, memory, disk), strict=True):
        print(f"  {name:<24}{seconds:8.2f} s   {moved / 1e6:>8,.0f} MB moved at the limit: {moved / limit:.2f} s")


PARTS = {"life": (show_life, 10**6), "revert": (show_revert, 10**6), "lookup": (show_lookup, 5 * 10**6)}
PARTS["decide"] = (show_decide, 5 * 10**6)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench campaigns", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the size")
    asked = parser.parse_args()
    for name in asked.parts or PARTS:
        if name not in PARTS:
            parser.error(f"found the part '{name}'; expected some of: {', '.join(PARTS)}")
        show, rows = PARTS[name]
        print(f"[load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors]")
        show(rows // 20 if asked.quick else rows)


if __name__ == "__main__":
    main()
