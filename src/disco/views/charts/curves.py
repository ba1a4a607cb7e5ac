"""Lines and points over x: demand curves over depth, series over rounds, frontiers, forecasts beside actual figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.views.charts.parts import (
    CHART,
    FONT_PX,
    INK,
    MUTED,
    NARROW_PX,
    Axis,
    Figures,
    KeyEntry,
    Option,
    PlacedAxis,
    depth_colour,
    estimates,
    frame,
    grid,
    interval_ends,
    numbers,
    quiet,
    require_interval_name,
    series_colour,
    spread,
    text_px,
    whiskers,
)
from disco.views.table import Column, Table

_LEFT_PX, _TOP_PX, _BOTTOM_PX = 64, 34, 52
_LABEL_PX = 15  # from one label at a line's end to the next
_WIDEST_LABEL_PX = 230


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
        """(x, estimate) of every point."""
        return zip(self.x, estimates(self.y, self.lower, self.upper), strict=True)


@dataclass(frozen=True, slots=True)
class Line(_Trace):
    """One line with its band, where there are intervals."""

    label: str
    x: Figures
    y: Figures
    lower: Figures | None = None
    upper: Figures | None = None
    known: tuple[float, float] | None = None  # range of x with data; outside it the line is dashed as extrapolated
    depth: float | None = None  # takes the colour of this depth
    muted: bool = False  # takes the grey of a control group or a baseline

    def __post_init__(self) -> None:
        self._freeze(kind="line")
        if len(self.x) < 2:
            raise InputError(
                f"line '{self.label}'", found="one point", expected="two or more", fix="Use Points for one."
            )
        if any(after <= before for before, after in zip(self.x, self.x[1:], strict=False)):
            raise InputError(f"line '{self.label}'", found="x that does not grow", expected="strictly increasing x")

    def runs(self) -> Iterator[tuple[bool, int, int]]:
        """(solid, first index, last index) of each stretch; neighbours share a point, so that the line has no gap."""
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
    """Points that no line joins, with whiskers where there are intervals."""

    label: str
    x: Figures
    y: Figures
    lower: Figures | None = None
    upper: Figures | None = None
    large: bool = False  # the one to look at among others: its name stands beside it, and not in the key

    def __post_init__(self) -> None:
        self._freeze(kind="points")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveChart:
    """One or several lines, points over them, or points alone.

    >>> from disco.views.formats import Money, Percent
    >>> chart = CurveChart(
    ...     title="Baskets grow with depth", subtitle="£ per purchase, campaign C",
    ...     x=Axis("Depth", Percent(decimals=0)), y=Axis("Basket", Money()), interval="90% interval",
    ...     lines=[Line("Predicted", [0.1, 0.2], [40, 44], [38, 41], [42, 47])])
    >>> chart.table().text()
    (('10%', '£40.00 (£38.00 to £42.00)'), ('20%', '£44.00 (£41.00 to £47.00)'))
    """

    template: ClassVar[str] = CHART

    title: str  # the finding
    subtitle: str  # unit and period
    x: Axis
    y: Axis
    lines: Sequence[Line]
    points: Sequence[Points] = ()  # in ink over lines; several sets without a line have a colour each
    interval: str = ""  # what bands and whiskers are, such as "90% interval"
    from_zero: bool = False  # the y axis begins at 0
    height_px: int = 340

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(self.lines))
        object.__setattr__(self, "points", tuple(self.points))
        where = f"chart '{self.title}'"
        if not self.lines and not self.points:
            raise InputError(where, found="no line and no points", expected="at least one")
        require_interval_name(self.interval, used=any(t.lower is not None for t in self._traces()), where=where)

    def _traces(self) -> tuple[Line | Points, ...]:
        return (*self.lines, *self.points)

    def _colours(self) -> tuple[str, ...]:
        """Lines that are neither a depth nor muted take the sequence in order."""
        free = iter(series_colour(position) for position in range(len(self.lines)))
        return tuple(
            MUTED if line.muted else next(free) if line.depth is None else depth_colour(line.depth)
            for line in self.lines
        )

    def _points_colours(self) -> tuple[str, ...]:
        alone = not self.lines and len(self.points) > 1
        return tuple(series_colour(position) if alone else INK for position in range(len(self.points)))

    def _ends_together(self) -> bool:
        """Whether all lines end at one x, so that names at their ends lie on no other line."""
        ends = [line.x[-1] for line in self.lines]
        return len(set(ends)) <= 1

    def key(self) -> tuple[KeyEntry, ...]:
        """The entries above the chart."""
        # one line needs no name beside its title on a narrow screen; several do
        entries = [
            KeyEntry(line.label, "line", colour, narrow_only=self._ends_together())
            for line, colour in zip(self.lines, self._colours(), strict=True)
        ]
        dots = list(zip(self.points, self._points_colours(), strict=True))
        entries += [KeyEntry(points.label, "dot", colour) for points, colour in dots if not points.large]
        if any(line.lower is not None for line in self.lines):
            entries.append(KeyEntry(self.interval, "band", self._colours()[0] if len(self.lines) == 1 else MUTED))
        else:
            entries += [
                KeyEntry(self.interval, "whisker", colour) for points, colour in dots if points.lower is not None
            ]
        if any(not solid for line in self.lines for solid, _, _ in line.runs()):
            entries.append(KeyEntry("extrapolated", "dashes"))
        return tuple(entries)

    def table(self) -> Table:
        """One row per x, one column per line or set of points."""
        traces = self._traces()
        by_x = [dict(trace.estimates()) for trace in traces]
        return Table(
            caption=self.title,
            columns=[Column(self.x.label, self.x.unit), *(Column(trace.label, self.y.unit) for trace in traces)],
            rows=[[x, *(known.get(x) for known in by_x)] for x in sorted({x for trace in traces for x in trace.x})],
        )

    def option(self) -> Option:
        """The ECharts option."""
        traces = self._traces()
        x = self.x.placed(value for trace in traces for value in trace.x)
        heights = [value for trace in traces for value in trace.y]
        heights += [value for trace in traces for _, *ends in trace.ends() for value in ends]
        y = self.y.placed(heights, from_zero=self.from_zero)
        tips = dict(zip((row[0] for row in self.table().rows), self._tips(), strict=True))
        colours = self._colours()
        series: list[Option] = []
        for place, (line, colour) in enumerate(zip(self.lines, colours, strict=True)):
            series += _band(line, x, y, colour=colour, stack=f"band-{place}")
            series += [_run(line, run, x, y, colour=colour, tips=tips) for run in line.runs()]
        for points, colour in zip(self.points, self._points_colours(), strict=True):
            if points.lower is not None:
                ends = [(x.plotted(at), y.plotted(low), y.plotted(high)) for at, low, high in points.ends()]
                series += whiskers(ends, colour=colour)
            series.append(_dots(points, x, y, colour=colour, tips=tips))
        named = self._ends_together()
        series.append(self._labels(x, y))
        widest = max((text_px(line.label) for line in self.lines), default=0) if named else 0
        right = min(_WIDEST_LABEL_PX, widest) + 16
        labels: Any = {"id": "labels", "label": {"show": named}}
        return {
            **frame(tooltip="axis"),
            "grid": grid(left=_LEFT_PX, right=right, top=_TOP_PX, bottom=_BOTTOM_PX),
            "xAxis": x.as_x(),
            "yAxis": y.as_y(left_px=_LEFT_PX),
            "series": series,
            "media": [
                {
                    "query": {"maxWidth": NARROW_PX},
                    "option": {"grid": {"right": 2}, "series": [{**labels, "label": {"show": False}}]},
                },
                {"option": {"grid": {"right": right}, "series": [labels]}},
            ],
        }

    def _tips(self) -> Iterator[str]:
        table = self.table()
        for row, text in zip(table.rows, table.text(), strict=True):
            lines = [
                f"{column.heading}: {cell}"
                for column, cell, value in zip(table.typed_columns(), text, row, strict=True)
                if value is not None
            ]
            yield "\n".join(lines)

    def _labels(self, x: PlacedAxis, y: PlacedAxis) -> Option:
        """Each line's name at its end, in its colour; the pale depths are too light for text and take the ink."""
        px_per_unit = (self.height_px - _TOP_PX - _BOTTOM_PX) / (y.high - y.low)
        ends = [-y.plotted(line.y[-1]) * px_per_unit for line in self.lines]
        data = [
            {
                "value": [x.plotted(line.x[-1]), y.plotted(line.y[-1])],
                "name": line.label,
                "label": {"color": colour if line.depth is None else INK, "offset": [0, round(to - end, 1)]},
            }
            for line, colour, end, to in zip(
                self.lines, self._colours(), ends, spread(ends, gap=_LABEL_PX), strict=True
            )
        ]
        label = {
            "show": True,
            "position": "right",
            "distance": 6,
            "formatter": "{b}",
            "fontSize": FONT_PX,
            "width": _WIDEST_LABEL_PX,
            "overflow": "break",
        }
        return quiet(
            {
                "id": "labels",
                "type": "scatter",
                "symbolSize": 0.01,
                "itemStyle": {"opacity": 1},  # ECharts fades a scatter, and its labels with it
                "data": data,
                "label": label,
                "z": 6,
            }
        )


def _band(line: Line, x: PlacedAxis, y: PlacedAxis, *, colour: str, stack: str) -> list[Option]:
    """A clear line at the lower ends and, stacked on it, the width of the interval as an area."""
    ends = [(x.plotted(at), y.plotted(low), y.plotted(high)) for at, low, high in line.ends()]
    shared: Option = {"type": "line", "stack": stack, "stackStrategy": "all", "symbol": "none", "z": 1}
    clear = {"opacity": 0}
    if not ends:
        return []
    return [
        quiet({**shared, "data": [[at, low] for at, low, _ in ends], "lineStyle": clear}),
        quiet(
            {
                **shared,
                "data": [[at, float(f"{high - low:.10g}")] for at, low, high in ends],
                "lineStyle": clear,
                "areaStyle": {"color": colour, "opacity": 0.16},
            }
        ),
    ]


def _run(
    line: Line, run: tuple[bool, int, int], x: PlacedAxis, y: PlacedAxis, *, colour: str, tips: dict[Any, str]
) -> Option:
    solid, first, last = run
    return {
        "type": "line",
        "name": line.label,
        "data": [
            {"value": [x.plotted(line.x[place]), y.plotted(line.y[place])], "name": tips[line.x[place]]}
            for place in range(first, last + 1)
        ],
        "showSymbol": False,
        "symbol": "circle",
        "symbolSize": 6,
        "lineStyle": {"color": colour, "width": 2, "type": "solid" if solid else "dashed"},
        "itemStyle": {"color": colour},
        "emphasis": {"disabled": True},
        "z": 3,
    }


def _dots(points: Points, x: PlacedAxis, y: PlacedAxis, *, colour: str, tips: dict[Any, str]) -> Option:
    return {
        "type": "scatter",
        "name": points.label,
        "data": [
            {"value": [x.plotted(at), y.plotted(height)], "name": tips[at]}
            for at, height in zip(points.x, points.y, strict=True)
        ],
        "symbolSize": 16 if points.large else 8,
        "itemStyle": {"color": colour, "opacity": 1},
        "emphasis": {"disabled": True},
        "z": 7 if points.large else 6,
        **({"label": _beside(points.label)} if points.large else {}),
    }


def _beside(name: str) -> Option:
    """The name of a point, below it on the right, where a rising line does not run."""
    words = {"show": True, "formatter": name, "position": "bottom", "align": "left", "distance": 8}
    return {**words, "color": INK, "fontSize": FONT_PX, "fontWeight": "bold"}
