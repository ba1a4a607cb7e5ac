"""From a plan to codes in the store: split the arms, decide each by its rule, make codes, commit once."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from disco import objective
from disco.campaign import Belief, decide, expected_at_choice
from disco.operations.arms import assign_at_random, share_offers, split
from disco.operations.codes import make_codes
from disco.policy import Policy, policy_named
from disco.records.arrays import Integers, Vector
from disco.records.decisions import Arm, Audience, Decisions, Offer
from disco.records.plan import Plan
from disco.records.ports import Engine, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A campaign as it was decided. `decisions` has one row per customer in the order of the audience; `test` is the
    policy's own decision, None when the campaign is random."""

    plan: Plan
    offer: Offer
    decisions: pa.Table
    test: Decisions | None


def offer_of(plan: Plan, *, eligible: int) -> Offer:
    """The plan's limits in customers and money; what is reserved of each cap stays back for late arrivals."""
    floors = plan.floors(eligible)
    now = 1 - plan.reserve.share
    return Offer(
        depths=plan.offered,
        caps=tuple(None if cap is None else int(cap * now + 1e-9) for cap in plan.caps(eligible)),
        revenue_weight=plan.objective.revenue_weight,
        floors=floors if any(floors) else None,
        budget=plan.budget,
    )


def launch(
    plan: Plan,
    audience: Audience,
    *,
    belief: Belief,
    store: Store,
    secret: bytes,
    engine: Engine | None = None,
) -> Launched:
    """Decide every customer of the audience and commit decisions and codes in one transaction."""
    offer = offer_of(plan, eligible=len(audience))
    arms = split(
        audience.ids, control=plan.control.share, holdout=plan.holdout.share, seed=plan.seed, campaign=plan.campaign
    )
    coded = int(arms[Arm.TEST].sum() + arms[Arm.CONTROL].sum())
    choice = np.full(len(audience), -1, np.int64)
    value = np.zeros(len(audience))
    test = None
    for arm in (Arm.TEST, Arm.CONTROL):
        rows = np.flatnonzero(arms[arm])
        if not rows.size:
            continue
        members, part = audience.take(rows), share_offers(offer, [rows.size, coded - rows.size])[0]
        if arm is Arm.TEST and plan.policy.name != "random":
            test = decide(
                members,
                belief=belief,
                offer=part,
                policy=_policy(plan),
                campaign=plan.campaign,
                seed=plan.seed,
                engine=engine,
            )
            choice[rows], value[rows] = test.choice, test.value
        else:
            choice[rows] = assign_at_random(
                members.ids, part, costs=_mean_costs(belief, members, part), seed=plan.seed, campaign=plan.campaign
            )
    table = _table(plan, audience, arms, choice, value, belief)
    table = table.append_column("code", pa.array(_codes(table, plan.campaign, secret), pa.string()))
    store.launch(plan, table)
    return Launched(plan=plan, offer=offer, decisions=table, test=test)


def _policy(plan: Plan) -> Policy:
    settings: dict[str, object] = {}
    if plan.policy.name in ("thompson", "ucb"):
        settings["exploration"] = plan.policy.exploration
    if plan.policy.name == "thompson":
        settings["scope"] = plan.policy.scope
    return policy_named(plan.policy.name, **settings)


def _mean_costs(belief: Belief, audience: Audience, offer: Offer) -> Vector:
    """(K,) expected markdown of one code at each depth, averaged over customers; only a budget needs it."""
    depths = np.asarray(offer.depths)
    if offer.budget is None:
        return np.zeros(depths.size)
    full_price = belief.basket.expected_full_price(audience.context, depths)
    return np.asarray(objective.expected_markdown(full_price, depths, belief.engagement.rates(depths)).mean(axis=0))


def _table(
    plan: Plan, audience: Audience, arms: dict[Arm, np.ndarray], choice: Integers, value: Vector, belief: Belief
) -> pa.Table:
    depths = np.asarray(plan.offered)
    none = choice < 0
    arm = np.select([arms[Arm.TEST], arms[Arm.CONTROL]], [str(Arm.TEST), str(Arm.CONTROL)], str(Arm.HOLDOUT))
    seen = belief.basket.evidence.total_rows > 0
    columns = {
        "customer_id": pa.array(audience.ids),
        "arm": pa.array(arm, pa.string()),
        "depth": pa.array(np.append(depths, 0.0)[choice], mask=none),
        "value": pa.array(value),
        "known": pa.array(audience.known),
        "context": pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(audience.context).ravel()), audience.context.shape[1]
        ),
    }
    if seen:  # before any purchase was seen there is nothing to predict from
        expected = expected_at_choice(belief.basket, audience, depths, choice)
        rates = np.append(belief.engagement.rates(depths), 0.0)[choice]
    else:
        expected, rates = np.full(len(audience), np.nan), np.full(len(audience), np.nan)
        none = np.ones(len(audience), bool)
    columns["expected_full_price"] = pa.array(np.nan_to_num(expected), mask=none)
    columns["expected_engagement"] = pa.array(np.nan_to_num(rates), mask=none)
    return pa.table(columns)


def _codes(table: pa.Table, campaign: str, secret: bytes) -> list[str | None]:
    sent = table["depth"].is_valid().to_pylist()
    ids = table["customer_id"].to_pylist()
    codes = iter(
        make_codes(
            (customer for customer, has in zip(ids, sent, strict=True) if has), campaign=campaign, secret=secret
        ).to_pylist()
    )
    return [next(codes) if has else None for has in sent]
