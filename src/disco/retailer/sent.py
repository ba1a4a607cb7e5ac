"""Reading the codes that a campaign hands out to the simulated customers, and refusing what cannot be answered."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags, Integers, Vector
from disco.records.errors import InputError, Problem, StateError, TableError
from disco.records.identity import read_ids
from disco.retailer.life import DAY
from disco.retailer.season import day_number
from disco.retailer.settings import ChannelName, RetailerSettings
from disco.retailer.tables import INSTANT

REQUIRED = {
    "code_id": pa.string(),
    "customer_id": pa.string(),
    "campaign_id": pa.string(),
    "depth": pa.float64(),
    "sent_at": INSTANT,
}
OPTIONAL = {"expires_at": INSTANT, "channel": pa.string()}
LONGEST_PERIOD = timedelta(days=400)  # a sending date further off than this is a slip of the pen


@dataclass(frozen=True, slots=True)
class SentCodes:
    """Codes as numbers, in the order of the file; `index` is the customer's position in the shop."""

    code_id: pa.Array
    customer_id: pa.Array
    campaign_id: pa.Array
    index: Integers
    depth: Vector
    sent_at: Integers  # microseconds since 1970-01-01
    expires_at: Integers
    by_email: Flags


def read_codes(codes: pa.Table, *, settings: RetailerSettings, today: date) -> SentCodes:
    """Codes to be answered from `today` on; TableError names everything that is wrong with them at once."""
    columns = _typed_columns(codes)
    problems: list[Problem] = []

    def refuse(wrong: pa.Array, column: str, kind: str, expected: str, fix: str) -> None:
        rows = np.flatnonzero(pc.fill_null(wrong, False).to_numpy(zero_copy_only=False))
        if rows.size:
            found = repr(columns[column][int(rows[0])].as_py())
            problems.append(Problem(kind, "codes", column, found, expected, fix, int(rows[0]) + 1, rows.size))

    for name in REQUIRED:
        refuse(columns[name].is_null(), name, "missing value", "a value in every row", "Fill it in or drop the row.")
    depth = columns["depth"]
    sound = pc.and_(pc.is_finite(depth), pc.and_(pc.greater_equal(depth, 0.0), pc.less(depth, 1.0)))
    refuse(pc.invert(sound), "depth", "depth", "a share of the price in [0, 1)", "Write 0.20 for 20 % off.")
    index = _positions(columns["customer_id"], settings=settings)
    known = f"c0000000 to c{settings.customers - 1:07d}"
    refuse(pa.array(index < 0), "customer_id", "unknown customer", known, "Take ids from the customers table.")
    once = _repeated(columns["code_id"])
    refuse(once, "code_id", "duplicate", "each code once", "Codes are single-use: give every row its own.")
    pairs = pc.binary_join_element_wise(columns["campaign_id"], columns["customer_id"], "\x1f")
    twice = _repeated(pairs)
    refuse(twice, "customer_id", "duplicate", "one code per customer and campaign", "Keep one of the rows.")
    channels = pa.array([str(name) for name in ChannelName])
    odd = pc.invert(pc.is_in(columns["channel"], value_set=channels))
    refuse(odd, "channel", "channel", " or ".join(ChannelName), "Leave the column out for on-site codes.")
    early = pc.less_equal(columns["expires_at"], columns["sent_at"])
    refuse(early, "expires_at", "order of dates", "an instant after sent_at", "A code must be valid for a while.")
    if problems:
        raise TableError("The codes cannot be answered:", problems)
    sent = SentCodes(
        code_id=columns["code_id"],
        customer_id=columns["customer_id"],
        campaign_id=columns["campaign_id"],
        index=index,
        depth=depth.to_numpy(zero_copy_only=False),
        sent_at=_microseconds(columns["sent_at"]),
        expires_at=_expiry(columns, settings),
        by_email=pc.equal(columns["channel"], str(ChannelName.EMAIL)).to_numpy(zero_copy_only=False),
    )
    _check_time(sent, today)
    return sent


def positions(customer_ids: object, *, settings: RetailerSettings) -> Integers:
    """The positions of customers in the shop; an unknown id is refused by name.

    >>> positions(["c0000003", "c0000000"], settings=RetailerSettings(customers=4)).tolist()
    [3, 0]
    """
    ids = read_ids(customer_ids)
    index = _positions(pa.array(ids.astype(str), pa.string()), settings=settings)
    if (index < 0).any():
        unknown = ids[np.flatnonzero(index < 0)[0]]
        raise InputError("customer_id", found=repr(unknown), expected=f"c0000000 to c{settings.customers - 1:07d}")
    return index


def _positions(ids: pa.Array, *, settings: RetailerSettings) -> Integers:
    """17 for c0000017, −1 for what is no customer of this shop."""
    formed = pc.fill_null(pc.match_substring_regex(ids, r"^c[0-9]{7}$"), False)
    number = pc.cast(pc.utf8_slice_codeunits(pc.if_else(formed, ids, "c9999999"), 1), pa.int64())
    index = number.to_numpy(zero_copy_only=False)
    formed = formed.to_numpy(zero_copy_only=False)
    return np.where(formed & (index < settings.customers), index, -1)


def _typed_columns(codes: pa.Table) -> dict[str, Any]:
    """The columns we read, each as one array of its type; optional ones that are absent become nulls (or on-site)."""
    missing = [name for name in REQUIRED if name not in codes.column_names]
    if missing:
        raise InputError(
            "codes", found=f"no column {', '.join(missing)}", expected=f"columns {', '.join([*REQUIRED, *OPTIONAL])}"
        )
    if codes.num_rows == 0:
        raise InputError("codes", found="no rows", expected="at least one code")
    columns = {}
    for name, kind in (REQUIRED | OPTIONAL).items():
        if name not in codes.column_names:
            columns[name] = pa.nulls(codes.num_rows, kind)
            continue
        try:
            columns[name] = codes[name].cast(kind).combine_chunks()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InputError(f"codes, column {name}", found=codes[name].type, expected=kind) from None
    columns["channel"] = pc.fill_null(columns["channel"], str(ChannelName.ON_SITE))
    return columns


def _repeated(values: pa.Array) -> pa.Array:
    """True on every row whose value stood in an earlier row."""
    places = pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    again = np.ones(len(values), np.bool_)
    again[np.unique(places, return_index=True)[1]] = False
    return pa.array(again)


def _microseconds(instants: pa.Array) -> Integers:
    return np.asarray(instants.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def _expiry(columns: dict[str, Any], settings: RetailerSettings) -> Integers:
    """expires_at where it is given, else the channel's usual validity after sent_at."""
    email = pc.equal(columns["channel"], str(ChannelName.EMAIL)).to_numpy(zero_copy_only=False)
    usual = _microseconds(columns["sent_at"]) + DAY * np.where(
        email, settings.email.valid_days, settings.on_site.valid_days
    )
    given = columns["expires_at"].is_valid().to_numpy(zero_copy_only=False)
    return np.where(given, _microseconds(pc.fill_null(columns["expires_at"], pa.scalar(0, INSTANT))), usual)


def _check_time(sent: SentCodes, today: date) -> None:
    """The days before `today` have been lived; a file answered once is therefore never answered again."""
    first = date.fromordinal(date(1970, 1, 1).toordinal() + int(sent.sent_at.min() // DAY))
    if first < today:
        raise StateError(
            "The simulated shop has already lived through these days",
            found=f"codes sent on {first}",
            expected=f"{today} or later",
            fix="Codes can be answered only once, and campaigns in the order of their dates.",
        )
    if int(sent.expires_at.max()) > (day_number(today) + LONGEST_PERIOD.days) * DAY:
        raise InputError(
            "codes, column expires_at",
            found="a code that is valid beyond " + str(today + LONGEST_PERIOD),
            expected=f"campaigns that end within {LONGEST_PERIOD.days} days of {today}",
        )
