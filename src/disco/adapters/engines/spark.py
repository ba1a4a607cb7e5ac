"""The Spark engine: chunks and tables on a cluster, or on this machine's own Spark."""

from __future__ import annotations

import math
import os
import pickle  # nosec B403
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from disco.adapters.engines import spark_tasks as tasks
from disco.adapters.engines.local import LocalEngine
from disco.adapters.engines.local_table import ChunkFunction, most_rows, parts_of, without_bucket
from disco.adapters.engines.spark_tasks import carried, spare_modules, uncarried
from disco.records import DISTRIBUTION
from disco.records.arguments import kind_of
from disco.records.errors import InputError, MissingPartError
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.manifest import TableManifest, folder_written_whole, parquet_files
from disco.records.ports import ChunkedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

LEAST_JAVA = 17
_PATIENCE_SECONDS = 30.0
_CALL_OF_JAVA = "An error occurred while calling "
_STDERR = 2
_LOOK_AT = "Look at the settings of Spark: spark-defaults.conf, and the variables SPARK_… and PYSPARK_SUBMIT_ARGS."
_NEW_PANDAS = "PySpark does not yet fully support pandas"
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class SparkEngine:
    """Runs chunk functions on Spark. Results have the same bytes as those of the local engine.

    session: the SparkSession of a notebook or a job, which stays yours. None takes the one that runs on `master` in
    this process, or makes one (by default on `local[*]`), which ends with the process or with `close`.

    The executors need the same Python and the same version of DISCO as the driver.
    """

    __slots__ = ("_own", "session", "watch")

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        watch: Callable[[], None] | None = None,
    ) -> None:
        if session is not None and master is not None:
            raise InputError("master", found=repr(master), expected="none, because the session has its own")
        own = _checked(session) if session is not None else _running(master)
        self._own = own is None
        self.session: SparkSession = _new_session(master or "local[*]") if own is None else own
        self.watch: Callable[[], None] | None = watch

    def __repr__(self) -> str:
        return f"SparkEngine({self.session.sparkContext.master!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # a chunk function may hold its engine without using it; on an executor that is the thread of its task
        return LocalEngine, (1,)

    @property
    def threads(self) -> int:
        """How many chunks run at once."""
        return int(self.session.sparkContext.defaultParallelism)

    @property
    def in_process(self) -> bool:
        """Executors are processes of their own."""
        return False

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        """The results of `function` over the chunks, in their order; the first error ends it.

        The function is sent to the executors once, with everything it needs. Where that is a large array, use `table`.
        """
        context, waiting = self.session.sparkContext, iter(chunks)
        sent, at_once = None, self.threads
        while window := list(islice(waiting, at_once)):
            if sent is None:
                sent = context.broadcast(self.dumps(function))
            pickled = [self.dumps(chunk) for chunk in window]
            with _errors():
                results = context.parallelize(pickled, len(pickled)).map(_Applied(sent)).collect()
            for result in results:
                found, error = pickle.loads(result)  # nosec B301
                if error is not None:
                    raise uncarried(error) or RuntimeError(error)
                if self.watch is not None:
                    self.watch()
                yield found

    def table(self, source: Any) -> SparkTable:
        """A DataFrame, `table:NAME` of the session's catalogue, a Parquet file or folder that all executors see, or a
        `pyarrow.Table`."""
        return SparkTable.of(self, source)

    def tables(self, sources: Mapping[str, Any], *, locale: Locale = POUNDS_UTC) -> SparkTables:
        """A retailer's tables by name (customers, orders, …), each something that `table` takes.

        locale: the currency of their money, and the time zone of times without one.
        """
        return SparkTables(self, dict(sources), locale)

    def by_bucket(
        self,
        tables: Mapping[str, ChunkedTable],
        function: Callable[[Mapping[str, pa.Table]], pa.Table],
        schema: pa.Schema,
    ) -> AbstractContextManager[ChunkedTable]:
        """A function over the rows of several tables that have the same number in the column `bucket`."""
        return spark_buckets(self, tables, function, schema)

    def close(self) -> None:
        """End the session, if this engine made it."""
        if self._own:
            self.session.stop()

    def send(self, task: Any) -> Any:
        """A task for `mapInArrow`: pickled once, and handed to every executor once."""
        sent = tasks.Sent(self.session.sparkContext.broadcast(self.dumps(task)))
        return lambda batches: sent(batches)

    def collect(self, frame: DataFrame) -> list[Any]:
        """The few rows of a result; what a chunk function raised is raised here."""
        if self.watch is not None:
            self.watch()
        with _errors():
            return list(frame.collect())

    @staticmethod
    def dumps(value: Any) -> bytes:
        """Pickle anything that a chunk function may hold, functions without a name included."""
        from pyspark import cloudpickle

        content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
        return content


class _Applied:
    """The function of `map` on an executor: a pickled chunk → a pickled (result, error)."""

    def __init__(self, sent: Any) -> None:
        self.sent = sent

    def __call__(self, chunk: bytes) -> bytes:
        try:
            return SparkEngine.dumps((pickle.loads(self.sent.value)(pickle.loads(chunk)), None))  # nosec B301
        except Exception as error:
            return pickle.dumps((None, carried(error)))
        finally:
            spare_modules()


@contextmanager
def _errors() -> Iterator[None]:
    """What a chunk function raised on an executor, as it raised it; other failures of Spark in a sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        original = uncarried(text)
        if original is not None:
            raise original from None
        if absent := re.search(r"No module named '(disco|pyarrow|pandas)", text):
            fix = (
                f"Install the same version of {DISTRIBUTION}[spark] there, or send an environment with "
                "`spark.archives` (docs/spark.md)."
            )
            raise MissingPartError(f"The executors of the cluster cannot import {absent[1]}", fix=fix) from error
        lines = [line.strip(": ") for line in text.splitlines()]
        # py4j names the call of Java first, and the reason after it
        said = next((line for line in lines if line and not line.startswith(_CALL_OF_JAVA)), type(error).__name__)
        raise InputError("Spark could not do the work", found=said, fix="Look at the log of the executors.") from error


def _session_class() -> Any:
    try:
        from pyspark.sql import SparkSession
        from pyspark.sql.pandas.utils import require_minimum_pandas_version, require_minimum_pyarrow_version

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _NEW_PANDAS, FutureWarning)
            require_minimum_pandas_version()  # chunks travel as Arrow, which PySpark takes only where it has pandas
            require_minimum_pyarrow_version()
    except ImportError as error:
        fix = f"Run `pip install '{DISTRIBUTION}[spark]'`, which adds them to what is installed."
        raise MissingPartError(f"Libraries for Spark are absent or too old ({error})", fix=fix) from None
    return SparkSession


def _checked(session: object) -> Any:
    if not isinstance(session, _session_class()):
        expected = "a SparkSession that is not one of Spark Connect"
        raise InputError("session", found=kind_of(session), expected=expected)
    return session


def _running(master: str | None) -> Any:
    """The session of this process, where there is one on this master, or on any if none is asked for."""
    session = _session_class().getActiveSession()
    same = session is not None and master in (None, session.sparkContext.master)
    return session if same else None


def _new_session(master: str) -> Any:
    """A session on this master. Everything that can be wrong is looked at before Java starts."""
    require_java()
    hosts = _require_master(master)
    other = _session_class().getActiveSession()
    if other is not None:
        raise InputError(
            "master", found=repr(master), expected=f"{other.sparkContext.master}, where this process has a session"
        )
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):  # tasks run in the driver's Java; Spark looks here last, after a user's settings
        os.environ.setdefault("SPARK_DRIVER_MEMORY", f"{_heap_here_mb()}m")
    builder = _session_class().builder.master(master).appName("disco")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    }
    if all(host in _LOOPBACK for host, _ in hosts):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    warnings.filterwarnings("ignore", _NEW_PANDAS, FutureWarning)
    with _java_apart(), _errors():
        session = builder.getOrCreate()
    if hosts:
        _require_executor(session, master)
    return session


def _heap_here_mb() -> int:
    """A quarter of the machine's memory, 1 to 4 GB. With Spark's own 1 GB, 2 million customers ended Java now and then;
    10 million took 2.9 GB."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(machine >> 22, 1024), 4096)


@contextmanager
def _java_apart() -> Iterator[None]:
    """A Java that starts in the block does not write to stderr, where the messages of DISCO are.

    Java inherits stderr when it starts. Some of its greetings come before Spark has read any setting, so that none can
    switch them off. What it wrote is shown where it does not start.
    """
    if sys.stderr is None:  # it was closed before this process began
        yield
        return
    with tempfile.TemporaryFile() as written:  # Java keeps it open after the block
        sys.stderr.flush()
        own = os.dup(_STDERR)
        os.dup2(written.fileno(), _STDERR)
        try:
            yield
        except InputError as error:
            written.seek(0)
            lines = [line.strip() for line in written.read().decode(errors="replace").splitlines()]
            said = [line for line in lines if line and not line.startswith(("WARNING:", "Using Spark's default"))]
            if "JAVA_GATEWAY_EXITED" not in str(error) or not said:
                raise
            raise InputError("Java did not start Spark", found="; ".join(said[:2]), fix=_LOOK_AT) from None
        finally:
            os.dup2(own, _STDERR)
            os.close(own)


def require_java() -> Path:
    """The Java that Spark will start; refused where there is none, or an old one."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    fix = (
        f"Install Java {LEAST_JAVA} or newer (on Debian and Ubuntu: apt-get install default-jre-headless), or set "
        "JAVA_HOME."
    )
    try:
        said = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr  # nosec B603
    except (OSError, subprocess.SubprocessError):
        raise MissingPartError(
            "Spark needs Java", found=f"none at {found}" if home else "none", expected=f"Java {LEAST_JAVA}", fix=fix
        ) from None
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < LEAST_JAVA:
        first = next(iter(said.splitlines()), "nothing")
        raise MissingPartError("Java is too old", found=first, expected=f"{LEAST_JAVA} or newer", fix=fix)
    return found


def _require_master(master: str) -> list[tuple[str, int]]:
    """Host and port of a standalone master that answers; none for other kinds of masters, which Spark looks for."""
    here = re.fullmatch(r"local(\[([1-9]\d*|\*)(,\s*[1-9]\d*)?\])?", master)
    if here or master == "yarn" or master.startswith("k8s://"):
        return []
    found = re.fullmatch(r"spark://(.+)", master)
    places = (
        [re.fullmatch(r"(\[[^\]]+\]|[^:\[\]/]+):(\d{1,5})", place) for place in found[1].split(",")] if found else []
    )
    hosts = [(place[1], int(place[2])) for place in places if place]
    if not hosts or len(hosts) < len(places) or any(port > 65535 for _, port in hosts):
        expected = "local[2], local[*], spark://HOST:PORT, yarn or k8s://…"
        raise InputError("master", found=repr(master), expected=expected)
    reasons = []
    for host, port in hosts:
        try:
            socket.create_connection((host.strip("[]"), port), timeout=_PATIENCE_SECONDS / len(hosts)).close()
            return hosts
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise InputError(
        f"The master {master} cannot be reached", found="; ".join(reasons), fix="Check its address, and that it runs."
    )


def _require_executor(session: Any, master: str) -> None:
    """A master without workers would let every job wait for ever."""
    until = time.monotonic() + _PATIENCE_SECONDS
    memory = session.sparkContext._jsc.sc().getExecutorMemoryStatus
    while memory().size() < 2:  # the driver is one
        if time.monotonic() > until:
            session.stop()
            raise InputError(
                f"The master {master} gave no executor within {_PATIENCE_SECONDS:.0f} s",
                fix="Check that workers are registered and have free cores and memory.",
            )
        time.sleep(0.2)


# ---- tables: partitions of a cluster, each worked on where it lies


_FEW_SUMS = 16  # that the driver adds up by itself
_MANY = 64  # partitions, where their number is not known
_NAMED = "table:"  # before the name of a table of the catalogue
_WAREHOUSE = Path("spark-warehouse")  # where Spark keeps tables, unless its settings say otherwise
_BLOCKS, _BY_BUCKET = "block binary", "bucket int, name string, block binary"


@dataclass(frozen=True, slots=True, eq=False)
class SparkTable:
    """Implements `records.ports.ChunkedTable` with a Spark DataFrame and what is done to its rows in Python.

    All steps between two actions run as one function in one stage: rows go from Java to Python once.
    """

    engine: SparkEngine
    frame: DataFrame
    """Numbers of parts, blocks, or rows; `source` knows."""
    source: Any
    schema: pa.Schema
    steps: tuple[tuple[ChunkFunction, pa.Schema], ...] = ()
    partitions: int | None = None
    """None: Spark decides when it runs."""
    expected_rows: int | None = None

    @classmethod
    def of(cls, engine: SparkEngine, source: Any) -> SparkTable:
        """A DataFrame, the name of a table that the session knows as `table:NAME`, or what `parts_of` takes.

        Files are read by the executors, which have to see them under the same path.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.types import to_arrow_schema

        if isinstance(source, SparkTable):
            return source
        if isinstance(source, str | Path) and str(source).startswith(_NAMED):
            source = _of_catalogue(engine, str(source).removeprefix(_NAMED))
        if isinstance(source, DataFrame):
            if len(set(source.columns)) < len(source.columns):
                raise InputError("table", found="a column twice", expected="each column once")
            schema = to_arrow_schema(source.schema, timezone="UTC")
            return cls(engine, source, tasks.FromColumns(schema), schema)
        schema, parts = parts_of(source)
        frame = engine.session.range(0, len(parts), 1, len(parts))
        expected = sum(part.rows for part in parts)
        return cls(engine, frame, tasks.FromParts(parts), schema, partitions=len(parts), expected_rows=expected)

    def transform(self, function: ChunkFunction, schema: pa.Schema) -> SparkTable:
        return replace(self, schema=schema, steps=(*self.steps, (function, schema)))

    def fold(self, function: Callable[[pa.Table], Result], add: Callable[[Result, Result], Result]) -> Result:
        dumps = self.engine.dumps
        sums = self._then(tasks.ToSum(function, add, dumps), _BLOCKS)
        partitions = self.partitions or _MANY
        while partitions > _FEW_SUMS:  # a tree: the driver gets few sums, however many partitions there are
            partitions = math.isqrt(partitions)
            sums = sums.repartition(partitions).mapInArrow(self.engine.send(tasks.AddSums(add, dumps)), _BLOCKS)
        found = [pickle.loads(row[0]) for row in self.engine.collect(sums)]  # nosec B301
        return reduce(add, found) if found else function(self.schema.empty_table())

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._stored() as blocks:
            self.engine.collect(blocks.groupBy().count())  # all partitions side by side, then one after the other
            for row in blocks.toLocalIterator(prefetchPartitions=True):
                yield from tasks.read_block(pa.py_buffer(bytes(row[0]))).to_batches()

    @contextmanager
    def kept(self) -> Iterator[ChunkedTable]:
        with self._stored() as blocks:
            yield replace(self, frame=blocks, source=tasks.FromBlocks(), steps=())

    @contextmanager
    def _stored(self) -> Iterator[DataFrame]:
        """The rows as blocks on the executors' disks.

        Not in the heap of Java: each block is larger than one of its regions, and where all of them do not fit, every
        pass drops some and reads them again. The operating system keeps files in memory as far as there is room.
        """
        from pyspark import StorageLevel

        blocks = self._then(tasks.ToBlocks(), _BLOCKS).persist(StorageLevel.DISK_ONLY)
        try:
            yield blocks
        finally:
            blocks.unpersist()

    def write(self, folder: Path) -> TableManifest:
        with folder_written_whole(folder) as unfinished:
            files = self._then(tasks.ToFile(str(unfinished), self.schema), _BLOCKS)
            named = {bytes(row[0]).decode() for row in self.engine.collect(files)}
            for path in parquet_files(unfinished):
                if path.name not in named:  # of a task that was repeated
                    path.unlink()
            there = {path.name for path in parquet_files(unfinished)}
            if there != named:
                raise InputError(
                    str(folder),
                    found=f"{len(there)} of {len(named)} files",
                    expected="a folder that the driver and all executors share under one path",
                )
            if not named:
                import pyarrow.parquet as pq

                pq.write_table(self.schema.empty_table(), unfinished / "part-00000.parquet")
        written = TableManifest.read(folder)
        assert written is not None  # for the type checker
        return written

    def to_frame(self) -> DataFrame:
        """The rows as a DataFrame, to be saved as whatever table the session can write."""
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        schema = from_arrow_schema(self.schema)
        return self._then(tasks.ToColumns(to_arrow_schema(schema, timezone="UTC")), schema)

    def _then(self, sink: Any, schema: Any) -> DataFrame:
        task = self.engine.send(tasks.Task(self.source, self.steps, sink))
        return self.frame.mapInArrow(task, schema)


def _of_catalogue(engine: SparkEngine, name: str) -> DataFrame:
    """A table or view that the session knows by this name."""
    from pyspark.errors import AnalysisException, ParseException

    before = _WAREHOUSE.exists()
    try:
        return engine.session.table(name)
    except (AnalysisException, ParseException) as error:
        if not before and _WAREHOUSE.is_dir() and not any(_WAREHOUSE.iterdir()):
            _WAREHOUSE.rmdir()  # Spark made it when it looked for the table
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        absent = "NOT_FOUND" in said
        raise InputError(
            f"{_NAMED}{name}",
            found="no such table or view in the catalogue of the Spark session" if absent else said,
            expected="the name of a table, such as table:shop.values",
            fix="`spark.catalog.listTables()` shows the tables of a session, and spark-defaults.conf names catalogues.",
        ) from None


@dataclass(frozen=True, slots=True)
class SparkTables:
    """The `Tables` port over what `SparkEngine.table` takes, by name."""

    engine: SparkEngine
    sources: Mapping[str, Any]
    locale: Locale

    def names(self) -> tuple[str, ...]:
        return tuple(self.sources)

    def scan(self, name: str) -> SparkTable:
        if name not in self.sources:
            raise InputError(f"table {name}", found=f"only {', '.join(self.sources)}", expected=f"a table {name}")
        return self.engine.table(self.sources[name])


@contextmanager
def spark_buckets(
    engine: SparkEngine,
    tables: Mapping[str, ChunkedTable],
    function: Callable[[Mapping[str, pa.Table]], pa.Table],
    schema: pa.Schema,
) -> Iterator[SparkTable]:
    """Implements `TableEngine.by_bucket`: blocks of rows are exchanged between executors by their bucket."""
    schemas = {name: without_bucket(table.schema) for name, table in tables.items()}
    divided = [engine.table(table)._then(tasks.ToBuckets(name), _BY_BUCKET) for name, table in tables.items()]
    together = reduce(lambda one, other: one.unionAll(other), divided)
    together = together.repartition("bucket").sortWithinPartitions("bucket")
    source = tasks.FromBuckets(function, schemas, schema)
    yield SparkTable(engine, together, source, schema, expected_rows=most_rows(tables))
