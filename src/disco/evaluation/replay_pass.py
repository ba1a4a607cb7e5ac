"""One pass of a policy over a log, by rejection sampling (Li et al. 2010), batch by batch under caps.

The policy decides for every customer presented, with the caps of a campaign of that size. Where it chose the depth that
the log happened to play, the outcome is known: the row is accepted, counts, and is learned from. Other rows leave no
trace. With uniform depths acceptance says nothing about the outcome, so accepted rows are a fair sample of what the
policy would have seen. `decide` and `learn` are those of production.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from disco.belief import Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.log import RandomLog
from disco.evaluation.replay_limits import BatchLimits
from disco.policy import Policy
from disco.records.arrays import Flags, Integers, Vector
from disco.records.decisions import Audience, Purchases
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconstrainedLearner:
    """ULCC: a learner acts without caps and its outcomes update belief; a consumer acts under caps and earns.

    Both act on one draw of `policy`, valued alike; only the caps differ. No retailer can act twice on one customer: it
    measures what caps cost in learning.
    """

    name: ClassVar[str] = "ulcc"
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """What a pass did. rows (m,): log rows in the order presented · batch (m,) · choice (m,): position of a depth,
    -1 = no code · predicted (m,): full price × engagement believed at the chosen depth before the batch, 0 without."""

    rows: Integers
    batch: Integers
    choice: Integers
    predicted: Vector

    def accepted(self, log: RandomLog) -> Flags:
        return np.asarray(self.choice == log.place[self.rows])


def play(
    log: RandomLog,
    rows: Integers,
    policy: Policy | UnconstrainedLearner,
    *,
    start: Belief,
    limits: BatchLimits,
    seed: int,
    learning: bool,
    learn_engagement: bool,
    engine: Engine | None = None,
) -> Played:
    """Present `rows` of the log in this order; a row may occur twice and is then another customer each time."""
    acting = policy.policy if isinstance(policy, UnconstrainedLearner) else policy
    belief, seen = start, Engagement(counts=start.engagement.counts)
    choice, predicted = np.empty(rows.size, np.int64), np.zeros(rows.size)
    batches = np.arange(rows.size) // limits.batch
    depth, bought = log.depth, log.bought
    for number, first in enumerate(range(0, rows.size, limits.batch)):
        part = slice(first, min(first + limits.batch, rows.size))
        here = rows[part]
        audience = Audience(
            ids=np.arange(part.start, part.stop), context=log.context[here], known=np.ones(here.size, np.bool_)
        )
        chosen = decide(
            audience,
            belief=belief,
            offer=limits.offer(here.size),
            policy=acting,
            campaign=f"batch {number}",
            seed=seed,
            engine=engine,
        )
        choice[part] = chosen.choice
        rates = np.append(seen.rates(np.asarray(limits.depths)), 0.0)
        predicted[part] = np.nan_to_num(chosen.expected_full_price) * rates[chosen.choice]
        learned = chosen.choice
        if isinstance(policy, UnconstrainedLearner) and learning:
            learned = decide(
                audience,
                belief=belief,
                offer=limits.offer(here.size, capped=False),
                policy=acting,
                campaign=f"batch {number}",
                seed=seed,
                engine=engine,
            ).choice
        accepted = here[learned == log.place[here]]
        counts = EngagementCounts.of(depth[accepted], bought[accepted])
        seen = replace(seen, counts=seen.counts + counts)
        if learning:
            buyers = accepted[bought[accepted]]
            purchases = Purchases(context=log.context[buyers], depth=depth[buyers], full_price=log.full_price[buyers])
            belief = learn(belief, [Lesson.of("replay", purchases, counts if learn_engagement else None)])
    return Played(rows=rows, batch=batches, choice=choice, predicted=predicted)
