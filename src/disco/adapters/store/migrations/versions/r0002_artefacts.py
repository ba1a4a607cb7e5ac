"""Decisions, contexts, features and codes become artefacts; words that were renamed are renamed in what is kept.

Artefacts are written first; the tables follow in the upgrade's one transaction. Plan ids stay what they are.
"""

import json
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa
from alembic import context, op

from disco.adapters.store.artefacts import index_of
from disco.adapters.store.plans import put_tables, table_of
from disco.records.errors import StateError
from disco.records.life import PlanTables
from disco.records.ports import Artefacts

revision = "0002"
down_revision = "0001"

_LEVEL = 0.9  # of the intervals that revision 0001 kept without saying so
_MOST_LISTED = 10  # plans in a message
_RENAMED_ARM = {"test": "decided"}
_RENAMED_STATUS = {"dealt at random": "assigned at random"}
_DECISIONS = pa.schema(
    [
        ("row", pa.int64()),
        ("customer_id", pa.string()),
        ("arm", pa.string()),
        ("depth", pa.float64()),
        ("code", pa.string()),
        ("value", pa.float64()),
        ("known", pa.bool_()),
        ("late", pa.bool_()),
        ("expected_full_price", pa.float64()),
        ("expected_engagement", pa.float64()),
        ("propensity", pa.float64()),
        ("propensity_draws", pa.int64()),
    ]
)
_PLANNED = ["customer_id", "arm", "depth", "value", "known", "expected_full_price", "expected_engagement"]


def upgrade() -> None:
    connection = op.get_bind()
    _alter_tables()
    campaigns = connection.execute(sa.text("SELECT * FROM campaigns ORDER BY number")).mappings().all()
    if connection.execute(sa.text("SELECT count(*) FROM plans")).scalar_one():
        places = _places()
        plans = connection.execute(sa.text("SELECT * FROM plans ORDER BY planned_at, plan_id")).mappings().all()
        if not context.config.attributes.get("without_plans"):
            _refuse_missing([(plan["plan_id"], plan["campaign"]) for plan in plans], places["plans"])
        for plan in plans:  # everything is read once before anything is written
            folder = None if places["plans"] is None else places["plans"] / plan["plan_id"]
            for name in ("features.parquet", "decisions.parquet"):
                _read(folder, name)
            _late_features(folder)
        carrier = _Carrier(connection, **places)
        launched = {campaign["plan_id"]: campaign for campaign in campaigns}
        for plan in plans:
            carrier.carry_plan(dict(plan), launched.get(plan["plan_id"]))
    op.execute("UPDATE outcomes SET disposition = 'expired' WHERE disposition = 'late'")
    op.execute("DROP TABLE decisions")
    op.execute("DROP TABLE old_contexts")
    op.execute("ALTER TABLE campaigns DROP COLUMN solution")
    if connection.dialect.name == "sqlite":
        _tell_sqlite_the_sizes()


def _places() -> dict[str, Any]:
    found = {name: context.config.attributes.get(name) for name in ("artefacts", "plans")}
    if found["artefacts"] is None:
        raise StateError(
            "upgrade", found="no place for artefacts", expected="the setting `artefacts`", fix="Run: disco db upgrade."
        )
    return found


def _refuse_missing(plans: list[tuple[str, str]], folder: Path | None) -> None:
    """Features and late arrivals' features, and decisions of plans that were not launched, lie only in the folder."""
    missing = [
        f"{plan_id} ({campaign})"
        for plan_id, campaign in plans
        if folder is None or not (folder / plan_id / "plan.json").is_file()
    ]
    if missing:
        listed = ", ".join(missing[:_MOST_LISTED]) + (", …" if len(missing) > _MOST_LISTED else "")
        raise StateError(
            f"The folder of plans {folder} lacks {len(missing)} of the {len(plans)} plans of the database: {listed}",
            fix="Let the setting `plans` name their folder, or restore it. `--without-plans` upgrades without them: "
            "these plans lose their features, and their decisions where they were not launched.",
        )


def _alter_tables() -> None:
    for name in ("decisions", "contexts", "features"):
        op.add_column("plans", sa.Column(name, sa.Text(), nullable=True))
    for name in ("codes", "customer_index", "code_index", "propensities"):
        op.add_column("campaigns", sa.Column(name, sa.Text(), nullable=True))
    op.create_table(
        "late_decisions",
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.Column("row", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("depth", sa.Double(), nullable=True),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("known", sa.Boolean(), nullable=False),
        sa.Column("expected_full_price", sa.Double(), nullable=True),
        sa.Column("expected_engagement", sa.Double(), nullable=True),
        sa.Column("context", sa.LargeBinary(), nullable=False),
        sa.Column("features", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["campaign_number"], ["campaigns.number"], name="late_decisions_campaign_number_of_campaigns"
        ),
        sa.PrimaryKeyConstraint("campaign_number", "row", name="late_decisions_key"),
        sa.UniqueConstraint("campaign_number", "customer_id", name="late_decisions_one_campaign_number_customer_id"),
        sa.UniqueConstraint("code", name="late_decisions_one_code"),
    )
    op.create_table(
        "pool_codes",
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("code", name="pool_codes_key"),
        sqlite_with_rowid=False,
    )
    op.execute("ALTER TABLE contexts RENAME TO old_contexts")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER INDEX contexts_key RENAME TO old_contexts_key")
        op.execute(
            "ALTER TABLE old_contexts RENAME CONSTRAINT contexts_campaign_number_of_campaigns TO old_contexts_campaign"
        )
    op.create_table(
        "contexts",
        sa.Column("campaign_number", sa.Integer(), nullable=False),
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("artefact", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_number"], ["campaigns.number"], name="contexts_campaign_number_of_campaigns"
        ),
        sa.PrimaryKeyConstraint("campaign_number", "network", name="contexts_key"),
    )


class _Carrier:
    """Carries plans and campaigns of revision 0001 over."""

    def __init__(self, connection: sa.Connection, artefacts: Artefacts, plans: Path | None) -> None:
        self._connection = connection
        self._artefacts = artefacts
        self._plans = plans

    def carry_plan(self, plan: dict[str, Any], campaign: Any) -> None:
        folder = None if self._plans is None else self._plans / plan["plan_id"]
        features = _read(folder, "features.parquet")
        tables = None
        if campaign is not None:
            decisions = self._decisions(campaign)
            contexts = self._contexts(campaign["number"], campaign["network"])
            late = decisions["late"].to_numpy(zero_copy_only=False)
            tables = PlanTables(
                decisions=_planned(decisions.filter(pc.invert(decisions["late"]))),
                contexts=contexts[: len(late)][~late],
                features=features,
            )
        else:
            kept = _read(folder, "decisions.parquet")
            if kept is not None:
                lists = kept["context"].combine_chunks()
                tables = PlanTables(
                    decisions=_planned(kept),
                    contexts=lists.flatten().to_numpy(zero_copy_only=False).reshape(kept.num_rows, -1),
                    features=features,
                )
        names = {} if tables is None else put_tables(self._artefacts, tables)
        self._set("plans", "plan_id", plan["plan_id"], summary=_summary(plan), **names)
        if campaign is not None:
            self._carry_campaign(campaign, json.loads(plan["plan"]), decisions, contexts, names, folder)

    def _carry_campaign(
        self,
        campaign: Any,
        plan: dict[str, Any],
        decisions: pa.Table,
        contexts: np.ndarray,
        names: dict[str, str | None],
        folder: Path | None,
    ) -> None:
        number, is_late = campaign["number"], decisions["late"]
        launched, late = decisions.filter(pc.invert(is_late)), decisions.filter(is_late)
        kept = {
            "codes": self._artefacts.put(launched.select(["code"])),
            "customer_index": self._artefacts.put(index_of(launched["customer_id"])),
            "code_index": self._artefacts.put(index_of(launched["code"])),
        }
        if launched["propensity"].null_count < launched.num_rows:
            kept["propensities"] = self._artefacts.put(launched.select(["propensity", "propensity_draws"]))
        self._set("campaigns", "number", number, **kept)
        if (plan.get("codes") or {}).get("pool") is not None:
            self._insert(
                "pool_codes",
                [{"code": code, "campaign_number": number} for code in pc.drop_null(decisions["code"]).to_pylist()],
            )
        for network in (
            self._connection.execute(
                sa.text("SELECT DISTINCT network FROM old_contexts WHERE campaign_number = :number"), {"number": number}
            )
            .scalars()
            .all()
        ):
            artefact = names["contexts"]
            if network != campaign["network"]:
                artefact = self._artefacts.put(table_of(self._contexts(number, network)))
            self._insert("contexts", [{"campaign_number": number, "network": network, "artefact": artefact}])
        features = _late_features(folder)
        rows = late.drop_columns(["late", "propensity", "propensity_draws"]).to_pylist()
        without = [str(row["customer_id"]) for row in rows if str(row["customer_id"]) not in features]
        if names["features"] is not None and without and not context.config.attributes.get("without_plans"):
            found = f"no features of {len(without)} late arrivals"
            raise _damaged(Path(str(folder)) / "late-*.parquet", found)
        self._insert(
            "late_decisions",
            [
                {
                    **row,
                    "campaign_number": number,
                    "arm": _RENAMED_ARM.get(row["arm"], row["arm"]),
                    "customer_id": str(row["customer_id"]),
                    "context": np.ascontiguousarray(contexts[row["row"]], "<f8").tobytes(),
                    "features": features.get(str(row["customer_id"])),
                }
                for row in rows
            ],
        )

    def _decisions(self, campaign: Any) -> pa.Table:
        names = ", ".join(f'"{name}"' for name in _DECISIONS.names)
        rows = self._connection.execute(
            sa.text(f'SELECT {names} FROM decisions WHERE campaign_number = :number ORDER BY "row"'),
            {"number": campaign["number"]},
        )
        batches = []
        for part in rows.partitions(65_536):
            columns = [
                pa.array([bool(value) for value in column] if pa.types.is_boolean(kind) else list(column), kind)
                for column, kind in zip(zip(*part, strict=True), _DECISIONS.types, strict=True)
            ]
            batches.append(pa.record_batch(columns, schema=_DECISIONS))
        table = pa.Table.from_batches(batches, _DECISIONS)
        if campaign["integer_ids"]:
            table = table.set_column(1, "customer_id", table["customer_id"].cast(pa.int64()))
        return table

    def _contexts(self, number: int, network: str) -> np.ndarray:
        blobs = self._connection.execute(
            sa.text(
                "SELECT rows, matrix FROM old_contexts WHERE campaign_number = :number AND network = :network "
                "ORDER BY first_row"
            ),
            {"number": number, "network": network},
        )
        return np.concatenate([np.frombuffer(blob.matrix, "<f8").reshape(blob.rows, -1) for blob in blobs])

    def _set(self, table: str, key: str, value: object, **columns: object) -> None:
        assigned = ", ".join(f"{name} = :{name}" for name in columns)
        self._connection.execute(
            sa.text(f"UPDATE {table} SET {assigned} WHERE {key} = :key"), {**columns, "key": value}
        )

    def _insert(self, table: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            names = list(rows[0])
            columns, values = ", ".join(f'"{name}"' for name in names), ", ".join(f":{name}" for name in names)
            self._connection.execute(sa.text(f"INSERT INTO {table} ({columns}) VALUES ({values})"), rows)


def _planned(decisions: pa.Table) -> pa.Table:
    table = decisions.select(_PLANNED)
    arms = table["arm"].combine_chunks().dictionary_encode()
    arms = arms.chunk(0) if isinstance(arms, pa.ChunkedArray) else arms
    renamed = pa.array([_RENAMED_ARM.get(arm, arm) for arm in arms.dictionary.to_pylist()], pa.string())
    return table.set_column(1, "arm", renamed.take(arms.indices))


def _summary(plan: dict[str, Any]) -> str:
    """The typed summary of what was a text within a text."""
    kept = json.loads(plan["summary"])
    shown, solution = kept["summary"], json.loads(kept["solution"])
    solution["status"] = _RENAMED_STATUS.get(solution["status"], solution["status"])
    return json.dumps(
        {
            **{name: shown[name] for name in ("customers", "network", "version", "binding", "warnings")},
            "solution": solution,
            "arms": {
                _RENAMED_ARM.get(name, name): {**arm, "money": _money(arm["money"])}
                for name, arm in shown["arms"].items()
            },
            "total": _money(shown["total"]),
            "sources": {},
        }
    )


def _money(money: dict[str, Any] | None) -> dict[str, Any] | None:
    return money and {
        name: {"value": figure["mean"], "lower": figure["lower"], "upper": figure["upper"], "level": _LEVEL}
        for name, figure in money.items()
    }


def _read(folder: Path | None, name: str) -> pa.Table | None:
    """A file of a plan's folder, where it is there and is the one that the plan was sealed with."""
    if folder is None or not (folder / "plan.json").is_file():
        return None
    try:
        sealed = dict(json.loads((folder / "plan.json").read_text(encoding="utf-8"))["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder / "plan.json", f"a file that cannot be read ({type(error).__name__})") from error
    if name not in sealed:
        return None
    if not (folder / name).is_file():
        raise _damaged(folder / name, "no file")
    with (folder / name).open("rb") as file:
        if sealed[name] != file_digest(file, "sha256").hexdigest():
            raise _damaged(folder / name, "another content than when it was kept")
    return _table(folder / name)


def _table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, f"a file that cannot be read ({str(error)[:100]})") from error


def _damaged(path: Path, found: str) -> StateError:
    return StateError(
        str(path),
        found=found,
        expected="the file as it was written",
        fix="Restore the folder of the plan from a copy; or move it away and upgrade with `--without-plans`.",
    )


def _late_features(folder: Path | None) -> dict[str, str]:
    """Features of late arrivals as JSON, by customer."""
    found: dict[str, str] = {}
    for path in [] if folder is None else sorted(folder.glob("late-*.parquet")):
        table = _table(path)
        if "customer_id" not in table.column_names:
            raise _damaged(path, "no column customer_id")
        ids = table["customer_id"].cast(pa.string()).to_pylist()
        rows = table.drop_columns(["customer_id"]).to_pylist()
        found.update((customer, json.dumps(row)) for customer, row in zip(ids, rows, strict=True))
    return found


def _tell_sqlite_the_sizes() -> None:
    """As in revision 0001, for the tables of this one."""
    op.execute("DELETE FROM sqlite_stat1 WHERE tbl = 'decisions'")
    sizes = {
        ("late_decisions", "sqlite_autoindex_late_decisions_1"): "10000 10000 1",
        ("late_decisions", "sqlite_autoindex_late_decisions_2"): "10000 10000 1",
        ("late_decisions", "sqlite_autoindex_late_decisions_3"): "10000 1",
        ("pool_codes", "pool_codes"): "1000000 1",
    }
    for (table, index), figures in sizes.items():
        op.execute(f"INSERT INTO sqlite_stat1 VALUES ('{table}', '{index}', '{figures}')")
    op.execute("ANALYZE sqlite_schema")  # reads them again
