"""A simulated retailer in a folder: one TABLE.parquet each, and retailer.json with its settings and its day.

retailer.json is always replaced last. Rows dated on or after its day are what an interrupted `move_on` left behind:
every reader here drops them, so running the same step again gives the same folder.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disco.records.errors import FileFormatError, InputError
from disco.records.files import written_whole
from disco.retailer.life import DAY
from disco.retailer.season import day_number
from disco.retailer.settings import FORMAT, RetailerSettings
from disco.retailer.shop import Response, Retailer
from disco.retailer.tables import DATED_BY, INSTANT, SCHEMAS

STATE = "retailer.json"
TABLES = ("customers", *DATED_BY)
_UNFINISHED = "unfinished"


def write(shop: Retailer, folder: Path, *, after_block: Callable[[], None] = lambda: None) -> None:
    """All tables up to today, streamed block by block; a table appears whole or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(folder), found=error.strerror, expected="a folder that can be written") from None
    with _replacing(folder, TABLES) as writers:
        for block in shop.history():
            for name, rows in block.items():
                writers[name].write_table(rows)
            after_block()
        for name, rows in shop.lived.items():
            if rows.num_rows:
                writers[name].write_table(rows)
        # if the replacing is interrupted, this is no shop at all, rather than half of two; and it is known to be ours
        _write_json(folder / STATE, {"format": FORMAT, _UNFINISHED: True})
    _write_state(shop, folder)


def is_simulated(folder: Path) -> bool:
    """Whether the folder's tables were written here, finished or not."""
    state = _read_json(folder / STATE)
    return "format" in state and ("settings" in state or _UNFINISHED in state)


def load(folder: Path) -> Retailer:
    """The shop that a folder holds, on the day it has reached."""
    settings, today = _read_state(folder)
    history_end = settings.calendar.history_end
    lived = {}
    for name, column in DATED_BY.items():
        since = pc.field(column) >= _moment(column, history_end)
        until = pc.field(column) < _moment(column, today)
        with _whole(folder, name) as path:
            if not pq.read_schema(path).equals(SCHEMAS[name]):
                raise ValueError("columns or types of another table")
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
    writers: dict[str, pq.ParquetWriter] = {}
    with ExitStack() as files:
        for name in names:
            path = files.enter_context(written_whole(folder / f"{name}.parquet"))
            writers[name] = files.enter_context(pq.ParquetWriter(path, SCHEMAS[name]))
        yield writers
        for writer in writers.values():
            writer.close()


def _write_state(shop: Retailer, folder: Path) -> None:
    state = {"format": FORMAT, "today": shop.today.isoformat(), "settings": json.loads(shop.settings.to_json())}
    _write_json(folder / STATE, state)


def _read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; nothing where there is none, or something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _read_state(folder: Path) -> tuple[RetailerSettings, date]:
    path = folder / STATE
    if not path.is_file():
        raise InputError(
            str(path), found="no such file", expected="a folder made by disco simulate", fix="Run disco simulate first."
        )
    if _UNFINISHED in _read_json(path):
        what = f"The simulation in {folder} was interrupted before all its tables were written"
        raise InputError(what, fix="Run disco simulate again, with --overwrite.")
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
