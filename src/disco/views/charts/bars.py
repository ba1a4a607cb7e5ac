"""Bars from zero: one group per category, side by side or stacked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.views.charts.parts import (
    CHART,
    FONT_PX,
    INK,
    MUTED,
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
    require_interval_name,
    series_colour,
    whiskers,
)
from disco.views.table import Column, Table

_LEFT_PX = 64
_LINE_PX = 15


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar per category."""

    label: str
    values: Figures
    lower: Figures | None = None
    upper: Figures | None = None
    depth: float | Sequence[float] | None = None  # colours all bars as that depth; a sequence, each bar by its own
    muted: bool | Sequence[bool] = False  # the grey of a control group, a baseline or a limit; a sequence, bar by bar

    def __post_init__(self) -> None:
        where = f"bars '{self.label}'"
        values = numbers(self.values, where=where)
        ends = interval_ends(self.lower, self.upper, rows=len(values), where=where)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "lower", None if ends is None else ends[0])
        object.__setattr__(self, "upper", None if ends is None else ends[1])
        if isinstance(self.depth, Sequence):
            if len(self.depth) != len(values):
                raise InputError(where, found=f"{len(self.depth)} depths", expected=f"{len(values)}, one per bar")
            object.__setattr__(self, "depth", tuple(self.depth))
        if not isinstance(self.muted, bool):
            if len(self.muted) != len(values):
                raise InputError(where, found=f"{len(self.muted)} muted", expected=f"{len(values)}, one per bar")
            object.__setattr__(self, "muted", tuple(self.muted))

    def estimates(self) -> tuple[Estimate, ...]:
        """One per category."""
        return estimates(self.values, self.lower, self.upper)

    def colours(self, free: str) -> tuple[str, ...]:
        """One per bar; `free` where neither depth nor muted decides."""
        if isinstance(self.depth, Sequence):
            return tuple(depth_colour(depth) for depth in self.depth)
        one = free if self.depth is None else depth_colour(self.depth)
        muted = [self.muted] * len(self.values) if isinstance(self.muted, bool) else self.muted
        return tuple(MUTED if grey else one for grey in muted)


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Grouped or stacked bars.

    >>> from disco.views.formats import Count
    >>> chart = BarChart(title="Most codes are shallow", subtitle="Codes, campaign C",
    ...                  categories=["10% off", "20% off"], y=Axis("Codes", Count()),
    ...                  bars=[Bars("Codes", [12000, 8000], depth=[0.1, 0.2])])
    >>> chart.table().text()
    (('10% off', '12,000'), ('20% off', '8,000'))
    """

    template: ClassVar[str] = CHART

    title: str  # the finding
    subtitle: str  # unit and period
    categories: Sequence[str]
    y: Axis
    bars: Sequence[Bars]
    x_label: str = ""
    stacked: bool = False  # else side by side
    interval: str = ""  # what whiskers are, such as "95% interval"
    height_px: int = 320

    def __post_init__(self) -> None:
        where = f"chart '{self.title}'"
        object.__setattr__(self, "categories", tuple(self.categories))
        object.__setattr__(self, "bars", tuple(self.bars))
        if not self.categories or not self.bars:
            raise InputError(where, found="no categories or no bars", expected="at least one of each")
        for bars in self.bars:
            if len(bars.values) != len(self.categories):
                raise InputError(
                    f"{where}, bars '{bars.label}'",
                    found=f"{len(bars.values)} values",
                    expected=f"{len(self.categories)}, one per category",
                )
        has_intervals = any(bars.lower is not None for bars in self.bars)
        if self.stacked and has_intervals:
            raise InputError(
                where, found="intervals on stacked bars", expected="grouped bars", fix="Set stacked=False."
            )
        if self.stacked and any(value < 0 for bars in self.bars for value in bars.values):
            raise InputError(where, found="a negative part of a stack", expected="parts of a whole, each 0 or more")
        require_interval_name(self.interval, used=has_intervals, where=where)

    def _colours(self) -> tuple[tuple[str, ...], ...]:
        return tuple(bars.colours(series_colour(place)) for place, bars in enumerate(self.bars))

    def key(self) -> tuple[KeyEntry, ...]:
        """The entries above the chart."""
        entries: list[KeyEntry] = []
        if len(self.bars) > 1:
            entries = [
                KeyEntry(bars.label, "bar", colours[0])
                for bars, colours in zip(self.bars, self._colours(), strict=True)
            ]
        if any(bars.lower is not None for bars in self.bars):
            entries.append(KeyEntry(self.interval, "whisker", INK))
        return tuple(entries)

    def table(self) -> Table:
        """One row per category, one column per set of bars."""
        by_bars = [bars.estimates() for bars in self.bars]
        return Table(
            caption=self.title,
            columns=[Column(self.x_label or "Group"), *(Column(bars.label, self.y.unit) for bars in self.bars)],
            rows=[[category, *(column[place] for column in by_bars)] for place, category in enumerate(self.categories)],
        )

    def _tops(self) -> list[float]:
        if self.stacked:
            return [sum(bars.values[place] for bars in self.bars) for place in range(len(self.categories))]
        ends = [end for bars in self.bars for estimate in bars.estimates() for end in estimate.ends or ()]
        return [*ends, *(value for bars in self.bars for value in bars.values)]

    def option(self) -> Option:
        """The ECharts option."""
        y = self.y.placed(self._tops(), from_zero=True)
        category_gap = self._category_gap()
        series = [
            self._series(bars, colours, y, tips=self._tips(), category_gap=category_gap)
            for bars, colours in zip(self.bars, self._colours(), strict=True)
        ]
        if y.low < 0:
            series[0]["markLine"] = {
                "silent": True,
                "symbol": "none",
                "label": {"show": False},
                "lineStyle": {"color": INK, "type": "solid", "width": 1},
                "data": [{"yAxis": 0}],
            }
        many = len(self.bars) * len(self.categories)
        for place, bars in enumerate(self.bars):
            centre = _centre(place, among=len(self.bars), category_gap=category_gap)
            ends = [
                (round(group + centre, 6), y.plotted(estimate.ends[0]), y.plotted(estimate.ends[1]))
                for group, estimate in enumerate(bars.estimates())
                if estimate.ends is not None and estimate.ends[0] < estimate.ends[1]  # what is known has no whisker
            ]
            if ends:
                series += whiskers(ends, colour=INK, x_axis=1, cap_px=9 if many <= 12 else 5, halo=many <= 12)
        return {
            **frame(tooltip="axis"),
            "grid": grid(left=_LEFT_PX, right=12, top=34),
            "xAxis": [self._categories(), _places(len(self.categories))],
            "yAxis": y.as_y(left_px=_LEFT_PX),
            "series": series,
            "media": [
                {"query": {"maxWidth": 430}, "option": self._labels_within(270)},
                {"query": {"minWidth": 431, "maxWidth": 760}, "option": self._labels_within(350)},
                {"option": self._labels_within(680)},
            ],
        }

    def _category_gap(self) -> float:
        """The free share of a category: a lone bar does not fill the page."""
        if len(self.bars) > 1 and not self.stacked:
            return 0.36
        return {1: 0.8, 2: 0.65}.get(len(self.categories), 0.5)

    def _labels_within(self, plot_px: int) -> Option:
        """Names of categories on as many lines as they need in a plot of this width."""
        return {"xAxis": [{"axisLabel": {"width": plot_px // len(self.categories) - 6, "overflow": "break"}}, {}]}

    def _tips(self) -> list[str]:
        table = self.table()
        headings = [column.heading for column in table.typed_columns()][1:]
        return [
            "\n".join([row[0], *(f"{heading}: {cell}" for heading, cell in zip(headings, row[1:], strict=True))])
            for row in table.text()
        ]

    def _series(
        self, bars: Bars, colours: Sequence[str], y: PlacedAxis, *, tips: Sequence[str], category_gap: float
    ) -> Option:
        return {
            "type": "bar",
            "name": bars.label,
            "data": [
                {"value": y.plotted(value), "name": tip, "itemStyle": {"color": colour}}
                for value, tip, colour in zip(bars.values, tips, colours, strict=True)
            ],
            "itemStyle": {"color": colours[0], "borderColor": "var(--page)", "borderWidth": 1 if self.stacked else 0},
            "barGap": "0%",
            "barCategoryGap": f"{100 * category_gap:g}%",
            "emphasis": {"disabled": True},
            "z": 3,
            **({"stack": "whole"} if self.stacked else {}),
        }

    def _categories(self) -> Option:
        return {
            "type": "category",
            "data": list(self.categories),
            "name": self.x_label,
            "nameLocation": "middle",
            "nameGap": 18,
            "nameTextStyle": {"color": MUTED, "fontSize": FONT_PX},
            "axisTick": {"show": False},
            "axisLine": {"onZero": False, "lineStyle": {"color": "var(--line)"}},
            "axisLabel": {
                "color": MUTED,
                "fontSize": FONT_PX,
                "interval": 0,
                "lineHeight": _LINE_PX,
            },
            "axisPointer": {"type": "none"},
        }


def _places(categories: int) -> Option:
    """A hidden second x axis on which category g is the number g, so that whiskers can stand between categories."""
    return {"type": "value", "min": -0.5, "max": categories - 0.5, "show": False, "axisPointer": {"show": False}}


def _centre(place: int, *, among: int, category_gap: float) -> float:
    """The middle of the n-th bar of a group, in categories from the group's own middle, as ECharts lays bars out.

    >>> _centre(0, among=1, category_gap=0.5), round(_centre(0, among=2, category_gap=0.2), 3)
    (0.0, -0.2)
    """
    return ((place + 0.5) / among - 0.5) * (1 - category_gap)
