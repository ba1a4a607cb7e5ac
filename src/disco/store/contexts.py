"""The contexts that decisions were made from, per network, and the features behind them.

Those of the launch are an artefact; those of late arrivals lie with their decisions. Under another network than that of
the launch one artefact holds them all: nobody is decided late in a campaign that has two networks.
"""

import json

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from disco.records.arrays import Integers, Matrix
from disco.records.errors import StateError
from disco.store import schema
from disco.store.plans import matrix_of, table_of
from disco.store.seals import touch
from disco.store.session import Session

_TABLE, _LATE = schema.contexts, schema.late_decisions


class SqlContexts:
    """The contexts that decisions were made from, per context network, and the features behind them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, campaign: str, network: str, contexts: Matrix) -> None:
        """Contexts of all decisions of a campaign, by row, under a network it has none of yet."""
        number = self._session.number(campaign)
        artefact = self._session.artefacts.put(table_of(contexts))
        touch(self._session, number)
        self._connection.execute(_TABLE.insert(), {"campaign_number": number, "network": network, "artefact": artefact})

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
