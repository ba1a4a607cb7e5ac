"""A day's snapshot: where each feature stands, on average over the shop's customers, so that contexts can be centred.

Campaigns move the features themselves: a month with two campaigns doubles everybody's used codes. A network that took
this for a change of the customers would expect too much of all of them. So `ContextNetwork.transform` subtracts the
day's mean of every scaled input and adds that of the day it was trained on.

A snapshot belongs to no network, so a network trained later can use the one that was kept with a campaign's features.
A network scales a feature as sign(x)·ln(1 + |x|·unit) with a unit of its own; the snapshot holds the sums of this
curve for fixed units, and the mean at any other unit is interpolated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from disco.features.catalogue import FEATURES, HISTORY_FEATURE, feature_names_of, with_written
from disco.features.kernel import SIZES, count_sizes, curves_of_sizes
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.errors import FileFormatError, SchemaMismatchError
from disco.records.exact_sums import GRID

SNAPSHOT_KEY = b"disco.snapshot"  # metadata of a feature table: the snapshot of all customers of the day
UNITS = tuple(2.0**power for power in range(-18, 9))  # the medians of features lie between 1/256 and 262,144
_VERSION = 1
_LN_2 = 0.6931471805599453


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Exact sums over customers with a purchase in the year; equal where every number is equal. Snapshots of parts of
    a shop add up to that of the whole.

    >>> rows = np.array([[1.0, 5.0], [2.0, np.nan], [0.0, 3.0]])
    >>> day = Snapshot.of(rows, ("orders_365d", "spend_365d"))
    >>> day.customers, day.known.tolist()
    (2, [2, 1])
    """

    feature_names: tuple[str, ...]
    customers: int
    """Customers with a purchase in the year; all of them where no feature tells."""
    known: Integers
    """(features,) of these, how many have a value."""
    sums: Integers
    """(features, units) Σ sign(x)·ln(1 + |x|·unit) over the values, each rounded to 2⁻¹⁶, in units of 2⁻¹⁶. x counts
    as the middle of its size (`kernel.count_sizes`), which makes a logarithm per size enough."""

    @classmethod
    def of(cls, rows: Matrix, feature_names: Sequence[str]) -> Snapshot:
        """Of raw features (customers, features), NaN = unknown."""
        names = tuple(feature_names)
        matrix = np.ascontiguousarray(rows, np.float64)
        known, counts = np.zeros(len(names), np.int64), np.zeros((len(names), 2, SIZES), np.int64)
        history = names.index(HISTORY_FEATURE) if HISTORY_FEATURE in names else -1
        customers = count_sizes(matrix, matrix.view(np.int64), history, known, counts)
        return cls(names, int(customers), known, (counts[:, 0] - counts[:, 1]) @ _curves())

    @classmethod
    def of_table(cls, features: pa.Table) -> Snapshot:
        """Of the features among the columns of a table."""
        from disco.features.rows import table_matrix

        names = feature_names_of(features.schema)
        return cls.of(table_matrix(features, names), names)

    def __add__(self, other: Snapshot) -> Snapshot:
        if self.feature_names != other.feature_names:
            raise SchemaMismatchError("snapshot", found="other features", expected=", ".join(self.feature_names))
        return Snapshot(
            self.feature_names, self.customers + other.customers, self.known + other.known, self.sums + other.sums
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.to_text() == other.to_text()

    def __hash__(self) -> int:
        return hash(self.to_text())

    @property
    def hash(self) -> str:
        """SHA-256 of every number."""
        return sha256(self.to_text().encode()).hexdigest()

    def means(self, feature_names: Sequence[str], unit: Vector) -> Vector:
        """(features,) mean of sign(x)·ln(1 + |x|·unit) of the named features, each at its own unit.

        NaN where the snapshot does not have a feature, or nobody has a value. Between the fixed units a cubic in
        ln(unit) through the four nearest is used. Below them the curve is a straight line through 0, above them it
        grows with ln(unit).
        """
        places = {name: place for place, name in enumerate(self.feature_names)}
        found = np.full(len(feature_names), np.nan)
        for number, name in enumerate(feature_names):
            place = places.get(name, -1)
            if place >= 0 and self.known[place]:
                points = self.sums[place] / (self.known[place] * GRID)
                found[number] = _interpolated(points, float(unit[number]))
        return found

    def to_text(self) -> str:
        """JSON; `from_text` gives back the same snapshot."""
        content = {
            "version": _VERSION,
            "customers": self.customers,
            "features": list(self.feature_names),
            "known": self.known.tolist(),
            "sums": self.sums.tolist(),
        }
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Snapshot:
        """What `to_text` wrote."""
        try:
            content = json.loads(text)
            names = content["features"]
            if content["version"] != _VERSION or not all(type(name) is str for name in names):
                raise ValueError("another version")
            known = _integers(content["known"], (len(names),))
            return cls(
                tuple(names),
                int(_integers(content["customers"], ())),
                known,
                _integers(content["sums"], (len(names), len(UNITS))),
            )
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise _damaged(str(error)[:80]) from error


@cache
def _curves() -> Integers:
    return curves_of_sizes(np.array(UNITS))


def _damaged(found: str) -> FileFormatError:
    expected = "the sums that `disco features` writes"
    return FileFormatError("snapshot of a feature table", found=found, expected=expected, fix="Build it again.")


def _integers(values: Any, shape: tuple[int, ...]) -> Integers:
    array = np.array(values)
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise ValueError(f"numbers of shape {array.shape} and type {array.dtype}")
    return array.astype(np.int64)


def _interpolated(points: Vector, unit: float) -> float:
    """The curve's mean at a unit, from its means at the fixed ones (units,)."""
    ratio, last = unit / UNITS[0], points.size - 1
    if ratio <= 1:
        return float(points[0] * ratio)
    at = _log2(ratio)
    if at >= last:
        return float(points[last] + (points[last] - points[last - 1]) * (at - last))
    first = min(max(int(at) - 1, 0), last - 3)
    total = 0.0
    for one in range(4):
        weight = 1.0
        for other in range(4):
            if other != one:
                weight *= (at - first - other) / (one - other)
        total += weight * float(points[first + one])
    return total


def _log2(x: float) -> float:
    """log₂ of x > 0 from exactly rounded operations, so that no library's last digit can move a context."""
    mantissa, exponent = math.frexp(x)  # mantissa in [½, 1)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    series = 0.0
    for odd in range(35, 0, -2):  # ln m = 2·artanh(s), |s| ≤ 1/3
        series = 1.0 / odd + s * s * series
    return exponent + 2.0 * s * series / _LN_2


#: Every campaign moves what customers have received and used, and brings last orders and visits nearer: after a code to
#: everybody on the 1st, everybody's last code is equally old. So these move away from training without any fault.
MOVED_BY_CAMPAIGNS = frozenset(
    feature.name for feature in FEATURES if feature.group == "codes" or feature.name.startswith("days_since_")
)
MOST_MOVED = 3.0  # robust sds of an input, beyond which the mean of a feature has moved too far to be centred safely
MOST_MOVED_BY_CAMPAIGNS = 6.0  # two campaigns in a month move `codes_redeemed_30d` by 2.7


def moved_beyond_reason(shift: Vector, names: Sequence[str]) -> tuple[str, ...]:
    """What to know of a day whose features stand far from where they stood in training, the largest move first."""
    limits = np.array([MOST_MOVED_BY_CAMPAIGNS if name in MOVED_BY_CAMPAIGNS else MOST_MOVED for name in names])
    far = [place for place in np.argsort(-np.abs(shift) / limits).tolist() if abs(shift[place]) > limits[place]]
    if not far:
        return ()
    first = far[0]
    more = f" ({len(far) - 1} more features have moved as far)" if len(far) > 1 else ""
    return (
        f"The mean of {names[first]} has moved by {-shift[first]:+.1f} standard deviations since the network was "
        f"trained{more}. Contexts are centred on that mean, so an error in its table would move every customer. Run "
        "`disco check`; if the change is real and here to stay, train the network again.",
    )


# ---- in the metadata of feature tables ------------------------------------------------------------------------------


def snapshot_of(schema: pa.Schema) -> Snapshot | None:
    """The snapshot that a feature table carries; None where it carries none."""
    carried = (schema.metadata or {}).get(SNAPSHOT_KEY)
    if carried is None:
        return None
    digest, _, text = carried.decode(errors="replace").partition(" ")
    if sha256(text.encode()).hexdigest() != digest:
        raise _damaged("numbers that do not match their digest")
    return Snapshot.from_text(text)


def with_snapshot(schema: pa.Schema, snapshot: Snapshot) -> pa.Schema:
    """The schema of a feature table that carries this snapshot."""
    return with_written(schema, SNAPSHOT_KEY, f"{snapshot.hash} {snapshot.to_text()}")


class SnapshotCounter:
    """Adds up the snapshot of the batches that pass through it."""

    def __init__(self, schema: pa.Schema) -> None:
        self.snapshot = Snapshot.of_table(schema.empty_table())

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, each added when it is taken."""
        for batch in batches:
            self.snapshot += Snapshot.of_table(pa.Table.from_batches([batch]))
            yield batch


def counted(features: pa.Table | ds.Dataset) -> Snapshot:
    """The snapshot of a whole feature table, a chunk of rows in memory at a time."""
    counter = SnapshotCounter(features.schema)
    rows = features if isinstance(features, ds.Dataset) else ds.dataset(features)
    for _ in counter.watch(rows.to_batches(batch_size=65536)):
        pass
    return counter.snapshot
