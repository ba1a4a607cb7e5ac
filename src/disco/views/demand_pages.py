"""Demand over depths as pictures and words: what a code brings, who uses it, what they buy, and what is a guess."""

from collections.abc import Callable, Sequence
from itertools import groupby

from disco.operations.demand import Demand, DemandPoint
from disco.records.depths import depth_percent
from disco.records.estimate import Estimate
from disco.records.money import read_currency
from disco.views.charts import Axis, CurveChart, Line, Points
from disco.views.formats import Count, Money, Percent, Unit, estimate_text
from disco.views.table import Column, Table

_DEPTH = Axis("Depth of the code", Percent(decimals=0))
_BAND = "90% interval"


def best_offered(demand: Demand) -> DemandPoint | None:
    """The depth with the most revenue per code among those that were offered; None before any purchase."""
    offered = {round(point.depth, 6) for point in demand.observed}
    known = [point for point in demand.curve if round(point.depth, 6) in offered]
    return max(known or demand.curve, key=lambda point: point.revenue_per_code.value, default=None)


def demand_words(demand: Demand, *, whose: str) -> str:
    """The answer in one sentence. whose: such as "the average customer"."""
    best = best_offered(demand)
    if best is None:
        return "Nothing was bought with a code yet, so demand is not known."
    money, unit = estimate_text(best.revenue_per_code, unit=_money(demand)), Percent()
    return (
        f"For {whose}, {depth_percent(best.depth)} brings most revenue per code: {money}; "
        f"{unit.text(best.engagement.value)} of receivers buy, for {_money(demand).text(best.basket.value)} before the "
        "discount."
    )


def extrapolation_words(demand: Demand) -> str:
    """Where the curve is a guess; empty: nowhere. An end that was offered is not called unoffered."""
    offered = {round(point.depth, 6) for point in demand.observed}
    ranges = []
    for is_guess, points in groupby(demand.curve, key=lambda point: point.extrapolated):
        run = list(points)
        if is_guess:
            first, last = (depth_percent(point.depth).removesuffix(" off") for point in (run[0], run[-1]))
            if first != last and run[0] is demand.curve[0] and round(run[-1].depth, 6) in offered:
                ranges.append(f"less than {last}")
            elif first != last and run[-1] is demand.curve[-1] and round(run[0].depth, 6) in offered:
                ranges.append(f"more than {first}")
            else:
                ranges.append(first if first == last else f"{first} to {last}")
    if not ranges:
        return ""
    several = f"{', '.join(ranges[:-1])} and {ranges[-1]}" if len(ranges) > 1 else ranges[0]
    return f"We have hardly ever offered {several}: there the dashed line is an extrapolation."


def revenue_chart(demand: Demand) -> CurveChart | None:
    """Revenue per code sent, used or not."""
    best = best_offered(demand)
    if best is None:
        return None
    return _chart(
        demand,
        lambda point: point.revenue_per_code,
        title=f"Revenue per code is highest at {depth_percent(best.depth)}, among the depths that were offered",
        subtitle="Expected revenue of a code sent, whether it is used or not",
        y=Axis("Revenue per code", _money(demand)),
    )


def engagement_chart(demand: Demand) -> CurveChart | None:
    """The share of receivers who buy."""
    seen = [(one.depth, one.engagement) for one in demand.observed if one.engagement is not None]
    return _chart(
        demand,
        lambda point: point.engagement,
        title=_change(
            "Share who buy",
            demand,
            lambda point: point.engagement,
            Percent(),
            more="More receivers buy",
            less="Fewer receivers buy",
        ),
        subtitle="Share of those with a code who buy with it",
        y=Axis("Share who buy", Percent()),
        seen=seen,
    )


def basket_chart(demand: Demand) -> CurveChart | None:
    """What those who buy spend, before the discount."""
    return _chart(
        demand,
        lambda point: point.basket,
        title=_change(
            "Basket",
            demand,
            lambda point: point.basket,
            _money(demand),
            more="Baskets are larger",
            less="Baskets are smaller",
        ),
        subtitle="Basket before the discount, if they buy. Points: those who bought, who tend to spend more",
        y=Axis("Basket", _money(demand)),
        seen=[(one.depth, one.mean_basket) for one in demand.observed],
    )


def curve_table(demand: Demand) -> Table:
    """The curve, one row per depth."""
    return Table.of(
        "Expected at each depth",
        demand.curve,
        {
            "Depth": lambda point: depth_percent(point.depth),
            Column("Revenue per code (90%)", _money(demand)): lambda point: point.revenue_per_code,
            Column("Share who buy (90%)", Percent()): lambda point: point.engagement,
            Column("Basket (90%)", _money(demand)): lambda point: point.basket,
            "Known": lambda point: "extrapolated" if point.extrapolated else "from purchases",
        },
    )


def observed_table(demand: Demand) -> Table:
    """What was seen, one row per depth that was bought with."""
    return Table.of(
        "What was seen",
        demand.observed,
        {
            "Depth": lambda one: depth_percent(one.depth),
            Column("Codes that expired", Count()): lambda one: one.codes or None,
            Column("Purchases", Count()): lambda one: one.purchases,
            Column("Share who bought", Percent()): lambda one: one.engagement,
            Column("Average basket", _money(demand)): lambda one: one.mean_basket,
        },
    )


def _money(demand: Demand) -> Money:
    return Money(read_currency(demand.currency))


def _change(
    what: str, demand: Demand, figure: Callable[[DemandPoint], Estimate], unit: Unit, *, more: str, less: str
) -> str:
    """From the shallowest to the deepest discount that was offered. more, less: how a rise and a fall are said."""
    offered = {round(point.depth, 6) for point in demand.observed}
    known = [point for point in demand.curve if round(point.depth, 6) in offered] or list(demand.curve)
    if not known:
        return what
    first, last = known[0], known[-1]
    here = f"{unit.text(figure(first).value)} at {depth_percent(first.depth)}"
    if first is last:
        return f"{what}: {here}"
    rises = figure(last).value >= figure(first).value
    return f"{more if rises else less} with deeper codes: {here}, {unit.text(figure(last).value)} at " + depth_percent(
        last.depth
    )


def _chart(
    demand: Demand,
    figure: Callable[[DemandPoint], Estimate],
    *,
    title: str,
    subtitle: str,
    y: Axis,
    seen: Sequence[tuple[float, float]] = (),
) -> CurveChart | None:
    if len(demand.curve) < 2:
        return None
    figures = [figure(point) for point in demand.curve]
    lower, upper = zip(*(one.ends or (one.value, one.value) for one in figures), strict=True)
    known = [point.depth for point in demand.curve if not point.extrapolated]
    points = [Points("Seen", [depth for depth, _ in seen], [value for _, value in seen])] if seen else []
    return CurveChart(
        title=title,
        subtitle=subtitle,
        x=_DEPTH,
        y=y,
        interval=_BAND,
        lines=[
            Line(
                "Expected",
                [point.depth for point in demand.curve],
                [one.value for one in figures],
                lower,
                upper,
                known=(known[0], known[-1]) if known else (-1.0, -1.0),
            )
        ],
        points=points,
        from_zero=True,
    )
