"""The reference page of the tables (docs/tables.md), written from the schemas."""

from disco.records.tables import SCHEMAS, Column, TableSchema

_OPENING = """\
# The tables a retailer brings

Each as `TABLE.parquet`, `TABLE.csv`, a folder `TABLE/` of Parquet parts, or a SQL query through a database URL (`data:`
and `queries:` in `disco.yaml`). `disco init SHOP/` writes an example of each; `disco validate DIR` names every problem
with its row.

- **Ids** are integers or text, of one sort in all tables; 17 and "17" are the same customer. Ids from CSV and SQL are
  text: leading zeros stay.
- **Money** is decimal or float in currency units (12.34; a whole number is whole units, not pennies). It becomes
  integer minor units once, at the door: the canonical column says so in its name (`full_price_minor`).
- **Times** without a zone are UTC. All times of a shop have a zone, or none has. A time at midnight may be a mere date.
  No time lies after `--as-of` (default: today).
- **CSV** is UTF-8 (with or without a byte-order mark), commas, one header line; an empty cell is null; numbers have a
  point, dates are `2026-03-01`, times `2026-03-01T14:05:00`.
- Further columns are allowed everywhere. Those of `customers` can be used in `eligible:` of a plan (from CSV they
  are text).
"""


def tables_page() -> str:
    """Markdown; `docs/tables.md` is exactly this text.

    >>> "| `depth` | a share of the price in [0, 1) | no |" in tables_page()
    True
    """
    return "\n".join([_OPENING, *(_section(schema) for schema in SCHEMAS.values())])


def _section(schema: TableSchema) -> str:
    key = " and ".join(f"`{name}`" for name in schema.key)
    lines = [
        f"## {schema.name}",
        "",
        schema.meaning + (f" No two rows share {key}." if key else ""),
        "",
        "| Column | Raw type | May be empty | Refers to | Meaning | Canonical |",
        "|---|---|---|---|---|---|",
        *(_row(column) for column in schema.columns),
        "",
    ]
    return "\n".join(lines)


def _row(column: Column) -> str:
    reference = f"`{column.refers_to.table}.{column.refers_to.column}`" if column.refers_to else ""
    meaning = column.meaning + (f": {', '.join(column.choices)}" if column.choices else "")
    canonical = f"`{column.canonical_name}` {column.kind.canonical}"
    empty = "yes" if column.nullable else "no"
    return f"| `{column.name}` | {column.kind} | {empty} | {reference} | {meaning} | {canonical} |"
