"""The demo's report: what was decided, what it brought, what it was really worth, and what was learned."""

from dataclasses import asdict
from typing import Any

import numpy as np

from disco.entrypoints.demo.loop import CURVE_DEPTHS, DemoArm, DemoCampaign, DemoResult
from disco.records.arrays import Vector
from disco.records.depths import depth_label, depth_percent
from disco.records.estimate import Estimate
from disco.views.charts import Axis, BarChart, Bars, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.views.formats import Count, Money, Number, Percent, money, percent
from disco.views.page import Fact, Facts, Report, Section
from disco.views.table import Column, Table

_SIMULATED = "All customers, orders and purchases here are simulated."


def demo_report(result: DemoResult) -> Report:
    """The whole run as one page."""
    decided = _decided(result)
    return Report(
        title="DISCO demo: four campaigns of a simulated retailer",
        lead=headline(result),
        sections=[
            Section(
                "How good were the decisions?",
                "The simulation knows how every customer responds to every discount, so a decision can be valued "
                "without the luck of one campaign. Its expected revenue is compared with the same number of codes "
                "assigned at random, and with the best possible decision, which knows every customer's response. The "
                f"system maximises the objective, 3 × revenue − markdown.\n\n{learning_words(result)}",
                [_truth_facts(decided), truth_chart(result), _truth_table(result, decided)],
            ),
            Section(
                "What did the campaigns earn?",
                "What the simulated customers actually bought. Campaigns A and B assign codes at random, to learn "
                "from. C and D are decided by the system; their control group gets codes at random within its own "
                "share of the caps.",
                [_uplift_chart(decided), campaign_table(result, codes_per_depth=False)],
            ),
            Section(
                "Who got what?",
                "A forecast's range covers what the model does not know about baskets and about the share of customers "
                "who buy. It does not cover that big spenders also buy more often, nor that campaigns differ by "
                "channel.",
                [_codes_chart(result), _money_chart(result)],
                side_by_side=True,
            ),
            Section(
                "What has it learned?",
                "The typical basket of buyers before the discount, at every discount. The band is the model's "
                "uncertainty about the average buyer, narrow where codes were sent. It does not cover that customers "
                "may differ in ways the model's form cannot follow.",
                [curve_chart(result), _sd_chart(result)],
                side_by_side=True,
            ),
        ],
        footer=f"{_SIMULATED} Seed {result.seed}, {result.customers:,} customers. {_engagement(result)}",
    )


def _engagement(result: DemoResult) -> str:
    """Which engagement the decisions used."""
    if result.belief_after.head is None:
        return "Engagement: one rate per depth for everybody."
    return "Engagement: a rate per customer, from the network's engagement score."


def _decided(result: DemoResult) -> list[DemoCampaign]:
    return [campaign for campaign in result.campaigns if campaign.judgement is not None]


def headline(result: DemoResult) -> str:
    """The finding in one sentence: expected revenue of both decided campaigns against random codes."""
    judged = [campaign.judgement for campaign in result.campaigns if campaign.judgement]
    revenue, random = sum(j.revenue for j in judged), sum(j.random_revenue for j in judged)
    share, more = revenue / random - 1, "more" if revenue >= random else "less"
    return (
        f"DISCO's choices earned {percent(abs(share), decimals=0)} {more} revenue than random ones, "
        f"{money(abs(revenue - random))} {more} in {len(judged)} campaigns (simulated)."
    )


def learning_words(result: DemoResult) -> str:
    """Does it get better from campaign to campaign? One sentence, whichever way it went."""
    first = result.campaigns[2].judgement
    assert first is not None
    gain = result.again.objective / first.objective - 1
    change = "raises" if gain > 0 else "does not raise"
    return (
        f"Deciding campaign C again with everything learned since {change} its expected objective "
        f"({percent(gain, signed=True, decimals=2)})."
    )


def _truth_facts(decided: list[DemoCampaign]) -> Facts:
    facts = []
    for campaign in decided:
        judged = campaign.judgement
        assert judged is not None
        extra = money(judged.revenue - judged.random_revenue, signed=True)
        share = percent(judged.share_of_possible, decimals=0)
        note = f"{extra} compared with random codes; {share} of the best possible gain"
        facts.append(
            Fact(f"Campaign {campaign.name}: revenue", percent(judged.revenue_uplift, decimals=0, signed=True), note)
        )
    return Facts(facts)


def truth_chart(result: DemoResult) -> BarChart:
    decided = _decided(result)
    judged = [campaign.judgement for campaign in decided if campaign.judgement]
    better = sum(j.revenue > j.random_revenue for j in judged)
    return BarChart(
        title="DISCO's choices earn more than random codes in both campaigns"
        if better == len(judged)
        else f"DISCO's choices earn more than random codes in {better} of {len(judged)} campaigns",
        subtitle="Expected revenue of the same number of codes per discount; simulated",
        categories=[f"Campaign {campaign.name}" for campaign in decided],
        y=Axis("Expected revenue", Money()),
        bars=[
            Bars("DISCO", [j.revenue for j in judged]),
            Bars("Random", [j.random_revenue for j in judged], muted=True),
            Bars("Best possible", [j.oracle_revenue for j in judged]),
        ],
    )


def _truth_table(result: DemoResult, decided: list[DemoCampaign]) -> Table:
    rows = [(f"Campaign {campaign.name}", campaign.judgement) for campaign in decided]
    rows.append(("Campaign C decided again", result.again))
    uplift = Percent(signed=True)
    return Table(
        caption="Expected value of the decisions",
        columns=(
            "Decision",
            Column("Revenue", Money()),
            Column("Revenue uplift", uplift),
            Column("Objective", Number(decimals=0)),
            Column("Objective uplift", uplift),
            Column("of it: who gets a code", uplift),
            Column("of it: which discount", uplift),
            Column("Best possible objective uplift", uplift),
        ),
        rows=[
            (
                name,
                j.revenue,
                j.revenue_uplift,
                j.objective,
                j.objective_uplift,
                j.uplift_by_whom,
                j.uplift_by_depth,
                j.oracle_objective / j.random_objective - 1,
            )
            for name, j in rows
            if j is not None
        ],
        note="Compared with the same number of codes per discount, assigned at random. The objective is "
        "3 × revenue − markdown, which is not money; its two parts multiply to its uplift. Decided again: with "
        "everything learned from all four campaigns.",
    )


def _uplift_chart(decided: list[DemoCampaign]) -> IntervalChart:
    rows = [
        IntervalRow(f"Campaign {campaign.name}, {name}", measured.relative)
        for campaign in decided
        for name, measured in (("revenue", campaign.revenue_uplift), ("reward", campaign.reward_uplift))
        if measured is not None
    ]
    clear = [row for row in rows if row.estimate.lower is not None and row.estimate.lower > 0]
    return IntervalChart(
        title="Both campaigns beat their control group"
        if len(clear) == len(rows)
        else f"{len(clear)} of {len(rows)} uplifts are clear; one campaign is often too small to prove more",
        subtitle="Actual revenue and reward per customer, decided compared with control; reward is revenue − markdown",
        x=Axis("Uplift compared with control", Percent(signed=True)),
        rows=rows,
        interval="95% interval",
    )


def _codes_chart(result: DemoResult) -> BarChart:
    depths = sorted({depth for campaign in result.campaigns for depth in campaign.decided.codes})
    return BarChart(
        title="Deep discounts are scarce in the decided campaigns",
        subtitle="Codes sent, without the control group",
        categories=[f"Campaign {campaign.name}" for campaign in result.campaigns],
        y=Axis("Customers with a code", Count()),
        stacked=True,
        bars=[
            Bars(
                depth_percent(depth),
                [campaign.decided.codes.get(depth, 0) for campaign in result.campaigns],
                depth=depth,
            )
            for depth in depths
        ],
    )


def _money_chart(result: DemoResult) -> BarChart:
    forecast = [(c, c.decided.predicted_revenue) for c in result.campaigns if c.decided.predicted_revenue is not None]
    inside = [i.covers(c.decided.revenue) for c, i in forecast]
    ends = [i.ends or (i.value, i.value) for _, i in forecast]
    return BarChart(
        title=f"Actual revenue was inside the forecast range in {sum(inside)} of {len(inside)} campaigns",
        subtitle="Revenue of the codes sent: forecast before the launch, and actual",
        categories=[f"Campaign {c.name}" for c, _ in forecast],
        y=Axis("Revenue", Money()),
        interval="90% range",
        bars=[
            Bars(
                "Forecast",
                [i.value for _, i in forecast],
                [lower for lower, _ in ends],
                [upper for _, upper in ends],
            ),
            Bars("Actual", [c.decided.revenue for c, _ in forecast], muted=True),
        ],
    )


def curve_chart(result: DemoResult) -> CurveChart:
    mean, sd = result.belief_after.basket.predict(result.buyer_contexts, CURVE_DEPTHS)
    truth = result.buyer_log_full_price
    played = np.unique(result.observed.depth)
    observed = [np.log(result.observed.full_price[result.observed.depth == depth]) for depth in played]
    centre = np.array([part.mean() for part in observed])
    error = np.array([1.645 * part.std() / np.sqrt(part.size) for part in observed])
    known = (float(played.min()), float(played.max()))
    inside = (known[0] <= CURVE_DEPTHS) & (known[1] >= CURVE_DEPTHS)
    furthest = float(np.abs(np.expm1(mean - truth))[inside].max())
    return CurveChart(
        title=f"The learned curve is within {percent(furthest, decimals=0)} of the true one where codes were sent",
        subtitle="Typical basket of buyers before the discount; observed: codes assigned at random",
        x=Axis("Discount", Percent(decimals=0)),
        y=Axis("Full-price basket", Money()),
        interval="90% interval",
        lines=[
            Line("Learned", CURVE_DEPTHS, *_band(mean, sd), known=known),
            Line("Truth (simulated)", CURVE_DEPTHS, np.exp(truth), muted=True),
        ],
        points=[Points("Observed", played, np.exp(centre), np.exp(centre - error), np.exp(centre + error))],
    )


def _band(mean: Vector, sd: Vector) -> tuple[Vector, Vector, Vector]:
    """The middle and the ends of a 90% interval, in money."""
    return np.exp(mean), np.exp(mean - 1.645 * sd), np.exp(mean + 1.645 * sd)


def _sd_chart(result: DemoResult) -> CurveChart:
    before, after = (
        belief.basket.predict(result.buyer_contexts, CURVE_DEPTHS)[1]
        for belief in (result.belief_before, result.belief_after)
    )
    return CurveChart(
        title="Campaigns C and D reduced the uncertainty"
        if (after <= before).all()
        else "Campaigns C and D reduced the uncertainty where codes were sent",
        subtitle="Uncertainty of the average buyer's basket, ± one standard deviation, % of the basket",
        x=Axis("Discount", Percent(decimals=0)),
        y=Axis("Uncertainty", Percent()),
        from_zero=True,
        lines=[Line("After A and B", CURVE_DEPTHS, before, muted=True), Line("After all four", CURVE_DEPTHS, after)],
    )


# ---- the campaigns as a table for people and as JSON for machines --------------------------------------------------


def campaign_table(result: DemoResult, *, codes_per_depth: bool) -> Table:
    """Per campaign and group: customers, codes, forecast and actual money, uplift."""
    rows: list[tuple[str | float | Estimate | None, ...]] = []
    for campaign in result.campaigns:
        groups: list[tuple[str, DemoArm]] = [(campaign.name, campaign.decided)]
        if campaign.control is not None:
            groups.append((f"{campaign.name} control", campaign.control))
        for name, group in groups:
            own = group is campaign.decided
            rows.append(
                (
                    name,
                    campaign.decided_by if own else "at random",
                    group.customers,
                    _codes_words(group) if codes_per_depth else sum(group.codes.values()),
                    group.predicted_revenue,
                    group.revenue,
                    group.predicted_markdown,
                    group.markdown,
                    group.reward,
                    campaign.revenue_uplift.relative if own and campaign.revenue_uplift else None,
                )
            )
    return Table(
        caption="Campaign by campaign",
        columns=(
            "Campaign",
            "Decided",
            Column("Customers", Count()),
            "Codes per discount" if codes_per_depth else Column("Codes", Count()),
            Column("Forecast revenue", Money()),
            Column("Actual revenue", Money()),
            Column("Forecast markdown", Money()),
            Column("Actual markdown", Money()),
            Column("Reward", Money()),
            Column("Revenue uplift vs control", Percent(signed=True)),
        ),
        rows=rows,
        note="Forecasts with 90% ranges, uplift with a 95% interval. There is no forecast before the first purchases "
        "are learned. Campaign D goes out by e-mail, is valid for a month and uses discounts never tried before, so "
        "its forecast is an extrapolation.",
    )


def _codes_words(group: DemoArm) -> str:
    return " · ".join(f"{depth_percent(depth).removesuffix(' off')}: {codes:,}" for depth, codes in group.codes.items())


def demo_json(result: DemoResult) -> dict[str, Any]:
    """The run for machines."""

    def arm(figures: DemoArm | None) -> dict[str, Any] | None:
        if figures is None:
            return None
        return {
            **asdict(figures),
            "codes": {depth_label(d): n for d, n in figures.codes.items()},
            "reward": figures.reward,
        }

    return {
        "simulated": True,
        "seed": result.seed,
        "customers": result.customers,
        "engagement": "per depth" if result.belief_after.head is None else "per customer",
        "campaigns": [
            {
                "campaign": c.name,
                "decided_by": c.decided_by,
                "valid_from": c.plan.valid.start.isoformat(),
                "decided": arm(c.decided),
                "control": arm(c.control),
                "revenue_uplift": asdict(c.revenue_uplift) if c.revenue_uplift else None,
                "reward_uplift": asdict(c.reward_uplift) if c.reward_uplift else None,
                "by_truth": {
                    **asdict(c.judgement),
                    "objective_uplift": c.judgement.objective_uplift,
                    "revenue_uplift": c.judgement.revenue_uplift,
                    "share_of_possible": c.judgement.share_of_possible,
                }
                if c.judgement
                else None,
                "accuracy": asdict(c.accuracy) if c.accuracy else None,
                "prices": {depth_label(d): p for d, p in c.prices.items()},
            }
            for c in result.campaigns
        ],
        "campaign_c_decided_again": {
            "objective_uplift": result.again.objective_uplift,
            "learning": learning_words(result),
        },
    }
