"""Outcomes on a real store: each row counts once, whatever its types; what cannot count is set aside, with a reason."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import sha256

import pyarrow as pa
import pytest

from disco.adapters.tables.single_files import read_outcomes_file
from disco.operations import launch as states
from disco.operations.learn import rebuilt_evidence, stored_evidence
from disco.operations.outcomes import ingest, known_codes, quarantined_rows, revert
from disco.operations.purchases import counts_of
from disco.operations.upkeep import audit
from disco.records.decisions import IngestCounts
from disco.records.errors import InputError, StateError

in_rows_and_packs = pytest.mark.usefixtures("kept_as")
"""For tests of rows that count. What is set aside is never packed."""


@pytest.fixture
def launched(shop):
    return shop.launch()


@pytest.fixture
def receive(shop, launched):
    def receive(outcomes, source="test"):
        return ingest(shop.store, "spring", outcomes, source=source, clock=shop.clock)

    return receive


def evidence(shop, campaign="spring"):
    """As stored, after checking that the ledger would give the very same bytes."""
    with shop.store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        stored = transaction.beliefs.evidence(campaign, record.network)
        assert rebuilt_evidence(transaction, record, record.network).to_bytes() == stored
    return stored


def counts(shop):
    with shop.store.reading() as transaction:
        return counts_of(transaction.ledger.counts("spring"))


def one(shop, launched, **columns):
    table = shop.outcomes(shop.sent(launched)[:1])
    for name, values in columns.items():
        table = table.set_column(
            table.column_names.index(name), name, pa.array(values) if isinstance(values, list) else values
        )
    return table


@in_rows_and_packs
def test_every_outcome_counts_once_however_often_it_comes(shop, launched, receive):
    batch = shop.outcomes(shop.sent(launched))
    assert receive(batch).counts == IngestCounts(batch.num_rows, applied=batch.num_rows)
    stored = evidence(shop)
    again = receive(pa.concat_tables([batch, batch]))
    assert again.counts == IngestCounts(2 * batch.num_rows, duplicate=2 * batch.num_rows)
    assert evidence(shop) == stored
    assert counts(shop) == IngestCounts(3 * batch.num_rows, applied=batch.num_rows, duplicate=2 * batch.num_rows)


@in_rows_and_packs
def test_the_same_file_again_is_said(shop, launched, receive):
    batch = shop.outcomes(shop.sent(launched)[:3])
    first = receive(batch, source="monday.parquet")
    assert first.warnings == ()
    assert "monday.parquet" in receive(batch).warnings[0]


@pytest.mark.parametrize(
    ("columns", "disposition", "reason"),
    [
        ({"campaign_id": ["autumn"]}, "unmatched", "another campaign"),
        ({"code": ["NOPE"]}, "unmatched", "no such code"),
        ({"customer_id": [100_000]}, "unmatched", "another customer"),
        ({"kind": ["gift"]}, "rejected", "kind"),
        ({"full_price": [-1.0]}, "rejected", "full_price"),
        ({"full_price": [0.0]}, "rejected", "full_price"),
        ({"full_price": [0.004]}, "rejected", "full_price"),
        ({"full_price": [float("nan")]}, "rejected", "full_price"),
        ({"full_price": [float("inf")]}, "rejected", "full_price"),
        ({"full_price": [8e13]}, "rejected", "full_price"),
        ({"full_price": ["=1+1"]}, "rejected", "full_price"),
        ({"full_price": ["12,50"]}, "rejected", "full_price"),
        ({"ordered_at": ["yesterday"]}, "rejected", "ordered_at"),
        ({"ordered_at": [datetime(2027, 3, 7, 23, 59)]}, "rejected", "before the code was valid"),
        ({"ordered_at": [datetime(2027, 3, 22)]}, "expired", "run out"),
        ({"kind": ["refund"]}, "rejected", "refers_to"),
        ({"kind": ["refund"], "refers_to": ["e-unknown"]}, "unmatched", "not received yet"),
        ({"event_id": ["a\0b"]}, "rejected", "event_id"),
    ],
)
def test_what_cannot_count_is_set_aside_with_its_reason_and_changes_nothing(
    shop, launched, receive, columns, disposition, reason
):
    before = evidence(shop)
    found = receive(one(shop, launched, **columns))
    assert found.counts == IngestCounts(1, **{disposition: 1})
    assert reason in found.reasons[0].reason
    assert evidence(shop) == before


@pytest.mark.parametrize(
    "empty", ["event_id", "campaign_id", "customer_id", "code", "ordered_at", "full_price", "kind"]
)
@pytest.mark.parametrize("typed", [True, False], ids=["typed", "untyped"])
def test_an_outcome_with_an_empty_cell_is_set_aside(shop, launched, receive, empty, typed):
    kind = one(shop, launched).schema.field(empty).type if typed else pa.null()
    counts = receive(one(shop, launched, **{empty: pa.nulls(1, kind)})).counts
    assert counts.received == counts.rejected + counts.unmatched == 1


@in_rows_and_packs
@pytest.mark.parametrize("kind", ["string", "views", "dictionary", "decimal", "days", "text"])
def test_an_outcome_counts_whatever_types_its_file_has(shop, launched, receive, kind):
    plain = one(shop, launched)
    changed = {
        "string": {"customer_id": plain["customer_id"].cast(pa.string())},  # from a CSV: "17" is 17
        "views": {name: plain[name].cast(pa.string_view()) for name in ("code", "kind", "event_id")},
        "dictionary": {name: plain[name].dictionary_encode() for name in ("code", "kind", "campaign_id")},
        "decimal": {"full_price": [Decimal("50.25")]},
        "days": {"ordered_at": [date(2027, 3, 9)]},
        "text": {"full_price": ["50.25"], "ordered_at": ["2027-03-09T12:00:00"]},
    }[kind]
    assert receive(one(shop, launched, **changed)).counts.applied == 1
    with shop.store.reading() as transaction:
        assert transaction.ledger.outcomes("spring")["full_price_minor"].to_pylist() == [5025]


@in_rows_and_packs
def test_a_time_with_a_zone_is_kept_in_utc_and_judged_there(shop, launched, receive):
    def at(*clock):
        return pa.array([datetime(*clock, tzinfo=UTC)], pa.timestamp("us", "America/New_York"))

    # 02:00 UTC on the first day is still the evening before in New York
    assert receive(one(shop, launched, ordered_at=at(2027, 3, 8, 2))).counts.applied == 1
    late = one(shop, launched, ordered_at=at(2027, 3, 22, 1), event_id=["late"])
    assert receive(late).counts.expired == 1


@in_rows_and_packs
@pytest.mark.parametrize("extra", [[b"\xff"], [{"basket": [1, 2]}], [[1.5, None]]])
def test_what_else_a_file_brings_is_left_alone(shop, launched, receive, extra):
    assert receive(one(shop, launched).append_column("extra", pa.array(extra))).counts.applied == 1
    assert receive(one(shop, launched)).warnings  # the same rows, whatever else came with them


@pytest.mark.parametrize(
    ("column", "values"),
    [("full_price", [True]), ("customer_id", [1.5]), ("code", [b"\xff"]), ("code", [["A"]]), ("code", [{"a": 1}])],
)
def test_a_column_of_another_type_is_refused_by_name_and_nothing_is_written(shop, launched, receive, column, values):
    with pytest.raises(InputError, match=column):
        receive(one(shop, launched, **{column: values}))
    with shop.store.reading() as transaction:
        assert transaction.ledger.batches("spring") == ()


@pytest.mark.parametrize("event", ["a\0b", "x" * 1001, "ü" * 501])
def test_an_id_that_not_every_database_holds_is_set_aside(shop, launched, receive, event):
    assert receive(one(shop, launched, event_id=[event])).counts.rejected == 1
    assert receive(one(shop, launched, event_id=["ü" * 500])).counts.applied == 1


@in_rows_and_packs
def test_a_mended_row_counts_though_its_first_try_was_set_aside(shop, launched, receive):
    wrong = one(shop, launched, full_price=[-1.0])
    counts = receive(pa.concat_tables([wrong, one(shop, launched), one(shop, launched)])).counts
    assert counts == IngestCounts(3, applied=1, duplicate=1, rejected=1)


def test_the_quarantined_row_is_kept_as_it_was_sent(shop, launched, receive):
    receive(one(shop, launched, full_price=["=cmd()"]))
    with shop.store.reading() as transaction:
        row = transaction.ledger.outcomes("spring").to_pylist()[0]
    assert '"full_price": "=cmd()"' in row["raw"]
    assert row["full_price_minor"] is None


def refund(shop, row, amount, event="r1"):
    return shop.outcomes(
        [row],
        event_id=[event],
        kind=["refund"],
        refers_to=[f"e{row['customer_id']}"],
        full_price=[amount],
        ordered_at=pa.array(
            [datetime(2027, 5, 1)], pa.timestamp("us")
        ),  # long after the code ran out: returns take time
    )


@in_rows_and_packs
@pytest.mark.parametrize("named", [True, False], ids=["with its code", "without its code"])
def test_refunds_before_their_purchase_partial_and_corrected_end_in_the_same_evidence(shop, launched, receive, named):
    row = next(row for row in shop.sent(launched) if row["known"])
    back = refund(shop, row if named else {**row, "code": None}, 20.25)
    assert receive(back).counts.unmatched == 1
    bought = receive(shop.outcomes([row]))
    assert (bought.counts.applied, bought.redisposed) == (1, 1)
    corrected = shop.outcomes([row], event_id=["c1"], kind=["correction"], refers_to=["r1"], full_price=[10.25])
    assert receive(corrected).counts.applied == 1
    with_forty = evidence(shop)

    direct = shop.outcomes([row], event_id=["e-direct"], full_price=[40.0])
    for batch in [batch.batch_id for batch in _batches(shop)]:
        revert(shop.store, batch, clock=shop.clock)
    receive(direct)
    assert evidence(shop) == with_forty


@in_rows_and_packs
def test_a_purchase_given_back_whole_is_none_and_an_over_refund_is_told(shop, launched, receive):
    before = evidence(shop)
    row = next(row for row in shop.sent(launched) if row["known"])
    receive(shop.outcomes([row]))
    assert receive(refund(shop, row, 50.25)).warnings == ()
    assert evidence(shop) == before
    assert "above" in receive(refund(shop, row, 1.0, event="r2")).warnings[0]


def _batches(shop):
    with shop.store.reading() as transaction:
        return transaction.ledger.batches("spring")


@in_rows_and_packs
def test_a_closed_campaign_takes_nothing_and_a_paused_one_takes_outcomes(shop, launched, receive):
    rows = shop.sent(launched)
    states.pause(shop.store, "spring", clock=shop.clock)
    assert receive(shop.outcomes(rows[:2])).counts.applied == 2
    states.close(shop.store, "spring")
    stored = evidence(shop)
    assert receive(shop.outcomes(rows[2:5])).counts == IngestCounts(3, expired=3)
    assert evidence(shop) == stored
    with pytest.raises(StateError, match="closed"):
        states.resume(shop.store, "spring")


@in_rows_and_packs
def test_a_revert_is_as_if_the_batch_had_never_come(shop, launched, receive):
    rows = shop.sent(launched)
    receive(shop.outcomes(rows[:10]))
    before, counted = evidence(shop), counts(shop)
    poisoned = receive(shop.outcomes(rows[5:20], full_price=[5025.0] * 15, event_id=[f"x{n}" for n in range(15)]))
    assert evidence(shop) != before
    taken = revert(shop.store, poisoned.batch_id[:8], clock=shop.clock)
    assert taken.counts == poisoned.counts
    assert (evidence(shop), counts(shop)) == (before, counted)
    with pytest.raises(StateError, match="reverted"):
        revert(shop.store, poisoned.batch_id, clock=shop.clock)
    assert receive(shop.outcomes(rows[5:20])).counts.applied == 10


@in_rows_and_packs
def test_a_duplicate_takes_the_place_of_a_row_whose_batch_is_reverted(shop, launched, receive):
    batch = shop.outcomes(shop.sent(launched)[:4])
    first = receive(batch)
    receive(batch)
    stored = evidence(shop)
    assert revert(shop.store, first.batch_id, clock=shop.clock).redisposed == 4
    assert evidence(shop) == stored
    assert counts(shop) == IngestCounts(4, applied=4)


@in_rows_and_packs
def test_a_rehearsal_says_what_would_happen_and_leaves_nothing(shop, launched, receive):
    batch = shop.outcomes(shop.sent(launched)[:4])
    said = ingest(shop.store, "spring", batch, source="test", clock=shop.clock, dry_run=True)
    assert (said.counts.applied, _batches(shop)) == (4, ())
    done = receive(batch)
    assert (done.batch_id, done.counts) == (said.batch_id, said.counts)
    revert(shop.store, done.batch_id, clock=shop.clock, dry_run=True)
    assert counts(shop).applied == 4


@in_rows_and_packs
def test_customers_without_a_context_of_their_own_stay_outside_the_evidence(shop, launched, receive):
    rows = shop.sent(launched)
    receive(shop.outcomes(rows))
    with shop.store.reading() as transaction:
        found = stored_evidence(transaction, "spring", shop.network)
    assert found.baskets.total_rows == sum(row["known"] for row in rows)
    assert found.codes.redeemed.sum() == sum(row["arm"] == "control" for row in rows)
    assert found.codes.sent.sum() == found.codes.redeemed.sum()


# ---- one bad cell sets its row aside, never the file ----


def not_unicode(cells, row):
    """Text as Parquet may bring it: nobody has checked its bytes."""
    return pa.array([b"\xff\xfe" if at == row else cell.encode() for at, cell in enumerate(cells)]).view(pa.string())


FAR = {
    "ms": pa.array([1_804_593_600_000, 2**62]).cast(pa.timestamp("ms")),
    "s": pa.array([1_804_593_600, 2**62]).cast(pa.timestamp("s")),
    "date32": pa.array([20_886, 2**31 - 1], pa.int32()).cast(pa.date32()),
    "date64": pa.array([20_886 * 86_400_000, 53_375_995_583 * 86_400_000]).cast(pa.date64()),
}


@pytest.mark.parametrize("unit", FAR)
def test_a_moment_that_no_calendar_has_sets_its_row_aside(shop, launched, receive, unit):
    rows = shop.sent(launched)[:2]
    found = receive(shop.outcomes(rows).set_column(4, "ordered_at", FAR[unit]))
    assert (found.counts.applied, found.counts.rejected) == (1, 1)
    assert found.reasons[0].reason == "ordered_at: expected a date from 1900 to 8999"
    assert found.reasons[0].first_row == 2


@pytest.mark.parametrize("column", ["event_id", "campaign_id", "customer_id", "code", "kind"])
def test_text_that_is_not_unicode_sets_its_row_aside(shop, launched, receive, column):
    outcomes = shop.outcomes(shop.sent(launched)[:3])
    at = outcomes.schema.get_field_index(column)
    cells = [str(cell) for cell in outcomes[column].to_pylist()]
    found = receive(outcomes.set_column(at, column, not_unicode(cells, 1)))
    assert (found.counts.applied, found.counts.rejected) == (2, 1)
    assert found.reasons[0].reason == f"{column}: expected UTF-8 text"


def test_a_nul_in_a_code_sets_its_row_aside(shop, launched, receive):
    outcomes = shop.outcomes(shop.sent(launched)[:3])
    codes = [*outcomes["code"].to_pylist()[:2], "a\0b"]
    found = receive(outcomes.set_column(3, "code", pa.array(codes)))
    assert (found.counts.applied, found.counts.rejected) == (2, 1)
    assert found.reasons[0].reason.startswith("code: expected an integer below 2⁶³, or text")


def test_a_row_in_quarantine_keeps_at_most_four_kilobytes(shop, launched, receive):
    outcomes = shop.outcomes(shop.sent(launched)[:2])
    found = receive(outcomes.set_column(0, "event_id", pa.array(["😀" * 2_000_000, "ü" * 1_000])))
    aside = quarantined_rows(shop.store, found)
    assert aside["disposition"].to_pylist() == ["rejected", "rejected"]
    assert max(len(raw.encode()) for raw in aside["raw"].to_pylist()) <= 4096
    kept = json.loads(aside["raw"][0].as_py())
    assert kept["event_id"].endswith("…")
    assert kept["code"] == outcomes["code"][0].as_py()


def test_purchases_dated_after_they_were_received_are_applied_with_a_warning(shop, launched):
    row = shop.sent(launched)[0]
    outcomes = shop.outcomes([row], ordered_at=[datetime(2027, 3, 15, tzinfo=UTC)])
    found = ingest(shop.store, "spring", outcomes, source="a.csv", clock=shop.clock)  # on 8 March
    assert found.applied == 1
    assert found.warnings == (
        "1 purchase dated after the day of receipt, 2027-03-08 (the first in row 2); check the clock and the dates",
    )


# ---- an export of orders is enough ----


def export(shop, launched, rows=3, **columns):
    """Orders as a shop exports them: code, customer, time and amount."""
    table = shop.outcomes(shop.sent(launched)[:rows]).select(["code", "customer_id", "ordered_at", "full_price"])
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.append_column(name, pa.array(values)) if at < 0 else table.set_column(at, name, pa.array(values))
    return table


@in_rows_and_packs
def test_code_customer_time_and_amount_are_enough(shop, launched, receive):
    assert receive(export(shop, launched)).counts == IngestCounts(3, applied=3)
    stored = evidence(shop)
    with shop.store.reading() as transaction:
        rows = transaction.ledger.outcomes("spring").to_pylist()
    assert [row["kind"] for row in rows] == ["purchase"] * 3
    assert (
        rows[0]["event_id"]
        == sha256(
            f"spring\x1f{rows[0]['customer_id']}\x1f{rows[0]['code']}\x1f{1_804_593_600_000_000}".encode()
        ).hexdigest()[:32]
    )
    assert receive(export(shop, launched)).counts == IngestCounts(3, duplicate=3)
    assert evidence(shop) == stored


@in_rows_and_packs
def test_overlapping_exports_count_every_purchase_once(shop, launched, receive):
    every = export(shop, launched, rows=10)
    assert receive(every.slice(0, 6)).counts == IngestCounts(6, applied=6)
    later = every.slice(3).set_column(1, "customer_id", every.slice(3)["customer_id"].cast(pa.string()))
    assert receive(later).counts == IngestCounts(7, applied=4, duplicate=3)
    assert receive(pa.concat_tables([every, every])).counts == IngestCounts(20, duplicate=20)


@in_rows_and_packs
def test_two_equal_rows_of_an_export_are_one_purchase(shop, launched, receive):
    order = export(shop, launched, rows=1)
    assert receive(pa.concat_tables([order, order])).counts == IngestCounts(2, applied=1, duplicate=1)


@in_rows_and_packs
def test_the_order_is_the_event_where_the_export_names_it(shop, launched, receive):
    receive(export(shop, launched, order_id=["A-1", "A-2", "A-3"]))
    with shop.store.reading() as transaction:
        assert transaction.ledger.outcomes("spring")["event_id"].to_pylist() == ["A-1", "A-2", "A-3"]
    full = shop.outcomes(shop.sent(launched)[:3], event_id=["A-1", "A-2", "A-3"])
    assert receive(full).counts == IngestCounts(3, duplicate=3)


@in_rows_and_packs
def test_an_export_with_a_row_per_article_is_noticed(shop, launched, receive):
    order = export(shop, launched, rows=1)
    found = receive(pa.concat_tables([order, order.set_column(3, "full_price", pa.array([10.0]))]), source="o.csv")
    assert found.counts == IngestCounts(2, applied=1, rejected=1)
    assert "1 row (the first is row 2)" in found.warnings[0]
    assert "row per article" in found.warnings[0]


def test_orders_of_an_export_without_a_code_are_set_aside_in_any_number(shop, launched, receive):
    orders = export(shop, launched, code=["", None, "OTHER"])
    assert receive(orders).counts == IngestCounts(3, unmatched=3)


@pytest.mark.parametrize(
    "columns",
    [
        {"kind": ["Purchase"]},
        {"kind": [" PURCHASE "]},
        {"campaign_id": ["Spring"]},
        {"campaign_id": ["SPRING"]},
    ],
)
def test_kinds_and_campaigns_match_whatever_their_case(shop, launched, receive, columns):
    assert receive(one(shop, launched, **columns)).counts == IngestCounts(1, applied=1)


@in_rows_and_packs
def test_codes_match_whatever_their_case(shop, launched, receive):
    table = one(shop, launched)
    code = table["code"][0].as_py()
    assert receive(one(shop, launched, code=[f" {code.lower()} "])).counts == IngestCounts(1, applied=1)
    assert receive(table).counts == IngestCounts(1, duplicate=1)
    with shop.store.reading() as transaction:
        assert transaction.ledger.outcomes("spring")["code"].to_pylist() == [code, code]


def test_codes_that_differ_in_their_case_only_are_never_mistaken():
    codes, known = pa.array(["ab12", "AB12", "Ab12", " CD34", "cd34"]), pa.array(["ab12", "AB12", "cd34"])
    assert known_codes(codes, known).to_pylist() == ["ab12", "AB12", "Ab12", "cd34", "cd34"]


def test_a_campaign_of_almost_this_name_stays_another_one(shop, launched, receive):
    shop.launch(shop.plan(campaign="SPRING"))
    assert receive(one(shop, launched, campaign_id=["Spring"])).counts == IngestCounts(1, unmatched=1)


def test_a_campaign_that_is_not_there_is_asked_about(shop, launched):
    with pytest.raises(StateError, match=r"No campaign Sprnig was launched. Did you mean spring\?"):
        ingest(shop.store, "Sprnig", export(shop, launched), source="test", clock=shop.clock)


@in_rows_and_packs
def test_empty_lines_of_a_csv_file_are_counted_in_row_numbers_and_not_in_its_content(shop, launched, receive, tmp_path):
    first, second, third = shop.sent(launched)[:3]
    head, *lines = (
        "customer_id,code,ordered_at,full_price",
        f"{first['customer_id']},{first['code']},2027-03-10 12:00,80.00",
        f"{second['customer_id']},WRONG,2027-03-10 12:00,80.00",
        "too,few",
        f"{third['customer_id']},{third['code']},2027-03-30 12:00,80.00",
    )
    plain, spaced = tmp_path / "plain.csv", tmp_path / "spaced.csv"
    plain.write_text("\n".join([head, *lines]) + "\n")
    spaced.write_text("\n".join(["", head, "", lines[0], lines[1], "", "", lines[2], "", lines[3], ""]) + "\n")
    found = receive(read_outcomes_file(spaced), source=str(spaced))
    assert [(one.disposition, one.first_row) for one in found.reasons] == [
        ("expired", 10),
        ("unmatched", 5),
        ("rejected", 8),
    ]
    aside = quarantined_rows(shop.store, found)
    assert aside["row"].to_pylist() == [5, 8, 10]
    assert "(row)" not in aside["raw"][0].as_py()
    again = receive(read_outcomes_file(plain), source=str(plain))
    assert any("the same rows were received before" in warning for warning in again.warnings)
    assert [one.first_row for one in again.reasons if one.disposition != "duplicate"] == [5, 3, 4]
    assert all(finding.ok for finding in audit(shop.store))


def test_rows_of_a_csv_file_are_numbered_as_in_a_spreadsheet(shop, launched, receive):
    table = shop.outcomes(shop.sent(launched)[:2], kind=["purchase", "gift"])
    found = receive(table, source="Monday.CSV")
    assert found.reasons[0].first_row == 3
    assert quarantined_rows(shop.store, found)["row"].to_pylist() == [3]
    assert receive(table, source="monday.parquet").reasons[0].first_row == 1
