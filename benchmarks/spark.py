"""Tables in chunks, from contexts to decisions: `./run bench spark [--customers 1000000] [--engine both]`.

Contexts of simulated customers lie in Parquet files. Each engine draws full prices and turns them into values (kept),
allocates under caps (where the program has an allocation of tables), adds up evidence and writes decisions. Shown are
seconds per stage, customers per second, passes, bytes that reached the driver, and memory of the driver: of its Python
and of the heap of Java. Spark runs as `local[2]`, on a cluster of two workers on this machine (`--master cluster`), or
wherever `--master` says.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DEPTHS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
CONTEXTS = tuple(f"x{number}" for number in range(1, 7))
FILE_ROWS = 1 << 20
VALUES = pa.schema([("customer_id", pa.int64()), *((str(depth), pa.float64()) for depth in DEPTHS)])


def write_contexts(folder: Path, customers: int) -> None:
    for first in range(0, customers, FILE_ROWS):
        rows = min(FILE_ROWS, customers - first)
        drawn = np.random.default_rng(first).normal(size=(rows, len(CONTEXTS))).clip(-4, 4)
        columns = {name: np.rint(drawn[:, place] * 65536) / 65536 for place, name in enumerate(CONTEXTS)}
        table = pa.table({"customer_id": np.arange(first, first + rows), **columns})
        pq.write_table(table, folder / f"{first:012}.parquet", row_group_size=1 << 17, compression="lz4")


def model() -> Any:
    from disco.belief import BasketModel

    rng = np.random.default_rng(1)
    context = np.rint(rng.normal(size=(20_000, len(CONTEXTS))).clip(-4, 4) * 65536) / 65536
    depth = rng.choice(DEPTHS, 20_000)
    price = np.exp(3 + 0.4 * context[:, 0] + (0.5 + 0.3 * context[:, 1]) * depth + rng.normal(0, 0.6, 20_000))
    return BasketModel().update(context, depth, price)


class Valued:
    """The chunk function: contexts → what each depth is worth."""

    def __init__(self) -> None:
        self.model = model()

    def __call__(self, chunk: pa.Table) -> pa.Table:
        from disco.objective import values
        from disco.policy import Thompson

        context = np.column_stack([chunk[name].to_numpy() for name in CONTEXTS])
        ids = chunk["customer_id"].to_numpy()
        drawn = Thompson().full_prices(self.model, context, DEPTHS, ids=ids, seed=1, campaign="bench")
        worth = values(drawn, np.array(DEPTHS), np.full(len(DEPTHS), 0.1), revenue_weight=3.0)
        return pa.table([chunk["customer_id"], *(worth[:, place] for place in range(len(DEPTHS)))], schema=VALUES)


def seen(chunk: pa.Table) -> Any:
    from disco.belief import Evidence

    context = np.column_stack([chunk[name].to_numpy() for name in CONTEXTS])
    return Evidence.of(context, np.full(chunk.num_rows, 0.2), np.exp(context[:, 0]))


def both(one: Any, other: Any) -> Any:
    return one + other


def measured(name: str, contexts: Path, customers: int, master: str) -> None:
    """Runs in a process of its own, so that memory is that of one engine."""
    with ExitStack() as stack:
        from disco.adapters.engines import LocalEngine

        engine: Any = LocalEngine()
        if name == "spark":
            from pyspark import cloudpickle
            from spark_cluster import spark_engine, standalone_cluster

            cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors cannot import a benchmark
            folder = Path(stack.enter_context(TemporaryDirectory()))
            master = stack.enter_context(standalone_cluster(folder)).master if master == "cluster" else master
            engine = stack.enter_context(spark_engine(master))
        stages: dict[str, float] = {}

        def took(stage: str, began: float) -> None:
            stages[stage] = time.perf_counter() - began

        valued = Valued()
        few = pq.ParquetFile(next(iter(sorted(contexts.glob("*.parquet"))))).read_row_group(0).slice(0, 1000)
        small = engine.table(few)  # kernels are compiled, and Python processes of executors started, before the clock
        small.fold(seen, both)
        small.transform(valued, VALUES).fold(len, lambda one, other: one + other)
        began = time.perf_counter()
        table = engine.table(contexts)
        evidence = table.fold(seen, both)
        took("evidence (one pass)", began)
        began = time.perf_counter()
        values = stack.enter_context(table.transform(valued, VALUES).kept())
        values.fold(len, lambda one, other: one + other)
        took("draws and values, kept", began)
        began = time.perf_counter()
        values.fold(len, lambda one, other: one + other)
        took("one more pass over them", began)
        notes = [f"evidence of {evidence.total_rows:,} rows"]
        decisions = values
        try:
            from disco.allocation.allocate_table import allocate_table
        except ImportError:
            notes.append("this program has no allocation of tables; values are written instead")
        else:
            began = time.perf_counter()
            found = allocate_table(values, [customers // 10] * len(DEPTHS))
            took("allocation", began)
            decisions = found.decisions
            notes.append(
                f"{found.proof.status.name}, gap {found.proof.gap:.1e}, {found.passes} passes, "
                f"{found.collected_bytes / 1e6:,.1f} MB to the driver"
            )
        began = time.perf_counter()
        decisions.write(Path(stack.enter_context(TemporaryDirectory())) / "out")
        took("writing", began)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        notes.append(f"driver's Python: {peak:.2f} GB at most")
        if name == "spark":
            runtime = engine.session._jvm.java.lang.Runtime.getRuntime()
            heap = (runtime.totalMemory() - runtime.freeMemory()) / 2**30
            notes.append(f"driver's Java heap: {heap:.2f} GB of {runtime.maxMemory() / 2**30:.2f} GB")
    print(f"\n{name}, {customers:,} customers × {len(DEPTHS)} depths")
    for stage, seconds in stages.items():
        print(f"  {stage:<26} {seconds:>8.1f} s {customers / seconds:>14,.0f} customers/s")
    print("  " + "\n  ".join(notes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--customers", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=["local", "spark", "both"], default="both")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", type=Path, help="where contexts are kept for the next time")
    given = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)) / f"contexts-{given.customers}"
        if not folder.is_dir():
            folder.mkdir(parents=True)
            write_contexts(folder, given.customers)
        for name in ("local", "spark") if given.engine == "both" else (given.engine,):
            alone = multiprocessing.get_context("spawn").Process(
                target=measured, args=(name, folder, given.customers, given.master)
            )
            alone.start()
            alone.join()
            if alone.exitcode:
                raise SystemExit(alone.exitcode)


if __name__ == "__main__":
    main()
