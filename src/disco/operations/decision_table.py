"""Decisions as a table: what the store keeps of each customer, without codes at first."""

import numpy as np
import pyarrow as pa

from disco.campaign import Belief
from disco.records.arrays import Flags, Integers, Vector
from disco.records.decisions import Arm, Audience

ARMS = (Arm.DECIDED, Arm.CONTROL, Arm.HOLDOUT)


def decision_table(
    audience: Audience,
    *,
    arms: dict[Arm, Flags],
    depths: tuple[float, ...],
    choice: Integers,
    value: Vector,
    expected_full_price: Vector,
    belief: Belief,
) -> pa.Table:
    """One row per customer; before any purchase was learned nothing is expected, so those columns are null.

    expected_full_price (n,): money at the chosen depth; it is not read without a code, nor before any purchase.
    """
    offered = np.asarray(depths)
    none = choice < 0
    expected, rates, unknown = np.zeros(len(audience)), np.zeros(len(audience)), np.ones(len(audience), np.bool_)
    if belief.basket.campaigns:
        expected = np.nan_to_num(expected_full_price)
        rates, unknown = np.append(belief.engagement.rates(offered), 0.0)[choice], none
    arm = np.select([arms[name] for name in ARMS], range(len(ARMS)))
    return pa.table(
        {
            "customer_id": pa.array(audience.ids),
            "arm": pa.array([str(name) for name in ARMS]).take(pa.array(arm)),
            "depth": pa.array(np.append(offered, 0.0)[choice], mask=none),
            "value": pa.array(value),
            "known": pa.array(audience.known),
            "expected_full_price": pa.array(expected, mask=unknown),
            "expected_engagement": pa.array(rates, mask=unknown),
        }
    )


def coded_rows(decisions: pa.Table) -> Integers:
    """The rows that have a depth, and so a code."""
    return np.flatnonzero(decisions["depth"].is_valid().to_numpy())


def with_codes(decisions: pa.Table, codes: pa.Array) -> pa.Table:
    """The decisions with these codes at the rows that have a depth, null elsewhere."""
    places = np.full(decisions.num_rows, -1, np.int64)
    rows = coded_rows(decisions)
    places[rows] = np.arange(rows.size)
    return decisions.append_column("code", codes.take(pa.array(places, mask=places < 0)))
