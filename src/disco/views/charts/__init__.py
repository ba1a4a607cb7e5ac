"""Charts as frozen values. Each gives an Apache ECharts option (plain JSON), a key in words, and its data as a table.

    CurveChart     lines over x, with bands, observed points, and dashes where extrapolated
    BarChart       grouped or stacked bars from zero, with intervals
    IntervalChart  an estimate and its interval per row (forest plot)

Colours are names of the stylesheet (`var(--depth-4)`), so light, dark and print
follow the page without a second option. `charts.js` draws them.
"""

from disco.views.charts.bars import BarChart, Bars
from disco.views.charts.curves import CurveChart, Line, Points
from disco.views.charts.intervals import IntervalChart, IntervalRow
from disco.views.charts.parts import Axis, Chart, KeyEntry, depth_colour

__all__ = [
    "Axis",
    "BarChart",
    "Bars",
    "Chart",
    "CurveChart",
    "IntervalChart",
    "IntervalRow",
    "KeyEntry",
    "Line",
    "Points",
    "depth_colour",
]
