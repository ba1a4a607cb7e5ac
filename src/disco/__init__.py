"""DISCO: which customer gets which discount code, decided exactly and learned from what customers buy.

Public names are loaded on first use, so that `import disco` and `disco --help` stay instant.

Functions with an argument `engine` use the processors of this machine unless they are given another one. Inside the
package, and in methods, `engine=None` is the caller's own thread: the layers below `adapters` know no engine.
"""

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from disco.records import VERSION

if TYPE_CHECKING:  # `_HOME_OF` as type checkers read it; a test compares the two
    from disco import errors as errors
    from disco import testing as testing
    from disco.adapters.engines import LocalEngine as LocalEngine
    from disco.adapters.engines import SparkEngine as SparkEngine
    from disco.adapters.tables import open_tables as open_tables
    from disco.allocation import Allocation as Allocation
    from disco.allocation import Segments as Segments
    from disco.allocation import Status as Status
    from disco.allocation import TableAllocation as TableAllocation
    from disco.allocation import allocate as allocate
    from disco.allocation import allocate_table as allocate_table
    from disco.allocation import decide_late as decide_late
    from disco.allocation import frontier as frontier
    from disco.belief import BasketModel as BasketModel
    from disco.belief import DistanceToDepth as DistanceToDepth
    from disco.belief import Engagement as Engagement
    from disco.belief import EngagementCounts as EngagementCounts
    from disco.belief import Evidence as Evidence
    from disco.belief import LinearDepth as LinearDepth
    from disco.belief import OneHotDepth as OneHotDepth
    from disco.belief import Prior as Prior
    from disco.belief import RadialBasis as RadialBasis
    from disco.belief import SmoothSpline as SmoothSpline
    from disco.belief import demand_curve as demand_curve
    from disco.campaign import Belief as Belief
    from disco.campaign import Lesson as Lesson
    from disco.campaign import decide as decide
    from disco.campaign import learn as learn
    from disco.entrypoints.client import Client as Client
    from disco.entrypoints.own_test import ab as ab
    from disco.entrypoints.python import Shop as Shop
    from disco.evaluation.forecasting import forecast_policies as forecast_policies
    from disco.evaluation.log import random_log as random_log
    from disco.evaluation.off_policy import off_policy as off_policy
    from disco.evaluation.passes import UnconstrainedLearner as UnconstrainedLearner
    from disco.evaluation.read_out import ab_test as ab_test
    from disco.evaluation.replay import replay as replay
    from disco.features import CodesSent as CodesSent
    from disco.features import ContextNetwork as ContextNetwork
    from disco.features import Snapshot as Snapshot
    from disco.features import build_features as build_features
    from disco.features import has_history as has_history
    from disco.features import training_set as training_set
    from disco.office.webhooks.signatures import verify_webhook as verify_webhook
    from disco.operations.offline import decide_table as decide_table
    from disco.policy import EpsilonGreedy as EpsilonGreedy
    from disco.policy import Greedy as Greedy
    from disco.policy import Policy as Policy
    from disco.policy import Random as Random
    from disco.policy import Thompson as Thompson
    from disco.policy import UpperConfidence as UpperConfidence
    from disco.records.decisions import Audience as Audience
    from disco.records.decisions import Decisions as Decisions
    from disco.records.decisions import Offer as Offer
    from disco.records.decisions import Purchases as Purchases


__version__ = VERSION

_HOME_OF = {
    "errors": "disco",
    "testing": "disco",
    "LocalEngine": "disco.adapters.engines",
    "SparkEngine": "disco.adapters.engines",
    "open_tables": "disco.adapters.tables",
    "Allocation": "disco.allocation",
    "Segments": "disco.allocation",
    "Status": "disco.allocation",
    "TableAllocation": "disco.allocation",
    "allocate": "disco.allocation",
    "allocate_table": "disco.allocation",
    "decide_late": "disco.allocation",
    "frontier": "disco.allocation",
    "BasketModel": "disco.belief",
    "DistanceToDepth": "disco.belief",
    "Engagement": "disco.belief",
    "EngagementCounts": "disco.belief",
    "Evidence": "disco.belief",
    "LinearDepth": "disco.belief",
    "OneHotDepth": "disco.belief",
    "Prior": "disco.belief",
    "RadialBasis": "disco.belief",
    "SmoothSpline": "disco.belief",
    "demand_curve": "disco.belief",
    "Belief": "disco.campaign",
    "Lesson": "disco.campaign",
    "decide": "disco.campaign",
    "learn": "disco.campaign",
    "Client": "disco.entrypoints.client",
    "ab": "disco.entrypoints.own_test",
    "Shop": "disco.entrypoints.python",
    "ab_test": "disco.evaluation.read_out",
    "forecast_policies": "disco.evaluation.forecasting",
    "random_log": "disco.evaluation.log",
    "off_policy": "disco.evaluation.off_policy",
    "UnconstrainedLearner": "disco.evaluation.passes",
    "replay": "disco.evaluation.replay",
    "CodesSent": "disco.features",
    "ContextNetwork": "disco.features",
    "Snapshot": "disco.features",
    "build_features": "disco.features",
    "has_history": "disco.features",
    "training_set": "disco.features",
    "decide_table": "disco.operations.offline",
    "EpsilonGreedy": "disco.policy",
    "Greedy": "disco.policy",
    "Policy": "disco.policy",
    "Random": "disco.policy",
    "Thompson": "disco.policy",
    "UpperConfidence": "disco.policy",
    "Audience": "disco.records.decisions",
    "Decisions": "disco.records.decisions",
    "Offer": "disco.records.decisions",
    "Purchases": "disco.records.decisions",
    "verify_webhook": "disco.office.webhooks.signatures",
}
"""Public name → the module it comes from: the table that `disco.NAME` and `dir(disco)` go by."""
_SPREAD = ("allocate", "decide", "forecast_policies", "frontier", "replay")  # the functions with an argument `engine`
__all__ = sorted(["__version__", *_HOME_OF])


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        from difflib import get_close_matches

        near = get_close_matches(name.lower(), {each.lower() for each in __all__}, n=1)
        meant = next((each for each in __all__ if each.lower() in near), None)
        help_ = f"did you mean {meant!r}?" if meant else f"it has {', '.join(__all__)}"
        raise AttributeError(f"module 'disco' has no attribute {name!r}; {help_}", name=name, obj=None)
    if _HOME_OF[name] == "disco":  # a module of its own
        return import_module(f"disco.{name}")
    return _on_this_machine(name) if name in _SPREAD else getattr(import_module(_HOME_OF[name]), name)


@cache  # one object per name, so that it can be pickled
def _on_this_machine(name: str) -> Callable[..., Any]:
    """The function of this name, on a `LocalEngine` where it is given no engine."""
    function: Callable[..., Any] = getattr(import_module(_HOME_OF[name]), name)

    @wraps(function)
    def spread(*args: Any, **kwargs: Any) -> Any:
        from disco.adapters.engines import LocalEngine
        from disco.records.chunks import require_engine

        require_engine(kwargs.get("engine"))  # also where the data are so few that no engine would be asked
        if kwargs.get("engine") is None:
            kwargs["engine"] = LocalEngine()
        return function(*args, **kwargs)

    spread.__module__ = "disco"
    return spread


def __dir__() -> list[str]:
    return __all__
