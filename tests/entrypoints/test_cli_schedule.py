"""`disco schedule`: what can never run is refused when it is added, and workers do what is due."""

import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from disco.entrypoints.python import Shop
from disco.entrypoints.worker import run_worker
from disco.office.jobs.use_cases import get_job, list_jobs
from disco.office.schedules.use_cases import add_schedule, submit_due
from disco.records.jobs import JobKind, JobState

Disco = Callable[..., tuple[int, str, str]]
WEEKLY = """
campaign: weekly-{date}
customers: {as_of: "{date}"}
depths: {0.10: {at_most: 30%}}
objective: {revenue_weight: 3}
valid: {from: "{date+1}", days: 7}
"""


@pytest.fixture
def new_shop(tmp_path: Path) -> Path:
    (tmp_path / "disco.yaml").write_text("time_zone: Europe/Berlin\ncurrency: EUR\n")
    (tmp_path / "weekly.yaml").write_text(WEEKLY)
    return tmp_path


def test_a_schedule_is_added_listed_run_and_removed(disco: Disco, new_shop: Path) -> None:
    assert disco("schedule", "list", "--shop", new_shop)[:2] == (0, "There are no schedules.\n")
    code, out, _ = disco(
        "schedule", "add", "Every Monday at 6:00", "plan", new_shop / "weekly.yaml", "--shop", new_shop, "--json"
    )
    made = json.loads(out)
    assert (code, made["rule"], made["time_zone"]) == (0, "every monday at 06:00", "Europe/Berlin")
    assert made["body"]["plan"]["campaign"] == "weekly-{date}"
    code, out, err = disco("schedule", "add", "when codes have matured", "learn", "--shop", new_shop)
    assert (code, "It waits for campaigns" in out, "disco worker" in err) == (0, True, True)
    code, out, _ = disco("schedule", "list", "--shop", new_shop)
    assert (code, len(out.splitlines())) == (0, 2)

    later = Shop.open(new_shop, now=datetime.now(UTC) + timedelta(days=8))
    with later.store() as store:
        (job,) = submit_due(store, clock=later.clock)
        assert job.kind is JobKind.PLAN
        campaign = job.body["plan"]["campaign"].removeprefix("weekly-")
        assert datetime.fromisoformat(campaign).weekday() == 0
        assert len(list_jobs(store).items) == 1
    code, out, _ = disco("schedule", "remove", made["id"][:6], "--shop", new_shop)
    assert (code, made["id"] in out) == (0, True)
    assert disco("schedule", "remove", made["id"], "--shop", new_shop)[0] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("now and then", "doctor"), 1, "every monday at 06:00"),
        (("daily at 06:00", "coffee"), 2, "one of plan, learn"),
        (("daily at 06:00", "launch"), 1, "Add `plan_id`"),
        (("at 2020-01-01 06:00", "doctor"), 1, "which is over"),
        (("when codes have matured", "doctor"), 1, "learn when codes have matured"),
        (("daily at 06:00", "learn"), 2, "Name `campaigns`"),
        (("daily at 06:00", "doctor", "x"), 2, "nothing after the kind"),
        (("daily at 06:00", "plan", "abcd"), 2, "a plan file"),
        (("daily at 06:00", "plan", "broken.yaml"), 1, "customers.as_of on or before valid.from"),
    ],
)
def test_what_could_never_run_is_refused(
    disco: Disco,
    new_shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(new_shop)
    (new_shop / "broken.yaml").write_text(WEEKLY.replace("{date+1}", "{date-30}"))
    found = disco("schedule", "add", *arguments, "--shop", new_shop)
    assert (found[0], found[1]) == (code, "")
    assert words in " ".join(found[2].split())
    assert disco("schedule", "list", "--shop", new_shop)[1] == "There are no schedules.\n"


def test_more_options_come_from_a_file(disco: Disco, new_shop: Path) -> None:
    options = new_shop / "options.yaml"
    options.write_text("window_start: 2026-06-01\nmax_epochs: 3\n")
    code, out, err = disco(
        "schedule", "add", "daily at 01:00", "train", "--body", options, "--shop", new_shop, "--json"
    )
    assert code == 0, err
    assert json.loads(out)["body"] == {"window_start": "2026-06-01", "max_epochs": 3}


def test_the_daily_schedule_of_the_documentation_prepares_late_arrivals_anew(disco: Disco, shop: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text(encoding="utf-8")
    [printed] = [shlex.split(line) for line in page.splitlines() if line.endswith(" contexts") and "schedule" in line]
    assert printed[:3] == ["disco", "schedule", "add"]
    during = [datetime(2025, 10, day, 12, tzinfo=UTC) for day in (5, 6, 7)]
    plan = yaml.safe_load((shop / "second.yaml").read_text()) | {"reserve": {"share": "10%"}}
    planned = Shop.open(shop, now=datetime(2025, 10, 1, tzinfo=UTC)).plan(plan)
    Shop.open(shop, now=during[0]).launch(planned.plan_id)
    with Shop.open(shop, now=during[0]).store() as store:
        add_schedule(
            store, rule=printed[3], kind=JobKind(printed[4]), body={}, clock=Shop.open(shop, now=during[0]).clock
        )
    days = []
    for moment in during[1:]:
        run_worker(Shop.open(shop, now=moment), until_idle=True)
        with Shop.open(shop, now=moment).store() as store:
            done = [one for one in list_jobs(store, kind=JobKind.CONTEXTS).items if one.schedule_id is not None]
            assert [one.state for one in done] == [JobState.DONE] * len(done), done
            [prepared] = get_job(store, done[0].id).result["campaigns"]
        days.append((len(done), prepared["campaign"], prepared["as_of"]))
    assert days == [(1, "second", "2025-10-06"), (2, "second", "2025-10-07")]
    assert disco(*printed[1:], "--shop", shop)[0] == 0
