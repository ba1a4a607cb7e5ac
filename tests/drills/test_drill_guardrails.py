"""The drill of guardrails in short: sound streams are not stopped, planted faults are, in time."""

import numpy as np
import pytest
from guardrails_drill import FAULTS, crossings, false_alarms, found_in_time, stream

from disco.evaluation.guardrails import Due, Sequence, spend_above, spend_below


def test_few_sound_campaigns_are_paused() -> None:
    assert false_alarms(60, seed=1) <= 0.05


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_before_a_quarter_of_its_damage(fault: str) -> None:
    assert found_in_time(fault, 20, seed=2) >= 0.7  # of 20; the drill asks for 90% of 500


def test_a_path_at_its_limit_is_seldom_crossed_however_often_one_looks() -> None:
    rng = np.random.default_rng(3)
    crossed = [
        Sequence(np.cumsum(rng.exponential(1, 2000) - 1), np.arange(2000) + 1.0, 2000.0).crossing(risk=0.05) is not None
        for _ in range(300)
    ]
    assert np.mean(crossed) <= 0.09  # 5%, and three standard errors


def test_sound_spend_that_was_watched_to_a_moment_is_judged_the_same_later() -> None:
    one = stream(np.random.default_rng(4), fault="doubled")
    law = {"forecast": one.forecast, "due": one.due, "limit": 0.2}
    whole = spend_above(one.price, one.time, **law).crossing()
    assert whole is not None
    assert spend_above(one.price[: whole + 1], one.time[: whole + 1], **law).crossing() is not None
    assert crossings(one)["spend above"] < 1


def test_without_earlier_campaigns_all_may_be_due_at_once_and_nothing_before_the_end() -> None:
    time, amount, nothing = np.linspace(0.01, 0.9, 400), np.ones(400), Due(np.zeros(0))
    law = {"forecast": 1000.0, "due": nothing}
    assert spend_above(amount, time, limit=0.2, **law).crossing() is None  # 400 of 1,200
    assert spend_above(5 * amount, time, limit=0.2, **law).crossing() is not None
    assert spend_below(amount / 100, time, limit=-0.5, **law).crossing() is None
