"""Who meets a plan's condition: an SQL condition on one table of customers, and on nothing else.

The condition comes from a plan file, so its work is bounded: no files, one thread, limits of time and memory. DuckDB
cannot interrupt a function within 2,048 rows, so the limits hold for a process of its own (`adapters/conditions.py`).
It is handed in as a function (`Evaluate`); `rows_where` is what it runs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from disco.features.builder import opened_duckdb
from disco.records.errors import InputError, TableError, did_you_mean
from disco.records.table_rules import check_column, is_rare, with_columns

CONDITION_CPU_SECONDS = 20
"""Of processor time. A condition on ten million customers takes a few seconds."""
CONDITION_SECONDS = 60.0
"""By the clock, on a machine that has no processor to spare."""
CONDITION_BYTES = 1 << 30
"""Memory that DuckDB may use for a condition; its process may take 512 MB beside it."""
_ROWS_PER_BATCH = 1 << 16
_LONGEST_SHOWN = 200  # characters of a condition, or of what DuckDB says about it, in a message
# words and marks by which a condition reaches columns that it does not name, such as COLUMNS(*) or a whole row
_WHOLE_ROWS = ("*", "#", "&", "customers", "columns", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a table of customers."""

    condition: str
    """SQL."""
    columns: Mapping[str, str]
    """Name in the answer → column that follows customer_id, as text."""
    time_zone: str
    """Of the condition's days and times."""
    most_seconds: float
    most_cpu_seconds: int
    most_bytes: int
    """Of memory."""

    @property
    def too_slow(self) -> str:
        """Why a condition that takes too long is refused."""
        return f"it did not finish within {self.most_seconds:g} s"

    @property
    def too_much_work(self) -> str:
        """Why a condition that takes too much processor time is refused."""
        return f"it did not finish within {self.most_cpu_seconds:g} s of processor time"

    @property
    def too_large(self) -> str:
        """Why a condition that takes too much memory is refused."""
        return f"it needs more than {self.most_bytes >> 20:,} MB of memory"

    def needs(self, column: str) -> bool:
        """Whether the answer may depend on a column; True in doubt."""
        text = self.condition.lower()
        if column == "customer_id" or column in self.columns.values() or '"' in column:
            return True
        return column.lower() in text or any(word in text for word in _WHOLE_ROWS)


Evaluate = Callable[[Any, Question], pa.Table]
"""`rows_where` of an Arrow table or dataset, within the limits; RefusedConditionError where there is no answer."""


class RefusedConditionError(Exception):
    """A condition that DuckDB refuses, or that is beyond its limits; the reason in words."""


def eligible_ids(customers: Any, condition: str, *, name: str, evaluate: Evaluate) -> pa.Array:
    """Ids, as text, of the rows that meet the condition.

    customers: an Arrow table or dataset with a column customer_id. condition: SQL. name: of the table, for messages.
    """
    return eligible_customers(customers, condition, name=name, evaluate=evaluate)["customer_id"].combine_chunks()


def eligible_customers(
    customers: Any,
    condition: str,
    *,
    name: str,
    evaluate: Evaluate,
    columns: Mapping[str, str] | None = None,
    time_zone: str = "UTC",
    key: str = "customers.eligible",
) -> pa.Table:
    """customer_id, as text, of the rows that meet the condition, and these columns of the table as text.

    columns: what a plan calls the setting → the name of a column, such as {"segments.column": "region"}. They follow
    customer_id under the names of the settings. time_zone: of the condition's days and times. key: of the plan, which
    holds the condition.
    """
    check_column(customers.schema.empty_table(), "customers", "customer_id", file=name)
    known = _known_columns(customers, columns or {}, name=name)
    question = Question(
        condition=condition,
        columns=known,
        time_zone=time_zone,
        most_seconds=CONDITION_SECONDS,
        most_cpu_seconds=CONDITION_CPU_SECONDS,
        most_bytes=CONDITION_BYTES,
    )
    found = _answer(customers, question, name=name, evaluate=evaluate, key=key)
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
            raise InputError(
                setting,
                found=f"no column {column} in {name}",
                expected=f"one of {', '.join(customers.schema.names)}",
                fix=did_you_mean(column, customers.schema.names),
            )
        found[setting] = names[column.lower()]
    return found


def _answer(customers: Any, question: Question, *, name: str, evaluate: Evaluate, key: str) -> pa.Table:
    """The ids, in the table's own type, of the rows that meet the condition, and the columns as text."""
    rare = [field.name for field in customers.schema if is_rare(field.type)]
    known = [column for column in dict.fromkeys(customers.schema.names) if column not in rare]
    try:
        return evaluate(with_columns(customers, known), question)
    except RefusedConditionError as refused:
        listed = ", ".join(known) + (f" (not {', '.join(rare)}, whose type DuckDB does not have)" if rare else "")
        raise InputError(
            key,
            found=f"{question.condition:.{_LONGEST_SHOWN}}: {refused!s:.{_LONGEST_SHOWN}}",
            expected=f"an SQL condition on the columns {listed} of {name}",
        ) from None


@contextmanager
def rows_where(customers: Any, question: Question, *, whole: pa.Schema | None = None) -> Iterator[pa.RecordBatchReader]:
    """The answer to a question as a stream, within the limit of memory that DuckDB keeps, and without one of time.

    whole: the schema of the whole table, where customers has fewer columns: messages name the others, too.
    RefusedConditionError, also while the stream is read.
    """
    import duckdb

    as_text = [f"CAST({_quoted(column)} AS VARCHAR) AS {_quoted(name)}" for name, column in question.columns.items()]
    limit = f"{question.most_bytes >> 20}MiB"
    with opened_duckdb(threads=1, memory_limit=limit, time_zone=question.time_zone, spills=False) as connection:
        try:
            for rows in (customers if whole is None else whole.empty_table(), customers):
                connection.register("customers", rows)
                relation = connection.table("customers").filter(question.condition)
                relation = relation.project(", ".join(["customer_id", *as_text]))
            stream = relation.to_arrow_reader(_ROWS_PER_BATCH)
        except (MemoryError, duckdb.Error) as error:
            raise _refusal(error, question) from None
        yield pa.RecordBatchReader.from_batches(stream.schema, _batches(stream, question))


def _batches(stream: pa.RecordBatchReader, question: Question) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            yield stream.read_next_batch()
        except StopIteration:
            return
        except (MemoryError, OSError, pa.ArrowException) as error:  # what DuckDB says comes through Arrow
            raise _refusal(error, question) from None


def _refusal(error: Exception, question: Question) -> RefusedConditionError:
    lines = str(error).split("\n\nLINE")[0].splitlines()  # without the picture of the query
    words = " ".join(line.strip() for line in lines if line.strip())
    is_memory = isinstance(error, MemoryError) or words.startswith("Out of Memory Error")
    return RefusedConditionError(question.too_large if is_memory else words)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
