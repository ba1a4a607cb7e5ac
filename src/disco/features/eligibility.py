"""Who meets a plan's condition: an SQL condition on one table of customers, and on nothing else."""

from typing import TYPE_CHECKING, Any

from disco.records.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def eligible_ids(customers: Any, condition: str, *, name: str) -> "pa.Array":
    """Ids, as text, of the rows that meet the condition.

    customers: an Arrow table or dataset with a column customer_id. condition: SQL. name: of the table, for messages.
    """
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc

    from disco.features.builder import opened_duckdb
    from disco.records.tables import Kind
    from disco.records.validation.cells import is_accepted

    with opened_duckdb() as connection:
        # the condition comes from a plan file: it may look at this table and at nothing else
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
        connection.register("customers", customers)
        columns = connection.table("customers").columns
        if "customer_id" not in columns:
            raise InputError(name, found=f"the columns {', '.join(columns)}", expected="a column customer_id")
        try:
            rows = connection.table("customers").filter(condition).project("customer_id")
            given = rows.to_arrow_table()["customer_id"].combine_chunks()
        except duckdb.Error as error:
            raise InputError(
                "customers.eligible",
                found=f"{condition!r}: {_first_words(error)}",
                expected=f"an SQL condition on the columns {', '.join(columns)} of {name}",
            ) from None
    if not is_accepted(Kind.ID, given.type):
        raise InputError(f"{name}, column customer_id", found=f"type {given.type}", expected=str(Kind.ID))
    ids = given.cast(pa.large_string())
    if ids.null_count:
        raise InputError(f"{name}, column customer_id", found=f"{ids.null_count} nulls", expected="an id in every row")
    if len(pc.unique(ids)) != len(ids):
        counts = pc.value_counts(ids)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"]
        raise InputError(f"{name}, column customer_id", found=f"{twice} twice", expected="each customer once")
    return ids


def _first_words(error: Exception) -> str:
    """What DuckDB says, on one line, without the picture of the query."""
    lines = str(error).split("\n\nLINE")[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip())
