"""Decisions and evidence are the same bytes on every machine and in every version.

A launched campaign is decided again by its late arrivals, its propensities and its audit, perhaps by a later version of
the program on another machine. So the figures below are a contract, not a sample: they change only together with a
migration of what is stored. Inputs come from the counter-based generator, prices are whole pennies, and everything
after them has a fixed order of summation.
"""

from hashlib import sha256

import numpy as np
import pytest

from disco.belief import BasketModel, Engagement, EngagementCounts, RadialBasis, SmoothSpline
from disco.campaign import Belief, decide
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
from disco.records.decisions import Audience, Offer
from disco.records.identity import customer_keys, uniforms
from disco.records.score import EngagementHead, ScoreBins

ROWS = 5000
DEPTHS = (0.1, 0.2, 0.4)
IDS = np.arange(ROWS) * 7 + 3


def _drawn(purpose: str) -> np.ndarray:
    return uniforms(customer_keys(IDS), 11, "fixed bytes", purpose)


def _context() -> np.ndarray:
    return np.stack([np.floor((_drawn(f"context {k}") * 8 - 4) * 65536) / 65536 for k in range(3)], axis=1)


def _model(encoding: object) -> BasketModel:
    depth = np.asarray(DEPTHS)[(_drawn("depth") * 3).astype(int)]
    pennies = np.floor(1000 + 9000 * _drawn("price") + 4000 * depth)
    return BasketModel(encoding=encoding).update(_context(), depth, pennies / 100)


def _hash(*arrays: object) -> str:
    digest = sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


MODELS = {
    "radial_basis": RadialBasis(centres=(0.1, 0.4), gamma=5),
    "spline": SmoothSpline(),
}
POLICIES = {
    "thompson": Thompson(),
    "thompson by round": Thompson(scope="round"),
    "ucb": UpperConfidence(),
    "epsilon_greedy": EpsilonGreedy(),
    "greedy": Greedy(),
    "random": Random(),
}
EVIDENCE = {
    "radial_basis": ("6a55d5586e62e760", "a7b9ac23953a0098"),
    "spline": ("6a55d5586e62e760", "64d8442b06866f65"),
}
DECIDED = {
    ("thompson", None): "1636c70afca9faee",
    ("thompson", 2000.0): "7f0d0da91db6a207",
    ("thompson by round", None): "454804edd279fa5f",
    ("thompson by round", 2000.0): "a169b87825e5f2a0",
    ("ucb", None): "687fbc21bb7b929e",
    ("ucb", 2000.0): "086c8560e97f2361",
    ("epsilon_greedy", None): "736a5e3e386ba347",
    ("epsilon_greedy", 2000.0): "115cdf87ed57a57d",
    ("greedy", None): "8df27c1c9caba277",
    ("greedy", 2000.0): "b40bfa663920e713",
    ("random", None): "0d8a67888eb2282e",
    ("random", 2000.0): "78ff33287be4169c",
}


PERSONAL = {
    "thompson": "71dafa93450ba556",
    "thompson by round": "1cd11f96684817c4",
    "greedy": "18d1abb9bea343cc",
}


@pytest.mark.parametrize("name", MODELS)
def test_evidence_and_model_keep_their_bytes(name):
    model = _model(MODELS[name])
    assert (model.evidence.hash[:16], model.hash[:16]) == EVIDENCE[name]


@pytest.mark.parametrize("budget", [None, 2000.0])
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_keeps_its_decisions(name, budget):
    known = dict(zip(DEPTHS, (0.10101214574898786, 0.12024291497975709, 0.15870445344129555), strict=True))
    decisions = decide(
        Audience(ids=IDS, context=_context(), known=np.ones(ROWS, bool)),
        belief=Belief(basket=_model(MODELS["radial_basis"]), engagement=Engagement(override=known)),
        offer=Offer(depths=DEPTHS, caps=(900, 600, None), revenue_weight=3.0, budget=budget),
        policy=POLICIES[name],
        campaign="spring",
        seed=42,
    )
    assert _hash(decisions.choice, decisions.value, decisions.prices) == DECIDED[name, budget]


@pytest.mark.parametrize("name", PERSONAL)
def test_decisions_with_own_engagement_keep_their_bytes(name):
    head = EngagementHead([0.0, 0.25, -0.5, 0.0], ScoreBins([-0.5, 0.0, 0.5], [-0.75, -0.25, 0.25, 0.75]))
    context = _context()
    depth = np.asarray(DEPTHS)[(_drawn("code") * 3).astype(int)]
    used = _drawn("used") < 0.05 + 0.2 * depth + 0.05 * (head.scores(context) > 0)
    counts = EngagementCounts.of(depth, used, score=head.scores(context), bins=head.bins)
    decisions = decide(
        Audience(ids=IDS, context=context, known=np.ones(ROWS, bool)),
        belief=Belief(basket=_model(MODELS["radial_basis"]), engagement=Engagement(counts=counts), head=head),
        offer=Offer(depths=DEPTHS, caps=(900, 600, None), revenue_weight=3.0, budget=2000.0),
        policy=POLICIES[name],
        campaign="spring",
        seed=42,
    )
    assert _hash(decisions.choice, decisions.value, decisions.prices, decisions.engagement) == PERSONAL[name]
