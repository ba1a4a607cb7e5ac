"""Conditions of plans run in processes of their own: with limits, without secrets, not waiting for each other."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from disco.adapters import conditions
from disco.adapters.conditions import Conditions, Turn
from disco.features import eligibility
from disco.records.errors import InputError, ServiceError

CUSTOMERS = pa.table({"customer_id": [f"c{number:04d}" for number in range(3000)], "spend": np.arange(3000) / 10})
eligible_ids = partial(eligibility.eligible_ids, evaluate=Conditions().evaluate)


def _children(process: int | None = None) -> list[int]:
    """Processes of conditions that a process has started, idle ones included."""
    tasks = Path(f"/proc/{process or os.getpid()}/task").glob("*/children")
    found = [int(child) for task in tasks for child in task.read_text().split()]
    return [child for child in found if b"serve_conditions" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_a_warm_process_answers_the_next_condition_as_duckdb_does_here() -> None:
    answers, processes = [], []
    for condition in ("spend > (SELECT avg(spend) FROM customers)", "customer_id LIKE '%0007'", "contry = 1", "true"):
        try:
            answers.append(len(eligible_ids(CUSTOMERS, condition, name="t")))
        except InputError as error:
            answers.append(str(error))
        processes.append(_children())
    assert answers[:2] + answers[3:] == [1500, 1, 3000]
    assert 'Referenced column "contry" not found' in answers[2]
    assert len(processes[0]) == 1
    assert all(found == processes[0] for found in processes)


def test_a_condition_on_a_large_file_is_answered_with_its_columns_as_text(tmp_path: Path) -> None:
    count = 300_000  # several batches there and back
    ids = [f"c{number:07d}" for number in range(count)]
    regions = pa.array(["North", "South", None] * (count // 3)).dictionary_encode()
    table = pa.table({"customer_id": ids, "region": regions, "spend": np.arange(count)})
    pq.write_table(table, tmp_path / "customers.parquet", row_group_size=50_000)
    customers = pads.dataset(tmp_path / "customers.parquet")
    found = eligibility.eligible_customers(
        customers, "spend >= 100", name="t", evaluate=Conditions().evaluate, columns={"segments.column": "REGION"}
    )
    assert found["customer_id"].to_pylist() == ids[100:]
    assert found["segments.column"].to_pylist() == (["North", "South", None] * (count // 3))[100:]


def test_an_error_in_the_middle_of_the_answer_is_a_refusal_in_words() -> None:
    late = "CASE WHEN spend > 250 THEN error('boom') ELSE true END"
    with pytest.raises(InputError, match=r"customers\.eligible: found CASE .*: Invalid Input Error: boom"):
        eligible_ids(CUSTOMERS, late, name="t")


@pytest.mark.parametrize(
    "escape",
    [
        "customer_id IN (SELECT content FROM read_text('{file}'))",
        "customer_id IN (SELECT column0 FROM read_csv('{file}'))",
        "customer_id IN (SELECT column0 FROM '{file}')",
        "EXISTS (SELECT * FROM read_parquet('{file}'))",
        "EXISTS (SELECT * FROM glob('/etc/*'))",
        "EXISTS (SELECT * FROM read_blob('{file}'))",
        "EXISTS (SELECT * FROM sqlite_scan('{file}', 'x'))",
        "true); COPY customers TO '{file}.out'; SELECT (true",
        "true; ATTACH '{file}.db' AS other",
        "true; INSTALL httpfs; LOAD httpfs",
        "true; SET enable_external_access = true",
        "true; RESET lock_configuration",
        "true; PRAGMA disable_external_access",
        "EXISTS (SELECT * FROM secret)",  # a variable of the program: DuckDB would look for it
        "getenv('HOME') <> ''",
        "EXISTS (SELECT * FROM query('COPY customers TO ''{file}.out'''))",
    ],
)
def test_a_condition_reaches_no_file_no_setting_and_no_variable(tmp_path: Path, escape: str) -> None:
    secret = pa.table({"x": ["secret"]})
    file = tmp_path / "secret.txt"
    file.write_text("secret\n")
    with pytest.raises(InputError, match=r"customers\.eligible"):
        eligible_ids(CUSTOMERS, escape.replace("{file}", str(file)), name="t")
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
    assert secret.num_rows == 1


ENDLESS = "(WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t) > 0"
UNINTERRUPTIBLE = "levenshtein(repeat(customer_id, 4000), repeat(customer_id, 4001)) > 0"


@pytest.mark.parametrize("endless", [ENDLESS, UNINTERRUPTIBLE])
def test_a_condition_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, endless: str) -> None:
    monkeypatch.setattr(eligibility, "CONDITION_SECONDS", 0.3)
    with pytest.raises(InputError, match=r"did not finish within 0\.3 s"):
        eligible_ids(CUSTOMERS, endless, name="t")
    assert _children() == [], "nothing is left of it"


def test_a_condition_takes_only_so_much_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility, "CONDITION_CPU_SECONDS", 1)
    with pytest.raises(InputError, match="did not finish within 1 s of processor time"):
        eligible_ids(CUSTOMERS, UNINTERRUPTIBLE, name="t")


@pytest.mark.parametrize(
    "greedy",
    [
        "length(repeat(customer_id, 2000000)) > 0",
        "len(range(100000000)) > 0",
        "(SELECT string_agg(repeat('x', 1000)) FROM range(1000000)) IS NOT NULL",
    ],
)
def test_a_condition_takes_only_so_much_memory(monkeypatch: pytest.MonkeyPatch, greedy: str) -> None:
    monkeypatch.setattr(eligibility, "CONDITION_BYTES", 96 << 20)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(InputError, match="more than 96 MB of memory"):
        eligible_ids(CUSTOMERS, greedy, name="t")
    assert resource.getrlimit(resource.RLIMIT_AS) == limits, "no limit of this process changes"


def test_the_process_of_a_condition_has_no_secret_and_no_descriptor_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DISCO_DATABASE_URL", "postgresql://somebody:secret@host/shop")
    with (tmp_path / "open").open("w") as open_file:
        os.set_inheritable(open_file.fileno(), True)
        seen: list[str] = []

        def look() -> None:
            for child in _children():
                with (Path(f"/proc/{child}/environ")).open("rb") as environment:
                    seen.append(environment.read().decode())
                seen.extend(os.readlink(one) for one in Path(f"/proc/{child}/fd").iterdir())
                raise _StoppedError

        slow = Conditions(watch=look)
        monkeypatch.setattr(conditions, "_CHILDREN", conditions._Children())
        with pytest.raises(_StoppedError):
            eligibility.eligible_ids(CUSTOMERS, UNINTERRUPTIBLE, name="t", evaluate=slow.evaluate)
    assert seen
    assert not [one for one in seen if "secret" in one or "open" in one], seen


class _StoppedError(Exception):
    pass


def test_a_condition_that_is_stopped_ends_at_once_and_others_go_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "_PATIENCE_S", 0.1)
    lock, over, ended = threading.Lock(), threading.Event(), []

    def watch() -> None:
        if over.is_set():
            raise _StoppedError

    def hostile() -> None:
        turn = Turn(lock)
        turn.take()
        slow = Conditions(caller="mallory", watch=watch, turn=turn)
        with pytest.raises(_StoppedError):
            eligibility.eligible_ids(CUSTOMERS, UNINTERRUPTIBLE, name="t", evaluate=slow.evaluate)
        turn.leave()
        ended.append(True)

    thread = threading.Thread(target=hostile)
    thread.start()
    assert lock.acquire(timeout=60), "a slow condition leaves the turn"
    for caller in ("anna", "ben"):
        evaluate = Conditions(caller=caller).evaluate
        assert len(eligibility.eligible_ids(CUSTOMERS, "true", name="t", evaluate=evaluate)) == 3000
    monkeypatch.setattr(conditions, "_WAIT_S", 0.1)
    with pytest.raises(ServiceError, match="Too many conditions"):  # of the same caller
        eligibility.eligible_ids(CUSTOMERS, "true", name="t", evaluate=Conditions(caller="mallory").evaluate)
    over.set()
    thread.join(60)
    assert ended == [True], "also while somebody else has the turn"
    lock.release()


def test_a_condition_ends_with_the_process_that_asked(tmp_path: Path) -> None:
    code = f"""
import pyarrow as pa
from disco.adapters.conditions import Conditions
from disco.features.eligibility import eligible_ids
eligible_ids(pa.table({{"customer_id": ["c1"]}}), {ENDLESS!r}, name="t", evaluate=Conditions().evaluate)
"""
    asking = subprocess.Popen([sys.executable, "-c", code])
    try:
        end = time.monotonic() + 60
        while not (left := _children(asking.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        assert left
        time.sleep(1.0)  # in the condition, or before it
    finally:
        asking.send_signal(signal.SIGKILL)
        asking.wait()
    end = time.monotonic() + 60
    while time.monotonic() < end and _runs(left[0]):
        time.sleep(0.05)
    assert not _runs(left[0])


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
