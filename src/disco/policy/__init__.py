"""Belief → one full price per (customer, depth), and the probabilities of what a policy decides."""

from disco.policy.policies import (
    EpsilonGreedy,
    Greedy,
    Policy,
    Random,
    Thompson,
    UpperConfidence,
    rates_of_policy,
    require_policy,
)
from disco.records.errors import InputError
from disco.records.plan import Plan

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy for policy in (Thompson, UpperConfidence, EpsilonGreedy, Greedy, Random)
}

__all__ = [
    "POLICIES",
    "EpsilonGreedy",
    "Greedy",
    "Policy",
    "Random",
    "Thompson",
    "UpperConfidence",
    "policy_named",
    "policy_of",
    "rates_of_policy",
    "require_policy",
]


def policy_named(name: str, **settings: object) -> Policy:
    """A policy by the name used in plans and on the command line.

    >>> policy_named("ucb", exploration=2.0)
    UpperConfidence(exploration=2.0)
    """
    if name not in POLICIES:
        raise InputError("policy", found=repr(name), expected=f"one of {', '.join(POLICIES)}")
    try:
        return POLICIES[name](**settings)
    except TypeError as error:
        raise InputError(f"policy {name}", found=f"settings {sorted(settings)}", expected=str(error)) from None


def policy_of(plan: Plan) -> Policy:
    """The policy that a plan names, with its settings."""
    settings: dict[str, object] = {}
    if plan.policy.name in ("thompson", "ucb"):
        settings["exploration"] = plan.policy.exploration
    if plan.policy.name == "thompson":
        settings["scope"] = plan.policy.scope
    return policy_named(plan.policy.name, **settings)
