"""Results as pandas data frames, for those who have pandas."""

from typing import TYPE_CHECKING

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
