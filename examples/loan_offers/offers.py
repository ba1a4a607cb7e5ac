"""A campaign with a randomised price, read from a file: who was mailed which depth, and what came of it.

The price was dealt at random only *within* risk band and wave, so these strata go wherever the depth goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.records.arrays import Flags, Ids, Integers, Matrix, Vector
from disco.records.depths import read_depth
from disco.records.errors import FileFormatError, InputError
from disco.records.identity import read_ids

# Known before the letter went out. `applied`, `tookup`, `loansize` and `grossinterest` came after it: never features.
# Province and branch are left out: with so few takers, most of their values would be seen once or never.
FEATURES = (
    *("grossincome", "dependants", "dormancy", "itcscore", "itczero", "appscore", "lastterm", "lastamount"),
    *("trcount", "female", "married", "edhi", "age", "rural"),
)
NEEDED = ("customer_id", "wave", "risk", "depth", "tookup", "loansize", *FEATURES)
Labels: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.str_]]"
LEAST_CELL_ROWS = 20  # letters of one stratum at one level: fewer say nothing about a response of some per cent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offers:
    """One row per letter. `features` (n, p): NaN = unknown · loan (n,): 0 without take-up · stratum (n,): risk × wave ·
    level (n,): which range of depths the letter fell into · level_depths (K,): the mean depth of each level ·
    shares (strata, K): how often a level was dealt in a stratum, which is its propensity there.
    """

    ids: Ids
    wave: Labels
    risk: Labels
    features: Matrix
    feature_names: tuple[str, ...]
    depth: Vector
    took: Flags
    loan: Vector
    stratum: Integers
    stratum_names: tuple[str, ...]
    level: Integers
    level_depths: tuple[float, ...]
    level_names: tuple[str, ...]
    shares: Matrix

    def __len__(self) -> int:
        return self.depth.size

    @property
    def waves(self) -> tuple[str, ...]:
        return tuple(np.unique(self.wave).tolist())

    @property
    def propensity(self) -> Vector:
        """(n,) the probability with which each letter got the level it got."""
        return self.shares[self.stratum, self.level]


def read_offers(path: Path, *, levels: int) -> Offers:
    """The offers of a Parquet file, checked."""
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet file with one row per letter")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(str(path), found=str(error).splitlines()[0], expected="a Parquet file") from None
    return offers_of(table, where=str(path), levels=levels)


def offers_of(table: pa.Table, *, where: str, levels: int) -> Offers:
    """Check a table and cut its depths into at most `levels` levels that every stratum has seen."""
    missing = [name for name in NEEDED if name not in table.column_names]
    if missing:
        there = ", ".join(table.column_names)
        raise InputError(where, found=f"no column {', '.join(missing)}", expected=f"it beside {there}")
    if not table.num_rows:
        raise InputError(where, found="no rows", expected="one row per letter")

    def column(name: str, *, needed: bool = True) -> Vector:
        return _numbers(table[name], where=f"{where}, column {name}", needed=needed)

    depth, took, loan = column("depth"), column("tookup"), column("loansize")
    for row in np.flatnonzero((depth < 0) | (depth >= 1))[:1]:
        read_depth(float(depth[row]), where=f"{where}, column depth, row {row + 1}")
    _check_outcomes(took, loan, where=where)
    wave, risk = (_labels(table[name], where=f"{where}, column {name}") for name in ("wave", "risk"))
    ids = read_ids(table["customer_id"], where=f"{where}, column customer_id")
    _check_once_per_wave(ids, wave, where=where)
    stratum, names = _strata(wave, risk, where=where)
    _check_variation(depth, wave, what="wave", where=where)
    _check_variation(depth, np.asarray(names)[stratum], what="stratum", where=where)
    level = _levels(depth, stratum, names, most=levels, where=where)
    dealt = np.bincount(stratum * (level.max() + 1) + level).reshape(len(names), -1)
    features, feature_names = _features([column(name, needed=False) for name in FEATURES], risk)
    ranges = [(depth[level == place].min(), depth[level == place].max()) for place in range(level.max() + 1)]
    return Offers(
        ids=ids,
        wave=wave,
        risk=risk,
        features=features,
        feature_names=feature_names,
        depth=depth,
        took=took == 1,
        loan=loan,
        stratum=stratum,
        stratum_names=names,
        level=level,
        level_depths=tuple(float(depth[level == place].mean()) for place in range(level.max() + 1)),
        level_names=tuple(f"{100 * low:.0f} to {100 * high:.0f} % off" for low, high in ranges),
        shares=dealt / dealt.sum(axis=1, keepdims=True),
    )


def _features(columns: Sequence[Vector], risk: Labels) -> tuple[Matrix, tuple[str, ...]]:
    """The known columns, an age of 0 read as unknown, and one indicator per risk band but the last."""
    known = [
        np.where(values > 0, values, np.nan) if name == "age" else values
        for name, values in zip(FEATURES, columns, strict=True)
    ]
    bands = np.unique(risk)[:-1]
    return np.column_stack([*known, *((risk == band) * 1.0 for band in bands)]), (
        *FEATURES,
        *(f"risk {band}" for band in bands),
    )


def _numbers(column: pa.ChunkedArray, *, where: str, needed: bool) -> Vector:
    """A column as float64, null = NaN. Infinity is refused everywhere, an unknown value where it is `needed`."""
    kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise InputError(where, found=f"values of type {kind}", expected="numbers")
    values = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    bad = ~np.isfinite(values) if needed else np.isinf(values)
    if bad.any():
        row = int(bad.argmax())
        expected = "a number in every row" if needed else "a finite number, or null where it is unknown"
        fix = f"Mend or leave out such rows; there {'is 1' if bad.sum() == 1 else f'are {bad.sum():,}'}."
        raise InputError(f"{where}, row {row + 1}", found=f"{values[row]:g}", expected=expected, fix=fix)
    return values


def _labels(column: pa.ChunkedArray, *, where: str) -> Labels:
    labels = column.to_pylist()
    unknown = [row for row, label in enumerate(labels) if label is None or label != label or label == ""]
    if unknown:
        raise InputError(f"{where}, row {unknown[0] + 1}", found="no value", expected="a value in every row")
    return np.array([f"{label:g}" if isinstance(label, float) else str(label) for label in labels])


def _check_outcomes(took: Vector, loan: Vector, *, where: str) -> None:
    for bad, found, expected in (
        (~np.isin(took, (0, 1)), "a tookup that is neither", "0 or 1"),
        (loan < 0, "a negative loansize", "0 without take-up, else the loan"),
        ((took == 1) & (loan <= 0), "take-up without a loansize", "the loan of everybody who took one up"),
        ((took == 0) & (loan > 0), "a loansize without take-up", "0 where nothing was taken up"),
    ):
        if bad.any():
            raise InputError(f"{where}, row {int(bad.argmax()) + 1}", found=found, expected=expected)
    if took.sum() < 2:
        raise InputError(
            f"{where}, column tookup", found=f"{took.sum():g} takers", expected="at least two to learn from"
        )


def _check_once_per_wave(ids: Ids, wave: Labels, *, where: str) -> None:
    letters = np.unique(np.array([f"{name}\x1f{key}" for name, key in zip(wave, ids, strict=True)])).size
    if letters < wave.size:
        found = f"{wave.size - letters:,} letters more than customers in a wave"
        raise InputError(f"{where}, column customer_id", found=found, expected="one letter per customer and wave")


def _strata(wave: Labels, risk: Labels, *, where: str) -> tuple[Integers, tuple[str, ...]]:
    """Risk × wave; a band that is missing from a wave is an empty stratum, in which nothing can be judged."""
    waves, which_wave = np.unique(wave, return_inverse=True)
    bands, which_band = np.unique(risk, return_inverse=True)
    stratum = which_wave * bands.size + which_band
    names = tuple(f"wave {name}, {band}" for name in waves for band in bands)
    rows = np.bincount(stratum, minlength=len(names))
    if not rows.all():
        raise InputError(
            f"{where}, stratum {names[int(rows.argmin())]}",
            found="no rows",
            expected="every risk band in every wave",
            fix="Leave out the band or the wave: a policy cannot be judged on customers it never met.",
        )
    return stratum, names


def _check_variation(depth: Vector, label: Labels, *, what: str, where: str) -> None:
    for name in np.unique(label):
        depths = np.unique(depth[label == name])
        if depths.size < 2:
            raise InputError(
                f"{where}, {name if what == 'stratum' else f'{what} {name}'}",
                found=f"one depth, {depths[0]:g}, for everybody",
                expected="depths that vary",
                fix="Leave it out: without variation in depth there is nothing to compare.",
            )


def _levels(depth: Vector, stratum: Integers, names: Sequence[str], *, most: int, where: str) -> Integers:
    """Ranges of depth with about equally many letters; fewer of them until every stratum has seen each one."""
    thinnest = ""
    for count in range(most, 1, -1):
        edges = np.unique(np.quantile(depth, np.arange(1, count) / count))
        level = np.searchsorted(edges[edges > depth.min()], depth, side="right")
        cells = np.bincount(stratum * (level.max() + 1) + level, minlength=len(names) * (level.max() + 1))
        if cells.min() >= LEAST_CELL_ROWS and level.max() > 0:
            return level
        place, at = divmod(int(cells.argmin()), level.max() + 1)
        thinnest = f"{names[place]}: {cells.min()} letters at level {at + 1} of {level.max() + 1}"
    raise InputError(
        f"{where}, stratum {thinnest}",
        expected=f"at least {LEAST_CELL_ROWS} letters of every stratum at shallow and at deep offers",
        fix="Leave out the stratum: what was hardly ever tried cannot be judged.",
    )
