"""Every engine, one contract: results in order, chunks taken as results are used, errors passed on; and whatever the
engine and the size of a chunk, every room gives the same bytes."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba import cloudpickle
from spark_cluster import spark_engine

from disco.adapters.config import load_settings
from disco.adapters.engines import LocalEngine
from disco.adapters.engines.spark import SparkEngine
from disco.allocation import allocate, frontier
from disco.allocation import table as tables
from disco.belief import BasketModel, Engagement, Evidence, RadialBasis, evidence
from disco.campaign import Belief, decide
from disco.features import ContextNetwork
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
from disco.policy.propensity import propensities
from disco.records import chunks
from disco.records.decisions import Audience, Offer
from disco.records.errors import InputError
from disco.records.identity import customer_keys
from disco.testing import check_engine


class ElsewhereEngine:
    """What a cluster does to a chunk: it works on copies, in an order of its own. Nothing but results comes back."""

    def map(self, function: Callable[[Any], Any], chunks: Iterable[Any]) -> Iterator[Any]:
        for window in _windows(chunks, 3):
            results = {}
            for place in reversed(range(len(window))):
                sent = cloudpickle.dumps((function, window[place]))
                there, chunk = cloudpickle.loads(sent)
                results[place] = there(chunk)
            yield from (results[place] for place in range(len(window)))


def _windows(chunks: Iterable[Any], size: int) -> Iterator[list[Any]]:
    window: list[Any] = []
    for chunk in chunks:
        window.append(chunk)
        if len(window) == size:
            yield window
            window = []
    if window:
        yield window


ENGINES = {
    "one thread": LocalEngine(threads=1),
    "two threads": LocalEngine(threads=2),
    "four threads": LocalEngine(threads=4),
    "the default": LocalEngine(),
    "elsewhere": ElsewhereEngine(),
}


@pytest.fixture(scope="module", params=[*ENGINES, "spark"])
def engine(request):
    if request.param != "spark":
        yield ENGINES[request.param]
        return
    with spark_engine() as engine:
        from pyspark import cloudpickle as own_cloudpickle

        own_cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors cannot import a test
        yield engine


def test_it_keeps_what_authors_of_engines_are_asked_for(engine):
    check_engine(engine)


def test_an_engine_that_breaks_a_promise_is_told_which():
    class Backwards:
        def map(self, function, chunks):
            return iter([function(chunk) for chunk in chunks][::-1])

    with pytest.raises(AssertionError, match="Broken promise: results come in order"):
        check_engine(Backwards())


def test_chunks_are_taken_as_results_are_used_so_that_memory_stays_bounded(engine):
    taken = []

    def numbers():
        for number in range(100):
            taken.append(number)
            yield number

    results = engine.map(lambda chunk: chunk, numbers())
    assert next(results) == 0
    assert len(taken) <= 2 * getattr(engine, "threads", 2)
    results.close()


def test_the_first_error_in_the_order_of_the_chunks_reaches_the_caller(engine):
    with pytest.raises(ZeroDivisionError):
        list(engine.map(lambda chunk: 1 // chunk, [1, 0, 2]))


# ---- the rooms on every engine, bit for bit --------------------------------------------------------------------------

ROWS = 3000
DEPTHS = (0.1, 0.2, 0.4)
rng = np.random.default_rng(3)
CONTEXT = np.rint(rng.normal(size=(ROWS, 2)).clip(-4, 4) * 65536) / 65536
DEPTH = rng.choice(DEPTHS, ROWS)
FULL_PRICE = np.exp(3 + 0.4 * CONTEXT[:, 0] + (0.5 + 0.3 * CONTEXT[:, 1]) * DEPTH + rng.normal(0, 0.6, ROWS))
BASKET = BasketModel(encoding=RadialBasis(centres=(0.1, 0.4), gamma=5)).update(CONTEXT, DEPTH, FULL_PRICE)
CURVES = BasketModel(encoding=RadialBasis(centres=(0.1, 0.4), gamma=5), monotone=True).update(
    CONTEXT, DEPTH, FULL_PRICE
)
BELIEF = Belief(basket=BASKET, engagement=Engagement())
PEOPLE = Audience(ids=np.arange(ROWS), context=CONTEXT, known=np.ones(ROWS, np.bool_))
LIMITS = Offer(depths=DEPTHS, caps=(800, 400, 200), revenue_weight=3.0, budget=2000.0)
VALUES = np.asfortranarray(rng.lognormal(size=(20_000, 4)))
FITTED_ON = rng.lognormal(size=(500, 4)), rng.normal(size=500)
FEATURES = rng.lognormal(size=(ROWS, 4))


@cache
def network():
    """Trained by the first test that asks: every process collects this file, and one of them runs it."""
    return ContextNetwork(heads="level", max_epochs=1, hidden=(8,), dimensions=3).fit(*FITTED_ON)


def drawn(policy, dtype=np.float64, model=BASKET):
    return lambda engine: policy.full_prices(
        model, CONTEXT, DEPTHS, ids=PEOPLE.ids, seed=1, campaign="c", dtype=dtype, engine=engine
    )


def decided(engine):
    found = decide(PEOPLE, belief=BELIEF, offer=LIMITS, policy=Thompson(), campaign="c", seed=1, engine=engine)
    return np.column_stack((found.choice, found.value, np.nan_to_num(found.expected_full_price)))


def likely(engine):
    def worth(seed):
        return Thompson().full_prices(BASKET, CONTEXT, DEPTHS, ids=PEOPLE.ids, seed=seed, campaign="c", engine=engine)

    def solve(values):
        return allocate(values, [800, 400, 200], engine=engine)

    return propensities(Thompson(), seed=1, worth=worth, solve=solve, draws=2).counts


WORK = {
    "thompson": drawn(Thompson()),
    "thompson, one draw for the round": drawn(Thompson(scope="round")),
    "thompson, float32": drawn(Thompson(), np.float32),
    "thompson, monotone": drawn(Thompson(), model=CURVES),
    "ucb": drawn(UpperConfidence()),
    "greedy": drawn(Greedy()),
    "epsilon_greedy": drawn(EpsilonGreedy(epsilon=0.5)),
    "random": drawn(Random()),
    "expected full price": lambda engine: BASKET.expected_full_price(CONTEXT, DEPTHS, engine=engine),
    "expected at the choice": lambda engine: BASKET.expected_at_choice(
        CONTEXT, np.array(DEPTHS), np.arange(ROWS) % 4 - 1, engine=engine
    ),
    "keys of numbers": lambda engine: customer_keys(PEOPLE.ids, engine=engine),
    "keys of texts": lambda engine: customer_keys([f"c{n}" for n in range(ROWS)], engine=engine),
    "evidence": lambda engine: np.array(Evidence.of(CONTEXT, DEPTH, FULL_PRICE, engine=engine).exact(0.2), object),
    "model": lambda engine: BasketModel().update(CONTEXT, DEPTH, FULL_PRICE, engine=engine).posterior.precision,
    "context": lambda engine: network().transform(FEATURES, engine=engine),
    "context of a table": lambda engine: network().transform(
        pa.table({f"x{place}": FEATURES[:, place] for place in range(4)}), engine=engine
    ),
    "predicted ln full price": lambda engine: network().predict(FEATURES, engine=engine),
    "allocation": lambda engine: allocate(VALUES, [4000, 3000, 2000, 1000], engine=engine).choice,
    "allocation with a budget": lambda engine: (
        allocate(VALUES, [4000, 3000, 2000, 1000], costs=VALUES, budget=9000.0, engine=engine).choice
    ),
    "frontier": lambda engine: np.array(
        [point.value for point in frontier(VALUES, 0.5 * VALUES, [4000] * 4, revenue_weights=[1, 2], engine=engine)]
    ),
    "decisions": decided,
    "propensities": likely,
}


def same_layout(one: Any, other: Any) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.flags.f_contiguous == other.flags.f_contiguous


@pytest.mark.parametrize("work", WORK.values(), ids=WORK.keys())
def test_no_result_depends_on_the_engine_or_on_the_size_of_a_chunk(engine, work, monkeypatch):
    whole = work(None)  # fewer rows than a chunk has: one chunk on this thread
    for size in (977,) if isinstance(engine, SparkEngine) else (977, 4096):
        monkeypatch.setattr(chunks, "CHUNK_ROWS", size)
        monkeypatch.setattr(tables, "CHUNK", size)
        monkeypatch.setattr(evidence, "_CHUNK_ROWS", size)
        found = work(engine)
        assert same_layout(found, whole)
        np.testing.assert_array_equal(found, whole)


def test_a_wrong_row_is_named_by_its_number_in_the_whole_table(engine, monkeypatch):
    monkeypatch.setattr(evidence, "_CHUNK_ROWS", 100)
    wrong = FULL_PRICE.copy()
    wrong[[1234, 2000]] = -1.0
    with pytest.raises(InputError, match="full_price, row 1235"):
        Evidence.of(CONTEXT, DEPTH, wrong, engine=engine)


# ---- the local engine and the names of engines -----------------------------------------------------------------------


def test_two_threads_really_run_side_by_side():
    both = threading.Barrier(2, timeout=20)
    assert list(LocalEngine(threads=2).map(lambda chunk: both.wait() >= 0, range(2))) == [True, True]


def test_a_single_chunk_runs_on_the_thread_of_the_caller():
    assert list(LocalEngine(threads=2).map(lambda chunk: threading.get_ident(), [0])) == [threading.get_ident()]


@pytest.mark.parametrize("threads", [0, -1, 100_000, True, 1.5])
def test_threads_that_this_machine_cannot_use_are_refused(threads):
    with pytest.raises(InputError, match=r"threads: found .*; expected a whole number from 1 to \d+"):
        LocalEngine(threads=threads)


def test_one_thread_per_processor_unless_told():
    assert chunks.read_threads(None) == LocalEngine().threads == chunks.processors()


def test_an_engine_of_another_name_is_refused(tmp_path):
    with pytest.raises(InputError, match="'local' or 'spark'"):
        load_settings(tmp_path, flags={"engine": "spork"})
