"""All tables of a shop together: each by itself, then keys used twice, unknown references, refunds above their order,
ids and times of two sorts.

Ids are compared by their 64-bit keys, so 17 and "17" are one customer and ten million ids take 80 MB.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from disco.records.arrays import Flags, Integers, Keys
from disco.records.cells import Cells, cell_texts, flags, shown
from disco.records.errors import InputError, Problem, TableError
from disco.records.id_list import near_ids
from disco.records.money import from_minor_units
from disco.records.table_rules import (
    DAY_MICROSECONDS,
    CheckedBatch,
    Fault,
    Findings,
    Source,
    cell_rules,
    check_batch,
    file_names,
    further_column,
    is_before,
    rules_of,
    usable_columns,
)
from disco.records.tables import SCHEMAS, ColumnSchema, Kind, Reference, TableSchema, Within, schema_of


@dataclass(slots=True)
class Tally:
    """How many cells are written in one way, and the first of them."""

    rows: int = 0
    row: int = 0
    shown: str = ""

    def add(self, rows: Flags, cells: Cells, *, offset: int) -> None:
        if not self.rows and rows.any():
            place = int(np.argmax(rows))
            self.row, self.shown = offset + place, cells.show(place)
        self.rows += int(np.count_nonzero(rows))


@dataclass(slots=True)
class ColumnProfile:
    """How a column is written, over all its batches: do times name their zone, do ids look like integers?

    A time at midnight without a zone may be a mere date: it counts neither as zoned nor as local.
    """

    zoned: Tally = field(default_factory=Tally)
    local: Tally = field(default_factory=Tally)
    integers: Tally = field(default_factory=Tally)
    words: Tally = field(default_factory=Tally)

    def add(self, cells: Cells, *, offset: int) -> None:
        if cells.column.kind is Kind.MOMENT:
            clock = cells.values % DAY_MICROSECONDS != 0
            self.zoned.add(cells.valid & cells.zoned, cells, offset=offset)
            self.local.add(cells.valid & ~cells.zoned & clock, cells, offset=offset)
        elif cells.column.kind is Kind.ID and not pa.types.is_integer(cells.typed.type):
            digits = flags(pc.match_substring_regex(cells.typed, r"^-?[0-9]+$"))
            self.integers.add(cells.valid & digits, cells, offset=offset)
            self.words.add(cells.valid & ~digits, cells, offset=offset)

    @property
    def is_pure(self) -> bool:
        """Times of one sort only."""
        return bool(self.zoned.rows) != bool(self.local.rows)

    @property
    def has_words(self) -> bool:
        """Ids of which most, but not all, are integers."""
        return 0 < self.words.rows <= self.integers.rows

    def _zone_fix(self) -> str:
        return (
            f"Write all times of the column with an offset (such as {self.zoned.shown}), or all without one, by the "
            "clock of the setting `time_zone`."
        )

    def note(self, name: str, findings: Findings) -> None:
        """Mixed zones; and ids of which most, but not all, are integers (of random hexadecimal ids few are)."""
        if self.zoned.rows and self.local.rows:
            fewer, how = min((self.local, "without"), (self.zoned, "with"), key=lambda pair: pair[0].rows)
            found = f"{fewer.shown} {how} a time zone, among times of the other sort"
            findings[name, "mixed_time_zones"] = Fault(found, _ONE_SORT, self._zone_fix(), fewer.row, fewer.rows)
        if self.has_words and name != "order_id":  # of orders, two systems may count side by side
            found = f"{self.words.shown} among ids that are mostly integers"
            findings[name, "mixed_ids"] = Fault(found, *_ONE_FORM, self.words.row, self.words.rows)


_FEWEST_CODED = 20  # orders with a code, to say something about all of them
_FEWEST_COPIES = 20  # orders that repeat an id, to say that they look like order lines
_FEWEST_ORDERS = 100  # the same of orders with ids of their own
_MOST_LINES = 0.9  # share of repeated ids with the same customer and minute, from which they are no mere mistakes
#: Share of orders with the customer and the minute of another one: no shop has so many, order lines of 1.5 each do.
_MOST_REPEATED = 1 / 3
_LINE_COLUMNS = {"customer_id", "ordered_at", "full_price"}
_LINES_SQL = (
    "SELECT order_id, min(customer_id) AS customer_id, min(ordered_at) AS ordered_at, sum(full_price) AS full_price "
    "FROM lines GROUP BY order_id"
)
_MINUTE_MICROSECONDS = 60_000_000
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # one key of two
_ONE_SORT = "all times of a column with a zone, or none"
_ONE_FORM = ("all ids integers, or all of another form", "Correct the id, or give all ids one form.")
_ONE_TYPE = ("ids of one type in all tables", "Store them as text everywhere, or as integers everywhere.")


@dataclass(slots=True)
class KeptColumns:
    """What is kept of a table while its batches pass: the few columns that relations need, as numbers."""

    source: Source
    findings: Findings = field(default_factory=Findings)
    profiles: dict[str, ColumnProfile] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # column → one number per row (batches, until `close`)
    good: dict[str, Any] = field(default_factory=dict)  # column → where the number means something
    coded: int = 0  # orders with a code of which full_price and paid are known
    undiscounted: int = 0  # of them, those with the same amount in both

    @property
    def schema(self) -> TableSchema:
        return schema_of(self.source.name)

    def add(self, batch: CheckedBatch, *, offset: int) -> None:
        related = related_columns(self.schema)
        for name, cells in batch.cells.items():
            if name in related:
                self.values.setdefault(name, []).append(cells.comparable())
                self.good.setdefault(name, []).append(batch.good[name])
            if cells.column.before_as_of or name in self.schema.key:
                self.profiles.setdefault(name, ColumnProfile()).add(cells, offset=offset)

        if {"code", "full_price", "paid"} <= batch.cells.keys():
            known = batch.good["code"] & batch.good["full_price"] & batch.good["paid"]
            same = batch.cells["paid"].comparable() == batch.cells["full_price"].comparable()
            self.coded += int(np.count_nonzero(known))
            self.undiscounted += int(np.count_nonzero(known & same))

    def close(self) -> None:
        """All batches have passed."""
        for columns in (self.values, self.good):
            columns.update({name: np.concatenate(parts) for name, parts in columns.items()})
        for name, profile in self.profiles.items():
            profile.note(name, self.findings)

    def show(self, name: str, row: int) -> str:
        """What the retailer wrote in that cell, for a message."""
        return shown(self._cell(name, row))

    def text(self, name: str, *, at: int) -> str | None:
        """What the retailer wrote in that cell."""
        cell = self._cell(name, at)
        return cell_texts(pa.array([cell], cell.type))[0]

    def _cell(self, name: str, row: int) -> pa.Scalar:
        """One column read once more, up to the row."""
        for batch in self.source.batches([name]):
            if row < batch.num_rows:
                return batch.column(0)[row]
            row -= batch.num_rows
        raise IndexError(f"{self.source.file} has become shorter while it was read")


def related_columns(schema: TableSchema) -> frozenset[str]:
    """The columns of a table that relations look at.

    >>> sorted(related_columns(SCHEMAS["site"]))
    ['customer_id', 'day']
    """
    names = {column.name for column in schema.columns if column.refers_to}.union(schema.key)
    if schema.within:
        names |= {schema.within.not_before[0], schema.within.amount}
    for other in SCHEMAS.values():
        if other.within and _target(other, other.within.reference).table == schema.name:
            names |= {other.within.not_before[1], *other.within.at_most}
    return frozenset(names)


def _target(schema: TableSchema, name: str) -> Reference:
    reference = schema.column(name).refers_to
    assert reference is not None, f"{schema.name}.{name} refers to nothing"
    return reference


@dataclass(frozen=True, slots=True)
class TablesReport:
    """What `validate` found."""

    rows: dict[str, int]  # read, per table
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...] = ()  # what may be a mistake

    def raise_if_any(self, what: str) -> None:
        if self.problems:
            raise TableError(what, self.problems)


def validate(sources: Iterable[Source], *, as_of: date | None, relations: bool = True) -> TablesReport:
    """Every problem of the tables, as known at the end of the day `as_of`; None: dates may name any day.

    `relations=False` leaves out keys and references, for a part of a table whose other part is elsewhere.

    >>> from disco.records.table_rules import TableSource
    >>> customers = pa.table({"customer_id": [7, 7], "joined_on": pa.array([date(2026, 1, 1), None])})
    >>> report = validate([TableSource("customers", customers, "customers.parquet")], as_of=date(2026, 3, 1))
    >>> for problem in report.problems:
    ...     print(problem)
    customers.parquet, column customer_id, row 2: found 7 again, first in row 1; expected each once. Remove the copy, or
    give the row its own id.
    customers.parquet, column joined_on, row 2: found nothing; expected a value in every row. Fill it in or leave the
    row out.
    """
    order = {name: place for place, name in enumerate(SCHEMAS)}
    sources = sorted(sources, key=lambda source: order.get(source.name, 0))
    rows: dict[str, int] = {}
    unreadable: dict[str, Problem] = {}
    tables = {source.name: KeptColumns(source) for source in sources}
    for name, table in tables.items():
        try:
            rows[name] = _read_table(table, as_of=as_of)
        except InputError as error:
            unreadable[name] = _unreadable(table.source, error)
    if relations:
        whole = {name: table for name, table in tables.items() if name not in unreadable}
        check_relations(whole, present=frozenset(tables))
    problems: list[Problem] = []
    for name, table in tables.items():
        problems += [unreadable[name]] if name in unreadable else []
        problems += [*table.source.problems(), *table.findings.problems(table.source)]
    warnings = [
        w for table in tables.values() for odd in (_odd_amounts, _lines_as_orders, _two_systems) for w in odd(table)
    ]
    return TablesReport(rows, tuple(problems), tuple(warnings))


def _odd_amounts(table: KeptColumns) -> Iterator[str]:
    """The most common mix-up of columns: what was paid, given as the value before the discount."""
    if table.coded >= _FEWEST_CODED and table.undiscounted > table.coded / 2:
        yield (
            f"{table.source.file}: {table.undiscounted:,} of {table.coded:,} orders with a code have the same amount "
            "in full_price and paid. full_price is the value of the basket before the discount; is it the right column?"
        )


def _unreadable(source: Source, error: InputError) -> Problem:
    found = str(error.found) if error.found is not None else str(error)
    expected = str(error.expected) if error.expected is not None else "a table that can be read"
    return Problem("unreadable_file", source.file, "", found, expected, error.fix or "Write the file again.")


def _read_table(table: KeptColumns, *, as_of: date | None) -> int:
    schema, source, findings = table.schema, table.source, table.findings
    given = source.schema()
    columns = usable_columns(given, schema, findings)
    rules = rules_of(schema, as_of=as_of, locale=source.locale)
    if source.has_bytes:  # readers of the whole table need text in the other columns too
        declared = {column.name for column in schema.columns}
        others = [further_column(name) for name in dict.fromkeys(given.names) if name not in declared]
        columns, rules = (*columns, *others), (*rules, *(next(cell_rules(column)) for column in others))
    rows = 0
    for batch in source.batches([column.name for column in columns if column.name in given.names]):
        checked = check_batch(batch, columns, rules, source.locale)
        for rule, broken in checked.faults:
            findings.note_batch(rule, checked.cells, broken, offset=rows)
        table.add(checked, offset=rows)
        rows += batch.num_rows
    if columns and not rows and not schema.may_be_empty:
        fix = "Fill the table, or leave the file out if the shop has none."
        findings.note("empty_table", "", "no rows", "at least one row", fix)
    table.close()
    return rows


def check_relations(tables: Mapping[str, KeptColumns], *, present: frozenset[str]) -> None:
    """All checks across rows and tables; `present` names also the tables that could not be read to the end."""
    for table in tables.values():
        _check_key(table)
        for column in table.schema.columns:
            if column.refers_to is not None and column.name in table.values:
                _check_reference(table, column.name, column.refers_to, tables, present=present)
        if table.schema.within is not None:
            other = tables.get(_target(table.schema, table.schema.within.reference).table)
            if other is not None:
                _check_within(table, other, table.schema.within)
    _check_zones(tables)


def first_rows(keys: Keys, among: Keys) -> Integers:
    """For each key the first row among `among` that holds it; -1 where none does.

    >>> first_rows(np.array([7, 5, 9], np.uint64), np.array([5, 7, 5], np.uint64)).tolist()
    [1, 0, -1]
    """
    found = pc.index_in(pa.array(keys), value_set=pa.array(among))
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _check_key(table: KeptColumns) -> None:
    names = table.schema.key
    if not names or any(name not in table.values for name in names):
        return
    rows = np.flatnonzero(np.logical_and.reduce([table.good[name] for name in names]))
    parts = [_as_key(table.values[name][rows], table.schema.column(name)) for name in names]
    combined = parts[0]
    for part in parts[1:]:
        combined = combined ^ (part * _SPREAD)
    ordered = np.sort(combined)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    first = first_rows(combined, combined)
    again = first != np.arange(rows.size)
    for part in parts:
        again &= part == part[first]
    twice = np.zeros(table.values[names[0]].size, np.bool_)
    twice[rows[again]] = True
    twin = {int(rows[row]): int(rows[first[row]]) for row in np.flatnonzero(again)[:1]}

    def found(row: int) -> str:
        file, number = table.source.place(twin[row])
        value = ", ".join(table.show(name, row) for name in names)
        return f"{value} again, first in row {number}" + (f" of {file}" if file != table.source.file else "")

    fix = "Remove the copy, or give the row its own id."
    if table.schema.name == "orders" and _are_lines(table, rows[again], rows[first[again]]):
        fix = f"They have the customer and the minute of the first, but other amounts: {_sum_lines(table)}"
    table.findings.note_rows("duplicate_key", " + ".join(names), twice, found, "each once", fix)


def _are_lines(orders: KeptColumns, again: Integers, first: Integers) -> bool:
    """Whether rows that repeat an id (`again`, beside the `first` with it) are lines of one order, not copies of it."""
    if again.size < _FEWEST_COPIES or not orders.values.keys() >= _LINE_COLUMNS:
        return False
    minutes = orders.values["ordered_at"] // _MINUTE_MICROSECONDS
    customers, amounts = orders.values["customer_id"], orders.values["full_price"]
    alike = (customers[again] == customers[first]) & (minutes[again] == minutes[first])
    other = alike & (amounts[again] != amounts[first])
    return bool(alike.mean() > _MOST_LINES and other.mean() > _MOST_LINES / 2)


def _lines_as_orders(table: KeptColumns) -> Iterator[str]:
    """Order lines with ids of their own: a customer rarely orders twice in a minute, but an order has several lines."""
    if table.schema.name != "orders" or not table.values.keys() >= _LINE_COLUMNS:
        return
    if any(kind == "duplicate_key" for _, kind in table.findings):
        return  # that finding names order lines already
    known = table.good["customer_id"] & table.good["ordered_at"]
    minutes = (table.values["ordered_at"][known] // _MINUTE_MICROSECONDS).astype(np.uint64)
    ordered = np.sort(table.values["customer_id"][known] ^ (minutes * _SPREAD))
    repeated = int(np.count_nonzero(ordered[1:] == ordered[:-1]))
    if ordered.size >= _FEWEST_ORDERS and repeated > ordered.size * _MOST_REPEATED:
        yield (
            f"{table.source.file}: {repeated:,} of {ordered.size:,} orders have the customer and the minute of another "
            f"order: {_sum_lines(table)} The order_id of a line is the shop's own number of the order."
        )


def _sum_lines(orders: KeptColumns) -> str:
    """What to do about lines that were taken for orders."""
    names = dict(zip(orders.source.schema().names, file_names(orders.source.schema()), strict=True))
    columns = ", ".join(f"{ours}: {names[ours]}" for ours in ("order_id", "customer_id", "ordered_at"))
    setting = f"lines: {{table: {orders.source.file}, {columns}, amount: {names['full_price']}}}"
    return (
        "the rows look like order lines, and a row has to be a whole order. Let DISCO sum the lines of each order: "
        f"write `{setting}` in disco.yaml (docs/own-data.md). In SQL: `{_LINES_SQL}`."
    )


def _two_systems(orders: KeptColumns) -> Iterator[str]:
    """Orders of a web shop and of tills may be numbered in two ways; returns may name only one of them."""
    profile = orders.profiles.get("order_id")
    if orders.schema.name == "orders" and profile is not None and profile.has_words:
        few, shown = profile.words.rows, profile.words.shown
        yield (
            f"{orders.source.file}: order ids are mostly integers, but {few:,} are not, such as {shown}. If they come "
            "from two systems, that is fine as long as no number means two orders. If they are cancellations (such as "
            "C536379), give them as `returns`, or let the setting `lines` match them."
        )


def _as_key(values: NDArray[Any], column: ColumnSchema) -> Keys:
    return (values // DAY_MICROSECONDS).astype(np.uint64) if column.kind is Kind.DAY else values


def _check_reference(
    table: KeptColumns, name: str, reference: Reference, tables: Mapping[str, KeptColumns], *, present: frozenset[str]
) -> None:
    where = f"{reference.table}.{reference.column}"
    if reference.table not in present:
        if not reference.optional:
            fix = f"Add {reference.table}.parquet or {reference.table}.csv."
            expected = f"{where}, which this column refers to"
            table.findings.note("missing_table", name, f"no table {reference.table}", expected, fix)
        return
    target = tables.get(reference.table)
    if target is None or reference.column not in target.values or not table.good[name].any():
        return  # nothing to look up, or that table's own problem, reported there
    given, wanted = table.source.schema().field(name).type, target.source.schema().field(reference.column).type
    if found := _two_types(given, wanted, where):
        table.findings.note("mixed_ids", name, found, *_ONE_TYPE)
    known = target.values[reference.column][target.good[reference.column]]
    unknown = table.good[name] & (first_rows(table.values[name], known) < 0)
    if unknown.any():
        near = _near_id(table, name, int(np.argmax(unknown)), target, reference.column)
        table.findings.note_rows(
            f"unknown_{reference.column.removesuffix('_id')}",
            name,
            unknown,
            lambda row: f"{table.show(name, row)}, which is not in {where}",
            f"a value of {where}",
            f"Did you mean {near!r}? Write ids alike in both tables; as text, they keep zeros in front."
            if near is not None
            else f"Add it to {reference.table}, or leave the row out.",
        )


def _near_id(table: KeptColumns, name: str, row: int, target: KeptColumns, column: str) -> str | None:
    """The id of the other table that was probably meant."""
    cell = table.text(name, at=row)
    for batch in target.source.batches([column]):
        near = near_ids(pa.array([cell], pa.large_string()), pa.array(cell_texts(batch.column(0)), pa.large_string()))
        if near[0].is_valid:
            return str(near[0].as_py())
    return None


def mixed_ids(schemas: Mapping[str, pa.Schema]) -> tuple[Problem, ...]:
    """Ids that are integers in one table and text in another that it refers to; a column without a value is neither."""
    problems = []
    for name, schema in schemas.items():
        for column in SCHEMAS[name].columns:
            target = schemas.get(column.refers_to.table) if column.refers_to else None
            if column.refers_to is None or target is None or column.name not in schema.names:
                continue
            types = schema.field(column.name).type, target.field(column.refers_to.column).type
            if found := _two_types(*types, f"{column.refers_to.table}.{column.refers_to.column}"):
                problems.append(Problem("mixed_ids", f"table {name}", column.name, found, *_ONE_TYPE))
    return tuple(problems)


def _two_types(here: pa.DataType, there: pa.DataType, where: str) -> str | None:
    """What to say of an id column that is of another type than the one it refers to."""
    plain = [of.value_type if pa.types.is_dictionary(of) else of for of in (here, there)]
    if any(map(pa.types.is_null, plain)) or pa.types.is_integer(plain[0]) == pa.types.is_integer(plain[1]):
        return None
    words = ["integers" if pa.types.is_integer(of) else "text" for of in plain]
    return f"{words[0]} here, {words[1]} in {where}"


def _check_within(table: KeptColumns, other: KeptColumns, within: Within) -> None:
    """Times and sums of rows against the row of the other table that they name."""
    name, key = within.reference, _target(table.schema, within.reference).column
    if name not in table.values or key not in other.values:
        return
    place = first_rows(table.values[name], other.values[key])
    known = table.good[name] & (place >= 0)
    if not known.any():
        return
    time, since = within.not_before
    if time in table.values and since in other.values:
        both = known & table.good[time] & other.good[since][place]
        table.findings.note_rows(
            "returned_before_ordered",
            time,
            both
            & is_before(table.values[time], other.values[since][place], reversed_us=table.source.locale.reversed_us),
            lambda row: f"{table.show(time, row)}, before {other.show(since, int(place[row]))}",
            f"a time at or after {since} of its order",
            "Check the order_id and the two times.",
        )
    part, wholes = within.amount, [column for column in within.at_most if column in other.values]
    if part in table.values and wholes:
        is_limited = np.logical_or.reduce([other.good[column] for column in wholes])
        rows = np.flatnonzero(known & table.good[part] & is_limited[place])
        limit = np.select([other.good[column] for column in wholes], [other.values[column] for column in wholes])
        total = np.bincount(place[rows], table.values[part][rows], minlength=limit.size)
        last = np.full(limit.size, -1)
        last[place[rows]] = rows  # of an order's refunds, the last one is the one to look at
        above = np.zeros(place.size, np.bool_)
        above[last[(last >= 0) & (total > limit)]] = True

        def found(row: int) -> str:
            currency = table.source.locale.currency
            refunds, most = (
                f"{from_minor_units(amounts[place[row]], currency):.{currency.digits}f}" for amounts in (total, limit)
            )
            whole = next(column for column in wholes if other.good[column][place[row]])
            return f"refunds of {refunds} for order {table.show(name, row)}, whose {whole} is {most}"

        expected, fix = "refunds that add to at most that amount", "Check the order_id and the amounts."
        table.findings.note_rows("refund_above_order", part, above, found, expected, fix)


def _check_zones(tables: Mapping[str, KeptColumns]) -> None:
    """Columns with zones beside columns without: what the latter mean is known only where the settings name a zone.

    In UTC nobody may have thought of it, and a shop's local times would be hours off.
    """
    if any(not table.source.locale.is_utc for table in tables.values()):
        return
    pure = [
        (table, name, profile)
        for table in tables.values()
        for name, profile in table.profiles.items()
        if profile.is_pure
    ]
    zoned = [entry for entry in pure if entry[2].zoned.rows]
    local = [entry for entry in pure if entry[2].local.rows]
    if not zoned or not local:
        return
    fewer, most = (local, zoned) if len(local) <= len(zoned) else (zoned, local)
    here, there = ("without", "with") if fewer is local else ("with", "without")
    other = f"{most[0][0].schema.name}.{most[0][1]}"
    fix = (
        "Write the shop's zone into disco.yaml, such as `time_zone: Europe/Berlin`: times without a zone are then read "
        "by the clock there. If they are of UTC, write them with a Z, such as 2026-03-01T14:05:00Z."
    )
    for table, name, _ in fewer:
        found = f"times {here} a time zone, but {there} one in {other}"
        table.findings.note("mixed_time_zones", name, found, "a known zone for every time", fix)
