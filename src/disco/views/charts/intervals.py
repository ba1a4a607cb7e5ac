"""A forest plot: one estimate and its interval per row, against a line of no difference."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.views.charts.parts import (
    CHART,
    FONT_PX,
    INK,
    MUTED,
    Axis,
    KeyEntry,
    Option,
    frame,
    grid,
    require_interval_name,
    series_colour,
    text_px,
    whiskers,
)
from disco.views.formats import estimate_text, finite
from disco.views.table import Column, Table

_ROW_PX = 54
_WIDEST_NAME_PX = 300
_LEAST_PLOT_PX = 280  # with less than this between them, names and figures go above their rows
_NARROW_PLOT_PX = 310


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One row."""

    label: str
    estimate: Estimate
    muted: bool = False  # a reference that is not itself a finding

    def __post_init__(self) -> None:
        finite(self.estimate.value, where=f"row '{self.label}'")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalChart:
    """Estimates with intervals, one below the other.

    >>> from disco.views.formats import Percent
    >>> chart = IntervalChart(title="C beat its control", subtitle="Revenue per customer, 8 Mar to 21 Mar 2027",
    ...     x=Axis("Uplift against control", Percent(signed=True)), interval="95% interval",
    ...     rows=[IntervalRow("Campaign C", Estimate(0.014, 0.006, 0.022))])
    >>> chart.table().text()
    (('Campaign C', '+1.4% (+0.6% to +2.2%)'),)
    """

    template: ClassVar[str] = CHART

    title: str  # the finding
    subtitle: str  # unit and period
    x: Axis
    rows: Sequence[IntervalRow]
    interval: str  # what whiskers are, such as "95% interval"
    reference: float | None = 0.0  # where the line of no difference stands

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        where = f"chart '{self.title}'"
        if not self.rows:
            raise InputError(where, found="no rows", expected="at least one")
        require_interval_name(self.interval, used=True, where=where)

    @property
    def height_px(self) -> int:
        """As many rows as there are."""
        return _ROW_PX * len(self.rows) + 70

    def key(self) -> tuple[KeyEntry, ...]:
        """The entries above the chart."""
        return (KeyEntry("estimate", "dot", series_colour(0)), KeyEntry(self.interval, "whisker", series_colour(0)))

    def table(self) -> Table:
        """One row per estimate."""
        return Table(
            caption=self.title,
            columns=[Column("Row"), Column(self.x.label, self.x.unit)],
            rows=[[row.label, row.estimate] for row in self.rows],
        )

    def option(self) -> Option:
        """The ECharts option; a whisker without limit ends at the edge of the plot."""
        ends = [end for row in self.rows for end in row.estimate.ends or () if math.isfinite(end)]
        values = [*ends, *(row.estimate.value for row in self.rows)]
        x = self.x.placed([*values, *(() if self.reference is None else (self.reference,))])
        names = [row.label for row in self.rows]
        texts = [estimate_text(row.estimate, unit=self.x.unit) for row in self.rows]
        left = min(_WIDEST_NAME_PX, max(text_px(name, font_px=FONT_PX + 1) for name in names)) + 16
        right = max(map(text_px, texts)) + 20
        series: list[Option] = []
        for muted in (False, True):
            colour = MUTED if muted else series_colour(0)
            chosen = [(place, row) for place, row in enumerate(self.rows) if row.muted is muted]
            spans = [
                (
                    float(place),
                    max(x.plotted(row.estimate.ends[0]), x.low),
                    min(x.plotted(row.estimate.ends[1]), x.high),
                )
                for place, row in chosen
                if row.estimate.ends is not None
            ]
            if spans:
                series += whiskers(spans, colour=colour, horizontal=True)
            series.append(
                {
                    "type": "scatter",
                    "data": [
                        {"value": [x.plotted(row.estimate.value), place], "name": f"{row.label}\n{texts[place]}"}
                        for place, row in chosen
                    ],
                    "symbolSize": 11,
                    "itemStyle": {"color": colour, "opacity": 1},
                    "emphasis": {"disabled": True},
                    "z": 6,
                }
            )
        if self.reference is not None:
            series[-1]["markLine"] = {
                "silent": True,
                "z": 2,
                "precision": 10,  # ECharts would round the place to two decimals
                "symbol": "none",
                "label": {"show": False},
                "lineStyle": {"color": MUTED, "type": "solid", "width": 1},
                "data": [{"xAxis": x.plotted(self.reference)}],
            }
        x_axis = {**x.as_x(), "splitLine": {"show": True, "lineStyle": {"color": "var(--rule)"}}}
        return {
            **frame(tooltip="item"),
            "grid": grid(left=left, right=right, top=10, bottom=52),
            "xAxis": x_axis,
            "yAxis": [_rows(names, at="left"), _rows(texts, at="right")],
            "series": series,
            "media": [
                {
                    "query": {"maxWidth": left + right + _LEAST_PLOT_PX},
                    "option": _narrow(names, texts),
                },
                {"option": _wide(names, left=left, right=right)},
            ],
        }


def _rows(texts: Sequence[str], *, at: str) -> Option:
    return {
        "type": "category",
        "position": at,
        "inverse": True,
        "data": list(texts),
        "axisTick": {"show": False},
        "axisLine": {"show": False},
        "axisPointer": {"show": False},
        "z": 4,
        "axisLabel": {
            "interval": 0,
            "color": INK if at == "left" else MUTED,
            "fontSize": FONT_PX + (1 if at == "left" else 0),
            "margin": 12,
            "lineHeight": 15,
        },
    }


def _wide(names: Sequence[str], *, left: int, right: int) -> Option:
    label: dict[str, Any] = {
        "inside": False,
        "margin": left,
        "align": "left",
        "verticalAlign": "middle",
        "padding": 0,
        "backgroundColor": "transparent",
        "width": _WIDEST_NAME_PX,
        "overflow": "break",
    }
    return {
        "grid": {"left": left, "right": right, "top": 10},
        "xAxis": {"splitLine": {"show": True}},
        "yAxis": [{"data": list(names), "axisLabel": label}, {"axisLabel": {"show": True}}],
    }


def _narrow(names: Sequence[str], texts: Sequence[str]) -> Option:
    """Name and figures stand above their row instead of beside it."""
    both = [f"{name}  {text}" for name, text in zip(names, texts, strict=True)]
    if max(map(text_px, both)) > _NARROW_PLOT_PX:
        both = [f"{name}\n{text}" for name, text in zip(names, texts, strict=True)]
    label: dict[str, Any] = {
        "inside": True,
        "margin": 0,
        "align": "left",
        "verticalAlign": "bottom",
        "padding": [0, 4, 8, 0],
        "backgroundColor": "var(--page)",  # the line of no difference does not run through the words
        "width": None,
        "overflow": "none",
    }
    return {
        "grid": {"left": 20, "right": 4, "top": 24},
        "xAxis": {"splitLine": {"show": False}},
        "yAxis": [{"data": both, "axisLabel": label}, {"axisLabel": {"show": False}}],
    }
