"""Tables in chunks, from contexts to decisions: `./run bench spark [--customers 1000000] [--engine both] [--budget]`.

Contexts of simulated customers lie in Parquet files. Each engine adds up evidence, draws full prices and turns them
into values (kept), allocates them under caps and, where asked for, a budget, and writes decisions. Shown are seconds
per stage and pass, passes, bytes that reached the driver, and memory of the driver: of its Python and of the heap of
Java. Spark runs as `local[2]`, on a cluster of two workers on this machine (`--master cluster`), or wherever `--master`
says. Kernels are compiled, and Python processes of executors started, before the clock.
"""

import argparse
import multiprocessing
import os
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
GROUP_ROWS = 1 << 17
WARMING = 140_000  # customers: more than a sample, so that every kernel is used


def write_contexts(folder: Path, customers: int) -> None:
    for first in range(0, customers, FILE_ROWS):
        rows = min(FILE_ROWS, customers - first)
        drawn = np.random.default_rng(first).normal(size=(rows, len(CONTEXTS))).clip(-4, 4)
        columns = {name: np.rint(drawn[:, place] * 65536) / 65536 for place, name in enumerate(CONTEXTS)}
        table = pa.table({"customer_id": np.arange(first, first + rows), **columns})
        pq.write_table(table, folder / f"{first:012}.parquet", row_group_size=GROUP_ROWS, compression="lz4")


def belief() -> Any:
    from disco import BasketModel, Belief, Engagement, EngagementCounts, Lesson, Purchases, learn

    rng = np.random.default_rng(1)
    context = np.rint(rng.normal(size=(20_000, len(CONTEXTS))).clip(-4, 4) * 65536) / 65536
    depth = rng.choice(DEPTHS, 20_000)
    price = np.exp(3 + 0.4 * context[:, 0] + (0.5 + 0.3 * context[:, 1]) * depth + rng.normal(0, 0.6, 20_000))
    seen = Purchases(context=context, depth=depth, full_price=price)
    codes = EngagementCounts(DEPTHS, [5_000] * len(DEPTHS), [round(5_000 * (0.05 + share)) for share in DEPTHS])
    return learn(Belief(basket=BasketModel(), engagement=Engagement()), [Lesson.of("before", seen, codes)])


def offer(customers: int, *, budget: bool) -> Any:
    from disco import Offer

    caps = (customers // 10,) * len(DEPTHS)
    return Offer(depths=DEPTHS, caps=caps, revenue_weight=3.0, budget=0.5 * customers if budget else None)


def seen(chunk: pa.Table) -> Any:
    from disco.belief import Evidence

    context = np.column_stack([chunk[name].to_numpy() for name in CONTEXTS])
    return Evidence.of(context, np.full(chunk.num_rows, 0.2), np.exp(context[:, 0]))


def both(one: Any, other: Any) -> Any:
    return one + other


def decided(table: Any, customers: int, folder: Path, *, budget: bool) -> tuple[dict[str, float], Any]:
    """Contexts → written decisions; seconds of each stage, and the allocation."""
    from disco import Thompson
    from disco.allocation.allocate import _Run, allocate_table
    from disco.operations.offline import ValuedChunk

    stages: dict[str, float] = {}
    fold = _Run._fold

    def timed(self: Any, function: Any, add: Any) -> Any:
        start = time.perf_counter()
        found = fold(self, function, add)
        name = f"  pass {self.passes}: {type(function).__name__}"
        stages[name] = time.perf_counter() - start
        print(f"{name} {stages[name]:.1f} s", file=sys.stderr, flush=True)
        return found

    limits = offer(customers, budget=budget)
    began = time.perf_counter()
    table.fold(seen, both)
    stages["evidence (one pass)"] = time.perf_counter() - began
    # the steps of `decide_table`, each timed
    valued = ValuedChunk.of(table.schema, belief=belief(), offer=limits, policy=Thompson(), campaign="bench", seed=1)
    began = time.perf_counter()
    with table.transform(valued, valued.schema).kept() as values:
        values.fold(len, both)
        stages["draws and values, kept"] = time.perf_counter() - began
        began = time.perf_counter()
        _Run._fold = timed  # type: ignore[method-assign]
        try:
            found = allocate_table(values, limits.caps, budget=limits.budget)
        finally:
            _Run._fold = fold  # type: ignore[method-assign]
        stages["allocation"] = time.perf_counter() - began
        began = time.perf_counter()
        assert found.decisions is not None
        assert found.decisions.write(folder / "out").rows == customers
        stages["writing"] = time.perf_counter() - began
    return stages, found


def processor_seconds() -> float:
    """Of this process and all that it started, also by others of them: on a busy machine, steadier than the clock."""
    parents, used = dict[int, int](), dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = stat.read_text().partition(" (")
        except OSError:  # it has ended
            continue
        fields = rest.rpartition(") ")[2].split()
        parents[int(number)], used[int(number)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(used[one] for one in family) / os.sysconf("SC_CLK_TCK")


def measured(name: str, contexts: Path, customers: int, master: str, budget: bool) -> None:
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
            engine = stack.enter_context(spark_engine(master, quick=False))
        place = Path(stack.enter_context(TemporaryDirectory(dir=contexts.parent)))
        (place / "few").mkdir()
        write_contexts(place / "few", WARMING)
        decided(engine.table(place / "few"), WARMING, place, budget=budget)
        used = processor_seconds()
        stages, found = decided(engine.table(contexts), customers, place, budget=budget)
        used = processor_seconds() - used
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        notes = [
            f"{found.status.name}, gap {found.proof.gap:.1e}, {found.passes} passes, "
            f"{found.collected_bytes / 1e6:,.1f} MB to the driver",
            f"all processes: {used:.1f} processor seconds, {used / customers * 1e6:.2f} µs per customer",
            f"driver's Python: {peak:.2f} GB at most",
        ]
        if name == "spark":
            runtime = engine.session._jvm.java.lang.Runtime.getRuntime()
            heap = (runtime.totalMemory() - runtime.freeMemory()) / 2**30
            notes.append(f"driver's Java heap: {heap:.2f} GB of {runtime.maxMemory() / 2**30:.2f} GB")
    whole = sum(seconds for stage, seconds in stages.items() if not stage.startswith(" "))
    print(f"\n{name}{' with a budget' if budget else ''}, {customers:,} customers × {len(DEPTHS)} depths")
    for stage, seconds in {**stages, "together": whole}.items():
        print(f"  {stage:<28} {seconds:>8.1f} s {seconds / customers * 1e6:>10.2f} µs/customer")
    print("  " + "\n  ".join(notes), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--customers", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=["local", "spark", "both"], default="both")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--folder", type=Path, help="where contexts are kept for the next time")
    given = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)) / f"contexts-{given.customers}"
        if not folder.is_dir():
            folder.mkdir(parents=True)
            write_contexts(folder, given.customers)
        for name in ("local", "spark") if given.engine == "both" else (given.engine,):
            alone = multiprocessing.get_context("spawn").Process(
                target=measured, args=(name, folder, given.customers, given.master, given.budget)
            )
            alone.start()
            alone.join()
            if alone.exitcode:
                raise SystemExit(alone.exitcode)


if __name__ == "__main__":
    main()
