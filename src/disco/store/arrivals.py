"""Contexts that were prepared for late arrivals, one row per campaign: the names of the artefacts that hold them.

Everything here can be prepared again from the shop's tables. So a row that another program has changed, or whose
artefact is gone, counts as one that is not there, and no backup holds it.
"""

from collections.abc import Collection
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrivals import ARRIVALS, Arrivals
from disco.records.errors import FileFormatError, StateError
from disco.store import schema
from disco.store.artefacts import index_of, rows_of
from disco.store.database import asked, storable
from disco.store.plans import matrix_of, table_of
from disco.store.seals import row_seal, sealed
from disco.store.session import Session

_TABLE = schema.arrivals


class SqlArrivals:
    """What is prepared of customers who may arrive after a launch. It can be made again, so a damaged one is none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def put(self, campaign: str, arrivals: Arrivals) -> None:
        """Keep it in the place of what was prepared before."""
        artefacts, customers = self._session.artefacts, _kept(arrivals.customers)
        row = {
            "campaign_number": self._session.number(campaign),
            "day": arrivals.day.isoformat(),
            "network": arrivals.network,
            "only_listed": arrivals.only_listed,
            "customers": artefacts.put(customers),
            "customer_index": artefacts.put(index_of(customers["customer_id"])),
            "contexts": artefacts.put(table_of(arrivals.contexts)),
            "features": artefacts.put(arrivals.features),
        }
        self.remove(campaign)
        self._connection.execute(_TABLE.insert(), sealed("arrivals", row))

    def day(self, campaign: str) -> date | None:
        """Of what is prepared; None where nothing is."""
        row = self._row(campaign)
        return None if row is None else date.fromisoformat(row["day"])

    def of(self, campaign: str, customers: pa.Array) -> Arrivals | None:
        """Those of these customers (ids as text) who are prepared; None where nothing is."""
        row = self._row(campaign)
        found = None if row is None else self._tables(row)
        if row is None or found is None:
            return None
        index = self._session.artefacts.get(row["customer_index"])
        return found.take(rows_of(index, found.customers["customer_id"], asked("customer_id", customers)))

    def remove(self, campaign: str) -> None:
        self._connection.execute(_TABLE.delete().where(_TABLE.c.campaign_number == self._session.number(campaign)))

    def remove_customers(self, campaign: str, customers: Collection[str]) -> None:
        """Keep what is prepared without these customers."""
        row = self._row(campaign)
        kept = None if row is None else self._tables(row)
        if kept is None:
            self.remove(campaign)
            return
        theirs = pc.is_in(
            kept.customers["customer_id"].cast(pa.string()), value_set=pa.array(sorted(customers), pa.string())
        )
        if not pc.any(theirs).as_py():
            return
        stay = np.flatnonzero(~theirs.to_numpy())
        embedded = stay[stay < len(kept.contexts)]
        self.put(
            campaign,
            Arrivals(
                day=kept.day,
                network=kept.network,
                customers=kept.customers.take(pa.array(stay)),
                contexts=kept.contexts[embedded],
                features=kept.features.take(pa.array(embedded)),
                only_listed=kept.only_listed,
            ),
        )

    def _row(self, campaign: str) -> dict[str, Any] | None:
        rows = self._session.raw(_TABLE, "campaign_number", self._session.number(campaign))
        return None if not rows or rows[0]["seal"] != row_seal("arrivals", rows[0]) else rows[0]

    def _tables(self, row: dict[str, Any]) -> Arrivals | None:
        """None where an artefact is gone or damaged."""
        try:
            customers, contexts, features = (
                self._session.artefacts.get(name) for name in (row["customers"], row["contexts"], row["features"])
            )
            self._session.artefacts.get(row["customer_index"])
        except (StateError, FileFormatError):
            return None
        return Arrivals(
            day=date.fromisoformat(row["day"]),
            network=row["network"],
            customers=customers,
            contexts=matrix_of(contexts),
            features=features,
            only_listed=bool(row["only_listed"]),
        )


def _kept(customers: pa.Table) -> pa.Table:
    """With the columns of `ARRIVALS`; ids as integers where they are."""
    kind = pa.int64() if pa.types.is_integer(customers["customer_id"].type) else pa.string()
    fields = [field.with_type(kind) if field.name == "customer_id" else field for field in ARRIVALS]
    table = pa.table([customers[field.name].cast(field.type) for field in fields], schema=pa.schema(fields))
    return storable(table)
