"""DISCO: which customer gets which discount code, decided exactly and learned from what customers buy.

Public names are loaded on first use, so that `import disco` and `disco --help` stay instant.

Functions with an argument `engine` use the processors of this machine unless they are given another one. Inside the
package, and in methods, `engine=None` is the caller's own thread: the layers below `adapters` know no engine.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from disco.adapters.engines import LocalEngine
    from disco.allocation import Allocation, Segments, Status, allocate, decide_late, frontier
    from disco.belief import (
        BasketModel,
        DistanceToDepth,
        Engagement,
        EngagementCounts,
        Evidence,
        LinearDepth,
        OneHotDepth,
        Prior,
        RadialBasis,
        SmoothSpline,
        demand_curve,
    )
    from disco.campaign import Belief, Lesson, decide, learn
    from disco.evaluation.ab_test import ab_test
    from disco.evaluation.log import random_log
    from disco.evaluation.replay import replay
    from disco.evaluation.replay_pass import UnconstrainedLearner
    from disco.features import ContextNetwork, build_features, has_history, training_set
    from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
    from disco.records.decisions import Audience, Decisions, Offer, Purchases

__version__ = "0.1.0"

_HOMES = {
    "disco.adapters.engines": ("LocalEngine",),
    "disco.allocation": ("Allocation", "Segments", "Status", "allocate", "decide_late", "frontier"),
    "disco.belief": (
        "BasketModel",
        "DistanceToDepth",
        "Engagement",
        "EngagementCounts",
        "Evidence",
        "LinearDepth",
        "OneHotDepth",
        "Prior",
        "RadialBasis",
        "SmoothSpline",
        "demand_curve",
    ),
    "disco.campaign": ("Belief", "Lesson", "decide", "learn"),
    "disco.evaluation": ("UnconstrainedLearner", "ab_test", "random_log", "replay"),
    "disco.features": ("ContextNetwork", "build_features", "has_history", "training_set"),
    "disco.policy": ("EpsilonGreedy", "Greedy", "Random", "Thompson", "UpperConfidence"),
    "disco.records.decisions": ("Audience", "Decisions", "Offer", "Purchases"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SPREAD = ("allocate", "decide", "frontier", "replay")  # the functions with an argument `engine`

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
    "Lesson",
    "LinearDepth",
    "LocalEngine",
    "Offer",
    "OneHotDepth",
    "Prior",
    "Purchases",
    "RadialBasis",
    "Random",
    "Segments",
    "SmoothSpline",
    "Status",
    "Thompson",
    "UnconstrainedLearner",
    "UpperConfidence",
    "__version__",
    "ab_test",
    "allocate",
    "build_features",
    "decide",
    "decide_late",
    "demand_curve",
    "frontier",
    "has_history",
    "learn",
    "random_log",
    "replay",
    "training_set",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'disco' has no attribute {name!r}; it has {', '.join(__all__)}")
    found = getattr(import_module(_HOME_OF[name]), name)
    if name in _SPREAD:
        found = globals()[name] = _on_this_machine(found)  # one object per name, so that it can be pickled
    return found


def _on_this_machine(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, on a `LocalEngine` where it is given no engine."""

    @wraps(function)
    def spread(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("engine") is None:
            from disco.adapters.engines import LocalEngine

            kwargs["engine"] = LocalEngine()
        return function(*args, **kwargs)

    spread.__module__ = "disco"
    return spread


def __dir__() -> list[str]:
    return __all__
