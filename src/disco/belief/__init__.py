"""Depth encodings ψ2, evidence, the posterior of ln(full price), engagement rates."""

from disco.belief.curves import DemandCurve, demand_curve, depth_experience, draw_full_price_totals, monotone_shares
from disco.belief.encodings import DistanceToDepth, Encoding, LinearDepth, OneHotDepth, Prior, RadialBasis, SmoothSpline
from disco.belief.engagement import Engagement
from disco.belief.evidence import EngagementCounts, Evidence
from disco.belief.model import BasketModel
from disco.belief.movement import Movement
from disco.belief.posterior import Posterior
from disco.records.score import EngagementHead, ScoreBins

__all__ = [
    "BasketModel",
    "DemandCurve",
    "DistanceToDepth",
    "Encoding",
    "Engagement",
    "EngagementCounts",
    "EngagementHead",
    "Evidence",
    "LinearDepth",
    "Movement",
    "OneHotDepth",
    "Posterior",
    "Prior",
    "RadialBasis",
    "ScoreBins",
    "SmoothSpline",
    "demand_curve",
    "depth_experience",
    "draw_full_price_totals",
    "monotone_shares",
]
