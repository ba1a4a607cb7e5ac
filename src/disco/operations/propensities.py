"""How likely each decision was, so that the campaign's own log can be evaluated later. Off the critical path."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from disco.allocation import Allocation, allocate_offer
from disco.campaign import Belief, Figures, expected_costs
from disco.operations.arms import offer_of, share_offers
from disco.operations.plan import segment_sizes, segments_of
from disco.operations.versions import deciding_belief
from disco.policy import Policy, policy_of
from disco.policy.propensity import Propensities, propensities
from disco.records.arrays import Floats, Integers, Vector
from disco.records.decisions import Arm, Audience, Offer
from disco.records.plan import Plan
from disco.records.ports import Engine
from disco.records.result import Result
from disco.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PropensitiesResult(Result):
    """The probability of every decision of a launch, estimated and kept."""

    campaign: str
    """The name of the campaign."""
    decisions: int
    """Decisions that have their propensity now."""
    draws: int
    """Draws of the policy they were estimated from."""


def add_propensities(
    store: Store,
    campaign: str,
    *,
    prior: Belief,
    draws: int = 200,
    engine: Engine | None = None,
) -> PropensitiesResult:
    """Estimate and keep the probability of each decision of the launch. Running it again gives the same result.

    Decided: by fresh draws of the policy through the same limits. Control, and everybody in a random campaign: the
    share of the arm that got the depth. Holdout: 1, they never get a code. Late arrivals have none: they met other
    prices.
    """
    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
        decisions = decisions.filter(pa.array(~np.asarray(decisions["late"].to_numpy(), np.bool_)))
        rows = decisions["row"].to_numpy()
        contexts = transaction.contexts.of(campaign, record.network, rows)
        belief = deciding_belief(transaction, record, prior=prior)
    plan, arm = record.plan, np.asarray(decisions["arm"].to_pylist(), object)
    choice = chosen_columns(decisions, plan)
    probability, used = np.ones(rows.size), np.zeros(rows.size, np.int64)
    sizes = [int((arm == name).sum()) for name in (Arm.DECIDED, Arm.CONTROL)]
    segment = segments_of(decisions) if plan.segments is not None else None
    parts = share_offers(
        offer_of(plan, eligible=rows.size, segment_sizes=segment_sizes(decisions)),
        sizes,
        segment_sizes=[segment_sizes(decisions, arm == name) for name in (Arm.DECIDED, Arm.CONTROL)],
    )
    for name, part in zip((Arm.DECIDED, Arm.CONTROL), parts, strict=True):
        here = np.flatnonzero(arm == name)
        if not here.size:
            continue
        if name is Arm.CONTROL or plan.policy.assigns_at_random:
            # limits of segments differ, so the law is the same for all customers of a segment
            for label in {""} if segment is None else set(segment[here]):
                ours = here if segment is None else here[segment[here] == label]
                probability[ours] = _shares(choice[ours], depths=len(plan.offered))
            continue
        audience = Audience(
            ids=decisions["customer_id"].take(pa.array(here)).to_numpy(),
            context=contexts[here],
            known=decisions["known"].take(pa.array(here)).to_numpy(),
            segment=None if segment is None else segment[here],
        )
        found = decision_propensities(
            audience,
            belief=belief,
            offer=part
            if part.budget is None
            else replace(
                part,
                budget=part.budget / record.solution.budget_factor,
                cost_factors=record.solution.cost_factors,
            ),
            policy=policy_of(plan),
            campaign=campaign,
            seed=plan.seed,
            draws=draws,
            engine=engine,
        )
        probability[here], used[here] = found.played(choice[here]), found.draws
    with store.writing(campaign, action="propensities") as transaction:
        table = {"row": rows, "propensity": probability, "propensity_draws": used}
        transaction.decisions.set_propensities(
            campaign, pa.table({name: pa.array(column) for name, column in table.items()})
        )
        transaction.journal.note(decisions=int(rows.size), draws=draws)
    return PropensitiesResult(campaign=campaign, decisions=int(rows.size), draws=draws)


def decision_propensities(
    audience: Audience,
    *,
    belief: Belief,
    offer: Offer,
    policy: Policy,
    campaign: str,
    seed: int,
    draws: int = 200,
    engine: Engine | None = None,
) -> Propensities:
    """The law of every customer's depth, from the arguments of `decide`; `.played(decisions.choice)` is what to log.

    Nobody needs it before the codes are out. It costs as much as `draws` decisions for small campaigns, and as many
    draws without a solve for large ones.
    """
    costs = expected_costs(audience, belief=belief, offer=offer, engine=engine) if offer.budget is not None else None
    drawn = partial(
        Figures.of, audience, belief=belief, offer=replace(offer, budget=None), policy=policy, campaign=campaign
    )

    def solve(worth: Floats) -> Allocation:
        return allocate_offer(worth, audience, offer, costs=costs, where=f"campaign {campaign}", engine=engine)

    return propensities(
        policy,
        seed=seed,
        worth=lambda again: drawn(seed=again, engine=engine).values,
        solve=solve,
        costs=costs,
        draws=draws,
        # prices alone do not tell the segments apart
        method="auto" if offer.segments is None else "resolve",
    )


def chosen_columns(decisions: pa.Table, plan: Plan) -> Integers:
    """(n,) position of each decision's depth among those offered, -1 = no code."""
    depth = np.nan_to_num(decisions["depth"].to_numpy(), nan=-1.0)
    order = np.searchsorted(plan.offered, depth)
    return np.where(depth < 0, -1, order).astype(np.int64)


def _shares(choice: Integers, *, depths: int) -> Vector:
    """The share of the arm that got what each of its customers got."""
    shares = np.bincount(np.where(choice < 0, depths, choice), minlength=depths + 1) / choice.size
    return np.asarray(shares[choice])
