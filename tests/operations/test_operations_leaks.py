"""Codes used by others than their owner are counted from what ingest sets aside, and `check` says so."""

from datetime import date, datetime, timedelta

import pyarrow as pa

from disco.operations.leaks import read_leaks
from disco.operations.outcomes import ingest
from disco.operations.upkeep import check_campaign


def uses(shop, sent, *, by_others):
    """Each code is used by its owner; some are used by somebody else as well."""
    rows = [*sent, *({**row, "customer_id": (row["customer_id"] + 1) % 200} for row in sent[:by_others])]
    table = shop.outcomes(rows, event_id=[f"e{number}" for number in range(len(rows))])
    times = [datetime(2027, 3, 9) + timedelta(hours=5 * number) for number in range(len(rows))]
    column = table.schema.get_field_index("ordered_at")
    return table.set_column(column, "ordered_at", pa.array([min(one, datetime(2027, 3, 20)) for one in times]))


def test_uses_by_others_are_counted_and_found(shop):
    sent = shop.sent(shop.launch())
    counts = ingest(shop.store, "spring", uses(shop, sent, by_others=0), source="a", clock=shop.clock).counts
    assert counts.applied == len(sent)
    found = read_leaks(shop.store, "spring")
    assert (found.uses, found.by_others, found.found) == (len(sent), 0, False)
    assert found.words == f"All {len(sent)} uses of codes were by the customers who have them."
    ingest(shop.store, "spring", uses(shop, sent, by_others=20), source="b", clock=shop.clock)  # most came before
    found = read_leaks(shop.store, "spring")
    assert (found.uses, found.by_others, found.codes, found.most) == (len(sent) + 20, 20, 20, 1)
    assert found.found
    assert f"20 of {len(sent) + 20} uses of codes" in found.words
    (said,) = [one for one in check_campaign(shop.store, "spring", as_of=date(2027, 4, 1)) if one.check == "leaks"]
    assert said.found == found.words
    assert "`disco recall`" in said.fix
    assert not said.failed
