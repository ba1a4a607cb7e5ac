"""DISCO: which customer gets which discount code, decided exactly and learned from what customers buy.

Public names are loaded on first use, so that `import disco` and `disco --help` stay instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from disco.allocation import Allocation, allocate
    from disco.belief import (
        BasketModel,
        DistanceToDepth,
        Engagement,
        EngagementCounts,
        Evidence,
        LinearDepth,
        OneHotDepth,
        RadialBasis,
        SmoothSpline,
    )
    from disco.campaign import Belief, decide, learn
    from disco.features import ContextNetwork, build_features
    from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
    from disco.records.decisions import Audience, Decisions, Offer, Purchases

__version__ = "0.1.0"

_HOMES = {
    "disco.allocation": ("Allocation", "allocate"),
    "disco.belief": (
        "BasketModel",
        "DistanceToDepth",
        "Engagement",
        "EngagementCounts",
        "Evidence",
        "LinearDepth",
        "OneHotDepth",
        "RadialBasis",
        "SmoothSpline",
    ),
    "disco.campaign": ("Belief", "decide", "learn"),
    "disco.features": ("ContextNetwork", "build_features"),
    "disco.policy": ("EpsilonGreedy", "Greedy", "Random", "Thompson", "UpperConfidence"),
    "disco.records.decisions": ("Audience", "Decisions", "Offer", "Purchases"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Allocation",
    "Audience",
    "BasketModel",
    "Belief",
    "ContextNetwork",
    "Decisions",
    "DistanceToDepth",
    "Engagement",
    "EngagementCounts",
    "EpsilonGreedy",
    "Evidence",
    "Greedy",
    "LinearDepth",
    "Offer",
    "OneHotDepth",
    "Purchases",
    "RadialBasis",
    "Random",
    "SmoothSpline",
    "Thompson",
    "UpperConfidence",
    "__version__",
    "allocate",
    "build_features",
    "decide",
    "learn",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'disco' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
