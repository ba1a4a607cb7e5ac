"""Figure 2, left: observed baskets by depth, before and after the discount."""

import numpy as np

from disco.records.arrays import Vector
from disco.reports.charts import Axis, CurveChart, Points
from disco.reports.formats import Count, Money, Number, Percent, number, percent
from disco.reports.table import Column, Table
from disco.studies.cache import Arrays
from disco.studies.environment import CAMPAIGNS, Environment
from disco.studies.paper.item import Item, above, below
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.sample import Sample

KEY = "elasticity"


def measure(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Mean basket per depth, before and after the discount, of all random campaigns, and how many were bought."""
    seen = [environment.campaigns[name].purchases for name in CAMPAIGNS]
    depth = np.concatenate([each.depth for each in seen])
    full_price = np.concatenate([each.full_price for each in seen])
    depths, which = np.unique(depth, return_inverse=True)
    count = np.bincount(which)
    mean = np.bincount(which, full_price) / count
    return {"depths": depths, "count": count, "full": mean, "discounted": mean * (1 - depths)}


def run(lab: Lab) -> Item:
    measured = lab.measure(measure)
    full, discounted = (Sample.of([_slope(each, name) for each in measured]) for name in ("full", "discounted"))
    ranks, after = (Sample.of([_rank(each, name) for each in measured]) for name in ("full", "discounted"))
    return Item(
        key=KEY,
        title="Observed elasticity: full-price and discounted baskets (figure 2, left)",
        paper="Baskets before the discount grow with its depth; baskets after the discount do not.",
        checks=(
            above(
                "full-price baskets grow with depth (change per 10 points of depth)",
                full,
                than=0.0,
                paper="grow",
                unit=Percent(signed=True),
            ),
            above(
                "they grow nearly monotonically (rank correlation with depth)",
                ranks,
                than=0.9,
                paper="monotone",
                unit=Number(),
                clearly=False,
            ),
            below(
                "discounted baskets do not (rank correlation with depth)",
                after,
                than=0.9,
                paper="not monotone",
                unit=Number(),
                clearly=False,
            ),
        ),
        why="Simulated customers buy larger baskets at deeper discounts by construction, so this rise is no evidence "
        "for the paper's claim. After the discount, ten more "
        f"points of depth change the basket by {percent(discounted.mean, signed=True)} (rank correlation "
        f"{number(after.mean)}): the larger basket "
        + ("does not make" if discounted.mean < 0 else "makes")
        + " up for the lower price. The mean at a depth is over those who bought at it, so it also reflects who buys "
        "at all; campaign D (the three shallow depths) went out by e-mail.",
        charts=(
            _chart(measured, "full", "Before the discount, deeper codes bring larger baskets"),
            _chart(
                measured,
                "discounted",
                "After the discount, they bring smaller ones"
                if discounted.mean < 0
                else "After the discount, they still bring larger ones",
            ),
        ),
        tables=(_table(measured),),
    )


def _slope(each: Arrays, name: str) -> float:
    """Weighted least squares of the ln mean basket on depth, as the relative change per ten points."""
    slope, _ = np.polyfit(each["depths"], np.log(each[name]), 1, w=np.sqrt(each["count"]))
    return float(np.expm1(0.1 * slope))


def _rank(each: Arrays, name: str) -> float:
    ranks: Vector = np.argsort(np.argsort(each[name])).astype(np.float64)
    return float(np.corrcoef(ranks, np.arange(ranks.size))[0, 1])


def _cells(measured: list[Arrays], name: str) -> list[Sample]:
    return [Sample.of([float(each[name][place]) for each in measured]) for place in range(measured[0]["depths"].size)]


def _chart(measured: list[Arrays], name: str, title: str) -> CurveChart:
    relative = [{name: each[name] / np.average(each[name], weights=each["count"])} for each in measured]
    cells = [Sample.of([float(each[name][place]) - 1 for each in relative]) for place in range(len(relative[0][name]))]
    low, high = zip(*(cell.interval for cell in cells), strict=True)
    return CurveChart(
        title=title,
        subtitle="Mean basket of purchases with a random code relative to the shop's average, campaigns A to D, %",
        x=Axis("Depth of the code", Percent(decimals=0)),
        y=Axis("Basket before the discount" if name == "full" else "Basket after the discount", Percent(signed=True)),
        interval="95% interval over environments",
        lines=(),
        points=[Points("observed", measured[0]["depths"], [cell.mean for cell in cells], low, high)],
    )


def _table(measured: list[Arrays]) -> Table:
    depths, counts = measured[0]["depths"], np.mean([each["count"] for each in measured], axis=0)
    return Table(
        caption="Mean basket by depth",
        columns=(
            Column("Depth", Percent()),
            Column("Purchases per environment", Count()),
            Column("Before the discount", Money()),
            Column("After the discount", Money()),
        ),
        rows=[
            (float(depth), float(count), full.estimate(), discounted.estimate())
            for depth, count, full, discounted in zip(
                depths, counts, _cells(measured, "full"), _cells(measured, "discounted"), strict=True
            )
        ],
    )
