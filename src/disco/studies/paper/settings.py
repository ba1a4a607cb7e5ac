"""How much of the reproduction is done, and the one campaign design that its studies share."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from disco.features.baselines import Effort
from disco.records.errors import InputError

REVENUE_WEIGHT = 3.0
MAX_ENVIRONMENTS = 100


class Extent(StrEnum):
    TINY = "tiny"  # does it run
    QUICK = "quick"  # minutes: what it looks like
    FULL = "full"  # the figures that docs/reproduction.md speaks of


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run. An environment is a simulated retailer with the frozen settings and a seed of its own.

    Seeds start at 11: the retailer was calibrated on 1 to 8, and these shops have had no say in it.
    """

    extent: Extent = Extent.FULL
    environments: int = 4
    first_seed: int = 11
    customers: int = 200_000
    max_epochs: int = 40
    effort: Effort = field(default_factory=lambda: Effort(threads=1))
    processes: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.environments <= MAX_ENVIRONMENTS:
            raise InputError("environments", found=self.environments, expected=f"1 to {MAX_ENVIRONMENTS}")
        if self.first_seed < 0:
            raise InputError("seed", found=self.first_seed, expected="0 or more")

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.first_seed, self.first_seed + self.environments))

    @property
    def is_full(self) -> bool:
        return self.extent is Extent.FULL


FULL = Settings()
QUICK = Settings(
    extent=Extent.QUICK,
    environments=4,
    customers=15_000,
    effort=Effort(boosting_rounds=100, forest_trees=30, threads=1),
)
TINY = Settings(
    extent=Extent.TINY,
    environments=2,
    customers=1_500,
    max_epochs=3,
    effort=Effort(boosting_rounds=10, forest_trees=5, threads=1),
    processes=1,
)


def settings_of(extent: Extent, *, environments: int | None = None, seed: int | None = None) -> Settings:
    """The settings of an extent, with another number of environments or other seeds where asked for."""
    base = {Extent.FULL: FULL, Extent.QUICK: QUICK, Extent.TINY: TINY}[extent]
    return replace(
        base,
        environments=base.environments if environments is None else environments,
        first_seed=base.first_seed if seed is None else seed,
    )


def equal_caps(*, customers: int, depths: int) -> tuple[int, ...]:
    """Every depth to the same share of the customers, everybody one code: the design that prefers no depth.

    Depth mixes of all policies are then equal, so that baskets can be compared.

    >>> equal_caps(customers=5000, depths=3)
    (1667, 1667, 1666)
    """
    return tuple(customers // depths + (place < customers % depths) for place in range(depths))
