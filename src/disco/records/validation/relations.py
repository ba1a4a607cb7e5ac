"""What can be wrong between rows and tables: keys used twice, unknown references, refunds above their order.

Ids are compared by their 64-bit keys, so 17 and "17" are one customer and ten million ids take 80 MB.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from disco.records.arrays import Integers, Keys
from disco.records.tables import Column, Kind, Reference
from disco.records.validation.columns import DAY_MICROSECONDS
from disco.records.validation.gathered import Gathered
from disco.records.validation.rows import in_pennies, is_before


def check_relations(tables: Mapping[str, Gathered], *, present: frozenset[str]) -> None:
    """All checks across rows and tables; `present` names also the tables that could not be read to the end."""
    for table in tables.values():
        _check_key(table)
        for column in table.schema.columns:
            if column.refers_to is not None and column.name in table.values:
                _check_reference(table, column.name, column.refers_to, tables, present=present)
    if "orders" in tables and "returns" in tables:
        _check_returns(tables["orders"], tables["returns"])
    _check_zones(tables)


def first_rows(keys: Keys, among: Keys) -> Integers:
    """For each key the first row among `among` that holds it; -1 where none does.

    >>> first_rows(np.array([7, 5, 9], np.uint64), np.array([5, 7, 5], np.uint64)).tolist()
    [1, 0, -1]
    """
    found = pc.index_in(pa.array(keys), value_set=pa.array(among))
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _check_key(table: Gathered) -> None:
    names = table.schema.key
    if not names or any(name not in table.values for name in names):
        return
    rows = np.flatnonzero(np.logical_and.reduce([table.good[name] for name in names]))
    parts = [_as_key(table.values[name][rows], table.schema.column(name)) for name in names]
    combined = parts[0]
    for part in parts[1:]:
        combined = combined ^ (part * np.uint64(0x9E3779B97F4A7C15))
    ordered = np.sort(combined)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    first = first_rows(combined, combined)
    again = first != np.arange(rows.size)
    for part in parts:
        again &= part == part[first]
    flags = np.zeros(table.values[names[0]].size, np.bool_)
    flags[rows[again]] = True
    twin = {int(rows[row]): int(rows[first[row]]) for row in np.flatnonzero(again)[:1]}

    def found(row: int) -> str:
        file, number = table.source.place(twin[row])
        value = ", ".join(table.show(name, row) for name in names)
        return f"{value} again, first in row {number}" + (f" of {file}" if file != table.source.file else "")

    table.findings.of_rows(
        "duplicate_key",
        column=" + ".join(names),
        rows=flags,
        found=found,
        expected="each once",
        fix="Remove the copy, or give the row its own id.",
    )


def _as_key(values: NDArray[Any], column: Column) -> Keys:
    return (values // DAY_MICROSECONDS).astype(np.uint64) if column.kind is Kind.DAY else values


def _check_reference(
    table: Gathered, name: str, reference: Reference, tables: Mapping[str, Gathered], *, present: frozenset[str]
) -> None:
    where = f"{reference.table}.{reference.column}"
    if reference.table not in present:
        if not reference.optional:
            table.findings.of_table(
                "missing_table",
                column=name,
                found=f"no table {reference.table}",
                expected=f"{where}, which this column refers to",
                fix=f"Add {reference.table}.parquet or {reference.table}.csv.",
            )
        return
    target = tables.get(reference.table)
    if target is None or reference.column not in target.values:
        return  # that table's own problem, reported there
    here, there = table.id_type(name), target.id_type(reference.column)
    if here != there and table.good[name].any():
        table.findings.of_table(
            "mixed_ids",
            column=name,
            found=f"{here} here, {there} in {where}",
            expected="ids of one type in all tables",
            fix="Store them as text everywhere, or as integers everywhere.",
        )
    good = target.good[reference.column]
    known = target.values[reference.column][good]
    table.findings.of_rows(
        f"unknown_{reference.column.removesuffix('_id')}",
        column=name,
        rows=table.good[name] & (first_rows(table.values[name], known) < 0),
        found=lambda row: f"{table.show(name, row)}, which is not in {where}",
        expected=f"a value of {where}",
        fix=f"Add it to {reference.table}, or leave the row out.",
    )


def _check_returns(orders: Gathered, returns: Gathered) -> None:
    if "order_id" not in orders.values or "order_id" not in returns.values:
        return
    order = first_rows(returns.values["order_id"], orders.values["order_id"])
    known = returns.good["order_id"] & (order >= 0)
    if not known.any():
        return
    if "returned_at" in returns.values and "ordered_at" in orders.values:
        ordered = orders.values["ordered_at"][order]
        both = known & returns.good["returned_at"] & orders.good["ordered_at"][order]
        returns.findings.of_rows(
            "returned_before_ordered",
            column="returned_at",
            rows=both & is_before(returns.values["returned_at"], ordered),
            found=lambda row: (
                f"{returns.show('returned_at', row)}, before {orders.show('ordered_at', int(order[row]))}"
            ),
            expected="a time at or after ordered_at of its order",
            fix="Check the order_id and the two times.",
        )
    if "value" in returns.values and "paid" in orders.values:
        rows = np.flatnonzero(known & returns.good["value"] & orders.good["paid"][order])
        paid = in_pennies(np.where(orders.good["paid"], orders.values["paid"], 0.0))
        refunded = np.bincount(order[rows], in_pennies(returns.values["value"][rows]), minlength=paid.size)
        last = np.full(paid.size, -1)
        last[order[rows]] = rows  # of an order's refunds, the last one is the one to look at
        above = np.zeros(order.size, np.bool_)
        above[last[(last >= 0) & (refunded > paid)]] = True

        def found(row: int) -> str:
            total, limit = refunded[order[row]] / 100, paid[order[row]] / 100
            return f"refunds of {total:.2f} for order {returns.show('order_id', row)}, for which {limit:.2f} was paid"

        returns.findings.of_rows(
            "refund_above_order",
            column="value",
            rows=above,
            found=found,
            expected="refunds that add to at most what was paid",
            fix="Check the order_id and the amounts.",
        )


def _check_zones(tables: Mapping[str, Gathered]) -> None:
    pure = [(table, habit) for table in tables.values() for habit in table.habits.values() if habit.is_pure]
    zoned = [pair for pair in pure if pair[1].zoned.rows]
    local = [pair for pair in pure if pair[1].local.rows]
    if not zoned or not local:
        return
    fewer, most = (local, zoned) if len(local) <= len(zoned) else (zoned, local)
    here, there = ("without", "with") if fewer is local else ("with", "without")
    other = f"{most[0][0].schema.name}.{most[0][1].column.name}"
    for table, habit in fewer:
        table.findings.of_table(
            "mixed_time_zones",
            column=habit.column.name,
            found=f"times {here} a time zone, but {there} one in {other}",
            expected="all times with a zone, or none",
            fix="Write every time in UTC.",
        )
