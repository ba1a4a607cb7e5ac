"""`decide_table` is `decide` for contexts in chunks: on threads and on Spark, for any partition and order of rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_cluster import spark_engine

from disco import LocalEngine, decide_table
from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.policy import Thompson
from disco.records.decisions import Audience, Offer, Purchases, SegmentLimits
from disco.records.errors import InfeasibleError, InputError, SchemaMismatchError

CUSTOMERS = 1_000
DEPTHS = (0.1, 0.2, 0.4)
rng = np.random.default_rng(2)
CONTEXT = np.rint(rng.normal(size=(CUSTOMERS, 2)).clip(-4, 4) * 65536) / 65536
IDS = rng.permutation(10_000)[:CUSTOMERS]
LABELS = rng.choice(["AT", "DE"], CUSTOMERS)
TABLE = pa.table({"customer_id": IDS, "x1": CONTEXT[:, 0], "x2": CONTEXT[:, 1], "segment": LABELS})
LIMITS = {"AT": SegmentLimits(caps=(None, 60, None), floors=(0, 0, 5))}
HOW = {"policy": Thompson(), "campaign": "autumn", "seed": 5}


@pytest.fixture(scope="module", params=["threads", "spark"])
def engine(request):
    if request.param == "threads":
        yield LocalEngine(threads=2)
        return
    with spark_engine() as started:
        yield started


def belief() -> Belief:
    drawn = np.random.default_rng(3)
    context = np.rint(drawn.normal(size=(400, 2)).clip(-4, 4) * 65536) / 65536
    depth = drawn.choice(DEPTHS, 400)
    price = np.exp(3 + 0.4 * context[:, 0] + depth + drawn.normal(0, 0.5, 400))
    seen = Purchases(context=context, depth=depth, full_price=price)
    codes = EngagementCounts(DEPTHS, [900, 900, 900], [80, 110, 170])
    return learn(Belief(basket=BasketModel(), engagement=Engagement()), [Lesson.of("spring", seen, codes)])


@pytest.mark.parametrize("budget", [None, 500.0], ids=["caps and segments", "with a budget"])
def test_the_decisions_are_those_of_decide(engine, tmp_path, budget):
    offer = Offer(depths=DEPTHS, caps=(300, 200, 100), revenue_weight=3.0, budget=budget, segments=LIMITS)
    audience = Audience(ids=IDS, context=CONTEXT, known=True, segment=LABELS)
    whole = decide(audience, belief=belief(), offer=offer, **HOW)
    depth = pa.array(np.array(DEPTHS)[np.maximum(whole.choice, 0)], mask=whole.choice < 0)
    expected = pa.table({"customer_id": IDS, "depth": depth, "value": whole.value}).sort_by("customer_id")
    for files in (1, 4):
        folder = tmp_path / str(files)
        folder.mkdir()
        rows = TABLE.take(pa.array(np.random.default_rng(files).permutation(CUSTOMERS)))
        for number in range(files):
            pq.write_table(rows.slice(number * 250, 250 if files > 1 else CUSTOMERS), folder / f"{number}.parquet")
        with decide_table(engine.table(folder), belief=belief(), offer=offer, **HOW) as found:
            decided = pa.Table.from_batches(list(found.decisions.batches()), found.decisions.schema)
        assert decided.sort_by("customer_id").combine_chunks().equals(expected.combine_chunks())
        assert (found.proof.bound, found.proof.gap, found.status) == (whole.bound, whole.gap, whole.status)


def test_contexts_that_cannot_be_used_are_refused():
    offer = Offer(depths=DEPTHS, caps=(300, 200, 100), revenue_weight=3.0, segments=LIMITS)
    held = LocalEngine(threads=1)

    def refused(table: pa.Table, said: str, kind: type[Exception] = InputError, limits: Offer = offer) -> None:
        with pytest.raises(kind, match=said), decide_table(held.table(table), belief=belief(), offer=limits, **HOW):
            pass

    refused(TABLE.drop_columns(["customer_id"]), "expected a column customer_id")
    refused(TABLE.drop_columns(["segment"]), "a column segment: the offer has segments")
    refused(TABLE.drop_columns(["x2"]), "found 1 columns; expected the 2 columns", SchemaMismatchError)
    refused(pa.concat_tables([TABLE, TABLE.slice(3, 1)]), "each customer once")
    impossible = Offer(depths=DEPTHS, caps=(None,) * 3, floors=(0, 600, 500), revenue_weight=3.0)
    refused(TABLE, "campaign autumn", InfeasibleError, impossible)
