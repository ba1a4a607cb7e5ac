"""Visits to the site: every day with an order, and days of browsing."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from disco.records.arrays import Integers, Vector
from disco.retailer.life import DAY, BlockMonth, Orders
from disco.retailer.population import Customers
from disco.retailer.season import DAYS_PER_MONTH

Poisson = Callable[[Vector, str], Integers]  # means, and what is counted, to counts

_AFTER_LAPSING = 0.2  # customers who stopped ordering still look in, on this share of the days
_ABANDONED = 0.3  # of the articles in a bag: how many more checkouts than orders they cause


@dataclass(frozen=True, slots=True)
class Site:
    """One entry per customer and day with a visit."""

    who: Integers
    day: Integers  # days since 1970-01-01
    visits: Integers
    views: Integers
    add_to_bag: Integers
    saves: Integers
    checkouts: Integers


def browse_month(customers: Customers, orders: Orders, at: BlockMonth) -> Site:
    """One month on the site; browsing goes on, more rarely, after a customer has lapsed."""
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
    return spend_time(
        customers.take(places // length),
        lambda mean, _: draw.poisson(mean),
        who=places // length,
        day=start + places % length,
        orders=np.bincount(bought, minlength=places.size),
        items=np.bincount(bought, orders.items, places.size).astype(np.int64),
    )


def spend_time(
    customers: Customers, poisson: Poisson, *, who: Integers, day: Integers, orders: Integers, items: Integers
) -> Site:
    """What customers (one row each per day) did on the site; what they bought they viewed, bagged and checked out."""
    visits = 1 + poisson(customers.extra_visits, "visits")
    views = items + poisson(visits * customers.views_per_visit, "views")
    add_to_bag = items + poisson(views * customers.bag_share, "add_to_bag")
    return Site(
        who=who,
        day=day,
        visits=visits,
        views=views,
        add_to_bag=add_to_bag,
        saves=poisson(views * customers.save_share, "saves"),
        checkouts=orders + poisson(_ABANDONED * add_to_bag * customers.checkout_share, "checkouts"),
    )
