"""Charts and reports: values in, one self-contained HTML file out."""

from disco.records.estimate import Estimate
from disco.reports.charts import Axis, BarChart, Bars, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.reports.formats import Count, Money, Names, Number, Percent
from disco.reports.page import Fact, Facts, Report, Section
from disco.reports.table import Column, FigureCell, Table

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
    "FigureCell",
    "IntervalChart",
    "IntervalRow",
    "Line",
    "Money",
    "Names",
    "Number",
    "Percent",
    "Points",
    "Report",
    "Section",
    "Table",
]
