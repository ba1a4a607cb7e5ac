"""`disco.ab`: the read-out of a test of one's own, from Python; `disco ab` is the same from a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.records.frames import as_arrow

if TYPE_CHECKING:
    from disco.operations.experiment import ExperimentResult


def ab(
    data: Any,
    *,
    arm: str,
    metrics: str | Sequence[str],
    control: str | None = None,
    before: str | Sequence[str] = (),
    shares: Mapping[str, float] | None = None,
    looks: int = 1,
    level: float = 0.95,
) -> ExperimentResult:
    """Compare every arm of a test with control; one row per customer assigned.

    data: a Parquet or CSV file, an Arrow table or a data frame of any library. arm: the column with the name of each
    customer's arm. metrics: columns of figures (0 and 1: a rate), or `numerator/denominator` for a ratio of two sums.
    control: the arm to compare the others with; None: the one called control. before: columns known before the test, to
    reduce noise. shares: planned share of each arm; None: equal ones. looks: how many times the test is looked at in
    all. level: of all intervals, which hold at each of the looks.

    >>> import pyarrow as pa
    >>> arms, bought = ["new"] * 1000 + ["control"] * 1000, [1] * 300 + [0] * 700 + [1] * 200 + [0] * 800
    >>> found = ab(pa.table({"group": arms, "bought": bought}), arm="group", metrics="bought").differences[0]
    >>> found.verdict.value, round(found.difference.value, 3)
    ('higher', 0.1)
    """
    from disco.adapters.tables.single_files import read_experiment_file, read_experiment_table
    from disco.operations.experiment import parse_metric, read_experiment

    asked = [metrics] if isinstance(metrics, str) else list(metrics)
    known = [before] if isinstance(before, str) else list(dict.fromkeys(before))
    figures = [name for text in asked for name in parse_metric(text) if name is not None]
    if isinstance(data, str | Path):
        source = str(data)
        table = read_experiment_file(Path(data), arm=arm, figures=[*figures, *known])
    else:
        source = "the table"
        rows = as_arrow(data, where="data", besides="a file, ")
        table = read_experiment_table(rows, arm=arm, figures=[*figures, *known], name=source)
    return read_experiment(
        table,
        arm=arm,
        metrics=asked,
        control=control,
        before=known,
        shares=shares,
        looks=looks,
        level=level,
        source=source,
    )
