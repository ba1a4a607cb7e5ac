"""Schedules: jobs that are asked for at times of the shop's wall clock, or when the codes of a campaign have matured.

A rule is a sentence, such as "every monday at 06:00". Its time is that of the clock in the shop. When clocks go
forward, a time that is never shown becomes the next minute that is. When they go back, a time that is shown twice
counts once, the first time. What was missed while no worker ran is asked for once.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from disco.adapters.shop import ShopFolder
from disco.office.jobs.bodies import FrontierBody, PlanBody, ValidateBody, read_body
from disco.office.schedules.rows import ScheduleRows
from disco.operations.outbox import add_job, new_id
from disco.records.errors import InputError, SealError
from disco.records.jobs import Job, JobKind, JobSchedule
from disco.records.locale import Locale
from disco.records.people import Actor, ActorKind
from disco.records.ports import Clock
from disco.records.result import Result
from disco.store import JOBS, Store, Transaction

MATURED = "when codes have matured"
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_GROUPS = {"day": _DAYS, "weekday": _DAYS[:5]}
_EVERY = re.compile(r"(?:daily|every (?P<days>[a-z, ]+)) at (?P<hour>\d{1,2}):(?P<minute>\d{2})")
_ONCE = re.compile(r"at (?P<day>\d{4}-\d{2}-\d{2})[ t](?P<hour>\d{1,2}):(?P<minute>\d{2})")
_FIRST_YEAR, _LAST_YEAR = 2, 2100  # with every zone's moments within the calendar of `datetime`
_DATE = re.compile(r"\{date(?P<days>[+-]\d{1,3})?\}")
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScheduleList(Result):
    """The schedules of a shop."""

    items: tuple[JobSchedule, ...]
    """In the order they were made."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemovedSchedule(Result):
    """A schedule that is gone; the jobs it has asked for stay."""

    id: str
    """Its id."""


# ---- rules ----


@dataclass(frozen=True, slots=True)
class _Weekly:
    days: tuple[int, ...]  # Monday is 0
    at: time

    def __str__(self) -> str:
        named = "daily" if len(self.days) == len(_DAYS) else f"every {', '.join(_DAYS[day] for day in self.days)}"
        return f"{named} at {self.at:%H:%M}"


@dataclass(frozen=True, slots=True)
class _OneTime:
    at: datetime  # of the wall clock

    def __str__(self) -> str:
        return f"at {self.at:%Y-%m-%d %H:%M}"


def read_rule(text: str) -> str:
    """The rule in its usual words; InputError.

    >>> read_rule("Every Friday,  monday at 6:05"), read_rule("every weekday at 07:30"), read_rule("every day at 23:59")
    ('every monday, friday at 06:05', 'every monday, tuesday, wednesday, thursday, friday at 07:30', 'daily at 23:59')
    >>> read_rule("at 2027-03-08 9:00"), read_rule("When codes have matured")
    ('at 2027-03-08 09:00', 'when codes have matured')
    """
    return str(_parsed(text))


def _parsed(text: str) -> "_Weekly | _OneTime | str":
    plain = " ".join(text.lower().replace(" and ", ", ").split())
    if plain == MATURED:
        return MATURED
    try:
        if found := _EVERY.fullmatch(plain):
            named = "day" if found["days"] is None else found["days"]
            days = {day for word in named.split(",") for day in _weekdays(word.strip())}
            at = time(int(found["hour"]), int(found["minute"]))
            return _Weekly(tuple(sorted(map(_DAYS.index, days))), at)
        if found := _ONCE.fullmatch(plain):
            day = date.fromisoformat(found["day"])
            if _FIRST_YEAR <= day.year <= _LAST_YEAR:
                return _OneTime(datetime.combine(day, time(int(found["hour"]), int(found["minute"]))))
    except ValueError:
        pass  # a day or a time that no calendar or clock shows: refused with all others
    examples = '"daily at 06:00", "every monday at 06:00", "at 2027-03-08 09:00" or "when codes have matured"'
    raise InputError("rule of a schedule", found=repr(text), expected=f"words such as {examples}")


def _weekdays(word: str) -> Sequence[str]:
    if word in _GROUPS:
        return _GROUPS[word]
    if word not in _DAYS:
        raise ValueError(word)
    return (word,)


def next_time(rule: str, time_zone: str, *, after: datetime) -> datetime | None:
    """The first moment of a rule after this one, in UTC; None: there is none, or it depends on the campaigns.

    >>> autumn = datetime(2026, 10, 24, 12, tzinfo=UTC)
    >>> first = next_time("daily at 02:30", "Europe/Berlin", after=autumn)
    >>> str(first), str(next_time("daily at 02:30", "Europe/Berlin", after=first))
    ('2026-10-25 00:30:00+00:00', '2026-10-26 01:30:00+00:00')
    """
    parsed, zone = _parsed(rule), Locale(time_zone=time_zone).zone
    if isinstance(parsed, str):
        return None
    if isinstance(parsed, _OneTime):
        moment = _shown(parsed.at, zone)
        return moment if moment > after else None
    day = after.astimezone(zone).date() - timedelta(days=1)  # a skipped time may fall on the day after its own
    while True:
        if day.weekday() in parsed.days and (moment := _shown(datetime.combine(day, parsed.at), zone)) > after:
            return moment
        day += timedelta(days=1)


def _shown(wall_clock: datetime, zone: tzinfo) -> datetime:
    """The first moment at which a clock in the zone shows this time, or the next minute that it ever shows."""
    while True:
        moment = wall_clock.replace(tzinfo=zone).astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == wall_clock:
            return moment
        wall_clock += _MINUTE


# ---- schedules ----


def add_schedule(store: Store, *, kind: JobKind, body: Mapping[str, Any], rule: str, clock: Clock) -> JobSchedule:
    """Make a schedule. The caller has checked the body, with `body_on` the day of its next time."""
    parsed, now = _parsed(rule), clock.now()
    if parsed == MATURED and kind is not JobKind.LEARN:
        raise InputError("schedule", found=f"{kind} {MATURED}", expected=f"learn {MATURED}")
    if parsed == MATURED and body.get("campaigns"):
        fix = "Leave out the campaigns: it learns those whose codes have just matured."
        raise InputError("schedule", found=f"campaigns with {MATURED!r}", expected="no campaigns", fix=fix)
    zone = store.locale.time_zone
    schedule = JobSchedule(
        id=new_id(),
        kind=kind,
        body=body,
        rule=str(parsed),
        time_zone=zone,
        next_at=next_time(rule, zone, after=now),
        paused=False,
        actor=store.actor,
        created_at=now,
    )
    if isinstance(parsed, _OneTime) and schedule.next_at is None:
        raise InputError("schedule", found=f"{schedule.rule}, which is over", expected="a time that is to come")
    with store.writing(JOBS, action="add schedule") as transaction:
        ScheduleRows(transaction).add(schedule)
        transaction.journal.note(schedule_id=schedule.id, kind=schedule.kind, rule=schedule.rule)
    return schedule


def list_schedules(store: Store) -> ScheduleList:
    with store.reading() as transaction:
        return ScheduleList(items=ScheduleRows(transaction).all())


def remove_schedule(store: Store, schedule_id: str) -> RemovedSchedule:
    with store.writing(JOBS, action="remove schedule") as transaction:
        schedule = ScheduleRows(transaction).get(schedule_id)
        ScheduleRows(transaction).remove(schedule.id)
        transaction.journal.note(schedule_id=schedule.id)
    return RemovedSchedule(id=schedule.id)


def pause_schedule(store: Store, schedule_id: str, *, paused: bool, clock: Clock) -> JobSchedule:
    """Pause or resume; what was missed in a pause is not asked for."""
    with store.writing(JOBS, action="pause schedule" if paused else "resume schedule") as transaction:
        schedule = ScheduleRows(transaction).get(schedule_id)
        next_at = next_time(schedule.rule, schedule.time_zone, after=clock.now())
        ScheduleRows(transaction).set_paused(schedule.id, paused, next_at=next_at)
        transaction.journal.note(schedule_id=schedule.id)
        return ScheduleRows(transaction).get(schedule.id)


def body_on(body: Mapping[str, Any], day: date) -> dict[str, Any]:
    """The body for one day: `{date}`, and `{date+7}` for a week later, stand for it in every text.

    >>> body_on({"campaign": "week-{date}", "valid": [{"from": "{date+1}", "days": 7}]}, date(2027, 3, 8))
    {'campaign': 'week-2027-03-08', 'valid': [{'from': '2027-03-09', 'days': 7}]}
    """

    def dated(value: Any) -> Any:
        if isinstance(value, str):
            return _DATE.sub(lambda found: str(day + timedelta(days=int(found["days"] or 0))), value)
        if isinstance(value, Mapping):
            return {key: dated(part) for key, part in value.items()}
        return [dated(part) for part in value] if isinstance(value, list | tuple) else value

    return {key: dated(part) for key, part in body.items()}


def check_scheduled(shop: "ShopFolder", kind: JobKind, body: Mapping[str, Any], rule: str) -> None:
    """Refuse what a schedule could never run: its body is checked as on the day of its next time."""
    words, zone = read_rule(rule), shop.settings.locale
    first = next_time(words, zone.time_zone, after=shop.clock.now()) or shop.clock.now()
    content = body_on(body, zone.day_of(first))
    if words == MATURED and kind is JobKind.LEARN:  # the campaigns are known when the time has come
        content = {**content, "campaigns": content.get("campaigns") or ["any"]}
    asked = read_body(kind, content)
    plan = asked.plan if isinstance(asked, PlanBody | FrontierBody | ValidateBody) else None
    if plan is not None:
        shop.read_plan(plan)


# ---- what a worker does ----


def submit_due(store: Store, *, clock: Clock) -> tuple[Job, ...]:
    """Ask for the jobs of all schedules that are due, each occurrence once, whoever else looks at the same time."""
    now, asked = clock.now(), list[Job]()
    with store.reading() as transaction:
        due = [one for one in ScheduleRows(transaction).all() if _occurrences(transaction, one, now)]
    for schedule in due:
        actor = Actor(schedule.actor.name, ActorKind.SCHEDULE)
        # one that another program has changed asks for nothing, and the others go on; `disco doctor` names it
        with suppress(SealError), store.by(actor).writing(JOBS, action="run schedule") as transaction:
            # read again: another worker may have been faster, or the schedule is gone
            there = next((one for one in ScheduleRows(transaction).all() if one.id == schedule.id), None)
            occurrences = () if there is None else _occurrences(transaction, there, now)
            if there is None or not occurrences:
                continue
            job = add_job(
                transaction, there.kind, _body(there, occurrences), actor=actor, now=now, schedule_id=there.id
            )
            for occurrence in occurrences:
                ScheduleRows(transaction).add_occurrence(there.id, occurrence, job_id=job.id)
            ScheduleRows(transaction).set_next(there.id, next_time(there.rule, there.time_zone, after=now))
            transaction.journal.note(schedule_id=there.id, job_id=job.id, kind=job.kind)
            asked.append(job)
    return tuple(asked)


def _occurrences(transaction: Transaction, schedule: JobSchedule, now: datetime) -> tuple[str, ...]:
    """What a schedule has to ask for now: its time, or the campaigns whose codes have matured since it was made."""
    if schedule.paused:
        return ()
    if schedule.rule != MATURED:
        return () if schedule.next_at is None or schedule.next_at > now else (schedule.next_at.isoformat(),)
    locale = Locale(time_zone=schedule.time_zone)
    first, today = locale.day_of(schedule.created_at), locale.day_of(now)
    matured = [one.campaign for one in transaction.plans.campaigns() if first <= one.matures_on <= today]
    if not matured:
        return ()
    known = ScheduleRows(transaction).occurred(schedule.id)
    return tuple(name for name in matured if name not in known)


def _body(schedule: JobSchedule, occurrences: Sequence[str]) -> dict[str, Any]:
    if schedule.rule == MATURED:
        return {**schedule.body, "campaigns": list(occurrences)}
    day = Locale(time_zone=schedule.time_zone).day_of(datetime.fromisoformat(occurrences[0]))
    return body_on(schedule.body, day)
