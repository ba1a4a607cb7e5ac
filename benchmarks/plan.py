"""A plan from raw tables: `./run bench plan [--customers 5000000] [--quick]`.

A simulated shop with a context network is planned twice, each time in a process of its own: the first plan builds the
features, the second one of the same day starts from those that are kept. Shown are the seconds of each stage, the peak
of memory, and beside them what it takes to read the raw tables, or the kept features, once with Arrow.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

AS_OF = "2025-09-01"  # the day after the last simulated order
PLAN = {
    "campaign": "bench",
    "customers": {"table": "customers", "as_of": AS_OF},
    "depths": {str(depth / 100): {"at_most": "10%"} for depth in range(5, 45, 5)},
    "objective": {"revenue_weight": 3},
    "control": {"share": "10%"},
    "valid": {"from": AS_OF, "days": 14},
    "seed": 1,
}


def disco(*words: str) -> None:
    command = "from disco.entrypoints.cli import command; command()"
    subprocess.run([sys.executable, "-c", command, *words], check=True, stdout=subprocess.DEVNULL)


def read_once(folder: Path) -> float:
    """Seconds to read all Parquet files of a folder with Arrow."""
    import pyarrow.dataset as ds

    began = time.perf_counter()
    for file in sorted(folder.rglob("*.parquet")):
        for _ in ds.dataset(file).to_batches():
            pass
    return time.perf_counter() - began


def planned(folder: Path) -> tuple[str, dict[str, float], float]:
    """Plan id, seconds by stage, and the peak of this process's memory in GB."""
    from disco.entrypoints.python import Shop

    result = Shop.open(folder).plan(json.loads(json.dumps(PLAN)))
    return result.plan_id, dict(result.seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def show(folder: Path, customers: int) -> None:
    names = []
    for title, read in (("first plan", folder / "data"), ("second plan", folder / "artefacts" / "features")):
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            plan_id, seconds, peak = alone.apply(planned, (folder,))
        names.append(plan_id)
        total, limit = sum(seconds.values()), read_once(read)
        print(f"{title}: {customers:,} customers in {total:.1f} s, peak {peak:.2f} GB")
        print(f"  {read.name} read once with Arrow: {limit:.1f} s, so {total / limit:.1f} reads")
        for stage, took in seconds.items():
            print(f"  {stage:<24}{took:8.2f} s")
    print(f"both plans are the same: {names[0] == names[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench plan", description=__doc__)
    parser.add_argument("--customers", type=int, default=5_000_000)
    parser.add_argument("--quick", action="store_true", help="20,000 customers")
    asked = parser.parse_args()
    customers = 20_000 if asked.quick else asked.customers
    print(f"[load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors]")
    with TemporaryDirectory(prefix="disco-bench-") as name:
        folder = Path(name)
        (folder / "disco.yaml").write_text("data: data\n")
        disco("simulate", "--customers", str(customers), "--seed", "7", "-o", str(folder / "data"))
        small = folder / "small"  # the network does not need all of them
        disco("simulate", "--customers", str(min(customers, 20_000)), "--seed", "8", "-o", str(small))
        network = str(folder / "context.safetensors")
        disco("train", "context", "--tables", str(small), "--window-start", "2025-05-01", "-o", network)
        show(folder, customers)


if __name__ == "__main__":
    main()
