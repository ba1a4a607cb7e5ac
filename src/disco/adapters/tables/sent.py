"""A file that was sent to the service: its columns and rows are counted before anything reads it."""

from pathlib import Path

from disco.adapters.tables.csv import check_lines
from disco.adapters.tables.file_errors import readable
from disco.adapters.tables.parquet import check_sizes


def check_sent(path: Path, *, most_rows: int, file: str = "body") -> None:
    """Refuse a file of more rows; its columns are counted by whoever reads it. file: what messages call it.

    Whoever runs the machine may put larger files into the shop's folder, and read them by the command line.
    """
    if path.suffix.lower() == ".csv":
        check_lines(file, path, most_rows=most_rows)
        return
    with readable(file, expected="a complete Parquet file", fix="Write the file again."):
        check_sizes(file, path, most_rows=most_rows)
