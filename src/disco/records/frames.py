"""Results as pandas data frames, for those who have pandas; and the customers of a table that comes in."""

from typing import TYPE_CHECKING, Any

from disco.records.errors import MissingPartError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def data_frame(table: "pa.Table") -> "pd.DataFrame":
    """The rows of an Arrow table as a data frame; says so where pandas is absent."""
    try:
        return table.to_pandas()
    except ModuleNotFoundError:
        raise MissingPartError(
            "to_pandas()", found="no pandas", expected="pandas", fix="Run `pip install pandas`, or use `to_arrow()`."
        ) from None


class Tabular:
    """What can be had as a table."""

    __slots__ = ()

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> "pd.DataFrame":
        """`to_arrow` as a data frame."""
        return data_frame(self.to_arrow())


CUSTOMER = "customer_id"


def without_ids(table: Any) -> tuple[Any, Any]:
    """(the table without its ids, the ids), of a table with a column or, in pandas, an index named customer_id.

    Anything else is handed back as it is, with None for the ids.

    >>> import pyarrow as pa
    >>> rest, ids = without_ids(pa.table({"customer_id": ["a", "b"], "0.1": [1.0, 2.0]}))
    >>> rest.column_names, ids.to_pylist()
    (['0.1'], ['a', 'b'])
    """
    if CUSTOMER in getattr(table, "column_names", ()):  # Arrow
        return table.drop_columns([CUSTOMER]), table[CUSTOMER]
    if hasattr(table, "columns") and hasattr(table, "index"):  # pandas
        if CUSTOMER in table.columns:
            return table.drop(columns=CUSTOMER), table[CUSTOMER].to_numpy()
        if table.index.name == CUSTOMER:
            return table, table.index.to_numpy()
    return table, None
