"""The notebook runs from top to bottom in one namespace, and its figures agree with the truth it made up."""

import numpy as np
import pytest
from notebooks import FOLDER, run


@pytest.fixture(scope="module")
def notebook() -> dict:
    return run(FOLDER / "first_campaigns.ipynb")


def test_the_past_is_random_and_all_of_it_was_learned(notebook):
    past, belief = notebook["past"], notebook["belief"]
    assert len(past) == 2 * len(notebook["customers"]) == 24_000
    assert past.groupby("depth").size().between(5_700, 6_300).all()
    assert belief.basket.evidence.total_rows == past["full_price"].notna().sum()
    assert belief.engagement.counts.sent.sum() == len(past)


def test_learned_curves_are_near_the_truth_and_rise(notebook):
    curves = notebook["curves"]
    assert (curves["basket"] / curves["truth"]).between(0.92, 1.08).all()
    steps = {name: np.diff(rows["basket"]) for name, rows in curves.groupby("group")}
    assert all((step > 0).all() for step in steps.values())
    assert steps["frequent visitors"].sum() > 2 * steps["others"].sum()


def test_decisions_keep_the_caps_and_give_deep_discounts_to_those_who_respond(notebook):
    table, caps = notebook["table"], notebook["CAPS"]
    assert table["codes"].to_dict() == {depth: int(0.9 * cap) for depth, cap in caps.items()}
    assert table["visits_last_month"].is_monotonic_increasing
    assert (table["shadow_price"] > 0).all()


def test_replay_and_the_ab_test_say_that_deciding_pays(notebook):
    for result in notebook["replayed"].policies.values():
        assert result.relative_to_random.lower < result.relative_to_random.value < result.relative_to_random.upper
        assert result.relative_to_random.value > 1
    autumn = notebook["autumn"]
    share = autumn["depth"].notna().groupby(autumn["arm"]).mean()
    assert share.max() - share.min() < 0.02  # both groups had as many codes per customer
    assert notebook["readout"].loc["objective", "relative_lower"] > 0


def test_one_more_campaign_narrows_the_uncertainty(notebook):
    assert (notebook["uncertainty"]["after autumn"] < notebook["uncertainty"]["before autumn"]).all()
