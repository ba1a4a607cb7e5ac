"""Caps of a replay: customers per depth and batch, as counts or as shares of the batch."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from disco.evaluation.figures import read_weight
from disco.records.decisions import Offer
from disco.records.depths import depth_label, read_depth
from disco.records.errors import InputError, LimitError

REVENUE_ALONE = 1e9  # w → ∞: markdown weighs a billionth of revenue, far below any difference that matters


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What may be decided per batch of `batch` customers: depths, cap per depth (None = no limit) and the weight w."""

    depths: tuple[float, ...]
    caps: tuple[int | None, ...]
    batch: int
    revenue_weight: float | None

    def offer(self, size: int, *, capped: bool = True) -> Offer:
        """The offer for a batch; in the last, shorter one the caps shrink with it, rounded down."""
        caps = tuple(None if cap is None else cap * size // self.batch for cap in self.caps)
        weight = REVENUE_ALONE if self.revenue_weight is None else self.revenue_weight
        return Offer(depths=self.depths, caps=caps if capped else (None,) * len(caps), revenue_weight=weight)


def read_batch_limits(
    caps: Mapping[float, int | float | None] | None,
    *,
    depths: tuple[float, ...],
    batch: int,
    rows: int,
    revenue_weight: float | None,
) -> BatchLimits:
    """Caps by depth: a whole number counts customers, a float is a share of the batch, None or absent is no limit.

    >>> read_batch_limits({0.2: 0.25, 0.1: 30}, depths=(0.1, 0.2), batch=100, rows=100, revenue_weight=None).caps
    (30, 25)
    """
    if isinstance(batch, bool) or not isinstance(batch, int | np.integer) or batch < 1:
        raise InputError("batch", found=repr(batch), expected="a whole number of customers, at least 1")
    if batch > rows:
        raise InputError(
            "batch",
            found=f"{batch:,} customers per batch, more than the {rows:,} rows that can be presented",
            expected="at most as many as the log has",
            fix="Choose a smaller batch, or bring a longer log.",
        )
    if revenue_weight is not None:
        read_weight(revenue_weight)
    if caps is not None and not isinstance(caps, Mapping):
        raise LimitError("caps", found=repr(caps), expected="caps by depth, such as {0.1: 0.25, 0.2: 500}")
    given = {read_depth(depth, where="caps"): _read_cap(cap, depth) for depth, cap in (caps or {}).items()}
    absent = sorted(set(given) - set(depths))
    if absent:
        raise LimitError(
            "caps",
            found=f"a cap for depth {depth_label(absent[0])}, which the log never played",
            expected=f"depths of the log: {', '.join(map(depth_label, depths))}",
        )
    counts = tuple(
        int(np.floor(cap * batch + 1e-9)) if isinstance(cap, float) else cap
        for cap in (given.get(depth) for depth in depths)
    )
    return BatchLimits(depths=depths, caps=counts, batch=int(batch), revenue_weight=revenue_weight)


def _read_cap(cap: object, depth: object) -> int | float | None:
    if cap is None:
        return None
    if isinstance(cap, bool) or not isinstance(cap, int | float | np.integer | np.floating):
        raise LimitError(f"cap of depth {depth}", found=repr(cap), expected="a count, or a share such as 0.25")
    if isinstance(cap, float | np.floating) and not 0 <= cap <= 1:
        raise LimitError(f"cap of depth {depth}", found=cap, expected="a share of the batch from 0 to 1")
    if cap < 0:
        raise LimitError(f"cap of depth {depth}", found=cap, expected="no negative count")
    return float(cap) if isinstance(cap, float | np.floating) else int(cap)
