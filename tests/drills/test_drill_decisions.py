"""The short form of `./run drill budgets decisions`, and proof that it can fail."""

from dataclasses import replace

import pytest
from decision_drill import check, decided, drill, instance

from disco import LocalEngine


def test_decide_and_decide_table_give_equal_decisions_within_a_budget() -> None:
    ends = drill(offers=30, seed=2)  # the same offers every time; the drill itself takes others
    assert ends.total() == 30
    for kind in ("budget", "budget, segments", "budget, floors"):
        assert ends[kind], kind


def test_another_decision_of_one_customer_ends_the_drill() -> None:
    drawn = instance(2, 1)
    whole = decided(drawn)
    assert whole is not None
    choice = whole.choice.copy()
    choice[0] = -1 if choice[0] >= 0 else 0
    with pytest.raises(AssertionError, match=r"1 of \d+ customers get another depth"):
        check(drawn, replace(whole, choice=choice), LocalEngine(threads=1))
