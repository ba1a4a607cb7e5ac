"""Tables of values or contexts decided without a shop: `disco allocate` and `disco.decide_table`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pyarrow.types as kinds

from disco.allocation import Allocation, Segments, Status
from disco.allocation.allocate import TableAllocation, allocate_table, solve_problem
from disco.allocation.highs import solve_with_highs
from disco.allocation.problem import read_problem
from disco.allocation.result import Conflict
from disco.allocation.table import COST, ID, depth_columns
from disco.campaign import Belief, expected_costs, values_of
from disco.policy import Policy, require_policy
from disco.records.arrays import Flags, Integers, Matrix
from disco.records.decisions import Audience, Offer
from disco.records.depths import depth_label
from disco.records.errors import FileFormatError, InputError, LimitError, Problem, TableError
from disco.records.files import written_whole
from disco.records.identity import buckets_of, id_column, read_ids
from disco.records.manifest import check_folder
from disco.records.ports import ChunkedTable, Engine, TableEngine
from disco.records.result import Result

# ---- values and costs in files ----
#
# The solver alone, from files to files: values and limits in, one depth or none per customer out.


_KEYS = {"caps", "floors", "budget", "segments"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AllocationSummary(Result):
    """How a solve ended; also the content of `--summary FILE`."""

    status: str
    """OPTIMAL, WITHIN_GAP or INFEASIBLE."""
    value: float | None
    """The total value of the depths given; null when infeasible."""
    bound: float | None
    """No allocation under these limits is worth more than this."""
    gap: float | None
    """(bound − value) relative to the bound; 0 is proved optimal."""
    counts: Mapping[str, int]
    """Customers per depth."""
    prices: Mapping[str, float]
    """Shadow price of one more code, per depth, in units of value; `budget`: of one more unit of budget."""
    conflicts: tuple[Conflict, ...]
    """Where no allocation meets all limits: which ones, and the smallest change that would do."""
    seconds: float
    """Time of the solve and of its independent check."""
    segment_prices: Mapping[str, Mapping[str, float]] | None = None
    """With segments: shadow price per segment and depth."""
    cost: float | None = None
    """With a budget: what the depths given cost."""

    @classmethod
    def of(cls, found: Allocation, depths: tuple[float, ...]) -> AllocationSummary:
        labels = [depth_label(depth) for depth in depths]
        prices: dict[str, float] = dict(zip(labels, found.prices.tolist(), strict=True))
        if found.budget_price is not None:
            prices["budget"] = found.budget_price
        segments = None
        if found.segment_prices is not None:
            segments = {
                str(label): dict(zip(labels, row, strict=True))
                for label, row in zip(found.segment_labels, found.segment_prices.tolist(), strict=True)
            }
        return cls(
            status=found.status.name,
            value=_finite(found.value),
            bound=_finite(found.bound),
            gap=_finite(found.gap),
            counts=dict(zip(labels, found.counts.tolist(), strict=True)),
            prices=prices,
            conflicts=tuple(found.conflicts),
            seconds=found.seconds + found.check_seconds,
            segment_prices=segments,
            cost=found.cost,
        )

    @property
    def feasible(self) -> bool:
        return self.status != Status.INFEASIBLE.name


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def allocate_files(
    values: Path,
    *,
    limits: object,
    limits_file: Path,
    out: Path,
    costs: Path | None = None,
    summary: Path | None = None,
    solver: str = "exact",
    engine: Engine | None = None,
    cluster: TableEngine | None = None,
) -> AllocationSummary:
    """Solve the allocation of a file of values; writes `out` (customer_id, depth, value) and `summary`.

    values: Parquet or CSV with customer_id and one column per depth, null or empty where a customer may not get it.
    `out` is CSV where its name ends in .csv. limits: the parsed content of `limits_file`. costs: of the shape of
    `values`, what the budget pays. Where no allocation meets all limits, `out` is not written. cluster: an engine that
    holds the tables in chunks. With it, or where `values` is a folder of files, `out` is a folder of Parquet files with
    a manifest.
    """
    wanted = _read_limits(limits, limits_file)
    if cluster is not None or values.is_dir():
        holder = engine if cluster is None else cluster
        if not isinstance(holder, TableEngine) or solver == "highs":
            raise InputError(str(values), found="tables in chunks", expected="the solver exact, and an engine for them")
        return _allocate_in_chunks(
            holder, values, limits=wanted, limits_file=limits_file, out=out, costs=costs, summary=summary
        )
    table, depths, matrix, eligible = _read_matrix(values)
    with _naming_files(values=values, limits=limits_file):
        cost_matrix = None
        if costs is not None:
            read_ids(table.column("customer_id"))  # a null is said of VALUES, before it is looked for among the costs
            cost_matrix = _read_costs(costs, table, depths, eligible)
        problem = read_problem(
            matrix, wanted.get("caps"), depths=depths, floors=wanted.get("floors"),
            segments=_segments(wanted.get("segments"), table, values), costs=cost_matrix, budget=wanted.get("budget"),
            eligible=eligible, ids=table.column("customer_id"),
        )  # fmt: skip
    found = solve_with_highs(problem) if solver == "highs" else solve_problem(problem, engine=engine)
    said = AllocationSummary.of(found, depths)
    if not said.feasible:
        if summary is not None:
            _write_summary(summary, said)
        return said
    none = found.choice < 0
    column = np.maximum(found.choice, 0)
    chosen = pa.table(
        {
            "customer_id": table.column("customer_id"),
            "depth": pa.array(np.asarray(depths)[column], mask=none),
            "value": pa.array(np.where(none, 0.0, matrix[np.arange(column.size), column])),
        }
    )
    with written_whole(out) as partial:
        if out.suffix.lower() == ".csv":
            from disco.operations.export import csv_safe  # it imports the store

            pacsv.write_csv(csv_safe(chosen), partial)
        else:
            pq.write_table(chosen, partial)
        if summary is not None:
            _write_summary(summary, said)
    return said


@contextmanager
def _naming_files(*, values: Path, limits: Path) -> Iterator[None]:
    """What is wrong with a limit or a customer's id is said with the file that has it."""
    try:
        yield
    except LimitError as error:
        raise LimitError(f"{limits}, {error.what}", found=error.found, expected=error.expected, fix=error.fix) from None
    except InputError as error:
        if error.what != "customer_id":
            raise
        where = f"{values}, column {error.what}"
        raise InputError(where, found=error.found, expected=error.expected, fix=error.fix) from None


def _allocate_in_chunks(
    engine: TableEngine,
    values: Path,
    *,
    limits: Mapping[str, Any],
    limits_file: Path,
    out: Path,
    costs: Path | None,
    summary: Path | None,
) -> AllocationSummary:
    """`allocate_files` for tables that an engine holds in chunks; `out` is a folder."""
    check_folder(out)
    with (
        _naming_files(values=values, limits=limits_file),
        allocated_in_chunks(engine, values, limits=limits, costs=costs) as found,
    ):
        assert found.proof.depths is not None  # for the type checker: columns are named by depth
        said = AllocationSummary.of(found.proof, found.proof.depths)
        if found.decisions is not None:
            found.decisions.write(out)
    if summary is not None:
        _write_summary(summary, said)
    return said


def _write_summary(path: Path, said: AllocationSummary) -> None:
    with written_whole(path) as partial:
        partial.write_text(said.to_json(indent=2) + "\n", encoding="utf-8")


def _read_limits(limits: Any, path: Path) -> dict[str, Any]:
    if not isinstance(limits, dict) or not set(limits) <= _KEYS:
        known = ", ".join(sorted(_KEYS))
        found = sorted(str(key) for key in set(limits) - _KEYS) if isinstance(limits, dict) else type(limits).__name__
        raise LimitError(str(path), found=found, expected=f"a mapping with {known}")
    for key in ("caps", "floors", "segments"):
        if limits.get(key) is not None and not isinstance(limits[key], dict):
            raise LimitError(f"{path}, {key}", found=repr(limits[key]), expected="a mapping")
    return {**limits, "caps": limits.get("caps") or {}}


def _open(path: Path) -> pa.Table:
    if not path.is_file():
        named = str(path).startswith("table:")
        fix = "Tables of a catalogue are read by Spark: add --engine spark." if named else None
        raise InputError(str(path), found="no such file", expected="a Parquet or CSV file", fix=fix)
    is_csv = path.suffix.lower() == ".csv"
    try:
        table = _read_csv(path) if is_csv else pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        expected = f"a {'CSV' if is_csv else 'Parquet'} file"
        raise FileFormatError(str(path), found=" ".join(str(error).split()), expected=expected) from None
    if "customer_id" not in table.column_names:
        raise InputError(str(path), found=", ".join(table.column_names), expected="a column customer_id")
    return table


def _read_csv(path: Path) -> pa.Table:
    """A CSV file with commas: figures where columns are named by numbers, text elsewhere; an empty cell is null."""
    with pacsv.open_csv(path) as first:
        names = first.schema.names
    types = {name: pa.float64() if _is_number(name) else pa.string() for name in names}
    return pacsv.read_csv(path, convert_options=pacsv.ConvertOptions(column_types=types, null_values=[""]))


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _read_matrix(path: Path) -> tuple[pa.Table, tuple[float, ...], Matrix, Flags | None]:
    """The table, its depths, values (customers, depths) depth-major with 0 for nulls, and eligibility (None: all)."""
    table = _open(path)
    columns = depth_columns(table.schema, where=str(path))
    if table.num_rows == 0:
        raise InputError(str(path), found="an empty table", expected="at least one customer")
    depths = tuple(columns)
    narrow = all(str(table.schema.field(name).type) == "float" for name in columns.values())
    matrix = np.empty((len(depths), table.num_rows), np.float32 if narrow else np.float64)
    eligible = None
    problems: list[Problem] = []
    for row, name in enumerate(columns.values()):
        column = table.column(name)
        if kinds.is_null(column.type):  # what pandas writes where nobody has a value
            column = column.cast(pa.float64())
        if column.null_count:
            if eligible is None:
                eligible = np.ones(matrix.shape, np.bool_)
            eligible[row] = pc.is_valid(column).to_numpy()
            column = pc.fill_null(column, 0)
        matrix[row] = column.to_numpy()
        bad = np.flatnonzero(~np.isfinite(matrix[row]))
        if bad.size:
            fix = "Leave the cell null where a customer may not get this depth."
            text = str(float(matrix[row, bad[0]]))
            problems.append(
                Problem("not finite", str(path), name, text, "a finite number", fix, int(bad[0]) + 1, bad.size)
            )
    if problems:
        raise TableError(f"{path} cannot be used:", problems)
    return table, depths, matrix.T, None if eligible is None else eligible.T


def _read_costs(path: Path, table: pa.Table, depths: tuple[float, ...], eligible: Flags | None) -> Matrix:
    """Costs in the order of the depths of VALUES; a null is refused unless the customer may not get that depth."""
    other, columns, matrix, known = _read_matrix(path)
    if set(columns) != set(depths):
        raise InputError(
            str(path),
            found=f"depths {', '.join(map(str, columns))}",
            expected=f"depths {', '.join(map(str, depths))}, as in VALUES",
        )
    place = place_of_customers(table.column("customer_id"), other.column("customer_id"), where=str(path))
    matrix, known = matrix[place], None if known is None else known[place]
    order = [columns.index(depth) for depth in depths]
    if known is not None:
        missing = ~known[:, order] if eligible is None else ~known[:, order] & eligible
        if missing.any():
            row, column = (int(number) for number in np.argwhere(missing)[0])
            raise InputError(
                f"{path}, column {depths[column]}, row {int(place[row]) + 1}",
                found="a null",
                expected="a cost, because VALUES lets this customer have this depth",
            )
    if matrix.min() < 0:
        row, column = (int(number) for number in np.unravel_index(int(matrix.argmin()), matrix.shape))
        raise InputError(
            f"{path}, column {columns[column]}, row {int(place[row]) + 1}",
            found=float(matrix[row, column]),
            expected="a cost of at least 0",
        )
    return np.asfortranarray(matrix[:, order])


def _segments(given: Any, table: pa.Table, path: Path) -> Segments | None:
    if not given:
        return None
    if len(given) > 1:
        raise LimitError(
            "segments",
            found=f"{len(given)} columns ({', '.join(map(str, given))})",
            expected="one column",
            fix="Segments must be one column: combine these into one.",
        )
    (column, limits), *_ = given.items()
    if column not in table.column_names:
        raise LimitError("segments", found=f"column {column!r}", expected=f"a column of {path}")
    if not isinstance(limits, dict):
        raise LimitError(f"segments, {column}", found=repr(limits), expected="{value: {caps: …, floors: …}}")
    return Segments(table.column(column).to_pylist(), limits)


# ---- values in chunks ----
#
# The solver alone, for tables that an engine holds: Parquet larger than memory, or a cluster's.


_BUCKETS = 256  # values and costs are brought together in as many parts, each of which has to fit into memory


@dataclass(frozen=True, slots=True)
class _WithBucket:
    """The chunk function that says which customers belong together."""

    columns: tuple[str, ...]
    buckets: int
    where: str
    """The column of ids, for errors."""

    def __call__(self, chunk: pa.Table) -> pa.Table:
        numbers = buckets_of(chunk[ID], self.buckets, where=self.where)
        return chunk.select(list(self.columns)).append_column("bucket", numbers)


@dataclass(frozen=True, slots=True)
class _WithCosts:
    """Puts the costs of the customers of a bucket beside their values."""

    costs: tuple[str, ...]
    where: str

    def __call__(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        values, costs = tables["values"], tables["costs"]
        own = costs.take(pa.array(place_of_customers(values[ID], costs[ID], where=self.where)))
        for name in self.costs:
            values = values.append_column(f"{COST}{name}", own[name])
        return values


def place_of_customers(wanted: pa.ChunkedArray, there: pa.ChunkedArray, *, where: str) -> Integers:
    """(customers,) the row of each wanted customer among those there; InputError where they are not the same."""
    ids, others = id_column(wanted, where=ID), id_column(there, where=f"{where}, column {ID}")
    if others.type != ids.type:  # 17 and "17" are one customer
        ids, others = ids.cast(pa.large_string()), others.cast(pa.large_string())
    place = pc.index_in(ids, others)
    if place.null_count or len(ids) != len(others):
        found = _difference(ids, others)
        raise InputError(where, found=found, expected="one row for each customer of VALUES")
    rows: Integers = place.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows


def _difference(wanted: pa.Array, there: pa.Array) -> str:
    """How the customers of the costs differ from those of the values."""
    missing = wanted.filter(pc.is_null(pc.index_in(wanted, there)))
    if len(missing):
        return f"no row of customer {missing[0].as_py()}"
    strangers = there.filter(pc.is_null(pc.index_in(there, wanted)))
    if len(strangers):
        return f"customer {strangers[0].as_py()}, whom VALUES has not"
    for ids, found in ((there, "twice"), (wanted, "once, but twice in VALUES")):
        counts = pc.value_counts(ids)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(repeated):
            return f"customer {repeated[0]['values'].as_py()} {found}"
    return f"{len(there):,} rows for {len(wanted):,}"


@contextmanager
def _with_costs(engine: TableEngine, values: ChunkedTable, costs: Path) -> Iterator[ChunkedTable]:
    """The values with the costs of each customer beside them, brought together once for all passes."""
    priced = engine.table(costs)
    if ID not in priced.schema.names:
        raise InputError(str(costs), found=", ".join(priced.schema.names), expected=f"a column {ID}")
    wanted, named = depth_columns(values.schema, where="VALUES"), depth_columns(priced.schema, where=str(costs))
    if set(wanted) != set(named):
        found, expected = ", ".join(map(str, named)), ", ".join(map(str, wanted))
        raise InputError(str(costs), found=f"depths {found}", expected=f"depths {expected}, as in VALUES")
    schema = values.schema
    for name in named.values():
        schema = schema.append(pa.field(f"{COST}{name}", priced.schema.field(name).type))
    divided = {
        name: table.transform(
            _WithBucket(columns, _BUCKETS, where),
            pa.schema([table.schema.field(column) for column in columns]).append(pa.field("bucket", pa.int32())),
        )
        for name, table, columns, where in (
            ("values", values, tuple(values.schema.names), ID),
            ("costs", priced, (ID, *named.values()), f"{costs}, column {ID}"),
        )
    }
    with (
        engine.by_bucket(divided, _WithCosts(tuple(named.values()), str(costs)), schema) as together,
        together.kept() as kept,  # every pass reads it
    ):
        yield kept


@contextmanager
def allocated_in_chunks(
    engine: TableEngine, values: Any, *, limits: Mapping[str, Any], costs: Path | None = None
) -> Iterator[TableAllocation]:
    """The allocation of a table that the engine can open; its decisions can be used until the end of the block.

    limits: caps, floors, budget and segments, as `allocate_table` takes them. costs: a table of the shape of `values`;
    None: columns of `values` named cost_ and the depth, where there is a budget.
    """
    table = engine.table(values)
    caps, floors, segments = (limits.get(name) or None for name in ("caps", "floors", "segments"))
    with nullcontext(table) if costs is None else _with_costs(engine, table, costs) as priced:
        yield allocate_table(priced, caps, budget=limits.get("budget"), floors=floors, segments=segments)


# ---- contexts in chunks ----
#
# `decide` for customers whose contexts an engine holds in chunks: more of them than fit into memory, or on a cluster.
#
# Draws and values are a chunk function, so contexts become decisions where they lie. What a plan needs besides (groups,
# forecasts, the risk of overspending) is made by `decide`, for customers in memory.


SEGMENT = "segment"


@dataclass(frozen=True, slots=True)
class ValuedChunk:
    """The chunk function: contexts → what each depth is worth to each customer and, with a budget, what it costs."""

    belief: Belief
    offer: Offer
    policy: Policy
    campaign: str
    seed: int
    contexts: tuple[str, ...]
    """Their columns."""
    schema: pa.Schema
    """Of the result."""

    @classmethod
    def of(
        cls, schema: pa.Schema, *, belief: Belief, offer: Offer, policy: Policy, campaign: str, seed: int
    ) -> ValuedChunk:
        """schema: of the contexts."""
        if ID not in schema.names:
            raise InputError("contexts", found=", ".join(schema.names), expected=f"a column {ID}")
        if offer.segments is not None and SEGMENT not in schema.names:
            found = ", ".join(schema.names)
            raise InputError("contexts", found=found, expected=f"a column {SEGMENT}: the offer has segments")
        names = tuple(name for name in schema.names if name not in (ID, SEGMENT))
        require_policy(policy)
        belief.basket.require_columns(names)
        fields = [schema.field(ID), *([schema.field(SEGMENT)] if SEGMENT in schema.names else [])]
        labels = [depth_label(depth) for depth in offer.depths]
        fields += [pa.field(label, pa.float64()) for label in labels]
        if offer.budget is not None:
            fields += [pa.field(f"{COST}{label}", pa.float64()) for label in labels]
        return cls(belief, offer, policy, campaign, seed, names, pa.schema(fields))

    def __call__(self, chunk: pa.Table) -> pa.Table:
        context = np.empty((chunk.num_rows, len(self.contexts)))
        for place, name in enumerate(self.contexts):
            context[:, place] = chunk[name].to_numpy()
        audience = Audience(ids=chunk[ID], context=context, known=np.ones(chunk.num_rows, np.bool_))
        worth = values_of(
            audience,
            belief=self.belief,
            depths=np.asarray(self.offer.depths, np.float64),
            revenue_weight=self.offer.revenue_weight,
            policy=self.policy,
            seed=self.seed,
            campaign=self.campaign,
        )
        columns = [chunk[name] for name in (ID, SEGMENT) if name in self.schema.names]
        columns += [pa.array(worth[:, place]) for place in range(worth.shape[1])]
        if self.offer.budget is not None:
            costs = expected_costs(audience, belief=self.belief, offer=self.offer)
            columns += [pa.array(costs[:, place]) for place in range(costs.shape[1])]
        return pa.table(columns, schema=self.schema)


def decide_table(
    contexts: ChunkedTable, *, belief: Belief, offer: Offer, policy: Policy, campaign: str, seed: int
) -> AbstractContextManager[TableAllocation]:
    """`decide` for a table of contexts that an engine holds in chunks; its decisions can be used in a `with` block.

    contexts: customer_id, one column per number of the context in the order of the belief and, where the offer has
        segments, one named segment.

    The decisions are those of `decide`, bit for bit, whatever the engine. InfeasibleError where limits contradict each
    other.

    >>> import disco
    >>> table = disco.LocalEngine().table(pa.table({"customer_id": [1, 2, 3], "x": [0.5, -0.25, 0.0]}))
    >>> seen = disco.Purchases(context=[[0.5], [1.0]], depth=[0.1, 0.2], full_price=[20.0, 30.0])
    >>> prior = Belief(basket=disco.BasketModel(), engagement=disco.Engagement())
    >>> belief = disco.learn(prior, [disco.Lesson.of("spring", seen)])
    >>> offer = Offer(depths=(0.1, 0.2), caps=(1, 1), revenue_weight=3.0)
    >>> with decide_table(
    ...     table, belief=belief, offer=offer, policy=disco.Thompson(), campaign="autumn", seed=1
    ... ) as found:
    ...     int(found.proof.counts.sum()), found.proof.gap
    (2, 0.0)
    """
    valued = ValuedChunk.of(contexts.schema, belief=belief, offer=offer, policy=policy, campaign=campaign, seed=seed)
    return _decided_chunks(contexts, valued)


@contextmanager
def _decided_chunks(contexts: ChunkedTable, valued: ValuedChunk) -> Iterator[TableAllocation]:
    offer, segments = valued.offer, None
    if offer.segments is not None:
        limits = {label: {"caps": one.caps, "floors": one.floors} for label, one in offer.segments.items()}
        segments = {SEGMENT: limits}
    with contexts.transform(valued, valued.schema).kept() as values:  # every pass reads them
        found = allocate_table(values, offer.caps, budget=offer.budget, floors=offer.floors, segments=segments)
        found.proof.require_feasible(where=f"campaign {valued.campaign}")
        yield found
