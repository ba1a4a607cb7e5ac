"""The store: a database with our tables, a place of artefacts, and repositories one transaction at a time."""

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from disco.adapters.store.approvals import SqlApprovals, SqlShopSettings
from disco.adapters.store.arrivals import SqlArrivals
from disco.adapters.store.artefacts import FolderArtefacts, rehearsal
from disco.adapters.store.beliefs import SqlBeliefs
from disco.adapters.store.contexts import SqlContexts
from disco.adapters.store.database import Database, send_changes
from disco.adapters.store.decisions import SqlDecisions
from disco.adapters.store.drafts import SqlDrafts, SqlReplies
from disco.adapters.store.forgotten import SqlForgotten
from disco.adapters.store.jobs import SqlJobs
from disco.adapters.store.journal import SqlJournal, append, question_of_head
from disco.adapters.store.ledger import SqlLedger
from disco.adapters.store.opening import (
    is_empty,
    open_database,
    plain_errors,
    prepare,
    refuse_another_locale,
    refuse_another_revision,
    refuse_upgraded,
)
from disco.adapters.store.people import SqlPeople, SqlSessions
from disco.adapters.store.personal import SqlPersonal
from disco.adapters.store.plans import SqlPlans
from disco.adapters.store.schedules import SqlSchedules, SqlWebhooks
from disco.adapters.store.seals import SqlSeals, any_text, seal_states
from disco.adapters.store.session import Session
from disco.adapters.store.states import hash_of_state, question_of_state
from disco.adapters.store.system_user import system_user
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.people import Actor
from disco.records.ports import BELIEF, EVERYTHING, Artefacts, Clock
from disco.records.private import private_folder


class SqlTransaction:
    """Implements `records.ports.Transaction`."""

    def __init__(self, session: Session, locale: Locale) -> None:
        self.locale = locale
        self.plans = SqlPlans(session, locale)
        self.decisions = SqlDecisions(session)
        self.contexts = SqlContexts(session)
        self.arrivals = SqlArrivals(session)
        self.ledger = SqlLedger(session)
        self.beliefs = SqlBeliefs(session)
        self.seals = SqlSeals(session)
        self.forgotten = SqlForgotten(session)
        self.personal = SqlPersonal(session)
        self.people = SqlPeople(session)
        self.sessions = SqlSessions(session)
        self.approvals = SqlApprovals(session)
        self.settings = SqlShopSettings(session)
        self.jobs = SqlJobs(session)
        self.drafts = SqlDrafts(session)
        self.replies = SqlReplies(session)
        self.schedules = SqlSchedules(session)
        self.webhooks = SqlWebhooks(session)
        self.journal = SqlJournal(session)


class _Undone(Exception):  # noqa: N818 - no error: the way out of a dry run
    pass


class CampaignStore:
    """Campaigns, decisions, ledger, evidence and belief; implements `records.ports.Store`.

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
    ) -> "CampaignStore | None":
        """The store, where its database has our tables; None, and nothing written, where it is empty or absent."""
        database = open_database(url)
        if is_empty(database):
            database.engine.dispose()
            return None
        return cls(database, artefacts, locale=locale, clock=clock)

    @classmethod
    def embedded(cls, path: Path) -> "CampaignStore":
        """One SQLite file with its artefacts in a folder beside it; made when absent."""
        private_folder(path.parent)
        return cls(f"sqlite:///{path}", path.with_name(f"{path.stem}-artefacts"))

    def by(self, actor: Actor) -> "CampaignStore":
        view = copy.copy(self)
        view.actor = actor
        return view

    @contextmanager
    def reading(self) -> Iterator[SqlTransaction]:
        with plain_errors(self._database, "reading"), self._database.reading() as connection:
            yield SqlTransaction(Session(connection, self._database, self._artefacts), self.locale)

    @contextmanager
    def writing(self, subject: str, *, action: str, dry_run: bool = False) -> Iterator[SqlTransaction]:
        doing = "writing the model" if subject == BELIEF else f"writing {subject} ({action})"
        begun = self._database.writing(subject)
        with self._transaction(begun, subject, doing, action=action, dry_run=dry_run) as transaction:
            yield transaction

    @contextmanager
    def bookkeeping(self) -> Iterator[SqlTransaction]:
        with plain_errors(self._database, "keeping books"), self._database.bookkeeping() as connection:
            refuse_upgraded(connection, self._database)
            yield SqlTransaction(Session(connection, self._database, self._artefacts), self.locale)

    @contextmanager
    def alone(self, *, action: str, dry_run: bool = False) -> Iterator[SqlTransaction]:
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
    ) -> Iterator[SqlTransaction]:
        try:
            with (
                rehearsal(self._artefacts) if dry_run else nullcontext(self._artefacts) as artefacts,
                plain_errors(self._database, doing),
                begun as connection,
            ):
                state = question_of_state(subject)
                with any_text(connection):
                    before = hash_of_state(refuse_upgraded(connection, self._database, state))
                session = Session(connection, self._database, artefacts)
                mark = self._database.mark(connection)
                yield SqlTransaction(session, self.locale)
                sealed = seal_states(session)
                if dry_run:
                    send_changes(connection)  # a rehearsal is refused where the real one would be
                    raise _Undone
                if sealed or self._database.has_written(connection, since=mark):
                    with any_text(connection):
                        questions = [*state, question_of_head(subject)]
                        last, (*after, heads) = self._database.last_entry(connection, questions)
                    append(
                        connection,
                        last,
                        actor=self.actor,
                        at=datetime.now(UTC) if self._clock is None else self._clock.now(),
                        action=action,
                        subject=subject,
                        before=before,
                        after=hash_of_state(after),
                        detail=session.detail,
                        heads=heads,
                    )
        except _Undone:
            pass

    def remove_unnamed(self, *, dry_run: bool = False) -> dict[str, int]:
        # every artefact is put within a transaction: nobody's is still unnamed
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
        with plain_errors(self._database, "writing it anew"):
            self._database.compact()

    def close(self) -> None:
        self._database.engine.dispose()
