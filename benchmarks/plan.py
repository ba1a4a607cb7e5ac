"""A plan from raw tables: `./run bench plan [--customers 5000000] [--shop FOLDER] [--only first|second] [--quick]`.

Two campaigns of one day are planned for a simulated shop with a context network, each in a process of its own: the
first plan builds the features, the second one starts from those that are kept. Shown are the seconds of each stage, on
the clock and of processors, the peak of memory, and what it takes to read the raw tables, or what the second plan
reads, once with Arrow.

A shop of five million takes minutes to simulate: with --shop it is made once and stays there. The first plan then
removes what earlier plans kept.
"""

import argparse
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

AS_OF = "2025-09-01"  # the day after the last simulated order
PLAN = {
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


def make_shop(folder: Path, customers: int) -> None:
    """The tables of a retailer, and a network that was trained on a smaller one: it does not need all customers."""
    settings, network = folder / "disco.yaml", folder / "context.safetensors"
    if network.exists():
        return
    settings.write_text("data: data\n")
    small = folder / "small"
    for place, rows, seed in ((folder / "data", customers, "7"), (small, min(customers, 20_000), "8")):
        disco("simulate", "--customers", str(rows), "--seed", seed, "-o", str(place), "--overwrite")
    disco("train", "context", "--tables", str(small), "--window-start", "2025-05-01", "-o", str(network))


def read_once(folders: Sequence[Path]) -> float:
    """Seconds to read all Parquet files of these folders with Arrow."""
    import pyarrow.dataset as ds

    began = time.perf_counter()
    for file in sorted(file for folder in folders for file in folder.rglob("*.parquet")):
        for _ in ds.dataset(file).to_batches():
            pass
    return time.perf_counter() - began


def planned(folder: Path, campaign: str) -> tuple[str, dict[str, tuple[float, float]], float]:
    """The hash of the features, seconds by stage (clock, processors), and the peak of this process's memory in GB."""
    from disco.entrypoints.python import Shop
    from disco.records.chunks import Stages

    of_processors = Stages(clock=time.process_time)
    result = Shop.open(folder).plan({**PLAN, "campaign": campaign}, report=of_processors)
    processors = of_processors.seconds()
    seconds = {stage: (clock, processors[stage]) for stage, clock in result.seconds.items()}
    return result.inputs["features"], seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def show(folder: Path, title: str, reads: Sequence[Path]) -> str:
    with multiprocessing.get_context("spawn").Pool(1) as alone:
        features, seconds, peak = alone.apply(planned, (folder, title))
    clock, processors = (sum(each) for each in zip(*seconds.values(), strict=True))
    limit = read_once(reads)
    print(f"{title} plan: {clock:.1f} s ({processors:.1f} of processors), peak {peak:.2f} GB")
    names = " and ".join(read.name for read in reads)
    print(f"  {names} read once with Arrow: {limit:.1f} s, so {clock / limit:.1f} reads")
    for stage, (took, ours) in seconds.items():
        print(f"  {stage:<24}{took:8.2f} s ({ours:.2f})", flush=True)
    return features


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench plan", description=__doc__)
    parser.add_argument("--customers", type=int, default=5_000_000)
    parser.add_argument("--shop", type=Path, help="where the shop is made, or was made before, and stays")
    parser.add_argument("--only", choices=("first", "second"), help="the second needs a first one before it (--shop)")
    parser.add_argument("--quick", action="store_true", help="20,000 customers")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="disco-bench-") as name:
        folder = asked.shop or Path(name)
        folder.mkdir(exist_ok=True)
        make_shop(folder, 20_000 if asked.quick else asked.customers)
        kept = folder / "artefacts"
        rows = pq.read_metadata(folder / "data" / "customers.parquet").num_rows
        print(f"{rows:,} customers [load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors]", flush=True)
        features = []
        if asked.only != "second":
            for cache in ("features", "contexts"):
                shutil.rmtree(kept / cache, ignore_errors=True)
            features.append(show(folder, "first", [folder / "data"]))
        if asked.only != "first":
            features.append(show(folder, "second", [kept / "features", kept / "contexts"]))
        if len(features) == 2:
            print(f"both plans have the same features: {features[0] == features[1]}")


if __name__ == "__main__":
    main()
