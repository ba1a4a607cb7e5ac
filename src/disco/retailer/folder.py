"""A simulated retailer in a folder: its tables, and what its customers buy when they get codes."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from pydantic import Field

from disco.records.cells import by_wall_clock
from disco.records.errors import InputError
from disco.records.files import written_whole
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.ports import Engine
from disco.records.result import Result
from disco.retailer import Retailer, RetailerSettings
from disco.retailer.simulation import STATE, TABLES, is_simulated


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SimulatedRetailer(Result):
    """The tables of a simulated retailer, written to a folder."""

    folder: str
    """The folder."""
    customers: int
    """Number of customers."""
    seed: int
    """Equal seeds and settings give equal files."""
    today: date
    """The day the retailer has reached: its tables end before it."""
    rows: Mapping[str, int]
    """Rows of each table."""
    written_bytes: int
    """Size of the tables together."""
    seconds: float
    """How long it took."""
    peak_memory_bytes: int | None
    """The most memory that the process has held so far; null where the system does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SimulatedResponse(Result):
    """What simulated customers did with a file of codes."""

    outcomes: str
    """The file of outcomes, ready for `disco ingest`."""
    purchases: int
    """Outcomes in it."""
    codes: int
    """Codes that were sent."""
    start: Annotated[date, Field(serialization_alias="from")]
    """The day the retailer had reached before."""
    today: date
    """The day it has reached now: the last code has expired."""
    appended: Mapping[str, int]
    """Rows added to each of the retailer's tables."""


def refuse_occupied(folder: Path, *, overwrite: bool = False) -> bool:
    """Refuse a folder that no simulated retailer may be written to; whether one was simulated there before."""
    if folder.exists() and not folder.is_dir():
        raise InputError(str(folder), found="a file", expected="a folder")
    simulated = is_simulated(folder)
    if simulated and not overwrite:
        fix = "Name another, or add --overwrite."
        raise InputError(str(folder), found="a simulated retailer", expected="an empty folder", fix=fix)
    if os.path.lexists(folder / STATE) and not simulated:
        fix = "Name another folder with -o, or move the file away."
        raise InputError(f"{folder / STATE} was not written by disco simulate, and would be replaced", fix=fix)
    return simulated


def written_files(folder: Path) -> list[Path]:
    """The files that `simulate` writes there."""
    return [*(folder / f"{name}.parquet" for name in TABLES), folder / STATE]


def simulate(
    settings: RetailerSettings,
    folder: Path,
    *,
    replaced: Sequence[Path] = (),
    engine: Engine | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> SimulatedRetailer:
    """Write the tables of a simulated retailer, block by block of customers, in bounded memory.

    replaced: files that its tables take the place of. engine: what spreads the blocks over threads; None: one thread.
    The files are the same. progress: called with (blocks written, blocks).
    """
    started = time.perf_counter()
    shop, done = Retailer.simulate(settings), 0

    def after_block() -> None:
        nonlocal done
        done += 1
        progress(done, shop.blocks)

    shop.write(folder, engine=engine, after_block=after_block)
    for path in replaced:
        path.unlink()
    tables = {name: folder / f"{name}.parquet" for name in TABLES}
    return SimulatedRetailer(
        folder=str(folder),
        customers=settings.customers,
        seed=settings.seed,
        today=shop.today,
        rows={name: pq.read_metadata(path).num_rows for name, path in tables.items()},
        written_bytes=sum(path.stat().st_size for path in tables.values()),
        seconds=round(time.perf_counter() - started, 3),
        peak_memory_bytes=_peak_memory(),
    )


def _peak_memory() -> int | None:
    """Bytes; None on a system that does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def respond(folder: Path, codes: pa.Table, *, out: Path, locale: Locale = POUNDS_UTC) -> SimulatedResponse:
    """Let the simulated customers answer these codes, and live on until the last of them has expired.

    out: FILE.csv, or a Parquet file of any other name. locale: of the shop; simulated times are those of its clock.
    """
    for name in ("sent_at", "expires_at"):
        if name in codes.column_names:
            place = codes.column_names.index(name)
            codes = codes.set_column(place, name, by_wall_clock(codes[name], locale))
    response = Retailer.load(folder).respond(codes)
    # outcomes first: if the rest is interrupted, the same command gives the same outcomes again
    with written_whole(out) as unfinished:
        if out.suffix.lower() == ".csv":
            pacsv.write_csv(response.outcomes, unfinished)
        else:
            pq.write_table(response.outcomes, unfinished)
    response.append_to(folder)
    return SimulatedResponse(
        outcomes=str(out),
        purchases=response.outcomes.num_rows,
        codes=response.codes.num_rows,
        start=response.start,
        today=response.end,
        appended={name: table.num_rows for name, table in response.tables().items()},
    )
