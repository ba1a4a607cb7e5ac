"""Customers who asked to be forgotten: a hash of each id with a secret, so that nobody can read or guess the ids.

Stored form: the HMAC-SHA256 of the id as UTF-8 text, under the secret of the name `forgotten`, in hexadecimal digits.
"""

import hmac
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from disco.store.decisions import FORGOTTEN, secret_of
from disco.store.schema import forgotten, microseconds
from disco.store.seals import check_forgotten, seal_forgotten
from disco.store.session import Session

SALT_NAME = "forgotten"


class SqlForgotten:
    """Customers who asked to be forgotten. Their ids are not kept, only hashes with a secret."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, customers: Iterable[str], *, at: datetime) -> None:
        """Remember that these were forgotten at this moment, perhaps again."""
        hashes = self._hashes(dict.fromkeys(customers))
        if hashes:
            check_forgotten(self._session, self._rows())
            again = self._session.database.among(forgotten.c.hash, pa.array(hashes, pa.string()))
            self._connection.execute(forgotten.delete().where(again))
            self._connection.execute(forgotten.insert(), [{"hash": text, "forgotten_at": at} for text in hashes])
            seal_forgotten(self._connection)

    def among(self, customers: Iterable[str], *, since: datetime | None = None) -> frozenset[str]:
        """Those of these customers who were forgotten, at this moment or after it."""
        rows = self._rows()
        check_forgotten(self._session, rows)
        first = None if since is None else microseconds(since)
        found = {row["hash"] for row in rows if first is None or row["forgotten_at"] >= first}
        if not found:  # few were ever forgotten, and millions may be asked about
            return frozenset()
        wanted = list(dict.fromkeys(customers))
        return frozenset(customer for customer, text in zip(wanted, self._hashes(wanted), strict=True) if text in found)

    def _rows(self) -> list[dict[str, Any]]:
        """Everybody who was forgotten."""
        self._session.read_ahead(FORGOTTEN)
        return self._session.read_before(forgotten)["all"]  # type: ignore[no-any-return]

    def _hashes(self, customers: Iterable[str]) -> list[str]:
        salt = secret_of(self._session, SALT_NAME)
        return [hmac.digest(salt, customer.encode(), "sha256").hex() for customer in customers]
