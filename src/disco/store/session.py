"""What the repositories of a transaction share: its connection, the place of artefacts, campaign numbers."""

from functools import cache
from typing import Any

import sqlalchemy as sa

from disco.records.errors import NotFoundError, StateError
from disco.records.suggestions import did_you_mean
from disco.store.artefacts import Artefacts
from disco.store.database import READ_BEFORE, Database, ask, ask_all
from disco.store.schema import campaigns, plans

LEAST_OF_AN_ID = 4  # characters


class Session:
    """Lives as long as its transaction."""

    def __init__(self, connection: sa.Connection, database: Database, artefacts: Artefacts) -> None:
        self.connection = connection
        self.database = database
        self.artefacts = artefacts
        self.touched: set[int] = set()  # campaigns whose state seal has to be made anew before the commit
        self.late_seals: dict[int, str | None] = {}  # of campaigns that got late arrivals, written with the state seal
        self.detail: dict[str, Any] = {}  # of the journal's entry about this transaction
        self._numbers: dict[str, int] = {}
        self._read: dict[str, dict[object, Any]] = {}  # by table
        connection.info[READ_BEFORE] = self._read

    def read_before(self, table: sa.Table) -> dict[object, Any]:
        """What this transaction has read of a table. A transaction sees one state of everything, so that nothing has to
        be read twice; what it writes itself is taken out here (`database.watch_writes`)."""
        return self._read.setdefault(table.name, {})

    def raw(self, table: sa.Table, key: str, value: object, *, order: str | None = None) -> list[dict[str, Any]]:
        """Rows with their cells as the database holds them, whatever a cell's type became; nobody changes them."""
        read = self.read_before(table)
        found: list[dict[str, Any]] | None = read.get((key, value))
        if found is None:
            names, statement = cells_of(table, key, order)
            found = [dict(zip(names, row, strict=True)) for row in ask(self.connection, statement, (value,))]
            read[key, value] = found
        return found

    def read_ahead(self, *questions: "tuple[sa.Table, object, str, tuple[object, ...], tuple[str, ...]]") -> None:
        """Read at once what will be asked for one by one.

        questions: table, what its rows are remembered as, statement and values, names of the cells.
        """
        wanted = [one for one in questions if one[1] not in self.read_before(one[0])]
        if not wanted:
            return
        answers = ask_all(self.connection, [(statement, values) for _, _, statement, values, _ in wanted])
        for (table, place, _, _, names), rows in zip(wanted, answers, strict=True):
            self.keep(table, place, names, rows)

    def keep(self, table: sa.Table, place: object, names: tuple[str, ...], rows: "list[Any]") -> None:
        """Remember rows that were read; a place is what `raw` or another reader looks for."""
        self.read_before(table)[place] = [dict(zip(names, row, strict=True)) for row in rows]

    def keep_campaign(self, row: Any) -> "CampaignRow":
        """The same of a campaign's own."""
        found = CampaignRow(dict(zip(_CAMPAIGN_CELLS, row, strict=True)))
        self.read_before(campaigns)[found.campaign] = self.read_before(plans)[found.campaign] = found
        self.read_before(campaigns)["number", found.number] = [found.cells]
        return found

    def number(self, campaign: str) -> int:
        """The short name of a campaign within the database; it never changes."""
        if campaign not in self._numbers:
            self._numbers[campaign] = self.campaign_row(campaign).number
        return self._numbers[campaign]

    def campaign_row(self, campaign: str) -> "CampaignRow":
        """The campaign's own columns, and the artefacts of its plan: decisions and features."""
        found = self.find_campaign(campaign)
        if found is None:
            raise no_such_campaign(campaign, self.connection)
        return found

    def find_campaign(self, campaign: str) -> "CampaignRow | None":
        """The same; None where there is none."""
        of_campaigns, of_plans = self.read_before(campaigns), self.read_before(plans)
        found: CampaignRow | None = of_campaigns.get(campaign)
        if found is None or campaign not in of_plans:
            rows = ask(self.connection, CAMPAIGN, (campaign,))
            found = self.keep_campaign(rows[0]) if rows else None
        return found


class CampaignRow:
    """A row of `campaigns` with the artefacts of its plan: each cell by its name, as the database holds it."""

    __slots__ = ("cells",)

    def __init__(self, cells: dict[str, Any]) -> None:
        self.cells = cells

    def __getattr__(self, name: str) -> Any:
        try:
            return self.cells[name]
        except KeyError:
            raise AttributeError(name) from None


_CAMPAIGN_CELLS = (*(column.name for column in campaigns.c), "decisions", "features")
CAMPAIGN = (
    f"SELECT {', '.join(f'campaigns.{column.name}' for column in campaigns.c)}, plans.decisions, plans.features "
    "FROM campaigns JOIN plans ON plans.plan_id = campaigns.plan_id WHERE campaigns.campaign = ?"
)


@cache
def cells_of(table: sa.Table, key: str, order: str | None) -> tuple[tuple[str, ...], str]:
    """The columns of a table, and the question for those of one key."""
    names = tuple(column.name for column in table.c)
    quoted = ", ".join(f'"{name}"' for name in names)
    text = f'SELECT {quoted} FROM {table.name} WHERE "{key}" = ?'
    return names, text if order is None else f'{text} ORDER BY "{order}"'


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
