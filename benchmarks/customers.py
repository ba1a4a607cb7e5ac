"""From raw tables to contexts: `./run bench customers [--embedding] [--quick]`.

Simulated shops are written to disk as Parquet. Each step runs in a process of its own, so that its peak memory is its
own; the embedding is timed beside the bare matrix products of the same network on the same rows, in one run.
"""

import argparse
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

AS_OF = date(2025, 9, 1)
WINDOW = (date(2025, 6, 1), date(2025, 9, 1))
CHUNK_ROWS = 65_536
Result = dict[str, float]


def simulate(folder: Path, *, customers: int) -> Result:
    from disco.retailer import Retailer, RetailerSettings

    start = time.perf_counter()
    Retailer.simulate(RetailerSettings(customers=customers, seed=7)).write(folder)
    seconds = time.perf_counter() - start
    rows = {name: pq.read_metadata(folder / f"{name}.parquet").num_rows for name in ("orders", "site")}
    return {"seconds": seconds, **rows}


def features(folder: Path, *, customers: int) -> Result:
    """All 76 features of every customer, Parquet to Arrow, on two threads."""
    from disco.adapters.tables import FolderTables
    from disco.features import build_features

    start = time.perf_counter()
    table = build_features(FolderTables(folder), as_of=AS_OF, threads=2)
    seconds = time.perf_counter() - start
    pq.write_table(table, folder / "features.arrow")  # not *.parquet: the folder holds the retailer's tables
    return {"seconds": seconds, "rows": table.num_rows, "columns": table.num_columns - 1}


def train(folder: Path, *, customers: int) -> Result:
    """Adam on the orders of three months; rows per second are those that went through the network, epochs counted."""
    from disco.adapters.tables import FolderTables
    from disco.features import ContextNetwork, training_set

    rows = training_set(FolderTables(folder), window_start=WINDOW[0], window_end=WINDOW[1], threads=2)
    network = ContextNetwork(heads="level", max_epochs=5, patience=5, device="cpu")
    start = time.perf_counter()
    network.fit(rows.X, rows.log_full_price)
    seconds = time.perf_counter() - start
    network.save(folder / "network.safetensors")
    return {"seconds": seconds, "rows": len(rows), "rows_per_s": len(rows) * len(network.validation_losses_) / seconds}


def embed(folder: Path, *, customers: int) -> Result:
    """ψ1 of `customers` rows (the table repeated, without a copy), and the bare products [76, 64, 16, 6] on as many;
    both on one thread and on two."""
    from disco.adapters.engines import LocalEngine
    from disco.features import ContextNetwork

    network = ContextNetwork.load(folder / "network.safetensors")
    part = pq.read_table(folder / "features.arrow")
    table = pa.concat_tables([part] * -(-customers // part.num_rows)).slice(0, customers)
    sizes = network.embedding_.sizes
    rng = np.random.default_rng(1)
    weights = [rng.standard_normal(pair) for pair in pairwise(sizes)]
    chunk = rng.standard_normal((CHUNK_ROWS, sizes[0]))

    def products(_: int) -> Any:
        layer = chunk
        for matrix in weights:
            layer = layer @ matrix
        return layer

    def figures(threads: int) -> Result:
        engine, chunks = LocalEngine(threads=threads), -(-customers // CHUNK_ROWS)
        bare = _timed(lambda: list(engine.map(products, range(chunks))))
        ours = _timed(lambda: network.transform(table, check_scale=False, engine=engine))
        return {f"seconds_{threads}": ours, f"bare_{threads}": bare * customers / (chunks * CHUNK_ROWS)}

    return figures(1) | figures(2)


def _timed(job: Callable[[], Any]) -> float:
    job()
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _child(pipe: Any, job: Callable[..., Result], folder: Path, customers: int) -> None:
    warnings.simplefilter("ignore")
    result = job(folder, customers=customers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # Linux counts in KiB
    pipe.send(result | {"peak_gb": peak})


def alone(job: Callable[..., Result], folder: Path, customers: int) -> Result:
    """The result of a job in a fresh process, with its peak memory."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, job, folder, customers))
    process.start()
    theirs.close()
    try:
        result: Result = ours.recv()
    except EOFError:
        raise SystemExit(f"{job.__name__} of {customers:,} customers ended without a result") from None
    process.join()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--embedding", action="store_true", help="the embedding alone, with the network of a small shop"
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of it: does it run")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the processes to come: the bare products run chunks side by side too
    small, large, embedded = (2_000, 10_000, 50_000) if options.quick else (100_000, 1_000_000, 5_000_000)
    sizes = (small,) if options.embedding else (small, large)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}"
    )
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="disco-bench-") as scratch:
        for customers in sizes:
            folder = Path(scratch) / str(customers)
            made = alone(simulate, folder, customers)
            built = alone(features, folder, customers)
            seconds[customers] = built["seconds"]
            print(
                f"features  {customers:>9,} customers {made['orders']:>10,.0f} orders {made['site']:>10,.0f} site rows"
                f"  {built['columns']:.0f} features  {built['seconds']:7.1f} s  peak {built['peak_gb']:.2f} GB  "
                f"(simulated and written in {made['seconds']:.1f} s, peak {made['peak_gb']:.2f} GB)",
                flush=True,
            )
        if len(sizes) > 1:
            growth = seconds[large] / seconds[small] / (large / small)
            print(f"growth    {growth:.2f} × linear from {small:,} to {large:,} customers")
        fitted = alone(train, Path(scratch) / str(sizes[-1]), sizes[-1])
        print(
            f"training  {fitted['rows']:>9,.0f} orders  {fitted['rows_per_s']:>12,.0f} rows/s  "
            f"peak {fitted['peak_gb']:.2f} GB"
        )
        run = alone(embed, Path(scratch) / str(sizes[-1]), embedded)
        for threads in (1, 2):
            ours, bare = run[f"seconds_{threads}"], run[f"bare_{threads}"]
            print(
                f"embedding {embedded:>9,} customers, {threads} thread{'s' if threads > 1 else ' '}"
                f"  {embedded / ours:>12,.0f} rows/s  {ours:.1f} s  bare products {embedded / bare:,.0f} rows/s, "
                f"which take 1/{ours / bare:.1f} of the time  peak {run['peak_gb']:.2f} GB"
            )


if __name__ == "__main__":
    main()
