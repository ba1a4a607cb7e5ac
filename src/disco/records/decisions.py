"""What passes along the pipe of a campaign: who may get a code, what is on offer, what was decided, what was bought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from disco.records.arguments import (
    column_names,
    read_column,
    read_count,
    read_non_negative,
    read_numbers,
    read_percent,
    read_positive,
)
from disco.records.arrays import Flags, Ids, Integers, Labels, Matrix, Vector
from disco.records.depths import depth_label, read_depth, read_depths
from disco.records.errors import InputError, LimitError
from disco.records.frames import Tabular
from disco.records.identity import read_ids

if TYPE_CHECKING:
    import pyarrow as pa


class Arm(StrEnum):
    """Which rule decided a customer's depth."""

    DECIDED = "decided"  # by the policy
    CONTROL = "control"  # at random, within its own share of caps and budget
    HOLDOUT = "holdout"  # no code: what would have happened anyway

    @property
    def salt(self) -> str:
        """The name in random draws. It keeps the bytes of earlier versions: a draw never changes."""
        return "test" if self is Arm.DECIDED else str(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Audience:
    """Customers to decide about: `Audience(ids=ids, context=network.transform(X))`.

    ids (n,): customers, as integers or text.
    context (n, d1): what is known of each, such as `ContextNetwork.transform` gives.
    known (n,): whether the context is their own; one flag, or none, stands for all.
    segment (n,): the part of the customers each belongs to. Needed where the offer has segments.
    score (n,): engagement scores; by default those of the belief's engagement head.
    contact_cost (n,): what sending each of them a code costs.
    """

    ids: Ids
    context: Matrix
    known: Flags = field(default_factory=lambda: np.ones((), np.bool_))
    """(n,) Customers without a purchase in the last year have the population's context and are not `known`."""
    context_names: tuple[str, ...] | None = None
    """(d1,) of the context's columns. Left out, they are those of a table; an array has none."""
    segment: Labels | None = None
    """(n,) the part of the customers that each belongs to, as text; empty text: none. Needed by `Offer.segments`."""
    channel: Labels | None = None
    """(n,) how each customer gets a code, as text; it travels with the decisions and changes none."""
    score: Vector | None = None
    """(n,) engagement scores given by hand, NaN for customers without one. None: those of the belief's engagement head
    and the contexts, or nobody's."""
    contact_cost: Vector | None = None
    """(n,) money that sending each customer a code costs, whether they use it or not; None: nothing."""
    markdown_left: Vector | None = None
    """(n,) the most expected markdown that a code to each customer may have, money; None: no limit."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", read_ids(self.ids))
        _name_columns(self)
        object.__setattr__(self, "context", np.asarray(self.context))
        known = np.asarray(self.known, np.bool_)
        object.__setattr__(self, "known", known if known.ndim else np.full(self.ids.size, known))
        if self.context.ndim != 2:
            raise InputError(
                "audience, context", found=f"shape {self.context.shape}", expected="shape (customers, features)"
            )
        if not self.ids.size == len(self.context) == self.known.size or self.known.ndim != 1:
            found = f"{self.ids.size:,} ids, {len(self.context):,} contexts and {self.known.size:,} known flags"
            raise InputError("audience", found=found, expected="one of each per customer")
        for name in ("segment", "channel"):
            if (given := getattr(self, name)) is not None:
                labels = np.asarray(given, object)
                object.__setattr__(self, name, labels)
                if labels.shape != self.ids.shape:
                    found = f"labels of shape {labels.shape}"
                    raise InputError(f"audience, {name}", found=found, expected="one label per customer")
        if self.score is not None:
            object.__setattr__(self, "score", _read_scores(self.score, rows=self.ids.size))
        if self.contact_cost is not None:
            costs = read_column(self.contact_cost, where="audience, contact_cost", rows=self.ids.size)
            if not ((costs >= 0) & np.isfinite(costs)).all():
                raise InputError("audience, contact_cost", found="costs below 0 or not finite", expected="0 or more")
            object.__setattr__(self, "contact_cost", costs)
        if self.markdown_left is not None:
            left = read_column(self.markdown_left, where="audience, markdown_left", rows=self.ids.size)
            if not np.isfinite(left).all():
                raise InputError("audience, markdown_left", found="NaN or infinity", expected="finite amounts of money")
            object.__setattr__(self, "markdown_left", left)

    def __len__(self) -> int:
        return int(self.ids.size)

    def __repr__(self) -> str:
        return f"Audience({len(self):,} customers, {self.context.shape[1]} context features)"

    def take(self, rows: Integers | Flags | slice) -> Audience:
        """The customers at these rows."""
        return replace(
            self,
            ids=self.ids[rows],
            context=self.context[rows],
            known=self.known[rows],
            segment=None if self.segment is None else self.segment[rows],
            channel=None if self.channel is None else self.channel[rows],
            score=None if self.score is None else self.score[rows],
            contact_cost=None if self.contact_cost is None else self.contact_cost[rows],
            markdown_left=None if self.markdown_left is None else self.markdown_left[rows],
        )

    @property
    def nbytes(self) -> int:
        """Of the arrays; texts are counted as one word each, since arrays share them."""
        arrays = (getattr(self, name) for name in self.__slots__)
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))

    def segment_sizes(self) -> dict[str, int]:
        """Customers by label."""
        return {} if self.segment is None else dict(Counter(self.segment.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """What the operator allows for one part of the customers, on top of what is allowed for all."""

    caps: tuple[int | None, ...]  # (K,) most customers per depth; None = no limit
    floors: tuple[int, ...]  # (K,) fewest customers per depth


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the operator allows: `Offer(depths=(0.1, 0.2), caps={0.2: 500}, revenue_weight=3)`.

    depths (K,): shares of the price that codes take off.
    caps: most customers per depth: one number for all, one per depth (None: no limit), or {depth: number}, where a
        depth that is left out has no limit. A number is whole, or a share of the audience such as "40%", rounded down.
    revenue_weight: the weight w of w·R − C: what a unit of revenue is worth against a unit of markdown. There is no
        default, because the retailer's margin decides it.
    floors: fewest customers per depth, in the form of `caps` but for shares.
    budget: most expected markdown, in money.
    segments: limits for parts of the customers, by the labels of `Audience.segment`.
    """

    depths: tuple[float, ...]
    caps: tuple[int | None, ...]
    """(K,) From outside in any of the forms above, which are put in order."""
    revenue_weight: float
    floors: tuple[int, ...] | None = None  # (K,)
    budget: float | None = None
    segments: Mapping[str, SegmentLimits] | None = field(default=None, repr=False)
    """By label of `Audience.segment`; other labels have no limits of their own. Not in the repr, which names limits in
    what is stored."""
    cost_factors: tuple[float, ...] | None = field(default=None, repr=False)
    """(K,) what the budget counts per unit of expected markdown at each depth; None: 1."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "depths", read_depths(self.depths))
        weight = read_positive(self.revenue_weight, where="revenue_weight")
        object.__setattr__(self, "revenue_weight", weight)
        if self.budget is not None:
            object.__setattr__(self, "budget", read_non_negative(self.budget, where="budget"))
        for name in ("caps", "floors"):
            given = getattr(self, name)
            if given is None and name == "floors":
                continue
            if isinstance(given, Mapping):
                given = self._in_order(given, name)
            if isinstance(given, str | Real):
                given = (given,) * len(self.depths)
            if not np.iterable(given):
                raise LimitError(name, found=repr(given), expected="one number of customers per depth, in their order")
            limits = tuple(given)
            if len(limits) != len(self.depths):
                raise LimitError(name, found=f"{len(limits)} {name}", expected=f"one per depth: {len(self.depths)}")
            for limit in limits:
                is_share = isinstance(limit, str) and isinstance(read_percent(limit), float)
                if not is_share and (limit is not None or name == "floors"):
                    _read_limit(limit, name)
            object.__setattr__(self, name, limits)
        if self.cost_factors is not None:
            factors = read_numbers(self.cost_factors, where="cost_factors", positive=True)
            if len(factors) != len(self.depths):
                expected = f"one per depth: {len(self.depths)}"
                raise InputError("cost_factors", found=f"{len(factors)} factors", expected=expected)
            object.__setattr__(self, "cost_factors", factors)

    def _in_order(self, given: Mapping[Any, Any], name: str) -> tuple[Any, ...]:
        """Limits by depth, in the order of the depths."""
        limits = {read_depth(depth, where=name): limit for depth, limit in given.items()}
        if others := [depth_label(depth) for depth in limits if depth not in self.depths]:
            known = ", ".join(map(depth_label, self.depths))
            raise LimitError(name, found=f"depth {others[0]}", expected=f"one of {known}")
        return tuple(limits.get(depth, 0 if name == "floors" else None) for depth in self.depths)


def _read_scores(score: ArrayLike, *, rows: int) -> Vector:
    """(n,) finite engagement scores, or NaN."""
    scores = read_column(score, where="audience, score", rows=rows)
    if np.isinf(scores).any():
        raise InputError("audience, score", found="infinity", expected="finite scores, or NaN for no score")
    return scores


def _read_limit(limit: object, name: str) -> None:
    try:
        read_count(limit, where=name, least=0)
    except InputError as error:
        fix = "A share of the customers is their number times the share, rounded." if isinstance(limit, float) else None
        raise LimitError(name, found=error.found, expected="a whole number of customers, 0 or more", fix=fix) from None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Decisions(Tabular):
    """One depth or none per customer, with what is needed to explain and audit it."""

    campaign: str
    ids: Ids  # (n,)
    depths: tuple[float, ...]  # (K,) on offer
    choice: Integers  # (n,) position in `depths`, -1 = no code
    value: Vector  # (n,) worth of the choice at the policy's figures, 0 without a code
    expected_full_price: Vector  # (n,) posterior mean given a purchase at the chosen depth, money; NaN without a code
    engagement: Vector  # (n,) expected chance to buy with the code at the chosen depth; NaN without a code
    prices: Vector  # (K,) shadow prices: what one more code of a depth would add
    budget_price: float  # of one more unit of budget; 0 without one
    status: str  # how the solve ended
    bound: float  # no allocation within the limits is worth more
    gap: float  # (bound − value)/bound, 0 where proved optimal
    policy: str
    model_hash: str
    seed: int
    segment_prices: Mapping[str, tuple[float, ...]] | None = None  # by label, (K,) on top of `prices`

    def __repr__(self) -> str:
        given = ", ".join(f"{depth:g}: {count:,}" for depth, count in zip(self.depths, self.counts, strict=True))
        return f"Decisions({self.campaign}, {self.ids.size:,} customers, codes {{{given}}}, {self.status})"

    def to_arrow(self) -> pa.Table:
        """One row per customer: customer_id, depth, expected_full_price and engagement (null = no code), value."""
        import pyarrow as pa

        none = self.choice < 0
        return pa.table(
            {
                "customer_id": pa.array(self.ids),
                "depth": pa.array(self.depth, mask=none),
                "value": pa.array(self.value),
                "expected_full_price": pa.array(self.expected_full_price, mask=none),
                "engagement": pa.array(self.engagement, mask=none),
            }
        )

    @property
    def counts(self) -> Integers:
        """Codes per depth."""
        return np.bincount(self.choice[self.choice >= 0], minlength=len(self.depths))

    @property
    def depth(self) -> Vector:
        """(n,) chosen depth; NaN where no code."""
        return np.append(self.depths, np.nan)[self.choice]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Purchases:
    """Baskets bought with a code."""

    context: Matrix  # (n, d1) as it was at the decision
    depth: Vector  # (n,)
    full_price: Vector  # (n,) money before the discount
    context_names: tuple[str, ...] | None = None
    """(d1,) of the context's columns. Left out, they are those of a table; an array has none."""

    def __post_init__(self) -> None:
        _name_columns(self)
        object.__setattr__(self, "context", np.asarray(self.context))

    def __len__(self) -> int:
        return len(self.depth)

    def __repr__(self) -> str:
        return f"Purchases({len(self):,} rows, context of shape {self.context.shape})"


def _name_columns(rows: Audience | Purchases) -> None:
    """Keep the names of a table's columns; its numbers become a plain array."""
    if rows.context_names is None:
        object.__setattr__(rows, "context_names", column_names(rows.context))


@dataclass(frozen=True, slots=True)
class IngestCounts:
    """What became of received outcomes; `received` is always the sum of the rest."""

    received: int
    """Rows received."""
    applied: int = 0
    """Rows that count."""
    duplicate: int = 0
    """Rows about an event that was received before."""
    expired: int = 0
    """Purchases after their code had expired, and outcomes of a closed campaign."""
    unmatched: int = 0
    """Rows that fit no code, customer or event of the campaign."""
    rejected: int = 0
    """Rows that cannot be read as an outcome, or contradict what counts."""
