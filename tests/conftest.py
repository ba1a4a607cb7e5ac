"""The order of tests and their share of the machine, and databases: an SQLite file, and a PostgreSQL server that is
started once per process and gone afterwards."""

import gc
import json
import os
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from quick_disks import quick_disks
from stores import artefacts_of, new_urls, open_store
from trial_server import TrialServer, trial_server

from disco.records.errors import MissingPartError
from disco.store import ledger

# In a fresh clone the first users of the kernels compile them, which takes minutes. These two drills call almost all of
# them. One process gets both, and the others meanwhile run rooms that need few, so that little is compiled twice.
_COMPILING = ("test_drill_allocation.py", "test_drill_budgets.py")
_MEANWHILE = ("test_features_network.py", "test_features_on_engine.py")  # between them: xdist deals files out in turn
_FIRST = (_COMPILING[0], *_MEANWHILE, _COMPILING[1])
# One process runs all files that use Spark, because each process would start a Java and executors of its own.
_SPARK = (
    "test_contract_spark.py",
    "test_contract_chunked_tables.py",
    "test_contract_engines.py",
    "test_operations_offline.py",
    "test_operations_deciding_tables.py",
    "test_spark_shop.py",
)
_WITHOUT_ALLOCATION = {"features", "retailer", "records", "views", "belief", "adapters", "store"}
_WITHOUT_ALLOCATION |= {"test_service_openid.py", "test_report_page.py", "test_wheel.py"}  # of other rooms
_WITH_ALLOCATION = {"test_store_concurrency.py", "test_spark_start.py"}  # of these rooms
# Seconds of each file on two quiet cores, setup included; written by `./run test --record-durations`.
_DURATIONS = Path(__file__).with_name("durations.json")
# Not tests, and costly to import: every process would live the life of `small_life_warm` while it looks for doctests.
collect_ignore = ["support"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations", action="store_true", help="write the seconds of each file to tests/durations.json"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Every process of tests, and those it starts, compute on their share of the cores.

    A thread of OpenBLAS or OpenMP that has nothing to do spins for a while before it sleeps. With as many threads as
    cores in each process, spinning took ten times as long as the inversion of a matrix itself.
    """
    processes = config.getoption("numprocesses", None)
    if processes:
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // processes)))
    worker = getattr(config, "workerinput", None)
    if (
        worker is not None
        and not sys.dont_write_bytecode
        and Path(__file__).parent in map(Path.resolve, map(Path, config.args))
    ):
        _rewrite_share(config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def _rewrite_share(config: pytest.Config, number: int, processes: int) -> None:
    """Rewrite the assertions of every n-th file, for all processes: each of them imports all files of tests.

    pytest keeps what it has rewritten, but in a fresh clone all processes begin with the same files at the same time
    and would each spend ten seconds on them. What is not done here, pytest does itself.
    """
    try:
        from _pytest.assertion import assertstate_key
        from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc, get_cache_dir
    except ImportError:  # they are private, and another version may have other ones
        return
    if config.getoption("assertmode") != "rewrite":
        return
    for file in sorted(Path(__file__).parent.rglob("test_*.py"))[number::processes]:
        rewritten = get_cache_dir(file) / f"{file.stem}{PYC_TAIL}"
        if rewritten.is_file():
            continue
        with suppress(SyntaxError, OSError):  # pytest names a file that is wrong, and needs no place to write
            source_hash, code = _rewrite_test(file, config)
            rewritten.parent.mkdir(parents=True, exist_ok=True)
            _write_pyc(config.stash[assertstate_key], code, source_hash, rewritten)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that is imported or collected becomes garbage: looking for it took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # nor is it looked through during the tests
        gc.set_threshold(10_000, 20, 20)  # with Python's own numbers, looking took a tenth of the tests' time
        gc.enable()


def _group(file: str) -> str:
    """What one process runs: a file, or all that use Spark."""
    return "spark" if file.endswith(_SPARK) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneProcessForSpark(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group(super()._split_scope(nodeid))

    return OneProcessForSpark(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long groups early, so that no process ends with one of them while the others have nothing left to do."""
    recorded: dict[str, float] = json.loads(_DURATIONS.read_text(encoding="utf-8"))
    files = {item.nodeid.partition("::")[0] for item in items}
    seconds: defaultdict[str, float] = defaultdict(float)
    for file in files:
        seconds[_group(file)] += recorded.get(file, float("inf"))  # a new file may be long

    def place(item: pytest.Item) -> tuple[int, float, str]:
        file = item.nodeid.partition("::")[0]
        *rooms, name = file.split("/")
        if name in _FIRST:
            return _FIRST.index(name), 0.0, ""
        group = _group(file)
        compiles = rooms[0] != "tests" or not _WITHOUT_ALLOCATION & {*rooms, name} or name in _WITH_ALLOCATION
        return len(_FIRST) + (compiles or group != file), -seconds[group], group

    items.sort(key=place)


_seconds: Counter[str] = Counter()  # of the files whose tests have run


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where several processes run the tests, the one that starts them hears of every test."""
    if session.config.getoption("--record-durations") and "PYTEST_XDIST_WORKER" not in os.environ:
        rounded = {file: round(seconds, 1) for file, seconds in sorted(_seconds.items())}
        _DURATIONS.write_text(json.dumps(rounded, indent=0) + "\n", encoding="utf-8")


@pytest.fixture(scope="module", autouse=True)
def files_without_syncs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing waits for the disk, except in drills, which look at what reaches it."""
    with nullcontext() if "drills" in request.path.parts else quick_disks():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[TrialServer]:
    try:
        # nobody's data: what a crash would lose is tested by the drill, on a server that syncs
        with trial_server("fsync=off", "max_connections=200", "shared_buffers=64MB") as server:
            yield server
    except MissingPartError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: {missing}")


_numbers = count()


@pytest.fixture(scope="session")
def postgres_session(postgres: TrialServer) -> Iterator[Any]:
    """One connection for all that creates and drops databases."""
    with postgres.session() as session:
        yield session


def _create(session: Any, name: str, template: str) -> None:
    """By copying files, a tenth of the work of the other strategy, which writes every page to the log. Servers before
    15 know no other."""
    strategy = " STRATEGY FILE_COPY" if session.info.server_version >= 150000 else ""
    session.execute(f"CREATE DATABASE {name} TEMPLATE {template}{strategy}")


@pytest.fixture
def new_postgres_url(postgres: TrialServer, postgres_session: Any) -> Iterator[Callable[..., str]]:
    """Each call gives the URL of a database that is empty, or a copy of another; it is dropped after the test."""
    names: list[str] = []

    def make(copied: str = "template0") -> str:
        names.append(f"trial_{next(_numbers)}")
        _create(postgres_session, names[-1], copied)
        return postgres.url(names[-1])

    yield make
    for name in names:  # hundreds of them would take half a minute to delete at the end
        postgres_session.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., str]:
    """Each call gives the URL of a database that is empty: the test runs on SQLite and on PostgreSQL."""
    return new_urls(request, tmp_path)


@pytest.fixture
def database_url(new_database_url: Callable[[], str]) -> str:
    return new_database_url()


@pytest.fixture(scope="session")
def filled_urls() -> dict[tuple[str, str], str]:
    """By kind and name, the databases that `copied_database_url` copies."""
    return {}


@pytest.fixture
def copied_database_url(
    request: pytest.FixtureRequest,
    new_database_url: Callable[..., str],
    filled_urls: dict[tuple[str, str], str],
    tmp_path: Path,
) -> Callable[[str, Callable[[str], None]], str]:
    """A call with a name and a function gives the URL of a copy of a database and its artefacts, which the function
    fills for the first test that asks for the name. The test runs on SQLite and on PostgreSQL."""
    kind = request.node.callspec.params["new_database_url"]

    def filled(fill: Callable[[str], None]) -> str:
        if kind == "postgresql":
            name = f"filled_{next(_numbers)}"  # another one after a failure
            _create(request.getfixturevalue("postgres_session"), name, "template0")
            url: str = request.getfixturevalue("postgres").url(name)
        else:
            folder = request.getfixturevalue("tmp_path_factory").mktemp("filled")
            url = f"sqlite:///{folder / 'filled.db'}"
        fill(url)
        return url

    def copied(name: str, fill: Callable[[str], None]) -> str:
        if (kind, name) not in filled_urls:
            filled_urls[kind, name] = filled(fill)
        source = filled_urls[kind, name]
        database = str(sa.make_url(source).database)
        if kind == "postgresql":
            url = new_database_url(database)
        else:
            url = f"sqlite:///{shutil.copyfile(database, tmp_path / 'copied.db')}"
        if artefacts_of(source).exists():
            shutil.copytree(artefacts_of(source), artefacts_of(url))
        return url

    return copied


@pytest.fixture
def store_url(copied_database_url: Callable[[str, Callable[[str], None]], str]) -> str:
    """The URL of a database with the tables of a store and nothing in them, on SQLite and on PostgreSQL: copied,
    because making the tables takes longer than most tests."""
    return copied_database_url("tables", lambda url: open_store(url).close())


@pytest.fixture(params=["rows", "packs"])
def kept_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs with outcomes as rows of the database, as of small batches, and in packs, as of large ones."""
    if request.param == "packs":
        monkeypatch.setattr(ledger, "LEAST_ROWS", 1)
    return str(request.param)
