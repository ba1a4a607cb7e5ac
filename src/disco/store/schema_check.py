"""The tables of a database compared with those that the schema declares: columns, keys, checks, indexes."""

from collections.abc import Iterator

import sqlalchemy as sa

from disco.records.diagnosis import REPAIR, RESTORE, Diagnosis
from disco.store import schema

REBUILT = (schema.reserves, schema.evidence)  # a repair fills them from ledger and plans


def compare_schema(connection: sa.Connection) -> Iterator[Diagnosis]:
    """Tables with columns, keys and indexes as `schema.metadata` declares them."""
    inspector, failed = sa.inspect(connection), False
    there = set(inspector.get_table_names())
    for table in schema.metadata.sorted_tables:
        missing = table.name not in there
        problems = ["the table is missing"] if missing else list(_differences(connection, inspector, table))
        if problems:
            failed = True
            only_indexes = all(problem.startswith("no index") for problem in problems)
            yield Diagnosis.of(
                "schema",
                f"table {table.name}",
                False,
                "; ".join(problems),
                expected="the table as this program creates it",
                fix=REPAIR if only_indexes or (missing and table in REBUILT) else RESTORE,
            )
    if not failed:
        words = f"{len(schema.metadata.tables)} tables with their columns, keys and indexes"
        yield Diagnosis.of("schema", "all tables", True, words, expected="")
    if extra := sorted(there - set(schema.metadata.tables) - {schema.REVISIONS}):
        yield Diagnosis.note(
            "schema",
            "database",
            f"unknown tables: {', '.join(extra)}",
            expected="the tables of disco alone",
            fix="Move them to a database of their own.",
        )


def _differences(connection: sa.Connection, inspector: sa.Inspector, table: sa.Table) -> Iterator[str]:
    dialect = connection.dialect
    found = {column["name"]: column for column in inspector.get_columns(table.name)}
    for name in sorted(set(found) - set(table.c.keys())):
        yield f"an unknown column {name}"
    for column in table.c:
        if column.name not in found:
            yield f"no column {column.name}"
            continue
        kinds = [kind.compile(dialect) for kind in (found[column.name]["type"], column.type)]
        if kinds[0] != kinds[1]:
            yield f"column {column.name} is {kinds[0]} instead of {kinds[1]}"
        if bool(found[column.name]["nullable"]) != bool(column.nullable):
            yield f"column {column.name} {'allows' if found[column.name]['nullable'] else 'refuses'} null"
    key = inspector.get_pk_constraint(table.name)["constrained_columns"]
    if key != [column.name for column in table.primary_key]:
        yield f"another primary key ({', '.join(key)})"
    unique = {tuple(one["column_names"]) for one in inspector.get_unique_constraints(table.name)}
    for constraint in table.constraints:
        if isinstance(constraint, sa.UniqueConstraint) and tuple(constraint.columns.keys()) not in unique:
            yield f"({', '.join(constraint.columns.keys())}) is not unique"
    references = {
        (tuple(one["constrained_columns"]), one["referred_table"]) for one in inspector.get_foreign_keys(table.name)
    }
    for reference in table.foreign_key_constraints:
        if (tuple(reference.column_keys), reference.referred_table.name) not in references:
            yield f"({', '.join(reference.column_keys)}) does not refer to {reference.referred_table.name}"
    checks = {str(one["name"]): str(one["sqltext"]) for one in inspector.get_check_constraints(table.name)}
    for check in table.constraints:
        if isinstance(check, sa.CheckConstraint) and check.name:
            text = checks.get(str(check.name))
            other = text is not None and dialect.name == "sqlite" and _plain(text) != _plain(str(check.sqltext))
            if text is None or other:  # PostgreSQL rewrites the condition
                yield f"{'another' if other else 'no'} check {check.name}"
    yield from _index_differences(connection, inspector, table)


def _index_differences(connection: sa.Connection, inspector: sa.Inspector, table: sa.Table) -> Iterator[str]:
    dialect = connection.dialect.name
    indexes = {index["name"]: index for index in inspector.get_indexes(table.name)}
    for index in sorted(table.indexes, key=lambda one: str(one.name)):
        found = indexes.get(str(index.name))
        if found is None:
            yield f"no index {index.name}"
            continue
        where = (found.get("dialect_options") or {}).get(f"{dialect}_where")
        declared = index.dialect_options[dialect]["where"]
        same = (list(found["column_names"]), bool(found["unique"]), where is None) == (
            [column.name for column in index.columns],
            bool(index.unique),
            declared is None,
        )
        if same and declared is not None and dialect == "sqlite":  # PostgreSQL rewrites the condition
            same = _plain(str(where)) == _plain(
                str(declared.compile(connection, compile_kwargs={"literal_binds": True}))
            )
        if not same:
            yield f"another index {index.name}"


def _plain(condition: str) -> str:
    """Without blanks, quotes of names and the name of the table, which differ by who wrote it."""
    return "".join(condition.split()).replace('"', "").replace("outcomes.", "").lower()
