"""How a bandit models baskets, and the policies that are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from disco.belief import BasketModel, RadialBasis, SmoothSpline
from disco.belief.encodings import Encoding
from disco.evaluation import UnconstrainedLearner
from disco.policy import EpsilonGreedy, Greedy, Policy, Random, Thompson, UpperConfidence

Player = Policy | UnconstrainedLearner


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A depth encoding with its prior. `automatic` chooses width and prior by marginal likelihood (`tuned`)."""

    name: str
    encoding: Encoding
    constant_precision: float | None = 1e-6
    automatic: bool = False

    def model(self, *, depth_scale: float) -> BasketModel:
        return BasketModel(encoding=self.encoding, constant_precision=self.constant_precision, depth_scale=depth_scale)


NARROW = Recipe(name="γ = 20", encoding=RadialBasis(gamma=20.0))
WIDE = Recipe(name="γ = 2", encoding=RadialBasis(gamma=2.0))
LITERAL = Recipe(name="literal", encoding=RadialBasis(alpha=20.0), constant_precision=None)
AUTOMATIC = Recipe(name="automatic", encoding=RadialBasis(gamma=20.0), automatic=True)
SPLINE = Recipe(name="spline", encoding=SmoothSpline())
RECIPES = (NARROW, WIDE, LITERAL, AUTOMATIC, SPLINE)

RANDOM = "Random"
THOMPSON = "TS-IP"
UCB = "UCB-IP"
EPSILON_GREEDY = "ε-greedy-IP"
GREEDY = "Greedy-IP"
ULCC = "TS-ULCC"

#: The paper's policies, each with its defaults: nothing is tuned.
PLAYERS: Mapping[str, Player] = MappingProxyType(
    {
        RANDOM: Random(),
        THOMPSON: Thompson(),
        UCB: UpperConfidence(),
        EPSILON_GREEDY: EpsilonGreedy(),
        GREEDY: Greedy(),
        ULCC: UnconstrainedLearner(policy=Thompson()),
    }
)
