"""Allocation of a table in chunks, larger than memory: seconds per pass, bytes brought here, and memory.

    python benchmarks/chunks.py 1000000 10000000 [--depths 8] [--budget] [--memory-gb 8] [--threads 2] [--folder DIR]

The table is made chunk by chunk from a counter, the same on every machine, and kept in the folder. Each size runs in a
process of its own, whose memory is limited where `--memory-gb` says so; the largest resident memory is reported.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_FILE_ROWS = 1_000_000


def make(folder: Path, customers: int, depths: int, *, costs: bool) -> None:
    """Files of a million customers: float32 values, and costs, from their number alone."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{depth:.3f}".rstrip("0") for depth in np.linspace(0.05, 0.4, depths)]
    depth = np.array([float(name) for name in names], np.float32)
    for number, start in enumerate(range(0, customers, _FILE_ROWS)):
        path = folder / f"{number:05}.parquet"
        if path.is_file():
            continue
        rows = min(_FILE_ROWS, customers - start)
        rng = np.random.default_rng([7, number])
        basket = rng.gamma(3.0, 12.0, (rows, 1)).astype(np.float32)
        basket = basket * np.exp(rng.gamma(2.0, 0.3, (rows, 1)).astype(np.float32) * depth)
        basket *= np.exp(0.1 * rng.standard_normal((rows, depths), np.float32))
        values = 3.0 * basket * (1.0 - depth) * (0.2 + depth) - basket * depth
        columns: dict[str, Any] = {"customer_id": np.arange(start, start + rows)}
        columns |= {name: values[:, at].astype(np.float32) for at, name in enumerate(names)}
        if costs:
            columns |= {f"cost_{name}": (basket[:, at] * depth[at]) for at, name in enumerate(names)}
        partial = path.with_suffix(".unfinished")
        pq.write_table(pa.table(columns), partial, row_group_size=1 << 17, use_dictionary=False, compression="none")
        partial.rename(path)


def measure(folder: Path, customers: int, depths: int, *, budget: bool, threads: int | None, master: str | None) -> Any:
    """One allocation: survey to written decisions."""
    from disco import LocalEngine, allocate_table
    from disco.allocation.allocate import _Run

    seconds: list[tuple[str, float]] = []
    fold = _Run._fold

    def timed(self: Any, function: Any, add: Any) -> Any:
        start = time.perf_counter()
        found = fold(self, function, add)
        seconds.append((type(function).__name__, round(time.perf_counter() - start, 3)))
        return found

    _Run._fold = timed  # type: ignore[method-assign]
    engine: Any = LocalEngine() if threads is None else LocalEngine(threads=threads)
    if master is not None:
        from disco.adapters.engines import SparkEngine

        engine = SparkEngine(master=master)
    begun = _processor_seconds()
    caps = (customers * 0.8 * np.linspace(2.0, 0.2, depths) / depths / 1.1).astype(int).tolist()
    start = time.perf_counter()
    table = engine.table(folder)
    found = allocate_table(table, caps, budget=0.55 * 2.1 * customers if budget else None)
    solved = time.perf_counter() - start
    assert found.decisions is not None
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        start = time.perf_counter()
        found.decisions.write(Path(place) / "codes")
        wrote = time.perf_counter() - start
    return {
        "customers": customers,
        "depths": depths,
        "budget": budget,
        "engine": master or f"local, {engine.threads} threads",
        "status": found.status.name,
        "gap": found.proof.gap,
        "counts": found.proof.counts.tolist(),
        "cost": found.proof.cost,
        "passes": found.passes,
        "seconds_per_pass": seconds,
        "seconds_solve_and_check": round(solved, 2),
        "seconds_write": round(wrote, 2),
        "seconds": round(solved + wrote, 2),
        "microseconds_per_customer": round((solved + wrote) / customers * 1e6, 3),
        "collected_mb": round(found.collected_bytes / 1e6, 1),
        "processor_seconds": round(_processor_seconds() - begun, 1),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def _processor_seconds() -> float:
    """Of this process: on a machine that does other things as well, steadier than the clock."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("customers", type=int, nargs="+")
    parser.add_argument("--depths", type=int, default=8)
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--memory-gb", type=float, help="address space of the process, at most")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--master", help="measure Spark at this master")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "disco-chunks")
    parser.add_argument("--only-make", action="store_true", help="make the tables and measure nothing")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    for customers in given.customers:
        folder = given.folder / f"{customers}x{given.depths}{'-costs' if given.budget else ''}"
        if not given.here:
            make(folder, customers, given.depths, costs=given.budget)
        if given.only_make:
            continue
        if given.here:
            if given.memory_gb is not None:
                most = int(given.memory_gb * 2**30)
                resource.setrlimit(resource.RLIMIT_AS, (most, most))
            found = measure(
                folder, customers, given.depths, budget=given.budget, threads=given.threads, master=given.master
            )
            print(json.dumps(found), flush=True)
            continue
        others = [one for one in sys.argv[1:] if not one.isdigit() or int(one) not in given.customers]
        subprocess.run([sys.executable, __file__, str(customers), *others, "--here"], check=True)


if __name__ == "__main__":
    main()
