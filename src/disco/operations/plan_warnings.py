"""What an operator should know before a launch, in sentences with their figures."""

import numpy as np

from disco.belief import demand_curve, monotone_shares
from disco.campaign import Belief
from disco.features.check import PSI_ALARM, stability_index
from disco.records.arrays import Matrix, Vector
from disco.records.decisions import Audience
from disco.records.depths import depth_percent
from disco.records.identity import customer_keys

SHIFTED = PSI_ALARM  # a campaign to everybody alone moves a context by up to 0.4
_MOSTLY_MONOTONE = 0.9
_MOST_CUSTOMERS = 20_000  # enough for a share
_BINS = 10
_CHANCE = 27.9  # χ² with a degree of freedom less than there are bins is above it once in a thousand


def plan_warnings(
    belief: Belief,
    audience: Audience,
    depths: Vector,
    *,
    needs_belief: bool,
    has_budget: bool,
    last_contexts: Matrix | None,
) -> tuple[str, ...]:
    """`last_contexts`: of the customers of the last campaign under the same network, where there is one."""
    found = []
    stranger = 1 - float(audience.known.mean())
    if stranger > 0.5:
        found.append(f"{stranger:.0%} of the customers bought nothing in the year before, so they share one context.")
    if last_contexts is not None and len(last_contexts) and audience.known.any():
        index = stability_indices(last_contexts, audience.context[audience.known])
        by_chance = _CHANCE * (1 / len(last_contexts) + 1 / int(audience.known.sum()))  # what equal populations reach
        if index.max() > max(SHIFTED, by_chance):
            found.append(
                f"The customers differ from those of the last campaign: context feature {int(index.argmax()) + 1} has "
                f"a population stability index of {index.max():.2f} (above {SHIFTED} means another population)."
            )
    if not belief.basket.campaigns:
        if needs_belief:
            found.append(
                "Nothing was learned yet, so these decisions rest on the prior alone. Begin with `policy: random`."
            )
        if has_budget:
            found.append(
                "Before any campaign is learned costs are unknown, so the budget does not bind: limit the codes with "
                "`at_most` instead."
            )
        return tuple(found)
    rows = slice(0, _MOST_CUSTOMERS)
    curve = demand_curve(belief.basket, audience.context[rows], depths, draws=1)
    far = [
        f"{depth_percent(depth)} (as if {plays:,.0f} purchases were known)"
        for depth, plays, extrapolated in zip(depths, curve.effective_plays, curve.extrapolated, strict=True)
        if extrapolated
    ]
    if far:
        found.append(f"Rarely tried before, so the model extrapolates: {', '.join(far)}.")
    if depths.size > 1:
        keys = customer_keys(audience.ids[rows])
        share, _ = monotone_shares(belief.basket, audience.context[rows], depths, keys=keys)
        if share < _MOSTLY_MONOTONE:
            found.append(
                f"For {1 - share:.0%} of steps the model predicts smaller baskets at deeper discounts; consider "
                "`model: {monotone: true}` in disco.yaml."
            )
    return tuple(found)


def stability_indices(before: Matrix, after: Matrix) -> Vector:
    """Population stability index per column: Σ(q − p)·ln(q/p) over ten bins with equal shares p of `before`.

    >>> steady = np.linspace(-1, 1, 1000)[:, None]
    >>> stability_indices(steady, steady).round(6).tolist(), bool(stability_indices(steady, steady + 1)[0] > 0.25)
    ([0.0], True)
    """
    index = np.zeros(before.shape[1])
    for column in range(before.shape[1]):
        edges = np.unique(np.quantile(before[:, column], np.linspace(0, 1, _BINS + 1)[1:-1]))
        # half a customer more in each bin, so that none is empty
        p, q = (
            (np.bincount(np.searchsorted(edges, part[:, column], side="right"), minlength=edges.size + 1) + 0.5)
            / (len(part) + 0.5 * (edges.size + 1))
            for part in (before, after)
        )
        index[column] = stability_index(np.asarray(p), np.asarray(q), smallest_share=0.0)
    return index
