"""The ordinary life of one block of customers in one month: orders, monthly codes and returns.

A month is a pure function of (settings, block, month), so any stretch of time can be told again, alone.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from disco.records.arrays import Integers, Vector
from disco.retailer.draws import block_generator
from disco.retailer.population import Customers, log_basket, purchase_probability, rise
from disco.retailer.season import DAYS_PER_MONTH, Days, busyness, days_of_month, first_day, month_of
from disco.retailer.settings import ChannelName, Habits, RetailerSettings

SECOND = 1_000_000  # in microseconds, the unit of every instant here
DAY = 86_400 * SECOND
_SENT_AT = (
    7 * 3600 * SECOND
)  # time of day; the first order of a day comes an hour later, so no code is used before it is sent
_LAST_SENDING_DAY = 20  # of a month; the rest of the month is left to redeem


@dataclass(frozen=True, slots=True)
class Orders:
    """One entry per order. `who` is the row of the customer in its block; `code` the code's number, −1 = none."""

    number: Integers
    who: Integers
    ordered_at: Integers  # microseconds since 1970-01-01
    full_price: Vector
    paid: Vector
    items: Integers
    code: Integers


@dataclass(frozen=True, slots=True)
class Returns:
    order: Integers  # the order's number
    returned_at: Integers
    value: Vector


@dataclass(frozen=True, slots=True)
class Codes:
    """Monthly codes, in the order of their customers."""

    number: Integers
    who: Integers
    month: Integers
    depth: Vector
    sent_at: Integers
    redeemed_at: Integers  # −1 = never


@dataclass(frozen=True, slots=True)
class BlockMonth:
    """Where in the simulation we are."""

    settings: RetailerSettings
    block: int
    month: int

    @property
    def days(self) -> Days:
        return days_of_month(self.month)

    @property
    def first_number(self) -> int:
        """Numbers of orders and codes: year, month, block and a running number side by side, so never met twice."""
        first = first_day(self.month)
        return (first.year * 100 + first.month) * 10**9 + self.block * 10**6

    def generator(self, purpose: str) -> np.random.Generator:
        return block_generator(self.settings.seed, purpose=purpose, block=self.block, month=self.month)


def items_of(full_price: Vector, item_price: Vector, noise: Vector) -> Integers:
    """How many articles make up a basket; `noise` is standard normal."""
    return np.maximum(np.rint(full_price / (item_price * np.exp(0.25 * noise))), 1).astype(np.int64)


def pennies(amount: Vector) -> Vector:
    """Money rounded to the penny, at least one of them.

    >>> pennies(np.array([12.344, 0.001])).tolist()
    [12.34, 0.01]
    """
    return np.asarray(np.maximum(np.rint(amount * 100), 1.0) / 100, np.float64)


def returned_value(paid: Vector, items: Integers, part: Vector) -> Vector:
    """What comes back of an order: 1 to all of its items, by the uniform `part`; never more than was paid.

    >>> returned_value(np.array([30.0, 30.0]), np.array([3, 3]), np.array([0.1, 0.9])).tolist()
    [10.0, 30.0]
    """
    share = (1 + np.floor(part * items)) / items
    return np.asarray(np.minimum(pennies(paid * share), paid), np.float64)


def return_delay(mean_days: Vector, place: Vector, *, habits: Habits) -> Integers:
    """Microseconds from order to return, by the uniform `place`: two days plus an exponential, in whole seconds."""
    days = np.minimum(2 - np.log1p(-place) * np.maximum(mean_days - 2, 0.5), habits.most_return_days)
    return np.asarray(np.floor(days * (DAY // SECOND)) * SECOND, np.int64)


def live_month(customers: Customers, at: BlockMonth) -> tuple[Orders, Returns, Codes]:
    """One month of one block of customers."""
    codes, redeemed_on = _monthly_codes(customers, at)
    who, day = _uncoded_orders(customers, at)
    used = np.flatnonzero(redeemed_on >= 0)
    plain = who.size
    who = np.concatenate([who, codes.who[used]])
    day = np.concatenate([day, redeemed_on[used]])
    depth = np.concatenate([np.zeros(plain), codes.depth[used]])
    code = np.concatenate([np.full(plain, -1), used])

    draw = at.generator("baskets")
    seconds = draw.triangular(8.0, 20.0, 24.0, who.size) * 3600
    ordered_at = day * DAY + seconds.astype(np.int64) * SECOND
    order = np.argsort(ordered_at, kind="stable")
    who, depth, code, ordered_at = who[order], depth[order], code[order], ordered_at[order]

    coded = code >= 0
    codes.redeemed_at[code[coded]] = ordered_at[coded]
    code = np.where(coded, codes.number[code] if codes.number.size else -1, -1)
    orders = replace(_baskets(customers, at, draw, who=who, depth=depth, ordered_at=ordered_at), code=code)

    came_back = draw.random(who.size) < customers.return_share[who]
    place, part = draw.random((2, who.size))
    delay = return_delay(customers.return_days[who], place, habits=at.settings.habits)
    returns = Returns(
        order=orders.number[came_back],
        returned_at=(ordered_at + delay)[came_back],
        value=returned_value(orders.paid, orders.items, part)[came_back],
    )
    return orders, returns, codes


def _uncoded_orders(customers: Customers, at: BlockMonth) -> tuple[Integers, Integers]:
    """Who orders on which day without a code: in a month with a mission one order or more, busier on busy days."""
    days = at.days
    factor = busyness(days, calendar=at.settings.calendar)
    draw = at.generator("orders")
    shopping = draw.random(customers.index.size) < -np.expm1(
        -customers.missions_per_month * factor.sum() / DAYS_PER_MONTH
    )
    counts = shopping * (1 + draw.poisson(at.settings.habits.orders_per_mission - 1, shopping.size))
    who = np.repeat(np.arange(counts.size), counts)
    place = np.searchsorted(np.cumsum(factor) / factor.sum(), draw.random(who.size))
    day = days.astype(np.int64)[np.minimum(place, days.size - 1)]
    present = (customers.joined_on[who] <= day) & (day < customers.lapsed_on[who])
    return who[present], day[present]


def _monthly_codes(customers: Customers, at: BlockMonth) -> tuple[Codes, Integers]:
    """The month's ordinary codes and the day each was redeemed on (−1 = never).

    They are redeemed within their month, and none are sent once the history has ended: from then on the campaigns are
    the only source of codes, so that a shop cut at any later day has no code whose fate is still open.
    """
    settings, days = at.settings, at.days.astype(np.int64)
    draw = at.generator("codes")
    uniform, score = draw.random((4, customers.index.size)), draw.standard_normal(customers.index.size)
    sent_on = days[0] + (uniform[1] * _LAST_SENDING_DAY).astype(np.int64)
    gets = (uniform[0] < customers.code_share) & (customers.joined_on <= sent_on)
    if at.month >= month_of(settings.calendar.history_end):
        gets[:] = False
    who = np.flatnonzero(gets)
    customers, sent_on, score, uniform = customers.take(who), sent_on[who], score[who], uniform[:, who]
    ladder = np.array(settings.ordinary_codes.depths)
    confounding = settings.ordinary_codes.confounding
    rank = ndtr(confounding * customers.spend + np.sqrt(1 - confounding**2) * score)
    depth = ladder[np.minimum((rank * ladder.size).astype(np.int64), ladder.size - 1)]
    chance = purchase_probability(
        customers,
        rise(customers, depth, settings=settings),
        settings=settings,
        channel=ChannelName.EMAIL,
        lapsed=customers.lapsed_on <= sent_on,
    )
    left = days[-1] + 1 - sent_on
    redeemed_on = np.where(uniform[2] < chance, sent_on + (uniform[3] ** 2 * left).astype(np.int64), -1)
    codes = Codes(
        number=at.first_number + who,
        who=who,
        month=np.full(who.size, at.month),
        depth=depth,
        sent_at=sent_on * DAY + _SENT_AT,
        redeemed_at=np.full(who.size, -1),
    )
    return codes, redeemed_on


def _baskets(
    customers: Customers,
    at: BlockMonth,
    draw: np.random.Generator,
    *,
    who: Integers,
    depth: Vector,
    ordered_at: Integers,
) -> Orders:
    """ln(full price) = b + s·g(u) + season + mission + noise; the last two make up residual_sd. Codes come later."""
    settings, baskets = at.settings, at.settings.baskets
    buyers = customers.take(who)
    mission = at.generator("missions").standard_normal(customers.index.size)[who]
    order_sd = np.sqrt(baskets.residual_sd**2 - baskets.mission_sd**2)
    season = busyness((ordered_at // DAY).astype("datetime64[D]"), calendar=settings.calendar)
    full_price = pennies(
        np.exp(
            log_basket(buyers, rise(buyers, depth, settings=settings))
            + settings.calendar.basket_share * np.log(season)
            + baskets.mission_sd * mission
            + order_sd * draw.standard_normal(who.size)
        )
    )
    return Orders(
        number=at.first_number + np.arange(who.size),
        who=who,
        ordered_at=ordered_at,
        full_price=full_price,
        paid=pennies(full_price * (1 - depth)),
        items=items_of(full_price, buyers.item_price, draw.standard_normal(who.size)),
        code=np.full(who.size, -1),
    )
