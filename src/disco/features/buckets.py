"""The customers of a large shop in buckets: consecutive ones by id, measured one bucket after the other.

The rows of every table are read once and laid aside by the bucket of their customer, so memory holds the rows of one
bucket. Each customer has a number, their place in the order of ids, which stands for the id from then on.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from disco.features.sources import Scope, Sources
from disco.records.progress import Report, tell

BUCKET_CUSTOMERS = 131_072  # their rows of a year take a few hundred megabytes
_MOST_BUCKETS = 512  # files that are open at once
_STREAMING_BYTES, _LEAST_BYTES = 3 << 30, 256 << 20
_GATHERED_ROWS = 1 << 20  # sorted by bucket at a time
_READ_ROWS = 1 << 17
_SCOPE = Scope(
    people="(SELECT customer_id, joined_on, place FROM bucket_people) c",
    customer_id="c.customer_id",
    key="c.place",
    rows=lambda source: f"SELECT * FROM bucket_{source}",
)


def streaming_memory() -> str:
    """The memory that DuckDB gets for buckets, as it writes sizes: 3 GB, or half of what the machine has.

    Beyond it rows spill to the temporary folder. A larger limit is hardly faster.
    """
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(min(_STREAMING_BYTES, there // 2), _LEAST_BYTES) >> 20}MiB"


@dataclass(frozen=True, slots=True)
class Buckets:
    """How customers are divided; the connection has them as the table `people`."""

    customers: int
    size: int
    """Customers of a bucket; the last one may have fewer."""

    @classmethod
    def of(cls, connection: Any, sources: Sources, size: int) -> "Buckets | None":
        """None where all customers fit into one bucket."""
        ((rows,),) = connection.execute("SELECT count(*) FROM raw_customers").fetchall()
        if rows <= size:
            return None
        connection.execute(
            f"""CREATE TEMP TABLE people AS
                SELECT *, CAST(row_number() OVER (ORDER BY customer_id) - 1 AS BIGINT) AS place
                FROM (SELECT {sources.cell("customers", "customer_id", "c")} AS customer_id, c.joined_on,
                             {sources.key("customer", "customers", "c")} AS key
                      FROM raw_customers c WHERE {sources.within("joined_on", days=None, alias="c")})"""
        )
        ((customers,),) = connection.execute("SELECT count(*) FROM people").fetchall()
        return cls(customers, max(size, -(-customers // _MOST_BUCKETS)))

    @property
    def count(self) -> int:
        return -(-self.customers // self.size)

    @property
    def scope(self) -> Scope:
        """What the program reads while a bucket is open."""
        return _SCOPE

    def scatter(
        self, connection: Any, sources: Sources, names: Sequence[str], folder: Path, report: Report | None
    ) -> None:
        """Lay the rows of these sources aside, a file in the folder per source and bucket."""
        for done, name in enumerate(names):
            tell(report, done, len(names), f"reading {name}")
            rows = connection.sql(
                f"""SELECT people.place AS customer, s.* EXCLUDE (customer)
                    FROM ({sources.rows(name)}) s JOIN people ON people.key = s.customer"""
            ).to_arrow_reader(_READ_ROWS)
            self._scatter(rows, folder, name)

    def _scatter(self, rows: Any, folder: Path, name: str) -> None:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with ExitStack() as stack:
            writers = []
            for number in range(self.count):
                file = stack.enter_context(pa.OSFile(str(_file(folder, name, number)), "wb"))
                writers.append(stack.enter_context(pa.ipc.new_file(file, rows.schema, options=options)))
            for gathered in _gathered(rows):
                of_row = (gathered["customer"].to_numpy() // self.size).astype(np.uint16)
                order = np.argsort(of_row, kind="stable")
                ends = np.searchsorted(of_row[order], np.arange(self.count + 1))
                sorted_rows = gathered.take(pa.array(order))
                for number in np.flatnonzero(np.diff(ends)).tolist():
                    writers[number].write_table(sorted_rows.slice(ends[number], ends[number + 1] - ends[number]))

    def open(self, connection: Any, number: int, folder: Path) -> None:
        """Put the customers of a bucket and their rows where `scope` names them; their files are not needed again."""
        first = number * self.size
        connection.execute(
            f"""CREATE OR REPLACE TEMP TABLE bucket_people AS
                SELECT * FROM people WHERE place >= {first} AND place < {first + self.size}"""
        )
        for file in sorted(folder.glob(f"*-{number}.arrow")):
            with pa.memory_map(str(file)) as content, pa.ipc.open_file(content) as reader:
                connection.register(f"bucket_{file.stem.partition('-')[0]}", reader.read_all())
            file.unlink()


def _file(folder: Path, source: str, number: int) -> Path:
    return folder / f"{source}-{number}.arrow"


def _gathered(batches: Any) -> Iterator[pa.Table]:
    """The rows in larger tables of one piece."""
    held, rows = [], 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _GATHERED_ROWS:
            yield pa.Table.from_batches(held).combine_chunks()
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held).combine_chunks()
