"""A mailing with a randomised price: who was sent which discount, and whether they took up a loan.

The discount was assigned at random only *within* risk band and wave, so these strata go wherever the discount goes.
`read_letters` reads and checks a file; `look_alike` makes one up for those who do not have the real one.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.errors import FileFormatError, InputError

# Known before the letter went out. `applied`, `tookup`, `loansize` and `grossinterest` came after it: never features.
# Province and branch are left out: with so few takers, most of their values would be seen once or never.
FEATURES = (
    *("grossincome", "dependants", "dormancy", "itcscore", "itczero", "appscore", "lastterm", "lastamount"),
    *("trcount", "female", "married", "edhi", "age", "rural"),
)
NEEDED = ("customer_id", "wave", "risk", "depth", "tookup", "loansize", *FEATURES)
LEAST_CELL_ROWS = 20  # letters of one stratum at one level: fewer say nothing about a response of some per cent


@dataclass(frozen=True, kw_only=True, eq=False)
class Letters:
    """One row per letter; n letters, p features, K levels of discount."""

    ids: np.ndarray  # (n,)
    wave: np.ndarray  # (n,) text
    risk: np.ndarray  # (n,) text
    features: np.ndarray  # (n, p) NaN where unknown
    feature_names: tuple[str, ...]
    depth: np.ndarray  # (n,) share off the standard rate
    took: np.ndarray  # (n,) whether a loan was taken up
    loan: np.ndarray  # (n,) rand, 0 without take-up
    stratum: np.ndarray  # (n,) risk band × wave, as a number
    stratum_names: tuple[str, ...]
    level: np.ndarray  # (n,) which range of depths the letter fell into
    level_depths: tuple[float, ...]  # (K,) mean depth of each level
    level_names: tuple[str, ...]
    shares: np.ndarray  # (strata, K) how often a level was assigned in a stratum: its propensity there

    def __len__(self) -> int:
        return self.depth.size

    @property
    def waves(self) -> list[str]:
        return np.unique(self.wave).tolist()


def read_letters(path: Path, *, levels: int) -> Letters:
    """The letters of a Parquet file, checked."""
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet file with one row per letter")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(str(path), found=str(error).splitlines()[0], expected="a Parquet file") from None
    return letters_of(table, where=str(path), levels=levels)


def letters_of(table: pa.Table, *, where: str, levels: int) -> Letters:
    """Check a table and cut its depths into at most `levels` levels that every stratum has seen."""
    missing = [name for name in NEEDED if name not in table.column_names]
    if missing:
        there = ", ".join(table.column_names)
        raise InputError(where, found=f"no column {', '.join(missing)}", expected=f"it beside {there}")
    if not table.num_rows:
        raise InputError(where, found="no rows", expected="one row per letter")
    columns = {
        name: _numbers(table[name], where=f"{where}, column {name}", needed=name not in FEATURES)
        for name in ("depth", "tookup", "loansize", *FEATURES)
    }
    wave, risk, ids = (
        _labels(table[name], where=f"{where}, column {name}") for name in ("wave", "risk", "customer_id")
    )
    _check_rows(columns, wave, ids, where=where)
    stratum, names = _strata(wave, risk, columns["depth"], where=where)
    depth = columns["depth"]
    level = _levels(depth, stratum, names, most=levels, where=where)
    kinds = range(level.max() + 1)
    sent = np.bincount(stratum * len(kinds) + level).reshape(len(names), -1)
    known = [np.where(columns[n] > 0, columns[n], np.nan) if n == "age" else columns[n] for n in FEATURES]
    bands = np.unique(risk)[:-1]  # one indicator per risk band but the last
    ranges = [(depth[level == kind].min(), depth[level == kind].max()) for kind in kinds]
    return Letters(
        ids=table["customer_id"].to_numpy(),
        wave=wave,
        risk=risk,
        features=np.column_stack([*known, *((risk == band) * 1.0 for band in bands)]),
        feature_names=(*FEATURES, *(f"risk {band}" for band in bands)),
        depth=depth,
        took=columns["tookup"] == 1,
        loan=columns["loansize"],
        stratum=stratum,
        stratum_names=names,
        level=level,
        level_depths=tuple(float(depth[level == kind].mean()) for kind in kinds),
        level_names=tuple(f"{100 * low:.0f} to {100 * high:.0f}% off" for low, high in ranges),
        shares=sent / sent.sum(axis=1, keepdims=True),
    )


def _numbers(column: pa.ChunkedArray, *, where: str, needed: bool) -> np.ndarray:
    """A column as float64, null = NaN. Infinity is refused everywhere, an unknown value where it is `needed`."""
    is_number = (getattr(pa.types, f"is_{kind}") for kind in ("integer", "floating", "boolean", "decimal", "null"))
    if not any(check(column.type) for check in is_number):
        raise InputError(where, found=f"values of type {column.type}", expected="numbers")
    values = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    bad = ~np.isfinite(values) if needed else np.isinf(values)
    if bad.any():
        row = int(bad.argmax())
        expected = "a number in every row" if needed else "a finite number, or null where it is unknown"
        fix = f"Correct or leave out such rows; there {'is 1' if bad.sum() == 1 else f'are {bad.sum():,}'}."
        raise InputError(f"{where}, row {row + 1}", found=f"{values[row]:g}", expected=expected, fix=fix)
    return values


def _labels(column: pa.ChunkedArray, *, where: str) -> np.ndarray:
    labels = column.to_pylist()
    unknown = [row for row, label in enumerate(labels) if label is None or label != label or label == ""]
    if unknown:
        raise InputError(f"{where}, row {unknown[0] + 1}", found="no value", expected="a value in every row")
    return np.array([f"{label:g}" if isinstance(label, float) else str(label) for label in labels])


def _check_rows(columns: dict[str, np.ndarray], wave: np.ndarray, ids: np.ndarray, *, where: str) -> None:
    depth, took, loan = (columns[name] for name in ("depth", "tookup", "loansize"))
    for bad, name, found, expected in (
        ((depth < 0) | (depth >= 1), "depth", None, "a share from 0 to below 1, such as 0.2"),
        (~np.isin(took, (0, 1)), "tookup", "a tookup that is neither", "0 or 1"),
        (loan < 0, "loansize", "a negative loansize", "0 without take-up, else the loan"),
        ((took == 1) & (loan <= 0), "loansize", "take-up without a loansize", "the loan of everybody who took one up"),
        ((took == 0) & (loan > 0), "loansize", "a loansize without take-up", "0 where nothing was taken up"),
    ):
        if bad.any():
            row = int(bad.argmax())
            place = f"{where}, column {name}, row {row + 1}"
            raise InputError(place, found=found or f"{columns[name][row]:g}", expected=expected)
    if took.sum() < 2:
        raise InputError(
            f"{where}, column tookup", found=f"{took.sum():g} takers", expected="at least two to learn from"
        )
    letters = np.unique(np.char.add(np.char.add(wave, "\x1f"), ids)).size
    if letters < wave.size:
        found = f"{wave.size - letters:,} letters more than customers in a wave"
        raise InputError(f"{where}, column customer_id", found=found, expected="one letter per customer and wave")


def _strata(wave: np.ndarray, risk: np.ndarray, depth: np.ndarray, *, where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Risk × wave. A band missing from a wave, and a wave or stratum with one depth, cannot be judged."""
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
    groups = {f"wave {name}": wave == name for name in waves}
    groups |= {name: stratum == place for place, name in enumerate(names)}
    for name, members in groups.items():
        depths = np.unique(depth[members])
        if depths.size < 2:
            raise InputError(
                f"{where}, {name}",
                found=f"one depth, {depths[0]:g}, for everybody",
                expected="depths that vary",
                fix="Leave it out: without variation in depth there is nothing to compare.",
            )
    return stratum, names


def _levels(depth: np.ndarray, stratum: np.ndarray, names: tuple[str, ...], *, most: int, where: str) -> np.ndarray:
    """Ranges of depth with about equally many letters; fewer of them until every stratum has seen each one."""
    thinnest = ""
    for count in range(most, 1, -1):
        edges = np.unique(np.quantile(depth, np.arange(1, count) / count))
        level = np.searchsorted(edges[edges > depth.min()], depth, side="right")
        kinds = level.max() + 1
        cells = np.bincount(stratum * kinds + level, minlength=len(names) * kinds)
        if cells.min() >= LEAST_CELL_ROWS and kinds > 1:
            return level
        place, at = divmod(int(cells.argmin()), kinds)
        thinnest = f"{names[place]}: {cells.min()} letters at level {at + 1} of {kinds}"
    raise InputError(
        f"{where}, stratum {thinnest}",
        expected=f"at least {LEAST_CELL_ROWS} letters of every stratum at shallow and at deep offers",
        fix="Leave out the stratum: what was hardly ever tried cannot be judged.",
    )


def look_alike(*, rows: int = 16_000, waves: int = 2, seed: int = 7) -> pa.Table:
    """A generated campaign with the columns and oddities of the real one; the first wave is the smallest.

    Everything here is made up. Only its shape is borrowed: three risk bands with their own standard rates, offers on a
    near-continuous scale assigned at random within band and wave, few takers, incomes unknown in the first wave, ages
    of 0.
    """
    rng = np.random.default_rng(seed)
    share = np.arange(1, waves + 1) / np.arange(1, waves + 1).sum()
    wave = np.sort(rng.choice(np.arange(1, waves + 1), size=rows, p=share))
    band = rng.choice(3, size=rows, p=(0.72, 0.12, 0.16))
    standard = np.array([11.75, 9.75, 7.75])[band]  # per cent a month
    # better bands have a smaller range below their standard rate, so deep offers went to those who take up least
    offer = np.round((standard - (standard - 3.25) * rng.beta(0.8, 1.4, rows)) * 4) / 4
    depth = 1 - offer / standard
    dormancy, appscore = rng.integers(0, 25, rows), rng.normal(29, 9, rows).clip(0).round()
    last_amount = np.exp(rng.normal(6.7, 0.7, rows)).round(-1).clip(100)
    wish = np.array([-3.0, -2.0, -1.8])[band] + 0.45 * depth - 0.06 * (dormancy - 10)
    took = rng.random(rows) < 1 / (1 + np.exp(-wish))
    size = np.exp(2.4 + 0.65 * np.log(last_amount) + 0.15 * depth + rng.normal(0, 0.6, rows)).round(-1).clip(100)
    unknown = (wave == 1) & (rng.random(rows) < 0.05)
    columns = {
        "customer_id": np.arange(1, rows + 1),
        "wave": wave,
        "risk": np.array(["HIGH", "MEDIUM", "LOW"])[band],
        "grossincome": np.where(wave == 1, np.nan, np.exp(rng.normal(1.1, 0.8, rows))),
        "dependants": np.where(unknown, np.nan, rng.poisson(1.6, rows).clip(0, 10)),
        "dormancy": dormancy,
        "itcscore": np.where(rng.random(rows) < 0.2, 0, rng.normal(630, 70, rows).round()),
        "itczero": np.zeros(rows, int),
        "appscore": appscore,
        "lastterm": rng.choice([1, 4, 6, 12], size=rows, p=(0.04, 0.88, 0.06, 0.02)),
        "lastamount": last_amount,
        "trcount": np.where(unknown, np.nan, 1 + rng.poisson(4, rows)),
        "female": rng.integers(0, 2, rows),
        "married": np.where(unknown, np.nan, rng.integers(0, 2, rows)),
        "edhi": rng.integers(0, 2, rows),
        "age": np.where(unknown, 0.0, rng.normal(42, 12, rows).clip(18, 90)),
        "rural": (rng.random(rows) < 0.24).astype(int),
        "province": np.full(rows, "Nowhere"),
        "branchuse": np.array(["A", "B", "C"])[rng.integers(0, 3, rows)],
        "std_rate": standard,
        "offer4": offer,
        "depth": depth,
        "applied": (took | (rng.random(rows) < 0.02)).astype(int),
        "tookup": took.astype(int),
        "loansize": np.where(took, size, 0.0).astype(int),
        "grossinterest": np.where(took, size * offer / 100 * 4, 0.0),
    }
    columns["itczero"] = (columns["itcscore"] == 0).astype(int)
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
