"""Logs in files: Parquet to `RandomLog`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.evaluation.log import RandomLog, random_log
from disco.records.errors import FileFormatError, InputError

NO_CONTEXT = ("customer_id", "depth", "full_price", "propensity")  # columns of a log with a meaning of their own


def read_log(
    path: Path,
    *,
    context: Sequence[str],
    strata: Sequence[str] = (),
    observed: bool = False,
    check_balance: bool = True,
) -> RandomLog:
    """A log from Parquet: `customer_id`, the context columns, `depth`, `full_price` (null = no purchase), `propensity`.

    Without a `propensity` column depths count as uniform; with `strata` columns, as frequent as they are within each
    stratum. `observed` sets a `propensity` column aside for the frequencies seen, overall or within strata.
    """
    taken = [name for name in (*context, *strata) if name in NO_CONTEXT]
    if taken:
        raise InputError(
            f"column {taken[0]}",
            found="it among the context or strata",
            expected="what was known before the depth was dealt",
        )
    wanted = ["customer_id", *context, "depth", "full_price", *strata]
    if not context:
        raise InputError("context", found="no column", expected="the names of the context columns, such as x1,x2")
    table = _read(path, wanted)
    for name in ("customer_id", *context, "depth", *strata):
        if table[name].null_count:
            row = table[name].is_null().to_pylist().index(True)
            raise InputError(f"{path}, column {name}, row {row + 1}", found="null", expected="a value in every row")
    propensity: object = None
    if observed:
        propensity = "observed"
    elif "propensity" in table.column_names:
        propensity = _numbers(table, "propensity", path)
    labels = None
    if strata:
        columns = [np.asarray(table[name].to_pylist(), object).astype(str) for name in strata]
        labels = np.array(["\x1f".join(row) for row in zip(*columns, strict=True)])
    return random_log(
        np.column_stack([_numbers(table, name, path) for name in context]),
        _numbers(table, "depth", path),
        _numbers(table, "full_price", path),
        customer_id=table["customer_id"].to_numpy(),
        propensity=propensity,
        strata=labels,
        check_balance=check_balance,
    )


def _read(path: Path, wanted: Sequence[str]) -> pa.Table:
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet file with the log")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(str(path), found=str(error).splitlines()[0], expected="a Parquet file") from None
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise InputError(
            str(path),
            found=f"no column {', '.join(missing)}",
            expected=f"{', '.join(wanted)}; it has {', '.join(table.column_names)}",
        )
    if not table.num_rows:
        raise InputError(str(path), found="no rows", expected="a log with at least one")
    return table


def _numbers(table: pa.Table, name: str, path: Path) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """A column as float64, null = NaN; a 32-bit 0.2 becomes 0.2. A NaN in the file is refused."""
    column = table[name].combine_chunks()
    kind = column.type
    if pa.types.is_null(kind):  # a column without a single value
        return np.full(len(column), np.nan)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(f"{path}, column {name}", found=f"values of type {kind}", expected="numbers")
    values = column.to_numpy(zero_copy_only=False)
    if pa.types.is_float32(kind) and name == "depth":
        values = np.array([float(str(value)) for value in values])
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    out = np.where(known, values, np.nan).astype(np.float64)
    bad = known & ~np.isfinite(out)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{path}, column {name}, row {row + 1}", found=float(out[row]), expected="a finite number, or null for none"
        )
    return out
