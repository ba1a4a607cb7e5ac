"""Options are plain JSON, say what they draw in a table, and refuse what cannot be drawn, by name."""

import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gallery import (
    basket_curve,
    codes_bars,
    forecast_points,
    gallery,
    loss_bars,
    policy_curves,
    revenue_bars,
    uplift_forest,
)
from hypothesis import given
from hypothesis import strategies as st

from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.views.charts import Axis, BarChart, Bars, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.views.charts.parts import CHART, depth_colour, nice_extent, spread
from disco.views.formats import Count, Money, Number, Percent

ALL = [item for section in gallery().sections for item in section.items if item.template == CHART]


def drawn(option: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The series of a kind that answer to a pointer, that is: the data, not the decoration."""
    return [series for series in option["series"] if series["type"] == kind and not series.get("silent")]


def whisker_ends(option: dict[str, Any]) -> Iterator[tuple[float, float, float]]:
    for series in option["series"]:
        if series.get("symbol") == "rect" and series["z"] == 5:
            points = series["data"]
            for (place, lower), (_, upper) in zip(points[::3], points[1::3], strict=True):
                yield place, lower, upper


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: type(chart).__name__)
def test_an_option_is_strict_json_and_always_the_same(chart) -> None:
    first, second = (json.dumps(chart.option(), allow_nan=False) for _ in range(2))
    assert first == second
    assert "function" not in first
    assert json.loads(first) == chart.option()


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: type(chart).__name__)
def test_colours_come_from_the_stylesheet_alone(chart) -> None:
    text = json.dumps(chart.option())
    assert "#" not in text.replace("&#", "")
    assert "rgb" not in text


def test_a_curve_draws_its_table() -> None:
    chart = basket_curve()
    option, table = chart.option(), chart.table()
    line = chart.lines[0]
    seen = {tuple(item["value"]) for series in drawn(option, "line") for item in series["data"]}
    assert seen == {(round(100 * x, 8), float(f"{y:.10g}")) for x, y in zip(line.x, line.y, strict=True)}
    assert [row[1] for row in table.rows] == [estimate for _, estimate in line.estimates()]
    dots = [item["value"] for series in drawn(option, "scatter") for item in series["data"]]
    points = chart.points[0]
    assert dots == [[100 * x, y] for x, y in zip(points.x, points.y, strict=True)]
    assert list(whisker_ends(option)) == [(100 * x, low, high) for x, low, high in points.ends()]


def test_a_band_goes_from_lower_to_upper() -> None:
    option = CurveChart(
        title="Band",
        subtitle="",
        x=Axis("x", Count()),
        y=Axis("y", Count()),
        interval="90% interval",
        lines=[Line("a", [0, 1, 2], [1, 0, 3], [-2, -3, 1], [2, 4, 7])],
    ).option()
    floor, width = [series for series in option["series"] if series.get("stack")]
    assert [y for _, y in floor["data"]] == [-2, -3, 1]
    assert [low + more for (_, low), (_, more) in zip(floor["data"], width["data"], strict=True)] == [2, 4, 7]
    assert floor["stackStrategy"] == width["stackStrategy"] == "all"  # else a negative lower end is not stacked upon


def test_the_line_is_dashed_exactly_where_no_data_stand_behind_it() -> None:
    line = Line("a", [0, 1, 2, 3, 4, 5], [0] * 6, known=(1, 3))
    assert list(line.runs()) == [(False, 0, 1), (True, 1, 3), (False, 3, 5)]
    assert list(replace(line, known=None).runs()) == [(True, 0, 5)]
    assert list(replace(line, known=(1.5, 1.7)).runs()) == [(False, 0, 5)]
    kinds = [series["lineStyle"]["type"] for series in drawn(basket_curve().option(), "line")]
    assert kinds == ["dashed", "solid", "dashed"]
    assert [entry.label for entry in basket_curve().key()] == ["Predicted", "Observed", "90% interval", "extrapolated"]


def test_bars_start_at_zero_and_draw_their_table() -> None:
    for chart in (codes_bars(), revenue_bars(), loss_bars()):
        option = chart.option()
        assert option["yAxis"]["min"] <= 0 <= option["yAxis"]["max"]
        factor = chart.y.unit.scale(lowest=option["yAxis"]["min"], highest=max(chart._tops())).factor
        for bars, series in zip(chart.bars, drawn(option, "bar"), strict=True):
            assert [item["value"] for item in series["data"]] == pytest.approx([v * factor for v in bars.values])
        heights = [[cell.value for cell in row[1:]] for row in chart.table().rows]
        assert heights == [list(values) for values in zip(*(bars.values for bars in chart.bars), strict=True)]


def test_a_stack_fits_under_the_axis() -> None:
    assert codes_bars().option()["yAxis"]["max"] >= 27_000


def test_whiskers_stand_in_the_middle_of_their_bars() -> None:
    # ECharts gives a category the width 1, of which `barCategoryGap` stays free; bars share the rest evenly
    option = revenue_bars().option()
    gap = float(option["series"][0]["barCategoryGap"].rstrip("%")) / 100
    width = (1 - gap) / 3
    places = sorted({place for place, _, _ in whisker_ends(option)})
    assert places == pytest.approx([-width, width, 1 - width, 1 + width], abs=1e-5)
    assert {series.get("barGap") for series in drawn(option, "bar")} == {"0%"}


def test_a_forest_draws_each_row_with_its_figures() -> None:
    chart = uplift_forest()
    option = chart.option()
    seen = sorted(
        (item["value"][1], item["value"][0]) for series in drawn(option, "scatter") for item in series["data"]
    )
    assert seen == [(place, round(100 * row.estimate.value, 8)) for place, row in enumerate(chart.rows)]
    assert option["yAxis"][0]["data"] == [row.label for row in chart.rows]
    assert option["yAxis"][1]["data"] == [text for _, text in chart.table().text()]
    assert option["xAxis"]["min"] <= 0 <= option["xAxis"]["max"]  # the line of no difference is always in view


def test_a_whisker_without_limit_ends_at_the_edge_of_the_plot() -> None:
    chart = replace(uplift_forest(), rows=[IntervalRow("C", Estimate(0.01, -math.inf, 0.03, 0.95))])
    option = chart.option()
    (series,) = [series for series in option["series"] if series.get("symbol") == "rect"]
    assert [x for x, _ in series["data"]] == [option["xAxis"]["min"], 3.0]
    assert option["xAxis"]["max"] >= 3.0
    assert option["yAxis"][1]["data"] == ["+1.0% (+3.0% or less)"]


def test_several_sets_of_points_without_a_line_have_a_colour_each() -> None:
    chart = forecast_points()
    dots = drawn(chart.option(), "scatter")
    assert [series["itemStyle"]["color"] for series in dots] == ["var(--series-1)", "var(--series-2)"]
    assert [(entry.label, entry.shape) for entry in chart.key()] == [
        ("Forecast", "dot"),
        ("Actual", "dot"),
        ("90% interval", "whisker"),
    ]
    assert not drawn(chart.option(), "line")  # campaigns are not joined
    assert chart.table().text()[0][0] == "2026-01"


def test_deeper_is_darker_and_the_same_for_every_chart() -> None:
    def step(depth: float) -> float:
        """The mean of the colours mixed: 6.5 between the sixth and the seventh."""
        parts = [int(part) for part in re.findall(r"--depth-(\d+)", depth_colour(depth))]
        return sum(parts) / len(parts)

    steps = [step(depth / 1000) for depth in range(1000)]
    assert steps == sorted(steps)
    assert (min(steps), max(steps)) == (1, 10)
    demo = [0.15, 0.2, 0.25, 0.325, 0.35, 0.375, 0.4, 0.425, 0.45, 0.475]  # two depths, two colours
    assert [step(depth) for depth in demo] == pytest.approx([depth / 0.05 for depth in demo])
    one = Bars("30% off", [1.0, 2.0], depth=0.3).colours("unused")
    assert one == (depth_colour(0.3),) * 2


def test_lines_that_end_apart_are_named_in_the_key_and_not_over_each_other() -> None:
    short, long = Line("budgets", [1.0, 2.0], [1.0, 2.0]), Line("caps", [1.0, 3.0], [1.0, 3.0])
    apart, together = (
        CurveChart(title="t", subtitle="s", x=Axis("x", Number()), y=Axis("y", Number()), lines=lines)
        for lines in ([short, long], [short, replace(long, x=(1.0, 2.0))])
    )
    for chart, named in ((apart, False), (together, True)):
        assert [entry.narrow_only for entry in chart.key()] == [named, named]
        assert chart.option()["media"][1]["option"]["series"][0]["label"]["show"] is named


def test_labels_at_line_ends_do_not_overlap() -> None:
    chart = policy_curves()
    option = chart.option()
    labels = next(series for series in option["series"] if series.get("id") == "labels")
    plot_px = chart.height_px - option["grid"]["top"] - option["grid"]["bottom"]
    scale = plot_px / (option["yAxis"]["max"] - option["yAxis"]["min"])
    heights = sorted(-item["value"][1] * scale + item["label"]["offset"][1] for item in labels["data"])
    assert min(after - before for before, after in itertools.pairwise(heights)) > 14.5


@given(st.lists(st.floats(-500, 500), min_size=1, max_size=12), st.floats(0, 40))
def test_spreading_keeps_order_distance_and_the_middle(places: list[float], gap: float) -> None:
    moved = spread(places, gap=gap)
    in_order = [moved[place] for place in sorted(range(len(places)), key=lambda place: places[place])]
    assert all(after - before >= gap - 1e-9 for before, after in itertools.pairwise(in_order))
    assert sum(moved) == pytest.approx(sum(places), abs=1e-6)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_axes_hold_the_data_on_few_round_ticks(lowest: float, span: float) -> None:
    low, high, step = nice_extent(lowest, lowest + span)
    slack = 1e-6 * step + 1e-9 * abs(lowest)
    assert low <= lowest + slack
    assert high >= lowest + span - slack
    assert 1 <= round((high - low) / step) <= 8
    assert f"{step:.0e}"[0] in "125"


def test_an_axis_of_one_value_still_has_a_length() -> None:
    for value in (0.0, 3.0, -3.0):
        low, high, _ = nice_extent(value, value)
        assert low <= value <= high
        assert low < high


def test_a_given_extent_is_the_extent() -> None:
    chart = replace(basket_curve(), y=Axis("Basket", Money(), extent=(0, 80)))
    assert (chart.option()["yAxis"]["min"], chart.option()["yAxis"]["max"]) == (0, 80)


def test_arrays_are_welcome() -> None:
    line = Line("a", np.array([0.0, 1.0]), np.array([2, 3], np.float32))
    assert (line.x, line.y) == ((0.0, 1.0), (2.0, 3.0))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Line("Predicted", [0, 1], [1, math.nan]), "line 'Predicted', y, value 2: found nan"),
        (lambda: Line("a", [0, 1], [1]), "2 x and 1 y"),
        (lambda: Line("a", [1], [1]), "two or more"),
        (lambda: Line("a", [1, 1], [1, 2]), "strictly increasing"),
        (lambda: Line("a", [0, 1], [1, 1], lower=[0, 0]), "lower and upper, or neither"),
        (lambda: Line("a", [0, 1], [1, 1], [0, 2], [2, 0]), "lower ≤ upper"),
        (lambda: Points("Seen", [0, math.inf], [1, 1]), "points 'Seen', x, value 2: found inf"),
        (lambda: Bars("C", [1, math.nan]), "bars 'C', value 2: found nan"),
        (lambda: Bars("C", [1, 2], depth=[0.1]), "one per bar"),
        (lambda: replace(basket_curve(), interval=""), "intervals without a name"),
        (lambda: replace(basket_curve(), lines=[], points=[]), "at least one"),
        (lambda: replace(revenue_bars(), stacked=True), "intervals on stacked bars"),
        (lambda: replace(codes_bars(), categories=["one"]), "one per category"),
        (lambda: replace(codes_bars(), bars=[Bars("a", [-1, 1, 1, 1])]), "negative part of a stack"),
        (lambda: replace(uplift_forest(), rows=[]), "no rows"),
        (lambda: IntervalRow("C", Estimate(math.nan)), "estimate: found NaN"),
        (lambda: IntervalRow("C", Estimate(math.inf)), "row 'C': found inf"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(build, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        build()


def test_one_row_one_bar_one_point_are_enough() -> None:
    charts = (
        IntervalChart(
            title="One",
            subtitle="",
            x=Axis("x", Percent()),
            interval="95% interval",
            rows=[IntervalRow("only", Estimate(0.5))],
            reference=None,
        ),
        BarChart(title="One", subtitle="", categories=["a"], y=Axis("y", Money()), bars=[Bars("b", [0.0])]),
        CurveChart(
            title="One",
            subtitle="",
            x=Axis("x", Count()),
            y=Axis("y", Count()),
            lines=[],
            points=[Points("p", [1], [1])],
        ),
    )
    for chart in charts:
        assert len(chart.table().rows) == 1
        assert chart.option()["series"]
