"""Who the customers are: latent habits, and what follows from them. Nothing here is ever written to a file."""

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from scipy.special import expit

from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.retailer.curves import response
from disco.retailer.draws import BLOCK, block_generator
from disco.retailer.season import day_number
from disco.retailer.settings import ChannelName, RetailerSettings

HABITS = 8
BEHAVIOURS = {  # and the habit that each shows first; the less a behaviour says, the more company its habit gets
    "missions": 0, "item_price": 1, "views": 2, "browsing": 3, "bagging": 4, "saving": 5, "visits": 6, "returns": 7,
    "checkouts": 4, "codes": 6, "return_delay": 0,
}  # fmt: skip
NEVER = np.iinfo(np.int32).max  # a day no calendar reaches
_REFERENCE = 20_000  # customers of the sample on which scales are set; its size is part of the meaning of a seed


@dataclass(frozen=True, slots=True)
class Scale:
    """A raw score made standard: (raw − [1, regressors]·coefficients) / sd, hence uncorrelated with the regressors."""

    coefficients: Vector
    sd: float

    @classmethod
    def fit(cls, raw: Vector, regressors: Matrix) -> "Scale":
        design = np.column_stack([np.ones(raw.size), regressors])
        coefficients = np.linalg.lstsq(design, raw, rcond=None)[0]
        return cls(np.asarray(coefficients, np.float64), float((raw - design @ coefficients).std()))

    def apply(self, raw: Vector, regressors: Matrix) -> Vector:
        left = raw - self.coefficients[0]
        for column, coefficient in enumerate(self.coefficients[1:]):  # no BLAS: the same bits for any number of rows
            left = left - coefficient * regressors[:, column]
        return np.asarray(left / self.sd, np.float64)


@dataclass(frozen=True, slots=True)
class Directions:
    """What the seed decides once for everybody: how habits mix, and the weights with which they drive behaviour."""

    mixing: Matrix  # (8, 8), rows of length 1: habits = normals · mixingᵀ
    behaviour: Matrix  # (8, behaviours), columns of length 1
    baseline: Vector  # (8,)
    elasticity: Vector
    engagement: Vector


@dataclass(frozen=True, slots=True)
class Scales:
    baseline_linear: Scale
    baseline_nonlinear: Scale
    elasticity: Scale
    engagement: Scale
    behaviour: Vector  # sd of habits · behaviour, per behaviour


@dataclass(frozen=True, slots=True)
class Customers:
    """Customers in columns; `take` picks rows. All arrays have one entry per customer."""

    index: Integers  # 17 for customer c0000017
    joined_on: Integers  # days since 1970-01-01
    lapsed_on: Integers  # NEVER for most
    spend: Vector  # standardised baseline
    baseline: Vector  # b
    elasticity: Vector  # s
    bend: Vector
    engagement: Vector  # logit of a purchase with a code of depth 0, before the channel's part
    engagement_gain: Vector
    lapsed: Flags
    missions_per_month: Vector
    item_price: Vector
    return_share: Vector
    return_days: Vector
    browse_days_per_month: Vector
    views_per_visit: Vector
    bag_share: Vector
    save_share: Vector
    checkout_share: Vector
    extra_visits: Vector
    code_share: Vector
    country: Integers  # place in settings.countries

    def take(self, rows: Integers) -> "Customers":
        return Customers(*(getattr(self, each.name)[rows] for each in fields(self)))

    @classmethod
    def concatenate(cls, parts: "list[Customers]") -> "Customers":
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))


def _multiply(left: Matrix, right: Matrix) -> Matrix:
    """left · right with a fixed order of summation (BLAS may give other bits for another number of rows)."""
    out = np.zeros((left.shape[0], right.shape[1]))
    for inner in range(left.shape[1]):
        out += left[:, inner, None] * right[None, inner, :]
    return out


def _unit_rows(matrix: Matrix) -> Matrix:
    return np.asarray(matrix / np.sqrt((matrix**2).sum(axis=1, keepdims=True)), np.float64)


def _bent(z: Matrix) -> Vector:
    """The part of a customer's baseline that no line through its habits can follow."""
    return np.asarray(
        1.7 * np.tanh(1.2 * np.abs(z[:, 2]))
        + 1.3 * np.tanh(1.2 * np.abs(z[:, 5]))
        + 0.9 * (z[:, 4] > 0.3) * np.tanh(z[:, 6])
        + 0.5 * np.tanh(z[:, 1] * z[:, 5]),
        np.float64,
    )


def _raw_elasticity(z: Matrix, directions: Directions) -> Vector:
    line = _multiply(z, directions.elasticity[:, None])[:, 0]
    return np.asarray(line + 0.7 * np.tanh(z[:, 4] * z[:, 6]) + 0.5 * np.abs(z[:, 7]), np.float64)


def _raw_engagement(z: Matrix, directions: Directions) -> Vector:
    line = _multiply(z, directions.engagement[:, None])[:, 0]
    return np.asarray(line + 0.6 * np.tanh(z[:, 3] * z[:, 7]), np.float64)


def _spend(z: Matrix, directions: Directions, settings: RetailerSettings, linear: Scale, nonlinear: Scale) -> Vector:
    """The customer's part of the baseline: linear_sd·lin + nonlinear_sd·nonlin."""
    baskets = settings.baskets
    line = linear.apply(_multiply(z, directions.baseline[:, None])[:, 0], z[:, :0])
    return np.asarray(baskets.linear_sd * line + baskets.nonlinear_sd * nonlinear.apply(_bent(z), z), np.float64)


@lru_cache(maxsize=4)  # a pure function of the settings; a study visits few shops at a time
def foundations(settings: RetailerSettings) -> tuple[Directions, Scales]:
    """Directions from the seed, and scales from a reference sample, so that no figure depends on the shop's size."""
    draw = block_generator(settings.seed, purpose="directions", block=0)
    behaviour = settings.habits.cross_loading * draw.standard_normal((HABITS, len(BEHAVIOURS)))
    behaviour[list(BEHAVIOURS.values()), range(len(BEHAVIOURS))] += 1.0
    directions = Directions(
        mixing=_unit_rows(np.eye(HABITS) + settings.habits.mixing * draw.standard_normal((HABITS, HABITS))),
        behaviour=_unit_rows(behaviour.T).T,
        baseline=draw.standard_normal(HABITS),
        elasticity=_unit_rows(draw.standard_normal((1, HABITS)))[0],
        engagement=_unit_rows(draw.standard_normal((1, HABITS)))[0],
    )
    z = _multiply(
        block_generator(settings.seed, purpose="reference", block=0).standard_normal((_REFERENCE, HABITS)),
        directions.mixing.T,
    )
    linear = Scale.fit(_multiply(z, directions.baseline[:, None])[:, 0], z[:, :0])
    nonlinear = Scale.fit(_bent(z), z)
    spend = _spend(z, directions, settings, linear, nonlinear)[:, None]
    return directions, Scales(
        baseline_linear=linear,
        baseline_nonlinear=nonlinear,
        elasticity=Scale.fit(_raw_elasticity(z, directions), spend),
        engagement=Scale.fit(_raw_engagement(z, directions), spend),
        behaviour=_multiply(z, directions.behaviour).std(axis=0),
    )


def _joint(spend: Vector, habit: Vector, own: Vector, *, with_spend: float, from_habits: float) -> Vector:
    """A standard score with corr = with_spend; of the rest, habits explain the share from_habits."""
    rest = np.sqrt(from_habits) * habit + np.sqrt(1 - from_habits) * own
    return np.asarray(with_spend * spend + np.sqrt(1 - with_spend**2) * rest, np.float64)


def block_of_customers(settings: RetailerSettings, *, block: int) -> Customers:
    """The customers of one block. A whole block is always drawn: the first customers of a larger shop are the same."""
    directions, scales = foundations(settings)
    habits, curves, engagement, baskets = settings.habits, settings.curves, settings.engagement, settings.baskets
    draw = block_generator(settings.seed, purpose="customers", block=block)
    z = _multiply(draw.standard_normal((BLOCK, HABITS)), directions.mixing.T)
    own = draw.standard_normal((BLOCK, 4))
    eta = np.sqrt(1 - habits.habit_noise) * _multiply(z, directions.behaviour) / scales.behaviour
    eta += np.sqrt(habits.habit_noise) * draw.standard_normal(eta.shape)
    behaviour = dict(zip(BEHAVIOURS, eta.T, strict=True))

    offset = _spend(z, directions, settings, scales.baseline_linear, scales.baseline_nonlinear)
    spend = offset / max(float(np.hypot(baskets.linear_sd, baskets.nonlinear_sd)), 1e-12)
    zeta = _joint(
        spend,
        scales.elasticity.apply(_raw_elasticity(z, directions), offset[:, None]),
        own[:, 0],
        with_spend=curves.elasticity_with_baseline,
        from_habits=curves.elasticity_from_habits,
    )
    readiness = _joint(
        spend,
        scales.engagement.apply(_raw_engagement(z, directions), offset[:, None]),
        own[:, 1],
        with_spend=engagement.with_spend,
        from_habits=engagement.from_habits,
    )
    joined_on, lapsed_on = _membership(draw, settings)
    lapsed = lapsed_on != NEVER
    customers = Customers(
        index=np.arange(block * BLOCK, (block + 1) * BLOCK),
        joined_on=joined_on,
        lapsed_on=lapsed_on,
        spend=spend,
        baseline=baskets.mean + offset,
        elasticity=curves.elasticity * np.exp(curves.elasticity_spread * zeta - curves.elasticity_spread**2 / 2),
        bend=own[:, 2],
        engagement=engagement.level + engagement.spread * readiness,
        engagement_gain=engagement.gain * np.exp(engagement.gain_spread * own[:, 3] - engagement.gain_spread**2 / 2),
        lapsed=lapsed,
        missions_per_month=habits.missions_per_month * np.exp(habits.missions_spread * behaviour["missions"]),
        item_price=habits.item_price * np.exp(habits.item_price_spread * behaviour["item_price"]),
        return_share=expit(habits.return_logit + habits.return_spread * behaviour["returns"]),
        return_days=habits.return_days * np.exp(habits.return_days_spread * behaviour["return_delay"]),
        browse_days_per_month=habits.browse_days_per_month * np.exp(habits.browse_spread * behaviour["browsing"]),
        views_per_visit=habits.views_per_visit * np.exp(habits.views_spread * behaviour["views"]),
        bag_share=expit(-1.9 + 0.7 * behaviour["bagging"]),
        save_share=expit(-1.9 + 0.8 * behaviour["saving"]),
        checkout_share=expit(-1.4 + 0.7 * behaviour["checkouts"]),
        extra_visits=0.5 * np.exp(0.6 * behaviour["visits"]),
        code_share=expit(settings.ordinary_codes.sent_logit + settings.ordinary_codes.sent_spread * behaviour["codes"]),
        country=np.searchsorted(np.cumsum([share for _, share in settings.countries[:-1]]), draw.random(BLOCK)),
    )
    return customers.take(np.arange(min(BLOCK, settings.customers - block * BLOCK)))


def _membership(draw: np.random.Generator, settings: RetailerSettings) -> tuple[Integers, Integers]:
    """The days on which customers joined, and on which some of them stopped ordering."""
    start, end = day_number(settings.calendar.history_start), day_number(settings.calendar.history_end)
    late = draw.random(BLOCK) < settings.habits.joined_during_history
    place = draw.random(BLOCK)
    joined_on = np.where(late, start + place * (end - start), start - place * 5 * 365).astype(np.int64)
    from_day = np.maximum(joined_on, start)
    stop = from_day + 1 + (draw.random(BLOCK) * (end - from_day - 1)).astype(np.int64)
    lapsed_on = np.where(draw.random(BLOCK) < settings.habits.lapsed, stop, NEVER)
    return joined_on, lapsed_on


def customers_at(settings: RetailerSettings, *, index: Integers) -> Customers:
    """The customers at these positions, in the order asked for; whole blocks are drawn and the rest dropped."""
    if index.size == 0:
        return block_of_customers(settings, block=0).take(index)
    blocks, inverse = np.unique(index // BLOCK, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(blocks.size + 1))
    parts = [
        block_of_customers(settings, block=int(block)).take(
            index[order[bounds[place] : bounds[place + 1]]] - block * BLOCK
        )
        for place, block in enumerate(blocks)
    ]
    back = np.empty(index.size, np.int64)
    back[order] = np.arange(index.size)
    return Customers.concatenate(parts).take(back)


def rise(customers: Customers, depth: Vector, *, settings: RetailerSettings) -> Vector:
    """g(depth / depth_scale); (n,) depths give (n,), (K,) against columns [:, None] is the caller's business."""
    return response(customers.bend, depth / settings.curves.depth_scale, curves=settings.curves)


def log_basket(customers: Customers, g: Vector) -> Vector:
    """E[ln F] = b + s·g."""
    return np.asarray(customers.baseline + customers.elasticity * g, np.float64)


def purchase_probability(
    customers: Customers, g: Vector, *, settings: RetailerSettings, channel: ChannelName, lapsed: Flags
) -> Vector:
    """P(purchase | code) = expit(level + channel + gain·g), lower for customers who have lapsed."""
    logit = customers.engagement + customers.engagement_gain * g + settings.channel(channel).logit
    return np.asarray(expit(logit + settings.habits.lapsed_logit * lapsed), np.float64)
