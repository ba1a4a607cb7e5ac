"""The contexts that decisions were made from, per network, the features behind them, and those of arrivals to come.

Those of the launch are an artefact; those of late arrivals lie with their decisions. Under another network than that of
the launch one artefact holds them all: nobody is decided late in a campaign that has two networks.

Contexts that were prepared for late arrivals are one row per campaign, the names of the artefacts that hold them. They
can be prepared again from the shop's tables. So a row that another program has changed, or whose artefact is gone,
counts as one that is not there, and no backup holds it.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from disco.records.arrays import Integers, Matrix
from disco.records.errors import FileFormatError, StateError
from disco.store import schema
from disco.store.artefacts import index_of, rows_of
from disco.store.database import asked, storable
from disco.store.plans import matrix_of, table_of
from disco.store.rows import Session, is_whole

_TABLE, _LATE = schema.contexts, schema.late_decisions


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


class SqlContexts:
    """The contexts that decisions were made from, per context network, and the features behind them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, campaign: str, network: str, contexts: Matrix) -> None:
        """Contexts of all decisions of a campaign, by row, under a network it has none of yet."""
        number = self._session.number(campaign)
        artefact = self._session.artefacts.put(table_of(contexts))
        self._session.refuse_changed_state(self._session.campaign_row(campaign))
        self._session.add(_TABLE, {"campaign_number": number, "network": network, "artefact": artefact})

    def of(self, campaign: str, network: str, rows: Integers | None = None) -> Matrix:
        """Of these decisions, in the order asked for; of all without `rows`."""
        row = self._session.campaign_row(campaign)
        name = self._connection.execute(
            sa.select(_TABLE.c.artefact).where(_TABLE.c.campaign_number == row.number, _TABLE.c.network == network)
        ).scalar()
        if name is None:
            raise StateError(f"Campaign {campaign} has no contexts of network {network}")
        launched = matrix_of(self._session.artefacts.get(name))
        late = self._late(row.number, launched.shape[1]) if network == row.network else launched[:0]
        if rows is None:
            return np.concatenate([launched, late])
        wanted = np.asarray(rows, np.int64)
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < len(launched) + len(late):
            raise StateError(f"Campaign {campaign} has no context in some of the rows asked for")
        after = wanted >= len(launched)
        if not after.any():  # one copy instead of two
            return np.asarray(launched[wanted])
        found = np.empty((wanted.size, launched.shape[1]))
        found[~after] = launched[wanted[~after]]
        found[after] = late[wanted[after] - len(launched)]
        return found

    def networks(self, campaign: str) -> tuple[str, ...]:
        """The networks under which this campaign has contexts, sorted."""
        names = sa.select(_TABLE.c.network).where(_TABLE.c.campaign_number == self._session.number(campaign))
        return tuple(sorted(self._connection.execute(names).scalars()))

    def features(self, campaign: str) -> pa.Table:
        """The retained features of all decisions, by row; StateError where none were kept."""
        row = self._session.campaign_row(campaign)
        if row.features is None:
            raise StateError(
                f"No features were kept of campaign {campaign}",
                fix="Its customers cannot be embedded again: keep the network it was decided with.",
            )
        launched = self._session.artefacts.get(row.features)
        late = self._connection.execute(
            sa.select(_LATE.c.customer_id, _LATE.c.features)
            .where(_LATE.c.campaign_number == row.number)
            .order_by(_LATE.c.row)
        ).all()
        if any(one.features is None for one in late):
            raise StateError(f"Some late arrivals of campaign {campaign} have no features")
        ids = pa.array([one.customer_id for one in late], pa.string()).cast(launched.schema.field("customer_id").type)
        values = [json.loads(one.features) for one in late]
        columns = [
            ids if field.name == "customer_id" else pa.array([value.get(field.name) for value in values], field.type)
            for field in launched.schema
        ]
        return pa.concat_tables([launched, pa.table(columns, schema=launched.schema)])

    def _late(self, number: int, size: int) -> Matrix:
        rows = sa.select(_LATE.c.context).where(_LATE.c.campaign_number == number).order_by(_LATE.c.row)
        content = b"".join(bytes(context) for context in self._connection.execute(rows).scalars())
        return np.frombuffer(content, "<f8").reshape(-1, size)


_ARRIVALS = schema.arrivals


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
        self._session.add(_ARRIVALS, row)

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
        for row in self._session.raw(_ARRIVALS, "campaign_number", self._session.number(campaign)):
            self._session.remove(_ARRIVALS, row)

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
        rows = self._session.raw(_ARRIVALS, "campaign_number", self._session.number(campaign))
        return rows[0] if rows and is_whole(_ARRIVALS, rows[0]) else None

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


if TYPE_CHECKING:
    from disco.records.arrays import Matrix
