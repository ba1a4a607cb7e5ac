"""A text source (CSV, SQL) as a typed table, for readers that want values and not a list of problems."""

import pyarrow as pa

from disco.records.errors import TableError
from disco.records.tables import SCHEMAS, Column, Kind
from disco.records.validation.columns import note_unreadable
from disco.records.validation.findings import Findings
from disco.records.validation.source import Source
from disco.records.validation.text import TYPED, parse_text


def typed_table(source: Source) -> pa.Table:
    """All columns in memory: those of the schema typed (ids stay text, times are UTC), any further ones as text.

    Raises TableError with every cell that cannot be read; whether the values make sense is `validate`'s business.
    """
    schema = SCHEMAS[source.name]
    known = {column.name: column for column in schema.columns}
    columns = [known.get(name, Column(name, Kind.CHOICE, "")) for name in source.schema().names]
    target = pa.schema([(column.name, TYPED[column.kind]) for column in columns])
    findings = Findings(schema)
    batches = []
    rows = 0
    for batch in source.batches(source.schema().names):
        parsed = [parse_text(raw, column.kind) for column, raw in zip(columns, batch.columns, strict=True)]
        for column, raw, cells in zip(columns, batch.columns, parsed, strict=True):
            note_unreadable(
                column, raw, findings, not_unicode=cells.not_unicode, unreadable=cells.unreadable, offset=rows
            )
        batches.append(pa.record_batch([cells.values for cells in parsed], schema=target))
        rows += batch.num_rows
    problems = (*source.problems(), *findings.problems(source))
    if problems:
        raise TableError(f"{source.file} cannot be read as the table {source.name}:", problems)
    return pa.Table.from_batches(batches, target)
