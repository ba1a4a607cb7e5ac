"""Budgets of small rounds, solved to the end: one search for whoever allocates, decides, plans or replays.

`search` is the driver. It asks `exchanges` for allocations that meet the bound, and `lists` for all allocations that
could be better; `options` is the table of what each customer could get, and what each place loses.
"""

from disco.allocation.small.search import Relaxed, SearchEnd, search_to_the_end

__all__ = ["Relaxed", "SearchEnd", "search_to_the_end"]
