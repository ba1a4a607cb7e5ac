"""What codes do beyond the order they are used for: laws that customers may follow, and the truth of what codes added.

Three laws, each off in the ordinary world. For an ordinary order (one without a code) placed at time t by a customer
who was sent campaign codes of depth d_j at times s_j < t, with age_j = days from s_j to t,

    anyway     it is not placed with probability `anyway` where s_j ≤ t < (use of code j) + 30 days for some code j that
               was used: the order would have come anyway, and the code replaced it
    waiting    it is not placed with probability `waiting`·min(1, n/3), n = codes with age_j < 120: who regularly gets
               codes waits for the next one
    reference  it is not placed with probability 1 − exp(−reference·r), r = max_j d_j·(1 − age_j/120)⁺: customers
               remember the best recent depth; and P(purchase | code of depth d) is exp(−reference·(r − d)⁺) as large

Laws begin with the campaigns, when the history ends, and codes of the history are not remembered. Each ordinary order
has one number per law, drawn by its id, so a stronger law never brings an order back. What was not placed is also not
returned; visits stay. The orders that a law takes away are the difference between two worlds with the same random
numbers, so the truth of what codes added is known per customer and not as an average alone (`AddedTruth`).

Byte-critical: with all laws off nothing here is called.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags, Integers, Vector
from disco.records.identity import customer_keys
from disco.retailer.draws import salts, uniforms
from disco.retailer.settings import RetailerSettings, World

REMEMBERED_DAYS = 120  # after which a code is forgotten
REPLACED_DAYS = 30  # after the use of a code, in which it replaces orders
REGULAR_CODES = 3  # remembered codes from which on waiting is complete
_DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class AddedTruth:
    """What codes added for each customer, (customers,): purchases that happened less those without any code."""

    revenue: Vector  # paid
    full_price: Vector  # of the same orders before discounts
    orders: Vector  # how many

    @property
    def markdown(self) -> Vector:
        """What discounts took off."""
        return self.full_price - self.revenue

    def margin(self, share: float) -> Vector:
        """With goods that cost 1 − share of their full price."""
        return self.revenue - (1 - share) * self.full_price


def follows_laws(world: World) -> bool:
    """Whether codes do more than bring the order they are used for."""
    return bool(world.anyway or world.waiting or world.reference)


@dataclass(frozen=True, slots=True, eq=False)
class SentBefore:
    """Campaign codes in the order of their customers."""

    customer: Integers  # position in the retailer
    depth: Vector
    sent_at: Integers  # microseconds since 1970-01-01
    used_at: Integers  # likewise; −1: not used

    @classmethod
    def of(cls, codes: pa.Table) -> "SentBefore":
        """From rows of the retailer's own table of codes."""
        customer, sent_at = _positions(codes), _instants(codes["sent_at"])
        order = np.lexsort((sent_at, customer))
        depth, used_at = codes["depth"].to_numpy(), _instants(codes["redeemed_at"])
        return cls(customer[order], depth[order], sent_at[order], used_at[order])

    def pairs(self, customer: Integers, at: Integers) -> tuple[Integers, Integers]:
        """(row, code): for each row (a customer at a time) every code that they were sent earlier."""
        first = np.searchsorted(self.customer, customer, side="left")
        count = np.searchsorted(self.customer, customer, side="right") - first
        row = np.repeat(np.arange(customer.size), count)
        code = np.arange(row.size) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        earlier = self.sent_at[code] < at[row]
        return row[earlier], code[earlier]

    def remembered(self, customer: Integers, at: Integers) -> tuple[Vector, Integers]:
        """(r, n) of each customer at a time: the remembered depth, 0 without one, and how many codes are remembered."""
        row, code = self.pairs(customer, at)
        left = 1 - (at[row] - self.sent_at[code]) / (REMEMBERED_DAYS * _DAY)
        row, code, left = row[left > 0], code[left > 0], left[left > 0]
        depth = np.zeros(customer.size)
        np.maximum.at(depth, row, self.depth[code] * left)
        return depth, np.bincount(row, minlength=customer.size)

    def replaced(self, customer: Integers, at: Integers) -> Flags:
        """Whether a customer had used, or was about to use, a code at that time."""
        row, code = self.pairs(customer, at)
        used = self.used_at[code] >= 0
        within = used & (at[row] < self.used_at[code] + REPLACED_DAYS * _DAY)
        found = np.zeros(customer.size, np.bool_)
        found[row[within]] = True
        return found


def placed(orders: pa.Table, codes: pa.Table, *, settings: RetailerSettings) -> Flags:
    """(n,) whether ordinary orders are placed by customers who were sent these campaign codes."""
    world, sent = settings.world, SentBefore.of(codes)
    customer, at = _positions(orders), _instants(orders["ordered_at"])
    keys = customer_keys(orders["order_id"])

    def chance(purpose: str) -> Vector:
        salt = salts(settings.seed, purpose=purpose, names=["orders"])
        return uniforms(keys, salts=np.repeat(salt, keys.size))

    depth, count = sent.remembered(customer, at)
    stays = np.ones(customer.size, np.bool_)
    stays &= ~sent.replaced(customer, at) | (chance("anyway") >= world.anyway)
    stays &= chance("waiting") >= world.waiting * np.minimum(count / REGULAR_CODES, 1.0)
    return np.asarray(stays & (chance("reference") < np.exp(-world.reference * depth)), np.bool_)


def answer_share(codes: pa.Table, *, customer: Integers, depth: Vector, at: Integers, reference: float) -> Vector:
    """(n,) what a remembered depth leaves of the chance to answer a code of this depth, sent at a time.

    codes: campaign codes of before.
    """
    best, _ = SentBefore.of(codes).remembered(customer, at)
    return np.asarray(np.exp(-reference * np.maximum(best - depth, 0.0)), np.float64)


def added(actual: pa.Table, without: pa.Table, *, customers: int) -> AddedTruth:
    """actual: orders that happened. without: those of the same days without any code."""

    def totals(orders: pa.Table) -> list[Vector]:
        who = _positions(orders)
        columns = (orders["paid"].to_numpy(), orders["full_price"].to_numpy(), np.ones(who.size))
        return [np.bincount(who, weights=each, minlength=customers).astype(np.float64) for each in columns]

    return AddedTruth(*(a - b for a, b in zip(totals(actual), totals(without), strict=True)))


def _positions(rows: pa.Table) -> Integers:
    number = pc.cast(pc.utf8_slice_codeunits(rows["customer_id"], 1), pa.int64())
    return np.asarray(number.to_numpy(), np.int64)


def _instants(column: pa.ChunkedArray) -> Integers:
    """Microseconds since 1970-01-01, −1 for none."""
    return np.asarray(pc.fill_null(column.cast(pa.int64()), -1).to_numpy(), np.int64)
