"""One pass of a policy over a log, by rejection sampling (Li et al. 2010), batch by batch under caps.

The policy decides for every customer presented, with the caps of a campaign of that size. Where it chose the depth that
the log happened to play, the outcome is known: the row is accepted, counts, and is learned from. Other rows leave no
trace. With uniform depths acceptance says nothing about the outcome, so accepted rows are a fair sample of what the
policy would have seen. `decide` and `learn` are those of production.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from disco import objective
from disco.belief import Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.log import RandomLog
from disco.objective import read_revenue_weight
from disco.policy import Policy
from disco.records.arguments import read_count
from disco.records.arrays import Flags, Floats, Integers, Vector
from disco.records.decisions import Audience, Offer, Purchases
from disco.records.depths import depth_label, read_depth
from disco.records.errors import InputError, LimitError
from disco.records.identity import name_key
from disco.records.ports import Engine

Skew = Literal["resample", "weight"]
"""How a log with unequal propensities is used: drop rows at random until depths are uniform, or weigh by 1/p."""

REVENUE_ALONE = 1e9  # w → ∞: markdown weighs a billionth of revenue, far below any difference that matters

# ---- who plays, within which limits ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconstrainedLearner:
    """ULCC: a learner acts without caps and its outcomes update belief; a consumer acts under caps and earns.

    Both act on one draw of `policy`, valued alike; only the caps differ. No retailer can act twice on one customer: it
    measures what caps cost in learning.
    """

    name: ClassVar[str] = "ulcc"
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What may be decided per batch of customers."""

    depths: tuple[float, ...]
    caps: tuple[int | None, ...]  # most customers per depth; None = no limit
    batch: int  # customers
    revenue_weight: float | None  # w; None = revenue alone

    @property
    def weights(self) -> dict[str, float | None]:
        """Figures per customer and the weight of revenue in each; None = revenue alone."""
        return {"revenue": None} | ({} if self.revenue_weight is None else {"objective": self.revenue_weight})

    def of_size(self, size: int) -> "BatchLimits":
        """The limits of a batch of another size, with caps in proportion, rounded down."""
        return replace(
            self, batch=size, caps=tuple(None if cap is None else cap * size // self.batch for cap in self.caps)
        )

    def offer(self, size: int, *, capped: bool = True) -> Offer:
        """The offer for a batch; in the last, shorter one the caps shrink with it."""
        caps = self.of_size(size).caps
        weight = REVENUE_ALONE if self.revenue_weight is None else self.revenue_weight
        return Offer(depths=self.depths, caps=caps if capped else (None,) * len(caps), revenue_weight=weight)


_WEIGH = (
    "Resampling to equal shares of the depths left few rows. Weigh all rows instead (skew 'weight'), or choose a "
    "smaller batch."
)


def read_batch_limits(
    caps: Mapping[float, int | float | None] | None,
    *,
    depths: tuple[float, ...],
    batch: int,
    rows: int,
    whole: int | None = None,
    revenue_weight: float | None,
) -> BatchLimits:
    """Caps by depth: a whole number counts customers, a float is a share of the batch, None or absent is no limit.

    depths: of the log. rows: how many of its rows can be presented. whole: how many it has; None: as many.

    >>> read_batch_limits({0.2: 0.25, 0.1: 30}, depths=(0.1, 0.2), batch=100, rows=100, revenue_weight=None).caps
    (30, 25)
    """
    read_count(batch, where="batch")
    if batch > rows:
        raise InputError(
            "batch",
            found=f"{batch:,} customers per batch, more than the {rows:,} rows that can be presented",
            expected="at most as many as the log has",
            fix="Choose a smaller batch, or bring a longer log." if whole is None or whole == rows else _WEIGH,
        )
    if revenue_weight is not None:
        read_revenue_weight(revenue_weight)
    if caps is not None and not isinstance(caps, Mapping):
        raise LimitError("caps", found=repr(caps), expected="caps by depth, such as {0.1: 0.25, 0.2: 500}")
    given = {read_depth(depth, where="caps"): _read_cap(cap, depth) for depth, cap in (caps or {}).items()}
    absent = sorted(set(given) - set(depths))
    if absent:
        raise LimitError(
            "caps",
            found=f"a cap for depth {depth_label(absent[0])}, which the log never played",
            expected=f"depths of the log: {', '.join(map(depth_label, depths))}",
        )
    counts = tuple(
        int(np.floor(cap * batch + 1e-9)) if isinstance(cap, float) else cap
        for cap in (given.get(depth) for depth in depths)
    )
    return BatchLimits(depths=depths, caps=counts, batch=int(batch), revenue_weight=revenue_weight)


def _read_cap(cap: object, depth: object) -> int | float | None:
    if cap is None:
        return None
    if isinstance(cap, bool) or not isinstance(cap, int | float | np.integer | np.floating):
        raise LimitError(f"cap of depth {depth}", found=repr(cap), expected="a count, or a share such as 0.25")
    if isinstance(cap, float | np.floating) and not 0 <= cap <= 1:
        raise LimitError(f"cap of depth {depth}", found=cap, expected="a share of the batch from 0 to 1")
    if cap < 0:
        raise LimitError(f"cap of depth {depth}", found=cap, expected="no negative count")
    return float(cap) if isinstance(cap, float | np.floating) else int(cap)


# ---- which rows are presented ----------------------------------------------------------------------------------------


def generator(*names: object) -> np.random.Generator:
    """Random numbers that belong to these names alone."""
    return np.random.Generator(np.random.Philox(key=name_key(*names)))


def presented_rows(log: RandomLog, *, skew: Skew, seed: int, repeat: int) -> Integers:
    """Rows in time order. "resample": a row is kept with probability min(p)/p, so that every depth is equally likely
    for every customer and the customers stay the same population; "weight": all rows."""
    if skew not in ("resample", "weight"):
        raise InputError("skew", found=repr(skew), expected="'resample' or 'weight'")
    if skew == "weight" or log.is_uniform:
        return np.arange(len(log))
    keep = log.propensity.min() / log.propensity
    return np.flatnonzero(generator("uniform subsample", seed, repeat).random(len(log)) < keep)


def bootstrap_rows(log: RandomLog, rows: Integers, *, seed: int, repeat: int) -> Integers:
    """As many customers as there are, drawn with replacement, each with all their rows; in time order."""
    owner = np.unique(log.customer[rows], return_inverse=True)[1]
    count = int(owner.max()) + 1
    times = np.bincount(generator("bootstrap", seed, repeat).integers(0, count, count), minlength=count)
    return np.repeat(rows, times[owner])


def with_scores(log: RandomLog, belief: Belief) -> RandomLog:
    """The log with the scores of the belief's engagement head, where codes were counted by them and it has none."""
    if log.score is not None or belief.head is None or belief.engagement.counts.bins is None:
        return log
    return replace(log, score=belief.head.scores(log.context))


# ---- the pass --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """What a pass did, one entry per row presented."""

    rows: Integers  # (m,) rows of the log in the order presented
    batch: Integers  # (m,)
    choice: Integers  # (m,) position of a depth, -1 = no code
    predicted: Vector  # (m,) full price × engagement believed at the chosen depth before the batch; 0 without a code

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
    counted: Engagement | None = None,
    engine: Engine | None = None,
) -> Played:
    """Present `rows` (m,) of the log in this order; a row may occur twice and is then another customer each time.

    start: what is known before the first batch. learning: whether accepted purchases are learned after each batch;
    learn_engagement: whether their codes are, too. Where the codes known at the start are counted in bins of a score,
    the customers' own scores are used, those of the log or of the belief's head; else everybody has the rate of the
    depth. counted: the rates of the codes known at the start, for a caller who has fitted them.
    """
    log = with_scores(log, start)
    acting = policy.policy if isinstance(policy, UnconstrainedLearner) else policy
    belief, seen = start, counted or Engagement(counts=start.engagement.counts)
    bins = start.engagement.counts.bins
    scores = log.score if bins is not None else None
    choice, predicted = np.empty(rows.size, np.int64), np.zeros(rows.size)
    batches = np.arange(rows.size) // limits.batch
    depth, bought = log.depth, log.bought
    for number, first in enumerate(range(0, rows.size, limits.batch)):
        part = slice(first, min(first + limits.batch, rows.size))
        here = rows[part]
        score = None if scores is None else scores[here]
        seen = belief.engagement if seen == belief.engagement else seen  # equal ones are fitted once
        audience = Audience(
            ids=np.arange(part.start, part.stop),
            context=log.context[here],
            known=np.ones(here.size, np.bool_),
            score=score,
        )
        act = partial(
            decide, audience, belief=belief, policy=acting, campaign=f"batch {number}", seed=seed, engine=engine
        )
        chosen = act(offer=limits.offer(here.size))
        choice[part] = chosen.choice
        predicted[part] = np.nan_to_num(chosen.expected_full_price) * _rates_at(seen, score, limits, chosen.choice)
        if part.stop == rows.size:
            break  # nobody is left to decide for with what the last batch teaches
        learned = chosen.choice
        if isinstance(policy, UnconstrainedLearner) and learning:
            learned = act(offer=limits.offer(here.size, capped=False)).choice
        accepted = here[learned == log.place[here]]
        own = None if scores is None else scores[accepted]
        counts = EngagementCounts.of(depth[accepted], bought[accepted], score=own, bins=bins)
        seen = replace(seen, counts=seen.counts + counts)
        if learning:
            buyers = accepted[bought[accepted]]
            purchases = Purchases(context=log.context[buyers], depth=depth[buyers], full_price=log.full_price[buyers])
            # a batch is a campaign of its own where older campaigns count less; else their sums are the same
            name = "replay" if belief.basket.forgetting == 1 else f"replay, batch {number + 1}"
            belief = learn(belief, [Lesson.of(name, purchases, counts if learn_engagement else None)])
    return Played(rows=rows, batch=batches, choice=choice, predicted=predicted)


def _rates_at(engagement: Engagement, score: Vector | None, limits: BatchLimits, choice: Integers) -> Vector:
    """(m,) each customer's rate at the depth chosen; 0 without a code."""
    depths = np.asarray(limits.depths)
    if score is None:
        return np.asarray(np.append(engagement.rates(depths), 0.0)[choice])
    own = engagement.rates_of(score, depths)
    return np.where(choice >= 0, own[np.arange(choice.size), choice], 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassReading:
    """A pass over the log with its outcomes, one entry per presented row."""

    log: RandomLog
    played: Played
    weight: Vector  # (m,) 1{accepted}/p
    revenue: Vector  # (m,) money
    bought: Vector  # (m,) 1 for a purchase, else 0

    @classmethod
    def of(cls, log: RandomLog, played: Played, *, skew: Skew) -> "PassReading":
        """p is 1/K where the log was made uniform first."""
        accepted = played.accepted(log)
        p = 1 / len(log.depths) if skew == "resample" else log.propensity[played.rows]
        return cls(
            log=log,
            played=played,
            weight=np.asarray(accepted / p),
            revenue=np.nan_to_num(objective.revenue(log.full_price[played.rows], log.depth[played.rows])),
            bought=log.bought[played.rows].astype(np.float64),
        )

    def basket_values(self, batches: int) -> Vector:
        """Σw·R/Σw·bought per batch, and over all as the last entry; NaN where nobody bought."""
        batch = np.minimum(self.played.batch, batches - 1)  # a resampled log may be a few rows longer
        sums = np.stack(
            [np.bincount(batch, weights=self.weight * y, minlength=batches) for y in (self.revenue, self.bought)]
        )
        revenue, purchases = np.column_stack([sums, sums.sum(axis=1)])
        return np.asarray(np.divide(revenue, purchases, out=np.full(batches + 1, np.nan), where=purchases > 0))

    @property
    def has_purchase(self) -> bool:
        """Whether somebody accepted bought."""
        return bool(self.weight @ self.bought > 0)

    @property
    def basket(self) -> float:
        """Σw·R/Σw·bought: revenue per purchaser."""
        return float(self.weight @ self.revenue) / float(self.weight @ self.bought)

    @property
    def customer_weight(self) -> Vector:
        """(m,) 1{accepted}/p, and 1 without a code: what such a customer brings is 0 for certain."""
        return np.where(self.played.choice < 0, 1.0, self.weight)

    def figures(self, baseline: "PassReading", limits: BatchLimits) -> dict[str, tuple[float, Vector]]:
        """Every figure of this pass by name, with its linear terms per customer (how far their rows move it); those of
        baskets only where purchases were accepted.

        baseline: the pass of Random over the same rows.
        """
        found: dict[str, tuple[float, Vector]] = {}
        if self.has_purchase:
            basket, moved = self._basket()
            found["basket"] = basket, moved
            if baseline.has_purchase:
                unit, unit_moved = baseline._basket()
                ratio = basket / unit
                found["relative"] = ratio, (moved - ratio * unit_moved) / unit
        for name, weight in limits.weights.items():
            own = self._per_customer(limits, weight=weight)
            less = own if baseline is self else baseline._per_customer(limits, weight=weight)
            found |= {f"{name} {kind}": figure for kind, figure in own.items()}
            found[f"{name} against"] = _less(own["dr"], less["dr"])
        return found

    def valued(self, limits: BatchLimits) -> dict[str, tuple[float, Vector]]:
        """Doubly robust figures per customer, by name, with their linear terms."""
        return {name: self._per_customer(limits, weight=weight)["dr"] for name, weight in limits.weights.items()}

    def promised(self, limits: BatchLimits) -> dict[str, float]:
        """Figures per customer by name, as the policy's own belief expected them of its choices."""
        depth = np.append(limits.depths, 0.0)[self.played.choice]
        revenue = objective.revenue(self.played.predicted, depth)
        markdown = objective.markdown(self.played.predicted, depth)
        return {
            name: float((revenue if weight is None else weight * revenue - markdown).mean())
            for name, weight in limits.weights.items()
        }

    def differences(self, other: "PassReading", limits: BatchLimits) -> dict[str, tuple[float, Vector]]:
        """Doubly robust figures per customer less those of another policy over the same rows, with linear terms.

        What both policies would have earned with a customer is counted in both, so it cancels.
        """
        own, others = self.valued(limits), other.valued(limits)
        return {name: _less(own[name], others[name]) for name in own}

    def _by_customer(self, terms: Vector) -> Vector:
        owner = self.log.customer[self.played.rows]
        return np.asarray(np.bincount(owner, weights=terms, minlength=int(self.log.customer.max()) + 1), np.float64)

    def _basket(self) -> tuple[float, Vector]:
        """`basket`, and how far each customer's rows move it (the delta method's linear terms)."""
        total, value = float(self.weight @ self.bought), self.basket
        return value, self._by_customer(self.weight * (self.revenue - value * self.bought) / total)

    def _per_customer(self, limits: BatchLimits, *, weight: float | None) -> dict[str, tuple[float, Vector]]:
        """Revenue (weight None) or objective w·R − C per presented customer, by estimator, each with its linear terms.

        As `off_policy` has them; without a code the figure is 0 for certain.
        """
        depth = np.append(limits.depths, 0.0)
        rows, w = self.played.rows, self.customer_weight

        def figure(full_price: Floats, at: Floats) -> Vector:
            revenue = objective.revenue(full_price, at)
            return np.asarray(
                revenue if weight is None else weight * revenue - objective.markdown(full_price, at), np.float64
            )

        y = np.where(
            self.played.choice < 0, 0.0, figure(np.nan_to_num(self.log.full_price[rows]), self.log.depth[rows])
        )
        q = figure(self.played.predicted, depth[self.played.choice])
        found = {}
        for kind, values, total in (("ips", w * y, float(rows.size)), ("snips", w * y, float(w.sum()))):
            if total > 0:
                value = float(values.sum()) / total
                terms = values - value if kind == "ips" else values - value * w
                found[kind] = value, self._by_customer(terms / total)
        values = q + w * (y - q)
        value = float(values.mean())
        found["dr"] = value, self._by_customer((values - value) / rows.size)
        return found


def _less(one: tuple[float, Vector], other: tuple[float, Vector]) -> tuple[float, Vector]:
    """The difference of two figures with linear terms."""
    return one[0] - other[0], one[1] - other[1]
