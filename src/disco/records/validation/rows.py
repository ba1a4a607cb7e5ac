"""What can be wrong between the columns of one row: paid above the full price, redeemed before sent, …"""

from collections.abc import Callable, Mapping

import numpy as np

from disco.records.arrays import Flags, Integers, Vector
from disco.records.money import MINOR_PER_UNIT
from disco.records.tables import SCHEMAS
from disco.records.validation.cells import Cells
from disco.records.validation.columns import DAY_MICROSECONDS
from disco.records.validation.findings import Findings

Row = Mapping[str, Cells]
Good = Mapping[str, Flags]


def in_pennies(amounts: Vector) -> Vector:
    """Whole minor units, so that 0.1 + 0.2 is not above 0.3; still floats, for amounts nobody has checked yet."""
    return np.rint(amounts * MINOR_PER_UNIT)


def is_before(later: Integers, earlier: Integers) -> Flags:
    """Where what should come later came first. Midnight means that only the day is known.

    >>> noon, midnight = 36 * 3_600_000_000, 24 * 3_600_000_000
    >>> is_before(np.array([midnight, noon - 1]), np.array([noon, noon])).tolist()
    [False, True]
    """
    only_day = (later % DAY_MICROSECONDS == 0) | (earlier % DAY_MICROSECONDS == 0)
    days_apart = later // DAY_MICROSECONDS - earlier // DAY_MICROSECONDS
    return np.where(only_day, days_apart < 0, later < earlier)


def check_rows(table: str, cells: Row, good: Good, findings: Findings, *, offset: int) -> None:
    """Only where both columns are there and both cells are good."""
    for needs, check in _CHECKS.get(table, ()):
        if all(name in cells for name in needs):
            check(cells, good, findings, offset)


def _paid(cells: Row, good: Good, findings: Findings, offset: int) -> None:
    full, paid = cells["full_price"], cells["paid"]
    both = good["full_price"] & good["paid"]
    findings.of_rows(
        "paid_above_full_price",
        column="paid",
        rows=both & (in_pennies(np.where(both, paid.values, 0.0)) > in_pennies(np.where(both, full.values, 0.0))),
        offset=offset,
        found=paid.show,
        expected="at most the full_price of its row",
        fix="Check that full_price is the value before the discount.",
    )


def _redeemed(cells: Row, good: Good, findings: Findings, offset: int) -> None:
    sent, redeemed = cells["sent_at"], cells["redeemed_at"]
    findings.of_rows(
        "redeemed_before_sent",
        column="redeemed_at",
        rows=sent.valid & redeemed.valid & is_before(redeemed.values, sent.values),
        offset=offset,
        found=lambda row: f"{redeemed.show(row)}, before {sent.show(row)}",
        expected="a time at or after sent_at",
        fix="Check whether the two columns are swapped or in different time zones.",
    )


def _refers_to(cells: Row, good: Good, findings: Findings, offset: int) -> None:
    kind, refers_to = cells["kind"], cells["refers_to"]
    change = good["kind"] & (kind.values != _PURCHASE)
    findings.of_rows(
        "missing_refers_to",
        column="refers_to",
        rows=change & refers_to.missing,
        offset=offset,
        found=lambda row: f"nothing, in a {kind.raw[row].as_py()}",
        expected="the event_id that it changes",
        fix="Name the event that is refunded or corrected.",
    )


def _basket(cells: Row, good: Good, findings: Findings, offset: int) -> None:
    kind, price = cells["kind"], cells["full_price"]
    findings.of_rows(
        "purchase_of_nothing",
        column="full_price",
        rows=good["kind"] & (kind.values == _PURCHASE) & good["full_price"] & (price.values == 0),
        offset=offset,
        found=price.show,
        expected="a purchase above 0",
        fix="Leave out customers who bought nothing, or give the basket's full price.",
    )


_PURCHASE = SCHEMAS["outcomes"].column("kind").choices.index("purchase")

_Check = Callable[[Row, Good, Findings, int], None]
_CHECKS: Mapping[str, tuple[tuple[tuple[str, ...], _Check], ...]] = {
    "orders": ((("full_price", "paid"), _paid),),
    "codes": ((("sent_at", "redeemed_at"), _redeemed),),
    "outcomes": ((("kind", "refers_to"), _refers_to), (("kind", "full_price"), _basket)),
}
