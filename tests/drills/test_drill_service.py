"""The short form of `./run drill service`."""

import os

import pytest
from service_drill import worker_drill

from disco.records.errors import MissingPartError


def test_workers_that_end_in_a_job_leave_one_result_with_the_bytes_of_the_command_line() -> None:
    try:
        done = worker_drill(kills=4, seed=1)  # `./run drill service` takes others; a failure names its seed
    except MissingPartError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: {missing}")
    assert done.fired.total() == 4
