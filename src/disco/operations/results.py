"""What came of a campaign: each arm in money, the A/B test between them, and what a test of this size can show."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from disco.evaluation import AbTest, Design, ab_test
from disco.evaluation.arms import ArmOutcomes, ArmSummary
from disco.operations.ledger import counts_in
from disco.operations.lessons import has_matured
from disco.operations.orders import revenue_beside
from disco.operations.purchases import bought
from disco.records.arrays import Flags, Vector
from disco.records.decisions import Arm, IngestCounts
from disco.records.errors import InputError
from disco.records.life import CampaignRecord
from disco.records.ports import Store

_POWER = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """One arm in sums; codes by depth; expected_*: what the plan expected of these codes, None before any belief."""

    summary: ArmSummary
    codes: Mapping[float, int]
    expected_revenue: float | None
    expected_markdown: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResults:
    """arms: customers of the launch · late: those who came after it, in no arm of the test · final: all codes have run
    out, the grace period too · ab: None where there is nothing to compare, `why_not` says why · detectable: the least
    relative change of revenue per customer that this many customers show with a chance of 80 %."""

    record: CampaignRecord
    as_of: date
    final: bool
    counts: IngestCounts
    arms: Mapping[Arm, ArmResult]
    late: ArmResult | None
    ab: AbTest | None
    why_not: str | None
    detectable: float | None


def read_out(store: Store, campaign: str, *, as_of: date, orders: pa.Table | None = None) -> CampaignResults:
    """Read a campaign out as its ledger stands.

    orders: the retailer's orders (customer_id, ordered_at, paid, code). With them the test knows what customers spent
    in the year before, which takes noise away, and what they bought without a code, which a holdout needs.
    """
    with store.reading() as shelves:
        record, decisions = shelves.campaign(campaign), shelves.decisions(campaign)
        full_price = bought(shelves, campaign, decisions)
        counts = counts_in(shelves, campaign)
    arm = np.asarray(decisions["arm"].to_pylist(), object)
    late = np.asarray(decisions["late"].to_numpy(), np.bool_)
    over = has_matured(record, as_of=as_of)
    ab, why_not = _test(record, decisions, full_price, arm, ~late, orders, final=over)
    return CampaignResults(
        record=record,
        as_of=as_of,
        final=over,
        counts=counts,
        arms={name: _arm_result(decisions, full_price, here) for name in Arm if (here := (arm == name) & ~late).any()},
        late=_arm_result(decisions, full_price, late) if late.any() else None,
        ab=ab,
        why_not=why_not,
        detectable=None if ab is None else _detectable(decisions, full_price, arm, ~late),
    )


def _arm_result(decisions: pa.Table, full_price: Vector, rows: Flags) -> ArmResult:
    part = decisions.filter(pa.array(rows))
    depth = part["depth"].to_numpy()
    outcomes = ArmOutcomes(depth=depth, full_price=full_price[rows], before=None, other_revenue=None)
    depths, codes = np.unique(depth[~np.isnan(depth)], return_counts=True)
    expected = np.nan_to_num(part["expected_full_price"].to_numpy() * part["expected_engagement"].to_numpy())
    foreseen = part["expected_full_price"].null_count < part.num_rows
    return ArmResult(
        summary=ArmSummary.of(outcomes),
        codes=dict(zip(depths.tolist(), codes.tolist(), strict=True)),
        expected_revenue=float((expected * (1 - np.nan_to_num(depth))).sum()) if foreseen else None,
        expected_markdown=float((expected * np.nan_to_num(depth)).sum()) if foreseen else None,
    )


def _test(
    record: CampaignRecord,
    decisions: pa.Table,
    full_price: Vector,
    arm: np.ndarray,
    on_time: Flags,
    orders: pa.Table | None,
    *,
    final: bool,
) -> tuple[AbTest | None, str | None]:
    plan = record.plan
    shares = {
        Arm.TEST: 1 - plan.control.share - plan.holdout.share,
        Arm.CONTROL: plan.control.share,
        Arm.HOLDOUT: plan.holdout.share,
    }
    if orders is None:  # a holdout without its other purchases would always seem to spend nothing
        shares.pop(Arm.HOLDOUT)
    rows = on_time & np.isin(arm, [str(name) for name, share in shares.items() if share > 0])
    test, control = (int((rows & (arm == name)).sum()) for name in (Arm.TEST, Arm.CONTROL))
    if min(test, control) < 2:
        few = f"With {test:,} customers decided and {control:,} in control there is nothing to compare."
        return None, few if control else "There is no control group to compare with."
    expected = np.nan_to_num(decisions["expected_engagement"].to_numpy())[rows].sum()
    if not final and expected < 1:
        return (
            None,
            "The campaign still runs, and nothing was expected of it by which a look before its end is planned.",
        )
    before, other = None, None
    if orders is not None:
        part = decisions.filter(pa.array(rows))
        before = revenue_beside(orders, part, _year_before(plan.customers.as_of))
        other = revenue_beside(orders, part, (plan.valid.start, plan.valid.end))
    found = ab_test(
        arm[rows],
        decisions["depth"].to_numpy()[rows],
        np.where(full_price[rows] > 0, full_price[rows], np.nan),
        revenue_weight=plan.objective.revenue_weight,
        before=before,
        other_revenue=other,
        shares={str(name): share for name, share in shares.items() if share > 0},
        final=final,
        planned_purchasers=None if final else round(float(expected)),
    )
    return found, None


def _year_before(day: date) -> tuple[date, date]:
    return day - timedelta(days=365), day


def _detectable(decisions: pa.Table, full_price: Vector, arm: np.ndarray, on_time: Flags) -> float | None:
    """From the control group's own revenue per customer."""
    depth = np.nan_to_num(decisions["depth"].to_numpy())
    revenue = (full_price * (1 - depth))[on_time & (arm == Arm.CONTROL)]
    test = int((on_time & (arm == Arm.TEST)).sum())
    customers = test + revenue.size
    try:
        design = Design(
            baseline=float(revenue.mean()), sd=float(revenue.std(ddof=1)), control_share=revenue.size / customers
        )
        return design.detectable_uplift(customers=customers, power=_POWER)
    except InputError:  # nobody bought, or everybody the same: there is no spread to plan with
        return None
