"""Data frames in and out by Arrow's PyCapsule protocol, so that none of their libraries is needed.

Results as pandas data frames, for those who have pandas; and the customers of a table that comes in.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from disco.records.arguments import kind_of
from disco.records.errors import InputError, MissingPartError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


#: A data frame of any library with Arrow's PyCapsule protocol, an Arrow table, or a mapping of columns.
Frame: TypeAlias = Any


def data_frame(table: "pa.Table") -> "pd.DataFrame":
    """The rows of an Arrow table as a data frame; says so where pandas is absent."""
    try:
        return table.to_pandas()
    except ModuleNotFoundError:
        raise MissingPartError(
            "to_pandas()", found="no pandas", expected="pandas", fix="Run `pip install pandas`, or use `to_arrow()`."
        ) from None


def is_pandas(frame: object) -> bool:
    """Whether it is a data frame of pandas, the only kind with an index."""
    return all(hasattr(frame, name) for name in ("columns", "index", "dtypes", "to_numpy"))


def is_frame(value: object) -> bool:
    """Whether it is a data frame of any library, or a table of Arrow."""
    return hasattr(value, "__arrow_c_stream__") or is_pandas(value)


def as_arrow(frame: Any, *, where: str, besides: str = "") -> "pa.Table":
    """The rows of a data frame of pandas, Polars, DuckDB or another library, an Arrow table, or a mapping of columns.

    An index of pandas that has a name becomes a column; one without a name only counts the rows. besides: what else the
    caller takes, for the message.

    >>> as_arrow({"a": [1, 2]}, where="orders").to_pydict()
    {'a': [1, 2]}
    """
    import pyarrow as pa

    try:
        if isinstance(frame, pa.Table):
            return frame
        if is_pandas(frame):
            named = [name for name in frame.index.names if name is not None]
            return pa.Table.from_pandas(frame.reset_index(named) if named else frame, preserve_index=False)
        if is_frame(frame) or isinstance(frame, Mapping | pa.RecordBatch):
            return pa.table(frame)
        found = kind_of(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        found = f"{kind_of(frame)}: {' '.join(str(error).split())}"[:200]
    expected = f"{besides}a data frame (pandas, Polars, DuckDB, …), an Arrow table, or a mapping of columns"
    raise InputError(where, found=found, expected=expected) from None


class Tabular:
    """What can be had as a table."""

    __slots__ = ()

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> "pd.DataFrame":
        """`to_arrow` as a data frame."""
        return data_frame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for other libraries, such as `polars.DataFrame(result)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


CUSTOMER = "customer_id"


def without_ids(table: Any) -> tuple[Any, Any]:
    """(the table without its ids, the ids), of a table with a column or, in pandas, an index named customer_id.

    An index of texts without a name holds ids, too. Frames of other libraries become Arrow tables. Anything else is
    handed back as it is, with None for the ids.

    >>> import pyarrow as pa
    >>> rest, ids = without_ids(pa.table({"customer_id": ["a", "b"], "0.1": [1.0, 2.0]}))
    >>> rest.column_names, ids.to_pylist()
    (['0.1'], ['a', 'b'])
    """
    if is_pandas(table):
        if CUSTOMER in table.columns:
            return table.drop(columns=CUSTOMER), table[CUSTOMER].to_numpy()
        is_text = table.index.nlevels == 1 and table.index.inferred_type == "string"
        if table.index.name == CUSTOMER or (table.index.name is None and is_text):
            return table, table.index.to_numpy()
        return table, None
    if is_frame(table) and not hasattr(table, "column_names"):  # of another library
        table = _without_decimals(as_arrow(table, where="values"))
    if CUSTOMER in getattr(table, "column_names", ()):  # Arrow
        return table.drop_columns([CUSTOMER]), table[CUSTOMER]
    return table, None


def _without_decimals(table: "pa.Table") -> "pa.Table":
    """SQL's decimals as floats, of which arrays are made."""
    import pyarrow as pa

    fields = [one.with_type(pa.float64()) if pa.types.is_decimal(one.type) else one for one in table.schema]
    return table.cast(pa.schema(fields))
