"""How fast campaigns are forgotten: chosen by how well each past campaign would have been predicted from those before.

With a factor f a campaign that is k campaigns old weighs fᵏ. Each value of f is scored by what it would have said about
every campaign from the second on,

    score(f) = Σ_t max_c ln p(campaign t | campaigns before t, weighted with f, and shifted by c) − penalty(f),

at the posterior means; the f of the highest score is taken. The shift c belongs to a campaign: whether it brought more
of everything is what the level and the season say (`level.py`, `season.py`). What is asked here is whether *who*
answers, and to which depth, has changed. The penalty makes 1 the answer until past campaigns say otherwise.

Everything is derived from exact sums per campaign, so a campaign that is taken back, or comes in another order of
batches, leaves no trace in the choice.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from disco.belief.elementary import log_array
from disco.belief.engagement import Engagement
from disco.belief.engagement_posterior import EngagementCurve, expit
from disco.belief.evidence import EngagementCounts, Evidence
from disco.belief.model import BasketModel

#: f: the values tried.
FORGETTING = (1.0, 0.9, 0.8, 0.65, 0.5)
_PENALTY = 3.0  # of every value below 1, in units of ln p
_LEAST_CAMPAIGNS = 4  # with fewer, nothing is forgotten
_MOST_CAMPAIGNS = 12  # the latest, that are predicted
_STEPS = 20  # of Newton, for the level of a campaign


def forgetting_of_codes(engagement: Engagement) -> float:
    """Of the counts of an engagement by campaign: one of `FORGETTING`."""
    campaigns = [one for one in engagement.campaigns.items() if one[1].depths.size]
    bare = replace(engagement.with_counts(EngagementCounts()), override={})
    scores = []
    for place in _predicted(len(campaigns)):
        before, (_, seen) = bare, campaigns[place]
        for name, counts in campaigns[:place]:
            before = before.with_codes(counts, campaign=name)
        scores.append([_code_score(replace(before, forgetting=f), seen) for f in FORGETTING])
    return _best(scores)


def _predicted(campaigns: int) -> range:
    return range(max(1, campaigns - _MOST_CAMPAIGNS), campaigns if campaigns >= _LEAST_CAMPAIGNS else 0)


def _best(scores: Sequence[Sequence[float]]) -> float:
    if not scores:
        return 1.0
    total = np.array(scores).sum(axis=0) - np.where(np.array(FORGETTING) < 1.0, _PENALTY, 0.0)
    return FORGETTING[int(total.argmax())]


def _code_score(before: Engagement, seen: EngagementCounts) -> float:
    """ln of the chance of these codes' uses, a level of their own apart."""
    logits = EngagementCurve.of(before.posterior, seen.depths, drift=before.drift).logits.T
    sent, used = (part.reshape(logits.shape).astype(np.float64) for part in (seen.sent, seen.redeemed))
    if not used.sum() or used.sum() == sent.sum():
        return 0.0
    shift = 0.0
    for _ in range(_STEPS):
        rates = expit(logits + shift)
        slope, curvature = (used - sent * rates).sum(), (sent * rates * (1 - rates)).sum()
        shift += float(np.clip(slope / curvature, -1.0, 1.0))
    rates = expit(logits + shift)
    return float((used * log_array(rates) + (sent - used) * log_array(1.0 - rates)).sum())


def forgetting_of_baskets(model: BasketModel) -> float:
    """Of a model's evidence by campaign: one of `FORGETTING`."""
    campaigns = list(model.campaigns.items())
    scores = []
    for place in _predicted(len(campaigns)):
        before, (_, seen) = replace(model, campaigns=dict(campaigns[:place])), campaigns[place]
        scores.append([_basket_score(replace(before, forgetting=f), seen) for f in FORGETTING])
    return _best(scores)


def _basket_score(before: BasketModel, seen: Evidence) -> float:
    """ln of the density of these purchases' ln F, a level of their own apart."""
    encoded, posterior = before.encoded(seen.depths), before.posterior
    lines = encoded @ posterior.mean.reshape(-1, encoded.shape[1]).T  # (depths, p)
    left = np.concatenate([lines, np.full((len(lines), 1), -1.0)], axis=1)  # ψᵀθ − y from z = (x̃, y)
    sums = seen.sums()
    rows, total = float(sums[:, 0, 0].sum()), float((sums[:, 0] * left).sum())
    square = float(np.einsum("ai,aij,aj->", left, sums, left)) - total * total / rows
    return -rows * math.log(posterior.noise_sd) - square / (2.0 * posterior.noise_sd**2)
