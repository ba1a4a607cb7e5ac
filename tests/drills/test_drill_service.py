"""The short form of `./run drill service`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from running_shop import Served
from service_conditions import ENDLESS, conditions_drill
from service_drill import Reference, worker_drill
from service_postgres import postgres_drill
from service_servers import servers_drill
from service_slow import served_shop, slow_drill
from service_tables import tables_drill

from disco.records.errors import MissingPartError


@contextmanager
def _postgresql() -> Iterator[None]:
    try:
        yield
    except MissingPartError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: {missing}")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference.made(tmp_path_factory.mktemp("reference"), customers=400)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Served, str]]:
    with served_shop() as running:
        yield running


def test_workers_that_end_in_a_job_leave_one_result_with_the_bytes_of_the_command_line(reference: Reference) -> None:
    """On SQLite; below on PostgreSQL. `./run drill service` takes other moments; a failure names its seed."""
    done = worker_drill(kills=2, seed=1, databases=("sqlite",), reference=reference)
    assert done.fired.total() == 2


def test_no_acknowledged_write_is_lost_when_postgresql_stops_under_load() -> None:
    with _postgresql():
        done = postgres_drill(stops=1, seed=1, clients=3, answered_within_s=5.0)
    assert done.acknowledged >= 20
    assert done.writes.statuses[503] > 0


def test_servers_that_end_leave_one_campaign_planned_on_one_and_launched_on_the_other(reference: Reference) -> None:
    with _postgresql():
        done = servers_drill(kills=2, seed=2, reference=reference)
    assert done.fired.total() == 2


def test_files_that_unpack_to_much_are_refused_in_little_memory(served: tuple[Served, str]) -> None:
    done = tables_drill(scale=0.2, on=served, timed=False)
    assert not done.problems, "\n".join([*done.problems, *done.rows])


def test_slow_clients_keep_nobody_waiting_and_the_server_from_nothing(served: tuple[Served, str]) -> None:
    """The last of those that share the server: it is ended while connections are open."""
    done = slow_drill(connections=300, seconds=1.5, on=served, timed=False)
    assert not done.problems, "\n".join([*done.problems, *done.rows])


def test_a_hostile_condition_of_one_planner_is_noticed_by_nobody_else() -> None:
    done = conditions_drill(customers=400, seconds=60.0, calm_s=60.0, least=1, hostile={"endless": ENDLESS}, pace=4.0)
    done.check(timed=False)
    assert not done.broken, done.table()
