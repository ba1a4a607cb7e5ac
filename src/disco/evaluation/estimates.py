"""Figures with intervals: a mean, a ratio of sums, the difference of two arms, looks before the end, several campaigns.

Customers are assigned at random, so customers are what varies. A ratio of sums, such as revenue per purchaser, is
turned into a mean over customers through its linear terms (delta method). `compare_samples` is the one way in which two
arms are compared, whichever read-out asks; `Look` says how often the comparison is read.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from disco.records.arguments import read_column, read_level, read_number
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.errors import InputError
from disco.records.estimate import Estimate

_FEW = 10  # successes or failures in an arm, below which the normal law of a rate cannot be relied on
_MOST_SKEWNESS = 0.8  # of a mean, times the quantile: how far its expansion is used
_NO_SKEWNESS = 1e-6  # of a mean: below it the difference of two near numbers says nothing
_ROUNDING = 1e-14  # of the largest figure: figures that differ by less are equal
_PRIOR_SCALE = 0.25  # of τ between campaigns, on the scale of ln(ratio)
_WIDEST = 5  # the end of τ's grid, in scales
_GRID_POINTS = 257
_ROOT_STEPS = 100  # Brent's method takes a few dozen at most
_Key = TypeVar("_Key", bound=Hashable)

# ---- one figure ------------------------------------------------------------------------------------------------------


def estimate_around(value: float, standard_error: float, *, level: float, freedom: float = np.inf) -> Estimate:
    """value ± q·standard_error with q of the normal, or of Student's t with `freedom` degrees of freedom.

    >>> round(estimate_around(10.0, 1.0, level=0.95).upper, 2)
    11.96
    """
    half = quantile(level, freedom=freedom) * standard_error
    return Estimate(value, value - half, value + half, level, standard_error)


def unlimited(value: float, *, level: float) -> Estimate:
    """A value about whose error nothing is known, as where only one customer counts: its interval has no limits."""
    return Estimate(value, -np.inf, np.inf, level, np.inf)


def interval_in_words(found: Estimate) -> str:
    """The interval of a difference, as texts show it.

    >>> interval_in_words(Estimate(1.5, 0.5, 2.5, level=0.9))
    '90% interval +0.500 to +2.500'
    """
    lower, upper = found.ends or (-np.inf, np.inf)
    return f"{found.level:.0%} interval {lower:+,.3f} to {upper:+,.3f}"


def effective_rows(weights: Vector) -> float:
    """(Σw)²/Σw²: how many unweighted rows the weighted ones (n,) are worth.

    >>> effective_rows(np.array([2.0, 2.0, 0.0]))
    2.0
    """
    return float(weights.sum() ** 2 / (weights @ weights)) if weights.any() else 0.0


def quantile(level: float, *, freedom: float = np.inf) -> float:
    """The two-sided quantile of a level: 1.96 at 95%.

    >>> round(quantile(0.95), 3), round(quantile(0.95, freedom=10), 3)
    (1.96, 2.228)
    """
    share = 0.5 + read_level(level) / 2
    return float(ndtri(share) if np.isinf(freedom) else stdtrit(freedom, share))


def mean_estimate(figures: Vector, *, level: float = 0.95, customers: Integers | None = None) -> Estimate:
    """The mean of one figure per row, (n,); `customers` (n,) numbers them 0, 1, … where one may have several rows.

    >>> mean_estimate(np.array([1.0, 2.0, 3.0])).standard_error.__round__(4)
    0.5774
    """
    return ratio_estimate(figures, np.ones_like(figures), level=level, customers=customers)


def ratio_estimate(
    numerators: Vector, denominators: Vector, *, level: float = 0.95, customers: Integers | None = None
) -> Estimate:
    """r = Σnᵢ / Σdᵢ; its linear terms (nᵢ − r·dᵢ)/Σdᵢ, summed by customer, give error and quantile (delta method).

    numerators, denominators (n,): one of each per row. customers (n,): as in `mean_estimate`.

    >>> estimate = ratio_estimate(np.array([0.0, 30.0, 50.0]), np.array([0.0, 1.0, 1.0]))
    >>> estimate.value, round(estimate.standard_error, 3)
    (40.0, 8.66)
    """
    total = float(denominators.sum())
    if total == 0:
        raise InputError("ratio", found="a denominator of 0", expected="at least one row that counts")
    value = float(numerators.sum()) / total
    terms = (numerators - value * denominators) / total
    if customers is not None:
        terms = np.asarray(np.bincount(customers, weights=terms), np.float64)
    if np.count_nonzero(denominators) < 2:  # one row that counts shows no spread
        return unlimited(value, level=level)
    error, freedom = error_of_sum(terms)
    return estimate_around(value, error, level=level, freedom=freedom)


def error_of_sum(terms: Vector) -> tuple[float, float]:
    """√(g/(g−1)·Σt²) for g independent terms with mean 0, and how well it is known: 2g/(κ−1) degrees of freedom.

    κ = g·Σt⁴/(Σt²)² is the terms' kurtosis; the variance of their mean square is (κ−1)/g of its square, as that of a
    χ² with 2g/(κ−1) degrees of freedom. Normal terms have κ = 3 and g of them; figures of which a few dominate have
    far fewer, and their interval widens.

    >>> error, freedom = error_of_sum(np.array([-1.0, 1.0, -2.0, 2.0]))
    >>> round(error, 3), round(freedom, 2)
    (3.651, 3.0)
    """
    groups, squares = terms.size, terms**2
    total = float(squares.sum())
    if groups < 2 or total == 0:
        return (np.inf if groups < 2 else 0.0), np.inf
    excess = groups * float(squares @ squares) / total**2 - 1
    most = float(np.count_nonzero(terms)) - 1  # rows that do not count have a term of 0
    freedom = min(most, 2 * groups / excess) if excess > 0 else most
    return float(np.sqrt(groups / (groups - 1) * total)), max(freedom, 1.0)


def reach_into_tail(skewness: float, *, level: float) -> float:
    """How many standard errors an interval reaches on the side of a skewed figure's tail; 1.96 at 95% without skewness.

    A mean of skewed terms and its stated error go together: a sample without one of the rare large terms has a small
    mean and a small error, so an interval of equal arms misses on that side. Hall's transformation (1992) of Student's
    statistic, g(T) = T + λT²/3 + λ²T³/27 + λ/6 with λ the skewness of the mean, has next to none. Solved for g = −z it
    gives the reach (3/λ)·(1 − ∛(1 − λ·(z + λ/6))). λ counts up to 0.8/z: beyond, a single term makes the mean, which is
    then too large rather than too small, and the expansion says nothing.

    >>> round(reach_into_tail(0.0, level=0.95), 2), round(reach_into_tail(0.2, level=0.95), 2)
    (1.96, 2.34)
    """
    z = quantile(level)
    size = min(abs(skewness), _MOST_SKEWNESS / z)
    return z if size < _NO_SKEWNESS else 3 / size * (1 - float(np.cbrt(1 - size * (z + size / 6))))


# ---- looks before the end --------------------------------------------------------------------------------------------
#
# An interval that may be looked at every day is an asymptotic confidence sequence; its estimand is always "to date".
# While a campaign runs, the sums Σ(y − mean) of an arm behave as a Brownian motion in the time V, their variance.
# Robbins' normal mixture bounds |S| by √((V + τ)·(2·ln(1/α) + ln(1 + V/τ))) for all V at once with probability ≥ 1 − α,
# for any τ fixed in advance (Waudby-Smith et al. 2021 show that estimated variances suffice in the limit). So the usual
# quantile, 1.96, is replaced by one that depends on how much of the planned information is there: about 3.0 at the end.
# Where the number of looks is fixed in advance, or several comparisons are read side by side, every single one is made
# at a stricter level instead, so that all of them hold together at the level stated.


@dataclass(frozen=True, slots=True)
class Look:
    """How often a comparison is read; everything it says then holds on all of these occasions together."""

    information: float | None = None  # at any moment: the share of the planned purchases seen by now
    looks: int = 1  # so many times in all, however they are spaced
    several: int = 1  # one of so many comparisons read side by side

    def alone(self, level: float) -> float:
        """The level of each occasion: L^(1/looks) by Šidák's inequality, 1 − (1 − L)/several by Bonferroni's.

        >>> round(Look(looks=5).alone(0.95), 4), round(Look(several=5).alone(0.95), 4)
        (0.9898, 0.99)
        """
        at_each_look = math.pow(read_level(level), 1 / self.looks)
        return at_each_look if self.several == 1 else 1 - (1 - at_each_look) / self.several

    def together(self, p_value: float) -> float:
        """The p-value over all occasions: 1 − (1 − p)^looks, also for p far below the rounding of 1, times `several`.

        >>> Look(looks=5).together(1e-20), Look(several=5).together(0.25)
        (5e-20, 1.0)
        """
        if self.looks > 1 and p_value < 1:
            p_value = -math.expm1(self.looks * math.log1p(-p_value))
        return min(1.0, self.several * p_value)


AT_THE_END = Look()


def always_valid_quantile(information: float, *, level: float = 0.95) -> float:
    """q(f) = √((1 + 1/x)·(2·ln(1/α) + ln(1 + x))), x = V/τ = f·x₁, f the share of the planned information seen.

    x₁ = 2·ln(1/α) + ln(2·ln(1/α) + 1) makes the interval tightest at the planned end; the level holds for any f > 0,
    also beyond 1.

    >>> round(always_valid_quantile(1.0), 2), round(always_valid_quantile(0.1), 2)
    (3.04, 3.86)
    """
    seen = read_number(information, where="information", expected="the share of what was planned, above 0", above=0)
    x, log_odds = _mixture(seen, level=read_level(level))
    return float(np.sqrt((1 + 1 / x) * (log_odds + np.log1p(x))))


def _mixture(information: float, *, level: float) -> tuple[float, float]:
    """x = V/τ, with τ as planned for the level, and 2·ln(1/α)."""
    log_odds = 2 * np.log(1 / (1 - level))
    return information * (log_odds + np.log(log_odds + 1)), log_odds


def always_valid_p_value(difference: float, error: float, *, information: float, level: float) -> float:
    """The α at which the boundary is |z|, τ as planned for `level`: z² = (1 + 1/x)·(2·ln(1/α) + ln(1 + x)).

    Estimand: the difference between the arms by now, not by the end of the campaign.
    """
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    x, z = _mixture(information, level=level)[0], difference / error
    return float(min(1.0, np.exp((np.log1p(x) - z**2 * x / (1 + x)) / 2)))


# ---- two arms --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mean:
    """An arm's figure per customer, or per whatever `counts` counts."""

    value: float
    variance: float  # the squared standard error of `value`
    customers: int

    @classmethod
    def of(cls, figures: Vector, counts: Vector | None = None) -> "Mean":
        """Mean of `figures` (n,), or Σfigures/Σcounts with the delta method.

        >>> Mean.of(np.array([0.0, 30.0, 50.0]), np.array([0.0, 1.0, 1.0]))
        Mean(value=40.0, variance=75.0, customers=3)
        """
        customers = figures.size
        if customers < 2:
            raise InputError("arm", found=f"{customers} customers", expected="at least two")
        if counts is None:
            return cls(float(figures.mean()), float(figures.var(ddof=1)) / customers, customers)
        total = float(counts.sum())
        if total == 0:
            raise InputError("arm", found="no customer that counts", expected="at least one")
        value = float(figures.sum()) / total
        linear = (figures - value * counts) * (customers / total)
        return cls(value, float(linear @ linear) / (customers - 1) / customers, customers)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of the decided arm against that of control."""

    decided: float
    """The decided arm's figure."""
    control: float
    """Control's figure; in a comparison with the holdout, the holdout's."""
    difference: Estimate
    """decided − control."""
    relative: Estimate | None
    """decided/control − 1; null where control is not positive, or the decided arm is 0 throughout. The interval has no
    limits where control is not clearly above 0; else it excludes 0 exactly when that of the difference does."""
    p_value: float
    """Of equal means, by Welch's t-test."""


def compare(
    decided: Mean, control: Mean, *, level: float = 0.95, shared_variance: float = 0.0, look: Look = AT_THE_END
) -> Comparison:
    """Welch: t = d/√(v_d+v_c) with 1/(s_d²/(n_d−1)+s_c²/(n_c−1)) degrees of freedom, s the shares of v_d+v_c.

    shared_variance: of a term which both means contain (a pre-period mean); it cancels from the difference, not from
    the ratio. look: how often it is read. With a share of the planned purchases the interval holds at every moment
    (`always_valid_quantile`), and the p-value is the smallest level α at which 0 lies outside.

    Where nobody in the decided arm bought, there is no percentage: its interval would be the point −100%.

    >>> found = compare(Mean(6.0, 1.0, 10), Mean(4.0, 1.0, 10))
    >>> found.difference.value, found.relative.value, round(found.p_value, 3)
    (2.0, 0.5, 0.174)
    """
    variance = decided.variance + control.variance
    difference = decided.value - control.value
    error = float(np.sqrt(variance))
    if variance > 0:
        # shares, because the square of a tiny variance would be 0
        ours, theirs = decided.variance / variance, control.variance / variance
        freedom = 1 / (ours**2 / (decided.customers - 1) + theirs**2 / (control.customers - 1))
        p_value = 2 * float(stdtr(freedom, -abs(difference) / error))
    else:
        freedom, p_value = np.inf, 1.0 if difference == 0 else 0.0
    if look.information is None:
        reach, p_value = quantile(look.alone(level), freedom=freedom), look.together(p_value)
    else:
        reach = always_valid_quantile(look.information, level=level)
        p_value = always_valid_p_value(difference, error, information=look.information, level=level)
    relative = None
    if control.value > 0 and (decided.value != 0 or decided.variance > 0):
        relative = _relative_difference(decided, control, shared_variance, reach=reach, level=level)
    half = reach * error
    interval = Estimate(difference, difference - half, difference + half, level, error)
    return Comparison(decided.value, control.value, interval, relative, p_value)


def _relative_difference(decided: Mean, control: Mean, shared: float, *, reach: float, level: float) -> Estimate:
    """δ = m_d/m_c − 1 by Fieller's theorem: all δ with (d − δ·m_c)² ≤ q²·(v_d + (1+δ)²·v_c + δ²·shared), d = m_d − m_c.

    With q, the reach, of the difference, δ = 0 is among them exactly when the difference's interval has 0. They lie
    between two limits only where m_c is further from 0 than its own error reaches; else any percentage may be true. The
    standard error is the delta method's, √(v_d + r²·v_c + (1−r)²·shared)/m_c with r = m_d/m_c.
    """
    unit = control.value
    ratio, shared = decided.value / unit, shared / unit / unit
    of_decided, of_control = decided.variance / unit / unit, control.variance / unit / unit
    value, square = ratio - 1, reach * reach
    own = of_decided + ratio * ratio * of_control + value * value * shared
    error = float(np.sqrt(own))
    # leading·δ² − 2·middle·δ + last ≤ 0
    leading, middle = 1 - square * (of_control + shared), value + square * of_control
    last = value * value - square * (of_decided + of_control)
    within = own - square * (of_decided * of_control + shared * (of_decided + of_control))
    if not (leading > 0 and np.isfinite(within)):
        return Estimate(value, -np.inf, np.inf, level, error)
    root = reach * float(np.sqrt(max(within, 0.0)))
    far = middle + root if middle >= 0 else middle - root
    ends = sorted((far / leading, last / far if far else 0.0))  # the nearer end has the sign of `last`
    return Estimate(value, min(ends[0], value), max(ends[1], value), level, error)


def compare_few(decided: Vector, control: Vector, *, level: float = 0.95, look: Look = AT_THE_END) -> Comparison | None:
    """Two rates, figures of 0 and 1, of which an arm has fewer than ten of either; None: Welch's test serves.

    p̃ = (x + 1)/(n + 2) in both arms (Agresti and Caffo 2000); the interval is that of p̃_d − p̃_c, within −1 and 1, so
    no success at all gives no interval of one point. A percentage of so few means nothing.

    >>> found = compare_few(np.zeros(50), np.zeros(50))
    >>> found.difference.value, round(found.difference.upper, 3)
    (0.0, 0.053)
    """
    arms = (decided, control)
    if all(min(arm.sum(), arm.size - arm.sum()) >= _FEW for arm in arms):
        return None
    shrunk = [(float(arm.sum()) + 1) / (arm.size + 2) for arm in arms]
    first, second = (Mean(p, p * (1 - p) / (arm.size + 2), arm.size + 2) for p, arm in zip(shrunk, arms, strict=True))
    found = compare(first, second, level=level, look=look)
    lower, upper = found.difference.ends or (-1.0, 1.0)
    value = float(decided.mean()) - float(control.mean())
    difference = Estimate(value, max(lower, -1.0), min(upper, 1.0), level, found.difference.standard_error)
    return Comparison(float(decided.mean()), float(control.mean()), difference, None, found.p_value)


def compare_unvaried(decided: float, control: float, *, level: float) -> Comparison:
    """Two means of figures that do not vary within either arm, as where nobody bought: that shows nothing.

    The difference is as measured, and nothing is known about its error, so the interval has no limits.

    >>> compare_unvaried(0.0, 0.0, level=0.95).difference.covers(100.0)
    True
    """
    return Comparison(decided, control, unlimited(decided - control, level=level), None, 1.0)


@dataclass(frozen=True, slots=True)
class Adjusted:
    """A comparison adjusted by what was known before the campaign (CUPED)."""

    comparison: Comparison
    """The adjusted comparison; it estimates the same difference."""
    variance_reduction: float
    """Share of the variance that the adjustment took away."""


def compare_adjusted(
    decided: Vector, control: Vector, *, before: tuple[Matrix, Matrix], level: float = 0.95, look: Look = AT_THE_END
) -> Adjusted:
    """CUPED: compare y − θᵀ(x − x̄), x (n, p) known before the campaign, θ from least squares within arms, pooled.

    decided, control: y of each arm, one figure per customer. before: x of each arm, in the same order of customers.

    Randomisation makes x̄ equal in expectation, so the estimand is unchanged; the variance falls by the R² of y on x.

    >>> rng = np.random.default_rng(5)
    >>> x = rng.normal(size=(400, 1)); y = 10 + 3 * x[:, 0] + rng.normal(size=400)
    >>> found = compare_adjusted(y[:200], y[200:], before=(x[:200], x[200:]))
    >>> bool(0.85 < found.variance_reduction < 0.95)
    True
    """
    centre = np.concatenate(before).mean(axis=0)
    y = np.concatenate([arm - arm.mean() for arm in (decided, control)])
    x = np.concatenate([arm - arm.mean(axis=0) for arm in before])
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    first, second = (
        Mean.of(figures - (known - centre) @ theta) for figures, known in zip((decided, control), before, strict=True)
    )
    shared = float(((x @ theta) ** 2).mean()) / y.size
    found = compare(first, second, level=level, shared_variance=shared, look=look)
    plain = Mean.of(decided).variance + Mean.of(control).variance
    return Adjusted(found, 1 - (first.variance + second.variance) / plain if plain > 0 else 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One figure of the customers of one arm."""

    figures: Vector  # (n,) one per customer
    counts: Vector | None = None  # (n,) by whose sum that of the figures is divided; None: every customer counts once
    before: Matrix | None = None  # (n, p) known before the test; a figure that has counts is not adjusted by it
    is_rate: bool = False  # figures are 0 or 1

    def varies(self) -> bool:
        """Whether the linear terms of the figure differ by more than rounding.

        Equal figures often have a mean that is rounded, and then a variance just above 0.
        """
        terms = self.figures
        if self.counts is not None:
            terms = terms - float(terms.sum()) / float(self.counts.sum()) * self.counts
        return bool(np.ptp(terms) > _ROUNDING * np.abs(self.figures).max())


def compare_samples(
    decided: Sample, control: Sample, *, level: float = 0.95, look: Look = AT_THE_END
) -> tuple[Comparison, Adjusted | None]:
    """One figure between two arms, as measured, and adjusted by what was known before where both arms have it.

    Few successes of a rate, or figures that do not vary: the normal law does not hold, and no purchase does not prove
    that there never is one. Nothing is then adjusted.
    """
    few = None
    if decided.is_rate and control.is_rate:
        few = compare_few(decided.figures, control.figures, level=level, look=look)
    if few is not None:
        return few, None
    first, second = (Mean.of(arm.figures, arm.counts) for arm in (decided, control))
    if not (decided.varies() or control.varies()):
        return compare_unvaried(first.value, second.value, level=level), None
    plain = compare(first, second, level=level, look=look)
    if decided.counts is not None or decided.before is None or control.before is None:
        return plain, None
    before = (decided.before, control.before)
    adjusted = compare_adjusted(decided.figures, control.figures, before=before, level=level, look=look)
    # figures known before that explain all of it leave nothing but rounding, whose spread is no error
    return plain, adjusted if adjusted.variance_reduction < 1 else None


def holm(p_values: Mapping[_Key, float]) -> dict[_Key, float]:
    """Holm's step-down adjustment: the chance of any false alarm among all of them stays below the level.

    >>> holm({0.1: 0.01, 0.2: 0.04, 0.3: 0.03})
    {0.1: 0.03, 0.3: 0.06, 0.2: 0.06}
    """
    adjusted, running = {}, 0.0
    for place, (key, p_value) in enumerate(sorted(p_values.items(), key=lambda entry: entry[1])):
        running = max(running, min(1.0, (len(p_values) - place) * p_value))
        adjusted[key] = running
    return adjusted


@dataclass(frozen=True, slots=True)
class Uplift:
    """The relative difference of two arms' means."""

    relative: Estimate  # mean(decided)/mean(control) − 1
    p_value: float  # of equal means, by Welch's t-test


def uplift(decided: ArrayLike, control: ArrayLike, *, level: float = 0.95) -> Uplift:
    """Compare a figure per customer, (n_d,) and (n_c,), between two arms assigned at random.

    The interval is Fieller's, with Welch's degrees of freedom: it excludes 0 exactly when the test rejects.

    >>> found = uplift([2.0, 4.0, 6.0], [2.0, 2.0, 5.0])
    >>> round(found.relative.value, 4), found.relative.covers(0)
    (0.3333, True)
    """
    arms = {"decided": read_column(decided, where="decided arm"), "control": read_column(control, where="control arm")}
    for name, arm in arms.items():
        if arm.size < 2:
            raise InputError(f"{name} arm", found=f"{arm.size} customers", expected="at least two")
        if not np.isfinite(arm).all():
            raise InputError(f"{name} arm", found="NaN or infinite figures", expected="finite figures")
    found = compare(Mean.of(arms["decided"]), Mean.of(arms["control"]), level=level)
    if found.relative is None:
        if found.control > 0:
            raise InputError("decided arm", found="zeros alone", expected="some other figure: zeros show no spread")
        raise InputError(
            "control mean", found=found.control, expected="a positive mean, else a relative uplift means nothing"
        )
    return Uplift(found.relative, found.p_value)


# ---- several campaigns -----------------------------------------------------------------------------------------------
#
# Two questions, two estimands. *How much better are decided codes, in campaigns like these?* True uplifts differ from
# campaign to campaign, so campaign i shows yᵢ = μ + bᵢ + eᵢ with bᵢ ~ (0, τ²) and eᵢ ~ (0, sᵢ²), and the answer is μ.
# *How much did these campaigns earn?* Their own effects are the estimand: Σ nᵢ·δᵢ, and τ² has no part in its error.


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledUplift:
    """One figure of several campaigns, the decided arm against the other one."""

    campaigns: int
    """Campaigns that were compared."""
    relative: Estimate | None
    """The mean relative uplift of campaigns like these; one campaign has its own. Null where a figure is not positive
    in one of them; of several campaigns, also where one has a percentage without limits."""
    between_campaigns: float | None
    """Standard deviation of the true uplifts between campaigns, as a share; null with fewer than two campaigns."""
    total: Estimate
    """Σ difference per customer × customers of the decided arm: what these campaigns earned more."""


def pool(comparisons: Sequence[Comparison], customers: Sequence[int], *, level: float = 0.95) -> PooledUplift:
    """Read campaigns together.

    comparisons: one per campaign, of one metric per customer. customers: of its decided arm, one per campaign.

    Uplifts are averaged as logarithms of ratios, y = ln(decided/control) with error s = se/ratio (delta method): on the
    plain scale a ratio that is large by chance also has a large error and would be weighted down. μ and τ are those of
    `random_effects`. One campaign stands for itself.

    >>> two = [compare(Mean(6.0, 0.01, 900), Mean(5.0, 0.01, 900)), compare(Mean(5.0, 0.01, 900), Mean(4.0, 0.01, 900))]
    >>> found = pool(two, [1000, 2000])
    >>> round(found.total.value), found.campaigns
    (3000, 2)
    """
    if not comparisons or len(comparisons) != len(customers):
        raise InputError(
            "comparisons",
            found=f"{len(comparisons)} with {len(customers)} numbers of customers",
            expected="one or more, with one number each",
        )
    read_level(level)
    differences = np.array([one.difference.value for one in comparisons])
    errors = np.array([one.difference.standard_error or 0.0 for one in comparisons])
    weights = np.asarray(customers, np.float64)
    total = estimate_around(float(weights @ differences), float(np.sqrt(weights**2 @ errors**2)), level=level)
    relative, between = _pooled_relative([one.relative for one in comparisons], level=level)
    return PooledUplift(campaigns=len(comparisons), relative=relative, between_campaigns=between, total=total)


def _pooled_relative(found: Sequence[Estimate | None], *, level: float) -> tuple[Estimate | None, float | None]:
    if len(found) == 1:
        return found[0], None
    ratios, errors = [], []
    for one in found:
        if one is None or not one.bounded or one.value <= -1 or not one.standard_error:
            return None, None
        ratios.append(1 + one.value)
        errors.append(one.standard_error / (1 + one.value))
    mean, between = random_effects(np.log(ratios), np.array(errors), level=level)
    lower, upper = mean.ends or (mean.value, mean.value)
    ratio = math.exp(mean.value)
    scaled = Estimate(ratio - 1, math.expm1(lower), math.expm1(upper), level, ratio * (mean.standard_error or 0.0))
    return scaled, ratio * between


def random_effects(values: Vector, errors: Vector, *, level: float = 0.95) -> tuple[Estimate, float]:
    """μ with its interval, and τ, of yᵢ ~ N(μ, τ² + sᵢ²): values (k,) with their standard errors (k,), all positive.

    Given τ, μ is normal around Σwᵢyᵢ/Σwᵢ with variance 1/Σwᵢ, wᵢ = 1/(τ² + sᵢ²). τ has a half-normal prior with scale
    0.25, that is, uplifts of campaigns seldom differ by more than a half; it is integrated over a grid, so that the
    interval allows for not knowing it. A few campaigns say little about τ: the usual normal interval is then too short,
    and Hartung's and Knapp's t with one degree of freedom is ten times as long (docs/decisions/071-pooled-uplift.md).
    One value keeps its own normal interval.

    >>> mean, between = random_effects(np.array([0.1, 0.3, 0.5]), np.array([0.01, 0.01, 0.01]))
    >>> round(mean.value, 3), round(between, 2), round(mean.upper, 2)
    (0.3, 0.24, 0.62)
    """
    if values.shape != errors.shape or values.ndim != 1 or not values.size:
        raise InputError("values", found=f"shapes {values.shape} and {errors.shape}", expected="one error per value")
    if not (np.isfinite(values).all() and np.isfinite(errors).all() and (errors > 0).all()):
        raise InputError("errors", found="one that is not positive and finite", expected="positive standard errors")
    read_level(level)
    if values.size == 1:
        return estimate_around(float(values[0]), float(errors[0]), level=level), 0.0
    between = np.linspace(0.0, _WIDEST * _PRIOR_SCALE, _GRID_POINTS)
    weights = 1 / (between[:, None] ** 2 + errors**2)  # (grid, k)
    precision = weights.sum(axis=1)
    means = weights @ values / precision
    misfit = (weights * (values - means[:, None]) ** 2).sum(axis=1)
    log_density = (np.log(weights).sum(axis=1) - np.log(precision) - misfit - (between / _PRIOR_SCALE) ** 2) / 2
    density = np.exp(log_density - log_density.max())
    density[[0, -1]] /= 2  # the trapezoidal rule
    density /= density.sum()
    spread = 1 / np.sqrt(precision)
    mean = float(density @ means)
    variance = float(density @ (spread**2 + (means - mean) ** 2))

    def end(share: float) -> float:
        reach = 12 * spread
        return root_between(
            lambda x: float(density @ ndtr((x - means) / spread)) - share, min(means - reach), max(means + reach)
        )

    tail = (1 - level) / 2
    return Estimate(mean, end(tail), end(1 - tail), level, math.sqrt(variance)), float(density @ between)


def root_between(
    function: Callable[[float], float],
    lower: float,
    upper: float,
    *,
    absolute: float = 2e-12,
    relative: float = 4 * 2.0**-52,
) -> float:
    """x in [lower, upper] with function(x) = 0, by Brent's method; the function has another sign at either end.

    The steps are those of `scipy.optimize.brentq`, so the bits of a root are the same; loading SciPy's optimisers would
    take longer than a read-out. It ends where the root is known
    within `absolute` + `relative`·|x|.

    >>> round(root_between(lambda x: x * x - 2, 0.0, 2.0), 12)
    1.414213562373
    """
    before, here = float(lower), float(upper)
    f_before, f_here = float(function(before)), float(function(here))
    if f_before == 0 or f_here == 0:
        return before if f_before == 0 else here
    if not math.copysign(1, f_before) * math.copysign(1, f_here) < 0:
        found = f"the values {f_before:g} and {f_here:g} at {before:g} and {here:g}"
        raise InputError("root", found=found, expected="values of different signs")
    other = f_other = step_before = step = 0.0
    for _ in range(_ROOT_STEPS):
        if f_before != 0 and f_here != 0 and math.copysign(1, f_before) != math.copysign(1, f_here):
            other, f_other = before, f_before
            step_before = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        delta = (absolute + relative * abs(here)) / 2
        half = (other - here) / 2
        if f_here == 0 or abs(half) < delta:
            return here
        tried = math.inf
        if abs(step_before) > delta and abs(f_here) < abs(f_before):
            if before == other:  # the secant
                tried = -f_here * (here - before) / (f_here - f_before)
            else:  # inverse quadratic interpolation
                slope = (f_before - f_here) / (before - here)
                across = (f_other - f_here) / (other - here)
                tried = -f_here * (f_other * across - f_before * slope) / (across * slope * (f_other - f_before))
        if 2 * abs(tried) < min(abs(step_before), 3 * abs(half) - delta):
            step_before, step = step, tried
        else:  # bisection
            step_before = step = half
        before, f_before = here, f_here
        here += step if abs(step) > delta else math.copysign(delta, half)
        f_here = float(function(here))
    return here
