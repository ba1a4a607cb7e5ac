"""The retailer's tables as SQL sources: columns checked, money and dates made exact, the year cut out."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from disco.features.measures import LOG_GRID, YEAR_DAYS
from disco.records.errors import InputError
from disco.records.tables import SCHEMAS, Kind

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT")
_WITHIN_BIGINT = tuple(kind for kind in _INTEGERS if kind not in ("UBIGINT", "HUGEINT"))
_NUMBERS = (*_INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")
_FITTING = {
    Kind.ID: (*_INTEGERS, "VARCHAR"),
    Kind.MOMENT: ("DATE", "TIMESTAMP"),
    Kind.DAY: ("DATE", "TIMESTAMP"),
    Kind.MONEY: _NUMBERS,
    Kind.DEPTH: _NUMBERS,
    Kind.COUNT: _NUMBERS,
}
FIRST_YEAR = 1900  # earlier dates are mistakes
_UNTYPED = '"NULL"'  # a column without a single value
_KEYS = {
    "customer": (
        ("customers", "customer_id"),
        ("orders", "customer_id"),
        ("codes", "customer_id"),
        ("site", "customer_id"),
    ),
    "order": (("orders", "order_id"), ("returns", "order_id")),
    "code": (("orders", "code"), ("codes", "code_id")),
}


_COUNTS = tuple(column.name for column in SCHEMAS["site"].columns if column.kind is Kind.COUNT)


@dataclass(frozen=True, slots=True)
class Sources:
    """SQL for each table's rows as of a date; `types` is table → column → DuckDB type of the tables present."""

    types: dict[str, dict[str, str]]
    as_of: date

    @classmethod
    def describe(cls, connection: Any, present: tuple[str, ...], as_of: date) -> "Sources":
        """Read the columns of the registered tables `raw_<name>`; refuse absent or unusable ones by name."""
        if not isinstance(as_of, date) or isinstance(as_of, datetime) or as_of.year < FIRST_YEAR:
            raise InputError("as-of date", found=repr(as_of), expected=f"a date (midnight, UTC) from {FIRST_YEAR} on")
        types = {}
        for table in present:
            found = {row[0]: row[1] for row in connection.execute(f"DESCRIBE raw_{table}").fetchall()}
            for column in SCHEMAS[table].columns:
                if column.name not in found:
                    raise InputError(
                        f"table {table}",
                        found=f"the columns {', '.join(found)}",
                        expected=f"a column {column.name} ({column.kind})",
                    )
                kind = found[column.name]
                if kind != _UNTYPED and not kind.startswith(_FITTING[column.kind]):
                    raise InputError(f"table {table}, column {column.name}", found=kind, expected=column.kind)
            types[table] = found
        return cls(types, as_of)

    def rows(self, source: str) -> str:
        """SELECT of a source's rows: `customer`, `age` in days before the as-of date, and what measures aggregate."""
        return {"orders": self._orders, "returns": self._returns, "codes": self._codes, "site": self._site}[source]()

    def key(self, kind: str, table: str, alias: str = "t") -> str:
        """The id column of a table as a join key: integers when they are so everywhere, else text (17 equals "17")."""
        column = next(column for name, column in _KEYS[kind] if name == table)
        kinds = [self.types[name][column] for name, column in _KEYS[kind] if name in self.types]
        whole = all(kind in _WITHIN_BIGINT or kind == _UNTYPED for kind in kinds)
        return f"CAST({alias}.{column} AS {'BIGINT' if whole else 'VARCHAR'})"

    def within(self, column: str, *, days: int | None = YEAR_DAYS, alias: str = "t") -> str:
        """The rows dated before the as-of date and, unless `days` is None, at most so many days before it."""
        before = f"{alias}.{column} < DATE '{self.as_of}'"
        if days is None:
            return before
        return f"{before} AND {alias}.{column} >= DATE '{self.as_of - timedelta(days=days)}'"

    def age(self, column: str, alias: str = "t") -> str:
        return f"CAST(DATE '{self.as_of}' - CAST({alias}.{column} AS DATE) AS BIGINT)"

    def _orders(self) -> str:
        joins, returned, depth = "", "NULL::BIGINT", "NULL::BIGINT"
        if "returns" in self.types:
            returned = "coalesce(back.value_minor, 0)"
            joins += f"""
              LEFT JOIN (SELECT {self.key("order", "returns")} AS order_key,
                                CAST(sum({minor_units("t", "returns", "value")}) AS BIGINT) AS value_minor
                         FROM raw_returns t WHERE {self.within("returned_at", days=None)} GROUP BY 1) back
                ON back.order_key = {self.key("order", "orders")}"""
        if "codes" in self.types:
            depth = "CASE WHEN t.code IS NULL THEN 0 ELSE used.depth_bp END"
            joins += f"""
              LEFT JOIN ({self.used_depths()}) used ON used.code_key = {self.key("code", "orders")}"""
        return f"""
          SELECT *, CASE WHEN full_minor > 0 THEN CAST(round_even(ln(full_minor / 100) * {LOG_GRID}, 0) AS BIGINT) END
                      AS log_full
          FROM (SELECT {self.key("customer", "orders")} AS customer, {self.age("ordered_at")} AS age,
                       {minor_units("t", "orders", "full_price")} AS full_minor,
                       {minor_units("t", "orders", "paid")} AS paid_minor, CAST(t.items AS BIGINT) AS items,
                       epoch_us(CAST(t.ordered_at AS TIMESTAMP)) AS instant_us,
                       isodow(CAST(t.ordered_at AS DATE)) >= 6 AS weekend,
                       hour(CAST(t.ordered_at AS TIMESTAMP)) >= 18 AS evening,
                       t.code IS NOT NULL AS coded, {returned} AS returned_minor, {depth} AS depth_bp
                FROM raw_orders t {joins} WHERE {self.within("ordered_at")})"""

    def used_depths(self) -> str:
        """One row per code sent before the as-of date: `code_key`, `depth_bp`, `campaign`; none twice."""
        return f"""SELECT {self.key("code", "codes")} AS code_key, max({basis_points("t")}) AS depth_bp,
                          max(CAST(t.campaign_id AS VARCHAR)) AS campaign
                   FROM raw_codes t WHERE {self.within("sent_at", days=None)} GROUP BY 1"""

    def _returns(self) -> str:
        return f"""
          SELECT {self.key("customer", "orders", "o")} AS customer, {self.age("returned_at")} AS age,
                 {minor_units("t", "returns", "value")} AS value_minor,
                 greatest({self.age("ordered_at", "o")} - {self.age("returned_at")}, 0) AS delay_days
          FROM raw_returns t JOIN raw_orders o ON {self.key("order", "orders", "o")} = {self.key("order", "returns")}
          WHERE {self.within("returned_at")} AND {self.within("ordered_at", days=None, alias="o")}"""

    def _codes(self) -> str:
        return f"""
          SELECT {self.key("customer", "codes")} AS customer, {self.age("sent_at")} AS age,
                 {basis_points("t")} AS depth_bp,
                 CASE WHEN {self.within("redeemed_at", days=None)} THEN {self.age("redeemed_at")} END AS redeemed_age
          FROM raw_codes t WHERE {self.within("sent_at")}"""

    def _site(self) -> str:
        counts = ", ".join(f"CAST(t.{name} AS BIGINT) AS {name}" for name in _COUNTS)
        return f"""
          SELECT {self.key("customer", "site")} AS customer, {self.age("day")} AS age, {counts}
          FROM raw_site t WHERE {self.within("day")}"""


def minor_units(alias: str, table: str, column: str) -> str:
    """Money as an exact integer of minor units, half to even; what is no amount of money stops the program by name."""
    value = f"CAST({alias}.{column} AS DOUBLE)"
    refuse = f"error('table {table}, column {column}: found a value that is missing, not finite or beyond 10^13')"
    return f"(CASE WHEN abs({value}) < 1e13 THEN CAST(round_even({value} * 100, 0) AS BIGINT) ELSE {refuse} END)"


def basis_points(alias: str) -> str:
    """A depth as an integer of 1/10000; outside [0, 1) stops the program by name."""
    value = f"CAST({alias}.depth AS DOUBLE)"
    refuse = "error('table codes, column depth: found a value outside [0, 1)')"
    inside = f"{value} >= 0 AND {value} < 1"
    return f"(CASE WHEN {inside} THEN CAST(round_even({value} * 10000, 0) AS BIGINT) ELSE {refuse} END)"
