"""The store: a database with our tables, a place of artefacts, and repositories one transaction at a time."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

import sqlalchemy as sa

from disco.records.files import private_folder
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.people import Actor
from disco.records.ports import Clock
from disco.store.artefacts import Artefacts, FolderArtefacts, rehearsal
from disco.store.beliefs import SqlBeliefs
from disco.store.contexts import SqlArrivals, SqlContexts
from disco.store.database import Database, any_text, send_changes
from disco.store.decisions import SqlDecisions
from disco.store.journal import SqlJournal, append, question_of_tallies, system_user, tallies_in
from disco.store.ledger import SqlLedger
from disco.store.office import SqlApprovals, SqlJobs, SqlReplies, SqlShopSettings, SqlWebhooks
from disco.store.opening import (
    is_empty,
    open_database,
    plain_errors,
    prepare,
    refuse_another_locale,
    refuse_another_revision,
    refuse_upgraded,
)
from disco.store.personal import SqlForgotten, SqlPersonal
from disco.store.plans import SqlPlans
from disco.store.schema import BELIEF, EVERYTHING
from disco.store.seals import SqlSeals
from disco.store.session import Session

Repository = TypeVar("Repository")


class _Repository(Generic[Repository]):
    """A repository of a transaction, made when it is first asked for: most transactions need a few of them."""

    def __init__(self, kind: Callable[[Session], Repository]) -> None:
        self._kind = kind

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, transaction: "Transaction", _: type) -> Repository:
        made = transaction.__dict__[self._name] = self._kind(transaction.session)
        return made


class Transaction:
    """What lies in the store, within one transaction: repositories of campaigns and belief, their seals, what is kept
    about customers, and what they need of the office. Its other rows are in its features (`office/*/rows.py`).

    Tables are Arrow, with the schemas of `schema`; text with NUL characters, NaN and infinity are an InputError;
    a missing thing, or one that is there already, a StateError.
    """

    plans = _Repository(SqlPlans)
    decisions = _Repository(SqlDecisions)
    contexts = _Repository(SqlContexts)
    arrivals = _Repository(SqlArrivals)
    ledger = _Repository(SqlLedger)
    beliefs = _Repository(SqlBeliefs)
    seals = _Repository(SqlSeals)
    forgotten = _Repository(SqlForgotten)
    personal = _Repository(SqlPersonal)
    approvals = _Repository(SqlApprovals)
    settings = _Repository(SqlShopSettings)
    jobs = _Repository(SqlJobs)
    replies = _Repository(SqlReplies)
    webhooks = _Repository(SqlWebhooks)
    journal = _Repository(SqlJournal)

    def __init__(self, session: Session) -> None:
        self.session = session

    @property
    def locale(self) -> Locale:
        """Of the shop."""
        return self.session.locale


class _Undone(Exception):  # noqa: N818 - no error: the way out of a dry run
    pass


class Store:
    """The truth of campaigns: plans, decisions with codes, ledger, evidence, versions of belief.

    locale: the currency of all its money and the time zone of its plans' days, the same for all campaigns. actor: who
    writes through this store, the system user unless `by` said otherwise.

    database: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`; an empty database gets our tables. artefacts: the
    place of the large tables, or its folder; the same one for everybody who shares the database. locale: of the shop;
    refused where campaigns were launched in another one. clock: of the journal's entries; None: the machine's.
    """

    def __init__(
        self,
        database: str | Database,
        artefacts: Artefacts | Path,
        *,
        locale: Locale = POUNDS_UTC,
        clock: Clock | None = None,
    ) -> None:
        self.locale = locale
        self._clock = clock
        self.actor = system_user()
        self._artefacts = FolderArtefacts(artefacts) if isinstance(artefacts, Path) else artefacts
        self._database = open_database(database) if isinstance(database, str) else database
        prepare(self._database)
        refuse_another_locale(self._database, locale)

    @classmethod
    def existing(
        cls, url: str, artefacts: Path, *, locale: Locale = POUNDS_UTC, clock: Clock | None = None
    ) -> "Store | None":
        """The store, where its database has our tables; None, and nothing written, where it is empty or absent."""
        database = open_database(url)
        if is_empty(database):
            database.engine.dispose()
            return None
        return cls(database, artefacts, locale=locale, clock=clock)

    @classmethod
    def embedded(cls, path: Path) -> "Store":
        """One SQLite file with its artefacts in a folder beside it; made when absent."""
        private_folder(path.parent)
        return cls(f"sqlite:///{path}", path.with_name(f"{path.stem}-artefacts"))

    def by(self, actor: Actor) -> "Store":
        """The same open store, for what somebody else writes."""
        view = copy.copy(self)
        view.actor = actor
        return view

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """One consistent view of everything; nothing can be written through it. Keep it short: a writer may wait."""
        with plain_errors(self._database, "reading"), self._database.reading() as connection:
            yield Transaction(Session(connection, self._database, self._artefacts, self.locale))

    @contextmanager
    def writing(self, subject: str, *, action: str, dry_run: bool = False) -> Iterator[Transaction]:
        """One transaction: kept whole at the end of the block, not at all when the block raises.

        `subject` (a campaign, or BELIEF) has one writer at a time: another one waits, and then sees what this one
        wrote. Nothing is acknowledged before it is on disk. Not to be opened within another block of the same store.
        With `dry_run` everything is done and checked, then undone at the end of the block.

        action: what is done, in a word or two of the command line ("launch", "ingest"); a block that wrote something
        has an entry of the journal with it, in the same transaction.
        """
        doing = "writing the model" if subject == BELIEF else f"writing {subject} ({action})"
        begun = self._database.writing(subject)
        with self._transaction(begun, subject, doing, action=action, dry_run=dry_run) as transaction:
            yield transaction

    @contextmanager
    def bookkeeping(self) -> Iterator[Transaction]:
        """A short transaction without the lock of a subject and without an entry of the journal.

        For what says nothing about campaigns and people: heartbeats, leases, the last use of sessions, failed attempts
        to sign in, stored replies. Writers of one row wait for each other.
        """
        with plain_errors(self._database, "keeping books"), self._database.bookkeeping() as connection:
            refuse_upgraded(connection, self._database)
            yield Transaction(Session(connection, self._database, self._artefacts, self.locale))

    @contextmanager
    def alone(self, *, action: str, dry_run: bool = False) -> Iterator[Transaction]:
        """As `writing`, while nobody writes anything else: waits for all others, and they wait for this one."""
        begun = self._database.alone()
        with self._transaction(begun, EVERYTHING, "writing alone", action=action, dry_run=dry_run) as transaction:
            yield transaction

    @contextmanager
    def _transaction(
        self,
        begun: AbstractContextManager[sa.Connection],
        subject: str,
        doing: str,
        *,
        action: str,
        dry_run: bool,
    ) -> Iterator[Transaction]:
        try:
            with (
                rehearsal(self._artefacts) if dry_run else nullcontext(self._artefacts) as artefacts,
                plain_errors(self._database, doing),
                begun as connection,
            ):
                refuse_upgraded(connection, self._database)
                session = Session(connection, self._database, artefacts, self.locale)
                mark = self._database.mark(connection)
                yield Transaction(session)
                if dry_run:
                    send_changes(connection)  # a rehearsal is refused where the real one would be
                    raise _Undone
                if session.growth or self._database.has_written(connection, since=mark):
                    question = question_of_tallies(subject, session.growth)
                    with any_text(connection):
                        last, [found] = self._database.last_entry(connection, [question])
                    append(
                        session,
                        last,
                        actor=self.actor,
                        at=datetime.now(UTC) if self._clock is None else self._clock.now(),
                        action=action,
                        subject=subject,
                        found=tallies_in(found),
                    )
        except _Undone:
            pass

    def remove_unnamed(self, *, dry_run: bool = False) -> dict[str, int]:
        # every artefact is put within a transaction: nobody's is still unnamed
        """Remove artefacts that no row names, left by a crash or by what was replaced; their names and bytes."""
        with self.alone(action="prune") as transaction:
            named = transaction.personal.named_artefacts()
            unnamed = {name: size for name, size in self._artefacts.sizes().items() if name not in named}
            for name in () if dry_run else unnamed:
                self._artefacts.remove(name)
        return unnamed

    def refuse_unready(self) -> None:
        """Raise where the database cannot be reached, or is at another revision than this program."""
        refuse_another_revision(self._database)

    def compact(self) -> None:
        """Write the database anew, so that no byte of deleted or replaced cells is left in its files.

        Nobody else can use the database meanwhile. Not within a transaction.
        """
        with plain_errors(self._database, "writing it anew"):
            self._database.compact()

    def close(self) -> None:
        self._database.engine.dispose()
