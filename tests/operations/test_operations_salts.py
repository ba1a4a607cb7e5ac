"""Names that became others in words keep their bytes where they salt a draw, so no decision and no forecast moves."""

from dataclasses import replace

import numpy as np
import pytest

from disco.records.arrow_tables import content_hash
from disco.records.decisions import Arm
from disco.records.forecasting import ForecastRules, Level, SeasonSource
from disco.records.identity import name_key
from disco.records.plan_summary import Calibration


def test_arms_salt_draws_with_the_bytes_of_earlier_versions():
    assert {str(arm): arm.salt for arm in Arm} == {"decided": "test", "control": "control", "holdout": "holdout"}
    assert all(type(arm.salt) is str for arm in Arm), "the type is part of the key"
    found = Calibration(log_factor=0.1, log_sd=0.2, campaigns=3).draws(4, [0.1, 0.3], 7, "spring", Arm.DECIDED.salt)
    generator = np.random.Generator(np.random.Philox(key=name_key(7, "spring", "test", "calibration")))
    expected = np.exp(0.1 - 0.2**2 / 2 + 0.2 * generator.standard_normal(4))
    assert found.tolist() == [[one, one] for one in expected.tolist()]


# what the program of revision 0001 decided, its arm "test" read as "decided", and what this one forecasts for it
DECIDED = {
    "thompson": ({}, "95cdd54b4b9d1306", 307.76140264987134, 16.500305025205005),
    "budget": ({"budget": 300}, "55d0de3d95c4b154", 313.05170708752814, 16.416229918071824),
    "ucb": ({"policy": {"name": "ucb"}}, "9aa9a5a6a1a4c3d6", 330.75712200152986, 23.24321220879167),
    "random": ({"policy": {"name": "random"}}, "7fea32c4e66cd0ac", 307.06805079256867, 16.788357996448102),
}


@pytest.mark.parametrize("name", DECIDED)
def test_plans_decide_and_forecast_what_they_did(shop, name):
    more, decisions, revenue, lower = DECIDED[name]
    basket = shop.knowledge().basket
    belief = replace(shop.knowledge(), basket=replace(basket, noise_sd=basket.posterior.noise_sd))  # one for all depths
    fixed = ForecastRules(level=Level.FIXED, season=SeasonSource.NONE)  # as that program forecast
    planned = shop.planned(shop.plan(campaign=name, **more), belief=belief, rules=fixed)
    assert content_hash(planned.decisions)[:16] == decisions
    money = planned.arms[Arm.DECIDED].money
    assert money.revenue.value == pytest.approx(revenue, rel=1e-12)
    assert money.revenue.lower == pytest.approx(lower, rel=1e-12)
