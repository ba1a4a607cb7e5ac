"""Decisions with their codes: those of the launch in artefacts, those of late arrivals in the database.

Stored forms, which change only with a migration:
- `row` numbers a campaign's decisions: the launch first, then the late arrivals in order.
- `late_decisions.context` is a row of little-endian float64, `late_decisions.features` is JSON.
- Artefacts by column of `campaigns`: `codes` (code) and `propensities` (propensity, propensity_draws) have one row per
  decision of the launch; `customer_index` and `code_index` (key, row) are made by `artefacts.index_of`.
- The key of the codes is the secret of the name `codes`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from secrets import token_bytes
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from disco.records.arrays import Integers, Matrix
from disco.records.diagnosis import RESTORE
from disco.records.errors import InputError, SealError, StateError
from disco.store.artefacts import index_of, rows_of
from disco.store.database import (
    FEW,
    ask,
    ask_all,
    asked,
    in_order,
    one_of,
    one_value,
    select_few,
    storable,
    words,
)
from disco.store.ledger import Pack, packs_of
from disco.store.rows import CAMPAIGN, CODES, HOLDOUT, NAMED, SECRETS, CampaignRow, Session, as_text, cells_of, is_whole
from disco.store.schema import (
    DECISIONS,
    EVERYTHING,
    LABELS,
    Told,
    arrivals,
    campaigns,
    contexts,
    evidence,
    forgotten,
    late_decisions,
    pool_codes,
    reserves,
    secrets,
    tallies,
)

_LATE = pa.schema([field for field in (*DECISIONS, *LABELS) if field.name in late_decisions.c])
_TOLD_CELLS = ("customer_id", "depth", "code", "known")
_FORGOTTEN_CELLS = ("hash", "forgotten_at", "seal")
EVERYBODY_FORGOTTEN = (
    *(forgotten, "all", words(sa.select(*(forgotten.c[name] for name in _FORGOTTEN_CELLS))), ()),
    _FORGOTTEN_CELLS,
)
"""The question for everybody who was forgotten (`Session.read_ahead`)."""
_TALLY_CELLS = ("owner", "name", "tally")
_TALLIES = words(sa.select(tallies).where(tallies.c.owner.in_([sa.bindparam("one"), sa.bindparam("other")])))
_NUMBER = "campaign_number"
_SECRET_CELLS = ("name", "value", "seal")
_SECRETS = words(sa.select(*(secrets.c[name] for name in _SECRET_CELLS)))
_NO_ROWS = np.zeros(0, np.int64)
_INDEXES = {"customer_index": "index of customers", "code_index": "index of codes"}


@cache
def _last_row(*, named: bool) -> str:
    """The question for the number of the last late arrival."""
    number = NAMED if named else sa.bindparam("number")
    return words(sa.select(sa.func.max(late_decisions.c.row)).where(late_decisions.c.campaign_number == number))


@cache
def _told(dialect: str, *, named: bool) -> str:
    """The question for what some late arrivals were told."""
    number = NAMED if named else sa.bindparam("number")
    told = sa.select(*(late_decisions.c[name] for name in _TOLD_CELLS))
    return words(told.where(late_decisions.c.campaign_number == number, one_of(dialect, late_decisions.c.customer_id)))


@cache
def _used_codes(dialect: str) -> str:
    """The question for those of some codes that a campaign has given, late or from a pool."""
    return words(
        sa.union_all(
            *(
                sa.select(one.c.code).where(
                    one.c.campaign_number == sa.bindparam("number"), one_of(dialect, one.c.code)
                )
                for one in (late_decisions, pool_codes)
            )
        )
    )


def _index_words(pack: Pack) -> str:
    return f"index of batch {pack.batch_id}"


class SqlDecisions:
    """Who was decided, with their codes; what is left for customers who arrive after the launch."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add_codes(self, campaign: str, codes: pa.Array, *, pooled: bool) -> None:
        """The codes of a launch, one per customer of its plan, null where there is none.

        StateError when a customer of the plan or a code is there twice, or a code of a pool is in use elsewhere.
        """
        row, artefacts = self._session.campaign_row(campaign), self._session.artefacts
        decisions = artefacts.get(row.decisions)
        kept = storable(pa.table({"code": codes.cast(pa.string())}))
        given, wanted = (column.is_valid().to_numpy() for column in (kept["code"], decisions["depth"]))
        if not np.array_equal(given, wanted):
            found = "codes on other rows than those with a depth"
            raise InputError("codes", found=found, expected="one code per depth given")
        names = {
            "codes": artefacts.put(kept),
            "customer_index": artefacts.put(index_of(decisions["customer_id"])),
            "code_index": artefacts.put(index_of(kept["code"])),
        }
        self._session.set(campaigns, row.cells, **names)
        if pooled:
            self._add_pooled(row.number, pc.drop_null(kept["code"]))

    def add_late(
        self, campaign: str, decisions: pa.Table, *, contexts: Matrix, features: pa.Table | None, pooled: bool
    ) -> None:
        """Append customers who arrived after the launch, with everything that is kept of them."""
        row = self._session.campaign_row(campaign)
        known = self.told(campaign, decisions["customer_id"].cast(pa.string()).to_pylist())
        if known:
            raise StateError(f"Customer {next(iter(known))} already has a decision in campaign {campaign}")
        codes = pc.drop_null(decisions["code"]).combine_chunks()
        if used := self.codes_in_use(codes, campaign=None if pooled else campaign).to_pylist():
            raise StateError(f"The code {used[0]} is already in use")
        context_rows = np.ascontiguousarray(contexts, "<f8")
        if context_rows.shape != (decisions.num_rows, row.context_size) or not np.isfinite(context_rows).all():
            expected = f"{row.context_size} finite columns"
            raise InputError("contexts", found=f"shape {context_rows.shape}", expected=expected)
        # rows are numbered without gaps, so the last one is found by the key and nothing is counted
        last = (late_decisions, ("last", row.number), _last_row(named=False), (row.number,), ("row",))
        self._session.read_ahead(last)
        before: int | None = self._session.read_before(late_decisions)["last", row.number][0]["row"]
        first = self._launched_rows(row) if before is None else before + 1
        given = [field for field in _LATE if field.name in decisions.column_names]
        table = storable(pa.table({field.name: decisions[field.name].cast(field.type) for field in given}))
        feature_rows: list[dict[str, Any] | None] = [None] * table.num_rows
        if features is not None:
            feature_rows = features.drop_columns(["customer_id"]).to_pylist()
        rows = [
            {
                **decision,
                "campaign_number": row.number,
                "row": first + place,
                "context": context_rows[place].tobytes(),
                "features": None if feature_rows[place] is None else json.dumps(feature_rows[place]),
            }
            for place, decision in enumerate(table.to_pylist())
        ]
        self._session.refuse_changed_state(row)
        self._session.add(late_decisions, *rows)
        if pooled:
            self._add_pooled(row.number, codes)

    def of(
        self,
        campaign: str,
        *,
        codes: pa.Array | None = None,
        customers: pa.Array | None = None,
        only_late: bool = False,
        from_row: int = 0,
    ) -> pa.Table:
        """As `schema.DECISIONS`, by row; all, or those of these codes or customers, or those after the launch.

        from_row: with `only_late`, those from this row on.
        customer_id has the type it was launched with.
        """
        row = self._session.campaign_row(campaign)
        return self._of(row, codes=codes, customers=customers, only_late=only_late, from_row=from_row)

    def told(self, campaign: str, customers: Sequence[str]) -> dict[str, Told]:
        """What these customers (ids as text, a few) were told, at the launch or later, where they have a decision."""
        row = self._session.campaign_row(campaign)
        read = self._session.read_before(late_decisions)  # nobody is asked about twice
        asked_for = [name for name in dict.fromkeys(customers) if (row.number, name) not in read]
        if asked_for:
            self._session.read_ahead(self._question(row.number, asked_for))
            late = read.pop(tuple(asked_for))
            found = {one["customer_id"]: Told(one["depth"], one["code"], bool(one["known"])) for one in late}
            others = [name for name in asked_for if name not in found]
            if others and row.codes is not None:
                found |= self._told_at_launch(row, others)
            read.update({(row.number, name): found.get(name) for name in asked_for})
        return {name: told for name in customers if (told := read[row.number, name]) is not None}

    def _question(self, number: int, customers: list[str]) -> Any:
        """What late arrivals were told, for `Session.read_ahead`."""
        dialect = self._connection.dialect.name
        values = (number, one_value(dialect, customers))
        return late_decisions, tuple(customers), _told(dialect, named=False), values, _TOLD_CELLS

    def _told_at_launch(self, row: CampaignRow, customers: list[str]) -> dict[str, Told]:
        artefacts = self._session.artefacts
        decisions = artefacts.get(row.decisions)
        asked_for = pa.array(customers, pa.string())
        rows = rows_of(artefacts.get(row.customer_index), decisions["customer_id"], asked_for)
        if not rows.size:
            return {}
        there = pa.array(rows)
        columns = (decisions["depth"], artefacts.get(row.codes)["code"], decisions["known"])
        cells = zip(*(column.take(there).to_pylist() for column in columns), strict=True)
        names = decisions["customer_id"].take(there).cast(pa.string()).to_pylist()
        return {name: Told(*told) for name, told in zip(names, cells, strict=True)}

    def read_ahead(self, campaign: str, customers: Sequence[str], *, deciding: bool) -> None:
        """Read at once what a look-up of these customers (ids as text, a few), or a decision about them, asks for one
        by one: it saves the waits in between, and changes no answer."""
        session, names = self._session, list(dict.fromkeys(customers))
        dialect = self._connection.dialect.name
        keyed = ((reserves, "depth"), (contexts, None), *(((arrivals, None), (evidence, None)) if deciding else ()))
        cells = [cells_of(table, _NUMBER, order, named=True) for table, order in keyed]
        row, tallies_of, told, *answers = ask_all(
            self._connection,
            [
                (CAMPAIGN, (campaign,)),
                (_TALLIES, (campaign, EVERYTHING)),
                (_told(dialect, named=True), (campaign, one_value(dialect, names))),
                *((statement, (campaign,)) for _, statement in cells),
                *(((_last_row(named=True), (campaign,)), (_SECRETS, ())) if deciding else ()),
                *(((EVERYBODY_FORGOTTEN[2], ()),) if deciding else ()),
            ],
        )
        if not row:
            return  # whoever asks next says so
        number = session.keep_campaign(row[0]).number
        for owner in (campaign, EVERYTHING):
            session.keep(tallies, ("owner", owner), _TALLY_CELLS, [one for one in tallies_of if one[0] == owner])
        session.keep(late_decisions, tuple(names), _TOLD_CELLS, told)
        for (table, _), (columns, _) in zip(keyed, cells, strict=True):
            session.keep(table, (_NUMBER, number), columns, answers.pop(0))
        if deciding:
            session.keep(late_decisions, ("last", number), ("row",), answers.pop(0))
            secrets_of = [dict(zip(_SECRET_CELLS, one, strict=True)) for one in answers.pop(0)]
            for name in SECRETS:
                session.read_before(secrets)["name", name] = [one for one in secrets_of if one["name"] == name]
            session.keep(forgotten, "all", EVERYBODY_FORGOTTEN[4], answers.pop(0))

    def late_seal(self, campaign: str) -> str | None:
        """Names all late arrivals of a campaign: while it is the same, they are. None: there are none."""
        tally = self._session.tally(late_decisions, campaign)
        return as_text(tally) if tally else None

    def _of(
        self,
        row: CampaignRow,
        *,
        codes: pa.Array | None = None,
        customers: pa.Array | None = None,
        only_late: bool = False,
        from_row: int = 0,
    ) -> pa.Table:
        wanted = {
            name: asked(name, texts)
            for name, texts in (("code", codes), ("customer_id", customers))
            if texts is not None
        }
        launched = self._launched(row, _NO_ROWS if only_late else self._rows(row, wanted))
        kind = launched["customer_id"].type
        labels = [field for field in LABELS if field.name in launched.column_names]
        late = self._late(row, wanted, labels, from_row=from_row)
        place = late.schema.get_field_index("customer_id")
        late = late.set_column(place, launched.schema.field("customer_id"), late["customer_id"].cast(kind))
        return pa.concat_tables([launched, late]) if late.num_rows else launched

    def misplaced(self, campaign: str) -> tuple[str, ...]:
        """Which of the indexes by customer and by code are not those of the decisions."""
        row = self._session.campaign_row(campaign)
        if row.codes is None:
            return ()
        of_launch = [
            _INDEXES[name]
            for name, index in self._indexes(row).items()
            if getattr(row, name) is None or not self._session.artefacts.get(getattr(row, name)).equals(index)
        ]
        packs = packs_of(self._session, campaign=row.number)
        return (*of_launch, *(_index_words(pack) for pack in packs if not pack.is_indexed()))

    def restore_indexes(self, campaign: str) -> tuple[str, ...]:
        """Build indexes again that are missing, damaged or misplaced; which they were. For repairs.

        StateError where decisions or codes are damaged themselves, or where the campaign's seal does not fit then.
        """
        row, artefacts = self._session.campaign_row(campaign), self._session.artefacts
        named = [row.decisions, row.codes]
        if None in named or not all(map(artefacts.is_intact, named)):
            return ()  # the health check says so
        restored, names = [], {}
        for pack in packs_of(self._session, campaign=row.number):
            if artefacts.is_intact(pack.names[0]) and not pack.is_indexed():
                pack.replace(np.ones(pack.table.num_rows, np.bool_))
                restored.append(_index_words(pack))
        for name, index in self._indexes(row).items():
            kept = getattr(row, name)
            if kept is None or not artefacts.is_intact(kept) or not artefacts.get(kept).equals(index):
                names[name] = artefacts.put(index)
                restored.append(_INDEXES[name])
        if any(getattr(row, name) != artefact for name, artefact in names.items()):
            if not is_whole(campaigns, {**row.cells, **names}):
                raise StateError(f"Campaign {campaign} was changed by something other than disco", fix=RESTORE)
            self._session.overwrite(campaigns, row.cells, {**row.cells, **names})
        return tuple(restored)

    def _indexes(self, row: CampaignRow) -> dict[str, pa.Table]:
        """The indexes of a launch as they must be, by their columns in `campaigns`."""
        get = self._session.artefacts.get
        return {
            "customer_index": index_of(get(row.decisions)["customer_id"]),
            "code_index": index_of(get(row.codes)["code"]),
        }

    def set_propensities(self, campaign: str, propensities: pa.Table) -> None:
        """row, propensity, propensity_draws of decisions of the launch; replaces what was set before."""
        row = self._session.campaign_row(campaign)
        rows, count = propensities["row"].to_numpy(), self._launched_rows(row)
        if rows.size and not 0 <= rows.min() <= rows.max() < count:
            raise StateError(f"Only decisions of the launch of campaign {campaign} have propensities")
        places = np.full(count, -1, np.int64)
        places[rows] = np.arange(rows.size)
        take = pa.array(places, mask=places < 0)
        table = pa.table(
            {
                name: propensities[name].cast(DECISIONS.field(name).type).combine_chunks().take(take)
                for name in ("propensity", "propensity_draws")
            }
        )
        self._session.refuse_changed_state(row)
        self._session.set(campaigns, row.cells, propensities=self._session.artefacts.put(storable(table)))

    def codes_in_use(self, codes: pa.Array, *, campaign: str | None = None) -> pa.Array:
        """Which of these are in use, in any campaign or in one; sorted."""
        if campaign is not None and len(codes) <= FEW:
            used = self._used(self._session.campaign_row(campaign), asked("code", codes).to_pylist())
            return pa.array(sorted(used), pa.string())
        texts, found = asked("code", codes), []
        schema = pa.schema([DECISIONS.field("code")])
        for table in (late_decisions, pool_codes):
            statement = sa.select(table.c.code)
            if campaign is not None:
                statement = statement.where(table.c.campaign_number == self._session.number(campaign))
            found.append(self._select(statement, {table.c.code: texts}, schema)["code"])
        launched = sa.select(campaigns.c.campaign).where(campaigns.c.codes.is_not(None))
        names = [campaign] if campaign is not None else self._connection.execute(launched).scalars().all()
        for name in names:
            row = self._session.campaign_row(name)
            found.append(self._launched(row, self._rows(row, {"code": texts}))["code"])
        distinct = pc.unique(pa.chunked_array([chunk for part in found for chunk in part.chunks], pa.string()))
        # sorted here: databases sort text by their own collations
        return distinct.take(pc.sort_indices(distinct))

    def _used(self, row: CampaignRow, codes: list[str]) -> set[str]:
        """Which of these few a campaign uses. No code is asked about twice."""
        read = self._session.read_before(late_decisions)
        asked_for = [code for code in codes if ("code", row.number, code) not in read]
        if asked_for:
            dialect = self._connection.dialect.name
            values = (row.number, one_value(dialect, asked_for)) * 2
            used = {code for (code,) in ask(self._connection, _used_codes(dialect), values)}
            if row.codes is not None:
                given, artefacts = self._session.artefacts.get(row.codes)["code"], self._session.artefacts
                rows = rows_of(artefacts.get(row.code_index), given, pa.array(asked_for, pa.string()))
                used.update(given.take(pa.array(rows)).to_pylist())
            read.update({("code", row.number, code): code in used for code in asked_for})
        return {code for code in codes if read["code", row.number, code]}

    def set_reserve(self, campaign: str, codes: Mapping[float, int | None]) -> None:
        """Codes per depth that late arrivals may still take; None: no limit."""
        before, rows = self._reserve_rows(campaign), self._as_rows(campaign, codes)
        self._session.replace_all(reserves, campaign, before, *rows)

    def restore_reserve(self, campaign: str, codes: Mapping[float, int | None]) -> bool:
        """Replace a reserve that was changed by another program; whether the campaign's state is what was kept then.

        For repairs: where it is not, the transaction must not be kept.
        """
        for row in self._reserve_rows(campaign):
            self._session.remove(reserves, row, recorded=False)
        self._session.add(reserves, *self._as_rows(campaign, codes), recorded=False)
        try:
            self._session.refuse_changed_state(self._session.campaign_row(campaign))
        except SealError:
            return False
        return True

    def _reserve_rows(self, campaign: str) -> list[dict[str, Any]]:
        return self._session.raw(reserves, "campaign_number", self._session.number(campaign), order="depth")

    def _as_rows(self, campaign: str, codes: Mapping[float, int | None]) -> list[dict[str, Any]]:
        number = self._session.number(campaign)
        return [{"campaign_number": number, "depth": depth, "codes": left} for depth, left in codes.items()]

    def reserve(self, campaign: str) -> dict[float, int | None]:
        return {row["depth"]: row["codes"] for row in self._reserve_rows(campaign)}

    def take_code(self, campaign: str, depth: float, *, count: int = 1) -> bool:
        """So many less at this depth; False, and nothing taken, when fewer were left."""
        self._session.refuse_changed_state(self._session.campaign_row(campaign))
        row = next((one for one in self._reserve_rows(campaign) if one["depth"] == depth), None)
        if row is None or (row["codes"] is not None and row["codes"] < count):
            return False
        if row["codes"] is not None:  # "no limit" less some is still no limit
            self._session.set(reserves, row, codes=row["codes"] - count)  # nobody else writes it: the campaign is ours
        return True

    def secret(self) -> bytes:
        """The key of the codes' HMAC: 32 random bytes, made with the database. StateError where it is not those."""
        return self._session.secret(CODES)

    def holdout_secret(self) -> bytes:
        """The key that draws lasting holdouts: 32 random bytes, made once. StateError where it is not those."""
        return self._session.secret(HOLDOUT)

    def renew_holdout_secret(self) -> None:
        """Another key in the place of that of lasting holdouts, so that the next campaign holds out other people."""
        self.holdout_secret()  # a changed one is refused
        row = next(iter(self._session.raw(secrets, "name", HOLDOUT)))
        self._session.set(secrets, row, value=token_bytes(len(row["value"])))

    def _add_pooled(self, number: int, codes: "pa.Array | pa.ChunkedArray") -> None:
        """Record codes of a pool as taken; the unique index refuses a code that another campaign has taken."""
        numbers = pa.array(np.full(len(codes), number))
        table = pa.table({"code": codes, "campaign_number": numbers})
        self._session.read_before(late_decisions).clear()  # where the codes in use are remembered
        self._session.database.insert(self._connection, pool_codes, table)

    def _launched_rows(self, row: CampaignRow) -> int:
        return 0 if row.codes is None else int(self._session.artefacts.get(row.codes).num_rows)

    def _rows(self, row: CampaignRow, wanted: Mapping[str, pa.Array]) -> Integers | None:
        """The rows of the launch that these questions name; None: all of them."""
        if not wanted or row.codes is None:
            return None if row.codes is not None else _NO_ROWS
        artefacts, found = self._session.artefacts, []
        for name, texts in wanted.items():
            index, table = (row.code_index, row.codes) if name == "code" else (row.customer_index, row.decisions)
            found.append(rows_of(artefacts.get(index), artefacts.get(table)[name], texts))
        return found[0] if len(found) == 1 else np.intersect1d(found[0], found[1])

    def _launched(self, row: CampaignRow, rows: Integers | None) -> pa.Table:
        """Decisions of the launch, as schema.DECISIONS: these rows, ascending, or all."""
        artefacts = self._session.artefacts
        parts = [artefacts.get(row.decisions)]
        if row.codes is not None:
            parts.append(artefacts.get(row.codes))
        if row.propensities is not None:
            parts.append(artefacts.get(row.propensities))
        if rows is not None:
            parts = [part.take(pa.array(rows)) for part in parts]
        count = parts[0].num_rows
        columns: dict[str, Any] = {
            "row": pa.array(np.arange(count) if rows is None else rows),
            "late": pa.array(np.zeros(count, np.bool_)),
        }
        for part in parts:
            columns.update(zip(part.column_names, part.columns, strict=True))
        integer = pa.types.is_integer(columns["customer_id"].type)
        fields = [
            field.with_type(pa.int64()) if field.name == "customer_id" and integer else field for field in DECISIONS
        ]
        fields += [field for field in LABELS if field.name in columns]
        return pa.table(
            [
                columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
                for field in fields
            ],
            schema=pa.schema(fields),
        )

    def _late(
        self, row: CampaignRow, wanted: Mapping[str, pa.Array], labels: list[pa.Field], *, from_row: int
    ) -> pa.Table:
        """Late arrivals, as schema.DECISIONS and these labels."""
        schema = pa.schema([*DECISIONS, *labels])
        if (
            any(len(texts) > FEW for texts in wanted.values())
            and ask(self._connection, _last_row(named=False), (row.number,))[0][0] is None
        ):
            return schema.empty_table()  # nobody came late: millions of texts need not be sent
        columns = [late_decisions.c[name] for name in _LATE.names]
        statement = sa.select(*columns).where(late_decisions.c.campaign_number == row.number)
        if from_row:
            statement = statement.where(late_decisions.c.row >= from_row)
        names: dict[sa.ColumnElement[Any], pa.Array] = {late_decisions.c[name]: texts for name, texts in wanted.items()}
        found = in_order(self._select(statement, names, _LATE, few=from_row > 0), "row")
        late = pa.array(np.ones(found.num_rows, np.bool_))
        return pa.table(
            [
                late
                if field.name == "late"
                else found[field.name]
                if field.name in _LATE.names
                else pa.nulls(found.num_rows, field.type)
                for field in schema
            ],
            schema=schema,
        )

    def _select(
        self,
        statement: "sa.Select[Any]",
        wanted: "Mapping[sa.ColumnElement[Any], pa.Array]",
        schema: pa.Schema,
        *,
        few: bool = False,
    ) -> pa.Table:
        """The rows of a statement in which these columns have one of these texts: few or millions of them.

        few: whether few rows are expected, whatever is asked.
        """
        if (few or wanted) and all(len(texts) <= FEW for texts in wanted.values()):
            named = statement.where(*(column.in_(texts.to_pylist()) for column, texts in wanted.items()))
            return select_few(self._connection, named, schema)
        for column, texts in wanted.items():
            statement = statement.where(self._session.database.among(column, texts))
        return self._session.database.select(self._connection, statement, schema)
