"""Codes in, purchases out: reading the codes of a campaign, and what the simulated customers do with them.

Each answer is a pure function of (seed, campaign, customer, depth). A customer's random numbers in a campaign are the
same for all depths: a deeper code never turns a purchase into none, and never makes a basket smaller.
Byte-critical: the purposes that salt the draws ("purchase", "basket", …) must keep their names.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike
from scipy.special import ndtri, pdtrik

from disco.records.arrays import Flags, Integers, Keys, Vector
from disco.records.errors import InputError, Problem, StateError, TableError
from disco.records.identity import customer_keys, read_ids
from disco.retailer.draws import salts, uniforms
from disco.retailer.laws import answer_share
from disco.retailer.life import DAY, SECOND, items_of, pennies, return_delay, returned_value, site_days
from disco.retailer.population import Customers, customers_at, log_basket, purchase_probability, rise
from disco.retailer.season import day_number
from disco.retailer.settings import ChannelName, RetailerSettings
from disco.retailer.tables import INSTANT, SCHEMAS, instants, site_table
from disco.retailer.world import answer_factor, basket_shift, moved, residuals

REQUIRED = {
    "code_id": pa.string(),
    "customer_id": pa.string(),
    "campaign_id": pa.string(),
    "depth": pa.float64(),
    "sent_at": INSTANT,
}
OPTIONAL = {"expires_at": INSTANT, "channel": pa.string()}
LONGEST_PERIOD = timedelta(days=400)  # a code valid for longer is a typing error in a date


@dataclass(frozen=True, slots=True)
class SentCodes:
    """Codes in columns, one entry per code, in the order of the file."""

    code_id: pa.Array
    customer_id: pa.Array
    campaign_id: pa.Array
    index: Integers  # the customer's position in the retailer
    depth: Vector
    sent_at: Integers  # microseconds since 1970-01-01
    expires_at: Integers  # microseconds since 1970-01-01
    by_email: Flags  # or by another message; else on-site


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
    refuse(pc.invert(sound), "depth", "depth", "a share of the price in [0, 1)", "Write 0.20 for 20% off.")
    index = _positions(columns["customer_id"], settings=settings)
    known = f"c0000000 to c{settings.customers - 1:07d}"
    refuse(pa.array(index < 0), "customer_id", "unknown customer", known, "Take ids from the customers table.")
    refuse(_other_depth(columns), "code_id", "duplicate", "one depth per code", "Give every depth a code of its own.")
    pairs = pc.binary_join_element_wise(columns["campaign_id"], columns["customer_id"], "\x1f")
    twice = _repeated(pairs)
    refuse(twice, "customer_id", "duplicate", "one code per customer and campaign", "Keep one of the rows.")
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
        by_email=_by_message(columns),
    )
    _check_time(sent, today)
    return sent


def positions(customer_ids: ArrayLike, *, settings: RetailerSettings) -> Integers:
    """The positions of customers in the retailer, (n,); an unknown id is refused by name.

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
    """17 for c0000017, −1 for an id that no customer has."""
    formed = pc.fill_null(pc.match_substring_regex(ids, r"^c[0-9]{7}$"), False)
    number = pc.cast(pc.utf8_slice_codeunits(pc.if_else(formed, ids, "c9999999"), 1), pa.int64())
    index = number.to_numpy(zero_copy_only=False)
    formed = formed.to_numpy(zero_copy_only=False)
    return np.where(formed & (index < settings.customers), index, -1)


def _typed_columns(codes: pa.Table) -> dict[str, Any]:
    """The known columns, each as one array of its type; optional ones that are absent become nulls (or on-site)."""
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


def _other_depth(columns: dict[str, Any]) -> pa.Array:
    """True on every row whose code had another depth in an earlier row; customers may share a code."""
    code = pc.dictionary_encode(columns["code_id"], null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    depth = columns["depth"].to_numpy(zero_copy_only=False)
    first = np.unique(code, return_index=True)[1]
    return pa.array((depth != depth[first][code]) & ~(np.isnan(depth) | np.isnan(depth[first][code])))


def _by_message(columns: dict[str, Any]) -> Flags:
    """(n,) whether a code was sent: every channel but on-site is answered as an e-mail is."""
    sent = pc.not_equal(columns["channel"], str(ChannelName.ON_SITE)).to_numpy(zero_copy_only=False)
    return np.asarray(sent, np.bool_)


def _repeated(values: pa.Array) -> pa.Array:
    """True on every row whose value appeared in an earlier row."""
    places = pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    again = np.ones(len(values), np.bool_)
    again[np.unique(places, return_index=True)[1]] = False
    return pa.array(again)


def _microseconds(instants: pa.Array) -> Integers:
    return np.asarray(instants.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def _expiry(columns: dict[str, Any], settings: RetailerSettings) -> Integers:
    """expires_at where it is given, else the channel's usual validity after sent_at."""
    email = _by_message(columns)
    usual = _microseconds(columns["sent_at"]) + DAY * np.where(
        email, settings.email.valid_days, settings.on_site.valid_days
    )
    given = columns["expires_at"].is_valid().to_numpy(zero_copy_only=False)
    return np.where(given, _microseconds(pc.fill_null(columns["expires_at"], pa.scalar(0, INSTANT))), usual)


def _check_time(sent: SentCodes, today: date) -> None:
    """Codes sent before `today` are refused, so no file is answered twice; so are codes valid for too long."""
    first = date.fromordinal(date(1970, 1, 1).toordinal() + int(sent.sent_at.min() // DAY))
    if first < today:
        raise StateError(
            "These days are already simulated",
            found=f"codes sent on {first}",
            expected=f"{today} or later",
            fix="Codes can be answered only once, and campaigns only in the order of their dates.",
        )
    if int(sent.expires_at.max()) > (day_number(today) + LONGEST_PERIOD.days) * DAY:
        raise InputError(
            "codes, column expires_at",
            found="a code that is valid beyond " + str(today + LONGEST_PERIOD),
            expected=f"campaigns that end within {LONGEST_PERIOD.days} days of {today}",
        )


@dataclass(frozen=True, slots=True)
class Chance:
    """The random numbers of customers in campaigns, one per row and purpose."""

    seed: int
    keys: Keys  # (n,), one per customer or order
    campaign: Integers  # (n,), place of the row's campaign in names
    names: list[str]

    def uniform(self, purpose: str) -> Vector:
        """Uniform in (0, 1), (n,)."""
        return uniforms(self.keys, salts=salts(self.seed, purpose=purpose, names=self.names)[self.campaign])

    def normal(self, purpose: str) -> Vector:
        """Standard normal, (n,)."""
        return np.asarray(ndtri(self.uniform(purpose)), np.float64)

    def poisson(self, mean: Vector, purpose: str) -> Integers:
        """Poisson counts: the smallest count whose cumulative probability reaches the uniform, (n,)."""
        return np.asarray(np.maximum(np.ceil(pdtrik(self.uniform(purpose), mean)), 0), np.int64)


@dataclass(frozen=True, slots=True)
class CodeAnswers:
    """What customers did with their codes, one entry per code, in the order of the codes."""

    bought: Flags
    full_price: Vector  # of the purchase, also computed where none happened; currency units
    items: Integers
    ordered_at: Integers  # microseconds since 1970-01-01
    looked: Flags  # visited the site because of the code; every buyer did


def answer(
    sent: SentCodes,
    customers: Customers,
    chance: Chance,
    *,
    settings: RetailerSettings,
    earlier: pa.Table | None = None,
) -> CodeAnswers:
    """Purchase with probability p(depth); ln(full price) = b + s·g + campaign_residual_sd·ε; redeemed after a delay.

    customers: as they are in the ordinary world; that of the settings moves them to the days of their codes. earlier:
    the campaign codes of before, which customers may remember; None: there were none.
    """
    sent_on = sent.sent_at // DAY
    customers = moved(customers, settings=settings, day=sent_on)
    factor = answer_factor(settings, sent_on)
    if settings.world.reference and earlier is not None:
        factor = factor * answer_share(
            earlier, customer=sent.index, depth=sent.depth, at=sent.sent_at, reference=settings.world.reference
        )
    g = rise(customers, sent.depth, settings=settings)
    on_site, email = (
        purchase_probability(customers, g, settings=settings, channel=channel, lapsed=customers.lapsed, factor=factor)
        for channel in ChannelName
    )
    probability = np.where(sent.by_email, email, on_site)
    decision = chance.uniform("purchase")
    residual = settings.baskets.campaign_residual_sd * residuals(chance.normal("basket"), settings.world.tails)
    full_price = pennies(np.exp(log_basket(customers, g) + basket_shift(settings, sent_on) + residual))
    return CodeAnswers(
        bought=decision < probability,
        full_price=full_price,
        items=items_of(full_price, customers.item_price, chance.normal("items")),
        ordered_at=sent.sent_at + _delay(sent, chance.uniform("delay"), settings=settings),
        looked=decision < np.sqrt(probability),
    )


def _delay(sent: SentCodes, place: Vector, *, settings: RetailerSettings) -> Integers:
    """Microseconds from code to order: exponential with the channel's mean, inside the validity; whole seconds."""
    mean = DAY * np.where(sent.by_email, settings.email.delay_days, settings.on_site.delay_days)
    validity = sent.expires_at - sent.sent_at
    delay = -mean * np.log1p(place * np.expm1(-validity / mean))
    return np.asarray(np.minimum(delay, validity - 1) // SECOND * SECOND, np.int64)


def chance_of(sent: SentCodes, *, seed: int) -> Chance:
    """The random numbers of these codes' customers in their campaigns."""
    campaigns = pc.dictionary_encode(sent.campaign_id)
    return Chance(
        seed=seed,
        keys=customer_keys(sent.customer_id),
        campaign=np.asarray(campaigns.indices.to_numpy(zero_copy_only=False), np.int64),
        names=campaigns.dictionary.to_pylist(),
    )


def answer_tables(
    sent: SentCodes, *, settings: RetailerSettings, earlier: pa.Table | None = None
) -> dict[str, pa.Table]:
    """Outcomes, and the rows that the codes add to orders, codes and site. earlier: as for `answer`."""
    customers = customers_at(settings, index=sent.index)
    chance = chance_of(sent, seed=settings.seed)
    answers = answer(sent, customers, chance, settings=settings, earlier=earlier)
    bought = pa.array(answers.bought)
    prefix = pc.binary_join_element_wise(sent.campaign_id, sent.customer_id, "-")
    ordered_at = instants(answers.ordered_at)
    full_price = pa.array(answers.full_price)
    count = len(sent.code_id)
    nothing = pa.nulls(count, pa.string())
    outcomes = [
        pc.binary_join_element_wise("purchase", prefix, "-"),
        sent.campaign_id,
        sent.customer_id,
        sent.code_id,
        ordered_at,
        full_price,
        pa.repeat("purchase", count),
        nothing,
    ]
    orders = [
        pc.binary_join_element_wise("o", prefix, "-"),
        sent.customer_id,
        ordered_at,
        full_price,
        pa.array(pennies(answers.full_price * (1 - sent.depth))),
        pa.array(answers.items),
        sent.code_id,
    ]
    codes = [
        sent.code_id,
        sent.customer_id,
        sent.campaign_id,
        pa.array(sent.depth),
        instants(sent.sent_at),
        instants(np.where(answers.bought, answers.ordered_at, -1)),
    ]
    return {
        "outcomes": pa.table(outcomes, schema=SCHEMAS["outcomes"]).filter(bought),
        "orders": pa.table(orders, schema=SCHEMAS["orders"]).filter(bought),
        "codes": pa.table(codes, schema=SCHEMAS["codes"]),
        "site": _visits(sent, customers, chance, answers),
    }


def _visits(sent: SentCodes, customers: Customers, chance: Chance, answers: CodeAnswers) -> pa.Table:
    """A visit on the day of the order, or of the code for those who looked and did not buy."""
    site = site_days(
        customers,
        chance.poisson,
        who=np.arange(sent.index.size),
        day=np.where(answers.bought, answers.ordered_at, sent.sent_at) // DAY,
        orders=answers.bought.astype(np.int64),
        items=np.where(answers.bought, answers.items, 0),
    )
    return site_table(site, sent.customer_id).filter(pa.array(answers.looked))


def returns_of(orders: pa.Table, *, settings: RetailerSettings) -> pa.Table:
    """All returns that orders with a campaign code will ever have; drawn by the order's id."""
    keys = customer_keys(orders["order_id"])
    number = pc.cast(pc.utf8_slice_codeunits(orders["customer_id"], 1), pa.int64())
    customers = customers_at(settings, index=number.to_numpy())
    chance = Chance(settings.seed, keys, np.zeros(keys.size, np.int64), ["orders"])
    delay = return_delay(customers.return_days, chance.uniform("return delay"), habits=settings.habits)
    value = returned_value(orders["paid"].to_numpy(), orders["items"].to_numpy(), chance.uniform("return part"))
    columns = [
        orders["order_id"].combine_chunks(),
        instants(orders["ordered_at"].cast(pa.int64()).to_numpy() + delay),
        pa.array(value),
    ]
    came_back = chance.uniform("return") < customers.return_share
    return pa.table(columns, schema=SCHEMAS["returns"]).filter(pa.array(came_back))
