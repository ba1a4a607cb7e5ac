"""Rows: a frozen dataclass comes back as it was, and a tally is a sum that knows no order."""

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from store_samples import MOMENT, NETWORK, add_campaign, decisions, version
from stores import open_store

from disco.office.people.rows import KeyRecord, PersonRecord, SessionRecord
from disco.records.errors import SealError
from disco.records.jobs import Draft, Event, Job, JobKind, JobProblem, JobProgress, JobSchedule, JobState, Webhook
from disco.records.people import Actor, ActorKind, Role
from disco.store import Store, schema
from disco.store.beliefs import VersionRecord
from disco.store.rows import KINDS, from_row, plus, seal_of, sealed, state_of, state_of_all, sum_of, to_row
from disco.store.schema import moment_of

ANNA = Actor("Anna", ActorKind.PERSON)
MADE: dict[str, Any] = {"actor": ANNA, "created_at": MOMENT}
JOB = Job(
    id="a1", kind=JobKind.CHECK, body={"campaign": "spring", "deep": {"list": [1, 2.5, None]}}, state=JobState.FAILED,
    due_at=MOMENT + timedelta(days=1), progress=JobProgress(done=3, total=None, stage="рассылка"),
    problem=JobProblem(error="StateError", message="no", problems=({"row": 1}, {"row": 2})), cancel_requested=True,
    **MADE,
)  # fmt: skip
RECORDS = [
    PersonRecord(name="Zoë", role=Role.ADMIN, created_at=MOMENT, disabled=True),
    KeyRecord(
        key_id="k", name="shop", role=Role.VIEWER, secret_hash="0f", created_by="Anna", created_at=MOMENT,
        expires_at=MOMENT,
    ),
    SessionRecord(token_hash="t", name="Anna", created_at=MOMENT, used_at=MOMENT, expires_at=MOMENT),
    JOB,
    JobSchedule(
        id="s", kind=JobKind.CHECK, body={}, rule="daily at 06:00", time_zone="UTC", next_at=None, paused=False, **MADE
    ),
    Draft(name="spring", revision=3, plan={"depths": {"0.1": {"at_most": 40}}}, changed_at=MOMENT, actor=ANNA),
    Webhook(id="w", url="https://shop.example/", events=(Event.CHECK_FAILED,), active=True, **MADE),
    version(2, basket=b"\x00\xff"),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was(record: Any) -> None:
    row = to_row(record)
    assert all(cell is None or isinstance(cell, int | float | str | bytes) for cell in row.values())
    moments = {name: moment_of(row[name]) for name in row if name.endswith("_at") and row[name] is not None}
    back = from_row(type(record), {**row, **moments})
    assert back == record
    for field in fields(record):
        assert type(getattr(back, field.name)) is type(getattr(record, field.name)), field.name


def test_a_column_that_is_not_there_leaves_the_default() -> None:
    row = {name: cell for name, cell in to_row(version(1)).items() if name != "basket"}
    with pytest.raises(TypeError, match="basket"):
        from_row(VersionRecord, row)
    assert from_row(JobProgress, {"done": 1}) == JobProgress(done=1)


def test_every_table_with_a_seal_has_a_kind() -> None:
    with_seal = {table for table in schema.metadata.sorted_tables if "seal" in table.c}
    assert with_seal - {schema.arrivals} == set(KINDS)


def test_a_seal_covers_every_column_but_itself_and_a_number_that_the_database_gives() -> None:
    for table in KINDS:
        row = {column.name: f"cell of {column.name}" for column in table.c}
        for column in table.c:
            same = seal_of(table, {**row, column.name: "another"}) == seal_of(table, row)
            given = column is table.autoincrement_column or "unsealed" in column.info
            assert same == (column.name == "seal" or given), f"{table.name}.{column.name}"


def test_rows_of_two_tables_with_equal_cells_have_two_seals() -> None:
    row = {"plan_id": "p", "name": "Anna", "kind": "person"}
    assert seal_of(schema.plan_makers, row) != seal_of(schema.approvals, row)


def test_a_tally_is_a_sum_in_any_order_and_subtraction_undoes_it() -> None:
    seals = [sealed(schema.secrets, {"name": str(number), "value": b"x"})["seal"] for number in range(20)]
    assert sum_of(seals) == sum_of(reversed(seals))
    assert plus(sum_of(seals), -sum_of(seals[:7])) == sum_of(seals[7:])
    assert plus(0, -1) == 2**256 - 1
    assert sum_of([None, "no seal"]) == 0


def test_a_state_is_that_of_rows_and_not_of_the_journal() -> None:
    assert state_of({}) is None
    assert state_of({"plans": 0, "journal": 7}) is None
    assert state_of({"plans": 1, "journal": 7}) == state_of({"journal": 8, "plans": 1, "people": 0})
    assert state_of({"plans": 1}) != state_of({"people": 1})
    assert state_of_all({"spring": None}) is None
    assert state_of_all({"spring": "a", "autumn": None}) == state_of_all({"spring": "a"})


@pytest.fixture
def store(store_url: str):
    opened = open_store(store_url)
    with opened.writing("spring", action="launch") as transaction:
        add_campaign(transaction, decided=decisions(["a", "b"], codes=["A", None]))
        transaction.decisions.set_reserve("spring", {0.1: 3, 0.25: None})
        transaction.beliefs.put_evidence("spring", NETWORK, b"evidence")
    yield opened
    opened.close()


def test_whoever_writes_rows_of_another_owner_has_an_entry_about_each(store: Store) -> None:
    with store.writing("spring", action="two at once") as transaction:
        add_campaign(transaction, "winter", decided=decisions(["w"], codes=["W"]))
        transaction.forgotten.add(["anna"], at=MOMENT)
    with store.reading() as transaction:
        entries = transaction.journal.entries(after=1, limit=10)
        assert [entry.subject for entry in entries] == ["spring", "winter", schema.EVERYTHING]
        assert transaction.journal.first_break() is None
        assert (transaction.seals.broken(), transaction.seals.broken_of("winter")) == ((), ())


def test_a_row_that_another_program_has_changed_is_not_written_over(store: Store) -> None:
    with store._database.engine.begin() as connection:
        connection.execute(schema.evidence.update().values(evidence=b"forged"))
    with (
        pytest.raises(SealError, match="The evidence of campaign spring was changed"),
        store.writing("spring", action="learn") as transaction,
    ):
        transaction.beliefs.put_evidence("spring", NETWORK, b"more")


@pytest.mark.parametrize("lost", ["UPDATE evidence SET seal = NULL", "DELETE FROM evidence"])
@pytest.mark.parametrize(("again", "fits"), [(b"evidence", True), (b"another", False)])
def test_a_repair_fits_where_it_brings_back_what_was_kept(store: Store, lost: str, again: bytes, fits: bool) -> None:
    with store._database.engine.begin() as connection:
        connection.exec_driver_sql(lost)
    with store.writing("spring", action="repair") as transaction:
        assert transaction.seals.broken_of("spring") != ()
        transaction.beliefs.restore_evidence("spring", NETWORK, again)
    with store.reading() as transaction:
        assert (transaction.seals.broken_of("spring") == ()) is fits


def test_rows_put_in_from_elsewhere_are_found(store: Store) -> None:
    """With a seal that fits: it is copied from a database in which the person is real."""
    person = PersonRecord(name="Eve", role=Role.ADMIN, created_at=MOMENT)
    row = sealed(schema.people, {**to_row(person), "folded": "eve"})
    with store._database.engine.begin() as connection:
        connection.execute(schema.people.insert(), {**row, "created_at": MOMENT})
    with store.reading() as transaction:
        assert [one.subject for one in transaction.seals.broken()] == [f"person of {schema.PEOPLE}"]


def test_a_campaign_whose_row_is_gone_is_not_launched_again(store: Store) -> None:
    """Its tallies still speak of the first launch, so that nobody could read the second one."""
    with store._database.engine.begin() as connection:
        for table in (schema.evidence, schema.reserves, schema.contexts, schema.batches, schema.campaigns):
            connection.execute(table.delete())
    with (
        pytest.raises(SealError, match="Campaign spring was changed by something other than disco"),
        store.writing("spring", action="launch") as transaction,
    ):
        add_campaign(transaction, "spring")
