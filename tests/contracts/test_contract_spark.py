"""A real standalone cluster on loopback, one master and two workers: the same bytes as on one machine, for any
partitions and any order of rows, and when a worker is lost in the middle."""

import datetime as dt
import gc
import operator
import os
import re
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_cluster import spark_engine, standalone_cluster

from disco.adapters.tables import open_tables
from disco.allocation import Segments, allocate, allocate_table
from disco.belief import Evidence
from disco.features.builder import FeatureRequest, build_features
from disco.features.on_engine import feature_chunks
from disco.operations.offline import allocate_files
from disco.operations.training import write_features
from disco.records.errors import InputError
from disco.retailer.settings import RetailerSettings
from disco.retailer.simulation import Retailer

ROWS = 4000
AS_OF = dt.date(2025, 6, 1)
rng = np.random.default_rng(11)
PURCHASES = pa.table(
    {
        "x1": np.rint(rng.normal(size=ROWS).clip(-4, 4) * 65536) / 65536,
        "x2": np.rint(rng.normal(size=ROWS).clip(-4, 4) * 65536) / 65536,
        "depth": rng.choice([0.1, 0.2, 0.4], ROWS),
        "full_price": rng.lognormal(3, 1, ROWS),
    }
)

DEPTHS = (0.1, 0.2, 0.4)
IDS = rng.permutation(10_000)[:1500]
WORTH = np.rint(rng.lognormal(1, 1, (1500, 3)))  # whole numbers, so that many are equal
COSTS = np.rint(rng.lognormal(1, 0.5, (1500, 3)))
COUNTRIES = rng.choice(["AT", "DE"], 1500)
VALUES = pa.table(
    {
        "customer_id": IDS,
        "country": COUNTRIES,
        **{str(depth): WORTH[:, place] for place, depth in enumerate(DEPTHS)},
        **{f"cost_{depth}": COSTS[:, place] for place, depth in enumerate(DEPTHS)},
    }
)
CAPS = {0.1: 500, 0.2: 300, 0.4: 100}
IN_AUSTRIA = {"AT": {"caps": {0.2: 60}}}


def in_memory(budget):
    """Decisions of `allocate` about the whole table, by customer."""
    found = allocate(
        WORTH,
        CAPS,
        depths=DEPTHS,
        ids=IDS,
        segments=Segments(COUNTRIES.tolist(), IN_AUSTRIA),
        costs=None if budget is None else COSTS,
        budget=budget,
    )
    none, column = found.choice < 0, np.maximum(found.choice, 0)
    decided = {
        "customer_id": IDS,
        "depth": pa.array(np.array(DEPTHS)[column], mask=none),
        "value": np.where(none, 0.0, WORTH[np.arange(1500), column]),
    }
    return found, pa.table(decided).sort_by("customer_id").combine_chunks()


def on_cluster(table, budget):
    found = allocate_table(table, CAPS, budget=budget, segments={"country": IN_AUSTRIA})
    decided = pa.Table.from_batches(list(found.decisions.batches()), found.decisions.schema)
    return found, decided.sort_by("customer_id").combine_chunks()


def seen(chunk):
    contexts = np.column_stack([chunk["x1"].to_numpy(), chunk["x2"].to_numpy()])
    return Evidence.of(contexts, chunk["depth"].to_numpy(), chunk["full_price"].to_numpy())


def added(one, other):
    return one + other


def shuffled(table, seed):
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))


def in_files(table, folder, files):
    folder.mkdir(parents=True)
    size = -(-table.num_rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"{number:03}.parquet")
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def engine(cluster):
    with spark_engine(cluster.master) as engine:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors cannot import a test
        yield engine


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop") / "data"
    Retailer.simulate(RetailerSettings(customers=150, seed=4)).write(folder)
    return {path.stem: pq.read_table(path) for path in folder.glob("*.parquet")}


def test_the_work_is_done_by_both_workers(engine):
    def where(_):
        time.sleep(0.3)
        return os.getppid()  # Python of an executor

    assert engine.threads == 2
    assert len(set(engine.map(where, range(8)))) == 2


def test_evidence_has_the_same_bits(engine, tmp_path):
    expected = seen(PURCHASES)
    folder = in_files(shuffled(PURCHASES, 9), tmp_path / "rows", 9)
    assert engine.table(folder).fold(seen, added) == expected
    frame = engine.session.createDataFrame(shuffled(PURCHASES, 5)).repartition(5)
    assert engine.table(frame).fold(seen, added) == expected


def test_features_have_the_same_bytes(engine, shop, tmp_path):
    data = tmp_path / "data"
    for name, table in shop.items():
        in_files(shuffled(table, 3), data / name, 3)
    local = write_features(open_tables, str(data), as_of=AS_OF, out=tmp_path / "local.parquet")
    spread = write_features(open_tables, str(data), as_of=AS_OF, out=tmp_path / "spread.parquet", engine=engine)
    assert spread.customers == local.customers > 100
    assert (tmp_path / "spread.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()


def test_features_of_data_frames_are_those_of_files(engine, shop, tmp_path):
    data = tmp_path / "data"
    for name, table in shop.items():
        in_files(table, data / name, 1)
    expected = build_features(open_tables(data), as_of=AS_OF).replace_schema_metadata(None)
    frames = {name: engine.session.createDataFrame(shuffled(table, 3)).repartition(3) for name, table in shop.items()}
    with feature_chunks(engine, engine.tables(frames), FeatureRequest(as_of=AS_OF)) as (_, features):
        back = engine.table(features.to_frame())
        found = pa.Table.from_batches(list(back.batches()), back.schema).sort_by("customer_id").combine_chunks()
    assert found.cast(expected.schema).equals(expected)


@pytest.mark.parametrize(("parts", "budget"), [(1, 1500.0), (5, None)], ids=["with a budget", "caps and segments"])
def test_an_allocation_is_the_same_with_its_ties(engine, tmp_path, parts, budget):
    expected, decisions = in_memory(budget)
    folder = in_files(shuffled(VALUES, parts), tmp_path / "values", parts)
    found, decided = on_cluster(engine.table(folder), budget)
    assert decided.equals(decisions)
    assert (found.proof.value, found.status) == (expected.value, expected.status)
    assert found.passes <= 5


def test_duplicate_ids_in_different_files_are_refused_and_nothing_is_written(engine, shop, tmp_path):
    data = tmp_path / "data"
    people = shop["customers"]
    in_files(pa.concat_tables([people, people.slice(5, 1)]), data / "customers", 4)
    with pytest.raises(InputError, match="twice"):
        write_features(open_tables, str(data), as_of=AS_OF, out=tmp_path / "out.parquet", engine=engine)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("name", ["shop.nowhere", "a b"])
def test_a_table_that_the_catalogue_does_not_have(engine, name):
    with pytest.raises(InputError, match=f"^table:{name}: found .*; expected the name of a table"):
        engine.table(f"table:{name}")


def test_a_table_of_the_catalogue(engine):
    engine.session.createDataFrame(PURCHASES).createOrReplaceTempView("purchases")
    assert engine.table("table:purchases").fold(seen, added) == seen(PURCHASES)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (pa.concat_tables([VALUES, VALUES.slice(9, 1)]), "each customer once"),
        (VALUES.set_column(0, "customer_id", pa.array([None, *IDS[1:].tolist()])), "null"),
    ],
    ids=["an id in two partitions", "no id"],
)
def test_ids_that_cannot_be_used_are_refused_and_nothing_is_written(engine, tmp_path, rows, said):
    folder = in_files(shuffled(rows, 5), tmp_path / "values", 4)
    with pytest.raises(InputError, match=said):
        allocate_files(
            folder,
            limits={"caps": {"0.1": 500}},
            limits_file=tmp_path / "caps.yaml",
            out=tmp_path / "out",
            summary=tmp_path / "summary.json",
            cluster=engine,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["values"]


def test_a_process_of_an_executor_collects_its_modules_once(engine):
    """Spark collects garbage after every task: with all libraries in it, that took longer than the task."""

    def left(_):
        return [(os.getpid(), gc.get_freeze_count(), len(gc.get_objects()))]

    def of_map():
        return [found for task in engine.map(left, range(4)) for found in task]

    for once_more in (lambda: engine.table(PURCHASES).fold(left, operator.add), of_map):
        known, again = {process for process, *_ in once_more()}, []
        for _ in range(20):  # Spark may start a further process for any task, but has few of them
            found = once_more()
            again += [one for one in found if one[0] in known]
            known |= {process for process, *_ in found}
            if again:
                break
        assert again
        for _, frozen, collected in again:
            assert frozen > 10_000
            assert collected < frozen / 5


def test_an_error_of_an_executor_is_that_of_the_function(engine):
    def wrong(chunk):
        raise InputError("row", found="nothing", expected="something")

    with pytest.raises(InputError, match="row: found nothing; expected something"):
        engine.table(PURCHASES).fold(wrong, added)


def test_a_worker_killed_in_the_middle_changes_no_bit(cluster, engine, tmp_path):
    """The last test of the cluster: one worker is left. A task waits until the kill has happened."""
    folder = in_files(shuffled(VALUES, 9), tmp_path / "values", 8)
    begun, killed = tmp_path / "begun", tmp_path / "killed"
    begun.mkdir()

    def slowly(chunk):
        (begun / f"{os.getpid()}-{time.time_ns()}").touch()
        until = time.monotonic() + 180
        while not killed.exists() and time.monotonic() < until:
            time.sleep(0.05)
        return chunk

    running = set()

    def kill():
        until = time.monotonic() + 120
        while len(running) < 2 and time.monotonic() < until:  # until a task waits on each worker
            time.sleep(0.05)
            running.update(name.split("-")[0] for name in os.listdir(begun))
        cluster.kill(1)
        killed.touch()

    killer = threading.Thread(target=kill)
    killer.start()
    _, decided = on_cluster(engine.table(folder).transform(slowly, VALUES.schema), None)
    killer.join()
    assert decided.equals(in_memory(None)[1])
    assert engine.table(PURCHASES).fold(seen, added) == seen(PURCHASES)
    assert len(running) == 2, "a worker was idle when one of them was killed"
    assert cluster.workers[1].wait(20) == -9
    until = time.monotonic() + 30
    lost = re.compile("got disassociated|Removing worker|Removing executor")
    while not lost.search(cluster.log("master")) and time.monotonic() < until:
        time.sleep(0.2)
    assert lost.search(cluster.log("master"))
