"""Values and limits to one depth (or none) per customer, with shadow prices and a certificate."""

from disco.allocation.allocate import allocate, allocate_offer, decide_late
from disco.allocation.frontier import FrontierPoint, frontier
from disco.allocation.limits import Segments
from disco.allocation.result import Allocation, Conflict, Status

__all__ = [
    "Allocation",
    "Conflict",
    "FrontierPoint",
    "Segments",
    "Status",
    "allocate",
    "allocate_offer",
    "decide_late",
    "frontier",
]
