"""What all shelves share: a connection in its transaction, the database's way with many rows, campaign numbers."""

from typing import Any

import sqlalchemy as sa

from disco.adapters.store.database import Database
from disco.adapters.store.schema import campaigns
from disco.records.errors import StateError


class Shelf:
    """One part of `records.ports.Shelves`; lives as long as its transaction."""

    def __init__(self, connection: sa.Connection, database: Database) -> None:
        self._connection = connection
        self._database = database
        self._numbers: dict[str, int] = {}

    def _number(self, campaign: str) -> int:
        """The short name of a campaign within the database; it never changes."""
        if campaign not in self._numbers:
            self._numbers[campaign] = self._campaign_row(campaign).number
        return self._numbers[campaign]

    def _campaign_row(self, campaign: str) -> sa.Row[Any]:
        row = self._connection.execute(sa.select(campaigns).where(campaigns.c.campaign == campaign)).one_or_none()
        if row is None:
            raise no_such_campaign(campaign)
        return row


def no_such_campaign(campaign: str) -> StateError:
    return StateError(f"campaign {campaign}", found="no such campaign", expected="a launched campaign")
