"""Customers to train on where a shop has very many: those whose ids have the smallest hashes.

Who is taken depends on the ids and on how many customers there are, so every engine takes the same ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from disco.features.rows import table_matrix
from disco.features.snapshot import Snapshot, feature_names_of
from disco.records.identity import customer_keys

MOST_CUSTOMERS = 2_000_000  # a network has some thousand weights
SAMPLED_KEY = b"disco.sampled"  # metadata of features: how many customers there were before some were taken


@dataclass(frozen=True, slots=True)
class CustomerSample:
    """About `most` of so many customers; a chunk function."""

    customers: int
    most: int

    @property
    def is_everybody(self) -> bool:
        return self.customers <= self.most

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Those of the rows that are taken."""
        if self.is_everybody:
            return rows
        bound = np.uint64((self.most << 64) // self.customers)
        return rows.filter(pa.array(customer_keys(rows["customer_id"]) < bound))

    def of_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self(pa.Table.from_batches([batch])).to_batches()

    def named(self, schema: pa.Schema) -> pa.Schema:
        """The schema of features of whom these are taken, which says so."""
        return schema.with_metadata({**(schema.metadata or {}), SAMPLED_KEY: str(self.customers).encode()})


def is_sampled(schema: pa.Schema) -> bool:
    return SAMPLED_KEY in (schema.metadata or {})


@dataclass(frozen=True, slots=True)
class Counted:
    """Customers and their snapshot, which add up over chunks."""

    customers: int
    snapshot: Snapshot

    @classmethod
    def of(cls, features: pa.Table) -> "Counted":
        names = feature_names_of(features.schema)
        return cls(features.num_rows, Snapshot.of(table_matrix(features, names), names))

    def __add__(self, other: "Counted") -> "Counted":
        return Counted(self.customers + other.customers, self.snapshot + other.snapshot)
