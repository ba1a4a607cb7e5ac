"""The demo's report: what was decided, what came of it, how good it really was, and what was learned."""

from dataclasses import asdict
from typing import Any

import numpy as np

from disco.evaluation import Uplift
from disco.operations.forecast import Interval
from disco.records.depths import depth_label, depth_percent
from disco.reports import (
    Axis,
    BarChart,
    Bars,
    Column,
    Count,
    CurveChart,
    Estimate,
    Fact,
    Facts,
    IntervalChart,
    IntervalRow,
    Line,
    Money,
    Percent,
    Points,
    Report,
    Section,
    Table,
)
from disco.reports.formats import percent
from disco.studies.demo.loop import CURVE_DEPTHS, DemoArm, DemoCampaign, DemoResult

_SIMULATED = "All customers, orders and answers here are simulated."


def demo_report(result: DemoResult) -> Report:
    """The whole run as one page."""
    decided = _decided(result)
    return Report(
        title="DISCO demo: four campaigns of a simulated retailer",
        lead=_lead(result, decided),
        sections=[
            Section(
                "How good were the decisions?",
                "A simulation knows each customer's true demand, so a decision can be judged without the luck of one "
                "campaign: its expected objective (3 × revenue − markdown) beside random allocation with the same "
                "number of codes per depth, and beside an oracle that knows every customer.",
                [_truth_facts(decided), truth_chart(result), _truth_table(result, decided)],
            ),
            Section(
                "What did the campaigns earn?",
                "What the simulated customers then really bought, noise included. Campaigns A and B are random, to "
                "learn from; C and D are decided by the system, with a control group that gets its codes at random "
                "within its own share of the caps.",
                [_uplift_chart(decided), campaign_table(result, codes_per_depth=False)],
            ),
            Section(
                "Who got what?",
                "A prediction's interval covers what the model does not know about demand and engagement. It does not "
                "cover that big spenders also buy more often, nor that campaigns differ by channel.",
                [_codes_chart(result), _money_chart(result)],
                side_by_side=True,
            ),
            Section(
                "What has it learned?",
                "Demand of the average customer over depth: the basket before the discount, given a purchase. The band "
                "is the uncertainty of the average curve, which narrows where codes were played. The truth is the "
                "average over all customers; buyers, from whom is learned, spend somewhat more.",
                [curve_chart(result), _sd_chart(result)],
                side_by_side=True,
            ),
        ],
        footer=f"{_SIMULATED} Seed {result.seed}, {result.customers:,} customers.",
    )


def _decided(result: DemoResult) -> list[DemoCampaign]:
    return [campaign for campaign in result.campaigns if campaign.judgement is not None]


def _lead(result: DemoResult, decided: list[DemoCampaign]) -> str:
    parts = [
        f"{percent(campaign.judgement.objective_uplift, signed=True)} in campaign {campaign.name}"
        for campaign in decided
        if campaign.judgement
    ]
    return (
        f"Judged by the simulation's truth, the codes the system gave are worth {' and '.join(parts)} against the same "
        f"codes given at random; {learning_words(result)}"
    )


def _truth_facts(decided: list[DemoCampaign]) -> Facts:
    facts = []
    for campaign in decided:
        judged = campaign.judgement
        assert judged is not None
        note = f"of what an oracle would gain in campaign {campaign.name}"
        facts.append(Fact(f"Campaign {campaign.name}", percent(judged.share_of_possible, decimals=0), note))
    return Facts(facts)


def truth_chart(result: DemoResult) -> BarChart:
    decided = _decided(result)
    judged = [campaign.judgement for campaign in decided if campaign.judgement]
    return BarChart(
        title="Most of the gain is choosing whom; the depth adds less"
        if all(abs(j.uplift_by_whom) >= abs(j.uplift_by_depth) for j in judged)
        else "Where the gain comes from",
        subtitle="Expected objective against random allocation with the same codes, simulated truth",
        categories=[f"Campaign {campaign.name}" for campaign in decided],
        y=Axis("Uplift of the objective", Percent(signed=True)),
        bars=[
            Bars("Who gets a code", [j.uplift_by_whom for j in judged]),
            Bars("Which depth they get", [j.uplift_by_depth for j in judged]),
            Bars("Oracle, all in all", [j.oracle_objective / j.random_objective - 1 for j in judged], muted=True),
        ],
    )


def _truth_table(result: DemoResult, decided: list[DemoCampaign]) -> Table:
    rows = [(f"Campaign {campaign.name}", campaign.judgement) for campaign in decided]
    rows.append(("Campaign C decided again, all learned", result.again))
    return Table(
        caption="Expected worth of the decisions, by the simulation's truth",
        columns=(
            "Decision",
            Column("Revenue", Money()),
            Column("Uplift of revenue", Percent(signed=True)),
            Column("Objective", Money()),
            Column("Uplift of objective", Percent(signed=True)),
            Column("Oracle's uplift", Percent(signed=True)),
        ),
        rows=[
            (
                name,
                j.revenue,
                j.revenue_uplift,
                j.objective,
                j.objective_uplift,
                j.oracle_objective / j.random_objective - 1,
            )
            for name, j in rows
            if j is not None
        ],
        note="Uplift: against random allocation with the same number of codes per depth.",
    )


def _uplift_chart(decided: list[DemoCampaign]) -> IntervalChart:
    rows = [
        IntervalRow(f"Campaign {campaign.name}, {name}", _estimate(measured))
        for campaign in decided
        for name, measured in (("revenue", campaign.revenue_uplift), ("reward", campaign.reward_uplift))
        if measured is not None
    ]
    clear = [row for row in rows if row.estimate.lower is not None and row.estimate.lower > 0]
    return IntervalChart(
        title="Both campaigns beat their control group"
        if len(clear) == len(rows)
        else "One campaign is too small to prove each uplift",
        subtitle="Per customer, against the control group, as realised; reward is revenue − markdown",
        x=Axis("Uplift against control", Percent(signed=True)),
        rows=rows,
        interval="95 % interval",
    )


def _codes_chart(result: DemoResult) -> BarChart:
    depths = sorted({depth for campaign in result.campaigns for depth in campaign.test.codes})
    return BarChart(
        title="Deep codes are scarce in the decided campaigns",
        subtitle="Codes sent by the system or at random, control group left out",
        categories=[f"Campaign {campaign.name}" for campaign in result.campaigns],
        y=Axis("Customers with a code", Count()),
        stacked=True,
        bars=[
            Bars(
                depth_percent(depth), [campaign.test.codes.get(depth, 0) for campaign in result.campaigns], depth=depth
            )
            for depth in depths
        ],
    )


def _money_chart(result: DemoResult) -> BarChart:
    predicted = [c for c in result.campaigns if c.test.predicted_revenue is not None]
    intervals = [c.test.predicted_revenue for c in predicted if c.test.predicted_revenue]
    inside = [i.lower <= c.test.revenue <= i.upper for c, i in zip(predicted, intervals, strict=True)]
    return BarChart(
        title=f"Revenue fell into its predicted interval in {sum(inside)} of {len(inside)} campaigns",
        subtitle="Revenue of the codes sent, predicted before the launch and realised",
        categories=[f"Campaign {c.name}" for c in predicted],
        y=Axis("Revenue", Money()),
        interval="90 % interval",
        bars=[
            Bars("Predicted", [i.mean for i in intervals], [i.lower for i in intervals], [i.upper for i in intervals]),
            Bars("Realised", [c.test.revenue for c in predicted], muted=True),
        ],
    )


def curve_chart(result: DemoResult) -> CurveChart:
    mean, sd = _average_curve(result)
    played = np.unique(result.observed.depth)
    observed = [np.log(result.observed.full_price[result.observed.depth == depth]) for depth in played]
    centre = np.array([part.mean() for part in observed])
    error = np.array([1.645 * part.std() / np.sqrt(part.size) for part in observed])
    known = (float(played.min()), float(played.max()))
    inside = (known[0] <= CURVE_DEPTHS) & (known[1] >= CURVE_DEPTHS)
    furthest = float(np.abs(np.expm1(mean - result.true_log_full_price))[inside].max())
    return CurveChart(
        title=f"The learned curve stays within {percent(furthest, decimals=0)} of the true one where codes were played",
        subtitle="Typical basket before the discount, average customer, £; observed: codes dealt at random, A to D",
        x=Axis("Depth of the code", Percent(decimals=0)),
        y=Axis("Full-price basket", Money()),
        interval="90 % interval",
        lines=[
            Line(
                "Learned",
                CURVE_DEPTHS,
                np.exp(mean),
                np.exp(mean - 1.645 * sd),
                np.exp(mean + 1.645 * sd),
                known=known,
            ),
            Line("Truth (simulated)", CURVE_DEPTHS, np.exp(result.true_log_full_price), muted=True),
        ],
        points=[Points("Observed", played, np.exp(centre), np.exp(centre - error), np.exp(centre + error))],
    )


def _average_curve(result: DemoResult) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of ln F for the average context: the curve is linear in the context, so the average is exact."""
    average = result.contexts.mean(axis=0, keepdims=True)
    return result.belief_after.basket.predict(np.repeat(average, CURVE_DEPTHS.size, axis=0), CURVE_DEPTHS)


def _sd_chart(result: DemoResult) -> CurveChart:
    average = np.repeat(result.contexts.mean(axis=0, keepdims=True), CURVE_DEPTHS.size, axis=0)
    before, after = (
        belief.basket.predict(average, CURVE_DEPTHS)[1] for belief in (result.belief_before, result.belief_after)
    )
    return CurveChart(
        title="Every campaign narrows what is unknown",
        subtitle="Uncertainty of the average basket, ± one standard deviation, % of the basket",
        x=Axis("Depth of the code", Percent(decimals=0)),
        y=Axis("Uncertainty", Percent()),
        from_zero=True,
        lines=[Line("After A and B", CURVE_DEPTHS, before, muted=True), Line("After all four", CURVE_DEPTHS, after)],
    )


# ---- the campaigns as a table for people and as JSON for machines --------------------------------------------------


def learning_words(result: DemoResult) -> str:
    """Does it get better from campaign to campaign? One sentence, whichever way it went."""
    first = result.campaigns[2].judgement
    assert first is not None
    gain = result.again.objective / first.objective - 1
    better = "adds" if gain > 0 else "does not help: it changes the objective by"
    return (
        f"deciding campaign C again with all that was learned since {better} {percent(gain, signed=True, decimals=2)}."
    )


def _estimate(measured: Uplift) -> Estimate:
    return Estimate(measured.relative, measured.lower, measured.upper)


def _between(interval: Interval | None) -> Estimate | None:
    return None if interval is None else Estimate(interval.mean, interval.lower, interval.upper)


def campaign_table(result: DemoResult, *, codes_per_depth: bool) -> Table:
    """Per campaign and arm: customers, codes, predicted and realised money, uplift."""
    rows: list[tuple[str | float | Estimate | None, ...]] = []
    for campaign in result.campaigns:
        arms: list[tuple[str, DemoArm]] = [(campaign.name, campaign.test)]
        if campaign.control is not None:
            arms.append((f"{campaign.name} control", campaign.control))
        for name, arm in arms:
            own = arm is campaign.test and campaign.revenue_uplift is not None
            rows.append(
                (
                    name,
                    campaign.decided_by if arm is campaign.test else "at random",
                    arm.customers,
                    _codes_words(arm) if codes_per_depth else sum(arm.codes.values()),
                    _between(arm.predicted_revenue),
                    arm.revenue,
                    _between(arm.predicted_markdown),
                    arm.markdown,
                    arm.reward,
                    _estimate(campaign.revenue_uplift) if own and campaign.revenue_uplift else None,
                )
            )
    return Table(
        caption="Campaign by campaign",
        columns=(
            "Campaign",
            "Decided",
            Column("Customers", Count()),
            "Codes per depth" if codes_per_depth else Column("Codes", Count()),
            Column("Revenue predicted", Money()),
            Column("realised", Money()),
            Column("Markdown predicted", Money()),
            Column("realised ", Money()),
            Column("Reward", Money()),
            Column("Revenue uplift vs control", Percent(signed=True)),
        ),
        rows=rows,
        note="Predictions with 90 % intervals, uplift with 95 %. Before any purchase was seen there is nothing to "
        "predict. Campaign D goes out by e-mail, valid for a month, at depths never tried before: its prediction "
        "extrapolates.",
    )


def _codes_words(arm: DemoArm) -> str:
    return " · ".join(f"{depth_percent(depth).removesuffix(' off')}: {codes:,}" for depth, codes in arm.codes.items())


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
        "campaigns": [
            {
                "campaign": c.name,
                "decided_by": c.decided_by,
                "valid_from": c.plan.valid.start.isoformat(),
                "test": arm(c.test),
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
