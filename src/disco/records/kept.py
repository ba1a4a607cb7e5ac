"""The large tables of a store, as Arrow schemas: decisions as planned, decisions with codes, received outcomes."""

from typing import NamedTuple

import pyarrow as pa

# What a plan decides about each customer. `depth` is null where there is no code.
PLANNED = pa.schema(
    [
        pa.field("customer_id", pa.string(), nullable=False),
        pa.field("arm", pa.string(), nullable=False),
        pa.field("depth", pa.float64()),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("known", pa.bool_(), nullable=False),
        pa.field("expected_full_price", pa.float64()),
        pa.field("expected_engagement", pa.float64()),
    ]
)

# Of plans that need them, after the other columns of both tables: the part of the customers with limits of its own, and
# how a code is sent.
LABELS = pa.schema([pa.field("segment", pa.string()), pa.field("channel", pa.string())])

# `row` numbers the decisions of a campaign from 0; `code` and `depth` are null together: no code.
# `customer_id` comes back with the type the campaign was launched with, int64 or text.
# `propensity` is the probability of the depth played, estimated from `propensity_draws` draws; added after the launch.
DECISIONS = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("customer_id", pa.string(), nullable=False),
        pa.field("arm", pa.string(), nullable=False),
        pa.field("depth", pa.float64()),
        pa.field("code", pa.string()),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("known", pa.bool_(), nullable=False),
        pa.field("late", pa.bool_(), nullable=False),  # decided after the launch, from the reserve
        pa.field("expected_full_price", pa.float64()),
        pa.field("expected_engagement", pa.float64()),
        pa.field("propensity", pa.float64()),
        pa.field("propensity_draws", pa.int64()),
    ]
)

# `row` is the place in the batch as received, from 0. What cannot be read is null, and `raw` holds the row as JSON.
# `customer_id` is text as received: an outcome may name somebody who is not in the campaign.
OUTCOMES = pa.schema(
    [
        pa.field("batch_id", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("event_id", pa.string()),
        pa.field("customer_id", pa.string()),
        pa.field("code", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("refers_to", pa.string()),
        pa.field("ordered_at", pa.timestamp("us", tz="UTC")),
        pa.field("full_price_minor", pa.int64()),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("raw", pa.string()),
    ]
)

# What the net purchases of codes are made of, of rows that count.
APPLIED = pa.schema(
    [OUTCOMES.field(name) for name in ("event_id", "code", "kind", "refers_to", "ordered_at", "full_price_minor")]
)

COUNTS = pa.schema([("batch_id", pa.string()), ("disposition", pa.string()), ("rows", pa.int64())])


class Told(NamedTuple):
    """What one customer of a campaign was told: the part of a decision that a checkout asks for."""

    depth: float | None
    """None: no code."""
    code: str | None
    """Their own, as it is kept."""
    known: bool
    """Whether the context was the customer's own."""
