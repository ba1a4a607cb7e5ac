"""A simulated retailer in a folder: one TABLE.parquet each, and retailer.json with its settings and its day.

retailer.json is always replaced last. Rows dated on or after its day are what an interrupted `move_on` left behind:
every reader here drops them, so running the same step again gives the same folder.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disco.records.errors import FileFormatError, InputError
from disco.retailer.life import DAY
from disco.retailer.season import day_number
from disco.retailer.settings import FORMAT, RetailerSettings
from disco.retailer.shop import Response, Retailer
from disco.retailer.tables import DATED_BY, INSTANT, SCHEMAS

STATE = "retailer.json"
_TABLES = ("customers", *DATED_BY)


def write(shop: Retailer, folder: Path, *, after_block: Callable[[], None] = lambda: None) -> None:
    """All tables up to today, streamed block by block; a table appears whole or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(folder), found=error.strerror, expected="a folder that can be written") from None
    (folder / STATE).unlink(missing_ok=True)  # an interrupted rewrite is then no shop at all, rather than half of two
    with _replacing(folder, _TABLES) as writers:
        for block in shop.history():
            for name, rows in block.items():
                writers[name].write_table(rows)
            after_block()
        for name, rows in shop.lived.items():
            if rows.num_rows:
                writers[name].write_table(rows)
    _write_state(shop, folder)


def load(folder: Path) -> Retailer:
    """The shop that a folder holds, on the day it has reached."""
    settings, today = _read_state(folder)
    history_end = settings.calendar.history_end
    lived = {}
    for name, column in DATED_BY.items():
        since = pc.field(column) >= _moment(column, history_end)
        until = pc.field(column) < _moment(column, today)
        with _whole(folder, name) as path:
            lived[name] = pq.read_table(path, schema=SCHEMAS[name], filters=since & until)
    return Retailer(settings, today, lived)


def move_on(folder: Path, response: Response) -> None:
    """Append a period's rows to the folder's tables, and its day to retailer.json."""
    settings, today = _read_state(folder)
    if (settings, today) != (response.shop.settings, response.start):
        raise InputError(
            str(folder), found=f"a shop on {today}", expected=f"the one that answered, on {response.start}"
        )
    with _replacing(folder, tuple(DATED_BY)) as writers:
        for name, rows in response.tables().items():
            column = DATED_BY[name]
            with _whole(folder, name) as path, pq.ParquetFile(path) as old:
                for place in range(old.num_row_groups):
                    group = old.read_row_group(place)
                    writers[name].write_table(group.filter(pc.less(group[column], _moment(column, today))))
            writers[name].write_table(rows)
    _write_state(response.shop, folder)


@contextmanager
def _replacing(folder: Path, names: tuple[str, ...]) -> Iterator[dict[str, pq.ParquetWriter]]:
    """Writers to temporary files, which take their tables' places once all of them are complete."""
    paths = {name: folder / f".{name}.parquet.{os.getpid()}" for name in names}
    writers: dict[str, pq.ParquetWriter] = {}
    try:
        for name, path in paths.items():
            writers[name] = pq.ParquetWriter(path, SCHEMAS[name])
        yield writers
        for writer in writers.values():
            writer.close()
        for name, path in paths.items():
            path.replace(folder / f"{name}.parquet")
    finally:
        for name, path in paths.items():
            if name in writers:
                writers[name].close()
            path.unlink(missing_ok=True)


def _write_state(shop: Retailer, folder: Path) -> None:
    state = {"format": FORMAT, "today": shop.today.isoformat(), "settings": json.loads(shop.settings.to_json())}
    path = folder / f".{STATE}.{os.getpid()}"
    path.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
    path.replace(folder / STATE)


def _read_state(folder: Path) -> tuple[RetailerSettings, date]:
    path = folder / STATE
    if not path.is_file():
        raise InputError(
            str(path), found="no such file", expected="a folder made by disco simulate", fix="Run disco simulate first."
        )
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        found, today, settings = state["format"], date.fromisoformat(state["today"]), json.dumps(state["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            str(path), found=f"{type(error).__name__}: {error}", expected="format, today and settings"
        ) from None
    if found != FORMAT:
        raise FileFormatError(str(path), found=f"format {found}", expected=f"format {FORMAT}", fix="Simulate it anew.")
    return RetailerSettings.from_json(settings), today


@contextmanager
def _whole(folder: Path, name: str) -> Iterator[Path]:
    """The file of a table; one that is absent, damaged or of other columns is refused by name."""
    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="the tables beside retailer.json")
    try:
        yield path
    except (pa.ArrowException, ValueError) as error:
        found = str(error).splitlines()[0]
        raise FileFormatError(str(path), found=found, expected="the table as disco simulate wrote it") from None


def _moment(column: str, day: date) -> pa.Scalar:
    """Midnight of a day, or the day itself, as the column's type has it."""
    if column == DATED_BY["site"]:
        return pa.scalar(day, pa.date32())
    return pa.scalar(day_number(day) * DAY, pa.int64()).cast(INSTANT)
