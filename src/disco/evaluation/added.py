"""What codes added over months and years, by people who were held out from all of them.

Each person is one observation, however many orders they placed: their revenue, markdown and margin of the whole time,
in one sum each. So whatever ties a person's months together, the error is that of independent people. With
group a ∈ {held, others}, y the sum of a person, x what was known of them before the holdout began and x̄ its mean over
both groups, each group is adjusted by its own regression,

    m_a = ȳ_a + θ_aᵀ(x̄ − x̄_a),   d = m_others − m_held,
    se² = Σ_a Σᵢ rᵢ²/(n_a·(n_a − p − 1)),   r = (y − ȳ_a) − θ_aᵀ(x − x̄_a).

Separate slopes (Lin 2013) never lose to the plain difference of means, also where one group is a twentieth of the
other, as a holdout is; one common slope may. What codes added in total is d times the others, the people who had codes:
the share of the holdout is their weight. The quantile is Student's with the freedom that the kurtosis of the terms
leaves (`estimates.error_of_sum`), because a few people with large baskets dominate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from disco.evaluation.estimates import error_of_sum, estimate_around, quantile
from disco.evaluation.read_out import POWER
from disco.records.arguments import read_column, read_level
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.errors import InputError
from disco.records.estimate import LEVEL, Estimate

LEAST_HELD = 30
"""People in either group, below which nothing is said: the normal law of a mean needs some."""
_ROWS_PER_COLUMN = 20  # people per figure from before, below which a group is not adjusted


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFigure:
    """One figure, such as revenue, with codes against without."""

    held: float
    """Per person held out: what happens without codes."""
    others: float
    """Per person of the others, as measured."""
    per_customer: Estimate
    """What codes added per person of the others; adjusted by what was known before."""
    total: Estimate
    """The same for all of the others together."""
    relative: float | None
    """What codes added as a share of what happens without; null where that is not positive."""

    @property
    def is_known(self) -> bool:
        """Whether the interval says if codes added or took away."""
        return not self.per_customer.covers(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a holdout of this share shows after so many days."""

    share: float
    """Of the people, held out."""
    days: int
    """Observed in all."""
    detectable: float
    """The least change, as a share of what happens without codes, that the interval shows in four of five cases."""


def added(figures: Vector, held: Flags, *, before: Matrix | None = None, level: float = LEVEL) -> AddedFigure:
    """One figure per person (n,), with who was held out (n,) and what was known of each before (n, p).

    >>> rng = np.random.default_rng(3)
    >>> held, usual = np.arange(4000) % 10 == 0, rng.gamma(2.0, 20.0, 4000)
    >>> found = added(usual + 5.0 * ~held + rng.normal(0, 3, 4000), held, before=usual[:, None])
    >>> round(found.per_customer.value), found.per_customer.covers(5.0), found.is_known
    (5, True, True)
    """
    value, terms = difference(figures, held, before=before)
    error, freedom = error_of_sum(terms)
    each = estimate_around(value, error, level=read_level(level), freedom=freedom)
    people, unit = int((~held).sum()), float(figures[held].mean())
    lower, upper = each.ends or (-math.inf, math.inf)
    return AddedFigure(
        held=unit,
        others=float(figures[~held].mean()),
        per_customer=each,
        total=Estimate(people * value, people * lower, people * upper, level, people * error),
        relative=value / unit if unit > 0 else None,
    )


def difference(figures: Vector, held: Flags, *, before: Matrix | None = None) -> tuple[float, Vector]:
    """d, and its linear terms (n,), whose sum of squares is its variance."""
    y = read_column(figures, where="figures", rows=held.size)
    refuse_few(held)
    value, terms = 0.0, np.zeros(held.size)
    centre = None if before is None else before.mean(axis=0)
    for rows, sign in ((~held, 1.0), (held, -1.0)):
        own = y[rows]
        mean, left, columns = float(own.mean()), own - own.mean(), 0
        if before is not None and centre is not None and own.size >= _ROWS_PER_COLUMN * (before.shape[1] + 1):
            x = before[rows]
            slope = np.linalg.lstsq(x - x.mean(axis=0), left, rcond=None)[0]
            mean += float((centre - x.mean(axis=0)) @ slope)
            left, columns = left - (x - x.mean(axis=0)) @ slope, before.shape[1]
        value += sign * mean
        terms[rows] = sign * left / math.sqrt(own.size * (own.size - columns - 1))
    return value, terms


def refuse_few(held: Flags) -> None:
    """Too few people in a group to say anything."""
    size, people = int(held.sum()), held.size
    if min(size, people - size) < LEAST_HELD:
        share = size / people if people else 0.0
        raise InputError(
            "lasting holdout",
            found=f"{size:,} of {people:,} people held out ({share:.2%})",
            expected=f"at least {LEAST_HELD} people held out, and as many who are not",
            fix="Hold out a larger share, such as `holdout: {share: 5%, lasting: true}`.",
        )


# ---- what share and time would do ----


def outlook(
    halves: tuple[Vector, Vector],
    held: Flags,
    *,
    days: int,
    shares: Sequence[float],
    times: Sequence[float],
    before: Matrix | None = None,
    level: float = LEVEL,
) -> tuple[Outlook, ...]:
    """What other shares, and more time, would show of a figure; empty where nobody held out bought.

    halves: the figure of each person (n,) in the first and in the second half of the days. A person's sum over f times
    the days has the variance f²·B + f·(V − B): B = 4·cov(first half, second half) is what lasts between people, and the
    rest is drawn anew, so that time helps against the rest alone.
    """
    mean = float((halves[0] + halves[1])[held].mean())
    if mean <= 0:
        return ()
    (_, first), (_, second) = (difference(half, held, before=before) for half in halves)
    # per person of the larger group, which says how figures vary with codes or without
    rows = ~held
    scale = float(rows.sum())
    first, second = first[rows] * scale, second[rows] * scale
    whole = float(((first + second) ** 2).mean())
    lasting = min(max(4 * float((first * second).mean()), 0.0), whole)
    reach = quantile(level) + float(ndtri(POWER))
    found = []
    for share in shares:
        people = 1 / (held.size * share) + 1 / (held.size * (1 - share))
        for time in times:
            error = math.sqrt((time**2 * lasting + time * (whole - lasting)) * people)
            found.append(Outlook(share=share, days=round(days * time), detectable=reach * error / (time * mean)))
    return tuple(found)
