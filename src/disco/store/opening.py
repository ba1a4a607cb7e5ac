"""From a URL to a database at this program's revision; errors of the database in plain words."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_bytes
from typing import Any

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
from disco.records.locale import LOCALE_INPUT, Locale
from disco.store import schema
from disco.store.database import Database, ask, words
from disco.store.journal import append_own, last_within, write_tallies
from disco.store.session import SECRETS, Session
from disco.store.sqlite import PATIENCE_S, SqliteDatabase

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
