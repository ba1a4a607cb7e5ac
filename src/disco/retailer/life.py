"""One month of one block of customers without campaigns: orders, monthly codes, returns and visits to the site.

A month is a pure function of (settings, block, month), so any stretch of time can be simulated again, alone.
Byte-critical: the order of draws decides every row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from disco.records.arrays import Integers, Vector
from disco.retailer.draws import block_generator
from disco.retailer.population import Customers, log_basket, purchase_probability, rise
from disco.retailer.season import DAYS_PER_MONTH, Days, busyness, days_of_month, first_day, month_of
from disco.retailer.settings import ChannelName, RetailerSettings, ShoppingHabits
from disco.retailer.world import answer_factor, residuals, season

SECOND = 1_000_000  # in microseconds, the unit of every instant here
DAY = 86_400 * SECOND
_SENT_AT = 7 * 3600 * SECOND  # time of day: an hour before the first order, so no code is used before it is sent
_LAST_SENDING_DAY = 20  # of a month; the rest of the month is left to redeem
_AFTER_LAPSING = 0.2  # customers who stopped ordering still visit, on this share of the days
_ABANDONED = 0.3  # checkouts beyond those that end in an order, per article in a bag

Poisson = Callable[[Vector, str], Integers]  # (means, name of what is counted) → counts


@dataclass(frozen=True, slots=True)
class Orders:
    """One entry per order."""

    number: Integers
    who: Integers  # row of the customer in the block
    ordered_at: Integers  # microseconds since 1970-01-01
    full_price: Vector  # currency units
    paid: Vector  # currency units
    items: Integers
    code: Integers  # number of the code, −1 = none


@dataclass(frozen=True, slots=True)
class Returns:
    """One entry per returned order."""

    order: Integers  # the order's number
    returned_at: Integers  # microseconds since 1970-01-01
    value: Vector  # currency units


@dataclass(frozen=True, slots=True)
class Codes:
    """Monthly codes, in the order of their customers."""

    number: Integers
    who: Integers  # row of the customer in the block
    month: Integers  # months since January of year 0
    depth: Vector
    sent_at: Integers  # microseconds since 1970-01-01
    redeemed_at: Integers  # microseconds since 1970-01-01, −1 = never


@dataclass(frozen=True, slots=True)
class SiteDays:
    """One entry per customer and day with a visit."""

    who: Integers  # row of the customer in the block
    day: Integers  # days since 1970-01-01
    visits: Integers
    views: Integers
    add_to_bag: Integers
    saves: Integers
    checkouts: Integers


@dataclass(frozen=True, slots=True)
class BlockMonth:
    """One block of customers in one month: what the draws of a simulated month depend on."""

    settings: RetailerSettings
    block: int
    month: int  # months since January of year 0

    @property
    def days(self) -> Days:
        """The days of the month."""
        return days_of_month(self.month)

    @property
    def first_number(self) -> int:
        """Numbers of orders and codes: year, month, block and a running number side by side, so each is unique."""
        first = first_day(self.month)
        return (first.year * 100 + first.month) * 10**9 + self.block * 10**6

    def generator(self, purpose: str) -> np.random.Generator:
        """The random numbers of one purpose."""
        return block_generator(self.settings.seed, purpose=purpose, block=self.block, month=self.month)


def items_of(full_price: Vector, item_price: Vector, noise: Vector) -> Integers:
    """How many articles make up a basket, at least one; `noise` is standard normal. All (n,)."""
    return np.maximum(np.rint(full_price / (item_price * np.exp(0.25 * noise))), 1).astype(np.int64)


def pennies(amount: Vector) -> Vector:
    """Money rounded to the penny, at least one penny.

    >>> pennies(np.array([12.344, 0.001])).tolist()
    [12.34, 0.01]
    """
    return np.asarray(np.maximum(np.rint(amount * 100), 1.0) / 100, np.float64)


def returned_value(paid: Vector, items: Integers, part: Vector) -> Vector:
    """The value returned of an order: 1 to all of its items, by the uniform `part`; never more than was paid.

    >>> returned_value(np.array([30.0, 30.0]), np.array([3, 3]), np.array([0.1, 0.9])).tolist()
    [10.0, 30.0]
    """
    share = (1 + np.floor(part * items)) / items
    return np.asarray(np.minimum(pennies(paid * share), paid), np.float64)


def return_delay(mean_days: Vector, place: Vector, *, habits: ShoppingHabits) -> Integers:
    """Microseconds from order to return, by the uniform `place`: two days plus an exponential, in whole seconds."""
    days = np.minimum(2 - np.log1p(-place) * np.maximum(mean_days - 2, 0.5), habits.most_return_days)
    return np.asarray(np.floor(days * (DAY // SECOND)) * SECOND, np.int64)


def simulate_month(customers: Customers, at: BlockMonth) -> tuple[Orders, Returns, Codes]:
    """Orders, returns and codes of one month of one block of customers."""
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
    """(who, day) of orders without a code: one or more in a month with a mission, on busy days more often."""
    days = at.days
    factor = busyness(days, calendar=at.settings.calendar) * season(at.settings, days.astype(np.int64))
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

    They are redeemed within their month, and none are sent once the history has ended: from then on campaigns are the
    only source of codes, so on any later day every monthly code is either redeemed or expired.
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
        factor=answer_factor(settings, sent_on),
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
    """ln(full price) = b + s·g(u) + season + mission + noise; the last two make up residual_sd.

    The mission's part, by far the larger, has the tails of the world. The caller fills in the codes.
    """
    settings, baskets = at.settings, at.settings.baskets
    buyers = customers.take(who)
    mission = at.generator("missions").standard_normal(customers.index.size)[who]
    order_sd = np.sqrt(baskets.residual_sd**2 - baskets.mission_sd**2)
    day = ordered_at // DAY
    busy = busyness(day.astype("datetime64[D]"), calendar=settings.calendar) * season(settings, day)
    full_price = pennies(
        np.exp(
            log_basket(buyers, rise(buyers, depth, settings=settings))
            + settings.calendar.basket_share * np.log(busy)
            + baskets.mission_sd * residuals(mission, settings.world.tails)
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


def browse_month(customers: Customers, orders: Orders, at: BlockMonth) -> SiteDays:
    """One month on the site: every day with an order, and days of browsing, fewer after a customer has lapsed."""
    start, length = int(at.days[0].astype(np.int64)), at.days.size
    draw = at.generator("site")
    counts = draw.poisson(customers.browse_days_per_month * length / DAYS_PER_MONTH)
    who = np.repeat(np.arange(counts.size), counts)
    day = draw.integers(0, length, who.size)
    curious = draw.random(who.size) < _AFTER_LAPSING
    present = (customers.joined_on[who] <= start + day) & ((start + day < customers.lapsed_on[who]) | curious)
    bought_on = orders.who * length + orders.ordered_at // DAY - start
    places, inverse = np.unique(np.concatenate([bought_on, (who * length + day)[present]]), return_inverse=True)
    bought = inverse[: bought_on.size]
    return site_days(
        customers.take(places // length),
        lambda mean, _: draw.poisson(mean),
        who=places // length,
        day=start + places % length,
        orders=np.bincount(bought, minlength=places.size),
        items=np.bincount(bought, orders.items, places.size).astype(np.int64),
    )


def site_days(
    customers: Customers, poisson: Poisson, *, who: Integers, day: Integers, orders: Integers, items: Integers
) -> SiteDays:
    """What customers did on the site, one row per customer and day. What they bought they also viewed and bagged.

    who, day, orders, items: (n,), as the rows of `customers`.
    """
    visits = 1 + poisson(customers.extra_visits, "visits")
    views = items + poisson(visits * customers.views_per_visit, "views")
    add_to_bag = items + poisson(views * customers.bag_share, "add_to_bag")
    return SiteDays(
        who=who,
        day=day,
        visits=visits,
        views=views,
        add_to_bag=add_to_bag,
        saves=poisson(views * customers.save_share, "saves"),
        checkouts=orders + poisson(_ABANDONED * add_to_bag * customers.checkout_share, "checkouts"),
    )
