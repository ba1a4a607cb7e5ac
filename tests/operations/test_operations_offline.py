"""`disco allocate` of a folder of files, on this machine and on Spark: the rows and the summary of one file."""

import itertools
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_cluster import spark_engine

from disco import LocalEngine
from disco.allocation import budget, rate_range, table
from disco.operations import offline
from disco.operations.offline import AllocationSummary, allocate_files
from disco.records.errors import InputError
from disco.records.identity import buckets_of
from disco.records.manifest import MANIFEST

CUSTOMERS = 6000
DEPTHS = ("0.1", "0.2", "0.3")


@pytest.fixture(scope="module", params=["local", "spark"])
def engine(request):
    """One that holds tables."""
    if request.param == "local":
        yield LocalEngine(threads=2)
        return
    with spark_engine() as started:
        yield started


@pytest.fixture
def small_samples(monkeypatch):
    """Tables of some thousand customers go the way of many."""
    monkeypatch.setattr(offline, "_BUCKETS", 24)
    monkeypatch.setattr(table, "SAMPLED", 1500)
    monkeypatch.setattr(budget, "EXACT_RATE", 2000)
    monkeypatch.setattr(budget, "CONTESTED_AT_ONCE", 1500)
    monkeypatch.setattr(rate_range, "SAMPLED", 1200)
    monkeypatch.setattr(rate_range, "FIRST_SAMPLED", 400)


def tables(*, ties: bool = False) -> tuple[pa.Table, pa.Table]:
    """Values and costs, each customer once."""
    rng = np.random.default_rng(8)
    depth = np.array([float(name) for name in DEPTHS])
    basket = rng.gamma(3.0, 10.0, (CUSTOMERS, 1)) * np.exp(0.3 * rng.standard_normal((CUSTOMERS, 3)))
    costs, values = basket * depth, basket * (3.0 * (1.0 - depth) * (0.2 + depth) - depth)
    if ties:
        values = np.rint(values / 4.0)
    ids = pa.array([f"c{one}" for one in rng.permutation(CUSTOMERS)])
    hidden = rng.random(values.shape) < 0.1
    columns = {name: pa.array(values[:, at], mask=hidden[:, at]) for at, name in enumerate(DEPTHS)}
    labels = pa.array(rng.choice(["GB", "DE"], CUSTOMERS))
    priced = {name: pa.array(costs[:, at]) for at, name in enumerate(DEPTHS)}
    return pa.table({"customer_id": ids, **columns, "country": labels}), pa.table({"customer_id": ids, **priced})


def written(table: pa.Table, folder: Path, files: int, *, seed: int) -> Path:
    """Shuffled rows, in files of different sizes."""
    rng = np.random.default_rng([seed, files])
    rows = table.take(pa.array(rng.permutation(table.num_rows)))
    ends = [0, *np.sort(rng.integers(0, table.num_rows, files - 1)).tolist(), table.num_rows]
    folder.mkdir()
    for number, (start, end) in enumerate(itertools.pairwise(ends)):
        pq.write_table(rows.slice(start, end - start), folder / f"{number:03}.parquet")
    return folder


LIMITS = {
    "caps": {"caps": {"0.1": 1500, "0.2": 900, "0.3": 300}},
    "ties": {"caps": {"0.1": 1500, "0.2": 900, "0.3": 300}},
    "segments": {"caps": {"0.1": 1500}, "segments": {"country": {"GB": {"caps": {"0.2": 300, "0.3": 100}}}}},
    "budget": {"caps": {"0.1": 1500, "0.2": 900, "0.3": 300}, "budget": 6000.0},
}


def run(engine, values: Path, out: Path, *, limits: dict, costs: Path | None, chunks: bool) -> AllocationSummary:
    return allocate_files(
        values, limits=limits, limits_file=Path("caps.yaml"), out=out, costs=costs, summary=out.with_suffix(".json"),
        engine=LocalEngine(threads=2), cluster=engine if chunks else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "kind"),
    [*(("local", kind) for kind in LIMITS), ("spark", "caps"), ("spark", "budget")],
    indirect=["engine"],
)
def test_folders_give_the_rows_and_the_summary_of_one_file(small_samples, tmp_path, engine, kind):
    values, costs = tables(ties=kind == "ties")
    limits = LIMITS[kind]
    pq.write_table(values, tmp_path / "values.parquet")
    pq.write_table(costs, tmp_path / "costs.parquet")
    priced = tmp_path / "costs.parquet" if "budget" in limits else None
    said = run(engine, tmp_path / "values.parquet", tmp_path / "one.parquet", limits=limits, costs=priced, chunks=False)
    expected = pq.read_table(tmp_path / "one.parquet").sort_by("customer_id")
    for files in (1, 4, 37) if isinstance(engine, LocalEngine) else (4,):
        folder = written(values, tmp_path / f"values-{files}", files, seed=1)
        priced = written(costs, tmp_path / f"costs-{files}", 3, seed=2) if "budget" in limits else None
        out = tmp_path / f"codes-{files}"
        for _ in range(2 if kind == "caps" else 1):  # a repeated run doubles nothing
            found = run(engine, folder, out, limits=limits, costs=priced, chunks=True)
        assert replace(found, seconds=0.0) == replace(said, seconds=0.0)
        assert pq.read_table(out).sort_by("customer_id").equals(expected)
        assert (out / MANIFEST).is_file()


def test_values_and_costs_are_brought_together_once_for_all_passes(small_samples, tmp_path, engine, monkeypatch):
    values, costs = tables()
    calls = tmp_path / "calls"
    calls.mkdir()
    join = offline._WithCosts.__call__

    class Counted(offline._WithCosts):
        def __call__(self, rows):
            (calls / uuid4().hex).touch()  # by whichever process
            return join(self, rows)

    monkeypatch.setattr(offline, "_WithCosts", Counted)
    folder, priced = written(values, tmp_path / "values", 4, seed=1), written(costs, tmp_path / "costs", 3, seed=2)
    found = run(engine, folder, tmp_path / "codes", limits=LIMITS["budget"], costs=priced, chunks=True)
    assert found.feasible
    assert len(list(calls.iterdir())) == len(set(buckets_of(values["customer_id"], offline._BUCKETS).to_pylist()))


def test_what_cannot_be_used_is_refused_and_nothing_is_written(small_samples, tmp_path, engine):
    values, costs = tables()
    limits, out = LIMITS["budget"], tmp_path / "codes"

    def refused(said: str, table: pa.Table, priced: pa.Table = costs) -> None:
        for old in (tmp_path / "values", tmp_path / "costs"):
            if old.is_dir():
                for file in old.iterdir():
                    file.unlink()
                old.rmdir()
        folder, cost = written(table, tmp_path / "values", 4, seed=3), written(priced, tmp_path / "costs", 2, seed=4)
        with pytest.raises(InputError, match=said):
            run(engine, folder, out, limits=limits, costs=cost, chunks=True)
        assert not out.exists()
        assert not out.with_suffix(".json").exists()

    cells = [float("nan"), *values["0.1"].to_pylist()[1:]]
    refused("expected a finite number", values.set_column(1, "0.1", pa.array(cells)))
    if not isinstance(engine, LocalEngine):  # one error shows the way of all from the cluster
        return
    twice = pa.concat_tables([values, values.slice(7, 1)])
    cost_twice = pa.concat_tables([costs, costs.slice(7, 1)])
    refused("each customer once", twice, cost_twice)
    first, seventh = (costs["customer_id"][at].as_py() for at in (0, 7))
    refused(f"no row of customer {first}; expected one row for each customer", values, costs.slice(1))
    refused(f"customer {first}, whom VALUES has not", values.slice(1), costs)
    refused(f"customer {seventh} twice; expected one row for each customer", values, cost_twice)
    refused(f"customer {seventh} once, but twice in VALUES", twice, costs)
    ids = values["customer_id"].to_pylist()
    refused("customer_id: found a null", values.set_column(0, "customer_id", pa.array([None, *ids[1:]])))


def test_files_with_different_columns_are_refused(tmp_path, engine):
    values, _ = tables()
    folder = written(values, tmp_path / "values", 3, seed=1)
    pq.write_table(values.drop_columns(["0.2"]).slice(0, 5), folder / "999.parquet")
    with pytest.raises(InputError, match=r"999\.parquet: found no column 0\.2"):
        run(engine, folder, tmp_path / "codes", limits=LIMITS["caps"], costs=None, chunks=True)
    assert not (tmp_path / "codes").exists()
