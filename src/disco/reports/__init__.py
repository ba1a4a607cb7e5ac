"""Charts and reports: values in, one self-contained HTML file out."""

from disco.reports.charts import Axis, BarChart, Bars, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.reports.formats import Count, Estimate, Money, Number, Percent
from disco.reports.page import Fact, Facts, Report, Section
from disco.reports.table import Column, Table

__all__ = [
    "Axis",
    "BarChart",
    "Bars",
    "Column",
    "Count",
    "CurveChart",
    "Estimate",
    "Fact",
    "Facts",
    "IntervalChart",
    "IntervalRow",
    "Line",
    "Money",
    "Number",
    "Percent",
    "Points",
    "Report",
    "Section",
    "Table",
]
