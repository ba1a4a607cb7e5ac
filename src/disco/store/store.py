"""The store: a database with our tables, opened from its URL and at this program's revision; a place of artefacts; and
repositories one transaction at a time. Errors of the database are raised in plain words."""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_bytes
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from disco.records.diagnosis import RESTORE
from disco.records.errors import (
    ConflictError,
    DiscoError,
    InputError,
    MissingPartError,
    StateError,
    UnavailableError,
    UpgradeError,
)
from disco.records.files import private_folder
from disco.records.locale import LOCALE_INPUT, POUNDS_UTC, Locale
from disco.records.people import Actor
from disco.records.ports import Clock
from disco.store import schema
from disco.store.artefacts import Artefacts, FolderArtefacts, rehearsal
from disco.store.beliefs import SqlBeliefs
from disco.store.contexts import SqlArrivals, SqlContexts
from disco.store.database import Database, any_text, ask, send_changes, words
from disco.store.decisions import SqlDecisions
from disco.store.journal import (
    SqlJournal,
    append,
    append_own,
    last_within,
    question_of_tallies,
    system_user,
    tallies_in,
    write_tallies,
)
from disco.store.ledger import SqlLedger
from disco.store.office import SqlApprovals, SqlJobs, SqlReplies, SqlShopSettings, SqlWebhooks
from disco.store.personal import SqlForgotten, SqlPersonal
from disco.store.plans import SqlPlans
from disco.store.rows import SECRETS, Session
from disco.store.schema import BELIEF, EVERYTHING
from disco.store.seals import SqlSeals
from disco.store.sqlite import PATIENCE_S, SqliteDatabase

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

    plans: _Repository[SqlPlans] = _Repository(SqlPlans)
    decisions: _Repository[SqlDecisions] = _Repository(SqlDecisions)
    contexts: _Repository[SqlContexts] = _Repository(SqlContexts)
    arrivals: _Repository[SqlArrivals] = _Repository(SqlArrivals)
    ledger: _Repository[SqlLedger] = _Repository(SqlLedger)
    beliefs: _Repository[SqlBeliefs] = _Repository(SqlBeliefs)
    seals: _Repository[SqlSeals] = _Repository(SqlSeals)
    forgotten: _Repository[SqlForgotten] = _Repository(SqlForgotten)
    personal: _Repository[SqlPersonal] = _Repository(SqlPersonal)
    approvals: _Repository[SqlApprovals] = _Repository(SqlApprovals)
    settings: _Repository[SqlShopSettings] = _Repository(SqlShopSettings)
    jobs: _Repository[SqlJobs] = _Repository(SqlJobs)
    replies: _Repository[SqlReplies] = _Repository(SqlReplies)
    webhooks: _Repository[SqlWebhooks] = _Repository(SqlWebhooks)
    journal: _Repository[SqlJournal] = _Repository(SqlJournal)

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
        self.actor: Actor = system_user()
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


# ---- from a URL to a database at this program's revision; errors in plain words ----

_SECRET_BYTES = 32
_REVISION_IN = words(sa.select(sa.column("version_num")).select_from(sa.table(schema.REVISIONS)))
KNOWN_REVISIONS = (schema.BASELINE,)  # those of migrations/versions, the last one this program's
_CONFLICTS = ("40001", "40P01")  # PostgreSQL's codes of a serialization failure and of a deadlock
UPGRADE = "Back up the database and the folders beside it, then run `disco db upgrade`."
BEFORE_BASELINE = "Go on with the disco that made it, or begin a new shop with `disco init`."
_ANOTHER_DATABASE = "Name another database in disco.yaml (database_url)."
# where trying again would not help: what SQLite says, in our words, and what to do
_SQLITE_SAYS = (
    ("file is not a database", "is not a SQLite database", _ANOTHER_DATABASE),
    ("file is encrypted", "is not a SQLite database", _ANOTHER_DATABASE),
    ("malformed", "is damaged", RESTORE),
    ("Could not decode to UTF-8", "is damaged", RESTORE),
    ("readonly database", "cannot be written", "Check the permissions of the file and of its folder."),
    ("unable to open database file", "cannot be opened", "Check the folder, its permissions and `database_url`."),
)


def open_database(url: str) -> Database:
    """The database of a URL; nothing is read or written yet."""
    try:
        parsed = sa.make_url(url)
        kind = parsed.get_backend_name()
        if kind in ("postgresql", "postgres"):
            from disco.store.postgresql import PostgresDatabase  # its driver is not needed by everybody

            return PostgresDatabase(parsed)
        if kind == "sqlite" and parsed.database not in (None, "", ":memory:"):
            return SqliteDatabase(parsed)
    except (sa.exc.ArgumentError, ValueError):  # ValueError: a port or an address that is none
        parsed = None
    except ModuleNotFoundError as error:
        fix = "Install it: pip install 'psycopg[binary]'."
        raise MissingPartError("database URL", found=str(error), expected="its driver", fix=fix) from error
    found = "something that is no URL" if parsed is None else shown(parsed)
    raise InputError("database URL", found=found, expected="sqlite:///FILE or postgresql://USER@HOST/DATABASE")


def shown(url: sa.URL) -> str:
    return url.render_as_string(hide_password=True)


def shown_url(text: str) -> str:
    """A URL without its password, or a place that is no URL as it is."""
    if "://" not in text:
        return text
    try:
        return shown(sa.make_url(text))
    except (sa.exc.ArgumentError, ValueError):
        return text.partition("://")[0] + "://…"


def is_empty(database: Database) -> bool:
    """Whether there are no tables at all: no file, an empty one, or a database that nobody has used."""
    file = database.engine.url.database
    if database.engine.dialect.name == "sqlite" and not Path(str(file)).exists():
        return True  # looking would create it
    with plain_errors(database, "opening"), database.reading() as connection:
        return revision_of(connection) is None


def prepare(database: Database) -> None:
    """Give an empty database our tables; refuse one that is at another revision than this program."""
    with plain_errors(database, "opening"):
        with database.reading() as connection:
            found = revision_of(connection)
        if found is None:
            found, _ = upgrade(database, only_empty=True)
            found = schema.REVISION if found is None else found
    _refuse_revision(database, found)


def refuse_another_revision(database: Database) -> None:
    """Refuse a database that cannot be read now, or is at another revision than this program; nothing is written."""
    with plain_errors(database, "opening"), database.reading() as connection:
        found = revision_of(connection)
    _refuse_revision(database, found)


def refuse_upgraded(connection: sa.Connection, database: Database) -> None:
    """Refuse to write where the database was upgraded since this program opened it: a server may run for months.

    An upgrade is alone with the database, so what is found here holds until the transaction ends.
    """
    try:
        found = revisions_in(connection)
    except database.engine.dialect.loaded_dbapi.Error:
        refuse_another_revision(database)  # the table may have gone with an upgrade
        raise
    if found != [schema.REVISION]:
        _refuse_revision(database, revision_of(connection))


def _refuse_revision(database: Database, found: str | None) -> None:
    if found != schema.REVISION:
        raise UpgradeError(
            f"The database {shown(database.engine.url)} is at revision {found}; this program needs {schema.REVISION}",
            fix=UPGRADE,
        )


def refuse_another_locale(database: Database, locale: Locale) -> None:
    """Refuse a currency or a time zone that is not the one in which campaigns were launched.

    Amounts are kept in minor units, and days of plans begin in a zone, so another one would change what is kept. Every
    campaign was launched in the same one, so the first says it. No writing: a plan names it among its inputs.
    """
    first = sa.select(schema.plans.c.inputs).join(schema.campaigns).order_by(schema.campaigns.c.number).limit(1)
    with plain_errors(database, "opening"), database.reading() as connection:
        inputs = connection.execute(first).scalar()
    if inputs is None:
        return
    try:
        kept = Locale.of_fingerprint(json.loads(inputs).get(LOCALE_INPUT, ""))
    except (AttributeError, TypeError, ValueError):  # a changed plan, which its seal and `disco doctor` name
        return
    settings = {
        "currency": (kept.currency.code, locale.currency.code, "amounts"),
        "time_zone": (kept.time_zone, locale.time_zone, "days"),
    }
    for setting, (before, now, what) in settings.items():
        if before != now:
            raise StateError(
                f"The campaigns of this shop were launched with {setting}: {before}, and the settings say {now}. It "
                f"cannot change once a campaign was launched, because {what} that are kept would mean something else",
                fix=f"Set `{setting}: {before}` in disco.yaml, or make a new shop with `disco init`.",
            )


def upgrade(database: Database, *, only_empty: bool = False) -> tuple[str | None, str]:
    """Bring the database to this program's revision in one transaction; the revisions before and after.

    only_empty: one that has tables stays as it is.
    """
    from disco.store.migrations import create_tables, migrate

    # alone: no writer of an earlier program may be in the middle of something
    with plain_errors(database, "upgrading"), database.alone() as connection:
        before, session = revision_of(connection), Session(connection, database)
        if before == schema.REVISION or (before is not None and only_empty):
            return before, before
        if before is None:
            create_tables(connection)
            # secrets are made with the tables and never again: from other ones other codes and groups would come
            session.add(schema.secrets, *({"name": name, "value": token_bytes(_SECRET_BYTES)} for name in SECRETS))
            write_tallies(session)
        else:
            migrate(connection)
            detail = {"from": before, "to": schema.REVISION}
            append_own(session, last_within(connection), action="upgrade", detail=detail)
        return before, schema.REVISION


def revision_of(connection: sa.Connection) -> str | None:
    """The revision of the tables, one that this program knows; None where there are no tables at all."""
    names, place = sa.inspect(connection).get_table_names(), f"The database {shown(connection.engine.url)}"
    if not names:
        return None
    if schema.REVISIONS not in names or "campaigns" not in names:
        listed = ", ".join(sorted(names)[:5])
        raise StateError(f"{place} has tables of another program ({listed})", fix=_ANOTHER_DATABASE)
    said = revisions_in(connection)
    if len(said) != 1:
        found = "no revision" if not said else f"{len(said)} revisions"
        raise StateError(f"{place} is damaged: {schema.REVISIONS} names {found}", fix=RESTORE)
    revision = said[0]
    if revision in KNOWN_REVISIONS:
        return revision
    if revision.isdecimal() and "0000" < revision < schema.BASELINE:
        words = f"{place} is at revision {revision}, from before the first release, which this disco cannot upgrade"
        raise StateError(words, fix=BEFORE_BASELINE)
    if revision.isdecimal() and revision > schema.REVISION:
        words = f"{place} is at revision {revision}, made by a newer disco; this one knows {schema.REVISION}"
        raise UpgradeError(words, fix="Install the newer disco.")
    raise StateError(f"{place} names a revision that no disco has written ({revision[:40]!r})", fix=RESTORE)


def revisions_in(connection: sa.Connection) -> list[str]:
    """What the table of revisions says: one row, unless it was damaged."""
    return [str(row[0]) for row in ask(connection, _REVISION_IN)]


@contextmanager
def plain_errors(database: Database, doing: str) -> Iterator[None]:
    """Errors of the driver as ours. Whatever is raised within a transaction undoes it."""
    driver = database.engine.dialect.loaded_dbapi
    place = f"{shown(database.engine.url)}, while {doing}"
    try:
        yield
    except (sa.exc.IntegrityError, driver.IntegrityError) as error:
        words = f"{place}: a row already exists or refers to a missing row ({_reason(error)})"
        raise StateError(words, fix="Nothing was written.") from error
    except (sa.exc.DBAPIError, driver.Error) as error:
        if "database is locked" in _reason(error):  # SQLite's words for a writer whose patience is over
            raise StateError(
                f"{place}: another process has held the write lock for {PATIENCE_S} s",
                fix="Nothing was written. Wait for that process to end, or stop it if it hangs, and try again.",
            ) from error
        reason = _reason(error)
        for said, words, fix in _SQLITE_SAYS:
            if said in reason:
                raise StateError(f"{shown(database.engine.url)} {words} ({reason})", fix=fix) from error
        if _sqlstate(error) in _CONFLICTS:
            words = f"{place}: another process changed the same rows at this moment"
            raise ConflictError(words, fix="Nothing was written. Try again.") from error
        kind = UnavailableError if _is_unreachable(error, driver) else StateError
        raise kind(
            f"{place}: the database reported an error ({reason})",
            fix="Nothing was acknowledged. It is safe to run the command again: nothing is done twice.",
        ) from error
    except sa.exc.StatementError as error:  # SQLAlchemy wraps what our own types refuse
        if isinstance(error.orig, DiscoError):
            raise error.orig from None
        raise


def _is_unreachable(error: Exception, driver: Any) -> bool:
    """Whether the server does not answer, is starting or stopping, or has ended the connection."""
    original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    # SQLite has no server: its operational errors are about the file or the statement
    return driver.__name__ != "sqlite3" and isinstance(original, driver.OperationalError | driver.InterfaceError)


def _sqlstate(error: Exception) -> str | None:
    """PostgreSQL's code of the error; None for others."""
    original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return getattr(original, "sqlstate", None)


def _reason(error: BaseException) -> str:
    original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return " ".join(str(original).split())[:200]
