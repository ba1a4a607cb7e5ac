"""`allocate_table`: the allocation of a table that an engine holds in chunks, the same as that of the whole in memory.

1. One pass checks the table, and brings a sample. 2. Prices from the sample; a pass settles almost everybody (with a
budget, a pass that counts goes before it) and brings the others, who are solved exactly here. 3. A pass checks the
result. 4. Decisions are written by a pass that settles everybody again. No pass changes anything, and nothing depends
on how the table is divided.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from disco.allocation import table as tables
from disco.allocation.allocate import solve_problem
from disco.allocation.budget import solve_budget_in_chunks
from disco.allocation.certificate import Audit, Impossible, allowed_prices, audit, state
from disco.allocation.chunk_prices import ChunkPrices, SolvedTable
from disco.allocation.chunk_screen import DecidedChunks, Nobody, ScreenedChunks, Screening, SettlingRule, open_choices
from disco.allocation.limits import CountsLike, Limits, SegmentLimits, Segments, read_limits, tree_of
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, allowed_budget
from disco.allocation.rate_range import RowsInChunks
from disco.allocation.result import Allocation, Status
from disco.allocation.solver import Closed, first_codes
from disco.allocation.table import ID, ChunkRows, Layout, Survey, Surveyed, Suspected, refuse_duplicates, side_by_side
from disco.records.arrays import Array, Keys
from disco.records.errors import CertificateError, InputError
from disco.records.exact_sums import exact_sum, rounded
from disco.records.ports import ChunkedTable

Result = TypeVar("Result")

MOST_BYTES = 1 << 31  # of open customers brought here


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


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two chunk functions in one pass."""

    one: Callable[[pa.Table], Any]
    other: Callable[[pa.Table], Any]

    def __call__(self, chunk: pa.Table) -> tuple[Any, Any]:
        return self.one(chunk), self.other(chunk)


@dataclass(frozen=True, slots=True)
class _PairSum:
    one: Callable[[Any, Any], Any]
    other: Callable[[Any, Any], Any]

    def __call__(self, mine: tuple[Any, Any], others: tuple[Any, Any]) -> tuple[Any, Any]:
        return self.one(mine[0], others[0]), self.other(mine[1], others[1])


@dataclass(frozen=True, slots=True)
class _FirstCodes:
    """The chunk function that prices closed places: what the first code of each would bring, in grid integers."""

    layout: Layout
    choose: Callable[[ChunkRows], Array]
    prices: Array
    places: Array
    scale: float

    def __call__(self, chunk: pa.Table) -> Array:
        rows = self.layout.read(chunk)
        return first_codes(
            rows.values, rows.eligible, None, 0.0, rows.group, self.choose(rows), self.prices, self.places, self.scale
        )


@dataclass(frozen=True, slots=True)
class _Audited:
    """The chunk function of the independent check."""

    layout: Layout
    choose: Callable[[ChunkRows], Array]  # everybody's choice
    prices: Array  # (groups, depths)
    budget_price: float
    budget: float  # ∞: none

    def __call__(self, chunk: pa.Table) -> Audit:
        rows = self.layout.read(chunk)
        choice = self.choose(rows)
        part = audit(
            rows.values, rows.eligible, rows.costs, rows.group if self.prices.shape[0] > 1 else None, choice,
            self.prices, budget_price=self.budget_price, budget=self.budget, part=slice(0, rows.size),
        )  # fmt: skip
        if isinstance(part, Impossible):
            raise CertificateError(
                f"choice of customer {chunk[ID][part.row].as_py()}",
                found=int(choice[part.row]),
                expected="an eligible column, or -1",
            )
        return part


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
        solved, found, rate, exact = (None, None, None, False) if limits.contradict else self._solve(survey, limits)
        if solved is None:
            everybody = self._screened(Nobody(_groups(limits))).rows()
            if everybody is None:
                size = survey.sample.nbytes / max(survey.sample.size, 1) * survey.customers
                raise InputError(
                    "allocation of a table in chunks",
                    found=f"values that leave all {survey.customers:,} customers open ({size / 2**30:.1f} GB)",
                    expected=f"at most {self.most_bytes / 2**30:.1f} GB to be solved together",
                    fix="Raise `most_bytes`, where this process has the memory.",
                )
            return self._solved_here(everybody, limits)
        assert found is not None
        return self._checked(solved.rule, solved.keys, solved.choice, limits, found, rate=rate, exact=exact)

    def _survey(self) -> Survey:
        """The first pass, and which ids have to be looked up."""
        rows = self.table.expected_rows
        for _ in range(3):  # where files say it wrongly, once more with the number that was counted, or with everybody
            below = tables.below_which(rows)
            chunks = Surveyed(self.layout, self.given["budget"], tables.SAMPLED, below)  # type: ignore[arg-type]
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
            both = _Pair(function, Suspected(self.suspects))
            found, ids = self.table.fold(both, _PairSum(add, side_by_side))
            refuse_duplicates(ids)
            self.suspects = None
        self.collected += int(getattr(found, "nbytes", 8))
        return found

    def _screened(self, rule: SettlingRule) -> Screening:
        return self._fold(ScreenedChunks(self.layout, rule, self.most_bytes), Screening.__add__)

    def _solve(
        self, survey: Survey, limits: Limits
    ) -> tuple[SolvedTable | None, Assignment | None, float | None, bool]:
        """By passes: who goes where, the prices, the budget price, and whether the budget does not bind.

        Without a result, everybody has to be solved together.
        """
        tree = tree_of(limits)
        rate = None
        if limits.budget is not None:
            filled = solve_budget_in_chunks(RowsInChunks(survey, limits, self.layout, self._fold, self._screened))
            if filled is not None:
                priced, last = filled.solution.bound_from, filled.last_pass
                choice = filled.solution.solution.choice
                prices = priced.solution.potentials
                placed = SolvedTable(last.rule, last.open.keys, choice, prices, last.settled_cost)
                return placed, replace(priced.solution, choice=choice), priced.rate, False
            rate = 0.0
        closed = None
        if tree.leaf.shape[0] > 1:
            nobody = AllocationProblem(survey.sample.values[:, :0], limits)
            closed = Closed.of(nobody, tree)
            closed = None if closed is None else replace(closed, largest=survey.largest)
        places = None if closed is None else closed.places
        solved = ChunkPrices(survey, limits, tree, self._screened, closed=places).solve()
        if solved is None:
            return None, None, None, False
        found = solved.assignment(tree)
        if limits.budget is not None and not _pays(solved, limits.budget):
            return None, None, None, False
        if closed is not None:
            decided = self._decided(solved.rule, solved.keys, solved.choice)
            first = self._fold(
                _FirstCodes(self.layout, decided.choose, closed.on_grid(found), closed.places, closed.scale), np.maximum
            )
            found = closed.with_first(found, first)
        return solved, found, rate, limits.budget is not None

    def _decided(self, rule: SettlingRule, keys: Keys, choice: Array) -> DecidedChunks:
        keys, choice = open_choices(keys, choice)
        if (keys[1:] == keys[:-1]).any():
            raise InputError(
                "customer_id",
                found="two customers whose ids have the same 64-bit hash",
                expected="ids that differ in it",
                fix="Write one of the two ids in another way.",
            )
        return DecidedChunks(self.layout, rule, keys, choice)

    def _solved_here(self, rows: ChunkRows, limits: Limits) -> TableAllocation:
        """All customers are here: solved as any table in memory, then checked by a pass as any other."""
        rule = Nobody(_groups(limits))
        if limits.segment_caps is not None:
            limits = replace(limits, segment=rows.group)
        if rows.costs is not None and limits.budget is not None:
            limits = replace(limits, budget=allowed_budget(rows.costs, rows.eligible, limits.budget))
        problem = AllocationProblem(
            rows.values, limits, rows.eligible, rows.costs, rows.keys, self.layout.depths, _largest_cost(rows)
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
        placed = Assignment(found.choice, potentials, tree)
        return self._checked(
            rule, rows.keys, found.choice, limits, placed, rate=found.budget_price,
            exact=found.status is Status.OPTIMAL, on_top=found.segment_prices,
        )  # fmt: skip

    def _checked(
        self, rule: SettlingRule, keys: Keys, choice: Array, limits: Limits, found: Assignment, *, rate: float | None,
        exact: bool, on_top: Array | None = None,
    ) -> TableAllocation:  # fmt: skip
        """The result with its proof: one more pass."""
        seconds, start = time.perf_counter() - self.start, time.perf_counter()
        decided = self._decided(rule, keys, choice)
        columns = len(self.layout.depths)
        prices = found.potentials[1 : columns + 1]
        if on_top is None and limits.segment_caps is not None:
            on_top = found.potentials[found.tree.leaf] - prices
        allowed = allowed_prices(limits, prices, on_top)
        most = np.inf if limits.budget is None else limits.budget
        totals = self._fold(_Audited(self.layout, decided.choose, allowed.by_place, rate or 0.0, most), Audit.__add__)
        cost = None if limits.budget is None else rounded(totals.cost)
        proof = state(limits, choice[:0], allowed, totals, cost, rate=rate or 0.0, depths=self.layout.depths)
        if exact and limits.budget is not None and proof.status is not Status.OPTIMAL:
            proof = replace(proof, bound=proof.value, gap=0.0, status=Status.OPTIMAL)
        proof = replace(proof, seconds=seconds, check_seconds=time.perf_counter() - start)
        decisions = self.table.transform(decided, decided.schema)
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


def _largest_cost(rows: ChunkRows) -> float:
    if rows.costs is None:
        return 0.0
    return float(
        rows.costs.max(initial=0.0) if rows.eligible is None else rows.costs.max(initial=0.0, where=rows.eligible)
    )


def _pays(solved: SolvedTable, budget: float) -> bool:
    """Whether an allocation is within the budget to the last bit."""
    assert solved.rows is not None
    assert solved.rows.costs is not None
    taken = np.flatnonzero(solved.choice >= 0)
    own = exact_sum(solved.rows.costs[solved.choice[taken], taken].astype(np.float64))
    return rounded(solved.cost + own) <= budget
