"""Random offers with budgets, segments and floors, decided by `decide` and by `decide_table`: equal, none excepted.

    ./run drill budgets decisions [--offers 1000] [--seed 1] [--spark 0]

Rounds of 30 to 2,000 customers, whose contexts the table route gets in another order and in several chunks. Decisions,
values, bounds and how the solve ended must be the same, to the last bit, and so must be refusals of limits that
contradict each other. --spark: the first so many on Spark too.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco import LocalEngine, decide_table
from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, expected_costs, learn
from disco.policy import Thompson
from disco.records.decisions import Audience, Decisions, Offer, Purchases, SegmentLimits
from disco.records.errors import InfeasibleError

DEPTHS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
LABELS = np.array(["AT", "CH", "DE"])


class Round(NamedTuple):
    """One random offer, the customers it is for, and what kind it is."""

    audience: Audience
    offer: Offer
    kind: str


def _belief() -> Belief:
    rng = np.random.default_rng(3)
    context = _contexts(rng, 400)
    depth = rng.choice(DEPTHS, 400)
    price = np.exp(3 + 0.4 * context[:, 0] + depth + rng.normal(0, 0.5, 400))
    codes = EngagementCounts(DEPTHS, [900] * 6, [60, 80, 95, 110, 140, 170])
    seen = Purchases(context=context, depth=depth, full_price=price)
    return learn(Belief(basket=BasketModel(), engagement=Engagement()), [Lesson.of("spring", seen, codes)])


def _contexts(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.rint(rng.normal(size=(rows, 2)).clip(-4, 4) * 65536) / 65536


BELIEF = _belief()


def instance(seed: int, number: int) -> Round:
    """A round with a budget; segments in every second, floors in every third one."""
    rng = np.random.default_rng([seed, number, 135])
    customers = int(np.exp(rng.uniform(np.log(30), np.log(2_001))))
    columns = int(rng.integers(1, len(DEPTHS) + 1))
    depths = tuple(sorted(rng.choice(DEPTHS, columns, replace=False).tolist()))
    shares = 10.0 ** rng.uniform(-1.5, 0.0, columns)
    caps = np.maximum((rng.uniform(0.2, 1.2) * customers * shares / shares.sum()).astype(int), 1)
    limited = rng.random(columns) < 0.8
    floors = (caps * rng.uniform(0.0, 0.5, columns)).astype(int) if number % 3 == 0 else None
    segments = None
    if number % 2 == 0:
        segments = {
            str(label): SegmentLimits(
                caps=tuple(int(cap) if rng.random() < 0.7 else None for cap in np.ceil(caps * rng.uniform(0.2, 0.8))),
                floors=tuple(int(cap * rng.uniform(0.0, 0.1)) if number % 6 == 0 else 0 for cap in caps),
            )
            for label in LABELS[:2]
        }
    audience = Audience(
        ids=rng.permutation(10 * customers)[:customers],
        context=_contexts(rng, customers),
        known=True,
        segment=rng.choice(LABELS, customers),
    )
    limits: dict[str, Any] = {
        "depths": depths,
        "caps": tuple(int(cap) if bounded else None for cap, bounded in zip(caps, limited, strict=True)),
        "revenue_weight": float(rng.uniform(1.5, 4.0)),
        "floors": None if floors is None else tuple(floors.tolist()),
        "segments": segments,
    }
    costs = expected_costs(audience, belief=BELIEF, offer=Offer(**limits, budget=1.0))
    budget = float(rng.uniform(0.02, 0.6) * costs.max(axis=1).sum())
    words = ["budget", *(["segments"] if segments else []), *(["floors"] if floors is not None else [])]
    return Round(audience, Offer(**limits, budget=budget), ", ".join(words))


def decided(drawn: Round) -> Decisions | None:
    """By `decide`; None: the limits contradict each other."""
    try:
        return decide(drawn.audience, belief=BELIEF, offer=drawn.offer, **_HOW)
    except InfeasibleError:
        return None


_HOW: dict[str, Any] = {"policy": Thompson(), "campaign": "autumn", "seed": 5}


@contextmanager
def _written(drawn: Round, seed: int) -> Iterator[Path]:
    """The contexts as a folder of three files, in another order."""
    audience = drawn.audience
    columns = {
        "customer_id": audience.ids,
        "x1": audience.context[:, 0],
        "x2": audience.context[:, 1],
        "segment": audience.segment,
    }
    order = np.random.default_rng(seed).permutation(len(audience))
    table = pa.table(columns).take(pa.array(order))
    with tempfile.TemporaryDirectory() as folder:
        third = len(audience) // 3 + 1
        for number in range(3):
            pq.write_table(table.slice(number * third, third), Path(folder) / f"{number}.parquet")
        yield Path(folder)


def check(drawn: Round, whole: Decisions | None, engine: Any, *, seed: int = 0) -> None:
    """AssertionError where `decide_table` decides otherwise than `decide`."""
    with _written(drawn, seed) as folder:
        try:
            with decide_table(engine.table(folder), belief=BELIEF, offer=drawn.offer, **_HOW) as found:
                assert whole is not None, "decide refuses limits that decide_table meets"
                assert found.decisions is not None
                rows = pa.Table.from_batches(list(found.decisions.batches()), found.decisions.schema)
                proof = found.proof
        except InfeasibleError:
            assert whole is None, "decide_table refuses limits that decide meets"
            return
    depth = pa.array(np.array(whole.depths)[np.maximum(whole.choice, 0)], mask=whole.choice < 0)
    expected = pa.table({"customer_id": drawn.audience.ids, "depth": depth, "value": whole.value})
    expected, rows = (one.sort_by("customer_id").combine_chunks() for one in (expected, rows))
    others = sum(
        one != other for one, other in zip(rows["depth"].to_pylist(), expected["depth"].to_pylist(), strict=True)
    )
    assert rows.equals(expected), f"{others} of {len(rows)} customers get another depth"
    ends = (proof.bound, proof.gap, proof.status), (whole.bound, whole.gap, whole.status)
    assert ends[0] == ends[1], f"bound, gap and status are {ends[0]}, by decide {ends[1]}"


def drill(
    *, offers: int, seed: int, on_spark: int = 0, say: Callable[[str], None] = lambda _: None
) -> Counter[str]:  # fmt: skip
    """How many offers of each kind were decided alike, or refused alike."""
    ends: Counter[str] = Counter()
    local = LocalEngine(threads=2)
    with _spark(on_spark) as spark:
        for number in range(offers):
            drawn = instance(seed, number)
            whole = decided(drawn)
            try:
                check(drawn, whole, local, seed=number)
                if number < on_spark:
                    check(drawn, whole, spark, seed=number)
                    ends["on Spark too"] += 1
            except AssertionError as error:
                size = len(drawn.audience)
                raise AssertionError(
                    f"offer {number} of seed {seed} ({drawn.kind}, {size} customers): {error}"
                ) from error
            ends[drawn.kind if whole is not None else "refused"] += 1
            if (number + 1) % 100 == 0:
                say(f"{number + 1:>5} offers")
    return ends


@contextmanager
def _spark(offers: int) -> Iterator[Any]:
    if not offers:
        yield None
        return
    from disco import SparkEngine

    engine = SparkEngine(master="local[2]")
    try:
        yield engine
    finally:
        engine.close()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="./run drill budgets decisions", description=__doc__)
    parser.add_argument("--offers", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spark", type=int, default=0, help="of the offers, the first so many on Spark too")
    asked = parser.parse_args(arguments)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    ends = drill(offers=asked.offers, seed=asked.seed, on_spark=asked.spark, say=say)
    for kind, times in sorted(ends.items()):
        print(f"{times:>5} {kind}")
    print(f"{asked.offers} offers: decide and decide_table give equal decisions")
