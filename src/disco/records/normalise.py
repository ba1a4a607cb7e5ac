"""The door: a raw table becomes the canonical one, once. Ids as text, money as int64 minor units, times in UTC."""

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from disco.records.money import minor_units_of_decimals, to_minor_units
from disco.records.tables import SCHEMAS, Column, Kind
from disco.records.validation import TableSource, validate


def normalise(name: str, table: pa.Table, *, as_of: date, file: str = "") -> pa.Table:
    """`SCHEMAS[name].canonical`, then any further columns as they were; TableError with every problem of a cell.

    Money is renamed with its unit: `full_price` (currency units) becomes `full_price_minor`. Times without a zone are
    UTC. Keys and references are for `validate`, which sees all tables.

    >>> raw = pa.table({"order_id": [17], "returned_at": pa.array([date(2026, 2, 3)]), "value": [12.34]})
    >>> normalise("returns", raw, as_of=date(2026, 3, 1)).to_pylist()
    [{'order_id': '17', 'returned_at': datetime.datetime(2026, 2, 3, 0, 0, tzinfo=...), 'value_minor': 1234}]
    """
    schema = SCHEMAS[name]
    report = validate([TableSource(name, table, file or name)], as_of=as_of, relations=False)
    report.raise_if_any(f"{file or name} cannot be used as the table {name}:")
    known = {column.name for column in schema.columns}
    columns = [_canonical(table.column(column.name), column) for column in schema.columns]
    others = [field for field in table.schema if field.name not in known]
    return pa.table(
        [*columns, *(table.column(field.name) for field in others)],
        schema=pa.schema([*schema.canonical, *others]),
    )


def _canonical(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    target = column.kind.canonical
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_null(values.type):
        return values.cast(target)
    if column.kind is Kind.MONEY:
        if pa.types.is_decimal(values.type):
            return minor_units_of_decimals(values, where=column.name)
        return pa.chunked_array([to_minor_units(values, where=column.name)], target)
    if column.kind is Kind.DEPTH:
        return pc.round(values.cast(pa.float64(), safe=False), ndigits=6)  # a 32-bit 0.2 is 0.2, not 0.20000000298
    if column.kind in (Kind.MOMENT, Kind.DAY) and pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.timestamp("us", "UTC"))
        return values.cast(pa.timestamp("us")).cast(target, safe=False) if column.kind is Kind.DAY else values
    if column.kind is Kind.MOMENT:
        return values.cast(pa.timestamp("us")).cast(target)
    return values.cast(target)
