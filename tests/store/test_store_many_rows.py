"""Many rows at once in SQLite: cells that repeat, and indexes that are built after the rows, in one transaction."""

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from disco.store import sqlite
from disco.store.sqlite import SqliteDatabase

NAMES = ("number", "text", "flag", "code")


@pytest.fixture
def database(tmp_path):
    database = SqliteDatabase(sa.make_url(f"sqlite:///{tmp_path}/one.db"))
    with database.writing("test") as connection:
        connection.exec_driver_sql("CREATE TABLE things (number BIGINT, text TEXT, flag BOOLEAN, code TEXT)")
        connection.exec_driver_sql("CREATE INDEX things_by_text ON things (text) WHERE flag = 1")
        connection.exec_driver_sql("CREATE UNIQUE INDEX things_one_code ON things (code)")
    yield database
    database.engine.dispose()


def things(count, first=0, *, text="it's", flag=True):
    codes = [f"c{first + number}" for number in range(count)]
    return pa.table(
        [[first + number for number in range(count)], [text] * count, [flag] * count, codes],
        schema=pa.schema([("number", pa.int64()), ("text", pa.string()), ("flag", pa.bool_()), ("code", pa.string())]),
    )


def kept(database):
    with database.reading() as connection:
        return connection.exec_driver_sql("SELECT * FROM things ORDER BY number").all()


def indexes(database):
    with database.reading() as connection:
        found = "SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name"
        return connection.exec_driver_sql(found).all()


def put(database, rows):
    table = sa.table("things")
    with database.writing("test") as connection:
        database.insert(connection, table, rows)


def test_many_rows_are_kept_as_few_are_and_find_the_indexes_they_had(database, monkeypatch):
    monkeypatch.setattr(sqlite, "_MANY_ROWS", 300)
    before = indexes(database)
    put(database, things(400))
    put(database, things(500, 400, text=None, flag=False))
    put(database, things(3, 900))
    rows = kept(database)
    assert [row[0] for row in rows] == list(range(903))
    assert {tuple(row[1:3]) for row in rows[:400]} == {("it's", 1)}
    assert {tuple(row[1:3]) for row in rows[400:900]} == {(None, 0)}
    assert indexes(database) == before
    with database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"


@pytest.mark.parametrize("many", [300, 10**6])
def test_a_key_that_is_there_refuses_all_rows_and_leaves_the_indexes(database, monkeypatch, many):
    monkeypatch.setattr(sqlite, "_MANY_ROWS", many)
    put(database, things(10))
    before = (kept(database), indexes(database))
    for wrong in (things(400, 5), pa.concat_tables([things(300, 50), things(300, 60)])):
        with pytest.raises(Exception, match=r"UNIQUE constraint failed: things\.code"):
            put(database, wrong)
        assert (kept(database), indexes(database)) == before


@given(cell=st.one_of(st.none(), st.text(alphabet="a'\"\n€;-", max_size=6), st.integers(-(2**63), 2**63 - 1)))
def test_a_cell_in_the_statement_is_the_cell_handed_over(cell):
    import sqlite3

    column = pa.array([cell] * 3, pa.int64() if isinstance(cell, int) else pa.string())
    literal = sqlite._constant(column)
    assert literal is not None
    assert sqlite3.connect(":memory:").execute(f"SELECT {literal}, ?", (cell,)).fetchone() == (cell, cell)
    assert sqlite._constant(pa.concat_arrays([column, pa.nulls(1, column.type)])) == ("NULL" if cell is None else None)
