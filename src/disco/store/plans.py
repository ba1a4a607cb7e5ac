"""Plans with their tables, and the campaigns that were launched from them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from disco.records.arrays import Matrix
from disco.records.arrow_tables import TableRows
from disco.records.campaign_records import CampaignRecord, PlanRecord, State
from disco.records.errors import FileFormatError, InputError, NotFoundError, StateError
from disco.records.locale import Locale
from disco.records.plan import Plan
from disco.records.plan_summary import PlanSummary, Solution
from disco.store.artefacts import Artefacts, in_one_piece
from disco.store.database import storable
from disco.store.ledger import packs_of
from disco.store.rows import CampaignRow, Session, beginning_with, changed, is_whole, no_such_campaign
from disco.store.schema import LABELS, PLANNED, campaigns, contexts, moment_of, plans

_ARMS = pa.dictionary(pa.int8(), pa.string())
_RECENT = 16  # plans that are asked for equal features
_MOST_READ = 64  # plans whose text is not read again: it never changes, and a late arrival is decided in less time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanTables:
    """The large parts of a plan, one row per customer in one order."""

    decisions: pa.Table  # the columns of `schema.PLANNED`
    contexts: Matrix  # (n, d1)
    features: TableRows | None  # retained so that another network can embed the customers again


class SqlPlans:
    """Plans, and the campaigns that were launched from them. StateError where one is not what was kept (its seal)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._locale = session.locale
        self._connection = session.connection

    def add(self, record: PlanRecord, tables: PlanTables, *, renew: bool = False) -> bool:
        """Keep a plan; the same plan again changes nothing. Whether it was written.

        renew: replace one that was not launched and is not what was kept, or has other tables or damaged ones.
        """
        there = bool(self._session.raw(plans, "plan_id", record.plan_id))
        if there and not (renew and self._is_open(record.plan_id)):
            return False
        row = {
            "plan_id": record.plan_id,
            "campaign": record.plan.campaign,
            "plan": record.plan.model_dump_json(by_alias=True),
            "inputs": json.dumps(dict(record.inputs)),
            "summary": record.summary.to_json(),
            # a plan that is renewed is written whole, with every file that is damaged, missing or not its own
            **put_tables(
                self._session.artefacts,
                tables,
                features=None if there else self._same_features(record, tables),
            ),
        }
        if there:
            [kept] = self._session.raw(plans, "plan_id", record.plan_id)
            if is_whole(plans, kept) and row.items() <= kept.items():
                return False
            self._session.remove(plans, kept)
        self._session.add(plans, {**row, "planned_at": record.planned_at})
        return True

    def _same_features(self, record: PlanRecord, tables: PlanTables) -> str | None:
        """The artefact of equal features that a recent plan has kept; None: there is none, or it is damaged.

        Plans of one day are about the same customers more often than not, and their features are most of a plan.
        """
        content, artefacts = record.inputs.get("features"), self._session.artefacts
        if content is None or tables.features is None:
            return None
        recent = sa.select(plans.c.plan_id, plans.c.inputs, plans.c.features).where(plans.c.features.is_not(None))
        for row in self._connection.execute(recent.order_by(plans.c.planned_at.desc()).limit(_RECENT)).all():
            if (
                json.loads(row.inputs).get("features") == content
                and self._is_whole(row.plan_id)
                and artefacts.is_intact(row.features)
                # the content says nothing about the schema's metadata
                and artefacts.schema(row.features).equals(tables.features.schema, check_metadata=True)
            ):
                return str(row.features)
        return None

    def _refuse_changed(self, plan_id: str) -> None:
        self._session.refuse_changed(plans, *self._session.raw(plans, "plan_id", plan_id))

    def _is_whole(self, plan_id: str) -> bool:
        return all(is_whole(plans, row) for row in self._session.raw(plans, "plan_id", plan_id))

    def _is_open(self, plan_id: str) -> bool:
        """Whether no campaign was launched from it."""
        launched = sa.select(campaigns.c.number).where(campaigns.c.plan_id == plan_id)
        return self._connection.execute(launched).first() is None

    def ids(self) -> tuple[str, ...]:
        """Of all plans, sorted; also where one of them cannot be read."""
        return tuple(sorted(map(str, self._connection.execute(sa.select(plans.c.plan_id)).scalars())))

    def recent(self, limit: int, *, before: tuple[datetime, str] | None = None) -> tuple[PlanRecord, ...]:
        """The newest plans, or the newest that are older than this moment and id."""
        rows = sa.select(plans).order_by(plans.c.planned_at.desc(), plans.c.plan_id.desc()).limit(limit)
        if before is not None:
            moment, plan_id = before
            same = sa.and_(plans.c.planned_at == moment, plans.c.plan_id < plan_id)
            rows = rows.where(sa.or_(plans.c.planned_at < moment, same))
        found = self._connection.execute(rows).all()
        for row in found:
            self._refuse_changed(row.plan_id)
        return tuple(_plan_record(row) for row in found)

    def get(self, plan_id: str) -> PlanRecord:
        """By its id, or by four or more characters of its beginning where these name a single plan."""
        return _plan_record(self._row(plan_id))

    def of(self, campaign: str) -> tuple[PlanRecord, ...]:
        """The plans of a campaign, by the time they were made."""
        rows = sa.select(plans).where(plans.c.campaign == campaign).order_by(plans.c.planned_at, plans.c.plan_id)
        found = self._connection.execute(rows).all()
        for row in found:
            self._refuse_changed(row.plan_id)
        return tuple(_plan_record(row) for row in found)

    def tables(self, plan_id: str) -> PlanTables:
        """The plan's tables, each compared with the hash that names it."""
        row, artefacts = self._row(plan_id), self._session.artefacts
        decisions, contexts = artefacts.get(row.decisions), artefacts.get(row.contexts)
        if not _is_planned(decisions) or not _is_matrix(contexts):
            raise FileFormatError(
                f"plan {row.plan_id}",
                found="tables of decisions or contexts with other columns",
                expected=f"{', '.join(PLANNED.names)}; one context per decision",
                fix="Run `disco plan` again.",
            )
        return PlanTables(
            decisions=decisions.set_column(1, "arm", decisions["arm"].cast(pa.string())),
            contexts=matrix_of(contexts),
            features=None if row.features is None else artefacts.get(row.features),
        )

    def launch(self, record: CampaignRecord) -> None:
        """Make a campaign of a plan that was kept before. StateError when the campaign exists."""
        if self.find_campaign(record.campaign) is not None:
            raise StateError(f"Campaign {record.campaign} was launched before", fix="Give the plan another name.")
        if self._session.tallies(record.campaign).get(campaigns.name):  # it was launched, and its row is gone
            raise changed(f"Campaign {record.campaign}")
        plan = self._row(record.plan_id)
        if Plan.from_json(plan.plan) != record.plan:
            raise StateError(f"Campaign {record.campaign} has another plan than its plan id names")
        self._session.add(
            campaigns,
            {
                "campaign": record.campaign,
                "plan_id": record.plan_id,
                "state": record.state,
                "integer_ids": record.integer_ids,
                "context_size": record.context_size,
                "network": record.network,
                "version": record.version,
                "launched_at": record.launched_at,
            },
        )
        number = self._session.number(record.campaign)
        of_launch = {"campaign_number": number, "network": record.network, "artefact": plan.contexts}
        self._session.add(contexts, of_launch)

    def campaign(self, campaign: str) -> CampaignRecord:
        found = self.find_campaign(campaign)
        if found is None:
            raise no_such_campaign(campaign, self._connection)
        return found

    def find_campaign(self, campaign: str) -> CampaignRecord | None:
        row = self._session.find_campaign(campaign)
        if row is None:
            return None
        [plan] = self._session.raw(plans, "plan_id", row.plan_id)
        self._session.refuse_changed(plans, plan)
        self._session.refuse_changed_state(row)
        return _campaign_record(row, self._locale, _plan(plan["plan"]), _summary(plan["summary"]).solution)

    def standing(self, record: CampaignRecord) -> CampaignRecord:
        """A campaign that was read before as it stands now: its state and recall are read and compared with their seal
        again, its plan, which never changes, is not."""
        row = self._session.campaign_row(record.campaign)
        if row.plan_id != record.plan_id:
            return self.campaign(record.campaign)
        self._session.refuse_changed_state(row)
        return _campaign_record(row, self._locale, record.plan, record.solution)

    def campaigns(self) -> tuple[CampaignRecord, ...]:
        """All, by the first day of validity, then by name."""
        records = [self.campaign(name) for name in self.names()]
        return tuple(sorted(records, key=lambda record: (record.plan.valid.start, record.campaign)))

    def names(self) -> tuple[str, ...]:
        """Of all campaigns, sorted; also where one of them cannot be read."""
        return tuple(sorted(self._connection.execute(sa.select(campaigns.c.campaign)).scalars()))

    def set_state(self, campaign: str, state: State) -> None:
        row = self._session.campaign_row(campaign)
        self._session.refuse_changed_state(row)
        self._session.set(campaigns, row.cells, state=state)

    def recall(self, campaign: str, *, at: datetime) -> None:
        """Record that no code of a campaign is valid from this moment on. StateError where it was recalled before."""
        row = self._session.campaign_row(campaign)
        self._session.refuse_changed_state(row)
        if row.recalled_at is not None:
            raise StateError(f"Campaign {campaign} was recalled before")
        self._session.set(campaigns, row.cells, recalled_at=at)

    def damaged(self, campaign: str) -> tuple[str, ...]:
        """Artefacts of a campaign that are missing or not as they were written; reads all of them."""
        row = self._session.campaign_row(campaign)
        of_campaign = sa.select(contexts.c.artefact).where(contexts.c.campaign_number == row.number)
        kept = _artefacts(row, ("decisions", "features", "codes", "customer_index", "code_index", "propensities"))
        packed = [name for pack in packs_of(self._session, campaign=row.number) for name in pack.names]
        names = dict.fromkeys([*kept, *self._connection.execute(of_campaign).scalars(), *packed])
        return tuple(name for name in names if not self._session.artefacts.is_intact(name))

    def _row(self, plan_id: str) -> sa.Row[Any]:
        fix = "`disco plan PLAN.yaml` makes one and prints its id."
        none = NotFoundError(f"There is no plan {plan_id}", fix=fix)
        found = beginning_with(self._connection, plans.c.plan_id, plan_id, rows=sa.select(plans), none=none)
        self._refuse_changed(found.plan_id)
        return found


def put_tables(artefacts: Artefacts, tables: PlanTables, *, features: str | None = None) -> dict[str, str | None]:
    """Write the tables of a plan; the name of each. features: the artefact that holds them already."""
    if features is None and tables.features is not None:
        features = artefacts.put(tables.features, compressed=True)
    return {
        "decisions": artefacts.put(_planned(tables.decisions)),
        "contexts": artefacts.put(table_of(tables.contexts)),
        "features": features,
    }


def _planned(decisions: pa.Table) -> pa.Table:
    """Decisions as they are kept: numbers and text that every store holds, ids as integers or text, arms by number."""
    columns = {}
    for field in PLANNED:
        kind = pa.int64() if field.name == "customer_id" and _is_integer(decisions) else field.type
        if field.name in decisions.column_names:
            columns[field.name] = decisions[field.name].cast(kind)
        elif field.nullable:
            columns[field.name] = pa.nulls(decisions.num_rows, kind)
        else:
            raise InputError("decisions", found=f"no column {field.name}", expected=", ".join(PLANNED.names))
    for field in LABELS:
        if field.name in decisions.column_names:
            columns[field.name] = decisions[field.name].cast(field.type)
    table = storable(pa.table(columns))
    return table.set_column(1, "arm", table["arm"].dictionary_encode().cast(_ARMS))


def _is_planned(decisions: pa.Table) -> bool:
    """Whether the columns are those that `_planned` makes."""
    kinds = {"customer_id": (pa.int64(), pa.string()), "arm": (_ARMS,)}
    kept = pa.schema([*PLANNED, *LABELS])
    labels = [name for name in LABELS.names if name in decisions.column_names]
    return decisions.column_names == [*PLANNED.names, *labels] and all(
        field.type in kinds.get(field.name, (kept.field(field.name).type,)) for field in decisions.schema
    )


def _is_matrix(table: pa.Table) -> bool:
    """Whether `matrix_of` can read it: lists of one length, without nulls."""
    if table.column_names != ["context"] or not pa.types.is_fixed_size_list(kind := table["context"].type):
        return False
    lists = in_one_piece(table["context"])
    return bool(kind.value_type == pa.float64() and not lists.null_count and not lists.flatten().null_count)


def _is_integer(decisions: pa.Table) -> bool:
    return bool(pa.types.is_integer(decisions["customer_id"].type))


def table_of(contexts: Matrix) -> pa.Table:
    """A matrix as a table of one column of lists; refused: NaN and infinity."""
    values = np.ascontiguousarray(contexts, "<f8")
    if values.ndim != 2 or not np.isfinite(values).all():
        raise InputError("contexts", found="NaN, infinity or no matrix", expected="one finite row per decision")
    return pa.table({"context": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])})


def matrix_of(table: pa.Table) -> Matrix:
    """The matrix that `table_of` made a table of; its memory is the file's, which nobody can write."""
    lists = in_one_piece(table["context"])
    return np.asarray(lists.flatten().to_numpy().reshape(table.num_rows, lists.type.list_size))


def _artefacts(row: CampaignRow, columns: Iterable[str]) -> list[str]:
    return [name for column in columns if (name := getattr(row, column)) is not None]


@lru_cache(maxsize=_MOST_READ)
def _plan(content: str) -> Plan:
    return Plan.from_json(content)


@lru_cache(maxsize=_MOST_READ)
def _summary(content: str) -> PlanSummary:
    return PlanSummary.from_json(content)


def _plan_record(row: sa.Row[Any]) -> PlanRecord:
    return PlanRecord(
        plan_id=row.plan_id,
        plan=_plan(row.plan),
        inputs=json.loads(row.inputs),
        summary=_summary(row.summary),
        planned_at=row.planned_at,
    )


def _campaign_record(row: CampaignRow, locale: Locale, plan: Plan, solution: Solution) -> CampaignRecord:
    return CampaignRecord(
        campaign=row.campaign,
        plan_id=row.plan_id,
        plan=plan,
        state=State(row.state),
        integer_ids=bool(row.integer_ids),
        context_size=row.context_size,
        network=row.network,
        version=row.version,
        solution=solution,
        launched_at=moment_of(row.launched_at),
        recalled_at=None if row.recalled_at is None else locale.local(moment_of(row.recalled_at)),
    )
