"""What the repositories of a transaction share: its connection, the place of artefacts, rows that are read once, and
how sealed rows are written.

Every sealed row (`rows.py`) is written by `add`, `set` and `remove`. They keep up its seal and the tally of its owner,
and no row that another program has changed is written over: its seal would hide the change.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from disco.records.diagnosis import RESTORE
from disco.records.errors import NotFoundError, StateError
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.refusals import did_you_mean
from disco.store.artefacts import Artefacts
from disco.store.database import Database, add_rows, ask, ask_all, change_later, delete_of, update_of, words
from disco.store.rows import (
    KINDS,
    Record,
    changed,
    from_row,
    is_whole,
    number_of,
    owner_of,
    plus,
    seal_of,
    sealed,
    sum_of,
)
from disco.store.schema import campaigns, contexts, plans, reserves, secrets, tallies

LEAST_OF_AN_ID = 4  # characters
# secrets of the database: of the codes, of lasting holdouts, of forgotten customers, of pseudonyms; made with it
CODES, HOLDOUT, FORGOTTEN, PSEUDONYMS = "codes", "holdout", "forgotten", "pseudonyms"
SECRETS = (HOLDOUT, FORGOTTEN, PSEUDONYMS, CODES)


class Session:
    """Lives as long as its transaction."""

    def __init__(
        self,
        connection: sa.Connection,
        database: Database,
        artefacts: Artefacts | None = None,
        locale: Locale = POUNDS_UTC,
    ) -> None:
        self.connection = connection
        self.database = database
        self._artefacts = artefacts
        self.locale = locale
        self.growth: dict[str, dict[str, int]] = {}  # of tallies, by owner and table
        self.detail: dict[str, Any] = {}  # of the journal's entry about this transaction
        self._numbers: dict[str, int] = {}
        self._read: dict[str, dict[object, Any]] = {}  # by table

    @property
    def artefacts(self) -> Artefacts:
        assert self._artefacts is not None  # for the type checker: only who makes or repairs tables has none
        return self._artefacts

    def read_before(self, table: sa.Table) -> dict[object, Any]:
        """What this transaction has read of a table. A transaction sees one state of everything, so that nothing has to
        be read twice; what it writes itself is put in the place of what it has read (`add`, `set`, `remove`)."""
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

    # ---- sealed rows

    def add(self, table: sa.Table, *rows: Mapping[Any, Any], recorded: bool = True) -> None:
        """Append rows, all with the same columns. recorded: whether the tally is to know of them; a repair that brings
        back what was lost does not say so, because the tally knows of it."""
        new = [sealed(table, row) for row in rows]
        if new:
            add_rows(self.connection, table, new)
            self._read.pop(table.name, None)
        for row in new if recorded else ():
            self._count(table, row, number_of(row["seal"]))

    def set(self, table: sa.Table, row: Mapping[Any, Any], **values: Any) -> dict[str, Any]:
        """Change a row, given as it was read; as it is now. SealError where another program has changed it before."""
        self.refuse_changed(table, row)
        new = sealed(table, {**row, **values})
        growth = number_of(new["seal"]) - number_of(row["seal"])
        self.overwrite(table, row, new)
        self._count(table, new, growth)
        return new

    def overwrite(self, table: sa.Table, row: Mapping[Any, Any], new: Mapping[Any, Any]) -> None:
        """Write other cells, whatever tally and seal say of the row: for repairs, which compare them afterwards."""
        key = tuple(column.name for column in table.primary_key.columns)
        cells = {name: cell for name, cell in new.items() if cell is not row[name] and name not in key}
        if cells:
            values = (*cells.values(), *(row[name] for name in key))
            change_later(self.connection, update_of(table, tuple(cells), key), values)
        if table in (campaigns, plans):
            self._read.pop(table.name, None)
            return
        if isinstance(row, dict):
            row.update(new)  # in every list that holds it: there may be a million late arrivals

    def remove(self, table: sa.Table, row: Mapping[Any, Any], *, recorded: bool = True) -> None:
        """Remove a row, given as it was read; also one that another program has changed."""
        key = tuple(column.name for column in table.primary_key.columns)
        change_later(self.connection, delete_of(table, key), tuple(row[name] for name in key))
        self._read.pop(table.name, None)
        if recorded:
            self._count(table, row, -number_of(row["seal"]))

    def replace_all(self, table: sa.Table, owner: str, before: Iterable[Mapping[Any, Any]], *rows: Any) -> None:
        """Put rows in the place of all those of an owner, which also ends what was wrong with them: their tally."""
        for row in before:
            self.remove(table, row, recorded=False)
        self.add(table, *rows, recorded=False)
        now = sum_of(seal_of(table, sealed(table, row)) for row in rows)
        growth = self.growth.setdefault(owner, {})
        growth[table.name] = now - self.tallies(owner).get(table.name, 0)

    def tallies(self, owner: str) -> dict[str, int]:
        """Those of an owner before this transaction, by table."""
        return {row["name"]: number_of(row["tally"]) for row in self.raw(tallies, "owner", owner)}

    def tally(self, table: sa.Table, owner: str) -> int:
        """The sum of the seals of all rows of an owner, as it must be now."""
        return plus(self.tallies(owner).get(table.name, 0), self.growth.get(owner, {}).get(table.name, 0))

    def refuse_changed(self, table: sa.Table, *rows: Mapping[Any, Any]) -> None:
        """SealError where one of these rows is not what this program wrote."""
        for row in rows:
            if not is_whole(table, row):
                raise changed(KINDS[table].words.format_map({**row, "owner": self._owner(table, row)}))

    def refuse_incomplete(self, table: sa.Table, owner: str, rows: Sequence[Mapping[Any, Any]]) -> None:
        """The same of all rows of an owner: none is changed, missing or added."""
        self.refuse_changed(table, *rows)
        if sum_of(row["seal"] for row in rows) != self.tally(table, owner):
            raise changed(KINDS[table].words.format_map({**(rows[0] if rows else {}), "owner": owner}))

    def whole(
        self, table: sa.Table, *which: sa.ColumnElement[bool], order: Sequence[Any] = ()
    ) -> Sequence[Mapping[Any, Any]]:
        """Rows that meet conditions, each compared with its seal."""
        found = self.connection.execute(sa.select(table).where(*which).order_by(*order)).mappings().all()
        self.refuse_changed(table, *found)
        return found

    def records(
        self, kind: type[Record], table: sa.Table, *which: sa.ColumnElement[bool], order: Sequence[Any] = ()
    ) -> tuple[Record, ...]:
        """The same as frozen dataclasses, whose fields are columns (`rows.from_row`)."""
        return tuple(from_row(kind, row) for row in self.whole(table, *which, order=order))

    def record(self, kind: type[Record], table: sa.Table, *which: sa.ColumnElement[bool]) -> Record | None:
        """The one that a key names; None: there is none."""
        return next(iter(self.records(kind, table, *which)), None)

    def record_beginning(self, kind: type[Record], ids: sa.Column[Any], text: str, *, none: NotFoundError) -> Record:
        """The one whose id is this text, or the only one whose id begins with it (`beginning_with`)."""
        row = beginning_with(self.connection, ids, text, rows=sa.select(ids.table), none=none)._mapping
        self.refuse_changed(ids.table, row)
        return from_row(kind, row)

    def _count(self, table: sa.Table, row: Mapping[Any, Any], growth: int) -> None:
        if table in KINDS:
            of_owner = self.growth.setdefault(self._owner(table, row), {})
            of_owner[table.name] = of_owner.get(table.name, 0) + growth

    def _owner(self, table: sa.Table, row: Mapping[Any, Any]) -> str:
        return owner_of(table, row, campaign_of_number=self._name, campaign_of_plan=self._campaign_of_plan)

    def _name(self, number: int) -> str:
        for campaign, known in self._numbers.items():
            if known == number:
                return campaign
        rows = self.raw(campaigns, "number", number)
        return str(rows[0]["campaign"]) if rows else ""

    def _campaign_of_plan(self, plan_id: str) -> str:
        rows = self.raw(plans, "plan_id", plan_id)
        return str(rows[0]["campaign"]) if rows else ""

    # ---- campaigns

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

    def refuse_changed_state(self, campaign: "CampaignRow") -> None:
        """SealError where launch, state, reserve or contexts of a campaign are not what this program wrote; its plan
        and its late arrivals are not read."""
        self.refuse_changed(campaigns, campaign.cells)
        name, number = campaign.campaign, campaign.number
        self.refuse_incomplete(reserves, name, self.raw(reserves, "campaign_number", number, order="depth"))
        self.refuse_incomplete(contexts, name, self.raw(contexts, "campaign_number", number))

    def secret(self, name: str) -> bytes:
        """A secret of the database; StateError where it is gone or another one."""
        row = next(iter(self.raw(secrets, "name", name)), None)
        if row is None or not is_whole(secrets, row):
            found = "is gone" if row is None else "was changed by something other than disco"
            raise StateError(f"The secret `{name}` of the database {found}", fix=RESTORE)
        return bytes(row["value"])


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
CAMPAIGN = words(
    sa.select(*campaigns.c, plans.c.decisions, plans.c.features)
    .join(plans, plans.c.plan_id == campaigns.c.plan_id)
    .where(campaigns.c.campaign == sa.bindparam("campaign"))
)
NAMED = sa.select(campaigns.c.number).where(campaigns.c.campaign == sa.bindparam("campaign")).scalar_subquery()
"""The number of the campaign that a question names."""


@cache
def cells_of(table: sa.Table, key: str, order: str | None, *, named: bool = False) -> tuple[tuple[str, ...], str]:
    """The columns of a table, and the question for those of one key; named: of the campaign of a name."""
    rows = sa.select(table).where(table.c[key] == (NAMED if named else sa.bindparam("key")))
    return tuple(column.name for column in table.c), words(rows if order is None else rows.order_by(table.c[order]))


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
