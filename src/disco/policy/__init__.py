"""Belief → one full price per (customer, depth), and the probabilities of what a policy decides."""

from disco.policy.policies import EpsilonGreedy, Greedy, Policy, Random, Thompson, UpperConfidence, require_policy
from disco.records.errors import InputError

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
