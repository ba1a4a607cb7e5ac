"""Schedules follow the clock in the shop through both changes of a year, survive restarts, and repeat nothing."""

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from job_steps import Clock
from store_samples import add_campaign
from stores import on_both_databases, open_store

from disco.office.jobs import use_cases as jobs
from disco.office.schedules import use_cases as schedules
from disco.office.schedules.use_cases import MATURED, body_on, next_time, read_rule
from disco.records.errors import InputError, NotFoundError, SealError
from disco.records.jobs import JobKind
from disco.records.locale import Locale
from disco.records.money import read_currency
from disco.records.people import Actor, ActorKind
from disco.store import Store

BERLIN = Locale(read_currency("EUR"), "Europe/Berlin")
CHECK = {"kind": JobKind.CHECK, "body": {}}


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = open_store(database_url, BERLIN)
    yield store
    store.close()


def local(zone: str, text: str) -> datetime:
    """A moment by the clock of a zone."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def times(rule: str, zone: str, *, after: datetime, count: int) -> list[str]:
    """The next times of a rule, as the clock of the zone shows them."""
    found = []
    for _ in range(count):
        moment = next_time(rule, zone, after=after)
        assert moment is not None
        assert moment > after
        found.append(moment.astimezone(ZoneInfo(zone)).isoformat())
        after = moment
    return found


@pytest.mark.parametrize(
    ("zone", "day", "offset_before", "offset_after"),
    [("Europe/Berlin", "2026-03-29", "+01:00", "+02:00"), ("America/New_York", "2026-03-08", "-05:00", "-04:00")],
)
def test_a_time_that_is_skipped_runs_at_the_next_minute_that_exists(
    zone: str, day: str, offset_before: str, offset_after: str
) -> None:
    before = date.fromisoformat(day) - timedelta(days=1)
    after = before + timedelta(days=2)
    found = times("daily at 02:30", zone, after=local(zone, f"{before}T00:00"), count=3)
    assert found == [
        f"{before}T02:30:00{offset_before}",
        f"{day}T03:00:00{offset_after}",
        f"{after}T02:30:00{offset_after}",
    ]
    # what is not skipped keeps its time of day, which is 23 hours later
    found = times("daily at 06:00", zone, after=local(zone, f"{before}T00:00"), count=2)
    assert found == [f"{before}T06:00:00{offset_before}", f"{day}T06:00:00{offset_after}"]


@pytest.mark.parametrize(
    ("zone", "day", "hour", "offset_before", "offset_after"),
    [
        ("Europe/Berlin", "2026-10-25", "02", "+02:00", "+01:00"),
        ("America/New_York", "2026-11-01", "01", "-04:00", "-05:00"),
    ],
)
def test_a_time_that_is_shown_twice_runs_once(
    zone: str, day: str, hour: str, offset_before: str, offset_after: str
) -> None:
    tomorrow = date.fromisoformat(day) + timedelta(days=1)
    found = times(f"daily at {hour}:30", zone, after=local(zone, f"{day}T00:00"), count=2)
    assert found == [f"{day}T{hour}:30:00{offset_before}", f"{tomorrow}T{hour}:30:00{offset_after}"]
    between = datetime.fromisoformat(f"{day}T{hour}:45:00{offset_before}")  # the second 02:30 is still to come
    assert times(f"daily at {hour}:30", zone, after=between, count=1) == found[1:]
    found = times("daily at 06:00", zone, after=local(zone, f"{day}T00:00"), count=1)
    assert found == [f"{day}T06:00:00{offset_after}"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("at", ["02:30", "01:30", "00:00", "23:59", "06:00"])
def test_a_year_of_daily_runs_has_one_run_for_every_day(zone: str, at: str) -> None:
    after, seen = local(zone, "2026-01-01T00:00") - timedelta(minutes=1), []
    while (moment := next_time(f"daily at {at}", zone, after=after)) is not None:
        shown = moment.astimezone(ZoneInfo(zone))
        if shown.year > 2026:
            break
        seen.append(shown.date())
        after = moment
    assert seen == [date(2026, 1, 1) + timedelta(days=place) for place in range(365)]


def test_a_zone_that_skipped_a_whole_day_runs_at_the_first_minute_after_it() -> None:
    zone = "Pacific/Apia"  # 30 December 2011 was never
    found = times("daily at 06:00", zone, after=local(zone, "2011-12-29T07:00"), count=2)
    assert [text[:16] for text in found] == ["2011-12-31T00:00", "2011-12-31T06:00"]


def test_weekdays_are_those_of_the_shop() -> None:
    found = times("every monday at 00:30", "Europe/Berlin", after=datetime(2026, 11, 15, 23, tzinfo=UTC), count=2)
    assert [text[:16] for text in found] == ["2026-11-16T00:30", "2026-11-23T00:30"]


@pytest.mark.parametrize(
    "rule",
    [
        *("", "monday", "every monday", "every mon at 06:00", "every  at 06:00", "every , at 06:00", "daily at 6"),
        *(
            "daily at 24:00",
            "at 2027-02-30 09:00",
            "at 9999-12-31 23:59",
            "at 0001-01-01 00:00",
            "every monday at 06:00; x",
            "when codes mature",
        ),
    ],
)
def test_other_words_are_refused_with_examples(rule: str) -> None:
    with pytest.raises(InputError, match=r"rule of a schedule: found .*every monday at 06:00"):
        read_rule(rule)


@on_both_databases
def test_a_schedule_asks_for_each_occurrence_once_and_goes_on_after_a_restart(store: Store, database_url: str) -> None:
    clock = Clock(local("Europe/Berlin", "2026-03-27T12:00"))
    zoe = store.by(Actor("Zoë", ActorKind.PERSON))
    made = schedules.add_schedule(zoe, **CHECK, rule="Daily at 2:30", clock=clock)
    assert (made.rule, made.time_zone) == ("daily at 02:30", "Europe/Berlin")
    assert made.next_at == local("Europe/Berlin", "2026-03-28T02:30")
    assert schedules.submit_due(store, clock=clock) == ()
    clock.moment = made.next_at
    (first,) = schedules.submit_due(store, clock=clock)
    assert (first.kind, first.schedule_id) == (JobKind.CHECK, made.id)
    assert first.actor == Actor("Zoë", ActorKind.SCHEDULE)
    assert schedules.submit_due(store, clock=clock) == ()

    again = open_store(database_url, BERLIN)  # the program was started anew
    assert schedules.submit_due(again, clock=clock) == ()
    clock.moment = local("Europe/Berlin", "2026-03-29T03:00")  # 02:30 is skipped
    assert len(schedules.submit_due(again, clock=clock)) == 1
    clock.moment = local("Europe/Berlin", "2026-04-10T12:00")  # nobody ran for twelve days
    assert len(schedules.submit_due(store, clock=clock)) == 1
    assert schedules.submit_due(again, clock=clock) == ()
    (kept,) = schedules.list_schedules(again).items
    assert kept.next_at == local("Europe/Berlin", "2026-04-11T02:30")
    assert len(jobs.list_jobs(store).items) == 3
    again.close()


@on_both_databases
def test_workers_that_look_at_once_ask_for_one_job(store: Store) -> None:
    clock = Clock(local("Europe/Berlin", "2026-03-27T12:00"))
    schedules.add_schedule(store, **CHECK, rule="daily at 13:00", clock=clock)
    clock.wait(hours=2)
    barrier, asked = threading.Barrier(4), list[int]()

    def look() -> None:
        barrier.wait(20)
        asked.append(len(schedules.submit_due(store, clock=clock)))

    lookers = [threading.Thread(target=look) for _ in range(4)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    assert sorted(asked) == [0, 0, 0, 1]
    assert len(jobs.list_jobs(store).items) == 1


def test_a_time_that_comes_once_comes_once(store: Store) -> None:
    clock = Clock(local("Europe/Berlin", "2027-03-01T12:00"))
    launch = {"kind": JobKind.LAUNCH, "body": {"plan_id": "abcd"}}
    schedules.add_schedule(store, **launch, rule="at 2027-03-08 09:00", clock=clock)
    clock.moment = local("Europe/Berlin", "2027-03-08T09:00")
    (job,) = schedules.submit_due(store, clock=clock)
    assert job.body == {"plan_id": "abcd"}
    clock.wait(days=400)
    assert schedules.submit_due(store, clock=clock) == ()
    assert schedules.list_schedules(store).items[0].next_at is None
    with pytest.raises(InputError, match="which is over"):
        schedules.add_schedule(store, **launch, rule="at 2027-03-08 09:00", clock=clock)


def test_the_day_of_the_run_stands_in_its_body(store: Store) -> None:
    clock = Clock(local("Europe/Berlin", "2027-03-03T12:00"))
    body = {"plan": {"campaign": "week-{date}", "valid": {"from": "{date+1}", "days": 7}}}
    schedules.add_schedule(store, kind=JobKind.PLAN, body=body, rule="every monday at 00:30", clock=clock)
    clock.moment = local("Europe/Berlin", "2027-03-08T05:00")
    (job,) = schedules.submit_due(store, clock=clock)
    assert job.body == {"plan": {"campaign": "week-2027-03-08", "valid": {"from": "2027-03-09", "days": 7}}}
    assert body_on({"a": ["{date-7}", 3, None, "{data}"]}, date(2027, 1, 3)) == {"a": ["2026-12-27", 3, None, "{data}"]}


@on_both_databases
def test_a_pause_leaves_out_what_would_have_come(store: Store) -> None:
    clock = Clock(local("Europe/Berlin", "2027-03-01T12:00"))
    made = schedules.add_schedule(store, **CHECK, rule="daily at 06:00", clock=clock)
    assert schedules.pause_schedule(store, made.id, paused=True, clock=clock).paused
    clock.wait(days=5)
    assert schedules.submit_due(store, clock=clock) == ()
    back = schedules.pause_schedule(store, made.id[:6], paused=False, clock=clock)
    assert (back.paused, back.next_at) == (False, local("Europe/Berlin", "2027-03-07T06:00"))
    assert schedules.submit_due(store, clock=clock) == ()
    schedules.remove_schedule(store, made.id)
    assert schedules.list_schedules(store).items == ()
    with pytest.raises(NotFoundError, match="no schedule"):
        schedules.remove_schedule(store, made.id)


@on_both_databases
def test_campaigns_are_learned_when_their_codes_have_matured_each_once(store: Store) -> None:
    with store.writing("old", action="launch") as transaction:
        add_campaign(transaction, "old", start="2027-03-02")
    with store.writing("spring", action="launch") as transaction:
        spring = add_campaign(transaction, "spring", start="2027-04-28")
    with store.writing("summer", action="launch") as transaction:
        summer = add_campaign(transaction, "summer", start="2027-06-01")
    clock = Clock(local("Europe/Berlin", "2027-04-30T12:00"))
    schedules.add_schedule(store, kind=JobKind.LEARN, body={"dry_run": False}, rule=MATURED, clock=clock)
    assert schedules.submit_due(store, clock=clock) == (), "what had matured before is not its business"
    clock.moment = local("Europe/Berlin", f"{spring.matures_on}T00:00") - timedelta(minutes=1)
    assert schedules.submit_due(store, clock=clock) == ()
    clock.wait(minutes=1)
    (job,) = schedules.submit_due(store, clock=clock)
    assert job.body == {"dry_run": False, "campaigns": ["spring"]}
    assert schedules.submit_due(store, clock=clock) == ()
    clock.moment = local("Europe/Berlin", f"{summer.matures_on}T00:00") + timedelta(days=9)
    (job,) = schedules.submit_due(store, clock=clock)
    assert job.body["campaigns"] == ["summer"]
    with pytest.raises(InputError, match="learn when codes have matured"):
        schedules.add_schedule(store, **CHECK, rule=MATURED, clock=clock)
    with pytest.raises(InputError, match="Leave out the campaigns"):
        schedules.add_schedule(store, kind=JobKind.LEARN, body={"campaigns": ["x"]}, rule=MATURED, clock=clock)


@on_both_databases
def test_a_schedule_that_another_program_changed_asks_for_nothing_and_the_others_go_on(store: Store) -> None:
    clock = Clock(datetime(2026, 11, 16, 12, tzinfo=UTC))
    changed, sound = (schedules.add_schedule(store, rule="daily at 06:00", clock=clock, **CHECK) for _ in range(2))
    with store._database.writing("test") as connection:
        connection.exec_driver_sql(f"UPDATE schedules SET kind = 'doctor' WHERE id = '{changed.id}'")
    clock.wait(days=1)
    assert [job.schedule_id for job in schedules.submit_due(store, clock=clock)] == [sound.id]
    with store.reading() as transaction:
        assert [(str(one.what), one.name) for one in transaction.seals.broken()] == [("schedule", changed.id)]
    with pytest.raises(SealError, match=f"schedule {changed.id} was changed"):
        schedules.pause_schedule(store, changed.id, paused=True, clock=clock)
    assert {one.id for one in schedules.list_schedules(store).items} == {changed.id, sound.id}
    schedules.remove_schedule(store, changed.id)
    with store.reading() as transaction:
        assert transaction.seals.broken() == ()
