"""What every chart shares: axes with round ticks, colours, whiskers, the frame of an option."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from disco.records.arrays import Floats
from disco.records.depths import read_depth
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.views.formats import AxisScale, Unit, finite
from disco.views.table import Table

Option: TypeAlias = dict[str, Any]
Figures: TypeAlias = Sequence[float] | Floats  # what a caller has at hand; kept as a tuple

CHART = "figure"  # the macro of items.html that shows a chart
NARROW_PX = 560  # below this width labels at line ends give way to the key; report.css says the same
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
FONT_PX = 12
INK, MUTED, RULE, SURFACE = "var(--ink)", "var(--muted)", "var(--rule)", "var(--surface)"
_SERIES = 6
_DEPTH_STEPS = 10
_DEPTH_STEP = 0.05


class Chart(Protocol):
    """What a page needs to know about a chart."""

    @property
    def template(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def subtitle(self) -> str: ...

    @property
    def height_px(self) -> int: ...

    def option(self) -> Option: ...

    def key(self) -> "tuple[KeyEntry, ...]": ...

    def table(self) -> Table: ...


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One entry of the key above a chart."""

    label: str
    shape: Literal["line", "dashes", "band", "dot", "bar", "whisker"]
    colour: str = MUTED
    narrow_only: bool = False  # on a wide page a label in the chart already says it


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows.

    >>> from disco.views.formats import Money
    >>> Axis("Revenue per customer", Money()).label
    'Revenue per customer'
    """

    label: str
    unit: Unit
    extent: tuple[float, float] | None = None  # fixes the ends, for charts that are compared side by side

    def placed(self, values: Iterable[float], *, from_zero: bool = False) -> "PlacedAxis":
        """Scale and ticks for these values."""
        known = sorted({*values, *(self.extent or ()), *((0.0,) if from_zero else ())})
        lowest, highest = (known[0], known[-1]) if known else (0.0, 1.0)
        if self.extent is not None:  # what lies beyond it is not drawn, and does not make its steps larger
            lowest, highest = self.extent
        scale = self.unit.scale(lowest=lowest, highest=highest)
        low, high, step = scale.extent or nice_extent(scale.plotted(lowest), scale.plotted(highest))
        if self.extent is not None:
            low, high = scale.plotted(self.extent[0]), scale.plotted(self.extent[1])
        return PlacedAxis(name=self.label, scale=scale, low=low, high=high, step=step)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedAxis:
    """An axis whose ends and ticks are decided, in drawn units."""

    name: str
    scale: AxisScale
    low: float
    high: float
    step: float

    def plotted(self, value: float) -> float:
        """The value in units of the axis."""
        return self.scale.plotted(value)

    def option(self) -> Option:
        """What x and y axes share. charts.js turns the formatter's parts into a function."""
        return {
            "type": "value",
            "min": self.low,
            "max": self.high,
            "interval": self.step,
            "axisTick": {"show": False},
            "axisLabel": {
                "formatter": self.scale.ticks,
                "color": MUTED,
                "fontSize": FONT_PX,
                "hideOverlap": True,
            },
        }

    def as_x(self) -> Option:
        """Its name stands below the axis."""
        return {
            **self.option(),
            "name": self.name,
            "nameLocation": "middle",
            "nameGap": 30,
            "nameTextStyle": {"color": MUTED, "fontSize": FONT_PX},
            "axisLine": {"onZero": False, "lineStyle": {"color": "var(--line)"}},
            "splitLine": {"show": False},
        }

    def as_y(self, *, left_px: int) -> Option:
        """Its name stands above the axis, at the left edge of the chart, so that it can be read horizontally."""
        return {
            **self.option(),
            "name": self.name,
            "nameLocation": "end",
            "nameGap": 14,
            "nameMoveOverlap": False,
            "nameTextStyle": {"color": MUTED, "fontSize": FONT_PX, "align": "left", "padding": [0, 0, 0, -left_px]},
            "axisLine": {"show": False, "onZero": False},
            "splitLine": {"lineStyle": {"color": RULE}},
        }


def nice_extent(lowest: float, highest: float) -> tuple[float, float, float]:
    """Ends and step of an axis on round numbers: step = 1, 2 or 5 · 10ᵏ, four to eight steps.

    >>> nice_extent(0, 47), nice_extent(31.2, 36.9), nice_extent(-0.3, 1.2)
    ((0.0, 50.0, 10.0), (31.0, 37.0, 1.0), (-0.5, 1.5, 0.5))
    """
    span = highest - lowest
    if span <= 0:
        span = abs(highest) or 1.0
        lowest, highest = (0.0, highest) if lowest > 0 else (lowest, 0.0) if highest < 0 else (0.0, 1.0)
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(size * power for size in (1, 2, 5, 10) if span / (size * power) <= 6)
    digits = max(0, 2 - math.floor(math.log10(step)))  # 0.1 · 3 is 0.3 here, not 0.30000000000000004
    low, high = math.floor(lowest / step + 1e-9) * step, math.ceil(highest / step - 1e-9) * step
    return round(low, digits) + 0.0, round(high, digits) + 0.0, round(step, digits)


def depth_colour(depth: float) -> str:
    """The colour of a depth, the same on every page: deeper is darker, from 50% on the darkest.

    The stylesheet has a colour for every five points; halfway between two of them both are mixed.

    >>> depth_colour(0.05), depth_colour(0.2), depth_colour(0.9)
    ('var(--depth-1)', 'var(--depth-4)', 'var(--depth-10)')
    >>> depth_colour(0.325)
    'color-mix(in oklab, var(--depth-6), var(--depth-7))'
    """
    halves = math.floor(2 * read_depth(depth) / _DEPTH_STEP + 0.5 + 1e-9)
    step, half = divmod(min(max(halves, 2), 2 * _DEPTH_STEPS), 2)
    return f"color-mix(in oklab, var(--depth-{step}), var(--depth-{step + 1}))" if half else f"var(--depth-{step})"


def series_colour(position: int) -> str:
    """The colour of the n-th thing that is not a depth."""
    return f"var(--series-{position % _SERIES + 1})"


def numbers(values: Figures, *, where: str) -> tuple[float, ...]:
    """Finite floats; the first that is not is refused with its position."""
    return tuple(finite(value, where=f"{where}, value {place}") for place, value in enumerate(values, start=1))


def interval_ends(
    lower: Figures | None, upper: Figures | None, *, rows: int, where: str
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Both ends of an interval per value, or none; lower never above upper."""
    if lower is None and upper is None:
        return None
    if lower is None or upper is None:
        raise InputError(where, found="one end of an interval", expected="lower and upper, or neither")
    ends = numbers(lower, where=f"{where}, lower"), numbers(upper, where=f"{where}, upper")
    if not len(ends[0]) == len(ends[1]) == rows:
        raise InputError(where, found=f"{len(ends[0])} and {len(ends[1])} interval ends", expected=f"{rows} of each")
    if any(low > high for low, high in zip(*ends, strict=True)):
        raise InputError(where, found="a lower end above its upper end", expected="lower ≤ upper")
    return ends


def estimates(values: Figures, lower: Figures | None, upper: Figures | None) -> tuple[Estimate, ...]:
    """Values with their intervals, where there are any."""
    if lower is None or upper is None:
        return tuple(Estimate(value) for value in values)
    return tuple(Estimate(*figures) for figures in zip(values, lower, upper, strict=True))


def require_interval_name(name: str, *, used: bool, where: str) -> None:
    """Intervals are shown only with their level."""
    if used and not name:
        raise InputError(where, found="intervals without a name", expected="interval='95% interval' or the like")


def grid(*, left: int, right: int, top: int, bottom: int = 12) -> Option:
    """The plot's margins in px; ECharts widens them where labels of the axes need more."""
    around = {"left": 0, "right": 0, "top": 0, "bottom": 10}
    return {"left": left, "right": right, "top": top, "bottom": bottom, "outerBounds": around}


def frame(*, tooltip: Literal["axis", "item"]) -> Option:
    """What every option starts with. Tooltips are texts made in Python (`{b}`), which ECharts escapes."""
    return {
        "animation": False,
        "textStyle": {"fontFamily": FONT, "color": INK},
        "tooltip": {
            "trigger": tooltip,
            "formatter": "{b}",
            "confine": True,
            "transitionDuration": 0,
            "backgroundColor": SURFACE,
            "borderColor": "var(--line)",
            "borderWidth": 1,
            "padding": [6, 10],
            "textStyle": {"color": INK, "fontSize": FONT_PX + 1},
            "extraCssText": "white-space:pre-line;box-shadow:none;font-variant-numeric:tabular-nums",
            "axisPointer": {"type": "line", "lineStyle": {"color": "var(--line)", "type": "solid"}},
        },
    }


def quiet(series: Option) -> Option:
    """A series without tooltip and hover."""
    return {**series, "silent": True, "tooltip": {"show": False}, "emphasis": {"disabled": True}}


def whiskers(
    ends: Iterable[tuple[float, float, float]],
    *,
    colour: str,
    horizontal: bool = False,
    x_axis: int = 0,
    cap_px: int = 9,
    halo: bool = False,
) -> list[Option]:
    """A line series with gaps that draws every interval (place, lower, upper), capped at both ends.

    With a halo a wider copy in the colour of the page lies below it: a dark whisker stays visible on a dark bar.
    """
    data: list[list[float | str]] = []
    for place, lower, upper in ends:
        pair: list[list[float | str]] = [[place, lower], [place, upper]]
        data += [[value, where] for where, value in pair] if horizontal else pair
        data.append(["-", "-"])
    return [
        quiet(
            {
                "type": "line",
                "data": data[:-1],
                "lineStyle": {"color": stroke, "width": width},
                "itemStyle": {"color": stroke},
                "symbol": "rect",
                "symbolSize": [width, cap] if horizontal else [cap, width],
                "showAllSymbol": True,
                "xAxisIndex": x_axis,
                "z": height,
            }
        )
        for stroke, width, cap, height in ([("var(--page)", 4, cap_px + 3, 4)] if halo else [])
        + [(colour, 1.5, cap_px, 5)]
    ]


def text_px(text: str, *, font_px: int = FONT_PX) -> int:
    """A generous estimate of a label's width, for margins: the browser's fonts are not known here."""
    return math.ceil(0.6 * font_px * len(text))


def spread(places: Sequence[float], *, gap: float) -> tuple[float, ...]:
    """Places at least `gap` apart, in the same order, moved as little as possible (least squares).

    Pool adjacent violators on place − rank · gap: the isotonic fit of it, plus rank · gap.

    >>> spread([10.0, 11.0, 40.0], gap=4)
    (8.5, 12.5, 40.0)
    """
    order = sorted(range(len(places)), key=lambda place: places[place])
    pools: list[tuple[float, int]] = []  # (mean, members)
    for rank, place in enumerate(order):
        mean, members = places[place] - rank * gap, 1
        while pools and pools[-1][0] >= mean:
            before, others = pools.pop()
            mean, members = (mean * members + before * others) / (members + others), members + others
        pools.append((mean, members))
    fitted = [mean for mean, members in pools for _ in range(members)]
    moved = [0.0] * len(places)
    for rank, place in enumerate(order):
        moved[place] = fitted[rank] + rank * gap
    return tuple(moved)
