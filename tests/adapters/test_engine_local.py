"""Whatever the threads, an engine gives the same results in the same order, and passes errors on."""

import threading

import pytest

from disco.adapters.engines import LocalEngine
from disco.records.errors import InputError


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_results_come_in_the_order_of_the_chunks(threads):
    assert list(LocalEngine(threads=threads).map(lambda chunk: chunk**2, range(50))) == [n**2 for n in range(50)]


def test_chunks_are_taken_as_results_are_used_so_that_memory_stays_bounded():
    taken = []

    def chunks():
        for number in range(100):
            taken.append(number)
            yield number

    results = LocalEngine(threads=2).map(lambda chunk: chunk, chunks())
    assert next(results) == 0
    assert len(taken) <= 4
    results.close()


def test_two_threads_really_run_side_by_side():
    both = threading.Barrier(2, timeout=20)
    assert list(LocalEngine(threads=2).map(lambda chunk: both.wait() >= 0, range(2))) == [True, True]


def test_an_error_in_a_chunk_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(LocalEngine(threads=2).map(lambda chunk: 1 // chunk, [1, 0]))


def test_no_threads_is_refused():
    with pytest.raises(InputError, match="threads"):
        LocalEngine(threads=0)
