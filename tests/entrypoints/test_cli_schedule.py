"""`disco schedule`: what can never run is refused when it is added, and workers do what is due."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from disco.entrypoints.python import Shop
from disco.operations.jobs import list_jobs
from disco.operations.schedules import submit_due
from disco.records.jobs import JobKind

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
