"""What passes along the pipe of a campaign: who may get a code, what is on offer, what was decided, what was bought."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from disco.records.arrays import Flags, Ids, Integers, Matrix, Vector
from disco.records.depths import read_depths
from disco.records.errors import InputError
from disco.records.identity import read_ids


class Arm(StrEnum):
    """Which rule decided a customer's depth."""

    TEST = "test"  # the policy
    CONTROL = "control"  # at random, within its own share of caps and budget
    HOLDOUT = "holdout"  # no code: what would have happened anyway


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Customers to decide about: ids (n,), context (n, d1); `known` marks those whose context is their own.

    A customer without a purchase in the last year has the population's context and is not `known`.
    """

    ids: Ids
    context: Matrix
    known: Flags

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", read_ids(self.ids))
        object.__setattr__(self, "context", np.asarray(self.context))
        object.__setattr__(self, "known", np.asarray(self.known, np.bool_))
        shapes = (self.ids.shape, self.context.shape[:1], self.known.shape)
        if self.context.ndim != 2 or len(set(shapes)) != 1:
            raise InputError("audience", found=f"lengths {shapes}", expected="one id, context and mark per customer")

    def __len__(self) -> int:
        return int(self.ids.size)

    def take(self, rows: Integers | Flags | slice) -> "Audience":
        """The customers at these rows."""
        return Audience(ids=self.ids[rows], context=self.context[rows], known=self.known[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the operator allows: depths, caps and floors per depth (customers), a markdown budget, and the weight w."""

    depths: tuple[float, ...]
    caps: tuple[int | None, ...]
    revenue_weight: float
    floors: tuple[int, ...] | None = None
    budget: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "depths", read_depths(self.depths))
        object.__setattr__(self, "caps", tuple(self.caps))
        if len(self.caps) != len(self.depths):
            raise InputError("caps", found=f"{len(self.caps)} caps", expected=f"one per depth: {len(self.depths)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """One depth or none per customer, with what is needed to explain and audit it.

    choice: (n,) position in `depths`, -1 = no code · value: (n,) worth of the choice at the policy's figures, 0 without
    a code · expected_full_price: (n,) posterior mean given a purchase, money, at the chosen depth (NaN without one) ·
    engagement: (K,) the rates used · prices: (K,) shadow prices; budget_price: of one more unit of budget, 0 without
    one · bound, gap, status: the certificate.
    """

    campaign: str
    ids: Ids
    depths: tuple[float, ...]
    choice: Integers
    value: Vector
    expected_full_price: Vector
    engagement: Vector
    prices: Vector
    budget_price: float
    status: str
    bound: float
    gap: float
    policy: str
    model_hash: str
    seed: int

    @property
    def counts(self) -> Integers:
        """Codes per depth."""
        return np.bincount(self.choice[self.choice >= 0], minlength=len(self.depths))

    @property
    def depth(self) -> Vector:
        """(n,) chosen depth; NaN where no code."""
        return np.append(self.depths, np.nan)[self.choice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchases:
    """Baskets bought with a code: context (n, d1) as it was at the decision, depth (n,), full_price (n,) in money."""

    context: Matrix
    depth: Vector
    full_price: Vector

    def __len__(self) -> int:
        return int(self.depth.size)


@dataclass(frozen=True, slots=True)
class IngestCounts:
    """What became of received outcomes; `received` is always the sum of the rest."""

    received: int
    """Rows received."""
    applied: int = 0
    """Rows that count."""
    duplicate: int = 0
    """Rows about an event that was received before."""
    late: int = 0
    """Purchases after their code had expired, and outcomes of a closed campaign."""
    unmatched: int = 0
    """Rows that fit no code, customer or event of the campaign."""
    rejected: int = 0
    """Rows that cannot be read as an outcome, or contradict what counts."""
