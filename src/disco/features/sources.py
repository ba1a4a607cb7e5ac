"""The retailer's tables as SQL sources: every cell checked by its table's rules, money made exact, the year cut out.

A query that meets a row which breaks a rule stops with `REFUSED` and the table; `builder.reading` then says which rows.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

from disco.features.catalogue import LOG_GRID, YEAR_DAYS
from disco.records.errors import InputError
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.maturity import BY_EXPIRY, Maturity
from disco.records.money import minor_units_sql
from disco.records.table_rules import Rule, rules_of
from disco.records.tables import FIRST_DAY, SCHEMAS, Kind

REFUSED = "disco refuses table "  # begins the message of a query that met a bad row; the table's name follows
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_UNTYPED = '"NULL"'  # a column without a single value
_KEYS = {
    "customer": tuple((table, "customer_id") for table in ("customers", "orders", "codes", "site")),
    "order": (("orders", "order_id"), ("returns", "order_id")),
    "code": (("orders", "code"), ("codes", "code_id")),
}


_ABSENT_TYPES = {Kind.MONEY: "DOUBLE", Kind.COUNT: "BIGINT", Kind.ID: "VARCHAR"}
_MADE_FROM = {"paid": ("paid_minor",), "items": ("items",), "code": ("coded", "depth_bp")}
"""Columns of orders that may be absent, and what `Sources.rows` makes of them."""
_COUNTS = tuple(column.name for column in SCHEMAS["site"].columns if column.kind is Kind.COUNT)


@dataclass(frozen=True, slots=True)
class Sources:
    """SQL for each table's rows as of a date; `types` is table → column → DuckDB type of the tables present."""

    types: dict[str, dict[str, str]]
    as_of: date
    locale: Locale = POUNDS_UTC

    @classmethod
    def describe(cls, connection: Any, present: tuple[str, ...], as_of: date, locale: Locale = POUNDS_UTC) -> "Sources":
        """Read the types of the registered tables `raw_<name>`."""
        if not isinstance(as_of, date) or isinstance(as_of, datetime) or as_of < FIRST_DAY:
            expected = f"a date (midnight, {locale.time_zone}) from {FIRST_DAY.year} on"
            raise InputError("as-of date", found=repr(as_of), expected=expected)
        types = {}
        for table in present:
            types[table] = {row[0]: row[1] for row in connection.execute(f"DESCRIBE raw_{table}").fetchall()}
        return cls(types, as_of, locale)

    def check(self, connection: Any) -> None:
        """Make sure that no row of the tables breaks a rule; the first table with such a row is named.

        Every row dated before `as_of` is looked at, not only those of the year: a table has the same verdict here as
        from `validate`. Of later rows only the dates are: nothing that happens later can change a result.
        """
        for table in self.types:
            connection.execute(
                f"SELECT {_refuse(table)} FROM raw_{table} t WHERE {self._bad(table)} LIMIT 1"
            ).fetchall()

    def _bad(self, table: str) -> str:
        """A condition that holds for the rows that `check` refuses."""
        undated = " OR ".join(self._broken(table, name, "t", with_row=False) for name in _dates(table))
        broken = " OR ".join(self._broken(table, column.name, "t") for column in SCHEMAS[table].columns)
        return f"{undated} OR ({self.before(table)} AND ({broken}))"

    def cell(self, table: str, column: str, alias: str = "t") -> str:
        """As `value`; a bad cell ends the query."""
        broken = self._broken(table, column, alias)
        return f"(CASE WHEN {broken} THEN {_refuse(table)} ELSE {self.value(table, column, alias)} END)"

    def value(self, table: str, column: str, alias: str = "t") -> str:
        """A column as its canonical value: money in minor units, depths in 1/10000. Its cells are checked elsewhere."""
        x = self._raw(table, column, alias)
        return {
            Kind.MONEY: f"CAST({self._minor(table, column, alias)} AS BIGINT)",
            Kind.DEPTH: f"CAST(round_even(CAST({x} AS DOUBLE) * 10000, 0) AS INTEGER)",
            Kind.COUNT: f"CAST({x} AS BIGINT)",
        }.get(SCHEMAS[table].column(column).kind, x)

    def _broken(self, table: str, column: str, alias: str, *, with_row: bool = True) -> str:
        """A condition that holds where a cell, or its row, breaks a rule of the column."""
        words: dict[str, str] = {}  # what stands for {name}, {name_text}, … in the SQL of a rule
        for name, of in (dict.fromkeys(self._absent(table), _UNTYPED) | self.types[table]).items():
            x = self._raw(table, name, alias)
            words |= {name: x, f"{name}_minor": self._minor(table, name, alias)}
            # rules that a type keeps by itself get a constant in place of the column
            words[f"{name}_text"] = x if of == "VARCHAR" else "''"
            words[f"{name}_real"] = x if of in ("FLOAT", "DOUBLE") or of.startswith("DECIMAL") else "0"
            words[f"{name}_integer"] = x if of in ("UBIGINT", "HUGEINT") else "0"
        rules = [rule for rule in _rules(table, self.locale) if rule.column == column and (with_row or not rule.needs)]
        if column in self._absent(table):
            rules = []
        return " OR ".join(f"({rule.sql.format_map(words)})" for rule in rules if rule.sql) or "FALSE"

    def _absent(self, table: str) -> list[str]:
        """The declared columns that the table does not have; each of them may be absent."""
        return [column.name for column in SCHEMAS[table].columns if column.name not in self.types[table]]

    def unknown(self, source: str) -> tuple[str, ...]:
        """What `rows` of the source cannot know, because the column it comes from is absent."""
        return tuple(name for column in self._absent(source) for name in _MADE_FROM[column])

    def _raw(self, table: str, column: str, alias: str) -> str:
        if column not in self.types[table]:
            return f"CAST(NULL AS {_ABSENT_TYPES[SCHEMAS[table].column(column).kind]})"
        is_text = self.types[table].get(column) == "VARCHAR"
        return f"nullif({alias}.{column}, '')" if is_text else f"{alias}.{column}"

    def _minor(self, table: str, column: str, alias: str) -> str:
        if column not in self.types[table]:
            return "CAST(NULL AS DOUBLE)"
        is_decimal = self.types[table].get(column, "").startswith("DECIMAL")
        return minor_units_sql(f"{alias}.{column}", is_decimal=is_decimal, currency=self.locale.currency)

    @property
    def minor_per_unit(self) -> int:
        return self.locale.currency.minor_per_unit

    def key(self, kind: str, table: str, alias: str = "t", *, checked: bool = True) -> str:
        """The id column of a table as a join key: integers when they are so everywhere, else text (17 equals "17").

        checked: a bad cell ends the query.
        """
        column = next(column for name, column in _KEYS[kind] if name == table)
        kinds = [self.types[name].get(column, _UNTYPED) for name, column in _KEYS[kind] if name in self.types]
        whole = all(kind in _INTEGERS or kind == _UNTYPED for kind in kinds)
        cell = self.cell(table, column, alias) if checked else self.value(table, column, alias)
        return f"CAST({cell} AS {'BIGINT' if whole else 'VARCHAR'})"

    @property
    def names_codes(self) -> bool:
        """Whether orders name codes that the table of codes may know."""
        return "codes" in self.types and "code" in self.types.get("orders", ())

    def before(self, table: str) -> str:
        """The rows of a table that are dated before the as-of date."""
        return self.within(_dates(table)[0], days=None)

    def within(self, column: str, *, days: int | None = YEAR_DAYS, alias: str = "t") -> str:
        """The rows dated before the as-of date and, unless `days` is None, at most so many days before it."""
        before = f"{alias}.{column} < DATE '{self.as_of}'"
        if days is None:
            return before
        return f"{before} AND {alias}.{column} >= DATE '{self.as_of - timedelta(days=days)}'"

    def age(self, column: str, alias: str = "t") -> str:
        return f"CAST(DATE '{self.as_of}' - CAST({alias}.{column} AS DATE) AS INTEGER)"

    # ---- rows of one table, from which the rows of a source are joined ---------------------------------------------

    def rows(self, table: str) -> str:
        """SELECT of a table's rows as the program of features reads them, after `check`: those dated before the as-of
        date, and of the site those of the year."""
        where = self.within("day") if table == "site" else self.before(table)
        return f"SELECT {', '.join(self._columns(table))} FROM raw_{table} t WHERE {where}"

    def checked_rows(self, table: str) -> str:
        """As `rows`; one that breaks a rule ends the query. Codes are those of the year: the depths of all that orders
        name come from `code_depths`."""
        wanted = self.within(_dates(table)[0]) if table in ("site", "codes") else self.before(table)
        # within the CASE, because DuckDB evaluates conditions that are joined by AND in the order that it likes
        where = f"CASE WHEN {self._bad(table)} THEN {_refuse(table)} ELSE {wanted} END"
        return f"SELECT {', '.join(self._columns(table))} FROM raw_{table} t WHERE {where}"

    def _columns(self, table: str) -> Iterator[str]:
        of_row = _dates(table)[0]
        for kind, columns in _KEYS.items():
            if any(name == table for name, _ in columns):
                yield f"{self.key(kind, table, checked=False)} AS {kind}_key"
        yield f"{self.age(of_row)} AS age"
        if table == "customers":
            yield f"{self.value(table, 'customer_id')} AS customer_id"
        elif table == "orders":
            yield f"{self.within(of_row)} AS in_year"
            yield f"{self.value(table, 'full_price')} AS full_minor"
            yield f"{self.value(table, 'paid')} AS paid_minor"
            yield f"{self.value(table, 'items')} AS items"
            yield "epoch_us(CAST(t.ordered_at AS TIMESTAMP)) AS instant_us"
            yield "isodow(CAST(t.ordered_at AS DATE)) >= 6 AS weekend"
            yield "hour(CAST(t.ordered_at AS TIMESTAMP)) >= 18 AS evening"
        elif table == "returns":
            yield f"{self.within(of_row)} AS in_year"
            yield f"{self.value(table, 'value')} AS value_minor"
        elif table == "codes":
            yield f"{self.within(of_row)} AS in_year"
            yield f"{self.value(table, 'depth')} AS depth_bp"
            redeemed = self.within("redeemed_at", days=None)
            yield f"CASE WHEN {redeemed} THEN {self.age('redeemed_at')} END AS redeemed_age"
        else:
            yield from (f"{self.value(table, name)} AS {name}" for name in _COUNTS)

    def code_depths(self) -> str:
        """SELECT of the codes sent before the as-of date, `code_key` and `depth_bp`; a shared code has several rows."""
        key, depth = self.key("code", "codes", checked=False), self.cell("codes", "depth")
        return f"SELECT {key} AS code_key, {depth} AS depth_bp FROM raw_codes t WHERE {self.before('codes')}"

    def joined(self, source: str) -> str:
        """SELECT of a source's rows in the year: `customer_key`, `age` in days before the as-of date, and what measures
        aggregate. It reads the rows of tables as `<table>_rows`, and the depths of codes as `used_codes`."""
        if source == "returns":
            return """
              SELECT o.customer_key, r.age, r.value_minor, greatest(o.age - r.age, 0) AS delay_days
              FROM returns_rows r JOIN orders_rows o ON o.order_key = r.order_key WHERE r.in_year"""
        if source != "orders":
            return f"SELECT * FROM {source}_rows" + (" WHERE in_year" if source == "codes" else "")
        joins, returned, depth = "", "NULL::BIGINT", "NULL::BIGINT"
        if "returns" in self.types:
            returned = "coalesce(back.value_minor, 0)"
            joins += """
              LEFT JOIN (SELECT order_key, CAST(sum(value_minor) AS BIGINT) AS value_minor
                         FROM returns_rows GROUP BY 1) back ON back.order_key = o.order_key"""
        if self.names_codes:
            depth = "CASE WHEN o.code_key IS NULL THEN 0 ELSE used.depth_bp END"
            joins += "\n              LEFT JOIN used_codes used ON used.code_key = o.code_key"
        return f"""
          SELECT o.*, o.code_key IS NOT NULL AS coded, {returned} AS returned_minor, {depth} AS depth_bp,
                 CASE WHEN full_minor > 0
                      THEN CAST(round_even(ln(full_minor / {self.minor_per_unit}) * {LOG_GRID}, 0) AS BIGINT) END
                   AS log_full
          FROM orders_rows o {joins} WHERE o.in_year"""

    # ---- rows of a window, for training ------------------------------------------------------------------------------

    def used_depths(self) -> str:
        """One row per code sent before the as-of date: `code_key`, `depth_bp`; none twice."""
        return f"""SELECT {self.key("code", "codes")} AS code_key, max({self.cell("codes", "depth")}) AS depth_bp
                   FROM raw_codes t WHERE {self.within("sent_at", days=None)} GROUP BY 1"""

    def sent_codes(self, *, days: int, maturity: Maturity, matured_by: date) -> str:
        """One row per code sent in the `days` before the as-of date that has matured by the day `matured_by`:
        `customer`, `code_key`, `sent_at`, `depth_bp`, `campaign`, `used`, and of a code whose expiry is not known
        `used_late`: it was used after it had counted as unused.
        """
        sent, redeemed = "CAST(t.sent_at AS TIMESTAMP)", "CAST(t.redeemed_at AS TIMESTAMP)"
        campaign = f"CAST({self.cell('codes', 'campaign_id')} AS VARCHAR)"
        matures = f"{sent} + INTERVAL {maturity.days} DAY"
        matured = f"t.sent_at < DATE '{matured_by - timedelta(days=maturity.days)}'"
        is_own, source = "FALSE", "raw_codes t"
        if maturity.own:
            name = f"CAST({self.value('codes', 'campaign_id')} AS VARCHAR)"
            source += f" LEFT JOIN ({_days_of(maturity.own)}) own ON own.name = {name}"
            # a label that is used again after its campaign has ended is another campaign
            is_own = "own.name IS NOT NULL AND (own.day IS NULL OR t.sent_at < own.day)"
            matures = f"CASE WHEN {is_own} THEN CAST(own.day AS TIMESTAMP) ELSE {matures} END"
            matured = f"CASE WHEN {is_own} THEN coalesce(own.day <= DATE '{matured_by}', FALSE) ELSE {matured} END"
        return f"""
          SELECT {self.key("customer", "codes")} AS customer, {self.key("code", "codes")} AS code_key,
                 {sent} AS sent_at, {self.cell("codes", "depth")} AS depth_bp, {campaign} AS campaign,
                 CASE WHEN {self._broken("codes", "redeemed_at", "t")} THEN {_refuse("codes")}
                      ELSE coalesce({redeemed} < {matures}, FALSE) END AS used,
                 NOT ({is_own}) AND coalesce({redeemed} >= {matures}, FALSE) AS used_late
          FROM {source} WHERE {self.within("sent_at", days=days)} AND {matured}"""

    def orders_by_day(self, *, days: int) -> str:
        """SELECT of each of the `days` before the as-of date on which there were orders, and how many."""
        return f"""SELECT CAST(t.ordered_at AS DATE), count(*) FROM raw_orders t
                   WHERE {self.within("ordered_at", days=days)} GROUP BY 1"""

    def codes_by_day(self, *, days: int, without: Collection[str]) -> str:
        """SELECT of each of the `days` before the as-of date on which codes were sent that have matured by then, how
        many, and how many of them were used; without those of these campaigns."""
        sent = self.sent_codes(days=days, maturity=BY_EXPIRY, matured_by=self.as_of)
        names = ", ".join("'{}'".format(name.replace("'", "''")) for name in sorted(without))
        others = f"WHERE campaign NOT IN ({names})" if names else ""
        return f"SELECT CAST(sent_at AS DATE), count(*), count(*) FILTER (used) FROM ({sent}) {others} GROUP BY 1"

    def newest_day(self) -> str:
        """SELECT of the last day on which the tables know of an order, or of a code sent or used; null without any."""
        moments = [("orders", "ordered_at"), ("codes", "sent_at"), ("codes", "redeemed_at")]
        days = [
            f"(SELECT max(CAST({column} AS DATE)) FROM raw_{name})" for name, column in moments if name in self.types
        ]
        return f"SELECT greatest({', '.join(days)})"


def _dates(table: str) -> list[str]:
    """The columns with dates; by the first of them a row belongs before or after the as-of date."""
    return [column.name for column in SCHEMAS[table].columns if column.before_as_of]


@lru_cache(maxsize=64)
def _rules(table: str, locale: Locale) -> tuple[Rule, ...]:
    return rules_of(SCHEMAS[table], locale=locale)


def _days_of(own: Mapping[str, date | None]) -> str:
    """SELECT of campaigns and their days.

    >>> _days_of({"spring's": date(2027, 3, 24)})
    "SELECT name, CAST(day AS DATE) AS day FROM (VALUES ('spring''s', '2027-03-24')) named(name, day)"
    """
    rows = [
        "('{}', {})".format(name.replace("'", "''"), "NULL" if day is None else f"'{day}'")
        for name, day in sorted(own.items())
    ]
    return f"SELECT name, CAST(day AS DATE) AS day FROM (VALUES {', '.join(rows)}) named(name, day)"


def _refuse(table: str) -> str:
    return f"error('{REFUSED}{table}')"
