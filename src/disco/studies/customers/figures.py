"""Figures per seed, and what they come to over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one shop: a cell of a table."""

    table: str
    row: str
    column: str
    seed: int
    value: float


@dataclass(frozen=True, slots=True)
class Cell:
    """The mean over seeds with a 95 % interval for it (Student's t; none for a single seed)."""

    mean: float
    half_width: float | None
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Cell":
        """
        >>> Cell.of([1.0, 2.0, 3.0]).half_width.__round__(3)
        2.484
        """
        numbers = np.asarray(values, np.float64)
        if numbers.size < 2:
            return cls(float(numbers.mean()), None, tuple(values))
        error = float(numbers.std(ddof=1)) / np.sqrt(numbers.size)
        return cls(float(numbers.mean()), float(t.ppf(0.975, numbers.size - 1) * error), tuple(values))


def tabulate(figures: Iterable[Figure]) -> dict[str, dict[str, dict[str, Cell]]]:
    """Tables of rows of columns of cells, in the order of first appearance."""
    grouped: dict[str, dict[str, dict[str, list[float]]]] = {}
    for figure in figures:
        row = grouped.setdefault(figure.table, {}).setdefault(figure.row, {})
        row.setdefault(figure.column, []).append(figure.value)
    return {
        table: {row: {name: Cell.of(values) for name, values in columns.items()} for row, columns in rows.items()}
        for table, rows in grouped.items()
    }


def difference(
    figures: Iterable[Figure], *, table: str, minus: tuple[str, str], column: str, name: str
) -> list[Figure]:
    """Row minus row, shop by shop: what is common to a shop cancels."""
    kept = [f for f in figures if f.table == table and f.column == column]
    first, second = ({f.seed: f.value for f in kept if f.row == row} for row in minus)
    return [Figure(table, name, column, seed, first[seed] - second[seed]) for seed in first if seed in second]
