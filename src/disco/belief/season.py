"""The season: how far the take-up of codes moves over the year, from the shop's own orders and codes of earlier years.

Orders of a week w, in days x since 1970, over at least a year and a half:

    ln orders_w = a + b·x + s(x) + noise,    s(x) = Σ_k (α_k·cos(2πkx/Y) + β_k·sin(2πkx/Y)),  k = 1, 2,  Y = 365.25 days
    α_k, β_k ~ N(0, (0.3/k)²),  b free

Growth is not a season, so it has its own slope. Weeks far from the curve, such as those of a sale, count less (Huber's
weights). Orders need not be codes: many shops sell more in December, and give codes that are used as often as in May.
So how far codes follow the orders is one more number, κ, from the codes of the shop's history (used of sent, by four
weeks, beside a trend of their own):

    ln(used/sent)_m = a' + b'·x_m + κ·s(x_m) + noise,    κ ~ N(0.5, 0.35²)

With few codes κ is what the prior says, and its uncertainty goes into the forecast; where codes do not follow, it is
near 0 and the season does nothing.

A belief pools campaigns, so it knows the average season of those it learned from. A campaign c is therefore expected to
bring exp(σ_c) / mean of exp(σ) over them as much, σ = κ·s averaged over the days of a campaign, most uses coming early:
a day counts exp(−days since the start / 5). That is how a campaign in December teaches no generosity. Days that the
operator names have a factor on top: the given one, or exp(κ·lift) with the lift of orders on the same days before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from disco.records.arrays import Integers, Matrix, Vector
from disco.records.forecasting import DailyHistory

YEAR_DAYS = 365.25
LEAST_DAYS = 548
"""A year and a half: with less, a season cannot be told from growth."""
LEAST_ORDERS = 2_000
_HARMONICS = 2
_HARMONIC_SD = 0.3
_USE_DAYS = 5.0
_WEEK, _MONTH = 7, 28
_LEAST_CODES = 50  # of four weeks, so that a share says something
_FOLLOW, _FOLLOW_SD = 0.5, 0.35  # κ before any code
_ROUNDS = 5  # of the weights
_HUBER = 1.5  # sds
_LIFT_SD, _YEAR_SD = 0.3, 0.1  # of named days over the curve, and from year to year


def waves(days: Vector | Integers) -> Matrix:
    """(n, 2·harmonics) of days since 1970-01-01."""
    angle = 2 * np.pi * np.asarray(days, np.float64)[:, None] / YEAR_DAYS * np.arange(1, _HARMONICS + 1)
    return np.asarray(np.concatenate([np.cos(angle), np.sin(angle)], axis=1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedDays:
    """Days that the operator names, such as Christmas."""

    first: int
    """Days since 1970-01-01."""
    last: int
    factor: float | None
    """On the take-up of these days; None: as the orders of the same days of earlier years say."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeasonIndex:
    """The season of take-up, as it is known."""

    waves: Vector  # mean of α and β
    covariance: Matrix
    follow: float  # κ
    follow_sd: float
    named: tuple[tuple[int, int, float], ...] = ()  # first and last day, ln of the factor on take-up

    @classmethod
    def of_calendar(cls, named: "Sequence[NamedDays]") -> "SeasonIndex":
        """Of the operator's days alone: those without a factor say nothing."""
        size = 2 * _HARMONICS
        lines = tuple((one.first, one.last, float(np.log(one.factor))) for one in named if one.factor is not None)
        return cls(waves=np.zeros(size), covariance=np.zeros((size, size)), follow=0.0, follow_sd=0.0, named=lines)

    @classmethod
    def fit(cls, history: DailyHistory, named: "Sequence[NamedDays]" = ()) -> "SeasonIndex":
        """history: at least `LEAST_DAYS` days and `LEAST_ORDERS` orders."""
        days, orders = _summed(history.orders, history.first_day, _WEEK)
        here = orders > 0
        days, y = days[here], np.log(orders[here])
        middle = days.mean()

        def design(at: Vector | Integers) -> Matrix:
            return np.asarray(np.column_stack([np.ones(at.size), (at - middle) / YEAR_DAYS, waves(at)]), np.float64)

        sds = np.tile(_HARMONIC_SD / np.arange(1, _HARMONICS + 1), 2)
        precision = np.concatenate([[0, 0], sds**-2.0])
        mean, covariance = _regression(design(days), y, precision, np.zeros(precision.size))
        line, spread = mean[2:], 2 * covariance[2:, 2:]  # weeks in a row are not independent
        follow, follow_sd = _follow(history, line)
        each_day = history.first_day + np.arange(history.orders.size)
        usual = np.exp(design(each_day) @ mean) / _WEEK
        found = []
        for one in named:
            log = follow * _lift(history, usual, one) if one.factor is None else float(np.log(one.factor))
            found.append((one.first, one.last, log))
        return cls(waves=line, covariance=spread, follow=follow, follow_sd=follow_sd, named=tuple(found))

    def of(self, start: int, days: int) -> "CampaignSeason":
        """The season of a campaign of so many days from a day on (since 1970-01-01)."""
        each = start + np.arange(max(days, 1))
        weight = np.exp(-(each - start) / _USE_DAYS)
        weight /= weight.sum()
        factor = np.ones(each.size)
        for first, last, log in self.named:
            factor[(each >= first) & (each <= last)] = np.exp(log)
        return CampaignSeason(index=self, waves=weight @ waves(each), named=float(np.log(weight @ factor)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CampaignSeason:
    """The season of one campaign."""

    index: SeasonIndex
    waves: Vector
    named: float  # ln of what the operator's days add

    @property
    def log(self) -> float:
        """σ: the logarithm of its take-up, relative to the year's."""
        return self.index.follow * float(self.waves @ self.index.waves) + self.named

    def against(self, others: "Sequence[CampaignSeason]", used: Sequence[float]) -> tuple[float, float]:
        """(mean, variance) of ln of this season relative to that of the campaigns a belief learned from.

        used: codes that were used, of each of them. A belief pools Σused / Σ(what would have been used without a
        season), so that is the average that counts. Without any of them the belief knows no season: relative to the
        year.
        """
        counts = np.asarray(used, np.float64)
        if not counts.sum():
            return self._relative(self.waves, self.log)
        neutral = counts / np.exp([one.log for one in others])
        share = neutral / neutral.sum()
        reference = float(np.log(counts.sum() / neutral.sum()))
        apart = self.waves - share @ np.array([one.waves for one in others])
        return self._relative(apart, self.log - reference)

    def _relative(self, apart: Vector, mean: float) -> tuple[float, float]:
        index = self.index
        follows = index.follow**2 * float(apart @ index.covariance @ apart)
        return mean, follows + index.follow_sd**2 * float(apart @ index.waves) ** 2


def _lift(history: DailyHistory, usual: Vector, named: NamedDays) -> float:
    """ln of the orders of the same days of earlier years over what is usual then, shrunk. usual: (days,)."""
    logs = []
    for years in range(1, 1 + int(history.orders.size // YEAR_DAYS) + 1):
        first, last = (round(day - years * YEAR_DAYS) - history.first_day for day in (named.first, named.last))
        if first >= 0 and last < history.orders.size and (bought := history.orders[first : last + 1].sum()) > 0:
            logs.append(float(np.log(bought / usual[first : last + 1].sum())))
    return sum(logs) / (len(logs) + (_YEAR_SD / _LIFT_SD) ** 2)


def _follow(history: DailyHistory, line: Vector) -> tuple[float, float]:
    """(mean, sd) of κ."""
    days, sent = _summed(history.sent, history.first_day, _MONTH)
    _, used = _summed(history.used, history.first_day, _MONTH)
    here = (sent >= _LEAST_CODES) & (used > 0)
    if here.sum() < 4:  # a level, a trend and κ leave nothing to tell the noise by
        return _FOLLOW, _FOLLOW_SD
    each = np.asarray(history.first_day + np.arange(history.sent.size) + _USE_DAYS, np.float64)
    at_sending = np.asarray(waves(each) @ line, np.float64)
    _, weighted = _summed(history.sent * at_sending, history.first_day, _MONTH)
    since = (days[here] - days[here].mean()) / YEAR_DAYS
    design = np.column_stack([np.ones(since.size), since, weighted[here] / sent[here]])
    precision = np.array([0.0, 0.3**-2.0, _FOLLOW_SD**-2.0])
    y = np.log(used[here] / sent[here])
    mean, covariance = _regression(design, y, precision, np.array([0.0, 0.0, _FOLLOW]))
    return float(mean[2]), float(np.sqrt(covariance[2, 2]))


def _summed(daily: Vector, first_day: int, length: int) -> tuple[Vector, Vector]:
    """(middle of each period, its sum) over whole periods, which end with the last day."""
    count = daily.size // length
    rest = daily.size - count * length
    middles = np.asarray(first_day + rest + length * np.arange(count) + (length - 1) / 2, np.float64)
    return middles, np.asarray(daily[rest:].reshape(count, length).sum(axis=1), np.float64)


def _regression(design: Matrix, y: Vector, precision: Vector, prior: Vector) -> tuple[Vector, Matrix]:
    """Mean and covariance of the coefficients, with prior precisions (0: free), a learned noise and Huber's weights."""
    weight, noise = np.ones(y.size), 0.1**2
    for _ in range(_ROUNDS):
        scaled = design.T * (weight / noise)
        covariance = np.linalg.inv(scaled @ design + np.diag(precision))
        mean = covariance @ (scaled @ y + precision * prior)
        left = y - design @ mean
        noise = max(float(weight @ left**2) / max(y.size - design.shape[1], 1), 1e-4)
        weight = np.minimum(1.0, _HUBER * np.sqrt(noise) / np.maximum(np.abs(left), 1e-12))
    return np.asarray(mean), np.asarray(covariance)
