"""Values and limits to one depth (or none) per customer, with shadow prices and a certificate."""

from disco.allocation.allocate import (
    FrontierPoint,
    TableAllocation,
    allocate,
    allocate_offer,
    allocate_table,
    decide_late,
    frontier,
)
from disco.allocation.limits import Segments
from disco.allocation.result import Allocation, Conflict, Status

__all__ = [
    "Allocation",
    "Conflict",
    "FrontierPoint",
    "Segments",
    "Status",
    "TableAllocation",
    "allocate",
    "allocate_offer",
    "allocate_table",
    "decide_late",
    "frontier",
]
