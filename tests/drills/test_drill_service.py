"""The short form of `./run drill service`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from service_conditions import ENDLESS, conditions_drill
from service_drill import worker_drill
from service_postgres import postgres_drill
from service_servers import servers_drill
from service_slow import slow_drill
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


def test_workers_that_end_in_a_job_leave_one_result_with_the_bytes_of_the_command_line() -> None:
    with _postgresql():
        done = worker_drill(kills=4, seed=1)  # `./run drill service` takes others; a failure names its seed
    assert done.fired.total() == 4


def test_no_acknowledged_write_is_lost_when_postgresql_stops_under_load() -> None:
    with _postgresql():
        done = postgres_drill(stops=1, seed=1, clients=4)
    assert done.acknowledged >= 20
    assert done.writes.statuses[503] > 0


def test_servers_that_end_leave_one_campaign_planned_on_one_and_launched_on_the_other() -> None:
    with _postgresql():
        done = servers_drill(kills=2, seed=2, customers=400)
    assert done.fired.total() == 2


def test_slow_clients_keep_nobody_waiting_and_the_server_from_nothing() -> None:
    done = slow_drill(connections=300, seconds=3.0)
    assert not done.problems, "\n".join([*done.problems, *done.rows])


def test_files_that_unpack_to_much_are_refused_in_little_memory() -> None:
    done = tables_drill(scale=0.2)
    assert not done.problems, "\n".join([*done.problems, *done.rows])


def test_a_hostile_condition_of_one_planner_is_noticed_by_nobody_else() -> None:
    done = conditions_drill(customers=400, seconds=15.0, calm_s=3.0, hostile={"endless": ENDLESS})
    done.check(timed=False)
    assert not done.broken, done.table()
