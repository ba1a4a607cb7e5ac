"""Discount depths (0.2 is 20% off): how one is read, named and refused.

Columns of depths are read in `records/cells.py`.
"""

import math
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real

from disco.records.errors import InputError

EXPECTED_DEPTH = "a share of the price in [0, 1), such as 0.20 for 20% off"


def read_depth(value: object, *, where: str = "depth") -> float:
    """A depth in [0, 1) from a number or its text.

    >>> read_depth("0.10") == read_depth(0.1)
    True
    >>> read_depth(20)
    Traceback (most recent call last):
    ...
    disco.records.errors.InputError: depth: found 20; expected a share of the price in [0, 1), such as 0.20 for
    20% off. Did you mean 0.20?
    """
    if isinstance(value, bool) or not isinstance(value, str | Real | Decimal):
        raise InputError(where, found=repr(value), expected=EXPECTED_DEPTH)
    try:
        depth = float(str(value))  # through its text a 32-bit 0.2 is 0.2, not 0.20000000298
    except ValueError:
        raise InputError(where, found=repr(value), expected=EXPECTED_DEPTH, fix=depth_advice(value)) from None
    if not math.isfinite(depth) or not 0 <= depth < 1:
        raise InputError(where, found=value, expected=EXPECTED_DEPTH, fix=depth_advice(value))
    return depth + 0.0  # -0.0 becomes 0.0


def depth_advice(value: object) -> str | None:
    """The depth somebody probably meant by a value that is not a valid depth.

    >>> depth_advice(20), depth_advice("12.5 %"), depth_advice(-0.3)
    ('Did you mean 0.20?', 'Did you mean 0.125?', 'Did you mean 0.30?')
    """
    try:
        number = abs(float(str(value).strip().rstrip("%")))
    except ValueError:
        return None
    if not (0 < number < 100) or number == 1:  # 1 may mean 1 % or 100 %: no guess
        return None
    meant = depth_label(round(number / 100 if number > 1 else number, 6))
    return f"Did you mean {meant if len(meant) > 3 else meant + '0'}?"


def depth_label(depth: float) -> str:
    """The shortest decimal text that reads back as the same depth.

    It names columns and JSON keys, also in stored plan summaries, so it must not change.

    >>> depth_label(0.10), depth_label(0.0), depth_label(1e-05)
    ('0.1', '0', '0.00001')
    """
    text = format(Decimal(repr(depth)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def depth_percent(depth: float) -> str:
    """How people read a depth.

    >>> depth_percent(0.2), depth_percent(0.125)
    ('20% off', '12.5% off')
    """
    return f"{round(depth * 100, 6):g}% off"


def read_depths(values: Iterable[object], *, where: str = "depths") -> tuple[float, ...]:
    """Distinct depths in the order given."""
    depths = tuple(read_depth(value, where=where) for value in values)
    if not depths:
        raise InputError(where, found="none", expected="at least one depth")
    if len(set(depths)) != len(depths):
        twice = next(depth for depth in depths if depths.count(depth) > 1)
        raise InputError(where, found=f"{depth_label(twice)} twice", expected="each depth once")
    return depths
