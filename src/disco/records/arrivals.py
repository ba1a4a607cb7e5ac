"""What is prepared of the customers who may arrive after a launch, so that one is decided about within milliseconds."""

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from disco.records.arrays import Matrix

ARRIVALS = pa.schema(
    [
        pa.field("customer_id", pa.string(), nullable=False),  # or int64, as the shop's tables have it
        pa.field("left_out", pa.string()),  # the key of the plan that leaves them out; null: they may get a code
        pa.field("known", pa.bool_(), nullable=False),  # whether the context is from their own year of purchases
        pa.field("segment", pa.string()),
        pa.field("channel", pa.string()),
        pa.field("own_codes", pa.int32(), nullable=False),  # of the shop's table, within the plan's contact rule
    ]
)
"""One row per customer: first those with features, then all others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrivals:
    """Customers of the shop without a decision in a campaign, as of one day; and the ids that the plan's lists name."""

    day: date
    """The features are those of this day."""
    network: str
    """The name of the context network."""
    customers: pa.Table
    """As `ARRIVALS`."""
    contexts: "Matrix"
    """(m, d1), of the first m customers. All others have the population's, zeros."""
    features: pa.Table
    """customer_id and features of the same m customers; the others have none."""
    only_listed: bool
    """Whether the plan names a list of those who may get a code (`include`), so that nobody else does."""

    def take(self, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> "Arrivals":
        """These customers alone, in this order, each with a context and with features (null where there are none)."""
        embedded = len(self.contexts)
        contexts = np.zeros((rows.size, self.contexts.shape[1]))
        there = rows < embedded
        contexts[there] = self.contexts[rows[there]]
        customers = self.customers.take(pa.array(rows))
        features = self.features.take(pa.array(rows, mask=~there))
        place = features.schema.get_field_index("customer_id")
        ids = customers["customer_id"].cast(features.schema.field(place).type)
        return Arrivals(
            day=self.day,
            network=self.network,
            customers=customers,
            contexts=contexts,
            features=features.set_column(place, features.schema.field(place), ids),
            only_listed=self.only_listed,
        )
