"""Values that are kept because they may be asked for again."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from disco.operations.decide import Recent


def test_no_more_values_are_kept_than_allowed() -> None:
    kept = Recent[int, int](2)
    for number in range(5):
        assert kept.made(number, lambda number=number: number * 10) == number * 10
    assert kept.values() == [30, 40]
    assert kept.made(4, lambda: 0) == 40
    assert kept.find(0) is None


def test_a_use_saves_a_value_from_being_dropped() -> None:
    kept = Recent[str, int](2)
    kept.made("old", lambda: 1)
    kept.made("new", lambda: 2)
    assert kept.find("old") == 1
    kept.made("newest", lambda: 3)
    assert (kept.find("old"), kept.find("new")) == (1, None)


def test_a_value_that_several_threads_ask_for_is_made_once() -> None:
    kept, begun, made = Recent[str, int](), Event(), []

    def make() -> int:
        made.append(1)
        assert begun.wait(10)
        return 7

    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(kept.made, "key", make) for _ in range(4)]
        begun.set()
        assert [answer.result() for answer in answers] == [7] * 4
    assert made == [1]


def test_what_cannot_be_made_is_not_kept_and_is_asked_for_again() -> None:
    kept = Recent[str, int]()
    with pytest.raises(ValueError, match="none"):
        kept.made("key", lambda: int("none"))
    assert kept.made("key", lambda: 5) == 5
    kept.drop("key")
    assert len(kept) == 0
    kept.drop_oldest()
