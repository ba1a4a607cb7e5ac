"""A new file for one of a shop's tables: judged beside the others, and then put in the place of the old one."""

import os
import shutil
from datetime import date
from pathlib import Path

from disco.adapters.tables.folder import FolderTables
from disco.records.errors import TableError
from disco.records.files import written_whole
from disco.records.private import private_folder, temporary_folder
from disco.records.table_format import TableFormat
from disco.records.tables import SCHEMAS
from disco.records.validation import TablesReport, validate


def replace_table(folder: Path, name: str, file: Path, *, written: TableFormat, as_of: date) -> TablesReport:
    """Let this file be the table; TableError with every problem where it cannot be, and the old one stays.

    file: ends in .parquet or .csv. Problems of other tables that were there before are no reason to refuse it; what
    refers to rows that are gone now is reported by the next `validate`.
    """
    with temporary_folder("table") as scratch:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name.split(".")[0] in SCHEMAS and path.name.split(".")[0] != name:
                (scratch / path.name).symlink_to(path.resolve())
        (scratch / f"{name}{file.suffix}").symlink_to(file.resolve())
        tables = FolderTables(scratch, written=written)
        report = validate([tables.source(one) for one in tables.names()], as_of=as_of)
    ours = tuple(problem for problem in report.problems if Path(problem.file).name.split(".")[0] == name)
    if ours:
        raise TableError(f"The table {name} was not replaced:", ours)
    private_folder(folder)
    target = folder / f"{name}{file.suffix}"
    with written_whole(target) as partial:
        shutil.copyfile(file, partial)
    for other in (f"{name}.parquet", f"{name}.csv", name):  # of another kind; the same table must not be there twice
        path = folder / other
        if path != target and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != target and os.path.lexists(path):
            path.unlink()
    return TablesReport({name: report.rows[name]}, (), report.warnings)
