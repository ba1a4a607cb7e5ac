"""Guardrails: has a figure of a running campaign left its limit, however often somebody looks?

A campaign is a stream of events in the order of time, e.g. purchases. For a limit, each guardrail has a sum S that
falls, or stays, on average as long as the figure is within the limit, and the sum V of the squares of its terms:

    spend above +20%       S = markdown so far − 1.2·M·φ(t)          M: the forecast; φ(t): its share due by now
    basket below −15%      S = Σ (0.85 − basket/expected basket)
    refunds above 10%      S = refunds so far − 0.1·purchases so far·ψ(t)/φ(t)       ψ: the same of refunds, which lag

By Robbins' normal mixture (`estimates.always_valid_quantile`), S exceeds √((V + τ)·(2·ln(1/2α) + ln(1 + V/τ))) at any
moment with a probability of at most α. The whole path is looked at, so what is found depends on the events alone, and
neither on how often nor on when anybody looks.

φ and ψ are learned from the events of earlier campaigns, and their own errors are a part of V. Without them nobody
knows when purchases come: then all of M may be due at once, none of it before the end, and refunds with purchases.
"""

from dataclasses import dataclass

import numpy as np

from disco.records.arrays import Vector

RISK = 0.01
"""Chance that a guardrail is ever crossed by chance alone, of a campaign whose figure is at its limit."""
LEAST_EVENTS = 20
"""Below so many events nothing is said: the normal law of a sum needs some."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """The path of a guardrail over events: S and V after each, (n,), and how large V is expected to become."""

    excess: Vector
    variance: Vector
    planned: float

    def crossing(self, *, risk: float = RISK) -> int | None:
        """The first event after which the limit is left for sure; None: at none.

        >>> rng = np.random.default_rng(1)
        >>> def of(shift): return Sequence(np.cumsum(rng.normal(shift, 1, 900)), np.arange(900.0) + 1, 900.0)
        >>> of(0.0).crossing(), of(0.5).crossing() < 100
        (None, True)
        """
        beyond = np.flatnonzero(self.excess > self.boundary(risk=risk))
        beyond = beyond[beyond >= LEAST_EVENTS - 1]
        return int(beyond[0]) if beyond.size else None

    def boundary(self, *, risk: float = RISK) -> Vector:
        """What S exceeds at any moment with a probability of at most `risk`; one-sided."""
        log_odds = 2 * np.log(1 / (2 * risk))
        scale = max(self.planned, 1e-300) / (log_odds + np.log(log_odds + 1))
        size = self.variance / scale
        return np.asarray(np.sqrt(scale * (size + 1) * (log_odds + np.log1p(size))), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """What share of a campaign's purchases has come by a share of its time; from earlier campaigns."""

    known: Vector  # (m,) sorted shares of time at which earlier purchases came; empty: nothing is known

    def upper(self, time: Vector) -> Vector:
        """(n,) at most so much is due by these shares of the time, as far as one knows."""
        return self._at(time) if self.known.size else np.ones(time.size)

    def lower(self, time: Vector) -> Vector:
        """(n,) at least so much is due."""
        return self._at(time) if self.known.size else np.where(time >= 1, 1.0, 0.0)

    def variance(self, time: Vector) -> Vector:
        """(n,) of the error of the share due."""
        if not self.known.size:
            return np.zeros(time.size)
        share = self._at(time)
        return np.asarray(share * (1 - share) / self.known.size, np.float64)

    def _at(self, time: Vector) -> Vector:
        return np.asarray(np.searchsorted(self.known, time, side="right") / self.known.size, np.float64)


def spend_above(amount: Vector, time: Vector, *, forecast: float, due: Due, limit: float) -> Sequence:
    """Money per purchase (n,) at shares of the campaign's time (n,), against 1 + limit times its forecast."""
    most = (1 + limit) * forecast
    variance = np.cumsum(amount**2) + most**2 * due.variance(time)
    return Sequence(np.cumsum(amount) - most * due.upper(time), variance, _planned(amount, most))


def spend_below(amount: Vector, time: Vector, *, forecast: float, due: Due, limit: float) -> Sequence:
    """The same against less than 1 + limit times the forecast, such as a limit of −50%."""
    least = (1 + limit) * forecast
    variance = np.cumsum(amount**2) + least**2 * due.variance(time)
    return Sequence(least * due.lower(time) - np.cumsum(amount), variance, _planned(amount, least))


def _planned(amount: Vector, total: float) -> float:
    """V when the amounts add to a total: total · Σa²/Σa."""
    whole = float(amount.sum())
    return total * float(amount @ amount) / whole if whole > 0 else 0.0


def basket_beyond(ratio: Vector, *, limit: float, planned: float) -> Sequence:
    """Basket over expected basket of each purchase (n,): below 1 + limit where the limit is negative, else above it.

    planned: purchases expected by the end.
    """
    sign = -1.0 if limit < 0 else 1.0
    count = np.arange(1, ratio.size + 1)
    variance = np.maximum(np.cumsum(ratio**2) - np.cumsum(ratio) ** 2 / count, 0.0)
    each = float(variance[-1]) / ratio.size if ratio.size else 0.0
    return Sequence(sign * np.cumsum(ratio - (1 + limit)), variance, planned * each)


def refunds_above(
    purchase: Vector, refund: Vector, time: Vector, *, limit: float, planned: float, due: Due, refunds_due: Due
) -> Sequence:
    """Money bought and money given back at each event (n,), one of the two 0; refunds above a share of purchases.

    planned: events expected by the end. due, refunds_due: when purchases and refunds of earlier campaigns came.
    """
    so_far = np.cumsum(purchase)
    if due.known.size and refunds_due.known.size:
        bought = np.maximum(due.upper(time), 1 / due.known.size)
        lag = np.minimum(refunds_due.upper(time) / bought, 1.0)
        error = refunds_due.variance(time) / bought**2
    else:
        lag, error = np.ones(time.size), np.zeros(time.size)
    variance = np.cumsum(refund**2 + (limit * purchase) ** 2) + (limit * so_far) ** 2 * error
    each = float(variance[-1]) / refund.size if refund.size else 0.0
    return Sequence(np.cumsum(refund) - limit * so_far * lag, variance, planned * each)
