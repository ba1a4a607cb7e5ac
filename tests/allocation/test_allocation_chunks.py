"""Tables in chunks: the same allocation, byte for byte, as that of the whole table in memory."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from disco import LocalEngine
from disco.allocation import (
    Segments,
    Status,
    TableAllocation,
    allocate,
    allocate_table,
    budget,
    rate_range,
)
from disco.allocation import solve as solver
from disco.allocation import table as tables
from disco.allocation.highs import solve_with_highs
from disco.allocation.problem import read_problem
from disco.allocation.small import search
from disco.records.errors import InputError, LimitError
from disco.records.identity import customer_keys

DEPTHS = (0.05, 0.1, 0.2, 0.3, 0.4)
KINDS = (
    "caps",
    "single precision",
    "whole numbers",
    "few whole numbers",
    "floors",
    "segments",
    "closed",
    "floors in segments",
    "eligible",
    "text ids",
    "budget",
    "budget with floors",
    "budget with segments",
    "budget of whole numbers",
    "slack budget",
)


class Chunks:
    """A table in chunks that come in another order with every pass, and whose functions travel pickled."""

    def __init__(self, chunks: list[pa.Table], *, expected_rows: int | None = None) -> None:
        self.chunks, self.folds, self.rng = chunks, 0, np.random.default_rng(len(chunks))
        self.expected_rows = expected_rows

    @property
    def schema(self) -> pa.Schema:
        return self.chunks[0].schema

    def fold(self, function, add):
        self.folds += 1
        function = pickle.loads(pickle.dumps(function))
        results = [function(self.chunks[at]) for at in self.rng.permutation(len(self.chunks))]
        while len(results) > 1:  # in pairs, as a tree
            pairs = zip(results[::2], results[1::2], strict=False)
            rest = results[len(results) // 2 * 2 :]
            results = [*(add(one, other) for one, other in pairs), *rest]
        return pickle.loads(pickle.dumps(results[0]))

    def transform(self, function, schema):
        function = pickle.loads(pickle.dumps(function))
        return Chunks([function(chunk).cast(schema) for chunk in self.chunks])

    def whole(self) -> pa.Table:
        return pa.concat_tables(self.chunks)


def instance(kind: str, customers: int, seed: int) -> tuple[dict, dict]:
    """The arguments of `allocate`, and those of `allocate_table`, of which `table` is the whole table."""
    rng = np.random.default_rng([seed, len(kind)])
    depth = np.array(DEPTHS)
    basket = rng.gamma(3.0, 10.0, (customers, 1)) * np.exp(
        rng.gamma(2.0, 0.3, (customers, 1)) * depth + 0.1 * rng.standard_normal((customers, depth.size))
    )
    costs = basket * depth
    values = 3.0 * basket * (1.0 - depth) * (0.2 + depth) - costs
    if "whole numbers" in kind:
        values, costs = np.rint(values / (10.0 if "few" in kind else 2.0)), np.rint(costs)
    if kind == "single precision":
        values = values.astype(np.float32)
    ids = rng.permutation(7 * customers)[:customers]
    if kind == "text ids":
        ids = np.array([f"c-{one}" for one in ids], object)
    caps = (customers * np.array([0.3, 0.2, 0.15, 0.1, 0.02])).astype(int)
    whole = {"values": values, "caps": caps, "ids": ids}
    chunked: dict = {"caps": caps}
    eligible = np.ones(values.shape, np.bool_)
    columns: dict = {"customer_id": pa.array(ids)}
    if kind == "eligible":
        eligible = rng.random(values.shape) < 0.8
        whole["eligible"] = eligible
    for column, name in enumerate(DEPTHS):
        columns[str(name)] = pa.array(values[:, column], mask=~eligible[:, column])
    if "segments" in kind or kind == "closed":
        labels = rng.choice(["GB", "DE", "FR"], customers)
        limits: dict = {"GB": {"caps": (caps // 5).tolist()}, "DE": {"caps": (caps // 4).tolist()}}
        if kind == "closed":
            limits["DE"]["caps"][1] = 0
        if "floors" in kind:
            limits["GB"]["floors"] = (caps // 6).tolist()
        whole["segments"], chunked["segments"] = Segments(labels, limits), {"country": limits}
        columns["country"] = pa.array(labels)
    elif "floors" in kind:
        whole["floors"] = chunked["floors"] = (0.9 * caps).astype(int)
    if "budget" in kind:
        for column, name in enumerate(DEPTHS):
            columns[f"cost_{name}"] = costs[:, column]
        whole["costs"] = costs
        free = allocate(**whole, budget=1e12).cost
        whole["budget"] = chunked["budget"] = float(
            (2.0 if "slack" in kind else 0.8 if "floors" in kind else 0.6) * free
        )
    return whole, {"table": pa.table(columns), **chunked}


def cut(table: pa.Table, chunks: int, *, seed: int = 0) -> Chunks:
    """Shuffled rows, in chunks of different sizes, one of them empty where there are many."""
    rng = np.random.default_rng([seed, chunks])
    rows = table.take(pa.array(rng.permutation(table.num_rows)))
    ends = np.sort(rng.integers(0, table.num_rows, chunks - 1)).tolist()
    if chunks > 10:
        ends[3] = ends[2]
    return Chunks([rows.slice(a, b - a) for a, b in zip([0, *ends], [*ends, table.num_rows], strict=True)])


def allocated(arguments: dict, chunks: int) -> TableAllocation:
    return allocate_table(cut(arguments["table"], chunks), **{k: v for k, v in arguments.items() if k != "table"})


def depths_by_id(found: TableAllocation) -> dict:
    rows = found.decisions.whole()
    return dict(zip(rows["customer_id"].to_pylist(), rows["depth"].to_pylist(), strict=True))


@pytest.fixture
def small_samples(monkeypatch):
    """Tables of some thousand customers go the way of many."""
    monkeypatch.setattr(tables, "SAMPLED", 1500)
    monkeypatch.setattr(budget, "EXACT_RATE", 2000)
    monkeypatch.setattr(budget, "CONTESTED_AT_ONCE", 1500)
    monkeypatch.setattr(budget, "FIRST_SAMPLED", 2000)
    monkeypatch.setattr(rate_range, "SAMPLED", 1200)
    monkeypatch.setattr(rate_range, "FIRST_SAMPLED", 400)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_in_chunks_is_allocated_as_in_memory(small_samples, kind):
    whole, chunked = instance(kind, 6000, 1)
    expected = allocate(**whole)
    assert expected.status is not Status.INFEASIBLE
    depth = [None if column < 0 else DEPTHS[column] for column in expected.choice.tolist()]
    by_id = dict(zip(whole["ids"].tolist(), depth, strict=True))
    for chunks in (1, 4, 37):
        found = allocated(chunked, chunks)
        assert depths_by_id(found) == by_id
        proof = found.proof
        assert (proof.value, proof.bound, proof.gap, proof.status) == (
            expected.value, expected.bound, expected.gap, expected.status,
        )  # fmt: skip
        assert (proof.cost, proof.budget_price) == (expected.cost, expected.budget_price)
        assert proof.counts.tolist() == expected.counts.tolist()
        assert found.customers == 6000
        assert found.passes <= 5
        if "floors" not in kind:  # where floors bind, several prices prove the same allocation
            assert proof.prices.tolist() == expected.prices.tolist()
        if expected.segment_prices is not None and "floors" not in kind:
            assert proof.segment_prices.tolist() == expected.segment_prices.tolist()


@pytest.mark.parametrize("kind", ["caps", "whole numbers", "floors", "eligible", "segments"])
@pytest.mark.parametrize("seed", range(4))
def test_small_tables_in_chunks_reach_what_highs_reaches(monkeypatch, kind, seed):
    monkeypatch.setattr(tables, "SAMPLED", 100)
    whole, chunked = instance(kind, 400, seed)
    reference = solve_with_highs(read_problem(**whole))
    found = allocated(chunked, 5)
    assert found.proof.value == pytest.approx(reference.value, rel=1e-9)
    assert found.proof.gap <= 1e-12


def test_a_table_as_small_as_the_sample_is_solved_here_and_checked_by_a_pass():
    whole, chunked = instance("budget", 30, 2)
    found, expected = allocated(chunked, 4), allocate(**whole)
    assert (found.proof.value, found.proof.status) == (expected.value, expected.status)
    assert found.passes == 2


@pytest.mark.parametrize(("seed", "work"), [(6, search.WORK), (14, search.WORK), (14, 100_000)])
def test_the_bound_of_a_small_budget_is_the_same_in_memory_and_in_chunks(monkeypatch, seed, work):
    """Where prices alone prove less than the search: with a gap that is left (6), and with one of rounding (14)."""
    monkeypatch.setattr(search, "WORK", work)
    monkeypatch.setattr(search, "_TRIAL_WORK", work // 10)
    rng = np.random.default_rng(seed)
    customers, depths = int(rng.integers(20, 390)), np.array([0.1, 0.2, 0.3])
    basket = 20.0 * np.exp(1.5 * rng.standard_normal((customers, 1)))
    costs = basket * depths
    values = 3.0 * basket * (1 - depths) * (0.2 + depths) * rng.uniform(0.8, 1.2, costs.shape) - costs
    money = float(costs[:, 1].sum() * rng.uniform(0.1, 0.5))
    columns = {"customer_id": np.arange(customers)}
    columns |= {f"{depth:.1f}": values[:, k] for k, depth in enumerate(depths)}
    columns |= {f"cost_{depth:.1f}": costs[:, k] for k, depth in enumerate(depths)}
    proof = allocate_table(cut(pa.table(columns), 3), [customers // 3] * 3, budget=money).proof
    whole = allocate(values, [customers // 3] * 3, costs=costs, budget=money, ids=np.arange(customers))
    assert (proof.value, proof.bound, proof.gap, proof.status) == (whole.value, whole.bound, whole.gap, whole.status)


def test_what_is_collected_is_the_sample_the_hashes_and_whom_the_pass_leaves_open(small_samples):
    _, chunked = instance("caps", 20_000, 3)
    table = cut(chunked["table"], 7)
    found = allocate_table(table, chunked["caps"])
    assert (found.passes, table.folds) == (3, 3)
    row = 8 * (len(DEPTHS) + 1)
    assert 4 * 20_000 + 1500 * row < found.collected_bytes < 4 * 20_000 + (1500 + 8000) * row


@pytest.mark.parametrize(
    ("expected_rows", "passes"),
    [(20_000, 3), (15_000, 3), (60_000, 4), (2_000_000_000, 4)],
    ids=["right", "too few", "too many", "far too many"],
)
def test_a_wrong_number_of_rows_costs_a_pass_and_changes_nothing(small_samples, expected_rows, passes):
    _, chunked = instance("caps", 20_000, 3)
    table = cut(chunked["table"], 7)
    unknown = allocate_table(table, chunked["caps"])
    told = allocate_table(Chunks(table.chunks, expected_rows=expected_rows), chunked["caps"])
    assert depths_by_id(told) == depths_by_id(unknown)
    assert told.proof.value == unknown.proof.value
    assert (unknown.passes, told.passes) == (3, passes)


def test_the_written_values_are_those_of_the_depths_and_of_their_precision(small_samples):
    _, chunked = instance("single precision", 6000, 1)
    decided = allocated(chunked, 3).decisions.whole()
    assert decided.schema.field("value").type == pa.float32()
    table = chunked["table"].to_pandas().set_index("customer_id")
    for row in decided.slice(0, 200).to_pylist():
        expected = 0.0 if row["depth"] is None else table.loc[row["customer_id"], str(row["depth"])]
        assert row["value"] == expected


def test_where_no_box_is_narrow_enough_everybody_is_solved_together(small_samples, monkeypatch):
    monkeypatch.setattr(solver, "TOO_MANY", -1.0)
    monkeypatch.setattr(solver, "_USELESS", -1.0)
    whole, chunked = instance("caps", 6000, 1)
    found = allocated(chunked, 4)
    assert found.proof.value == allocate(**whole).value
    with pytest.raises(InputError, match=r"leave all 6,000 customers open .*Raise `most_bytes`"):
        allocate_table(cut(chunked["table"], 4), chunked["caps"], most_bytes=10_000)


def test_limits_that_contradict_each_other_are_explained_as_in_memory(small_samples):
    whole, chunked = instance("eligible", 6000, 1)
    floors = [6000, 1, 0, 0, 0]
    whole["caps"], chunked["caps"] = None, None
    expected = allocate(**whole, floors=floors, depths=DEPTHS)
    found = allocate_table(cut(chunked["table"], 4), None, floors=floors)
    assert found.status is Status.INFEASIBLE
    assert found.proof.conflicts == expected.conflicts
    assert found.decisions is None
    capped = allocate_table(cut(chunked["table"], 4), [2, None, None, None, None], floors=[3, 0, 0, 0, 0])
    assert capped.status is Status.INFEASIBLE
    assert capped.proof.conflicts[0].change == "Raise the cap of depth 0.05 from 2 to 3"


def test_a_column_of_nulls_alone_is_open_to_nobody(small_samples):
    whole, chunked = instance("caps", 50, 1)
    table = chunked["table"]
    empty = table.set_column(table.schema.get_field_index("0.1"), "0.1", pa.nulls(50))
    eligible = np.ones((50, 5), bool)
    eligible[:, 1] = False
    expected = allocate(**whole, eligible=eligible)
    found = allocate_table(cut(empty, 3), chunked["caps"])
    assert found.proof.value == expected.value
    assert found.proof.counts[1] == 0


def duplicated(rows: int, at: int, of: int) -> pa.Table:
    _, chunked = instance("caps", rows, 4)
    ids = chunked["table"]["customer_id"].to_numpy().copy()
    ids[at] = ids[of]
    return chunked["table"].set_column(0, "customer_id", pa.array(ids))


def test_a_share_as_a_cap_is_of_all_customers_and_not_of_those_of_a_chunk():
    values = np.random.default_rng(5).gamma(2.0, size=(300, 2))
    table = pa.table({"customer_id": np.arange(300), "0.1": values[:, 0], "0.2": values[:, 1] + 1})
    found = allocate_table(Chunks([table.slice(0, 100), table.slice(100)]), {0.2: "25%"})
    assert found.proof.counts.tolist() == [225, 75]


@pytest.mark.parametrize("rows", [50, 6000])
@pytest.mark.parametrize("most_hashes", [1 << 26, 700])
def test_an_id_in_two_chunks_is_refused_by_name(small_samples, monkeypatch, rows, most_hashes):
    monkeypatch.setattr(tables, "MOST_HASHES", most_hashes)
    for at in (1, 17, 29, 41):
        table = duplicated(rows, at, rows - 3)
        twice = table["customer_id"][at].as_py()
        with pytest.raises(InputError, match=rf"'{twice}' 2 times; expected each customer once"):
            allocate_table(cut(table, 5), [None] * len(DEPTHS))


def test_hashes_shared_by_different_ids_are_no_duplicates(small_samples, monkeypatch):
    """Bits shared by chance only cost a look at the ids."""
    monkeypatch.setattr(tables, "short_hashes", lambda keys: (keys & np.uint64(0x3FF)).astype(np.uint32))
    whole, chunked = instance("caps", 6000, 1)
    suspects = tables.IdHashes.of(customer_keys(whole["ids"])).twice()
    assert suspects.size > 1000
    assert sum(map(len, tables.suspected(suspects, chunked["table"]))) > 5900
    assert allocated(chunked, 4).proof.value == allocate(**whole).value


def test_bad_cells_are_refused_by_column_and_customer(small_samples):
    _, chunked = instance("budget", 6000, 4)
    table = chunked["table"]

    def with_cell(name: str, cell: float | None) -> Chunks:
        cells = table[name].to_pylist()
        cells[77] = cell
        at = table.schema.get_field_index(name)
        return cut(table.set_column(at, name, pa.array(cells, table.schema.field(name).type)), 4)

    limits = {"caps": chunked["caps"], "budget": chunked["budget"]}
    customer = table["customer_id"][77].as_py()
    for name, cell, said in (
        ("0.1", float("nan"), f"column 0.1, customer {customer}: found nan; expected a finite number"),
        ("0.1", float("inf"), f"column 0.1, customer {customer}: found inf"),
        ("cost_0.2", None, f"column cost_0.2, customer {customer}: found a null; expected a cost"),
        ("cost_0.2", -1.0, f"column cost_0.2, customer {customer}: found -1.0; expected a cost of at least 0"),
        ("customer_id", None, "customer_id: found a null; expected an id in every row"),
    ):
        with pytest.raises(InputError, match=said):
            allocate_table(with_cell(name, cell), **limits)


def test_limits_and_columns_that_do_not_fit_are_refused_before_any_pass():
    _, chunked = instance("segments", 50, 4)
    table = cut(chunked["table"], 2)
    with pytest.raises(LimitError, match="a budget, and no costs"):
        allocate_table(table, None, budget=5.0)
    with pytest.raises(LimitError, match="column 'region'"):
        allocate_table(table, None, segments={"region": {"GB": {"caps": [1] * 5}}})
    with pytest.raises(InputError, match="one column"):
        allocate_table(table, None, segments={"region": {}, "country": {}})
    with pytest.raises(LimitError, match=r"depth 0\.25"):
        allocate_table(table, {0.25: 3})
    assert table.folds == 0
    with pytest.raises(LimitError, match="labels that some customer has"):
        allocate_table(table, None, segments={"country": {"IT": {"caps": [1] * 5}}})
    empty = Chunks([chunked["table"].slice(0, 0)])
    with pytest.raises(InputError, match="an empty table"):
        allocate_table(empty, None)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_local_engine_allocates_files_and_writes_a_folder(small_samples, tmp_path, threads):
    import pyarrow.parquet as pq

    whole, chunked = instance("text ids", 6000, 1)
    (tmp_path / "values").mkdir()
    for at in range(3):
        part = chunked["table"].slice(2000 * at, 2000)
        pq.write_table(part, tmp_path / "values" / f"{at}.parquet", row_group_size=700)
    found = allocate_table(LocalEngine(threads=threads).table(tmp_path / "values"), chunked["caps"])
    manifest = found.decisions.write(tmp_path / "codes")
    assert manifest.rows == 6000
    expected = allocate(**whole)
    written = pq.read_table(tmp_path / "codes")
    assert written["customer_id"].to_pylist() == whole["ids"].tolist()
    assert written["depth"].to_pylist() == [None if c < 0 else DEPTHS[c] for c in expected.choice.tolist()]
