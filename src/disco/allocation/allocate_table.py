"""`allocate_table`: the allocation of a table that an engine holds in chunks, the same as that of the whole in memory.

1. One pass checks the table, and brings a sample. 2. Prices from the sample; a pass settles almost everybody (with a
budget, a pass that counts goes before it) and brings the others, who are solved exactly here. 3. A pass checks the
result. 4. Decisions are written by a pass that settles everybody again. No pass changes anything, and nothing depends
on how the table is divided.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from disco.allocation import table as tables
from disco.allocation.allocate import solve_problem
from disco.allocation.budget import solve_budget_in_chunks
from disco.allocation.certificate import Audit, Impossible, allowed_prices, audit, state
from disco.allocation.limits import CountsLike, Limits, SegmentLimits, Segments, read_limits, tree_of
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, Rows, allowed_budget
from disco.allocation.result import Allocation, Status
from disco.allocation.rules import Nobody
from disco.allocation.solve import Closed, first_codes, solve_table
from disco.allocation.table import (
    ID,
    Grid,
    Layout,
    Pass,
    Reading,
    SettlingRule,
    Survey,
    TableInChunks,
    cost_of,
    refuse_duplicates,
    side_by_side,
    suspected,
)
from disco.records.arrays import Array, Keys
from disco.records.errors import CertificateError, InputError
from disco.records.exact_sums import rounded
from disco.records.ports import ChunkedTable

Result = TypeVar("Result")

# Bytes of open customers who are brought here, at most.
MOST_BYTES = 1 << 31


@dataclass(frozen=True, slots=True)
class TableAllocation:
    """The allocation of a table in chunks."""

    proof: Allocation
    """Value, bound, prices and counts of everybody; its `choice` is empty, see `decisions`."""
    customers: int
    """How many the table has."""
    passes: int
    """Over the whole table, without that which writes the decisions."""
    collected_bytes: int
    """What the passes brought to this process."""
    decisions: ChunkedTable | None
    """customer_id, depth (null: no code) and value, computed when it is asked for; None: limits contradict."""

    @property
    def status(self) -> Status:
        """How the solve ended."""
        return self.proof.status


def allocate_table(
    table: ChunkedTable,
    caps: CountsLike | None,
    *,
    budget: float | None = None,
    floors: CountsLike | None = None,
    segments: Mapping[str, SegmentLimits] | None = None,
    most_bytes: int = MOST_BYTES,
) -> TableAllocation:
    """`allocate` for a table that an engine holds in chunks: the same decisions, however it is divided.

    table: columns customer_id, one of values per depth, named by it (null: not eligible), and with a budget one of
        costs per depth, named cost_ and the depth.
    caps, floors: {depth: number}, or one number per column.
    budget: most money that the chosen cells may cost together.
    segments: {column: {label: {"caps": …, "floors": …}}}, one column.
    most_bytes: of customers who are brought here to be solved together; InputError where they would be more.
    """
    return _Run(table, caps, budget, floors, segments, most_bytes).allocation()


def _both(one: Callable[[pa.Table], Any], other: Callable[[pa.Table], Any], chunk: pa.Table) -> tuple[Any, Any]:
    """Two chunk functions in one pass."""
    return one(chunk), other(chunk)


def _both_added(
    add: Callable[[Any, Any], Any], add_other: Callable[[Any, Any], Any], mine: tuple[Any, Any], others: tuple[Any, Any]
) -> tuple[Any, Any]:
    return add(mine[0], others[0]), add_other(mine[1], others[1])


@dataclass(frozen=True, slots=True)
class _Choices:
    """Everybody's choice: by the rule of a pass, or for those it leaves open by a table of their keys."""

    reading: Reading
    rule: SettlingRule
    keys: Keys  # ascending, of those whom the rule leaves open
    choice: Array  # int16, theirs

    def choose(self, rows: Rows) -> Array:
        """(customers,) column, -1 = none; rows: as they are in the table."""
        settled = self.rule.settle(self.reading.offered(rows), slice(0, rows.size), rows.size)
        at = np.searchsorted(self.keys, rows.keys[settled.rows])
        settled.choice[settled.rows] = self.choice[at] if self.keys.size else 0
        return settled.choice

    def __call__(self, chunk: pa.Table) -> pa.Table:
        """The chunk function that writes: customer_id, depth (null: none) and value."""
        layout = self.reading.layout
        rows = layout.read(chunk)
        choice = self.choose(rows)
        none, column = choice < 0, np.maximum(choice, 0)
        value = np.where(none, rows.values.dtype.type(0), rows.values[column, np.arange(rows.size)])
        depth = pa.array(np.asarray(layout.depths)[column], mask=none)
        value = pa.array(value).cast(layout.value_type)  # exact: it was of that type in the table
        return pa.table([chunk[ID], depth, value], schema=self.schema)

    @property
    def schema(self) -> pa.Schema:
        layout = self.reading.layout
        names = (ID, layout.id_type), ("depth", pa.float64()), ("value", layout.value_type)
        return pa.schema([pa.field(name, kind) for name, kind in names])


def _first_codes_of(choices: _Choices, prices: Array, places: Array, scale: float, chunk: pa.Table) -> Array:
    """What the first code of each closed place would bring, in grid integers: that is its price."""
    rows = choices.reading.layout.read(chunk)
    return first_codes(rows, choices.choose(rows), prices, places, scale)


def _audited(choices: _Choices, prices: Array, budget_price: float, budget: float, chunk: pa.Table) -> Audit:
    """The independent check; prices: (groups, depths), budget: ∞ where there is none."""
    rows = choices.reading.layout.read(chunk)
    choice = choices.choose(rows)
    cells, everybody = rows.cells(segments=prices.shape[0] > 1), slice(0, rows.size)
    part = audit(cells, choice, prices, budget_price=budget_price, budget=budget, part=everybody)
    if isinstance(part, Impossible):
        raise CertificateError(
            f"choice of customer {chunk[ID][part.row].as_py()}",
            found=int(choice[part.row]),
            expected="an eligible column, or -1",
        )
    return part


@dataclass(frozen=True, slots=True)
class _Solved:
    """Everybody's place and the prices that prove it."""

    choices: _Choices
    found: Assignment  # of those whom the last pass left open
    rate: float | None  # the budget price; None: there is no budget
    exact: bool = False  # proved optimal, though the prices alone may not show it
    segment_prices: Array | None = None  # where they are known apart from the potentials


class _Run:
    """One allocation: its passes are counted, and ids that may be there twice are looked up by the next of them."""

    def __init__(
        self,
        table: ChunkedTable,
        caps: CountsLike | None,
        budget: float | None,
        floors: CountsLike | None,
        segments: Mapping[str, SegmentLimits] | None,
        most_bytes: int,
    ) -> None:
        column, own_limits = _only(segments)
        self.table, self.most_bytes = table, most_bytes
        self.layout = Layout.of(table.schema, budget=budget is not None, segment=column, limits=own_limits)
        self.given = {"caps": caps, "floors": floors, "budget": budget, "own": own_limits}
        self._limits(labels=list(own_limits or {}))  # what cannot be read is refused before any pass
        self.passes = self.collected = self.customers = 0
        self.suspects: Array | None = None  # hashes of ids to look up
        self.start = time.perf_counter()

    def _limits(self, *, labels: list[Any]) -> Limits:
        """labels: of the segments that some customer is in."""
        own: Any = self.given["own"]
        return read_limits(
            self.given["caps"],
            floors=self.given["floors"],
            segments=None if not own else Segments(np.array(labels, object), own),
            budget=self.given["budget"],
            customers=len(labels),
            columns=len(self.layout.depths),
            depths=self.layout.depths,
        )

    def allocation(self) -> TableAllocation:
        survey = self._survey()
        own: Any = self.given["own"]
        there = survey.in_group.tolist()
        labels = [label for row, label in enumerate(sorted(own or {}, key=str)) if there[row]]
        limits = self._limits(labels=[*labels, *(["(other)"] if own and there[-1] else [])])
        limits = replace(limits, segment=None)
        if survey.whole:
            return self._solved_here(survey.sample, limits)
        # limits that contradict each other are explained where everybody is at hand
        solved = None if limits.contradict else self._solve(survey, limits)
        if solved is not None:
            return self._checked(solved, limits)
        everybody = self._table(survey, limits).screen(Nobody(_groups(limits))).at_hand
        if everybody is None:
            size = survey.sample.nbytes / max(survey.sample.size, 1) * survey.customers
            raise InputError(
                "allocation of a table in chunks",
                found=f"values that leave all {survey.customers:,} customers open ({size / 2**30:.1f} GB)",
                expected=f"at most {self.most_bytes / 2**30:.1f} GB to be solved together",
                fix="Raise `most_bytes`, where this process has the memory.",
            )
        return self._solved_here(everybody, limits)

    def _survey(self) -> Survey:
        """The first pass, and which ids have to be looked up."""
        rows = self.table.expected_rows
        for _ in range(3):  # where files say it wrongly, once more with the number that was counted, or with everybody
            below = tables.below_which(rows)
            chunks = partial(tables.survey, self.layout, self.given["budget"], tables.SAMPLED, below)
            found = self._fold(chunks, Survey.__add__)
            if found.complete:
                break
            rows = found.customers if rows is not None and rows > found.customers else None
        survey = found.in_order()
        if not survey.customers:
            raise InputError("values", found="an empty table", expected="at least one customer")
        self.customers = survey.customers
        if not survey.whole:
            self.suspects = tables.suspects(survey.hashes, self._fold)
        elif (survey.sample.keys[1:] == survey.sample.keys[:-1]).any():
            self.suspects = survey.hashes.twice()
            self._fold(_nothing, int.__add__)
        return replace(survey, hashes=tables.IdHashes(0, 0, (), 0))

    def _fold(self, function: Callable[[pa.Table], Result], add: Callable[[Result, Result], Result]) -> Result:
        """One pass; ids that may be there twice are looked up on the way."""
        self.passes += 1
        if self.suspects is None or not self.suspects.size:
            found = self.table.fold(function, add)
        else:
            both = partial(_both, function, partial(suspected, self.suspects))
            found, ids = self.table.fold(both, partial(_both_added, add, side_by_side))
            refuse_duplicates(ids)
            self.suspects = None
        self.collected += int(getattr(found, "nbytes", 8))
        return found

    def _table(self, survey: Survey, limits: Limits, closed: Array | None = None) -> TableInChunks:
        """As the driver takes it."""
        reading = Reading(self.layout, closed, limits.budget)
        return TableInChunks(survey, limits, reading, self._fold, self.most_bytes)

    def _solve(self, survey: Survey, limits: Limits) -> "_Solved | None":
        """By passes; None: everybody has to be solved together."""
        tree, budget = tree_of(limits), limits.budget
        if budget is not None:
            filled = solve_budget_in_chunks(self._table(survey, limits), budget)
            if filled is not None:
                priced, choice = filled.solution.bound_from, filled.solution.solution.choice
                choices = self._choices(filled.last_pass, choice, Reading(self.layout, None, budget))
                return _Solved(choices, replace(priced.solution, choice=choice), rate=priced.rate)
        closed = None
        if tree.leaf.shape[0] > 1:
            nobody = AllocationProblem(survey.sample.values[:, :0], limits)
            closed = Closed.of(nobody, tree)
            closed = None if closed is None else replace(closed, largest=survey.largest)
        table = self._table(survey, limits, None if closed is None else closed.places)
        placed = solve_table(table, tree)
        if placed is None:
            return None
        passed, found = placed.by, Assignment(placed.choice, placed.potentials, tree)
        assert passed.at_hand is not None
        if budget is not None and rounded(passed.cost + cost_of(passed.at_hand, placed.choice)) > budget:
            return None
        choices = self._choices(passed, placed.choice, table.reading)
        if closed is not None:
            on_grid = closed.on_grid(found)
            first = self._fold(partial(_first_codes_of, choices, on_grid, closed.places, closed.scale), np.maximum)
            found = closed.with_first(found, first)
        return _Solved(choices, found, rate=None if budget is None else 0.0, exact=budget is not None)

    def _choices(self, passed: Pass, choice: Array, reading: Reading) -> _Choices:
        """choice: of those whom the pass left open."""
        assert passed.at_hand is not None
        keys = passed.at_hand.keys  # ascending
        if (keys[1:] == keys[:-1]).any():
            raise InputError(
                "customer_id",
                found="two customers whose ids have the same 64-bit hash",
                expected="ids that differ in it",
                fix="Write one of the two ids in another way.",
            )
        return _Choices(reading, passed.rule, keys, choice.astype(np.int16))

    def _solved_here(self, rows: Rows, limits: Limits) -> TableAllocation:
        """All customers are here: solved as any table in memory, then checked by a pass as any other."""
        if limits.segment_caps is not None:
            limits = replace(limits, segment=rows.group)
        if rows.costs is not None and limits.budget is not None:
            limits = replace(limits, budget=allowed_budget(rows.costs, rows.eligible, limits.budget))
        problem = AllocationProblem(
            rows.values, limits, rows.eligible, rows.costs, rows.keys, self.layout.depths, rows.largest_cost
        )
        found = solve_problem(problem)
        if found.status is Status.INFEASIBLE:
            return TableAllocation(
                replace(found, choice=found.choice[:0], seconds=time.perf_counter() - self.start),
                rows.size, self.passes, self.collected, None,
            )  # fmt: skip
        potentials = np.concatenate([[0.0], found.prices])
        tree = tree_of(limits)
        if found.segment_prices is not None:
            potentials = np.concatenate([potentials, (found.prices + found.segment_prices).ravel()])
        everybody = Pass(
            Nobody(_groups(limits)), np.zeros((_groups(limits), problem.columns), np.int64), rows.size,
            np.arange(rows.size), found.choice, Grid(0.0, 0.0), at_hand=rows,
        )  # fmt: skip
        choices = self._choices(everybody, found.choice, Reading(self.layout))
        placed = Assignment(found.choice, potentials, tree)
        exact = found.status is Status.OPTIMAL
        return self._checked(_Solved(choices, placed, found.budget_price, exact, found.segment_prices), limits)

    def _checked(self, solved: "_Solved", limits: Limits) -> TableAllocation:
        """The result with its proof: one more pass."""
        seconds, start = time.perf_counter() - self.start, time.perf_counter()
        choices, found, rate = solved.choices, solved.found, solved.rate or 0.0
        prices, on_top = found.potentials[1 : len(self.layout.depths) + 1], solved.segment_prices
        if on_top is None and limits.segment_caps is not None:
            on_top = found.potentials[found.tree.leaf] - prices
        allowed = allowed_prices(limits, prices, on_top)
        most = np.inf if limits.budget is None else limits.budget
        totals = self._fold(partial(_audited, choices, allowed.by_place, rate, most), Audit.__add__)
        cost = None if limits.budget is None else rounded(totals.cost)
        proof = state(limits, np.empty(0, np.int16), allowed, totals, cost, rate=rate, depths=self.layout.depths)
        if solved.exact and limits.budget is not None and proof.status is not Status.OPTIMAL:
            proof = replace(proof, bound=proof.value, gap=0.0, status=Status.OPTIMAL)
        proof = replace(proof, seconds=seconds, check_seconds=time.perf_counter() - start)
        decisions = self.table.transform(choices, choices.schema)
        return TableAllocation(proof, self.customers, self.passes, self.collected, decisions)


def _nothing(chunk: pa.Table) -> int:
    return 0


def _only(segments: Mapping[str, SegmentLimits] | None) -> tuple[str | None, SegmentLimits | None]:
    if not segments:
        return None, None
    if len(segments) > 1:
        raise InputError(
            "segments",
            found=f"{len(segments)} columns ({', '.join(map(str, segments))})",
            expected="one column",
            fix="Segments must be one column: combine these into one.",
        )
    ((column, limits),) = segments.items()
    return column, limits


def _groups(limits: Limits) -> int:
    """How many segments are told apart."""
    return 1 if limits.segment_caps is None else int(limits.segment_caps.shape[0])
