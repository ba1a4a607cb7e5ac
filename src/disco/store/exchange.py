"""PostgreSQL: statements that are sent together and waited for once, through libpq's pipeline.

Every wait for the server gives the interpreter to another thread and the processor to another process. psycopg's own
pipeline waits before each statement that it sends; here all of them are sent at once. Writes whose answers nobody needs
are kept (`later`) and go with the next question, or with the commit.
"""

from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.generators import fetch_many
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from disco.store.database import Statement

_MOST_PREPARED = 128  # statements per connection; the program has fewer that come again
_OK = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_ACCESS = {True: "ONLY", False: "WRITE"}
_Item: TypeAlias = "Statement | None"  # None: what comes before it stands, whatever comes after (libpq's sync)
_Key: TypeAlias = tuple[str, tuple[int, ...]]  # a prepared statement: its text and the types of its values


class Exchange:
    """What one connection of psycopg sends. Its transactions begin as psycopg would begin them."""

    def __init__(self, driver: "psycopg.Connection[Any]") -> None:
        driver.prepare_threshold = None  # psycopg would drop all prepared statements, ours too, with each rollback
        self._driver = driver
        self._prepared: dict[_Key, bytes] = {}
        self._names = 0
        self._waiting: list[Statement] = []
        self._lock: Statement | None = None  # to be taken before the transaction begins
        self._unlock: Statement | None = None  # to be given back after it has ended

    def lock_first(self, lock: Statement, unlock: Statement) -> None:
        """Take a lock of the session before the next transaction, and give it back after its commit."""
        self._lock, self._unlock = lock, unlock

    def later(self, statement: str, values: Sequence[object]) -> None:
        """Send a write with what is asked next, or with the commit."""
        self._waiting.append((statement, values))

    def ask(self, questions: Sequence[Statement]) -> list[list[Any]]:
        """The rows of each question, after everything that was kept for later."""
        if not questions:
            return []
        answers = self._sent(questions)
        loader, found = Transformer(self._driver), []
        for answer in answers[-len(questions) :]:
            loader.set_pgresult(answer)
            found.append(loader.load_rows(0, answer.ntuples, tuple) if answer.ntuples else [])
        return found

    def change(self, statement: str, values: Sequence[object]) -> int:
        """How many rows a write has changed."""
        return int(self._sent([(statement, values)])[-1].command_tuples or 0)

    def send(self) -> None:
        """What was kept for later, now."""
        if self._waiting or self._lock is not None:
            self._sent([])

    def commit(self) -> None:
        """Send what was kept, commit, and give back the lock: it returns when the server has said so."""
        if not self._waiting and self._driver.pgconn.transaction_status != TransactionStatus.INTRANS:
            return  # nothing was begun, or it failed and psycopg says so
        items = self._items([("COMMIT", ())])
        answers = sum(item is not None for item in items)
        results: list[Any] = []
        try:
            self._run([*items, *([] if self._unlock is None else [None, self._unlock])], results)
        except psycopg.OperationalError:
            if len(results) < answers or results[answers - 1].command_status != b"COMMIT":
                raise
            return  # a session that is lost has lost its lock too, and what was committed stays committed
        self._raise_first(results[:answers])
        if results[answers - 1].command_status != b"COMMIT":
            raise psycopg.OperationalError("The server has not committed the transaction")
        self._unlock = None
        if any(one.status not in _OK for one in results[answers:]):
            self._driver.close()  # and the lock is gone

    def undo(self) -> None:
        """Forget what was kept for later: the transaction is rolled back."""
        self._waiting.clear()

    def give_back(self) -> None:
        """Give back the lock where no commit has done so."""
        unlock = None if self._lock is not None else self._unlock
        self._lock = self._unlock = None
        if unlock is not None and not self._driver.closed:
            results: list[Any] = []
            try:
                self._run([unlock], results)
                self._raise_first(results)
            except psycopg.Error:
                self._driver.close()

    def _items(self, statements: Sequence[Statement]) -> list[_Item]:
        """What was kept for later, and these, after the beginning of the transaction where there is none."""
        items: list[_Item] = []
        if self._lock is not None:
            items += [self._lock, None]
            self._lock = None
        driver = self._driver
        if not driver.autocommit and driver.pgconn.transaction_status == TransactionStatus.IDLE:
            items.append((_begin(driver), ()))
        items += [*self._waiting, *statements]
        self._waiting.clear()
        return items

    def _sent(self, statements: Sequence[Statement]) -> list[Any]:
        results: list[Any] = []
        self._run(self._items(statements), results)
        self._raise_first(results)
        return results

    def _run(self, items: Sequence[_Item], results: list[Any]) -> None:
        """Send everything at once and append the answers to all but the syncs."""
        pgconn, dumper = self._driver.pgconn, Transformer(self._driver)
        messages: list[tuple[str, tuple[int, ...], Any, Any] | None] = []
        for item in (*items, None):  # a value that cannot be sent is refused before anything is
            if item is None or not item[1]:
                messages.append(None if item is None else (item[0], (), None, None))
            else:
                given = dumper.dump_sequence(item[1], [PyFormat.AUTO] * len(item[1]))
                messages.append((item[0], tuple(dumper.types or ()), given, dumper.formats))
        expected: list[_Key | bool] = []  # what is being prepared; True: an answer; False: a sync
        try:
            pgconn.enter_pipeline_mode()
            for message in messages:
                if message is None:
                    pgconn.pipeline_sync()
                    expected.append(False)
                    continue
                text, types, given, formats = message
                name = self._prepared.get((text, types))
                if name is None and len(self._prepared) < _MOST_PREPARED:
                    self._names += 1
                    name = self._prepared[text, types] = b"disco_%d" % self._names
                    pgconn.send_prepare(name, _numbered(text), types or None)
                    expected.append((text, types))
                if name is None:
                    pgconn.send_query_params(_numbered(text), given, types or None, formats)
                else:
                    pgconn.send_query_prepared(name, given, formats)
                expected.append(True)
            self._driver.wait(self._fetched(expected, results))
            pgconn.exit_pipeline_mode()
        except BaseException:
            self._driver.close()  # what was not committed is undone by the server
            raise

    def _fetched(self, expected: "Sequence[_Key | bool]", results: list[Any]) -> "Generator[Any, Any, None]":
        pgconn = self._driver.pgconn
        while pgconn.flush():
            ready = yield Wait.RW
            if ready & Ready.R:
                pgconn.consume_input()
        refused = None
        for what in expected:
            result = (yield from fetch_many(pgconn))[-1]
            if what is True:
                results.append(refused or result)
                refused = None
            elif what is not False and result.status not in _OK:
                del self._prepared[what]
                refused = result  # says more than the statement's own answer: that it was not tried

    def _raise_first(self, results: Sequence[Any]) -> None:
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result, encoding=self._driver.info.encoding)


def _begin(driver: "psycopg.Connection[Any]") -> str:
    level, read_only = driver.isolation_level, driver.read_only
    words = "" if level is None else f" ISOLATION LEVEL {level.name.replace('_', ' ')}"
    return f"BEGIN{words}{'' if read_only is None else f' READ {_ACCESS[read_only]}'}"


@lru_cache(maxsize=512)
def _numbered(statement: str) -> bytes:
    """With $1, $2, … in the places of the values."""
    first, *rest = statement.split("?")
    return (first + "".join(f"${place}{part}" for place, part in enumerate(rest, 1))).encode()
