"""Customers who asked to be forgotten: a hash of each id with a secret, so that nobody can read or guess the ids.

Stored form: the HMAC-SHA256 of the id as UTF-8 text, under the secret of the name `forgotten`, in hexadecimal digits.
"""

import hmac
from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa
import sqlalchemy as sa

from disco.adapters.store.decisions import secret_of
from disco.adapters.store.schema import forgotten
from disco.adapters.store.session import Session

SALT_NAME = "forgotten"


class SqlForgotten:
    """Implements `records.ports.ForgottenRepository`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, customers: Iterable[str], *, at: datetime) -> None:
        wanted = list(dict.fromkeys(customers))
        known = self.among(wanted)
        hashes = self._hashes(customer for customer in wanted if customer not in known)
        if hashes:
            rows = [{"hash": text, "forgotten_at": at} for text in hashes]
            self._connection.execute(forgotten.insert(), rows)

    def among(self, customers: Iterable[str]) -> frozenset[str]:
        wanted = list(dict.fromkeys(customers))
        hashes = self._hashes(wanted)
        asked = self._session.database.among(forgotten.c.hash, pa.array(hashes, pa.string()))
        found = set(self._connection.execute(sa.select(forgotten.c.hash).where(asked)).scalars())
        return frozenset(customer for customer, text in zip(wanted, hashes, strict=True) if text in found)

    def _hashes(self, customers: Iterable[str]) -> list[str]:
        salt = secret_of(self._connection, SALT_NAME)
        return [hmac.digest(salt, customer.encode(), "sha256").hex() for customer in customers]
