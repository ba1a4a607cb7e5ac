"""Who the customers are: latent habits, the response curve, and what follows from them. None of it reaches a file.

Byte-critical: the order of draws and of floating-point operations decides every row of the simulated tables.
"""

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from scipy.special import expit

from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.retailer.draws import BLOCK, block_generator
from disco.retailer.season import day_number
from disco.retailer.settings import ChannelName, Curves, RetailerSettings, Shape

HABITS = 8
# Each behaviour with the habit it follows first. A habit that shows only weakly in its behaviour drives a second one.
BEHAVIOURS = {
    "missions": 0, "item_price": 1, "views": 2, "browsing": 3, "bagging": 4, "saving": 5, "visits": 6, "returns": 7,
    "checkouts": 4, "codes": 6, "return_delay": 0,
}  # fmt: skip
NEVER = np.iinfo(np.int32).max  # as a day: beyond every calendar
_REFERENCE = 20_000  # customers of the sample on which scales are set; its size is part of the meaning of a seed


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """Standardises a raw score: (raw − [1, regressors]·coefficients) / sd, uncorrelated with the regressors."""

    coefficients: Vector  # (1 + regressors,), the intercept first
    sd: float  # of the residual

    @classmethod
    def fit(cls, raw: Vector, regressors: Matrix) -> "ScoreScale":
        """Least squares of raw (n,) on [1, regressors] (n, 1 + k)."""
        design = np.column_stack([np.ones(raw.size), regressors])
        coefficients = np.linalg.lstsq(design, raw, rcond=None)[0]
        return cls(np.asarray(coefficients, np.float64), float((raw - design @ coefficients).std()))

    def apply(self, raw: Vector, regressors: Matrix) -> Vector:
        """The standard score of each row, (n,)."""
        left = raw - self.coefficients[0]
        for column, coefficient in enumerate(self.coefficients[1:]):  # no BLAS: the same bits for any number of rows
            left = left - coefficient * regressors[:, column]
        return np.asarray(left / self.sd, np.float64)


@dataclass(frozen=True, slots=True)
class Directions:
    """What the seed decides once for all customers: how habits mix, and the weights with which they drive behaviour."""

    mixing: Matrix  # (8, 8), rows of length 1: habits = normals · mixingᵀ
    behaviour: Matrix  # (8, behaviours), columns of length 1
    baseline: Vector  # (8,)
    elasticity: Vector  # (8,), length 1
    engagement: Vector  # (8,), length 1


@dataclass(frozen=True, slots=True)
class Scales:
    """How raw scores become standard ones, fitted once on a reference sample."""

    baseline_linear: ScoreScale
    baseline_nonlinear: ScoreScale
    elasticity: ScoreScale
    engagement: ScoreScale
    behaviour: Vector  # sd of habits · behaviour, per behaviour


@dataclass(frozen=True, slots=True)
class Customers:
    """Customers in columns; `take` picks rows. All arrays have one entry per customer."""

    index: Integers  # 17 for customer c0000017
    joined_on: Integers  # days since 1970-01-01
    lapsed_on: Integers  # days since 1970-01-01; NEVER for most
    spend: Vector  # standardised baseline
    baseline: Vector  # b: mean ln of the full-price basket without a code
    elasticity: Vector  # s: rise of that mean from u = 0 to u = 1
    bend: Vector  # standard normal that shapes the customer's own response curve
    engagement: Vector  # logit of a purchase with a code of depth 0, before the channel's part
    engagement_gain: Vector  # rise of that logit from u = 0 to u = 1
    lapsed: Flags  # stops ordering at some day of the history
    missions_per_month: Vector  # rate of months with orders without a code
    item_price: Vector  # currency units
    return_share: Vector  # chance that an order is returned
    return_days: Vector  # mean days from order to return
    browse_days_per_month: Vector  # days with a visit but no order
    views_per_visit: Vector
    bag_share: Vector  # of views: put into the bag
    save_share: Vector  # of views: saved for later
    checkout_share: Vector  # of articles in a bag: checkouts begun and abandoned
    extra_visits: Vector  # mean visits beyond the first on a day with a visit
    code_share: Vector  # chance of a monthly code
    country: Integers  # place in settings.countries

    def take(self, rows: Integers) -> "Customers":
        """These rows, in this order."""
        return Customers(*(getattr(self, each.name)[rows] for each in fields(self)))

    @classmethod
    def concatenate(cls, parts: "list[Customers]") -> "Customers":
        """The customers of all parts, one after the other."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))


def multiply(left: Matrix, right: Matrix) -> Matrix:
    """left · right with a fixed order of summation (BLAS may give other bits for another number of rows)."""
    out = np.zeros((left.shape[0], right.shape[1]))
    for inner in range(left.shape[1]):
        out += left[:, inner, None] * right[None, inner, :]
    return out


def unit_rows(matrix: Matrix) -> Matrix:
    """Every row divided by its length."""
    return np.asarray(matrix / np.sqrt((matrix**2).sum(axis=1, keepdims=True)), np.float64)


def _bent(z: Matrix) -> Vector:
    """The part of a customer's baseline that no linear function of their habits explains; z is (n, 8)."""
    return np.asarray(
        1.7 * np.tanh(1.2 * np.abs(z[:, 2]))
        + 1.3 * np.tanh(1.2 * np.abs(z[:, 5]))
        + 0.9 * (z[:, 4] > 0.3) * np.tanh(z[:, 6])
        + 0.5 * np.tanh(z[:, 1] * z[:, 5]),
        np.float64,
    )


def _raw_elasticity(z: Matrix, directions: Directions) -> Vector:
    line = multiply(z, directions.elasticity[:, None])[:, 0]
    return np.asarray(line + 0.7 * np.tanh(z[:, 4] * z[:, 6]) + 0.5 * np.abs(z[:, 7]), np.float64)


def _raw_engagement(z: Matrix, directions: Directions) -> Vector:
    line = multiply(z, directions.engagement[:, None])[:, 0]
    return np.asarray(line + 0.6 * np.tanh(z[:, 3] * z[:, 7]), np.float64)


def _spend(
    z: Matrix, directions: Directions, settings: RetailerSettings, linear: ScoreScale, nonlinear: ScoreScale
) -> Vector:
    """The customer's part of the baseline: linear_sd·lin + nonlinear_sd·nonlin."""
    baskets = settings.baskets
    line = linear.apply(multiply(z, directions.baseline[:, None])[:, 0], z[:, :0])
    return np.asarray(baskets.linear_sd * line + baskets.nonlinear_sd * nonlinear.apply(_bent(z), z), np.float64)


@lru_cache(maxsize=4)  # a pure function of the settings; a study visits few retailers at a time
def foundations(settings: RetailerSettings) -> tuple[Directions, Scales]:
    """Directions from the seed, and scales from a reference sample of fixed size.

    So a customer is the same in a retailer of any number of customers.
    """
    draw = block_generator(settings.seed, purpose="directions", block=0)
    behaviour = settings.habits.cross_loading * draw.standard_normal((HABITS, len(BEHAVIOURS)))
    behaviour[list(BEHAVIOURS.values()), range(len(BEHAVIOURS))] += 1.0
    directions = Directions(
        mixing=unit_rows(np.eye(HABITS) + settings.habits.mixing * draw.standard_normal((HABITS, HABITS))),
        behaviour=unit_rows(behaviour.T).T,
        baseline=draw.standard_normal(HABITS),
        elasticity=unit_rows(draw.standard_normal((1, HABITS)))[0],
        engagement=unit_rows(draw.standard_normal((1, HABITS)))[0],
    )
    z = _reference_habits(settings.seed, directions)
    linear = ScoreScale.fit(multiply(z, directions.baseline[:, None])[:, 0], z[:, :0])
    nonlinear = ScoreScale.fit(_bent(z), z)
    spend = _spend(z, directions, settings, linear, nonlinear)[:, None]
    return directions, Scales(
        baseline_linear=linear,
        baseline_nonlinear=nonlinear,
        elasticity=ScoreScale.fit(_raw_elasticity(z, directions), spend),
        engagement=ScoreScale.fit(_raw_engagement(z, directions), spend),
        behaviour=multiply(z, directions.behaviour).std(axis=0),
    )


def _reference_habits(seed: int, directions: Directions) -> Matrix:
    draw = block_generator(seed, purpose="reference", block=0)
    return multiply(draw.standard_normal((_REFERENCE, HABITS)), directions.mixing.T)


def reference_habits(settings: RetailerSettings) -> Matrix:
    """z (n, 8) of the sample on which scales are set."""
    return _reference_habits(settings.seed, foundations(settings)[0])


def _joint(spend: Vector, habit: Vector, own: Vector, *, with_spend: float, from_habits: float) -> Vector:
    """A standard score whose correlation with spend is with_spend; habits explain the share from_habits of the rest."""
    rest = np.sqrt(from_habits) * habit + np.sqrt(1 - from_habits) * own
    return np.asarray(with_spend * spend + np.sqrt(1 - with_spend**2) * rest, np.float64)


@dataclass(frozen=True, slots=True)
class HabitScores:
    """What habits decide about the answers to codes, (n,) each: standard scores, but for `offset`."""

    offset: Vector  # the customer's part of the baseline, ln of money
    spend: Vector
    elasticity: Vector
    engagement: Vector


def habit_scores(z: Matrix, *, settings: RetailerSettings) -> HabitScores:
    """Of habits z (n, 8)."""
    directions, scales = foundations(settings)
    baskets = settings.baskets
    offset = _spend(z, directions, settings, scales.baseline_linear, scales.baseline_nonlinear)
    return HabitScores(
        offset=offset,
        spend=offset / max(float(np.hypot(baskets.linear_sd, baskets.nonlinear_sd)), 1e-12),
        elasticity=scales.elasticity.apply(_raw_elasticity(z, directions), offset[:, None]),
        engagement=scales.engagement.apply(_raw_engagement(z, directions), offset[:, None]),
    )


def elasticity_of(scores: HabitScores, own: Vector, *, settings: RetailerSettings) -> Vector:
    """s, (n,), of customers with these private normals."""
    curves = settings.curves
    zeta = _joint(
        scores.spend,
        scores.elasticity,
        own,
        with_spend=curves.elasticity_with_baseline,
        from_habits=curves.elasticity_from_habits,
    )
    return np.asarray(curves.elasticity * np.exp(curves.elasticity_spread * zeta - curves.elasticity_spread**2 / 2))


def engagement_of(scores: HabitScores, own: Vector, *, settings: RetailerSettings) -> Vector:
    """The logit of a purchase with a code of depth 0, before the channel's part, (n,)."""
    engagement = settings.engagement
    readiness = _joint(
        scores.spend,
        scores.engagement,
        own,
        with_spend=engagement.with_spend,
        from_habits=engagement.from_habits,
    )
    return np.asarray(engagement.level + engagement.spread * readiness, np.float64)


def engagement_gain_of(own: Vector, *, settings: RetailerSettings) -> Vector:
    """The rise of that logit from u = 0 to u = 1, (n,): private, whatever the habits."""
    engagement = settings.engagement
    return np.asarray(engagement.gain * np.exp(engagement.gain_spread * own - engagement.gain_spread**2 / 2))


def _drawn_habits(draw: np.random.Generator, settings: RetailerSettings) -> Matrix:
    """z (block, 8): a block's first draw."""
    return multiply(draw.standard_normal((BLOCK, HABITS)), foundations(settings)[0].mixing.T)


def habits_at(settings: RetailerSettings, *, index: Integers) -> Matrix:
    """z (n, 8) of the customers at these positions, in this order."""
    z = np.empty((index.size, HABITS))
    for block in np.unique(index // BLOCK):
        rows = index // BLOCK == block
        draw = block_generator(settings.seed, purpose="customers", block=int(block))
        z[rows] = _drawn_habits(draw, settings)[index[rows] - block * BLOCK]
    return z


def block_of_customers(settings: RetailerSettings, *, block: int) -> Customers:
    """The customers of one block. Always draws the whole block: a larger retailer begins with the same customers."""
    directions, scales = foundations(settings)
    habits, baskets = settings.habits, settings.baskets
    draw = block_generator(settings.seed, purpose="customers", block=block)
    z = _drawn_habits(draw, settings)
    own = draw.standard_normal((BLOCK, 4))  # private: of elasticity, engagement, the curve's bend, engagement's gain
    eta = np.sqrt(1 - habits.habit_noise) * multiply(z, directions.behaviour) / scales.behaviour
    eta += np.sqrt(habits.habit_noise) * draw.standard_normal(eta.shape)
    behaviour = dict(zip(BEHAVIOURS, eta.T, strict=True))

    scores = habit_scores(z, settings=settings)
    joined_on, lapsed_on = _membership(draw, settings)
    lapsed = lapsed_on != NEVER
    customers = Customers(
        index=np.arange(block * BLOCK, (block + 1) * BLOCK),
        joined_on=joined_on,
        lapsed_on=lapsed_on,
        spend=scores.spend,
        baseline=baskets.mean + scores.offset,
        elasticity=elasticity_of(scores, own[:, 0], settings=settings),
        bend=own[:, 2],
        engagement=engagement_of(scores, own[:, 1], settings=settings),
        engagement_gain=engagement_gain_of(own[:, 3], settings=settings),
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
    """(joined_on, lapsed_on) of a block, in days since 1970-01-01; NEVER where a customer does not stop ordering."""
    start, end = day_number(settings.calendar.history_start), day_number(settings.calendar.history_end)
    late = draw.random(BLOCK) < settings.habits.joined_during_history
    place = draw.random(BLOCK)
    joined_on = np.where(late, start + place * (end - start), start - place * 5 * 365).astype(np.int64)
    from_day = np.maximum(joined_on, start)
    stop = from_day + 1 + (draw.random(BLOCK) * (end - from_day - 1)).astype(np.int64)
    lapsed_on = np.where(draw.random(BLOCK) < settings.habits.lapsed, stop, NEVER)
    return joined_on, lapsed_on


def customers_at(settings: RetailerSettings, *, index: Integers) -> Customers:
    """The customers at these positions, in this order. Draws whole blocks and drops the rest."""
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


def response(bend: Vector, u: Vector, *, curves: Curves) -> Vector:
    """g(u): the share of a customer's elasticity that a depth brings out; ≥ 0, non-decreasing, g(0) = 0, g(1) = 1.

    `bend` is the customer's own standard normal: it moves the rate of the concave curve
    g = (1 − e^{−κu}) / (1 − e^{−κ}), κ = rate·exp(spread·bend), or the midpoint of the S and of the threshold.
    Arrays broadcast: (n, 1) with (K,) gives (n, K).

    >>> response(np.zeros(1), np.array([0.0, 0.5, 1.0]), curves=Curves(concave_rate=2.0)).round(3).tolist()
    [0.0, 0.731, 1.0]
    """
    if curves.shape is Shape.CONCAVE:
        rate = curves.concave_rate * np.exp(curves.concave_rate_spread * bend)
        concave: Vector = np.expm1(-rate * u) / np.expm1(-rate)
        return concave
    # tanh keeps every customer's midpoint inside (0, 1), however large the bend
    midpoint = curves.midpoint + curves.midpoint_spread * np.tanh(bend)
    if curves.shape is Shape.S_SHAPED:
        low, high = expit(-curves.steepness * midpoint), expit(curves.steepness * (1 - midpoint))
        s_shaped: Vector = (expit(curves.steepness * (u - midpoint)) - low) / (high - low)
        return s_shaped
    ramp: Vector = np.clip((u - midpoint) / curves.ramp + 0.5, 0.0, 1.0)
    return ramp


def rise(customers: Customers, depth: Vector, *, settings: RetailerSettings) -> Vector:
    """g(depth / depth_scale) for one depth per customer, (n,)."""
    return response(customers.bend, depth / settings.curves.depth_scale, curves=settings.curves)


def log_basket(customers: Customers, g: Vector) -> Vector:
    """E[ln full price] = b + s·g, (n,)."""
    return np.asarray(customers.baseline + customers.elasticity * g, np.float64)


def purchase_probability(
    customers: Customers, g: Vector, *, settings: RetailerSettings, channel: ChannelName, lapsed: Flags, factor: Vector
) -> Vector:
    """P(purchase | code) = factor·expit(engagement + gain·g + channel + lapsed_logit·lapsed), at most 1, (n,).

    factor: of the world on the day the code is sent; 1 in the ordinary one.
    """
    logit = customers.engagement + customers.engagement_gain * g + settings.channel(channel).logit
    return np.asarray(np.minimum(factor * expit(logit + settings.habits.lapsed_logit * lapsed), 1.0), np.float64)
