"""The demo's figures as a table for people and as JSON for machines."""

from dataclasses import asdict
from typing import Any

from disco.evaluation import Uplift
from disco.operations.forecast import Interval
from disco.records.depths import depth_label, depth_percent
from disco.reports import Column, Count, Estimate, Money, Percent, Table
from disco.reports.formats import percent
from disco.studies.demo.loop import DemoResult
from disco.studies.demo.results import ArmResult


def learning_words(result: DemoResult) -> str:
    """Does it get better from campaign to campaign? One sentence, whichever way it went."""
    first = result.campaigns[2].judgement
    assert first is not None
    gain = result.again.objective / first.objective - 1
    better = "adds" if gain > 0 else "does not help: it changes the objective by"
    return (
        f"deciding campaign C again with all that was learned since {better} {percent(gain, signed=True, decimals=2)}."
    )


def estimate_of(measured: Uplift) -> Estimate:
    return Estimate(measured.relative.value, measured.relative.lower, measured.relative.upper)


def _between(interval: Interval | None) -> Estimate | None:
    return None if interval is None else Estimate(interval.mean, interval.lower, interval.upper)


def campaign_table(result: DemoResult, *, codes_per_depth: bool) -> Table:
    """Per campaign and arm: customers, codes, predicted and realised money, uplift."""
    rows: list[tuple[str | float | Estimate | None, ...]] = []
    for campaign in result.campaigns:
        arms: list[tuple[str, ArmResult]] = [(campaign.name, campaign.test)]
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
                    estimate_of(campaign.revenue_uplift) if own and campaign.revenue_uplift else None,
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


def _codes_words(arm: ArmResult) -> str:
    return " · ".join(f"{depth_percent(depth).removesuffix(' off')}: {codes:,}" for depth, codes in arm.codes.items())


def demo_json(result: DemoResult) -> dict[str, Any]:
    """The run for machines."""

    def arm(figures: ArmResult | None) -> dict[str, Any] | None:
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
