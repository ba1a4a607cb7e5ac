"""Every kind of item on one page, with invented figures, for tests and for looking at charts in a browser.

It has the awkward cases of a real report: extrapolation, losses, crowded line ends, long names, an open interval.

    python tests/support/gallery.py gallery.html
"""

import math
import sys
from pathlib import Path

from disco.records.estimate import Estimate
from disco.views.charts import Axis, BarChart, Bars, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.views.formats import Count, Money, Names, Number, Percent
from disco.views.page import Fact, Facts, Report, Section
from disco.views.table import Column, FigureCell, Table

DEPTHS = tuple(round(0.025 * step, 3) for step in range(2, 21))


def basket_curve() -> CurveChart:
    basket = [38 + 14 * (1 - math.exp(-4 * depth)) for depth in DEPTHS]
    width = [0.6 + 30 * max(0.0, 0.2 - depth, depth - 0.35) ** 1.2 for depth in DEPTHS]
    return CurveChart(
        title="Baskets grow with depth, but less and less",
        subtitle="Basket before the discount, £ per purchase, campaigns A and B, 1 Feb to 14 Mar 2027",
        x=Axis("Depth of the code", Percent()),
        y=Axis("Basket before the discount", Money()),
        interval="90% interval",
        lines=[
            Line(
                "Predicted",
                DEPTHS,
                basket,
                [value - spread for value, spread in zip(basket, width, strict=True)],
                [value + spread for value, spread in zip(basket, width, strict=True)],
                known=(0.2, 0.35),
            )
        ],
        points=[
            Points("Observed", [0.2, 0.25, 0.3, 0.35], [46.1, 46.4, 47.9, 48.2], [45, 45, 47, 47], [47, 48, 49, 49])
        ],
    )


def policy_curves() -> CurveChart:
    rounds = list(range(1, 21))
    ends = {"Thompson sampling": 1.62, "Greedy": 1.58, "Upper confidence bound": 1.5, "Oracle": 3.1}
    lines = [
        Line(name, rounds, [end * (1 - math.exp(-number / 4)) / 100 for number in rounds]) for name, end in ends.items()
    ]
    lines.append(Line("Random, same caps", rounds, [0.0] * 20, muted=True))
    return CurveChart(
        title="Every learner beats random with the same caps; half of the possible gain is reached",
        subtitle="Revenue against random, % of random's revenue, mean of four environments, 20 rounds",
        x=Axis("Round", Count()),
        y=Axis("Revenue against random", Percent(decimals=2, signed=True)),
        lines=lines,
    )


def depth_curves() -> CurveChart:
    rounds = list(range(1, 13))
    return CurveChart(
        title="Deeper codes bring larger baskets in every round",
        subtitle="Mean basket before the discount, £ per purchase",
        x=Axis("Round", Count()),
        y=Axis("Basket", Money()),
        lines=[
            Line(
                f"{depth:.0%} off",
                rounds,
                [40 + 20 * depth + math.sin(place + 9 * depth) / 2 for place in rounds],
                depth=depth,
            )
            for depth in (0.1, 0.2, 0.3, 0.4)
        ],
    )


def codes_bars() -> BarChart:
    return BarChart(
        title="Campaign D gave fewer deep codes than its caps allow",
        subtitle="Codes sent, number of customers, campaigns C and D",
        categories=["Campaign A", "Campaign B", "Campaign C", "Campaign D"],
        y=Axis("Customers with a code", Count()),
        stacked=True,
        bars=[
            Bars("10% off", [9000, 8000, 12000, 14000], depth=0.1),
            Bars("20% off", [9000, 8000, 6000, 4200], depth=0.2),
            Bars("30% off", [9000, 8000, 3000, 900], depth=0.3),
        ],
    )


def revenue_bars() -> BarChart:
    return BarChart(
        title="Realised revenue lies within what was predicted",
        subtitle="Revenue, £, 8 to 21 Mar 2027",
        categories=["Campaign C", "Campaign D"],
        y=Axis("Revenue", Money()),
        interval="95% interval",
        bars=[
            Bars("Predicted", [1.24e6, 0.98e6], [1.19e6, 0.93e6], [1.30e6, 1.04e6]),
            Bars("Realised", [1.22e6, 1.01e6]),
            Bars(
                "Control, scaled to the same number of customers",
                [1.2e6, 0.99e6],
                [1.15e6, 0.96e6],
                [1.25e6, 1.02e6],
                muted=True,
            ),
        ],
    )


def loss_bars() -> BarChart:
    return BarChart(
        title="The deepest code loses money",
        subtitle="Reward (revenue less markdown) against no code, £ per customer",
        categories=["10% off", "20% off", "30% off", "40% off"],
        x_label="Depth of the code",
        y=Axis("Reward against no code", Money(signed=True)),
        interval="95% interval",
        bars=[
            Bars(
                "Reward",
                [0.42, 0.61, 0.12, -0.8],
                [0.3, 0.4, -0.2, -1.2],
                [0.54, 0.8, 0.44, -0.4],
                depth=[0.1, 0.2, 0.3, 0.4],
            )
        ],
    )


def crowded_bars() -> BarChart:
    policies = {"Thompson sampling": 1.0, "Greedy": 1.1, "Random": 0.8}
    per_depth = [4200.0 * (1 + 0.3 * place) for place in range(8)]
    return BarChart(
        title="Revenue rises with depth under every policy",
        subtitle="Revenue, £, one campaign of eight depths",
        categories=[f"{depth}% off" for depth in range(5, 45, 5)],
        x_label="Depth of the code",
        y=Axis("Revenue", Money()),
        interval="95% interval",
        bars=[
            Bars(
                name,
                [share * revenue for revenue in per_depth],
                lower=[0.9 * share * revenue for revenue in per_depth],
                upper=[1.1 * share * revenue for revenue in per_depth],
            )
            for name, share in policies.items()
        ],
    )


def frontier() -> CurveChart:
    markdown = [1e4 * place for place in range(1, 21)]
    return CurveChart(
        title="Every further pound of markdown brings less revenue",
        subtitle="Expected revenue against markdown, £, campaign C",
        x=Axis("Markdown", Money()),
        y=Axis("Revenue", Money()),
        lines=[Line("Best possible", markdown, [1e6 + 800 * math.sqrt(spent) for spent in markdown])],
        points=[Points("You are here", [1e5], [1e6 + 800 * math.sqrt(1e5)])],
    )


def forecast_points() -> CurveChart:
    months = [f"2026-{month:02d}" for month in range(1, 13)]
    places = range(1, 13)
    expected = [8e4 + 2e3 * place for place in places]
    return CurveChart(
        title="Revenue was inside its forecast in 11 of 12 campaigns",
        subtitle="Revenue of a campaign's codes",
        x=Axis("Campaign", Names(months)),
        y=Axis("Revenue", Money()),
        lines=[],
        points=[
            Points(
                "Forecast", places, expected, [0.8 * value for value in expected], [1.2 * value for value in expected]
            ),
            Points(
                "Actual",
                places,
                [value * (1 + 0.25 * math.sin(place)) for place, value in zip(places, expected, strict=True)],
            ),
        ],
        interval="90% interval",
        from_zero=True,
    )


def units_table() -> Table:
    return Table(
        caption="Per customer, each figure in its own unit",
        columns=("Figure", "Decided", "Difference (95% interval)"),
        rows=[
            ("Revenue", FigureCell(12.4, Money()), FigureCell(Estimate(2.1, -0.4, 4.6, 0.95), Money(signed=True))),
            (
                "Engagement",
                FigureCell(0.081, Percent()),
                FigureCell(Estimate(0.004, 0.001, 0.007, 0.95), Percent(signed=True)),
            ),
            ("Objective", FigureCell(31.2, Number()), None),
        ],
    )


def reward_forest() -> IntervalChart:
    return IntervalChart(
        title="Reward per customer hardly differs",
        subtitle="Reward against control, £ per customer",
        x=Axis("Reward against control", Money(signed=True)),
        interval="95% interval",
        rows=[
            IntervalRow("C", Estimate(0.31, 0.1, 0.52)),
            IntervalRow("D", Estimate(-0.02, -0.3, 0.26)),
            IntervalRow("E, one customer per arm", Estimate(0.2)),
            IntervalRow("Engagement", Estimate(0.1, -math.inf, 0.4, 0.95)),
        ],
    )


def uplift_forest() -> IntervalChart:
    return IntervalChart(
        title="Both decided campaigns beat their control; only C does so clearly",
        subtitle="Uplift of revenue per customer against control with the same caps, % of control's revenue",
        x=Axis("Uplift against control", Percent(signed=True)),
        interval="95% interval",
        rows=[
            IntervalRow("Campaign C", Estimate(0.014, 0.006, 0.022)),
            IntervalRow("Campaign D", Estimate(0.009, -0.004, 0.022)),
            IntervalRow("Both together", Estimate(0.0121, 0.0052, 0.019)),
            IntervalRow("Campaign A against itself (should be 0)", Estimate(0.001, -0.008, 0.01), muted=True),
        ],
    )


def gallery() -> Report:
    """The page of all charts."""
    return Report(
        title="Gallery: four invented campaigns",
        lead="Choosing who gets which code earned £24.1k more than the same codes at random (£8.90k to £39.3k), "
        "for £182k of markdown out of a £200k budget; the 30% cap is what holds it back.",
        sections=[
            Section(
                "What it earned",
                "Campaigns A and B gave codes at random to learn from. C and D were decided by the system.\n\n"
                "The control group got the same codes in the same numbers, drawn at random.",
                [
                    Facts(
                        [
                            Fact("Revenue, C and D", "£2.23m", "£2.12m to £2.34m predicted"),
                            Fact("Markdown", "£182k", "of £200k budget"),
                            Fact("Uplift against control", "+1.2%", "+0.5% to +1.9%"),
                            Fact("One more 30% code", "£2.10", "of revenue"),
                        ]
                    ),
                    uplift_forest(),
                    Table(
                        caption="Campaign by campaign",
                        note="Uplift against control with 95% interval; A and B have no control",
                        columns=(
                            "Campaign",
                            Column("Customers", Count()),
                            Column("Codes", Count()),
                            Column("Revenue", Money(full=True)),
                            Column("Markdown", Money(full=True)),
                            Column("Uplift", Percent(signed=True)),
                        ),
                        rows=[
                            ("A", 50000, 27000, 1_180_400, 171_200, None),
                            ("C", 50000, 21000, 1_221_300, 96_400, Estimate(0.014, 0.006, 0.022)),
                            ("D", 50000, 19100, 1_009_800, 85_700, Estimate(0.009, -0.004, 0.022)),
                        ],
                    ),
                ],
            ),
            Section("What it gave", "", [codes_bars(), revenue_bars()], side_by_side=True),
            Section(
                "What it learned",
                "Below 20% and above 35% nothing was ever offered: there the curve is an extrapolation.",
                [basket_curve(), policy_curves(), depth_curves(), loss_bars(), crowded_bars()],
            ),
            Section("What more would bring", "", [frontier(), reward_forest()], side_by_side=True),
            Section("What was forecast", "", [forecast_points(), units_table()]),
        ],
        footer="Invented figures, to show what a page looks like.",
    )


if __name__ == "__main__":
    gallery().save(Path(sys.argv[1]))
