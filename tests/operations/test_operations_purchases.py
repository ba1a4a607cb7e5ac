"""Which rows are in force and what codes stand for: functions of the set of rows, checked against a plain reading."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.operations.purchases import judge, judge_apart, judge_together, net_purchases
from disco.records.campaign_records import Disposition
from disco.store.schema import OUTCOMES

DAY = datetime(2027, 3, 8, tzinfo=UTC)


@dataclass(frozen=True, order=True)
class Row:
    hour: int
    price: int
    kind: str
    code: str | None
    customer: str
    refers: str | None
    event: str


def table(rows):
    return pa.table(
        {
            "batch_id": pa.array(["b"] * len(rows), pa.string()),
            "row": pa.array(range(len(rows)), pa.int64()),
            "event_id": pa.array([row.event for row in rows], pa.string()),
            "customer_id": pa.array([row.customer for row in rows], pa.string()),
            "code": pa.array([row.code for row in rows], pa.string()),
            "kind": pa.array([row.kind for row in rows], pa.string()),
            "refers_to": pa.array([row.refers for row in rows], pa.string()),
            "ordered_at": pa.array(
                [DAY + timedelta(hours=row.hour) for row in rows], OUTCOMES.field("ordered_at").type
            ),
            "full_price_minor": pa.array([row.price for row in rows], pa.int64()),
        }
    )


codes = st.sampled_from(["A", "B"])
owner = {"A": "ann", "B": "bob"}


@st.composite
def rows(draw):
    kind = draw(st.sampled_from(["purchase", "purchase", "refund", "correction"]))
    code = draw(codes)
    return Row(
        hour=draw(st.integers(0, 3)),
        price=draw(st.integers(1, 5)),
        kind=kind,
        code=code if kind == "purchase" or draw(st.booleans()) else None,
        customer=owner[code],
        refers=None if kind == "purchase" else f"e{draw(st.integers(0, 5))}",
        event=f"e{draw(st.integers(0, 5))}",
    )


batches = st.lists(rows(), max_size=14)


def meaning(received):
    """{code: net price}, read row by row from the rules as they are written down."""
    events = {}
    for row in received:
        key = (row.hour, row.price, row.kind, row.code or "~", row.customer, row.refers or "~")  # null sorts last
        events[row.event] = min(events.get(row.event, (key, row)), (key, row))
    believed = {event: row for event, (_, row) in events.items()}
    used = {}
    for row in believed.values():
        if row.kind == "purchase":
            used[row.code] = min(used.get(row.code, (row.hour, row.event, row)), (row.hour, row.event, row))
    purchases = {row.event: row for *_, row in used.values()}

    def of(row, targets):
        target = targets.get(row.refers)
        fits = target is not None and target.customer == row.customer and row.code in (None, target.code)
        return target if fits else None

    refunds = {}
    for row in believed.values():
        if row.kind == "refund" and (target := of(row, purchases)):
            refunds[row.event] = replace(row, code=target.code)
    applied = set(purchases) | set(refunds)
    amounts = {event: row.price for event, row in {**purchases, **refunds}.items()}
    for row in sorted(believed.values(), key=lambda row: (row.hour, row.event)):
        if row.kind == "correction" and of(row, {**purchases, **refunds}):
            amounts[row.refers] = row.price
            applied.add(row.event)
    net = {}
    for event, row in purchases.items():
        back = sum(amounts[refund] for refund, other in refunds.items() if other.refers == event)
        net[row.code] = max(amounts[event] - back, 0)
    return net, applied


def found(received):
    rows = table(received)
    judged = judge(rows)
    net = net_purchases(rows.filter(pa.array(judged.applied)))
    events = [row.event for row, applied in zip(received, judged.applied, strict=True) if applied]
    assert len(set(events)) == len(events)
    return dict(zip(net.code.to_pylist(), net.full_price_minor.tolist(), strict=True)), set(events)


@settings(deadline=None)
@given(batches)
def test_what_is_in_force_is_what_the_rules_say(received):
    assert found(received) == meaning(received)


@settings(deadline=None)
@given(batches, st.randoms())
def test_neither_order_nor_repetition_changes_what_is_in_force(received, random):
    again = received + [row for row in received if random.random() < 0.5]
    random.shuffle(again)
    assert found(again) == found(received)


@settings(deadline=None)
@given(batches)
def test_every_row_has_a_disposition_and_all_but_the_applied_ones_a_reason(received):
    judged = judge(table(received))
    for disposition, reason in zip(judged.disposition.to_pylist(), judged.reason.to_pylist(), strict=True):
        assert (Disposition(disposition) is Disposition.APPLIED) == (reason is None)


@st.composite
def sparse_rows(draw):
    """Of many customers and events, so that most rows have nothing in common."""
    one = draw(rows())
    code = draw(st.sampled_from("ABCDEFGHIJKLMNOP"))
    refers = None if one.refers is None else f"e{draw(st.integers(0, 30))}"
    code_given = None if one.code is None else code
    return replace(one, code=code_given, customer=code.lower(), refers=refers, event=f"e{draw(st.integers(0, 30))}")


@settings(max_examples=300, deadline=None)
@given(
    received=st.lists(st.one_of(sparse_rows(), rows()), max_size=40),
    recalled=st.one_of(st.none(), st.integers(0, 4)),
)
def test_rows_judged_apart_have_the_dispositions_of_all_judged_together(received, recalled):
    """Purchases, returns, corrections, repeated, contradicting and late rows, before and after a recall."""
    at = None if recalled is None else DAY + timedelta(hours=recalled)
    apart, together = (judged(table(received), recalled_at=at) for judged in (judge_apart, judge_together))
    assert apart.codes.tolist() == together.codes.tolist()


def test_purchases_with_nothing_in_common_are_not_judged_together(monkeypatch):
    """The rules over all rows cost hash tables of a million texts: only entangled rows may go through them."""
    from disco.operations import purchases as module

    seen, rules = [], module.judge_together

    def watched(entangled, **more):
        seen.append(entangled.num_rows)
        return rules(entangled, **more)

    monkeypatch.setattr(module, "judge_together", watched)
    alone = [Row(1, 5, "purchase", f"C{n}", f"c{n}", None, f"e{n}") for n in range(module._FEW + 1)]
    refund = Row(2, 1, "refund", None, "c7", "e7", "r7")
    judged = judge(table([*alone, alone[3], refund]))
    assert seen == [4]  # the purchase that comes twice, the one that is given back, and the refund
    assert int(judged.applied.sum()) == len(alone) + 1


def test_a_purchase_ordered_earlier_takes_the_code_over_whenever_it_comes():
    first = Row(hour=5, price=70, kind="purchase", code="A", customer="ann", refers=None, event="x")
    earlier = replace(first, hour=2, price=30, event="y")
    back = Row(hour=9, price=10, kind="refund", code=None, customer="ann", refers="x", event="z")
    assert found([first, back]) == ({"A": 60}, {"x", "z"})
    assert found([first, back, earlier]) == ({"A": 30}, {"y"})
    words = judge(table([first, back, earlier])).reason.to_pylist()
    assert words == ["the code was used before", "the event it refers to does not count", None]


def test_a_refund_before_its_purchase_waits_for_it():
    back = Row(hour=9, price=10, kind="refund", code="A", customer="ann", refers="x", event="z")
    assert found([back]) == ({}, set())
    assert judge(table([back])).disposition.to_pylist() == ["unmatched"]
    bought = Row(hour=5, price=70, kind="purchase", code="A", customer="ann", refers=None, event="x")
    assert found([back, bought]) == ({"A": 60}, {"x", "z"})


def test_a_refund_of_another_customer_or_code_changes_nothing():
    bought = Row(hour=5, price=70, kind="purchase", code="A", customer="ann", refers=None, event="x")
    back = Row(hour=9, price=10, kind="refund", code=None, customer="bob", refers="x", event="z")
    assert found([bought, back]) == ({"A": 70}, {"x"})
    assert found([bought, replace(back, customer="ann", code="B")]) == ({"A": 70}, {"x"})


def test_refunds_above_the_order_leave_nothing_and_are_counted_however_large():
    most = 2**53
    bought = Row(hour=5, price=most, kind="purchase", code="A", customer="ann", refers=None, event="x")
    backs = [Row(hour=9, price=most, kind="refund", code=None, customer="ann", refers="x", event=f"z{n}")
             for n in range(2048)]  # together 2⁶⁴: 0 in 64 bits  # fmt: skip
    net = net_purchases(table([bought, *backs]))
    assert (net.full_price_minor.tolist(), net.over_refunded) == ([0], 1)


BOUGHT = Row(hour=5, price=70, kind="purchase", code="A", customer="ann", refers=None, event="x")


def test_a_correction_of_a_refund_meets_the_code_of_its_purchase():
    back = Row(hour=9, price=10, kind="refund", code=None, customer="ann", refers="x", event="z")
    mended = Row(hour=10, price=30, kind="correction", code="A", customer="ann", refers="z", event="y")
    assert found([BOUGHT, back, mended]) == ({"A": 40}, {"x", "z", "y"})
    assert found([BOUGHT, back, replace(mended, code="B")]) == ({"A": 60}, {"x", "z"})


def test_the_latest_correction_holds_whichever_comes_first():
    first = Row(hour=6, price=60, kind="correction", code=None, customer="ann", refers="x", event="c2")
    second = replace(first, hour=7, price=50, event="c1")
    for received in ([BOUGHT, first, second], [second, first, BOUGHT]):
        assert found(received) == ({"A": 50}, {"x", "c1", "c2"})
    alike = replace(second, hour=6)  # of two at one time, the one with the greater id
    assert found([BOUGHT, first, alike]) == found([alike, first, BOUGHT]) == ({"A": 60}, {"x", "c1", "c2"})


def test_the_same_event_with_anything_else_in_it_is_a_contradiction():
    same = judge(table([BOUGHT, BOUGHT])).disposition.to_pylist()
    assert same == ["applied", "duplicate"]
    for other in ({"code": "B"}, {"customer": "bob"}, {"price": 71}, {"hour": 6}):
        assert judge(table([BOUGHT, replace(BOUGHT, **other)])).disposition.to_pylist() == ["applied", "rejected"]
    back = Row(hour=9, price=10, kind="refund", code=None, customer="ann", refers="x", event="z")
    words = judge(table([BOUGHT, back, replace(back, refers="y")])).disposition.to_pylist()
    assert words == ["applied", "applied", "rejected"]
