"""What the repositories of a transaction share: its connection, the place of artefacts, campaign numbers."""

from typing import Any

import sqlalchemy as sa

from disco.adapters.store.database import Database
from disco.adapters.store.schema import campaigns, plans
from disco.records.errors import NotFoundError, StateError
from disco.records.ports import Artefacts
from disco.records.suggestions import did_you_mean

LEAST_OF_AN_ID = 4  # characters


class Session:
    """Lives as long as its transaction."""

    def __init__(self, connection: sa.Connection, database: Database, artefacts: Artefacts) -> None:
        self.connection = connection
        self.database = database
        self.artefacts = artefacts
        self.touched: set[int] = set()  # campaigns whose state seal has to be made anew before the commit
        self.detail: dict[str, Any] = {}  # of the journal's entry about this transaction
        self._numbers: dict[str, int] = {}

    def number(self, campaign: str) -> int:
        """The short name of a campaign within the database; it never changes."""
        if campaign not in self._numbers:
            self._numbers[campaign] = self.campaign_row(campaign).number
        return self._numbers[campaign]

    def campaign_row(self, campaign: str) -> sa.Row[Any]:
        """The campaign's own columns, and the artefacts of its plan: decisions and features."""
        columns = sa.select(campaigns, plans.c.decisions, plans.c.features).join(plans)
        row = self.connection.execute(columns.where(campaigns.c.campaign == campaign)).one_or_none()
        if row is None:
            raise no_such_campaign(campaign, self.connection)
        return row


def beginning_with(
    connection: sa.Connection, ids: sa.Column[Any], text: str, *, rows: "sa.Select[Any]", none: NotFoundError
) -> sa.Row[Any]:
    """The row whose id is this text, or the only one whose id begins with it; `none` is raised where there is none.

    A beginning needs four characters: what follows may be final, and two letters are soon mistyped.
    """
    found = connection.execute(rows.where(ids == text)).all()
    if not found and len(text) >= LEAST_OF_AN_ID:
        found = connection.execute(rows.where(sa.func.substr(ids, 1, len(text)) == text).limit(2)).all()
    if len(found) > 1:
        raise StateError(f"Several ids begin with {text}", fix="Give more of the id.")
    if not found and 0 < len(text) < LEAST_OF_AN_ID:
        raise NotFoundError(f"{none.what}", fix=f"Give at least {LEAST_OF_AN_ID} characters of the id.")
    if not found:
        raise none
    return found[0]


def no_such_campaign(campaign: str, connection: sa.Connection) -> NotFoundError:
    near = did_you_mean(campaign, connection.execute(sa.select(campaigns.c.campaign)).scalars())
    return NotFoundError(
        f"No campaign {campaign} was launched", fix=near or "`disco campaigns` lists the launched ones."
    )
