"""A campaign's life at size: `./run bench campaigns [PART …] [--quick] [--database sqlite]`.

life      a million decisions launched and a million outcomes ingested, on SQLite and on PostgreSQL, beside the
          rows and two indexes written by the driver alone, and beside a file of them with sorted keys
refunds   300,000 outcomes, four in five of them refunds, beside the rows and two indexes written by the driver alone
second    a million outcomes into a ledger of ten million, of which one million is the campaign's own, beside the same
          into an empty ledger; and the results of that campaign as of an early day and as of its last
revert    ten batches, the sixth poisoned (× 100): taken back, against a run that never saw it, bit for bit
lookup    one customer's decision among five million, and its explanation
decide    five million customers × eight depths, from stored contexts to a written Parquet of decisions

Every measurement has a process of its own, so its peak of memory is its own (a server's is not in it). Databases lie in
the temporary folder; the PostgreSQL server is a fresh one with its default settings.
"""

import argparse
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from _campaign_jobs import (
    DEPTHS,
    Stage,
    decide_all,
    fill_contexts,
    life,
    lookup,
    machine_limits,
    refunds,
    revert,
    second,
)

DATABASES = ("sqlite", "postgresql")


def alone(job: Callable[..., Any], *arguments: Any) -> Any:
    """The job in a fresh process."""
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(1) as pool:
        return pool.apply(job, arguments)


@contextmanager
def database(kind: str) -> Iterator[str]:
    from trial_server import trial_server

    if kind == "sqlite":
        with TemporaryDirectory(prefix="disco-bench-") as folder:
            yield f"sqlite:///{folder}/campaigns.db"
    else:
        with trial_server() as server:
            server.execute("CREATE DATABASE campaigns")
            yield server.url("campaigns")


# ---- what is shown ----


def show_stages(title: str, stages: list[Stage], peak: float) -> None:
    print(f"{title} (peak {peak:.2f} GB)")
    for stage in stages:
        rate = stage.amount / stage.seconds
        print(
            f"  {stage.name:<24}{stage.seconds:8.2f} s ({stage.processor_seconds:.2f} of it ours) {rate:>12,.0f} rows/s"
        )


def show_life(rows: int, kinds: Sequence[str]) -> None:
    for kind in kinds:
        with database(kind) as url:
            stages, peak = alone(life, url, rows)
        show_stages(f"life, {kind}: {rows:,} decisions, {rows:,} outcomes", stages, peak)


def show_refunds(rows: int, kinds: Sequence[str]) -> None:
    for kind in kinds:
        with database(kind) as url:
            stages, peak = alone(refunds, url, rows)
        show_stages(f"refunds, {kind}: {rows:,} outcomes, four in five of them refunds", stages, peak)
        clock, ours = (getattr(stages[0], each) / getattr(stages[1], each) for each in ("seconds", "processor_seconds"))
        print(f"  {clock:.1f} times as long as the driver alone, {ours:.1f} times its processor time")


def show_second(rows: int, kinds: Sequence[str]) -> None:
    for kind in kinds:
        with database(kind) as url:
            stages, peak = alone(second, url, rows)
        show_stages(f"second, {kind}: {rows:,} outcomes into {10 * rows:,}", stages, peak)
        ratio = stages[2].seconds / stages[0].seconds
        print(f"  the second of its own took {ratio:.2f} times as long as into an empty ledger")


def show_revert(rows: int, kinds: Sequence[str]) -> None:
    for kind in kinds:
        with database(kind) as url:
            stages, peak, evidence = alone(_poisoned, url, rows)
        with database("sqlite") as url:
            _, _, without = alone(_unpoisoned, url, rows)
        show_stages(f"revert, {kind}: {rows:,} outcomes in ten batches", stages, peak)
        print(f"  evidence equal to a run without the batch, bit for bit: {evidence == without}")


def _poisoned(url: str, rows: int) -> Any:
    return revert(url, rows, poisoned=True)


def _unpoisoned(url: str, rows: int) -> Any:
    return revert(url, rows, poisoned=False)


def show_lookup(rows: int, kinds: Sequence[str]) -> None:
    for kind in kinds:
        with database(kind) as url:
            took, filled = alone(lookup, url, rows)
        print(f"lookup, {kind}: one customer among {rows:,} (planned and launched in {filled:.0f} s)")
        for question, each in took.items():
            clock, processors = zip(*each, strict=True)
            worst = statistics.quantiles(clock, n=100)[98]
            print(
                f"  {question:<24}median {statistics.median(clock):.2f} ms ({statistics.median(processors):.2f} of it "
                f"ours), 99% within {worst:.2f} ms"
            )


def show_decide(rows: int, kinds: Sequence[str]) -> None:
    with TemporaryDirectory(prefix="disco-bench-") as folder:
        memory, disk = machine_limits(folder)
        url = f"sqlite:///{folder}/contexts.db"
        alone(fill_contexts, url, rows)
        stages, peak = alone(decide_all, url, rows, f"{folder}/decisions.parquet")
    total = sum(stage.seconds for stage in stages)
    print(f"decide: {rows:,} customers × {len(DEPTHS)} depths: {total:.1f} s, peak {peak:.2f} GB")
    print(f"  limits of this machine now: memory {memory / 1e9:.1f} GB/s read, disk {disk / 1e9:.2f} GB/s written")
    for stage, limit in zip(stages, (memory, memory, memory, disk), strict=True):
        moved = f"{stage.amount / 1e6:,.0f} MB at the limit: {stage.amount / limit:.2f} s"
        print(f"  {stage.name:<24}{stage.seconds:8.2f} s ({stage.processor_seconds:.2f} of processors)   {moved}")


PARTS = {"life": (show_life, 10**6), "revert": (show_revert, 10**6), "lookup": (show_lookup, 5 * 10**6)}
PARTS["refunds"], PARTS["second"] = (show_refunds, 300_000), (show_second, 10**6)
PARTS["decide"] = (show_decide, 5 * 10**6)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench campaigns", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the size")
    parser.add_argument("--database", action="append", choices=DATABASES, help="default: both")
    asked = parser.parse_args()
    for name in asked.parts or PARTS:
        if name not in PARTS:
            parser.error(f"found the part '{name}'; expected some of: {', '.join(PARTS)}")
        show, rows = PARTS[name]
        print(f"[load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors]")
        show(rows // 20 if asked.quick else rows, asked.database or DATABASES)


if __name__ == "__main__":
    main()
