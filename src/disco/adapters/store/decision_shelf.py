"""Decisions with their codes."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from disco.adapters.store import schema
from disco.adapters.store.database import asked, in_order, storable, typed
from disco.adapters.store.shelf import Shelf
from disco.records.kept import DECISIONS

_TABLE = schema.decisions


class DecisionShelf(Shelf):
    def add_decisions(self, campaign: str, decisions: pa.Table) -> int:
        number = self._number(campaign)
        last = sa.select(sa.func.max(_TABLE.c.row)).where(_TABLE.c.campaign_number == number)
        found = self._connection.execute(last).scalar()
        first = 0 if found is None else found + 1
        rows = decisions.num_rows
        columns: dict[str, Any] = {
            "campaign_number": pa.array(np.full(rows, number)),
            "row": pa.array(np.arange(first, first + rows)),
        }
        for field in DECISIONS:
            if field.name in columns:
                continue
            if field.name in decisions.column_names:
                columns[field.name] = decisions[field.name].cast(field.type)
            elif field.name == "late":
                columns[field.name] = pa.array(np.zeros(rows, bool))
        self._database.insert(self._connection, _TABLE, storable(pa.table(columns)))
        return first

    def decisions(
        self,
        campaign: str,
        *,
        codes: pa.Array | None = None,
        customers: pa.Array | None = None,
        only_late: bool = False,
    ) -> pa.Table:
        integer_ids = self._campaign_row(campaign).integer_ids
        columns = [_TABLE.c[name] for name in DECISIONS.names]
        statement = sa.select(*columns).where(_TABLE.c.campaign_number == self._number(campaign))
        for name, wanted in (("code", codes), ("customer_id", customers)):
            if wanted is not None:
                statement = statement.where(self._database.among(_TABLE.c[name], asked(name, wanted)))
        if only_late:
            statement = statement.where(schema.LATE)
        table = in_order(self._database.select(self._connection, statement, DECISIONS), "row")
        if not integer_ids:
            return table
        place = DECISIONS.get_field_index("customer_id")
        field = DECISIONS.field(place).with_type(pa.int64())
        return table.set_column(place, field, table["customer_id"].cast(pa.int64()))

    def set_propensities(self, campaign: str, propensities: pa.Table) -> None:
        number = pa.array(np.full(propensities.num_rows, self._number(campaign)))
        rows = typed(propensities.select(["row", "propensity", "propensity_draws"]), DECISIONS)
        rows = rows.append_column("campaign_number", number)
        self._database.update(self._connection, _TABLE, storable(rows), key=("campaign_number", "row"))

    def known_codes(self, codes: pa.Array) -> pa.Array:
        statement = sa.select(_TABLE.c.code).where(self._database.among(_TABLE.c.code, asked("code", codes)))
        found = self._database.select(self._connection, statement, pa.schema([DECISIONS.field("code")]))[
            "code"
        ].combine_chunks()
        return found.take(pc.sort_indices(found))  # here and not there: databases sort text by their own rules
