"""Who meets a plan's condition: an SQL condition on one table of customers, and on nothing else.

The condition comes from a plan file, so its work is bounded: no files, one thread, and limits of time and memory.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.records.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

CONDITION_SECONDS = 60.0
"""A condition on ten million customers takes a few seconds."""
CONDITION_BYTES = 1 << 30
"""Memory that DuckDB may use for a condition; the process may grow by twice as much meanwhile."""
_ONE_AT_A_TIME = threading.Lock()  # a limit of memory belongs to the whole process
_GRACE_BYTES = 64 << 20  # for the error itself, once the time is over
_LONGEST_SHOWN = 200  # characters of a condition, or of what DuckDB says about it, in a message


def eligible_ids(customers: Any, condition: str, *, name: str) -> "pa.Array":
    """Ids, as text, of the rows that meet the condition.

    customers: an Arrow table or dataset with a column customer_id. condition: SQL. name: of the table, for messages.
    """
    return eligible_customers(customers, condition, name=name)["customer_id"].combine_chunks()


def eligible_customers(
    customers: Any, condition: str, *, name: str, columns: Mapping[str, str] | None = None, time_zone: str = "UTC"
) -> "pa.Table":
    """customer_id, as text, of the rows that meet the condition, and these columns of the table as text.

    columns: what a plan calls the setting → the name of a column, such as {"segments.column": "region"}. They follow
    customer_id under the names of the settings. time_zone: of the condition's days and times.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from disco.records.errors import TableError
    from disco.records.validation import check_column

    check_column(customers.schema.empty_table(), "customers", "customer_id", file=name)
    known = _known_columns(customers, columns or {}, name=name)
    found = _rows_where(customers, condition, name=name, columns=known, time_zone=time_zone)
    given = found["customer_id"].combine_chunks()
    try:
        check_column(pa.table({"customer_id": given}), "customers", "customer_id", file=name)
    except TableError:
        check_column(customers, "customers", "customer_id", file=name)  # the same, with the rows of the table
        raise
    ids = given.cast(pa.large_string())
    if len(pc.unique(ids)) != len(ids):
        counts = pc.value_counts(ids)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"]
        raise InputError(f"{name}, column customer_id", found=f"{twice} twice", expected="each customer once")
    return found.set_column(0, "customer_id", ids)


def _known_columns(customers: Any, columns: Mapping[str, str], *, name: str) -> dict[str, str]:
    """The columns as the table spells them: letters may be of another case."""
    names, found = {known.lower(): known for known in customers.schema.names}, {}
    for setting, column in columns.items():
        if column.lower() not in names:
            near = get_close_matches(column.lower(), names, n=1)
            raise InputError(
                setting,
                found=f"no column {column} in {name}",
                expected=f"one of {', '.join(customers.schema.names)}",
                fix=f"Did you mean {names[near[0]]}?" if near else None,
            )
        found[setting] = names[column.lower()]
    return found


def _rows_where(customers: Any, condition: str, *, name: str, columns: Mapping[str, str], time_zone: str) -> "pa.Table":
    """The ids, in the table's own type, of the rows that meet the condition, and columns as text (setting → column).

    InputError where DuckDB refuses the condition.
    """
    import duckdb

    from disco.features.builder import opened_duckdb
    from disco.records.validation import with_columns
    from disco.records.validation.checker import is_rare

    rare = [field.name for field in customers.schema if is_rare(field.type)]
    known = [column for column in dict.fromkeys(customers.schema.names) if column not in rare]
    as_text = [f"CAST({_quoted(column)} AS VARCHAR) AS {_quoted(setting)}" for setting, column in columns.items()]
    listed = ", ".join(known) + (f" (not {', '.join(rare)}, whose type DuckDB does not have)" if rare else "")

    def refused(reason: str) -> InputError:
        return InputError(
            "customers.eligible",
            found=f"{condition:.{_LONGEST_SHOWN}}: {reason:.{_LONGEST_SHOWN}}",
            expected=f"an SQL condition on the columns {listed} of {name}",
        )

    limit = f"{CONDITION_BYTES >> 20}MiB"
    with opened_duckdb(threads=1, memory_limit=limit, time_zone=time_zone) as connection:
        connection.register("customers", with_columns(customers, known))
        try:
            with _bounded(connection):
                rows = connection.table("customers").filter(condition).project(", ".join(["customer_id", *as_text]))
                return rows.to_arrow_table()
        except duckdb.InterruptException:
            raise refused(f"it was not done after {CONDITION_SECONDS:g} s") from None
        except (MemoryError, duckdb.OutOfMemoryException):
            raise refused(f"it needs more than {CONDITION_BYTES >> 20:,} MB of memory") from None
        except duckdb.Error as error:
            raise refused(_first_words(error)) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _bounded(connection: Any) -> Iterator[None]:
    """Interrupt the query after a while, and refuse memory that DuckDB does not count, such as text made by repeat().

    DuckDB looks for the interruption after every 2,048 rows; within them it ends when no more memory is given.
    """

    def stop() -> None:
        connection.interrupt()
        limit(_GRACE_BYTES)

    with _ONE_AT_A_TIME, _memory_limit() as limit:
        deadline = threading.Timer(CONDITION_SECONDS, stop)
        deadline.daemon = True
        deadline.start()
        try:
            limit(2 * CONDITION_BYTES)
            yield
        finally:
            deadline.cancel()
            deadline.join()


@contextmanager
def _memory_limit() -> Iterator[Callable[[int], None]]:
    """A function that bounds how many bytes more this process may take from now on, where the system can bound it."""
    try:
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
        pages = Path("/proc/self/statm")
        pages.read_text(encoding="ascii")
    except (ImportError, OSError):  # DuckDB's own limit is the only one
        yield lambda more: None
        return

    def limit(more: int) -> None:
        now = int(pages.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        bounds = [bound for bound in (now + more, *before) if bound != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), before[1]))

    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _first_words(error: Exception) -> str:
    """What DuckDB says, on one line, without the picture of the query."""
    lines = str(error).split("\n\nLINE")[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip())
