"""Passes of a policy over a log, by rejection sampling (Li et al. 2010), batch by batch under caps.

The policy decides for every customer presented, with the caps of a campaign of that size. Where it chose the depth that
the log happened to play, the outcome is known: the row is accepted, counts, and is learned from. Other rows leave no
trace. With uniform depths acceptance says nothing about the outcome, so accepted rows are a fair sample of what the
policy would have seen. `decide` and `learn` are those of production.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from disco import objective
from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.estimates import error_of_sum, estimate_around, quantile, reach_into_tail
from disco.evaluation.log import RandomLog
from disco.objective import read_revenue_weight
from disco.policy import Policy, require_policy
from disco.records.arguments import read_count, read_percent
from disco.records.arrays import Flags, Floats, Integers, Matrix, Vector
from disco.records.decisions import Audience, Offer
from disco.records.depths import depth_label, read_depth
from disco.records.errors import InputError, LimitError
from disco.records.estimate import Estimate
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


Player = Policy | UnconstrainedLearner


def players_by_name(players: Any, *, learners: bool) -> dict[str, Any]:
    """One player, or several with different names. learners: whether an `UnconstrainedLearner` may be among them."""
    alone = isinstance(players, str) or not isinstance(players, Iterable)
    listed = [players] if alone else list(players)
    for player in listed:
        is_learner = learners and isinstance(player, UnconstrainedLearner)
        require_policy(player.policy if is_learner else player, where="policies")
    names = [player.name for player in listed]
    if not listed or len(set(names)) != len(names):
        raise InputError("policies", found=f"{names}", expected="at least one, each name once")
    return dict(zip(names, listed, strict=True))


def starting_belief(basket: BasketModel | None, log: RandomLog, *, learn_engagement: bool) -> Belief:
    """The belief before a log: engagement is 1 at every depth unless it is to be learned."""
    known = {} if learn_engagement else dict.fromkeys(log.depths, 1.0)
    return Belief(basket=basket or BasketModel(), engagement=Engagement(override=known))


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

    def worth(self, full_price: Floats, depth: Floats) -> dict[str, Vector]:
        """By figure, (m,) what customers bring who buy for these prices at these depths."""
        revenue, markdown = objective.revenue(full_price, depth), objective.markdown(full_price, depth)
        return {
            name: np.asarray(revenue if weight is None else weight * revenue - markdown, np.float64)
            for name, weight in self.weights.items()
        }

    def of_size(self, size: int) -> BatchLimits:
        """The limits of a batch of another size, with caps in proportion, rounded down."""
        return replace(
            self, batch=size, caps=tuple(None if cap is None else cap * size // self.batch for cap in self.caps)
        )

    def offer(self, size: int, *, capped: bool = True) -> Offer:
        """The offer for a batch; in the last, shorter one the caps shrink with it."""
        caps = self.of_size(size).caps
        weight = REVENUE_ALONE if self.revenue_weight is None else self.revenue_weight
        return Offer(depths=self.depths, caps=caps if capped else (None,) * len(caps), revenue_weight=weight)


_BATCH = 5_000  # customers presented together, unless the caller says otherwise
_WEIGH = (
    "Resampling to equal shares of the depths left few rows. Weigh all rows instead (skew 'weight'), or choose a "
    "smaller batch."
)


def read_batch_limits(
    caps: Mapping[float, int | float | None] | None,
    *,
    depths: tuple[float, ...],
    batch: int | None,
    rows: int,
    whole: int | None = None,
    revenue_weight: float | None,
) -> BatchLimits:
    """Caps by depth: a whole number counts customers, a float is a share of the batch, None or absent is no limit.

    depths: of the log. batch: customers presented together; None: 5,000, or all where there are fewer.
    rows: how many of its rows can be presented. whole: how many it has; None: as many.

    >>> read_batch_limits({0.2: 0.25, 0.1: 30}, depths=(0.1, 0.2), batch=100, rows=100, revenue_weight=None).caps
    (30, 25)
    """
    batch = min(_BATCH, rows) if batch is None else read_count(batch, where="batch")
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
    cap = read_percent(cap)
    if cap is None:
        return None
    if isinstance(cap, bool) or not isinstance(cap, int | float | np.integer | np.floating):
        raise LimitError(f"cap of depth {depth}", found=repr(cap), expected="a count, or a share such as 0.25 or 25%")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRules:
    """How every pass over a log is made, whichever policy plays."""

    limits: BatchLimits
    learning: bool  # whether accepted purchases are learned after each batch
    learn_engagement: bool  # whether their codes are, too
    skew: Skew = "weight"  # how the rows were presented, which says how likely their depths were
    engine: Engine | None = None  # where decisions are computed; never changes a result


def play(
    log: RandomLog,
    rows: Integers,
    policy: Player,
    rules: PassRules,
    *,
    start: Belief,
    seed: int,
    counted: Engagement | None = None,
) -> PassResult:
    """Present `rows` (m,) of the log in this order; a row may occur twice and is then another customer each time.

    start: what is known before the first batch. Where the codes known then are counted in bins of a score, the
    customers' own scores are used, those of the log or of the belief's head; else everybody has the rate of the depth.
    counted: the rates of the codes known at the start, for a caller who has fitted them.
    """
    limits, learning = rules.limits, rules.learning
    log = with_scores(log, start)
    acting = policy.policy if isinstance(policy, UnconstrainedLearner) else policy
    belief, seen = start, counted or Engagement(counts=start.engagement.counts)
    bins = start.engagement.counts.bins
    scores = log.score if bins is not None else None
    choice, predicted = np.empty(rows.size, np.int64), np.zeros(rows.size)
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
            decide, audience, belief=belief, policy=acting, campaign=f"batch {number}", seed=seed, engine=rules.engine
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
            # a batch is a campaign of its own where older campaigns count less; else their sums are the same
            name = "replay" if belief.basket.forgetting == 1 else f"replay, batch {number + 1}"
            belief = learn(
                belief, [Lesson.of(name, log.purchases(accepted), counts if rules.learn_engagement else None)]
            )
    return PassResult.of(log, rows, choice, predicted, batch=limits.batch, skew=rules.skew)


def _rates_at(engagement: Engagement, score: Vector | None, limits: BatchLimits, choice: Integers) -> Vector:
    """(m,) each customer's rate at the depth chosen; 0 without a code."""
    depths = np.asarray(limits.depths)
    if score is None:
        return np.asarray(np.append(engagement.rates(depths), 0.0)[choice])
    own = engagement.rates_of(score, depths)
    return np.where(choice >= 0, own[np.arange(choice.size), choice], 0.0)


Valued = dict[str, tuple[float, Vector]]
"""By figure: its value, and its linear terms by customer, that is, how far the rows of each move it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassResult:
    """What a pass over the log did, with its outcomes; one entry per row presented."""

    log: RandomLog
    rows: Integers  # (m,) rows of the log in the order presented
    batch: Integers  # (m,)
    choice: Integers  # (m,) position of a depth, -1 = no code
    predicted: Vector  # (m,) full price × engagement believed at the chosen depth before the batch; 0 without a code
    accepted: Flags  # (m,) whether the log played that depth
    weight: Vector  # (m,) 1{accepted}/p
    revenue: Vector  # (m,) money
    bought: Vector  # (m,) 1 for a purchase, else 0

    @classmethod
    def of(
        cls, log: RandomLog, rows: Integers, choice: Integers, predicted: Vector, *, batch: int, skew: Skew
    ) -> PassResult:
        """batch: customers presented together. p is 1/K where the log was made uniform first."""
        accepted = np.asarray(choice == log.place[rows])
        p = 1 / len(log.depths) if skew == "resample" else log.propensity[rows]
        return cls(
            log=log,
            rows=rows,
            batch=np.arange(rows.size) // batch,
            choice=choice,
            predicted=predicted,
            accepted=accepted,
            weight=np.asarray(accepted / p),
            revenue=np.nan_to_num(objective.revenue(log.full_price[rows], log.depth[rows])),
            bought=log.bought[rows].astype(np.float64),
        )

    def basket_values(self, batches: int) -> Vector:
        """Σw·R/Σw·bought per batch, and over all as the last entry; NaN where nobody bought."""
        batch = np.minimum(self.batch, batches - 1)  # a resampled log may be a few rows longer
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
        return np.where(self.choice < 0, 1.0, self.weight)

    def figures(self, baseline: PassResult, limits: BatchLimits) -> Valued:
        """Every figure of this pass; those of baskets only where purchases were accepted.

        baseline: the pass of Random over the same rows.
        """
        found = self._per_customer(limits)
        if self.has_purchase:
            basket, moved = self._basket()
            found["basket"] = basket, moved
            if baseline.has_purchase:
                unit, unit_moved = baseline._basket()
                ratio = basket / unit
                found["relative"] = ratio, (moved - ratio * unit_moved) / unit
        return found

    def valued(self, limits: BatchLimits) -> Valued:
        """Doubly robust figures per customer: "revenue", and "objective" where it has a weight."""
        figures = self._per_customer(limits)
        return {name: figures[f"{name} dr"] for name in limits.weights}

    def promised(self, limits: BatchLimits) -> dict[str, float]:
        """Figures per customer by name, as the policy's own belief expected them of its choices."""
        return {name: float(worth.mean()) for name, worth in self._predicted(limits).items()}

    def _by_customer(self, terms: Vector) -> Vector:
        owner = self.log.customer[self.rows]
        return np.asarray(np.bincount(owner, weights=terms, minlength=int(self.log.customer.max()) + 1), np.float64)

    def _basket(self) -> tuple[float, Vector]:
        """`basket`, and how far each customer's rows move it (the delta method's linear terms)."""
        total, value = float(self.weight @ self.bought), self.basket
        return value, self._by_customer(self.weight * (self.revenue - value * self.bought) / total)

    def _predicted(self, limits: BatchLimits) -> dict[str, Vector]:
        depth = np.append(limits.depths, 0.0)[self.choice]
        return limits.worth(self.predicted, depth)

    def _per_customer(self, limits: BatchLimits) -> Valued:
        """Every figure per presented customer by every estimator, as `off_policy` has them: "revenue dr".

        Without a code the figure is 0 for certain.
        """
        rows, w, found = self.rows, self.customer_weight, {}
        actual = limits.worth(np.nan_to_num(self.log.full_price[rows]), self.log.depth[rows])
        for name, q in self._predicted(limits).items():
            y = np.where(self.choice < 0, 0.0, actual[name])
            for kind, values, counts in (("ips", w * y, np.ones(rows.size)), ("snips", w * y, w)):
                if (total := float(counts.sum())) > 0:
                    value = float(values.sum()) / total
                    found[f"{name} {kind}"] = value, self._by_customer((values - value * counts) / total)
            values = q + w * (y - q)
            value = float(values.mean())
            found[f"{name} dr"] = value, self._by_customer((values - value) / rows.size)
        return found


def less(figures: Valued, others: Valued) -> Valued:
    """Figures less others of the same names, over the same rows.

    What both policies would have earned with a customer is counted in both, so it cancels.
    """
    return {name: (value - others[name][0], terms - others[name][1]) for name, (value, terms) in figures.items()}


# ---- one figure over several passes ----------------------------------------------------------------------------------


@dataclass(slots=True)
class FigureOverPasses:
    """One figure, pass by pass over the log."""

    values: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)  # of each pass: the delta method's variance, its path as given
    terms: Vector | None = None  # (customers,) linear terms, summed over the passes

    def add(self, value: float, terms: Vector) -> None:
        self.values.append(value)
        self.single.append(error_of_sum(terms)[0] ** 2)
        self.terms = terms if self.terms is None else self.terms + terms

    def estimate(self, resampled: Vector, *, level: float, skewed: bool = False) -> Estimate | None:
        """The mean over the passes with its error; None where no pass has the figure. resampled: by resampled log.

        A figure varies because customers do, and because a policy that learns goes another way on another log, or with
        other draws. The first part, given the ways gone, is the delta method's with terms averaged over the passes:
        A. A single pass has δ² of it, its mean over the passes. Single passes over resampled logs, each with draws of
        its own, vary by V, so their ways alone by V − δ². Passes over one log vary by S; of that, (δ² − A)·P/(P − 1) is
        that each accepts other customers, and the rest, D, is that draws lead other ways. The mean of P passes has a
        Pth of D. So the variance is A + max(V − δ² − D·(1 − 1/P), D/P). A is known well, the second part with as many
        degrees of freedom as there are resampled logs.

        skewed: whether the interval reaches further on the side where the terms have their tail (`reach_into_tail`).
        The other end stays: a sample shows less skewness than there is, and a shorter side would rely on it.
        """
        passes = len(self.values)
        if self.terms is None:
            return None
        value = float(np.mean(self.values))
        error, freedom = error_of_sum(self.terms / passes)
        if not np.isfinite(error):
            return estimate_around(value, np.inf, level=level)
        by_customer, alone = error**2, float(np.mean(self.single))
        by_draws = 0.0
        if passes > 1:
            other_customers = max(alone - by_customer, 0.0) * passes / (passes - 1)
            by_draws = max(float(np.var(self.values, ddof=1)) - other_customers, 0.0)
        there = resampled[~np.isnan(resampled)]
        by_way = by_draws / passes
        if there.size > 1:
            by_way = max(by_way, float(there.var(ddof=1)) - alone - by_draws * (1 - 1 / passes))
        variance = by_customer + by_way
        uncertain = 1 / freedom
        if variance > 0 and by_way > 0:
            count = there.size if there.size > 1 else passes
            uncertain += (by_way / variance) ** 2 / max(count - 1, 1)
        freedom = np.inf if uncertain == 0 else max(1.0, 1 / uncertain)
        found = estimate_around(value, float(np.sqrt(variance)), level=level, freedom=freedom)
        if not skewed or variance == 0:
            return found
        # whichever is further: the quantile of Student's t, or the normal's with the skewness; both know the tail
        terms = self.terms / passes
        skewness = float((terms**3).sum()) / variance**1.5
        far = max(quantile(level, freedom=freedom), reach_into_tail(skewness, level=level)) * variance**0.5
        return replace(found, upper=found.value + far) if skewness > 0 else replace(found, lower=found.value - far)


def figures_over(passes: Iterable[Valued]) -> defaultdict[str, FigureOverPasses]:
    """By name, every figure over the passes that have it."""
    figures: defaultdict[str, FigureOverPasses] = defaultdict(FigureOverPasses)
    for valued in passes:
        for name, (value, terms) in valued.items():
            figures[name].add(value, terms)
    return figures


def moved_to(found: Estimate, value: float) -> Estimate:
    """The same error around another value."""
    lower, upper = found.ends or (-np.inf, np.inf)
    shift = value - found.value
    return replace(found, value=value, lower=lower + shift, upper=upper + shift)


def mean_and_sd(passes: Matrix) -> tuple[Vector, Vector]:
    """Per batch over the passes that have a figure there; a resampled log may be a batch shorter than the log.

    >>> [column.tolist() for column in mean_and_sd(np.array([[10.0, np.nan], [14.0, 20.0]]))]
    [[12.0, 20.0], [2.8284271247461903, nan]]
    """
    there = ~np.isnan(passes)
    count = there.sum(axis=0)
    mean = np.divide(np.where(there, passes, 0.0).sum(axis=0), count, out=np.full(count.size, np.nan), where=count > 0)
    squares = (np.where(there, passes - mean, 0.0) ** 2).sum(axis=0)
    variance = np.divide(squares, count - 1, out=np.full(count.size, np.nan), where=count > 1)
    return mean, np.sqrt(variance)
