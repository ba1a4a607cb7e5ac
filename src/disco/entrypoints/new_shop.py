"""A new shop: commented settings, a campaign plan and an example of every table."""

import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from disco.records.errors import InputError
from disco.records.files import new_file_mode, private_folder, unfinished_folder
from disco.records.result import Result

TEMPLATES = Path(__file__).parent / "cli" / "templates"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewShop(Result):
    """The files of a new shop."""

    shop: str
    """The folder."""
    files: tuple[str, ...]
    """What was written there, seen from the folder."""


def create_shop(folder: Path) -> NewShop:
    """Fill a folder with disco.yaml, plan.yaml, data/ and lists/; if one of them is there already, write nothing."""
    names = sorted(path.name for path in TEMPLATES.iterdir())
    _refuse_to_overwrite(folder, names)
    _write(folder, names)
    files = sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*") if path.is_file())
    return NewShop(shop=str(folder), files=tuple(files))


def create_with_tables(folder: Path, tables: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """disco.yaml with these settings, and the tables in data/; TableError with every problem, which writes nothing."""
    import pyarrow.parquet as pq
    import yaml

    from disco.adapters.config import FILE, load_settings
    from disco.adapters.tables import open_tables, validate_tables
    from disco.adapters.tables.columns import ArrowSource
    from disco.records.frames import as_arrow
    from disco.records.tables import PLAIN, SCHEMAS

    _refuse_to_overwrite(folder, [FILE, "data"])
    for name in tables:
        if not re.fullmatch(r"[\w-]+", str(name)):
            expected = "names of letters, digits, _ and -"
            raise InputError("tables", found=repr(name), expected=expected)
    with ExitStack() as undo:
        if not folder.exists():
            private_folder(folder)
            undo.callback(folder.rmdir)
        with unfinished_folder(folder) as aside:
            (aside / FILE).write_text(yaml.safe_dump({"holdout": {"lasting": True}, **settings}, sort_keys=False))
            data = aside / "data"
            private_folder(data)
            for name, frame in tables.items():
                kind = name if name in SCHEMAS else "file"
                source = ArrowSource(kind, as_arrow(frame, where=f"table {name}"), file=name, written=PLAIN)
                pq.write_table(source.table, data / f"{name}.parquet")
            with open_tables(data, written=load_settings(aside).written) as opened:
                report = validate_tables(opened, as_of=date.max)
            report.raise_if_any("The tables cannot be used:")
            for path in aside.rglob("*"):
                path.chmod(0o700 if path.is_dir() else new_file_mode(aside))
            data.rename(folder / "data")
            (aside / FILE).rename(folder / FILE)
        undo.pop_all()


def _refuse_to_overwrite(shop: Path, names: list[str]) -> None:
    fix = "Name another folder, or move the old files away."
    if shop.exists() and not shop.is_dir():
        raise InputError(str(shop), found="a file", expected="a folder", fix=fix)
    there = [name for name in names if (shop / name).exists()]
    if there:
        raise InputError(f"{shop} already has {', '.join(there)}, and nothing is overwritten", fix=fix)


def _write(shop: Path, names: list[str]) -> None:
    """All or nothing: everything is written aside, then moved into place; what fails undoes what went before."""

    def remove(path: Path) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    try:
        with ExitStack() as undo:
            for folder in reversed([folder for folder in (shop, *shop.parents) if not folder.exists()]):
                private_folder(folder)
                undo.callback(folder.rmdir)
            with unfinished_folder(shop) as aside:
                for name in names:
                    template = TEMPLATES / name
                    if template.is_dir():
                        shutil.copytree(template, aside / name, copy_function=shutil.copyfile)
                    else:
                        shutil.copyfile(template, aside / name)
                for path in aside.rglob("*"):  # the settings may get a password, and data/ real customers
                    path.chmod(0o700 if path.is_dir() else new_file_mode(aside))
                for name in names:
                    (aside / name).rename(shop / name)
                    undo.callback(remove, shop / name)
            undo.pop_all()
    except OSError as error:
        # copytree goes on after an error and lists them all: source, copy, reason
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror or str(error)
        raise InputError(str(shop), found=reason, expected="a folder that can be written") from error
