"""What a curve chart draws: lines, and observed points over them."""

from collections.abc import Iterator
from dataclasses import dataclass

from disco.records.errors import InputError
from disco.reports.charts.parts import Figures, interval_ends, numbers
from disco.reports.formats import Estimate


class _Trace:
    """Checks shared by lines and points: same length, finite, intervals in order."""

    __slots__ = ()

    label: str
    x: Figures
    y: Figures
    lower: Figures | None
    upper: Figures | None

    def _freeze(self, *, kind: str) -> None:
        where = f"{kind} '{self.label}'"
        x, y = numbers(self.x, where=f"{where}, x"), numbers(self.y, where=f"{where}, y")
        if len(x) != len(y) or not x:
            raise InputError(where, found=f"{len(x)} x and {len(y)} y", expected="as many of each, at least one")
        ends = interval_ends(self.lower, self.upper, rows=len(x), where=where)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "lower", None if ends is None else ends[0])
        object.__setattr__(self, "upper", None if ends is None else ends[1])

    def ends(self) -> Iterator[tuple[float, float, float]]:
        """(x, lower, upper) where there are intervals."""
        if self.lower is not None and self.upper is not None:
            yield from zip(self.x, self.lower, self.upper, strict=True)

    def estimates(self) -> Iterator[tuple[float, Estimate]]:
        for place, (x, y) in enumerate(zip(self.x, self.y, strict=True)):
            if self.lower is None or self.upper is None:
                yield x, Estimate(y)
            else:
                yield x, Estimate(y, self.lower[place], self.upper[place])


@dataclass(frozen=True, slots=True)
class Line(_Trace):
    """One line. `known` is the range of x that data stand behind; outside it the line is dashed as an extrapolation.

    `depth` gives it the colour of that depth; `muted` the grey of a control group or a baseline.
    """

    label: str
    x: Figures
    y: Figures
    lower: Figures | None = None
    upper: Figures | None = None
    known: tuple[float, float] | None = None
    depth: float | None = None
    muted: bool = False

    def __post_init__(self) -> None:
        self._freeze(kind="line")
        if len(self.x) < 2:
            raise InputError(
                f"line '{self.label}'", found="one point", expected="two or more", fix="Use Points for one."
            )
        if any(after <= before for before, after in zip(self.x, self.x[1:], strict=False)):
            raise InputError(f"line '{self.label}'", found="x that does not grow", expected="strictly increasing x")

    def runs(self) -> Iterator[tuple[bool, int, int]]:
        """(solid?, first, last) index of each stretch; neighbours share a point, so that the line has no gap."""
        solid = [
            self.known is None or (self.known[0] <= before and after <= self.known[1])
            for before, after in zip(self.x, self.x[1:], strict=False)
        ]
        first = 0
        for place in range(1, len(solid) + 1):
            if place == len(solid) or solid[place] != solid[first]:
                yield solid[first], first, place
                first = place


@dataclass(frozen=True, slots=True)
class Points(_Trace):
    """Observed points over the curves, with whiskers where there are intervals."""

    label: str
    x: Figures
    y: Figures
    lower: Figures | None = None
    upper: Figures | None = None

    def __post_init__(self) -> None:
        self._freeze(kind="points")
