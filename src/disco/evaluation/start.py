"""What is known before the first batch of a replay: the belief, an earlier log, and the bins of engagement scores."""

from dataclasses import replace

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.belief.inputs import require_names
from disco.campaign import Belief, Lesson, learn
from disco.evaluation.log import RandomLog
from disco.evaluation.passes import with_scores
from disco.records.arrays import Integers, Vector
from disco.records.decisions import Purchases
from disco.records.errors import InputError
from disco.records.grid import GRID
from disco.records.score import ScoreBins


def known_at_start(
    belief: object, log: RandomLog, warm: RandomLog | None, *, learn_engagement: bool, first: Integers
) -> tuple[Belief, RandomLog]:
    """What is known before the first batch, and the log with the scores in which its codes are counted.

    first: the rows of the first batch, whose scores make bins where there is no earlier log.
    """
    if isinstance(belief, Belief):
        log, warm = with_scores(log, belief), None if warm is None else with_scores(warm, belief)
    has_bins = isinstance(belief, Belief) and belief.engagement.counts.bins is not None
    if learn_engagement and log.score is not None and not has_bins:
        log, warm = _centred(log, warm, first=first)
    return believing(belief, log, warm, learn_engagement=learn_engagement, first=first), log


def believing(
    belief: object, log: RandomLog, warm: RandomLog | None, *, learn_engagement: bool, first: Integers
) -> Belief:
    """The belief at the start: engagement 1 at every depth unless it was brought or is to be learned."""
    if belief is not None and not isinstance(belief, Belief | BasketModel):
        raise InputError("belief", found=f"{belief!r:.60}", expected="a BasketModel, a Belief or None")
    if not isinstance(belief, Belief):
        known = {} if learn_engagement else dict.fromkeys(log.depths, 1.0)
        belief = Belief(basket=belief or BasketModel(), engagement=Engagement(override=known))
    require_names(log.context_names, belief.basket.context_names)
    bins = _bins(belief, log, warm, first) if learn_engagement else None
    if bins is not None and belief.engagement.counts.bins is None:
        belief = replace(belief, engagement=replace(belief.engagement, counts=EngagementCounts(bins=bins)))
    if warm is None:
        return belief
    require_names(warm.context_names, log.context_names or belief.basket.context_names)
    bought = warm.bought
    seen = Purchases(context=warm.context[bought], depth=warm.depth[bought], full_price=warm.full_price[bought])
    score = None if bins is None else warm.score
    codes = EngagementCounts.of(warm.depth, bought, score=score, bins=bins) if learn_engagement else None
    return learn(belief, [Lesson.of("warm", seen, codes)])


def _bins(belief: Belief, log: RandomLog, warm: RandomLog | None, first: Integers) -> ScoreBins | None:
    """In which codes are counted; None where the log has no scores, or the belief counted without them."""
    counts = belief.engagement.counts
    if log.score is None:
        if counts.bins is not None:
            raise InputError(
                "log",
                found="no engagement scores",
                expected="the scores with which the belief counted its codes",
                fix="Give random_log a score for every row, or the belief its engagement head.",
            )
        return None
    if warm is not None and warm.score is None:
        raise InputError("warm", found="no engagement scores", expected="scores as in the log that is replayed")
    if counts.bins is not None:
        return counts.bins
    if counts.depths.size:
        raise InputError(
            "belief",
            found="codes counted without engagement scores",
            expected="codes counted in bins of the score, or none",
            fix="Leave out the scores, or start from a belief without codes and bring an earlier log as `warm`.",
        )
    return ScoreBins.of(_scores_for_bins(log, warm, first))


def _scores_for_bins(log: RandomLog, warm: RandomLog | None, first: Integers) -> Vector:
    """Those of the earlier log, else of the first batch: never of rows whose outcome is still to come."""
    assert log.score is not None  # for the type checker
    scores = log.score[first] if warm is None or warm.score is None else warm.score
    known: Vector = scores[~np.isnan(scores)]
    if not known.size:
        raise InputError(
            "log, score",
            found="no score in the first batch" if warm is None else "no score in the earlier log",
            expected="at least one, to make bins from",
            fix="Choose larger batches, or bring an earlier log with scores.",
        )
    return known


def _centred(log: RandomLog, warm: RandomLog | None, *, first: Integers) -> tuple[RandomLog, RandomLog | None]:
    """Scores less the mean of those that make the bins: the prior rate is then that of a typical customer."""
    middle = float(np.rint(_scores_for_bins(log, warm, first).mean() * GRID) / GRID)

    def shifted(one: RandomLog) -> RandomLog:
        return one if one.score is None else replace(one, score=one.score - middle)

    return shifted(log), None if warm is None else shifted(warm)
