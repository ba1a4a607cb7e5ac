"""The contexts that decisions were made from, per network, in blobs of many rows: learning reads millions of them."""

import numpy as np
import sqlalchemy as sa

from disco.adapters.store import schema
from disco.adapters.store.shelf import Shelf
from disco.records.arrays import Integers, Matrix
from disco.records.errors import InputError, StateError

_TABLE = schema.contexts
_ROWS_PER_BLOB = 65_536


class ContextShelf(Shelf):
    def add_contexts(self, campaign: str, network: str, contexts: Matrix, *, first_row: int) -> None:
        row = self._campaign_row(campaign)
        values = np.ascontiguousarray(contexts, "<f8")
        if values.ndim != 2 or not np.isfinite(values).all():
            raise InputError("contexts", found="NaN, infinity or no matrix", expected="one finite row per decision")
        if network == row.network and values.shape[1] != row.context_size:
            raise InputError("contexts", found=f"{values.shape[1]} columns", expected=f"{row.context_size}")
        for start in range(0, len(values), _ROWS_PER_BLOB):
            part = values[start : start + _ROWS_PER_BLOB]
            place = {"campaign_number": row.number, "network": network, "first_row": first_row + start}
            self._connection.execute(_TABLE.insert(), {**place, "rows": len(part), "matrix": part.tobytes()})

    def contexts(self, campaign: str, network: str, rows: Integers | None = None) -> Matrix:
        number = self._number(campaign)
        of_network = sa.and_(_TABLE.c.campaign_number == number, _TABLE.c.network == network)
        places = sa.select(_TABLE.c.first_row, _TABLE.c.rows).where(of_network).order_by(_TABLE.c.first_row)
        blobs = np.array([tuple(place) for place in self._connection.execute(places)], np.int64).reshape(-1, 2)
        if not blobs.size:
            raise StateError(
                f"campaign {campaign}", found=f"no contexts of network {network}", expected="contexts added before"
            )
        firsts, ends = blobs[:, 0], blobs.sum(axis=1)
        if rows is None:
            return np.concatenate([self._blob(of_network, int(first)) for first in firsts])
        wanted = np.asarray(rows, np.int64)
        blob_of = np.searchsorted(firsts, wanted, side="right") - 1
        if (blob_of < 0).any() or (wanted >= ends[blob_of]).any():
            raise StateError(f"campaign {campaign}", found="rows without a context", expected="rows of decisions")
        order = np.argsort(blob_of, kind="stable")
        touched, begins = np.unique(blob_of[order], return_index=True)
        found = [self._blob(of_network, int(firsts[0]))[:0]]
        for blob, members in zip(touched, np.split(order, begins[1:]), strict=False):
            found.append(self._blob(of_network, int(firsts[blob]))[wanted[members] - firsts[blob]])
        gathered = np.concatenate(found)
        out = np.empty_like(gathered)
        out[order] = gathered
        return out

    def _blob(self, of_network: sa.ColumnElement[bool], first_row: int) -> Matrix:
        here = sa.select(_TABLE.c.rows, _TABLE.c.matrix).where(of_network, _TABLE.c.first_row == first_row)
        blob = self._connection.execute(here).one()
        return np.frombuffer(blob.matrix, "<f8").reshape(blob.rows, -1)
