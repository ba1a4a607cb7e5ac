"""The studies of `./run bench evaluation` with a few logs each: whole tables, and truths that agree with simulation."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LOGS = 20
FIGURES = {
    "logged": {f"{kind}{more}" for kind in ("IPS", "SNIPS", "DR") for more in ("", ", difference of two policies")},
    "histories": {"mean uplift", "what they earned, money"},
    "false_alarms": {"does not look random", "refused"},
}


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield lambda name: importlib.import_module(f"interval_studies.{name}")
    for name in [name for name in sys.modules if name.startswith("interval_studies")]:
        del sys.modules[name]


@pytest.mark.parametrize(("name", "cases"), [("logged", 4), ("histories", 12), ("false_alarms", 6)])
def test_every_figure_of_every_case_is_counted_in_every_log(study, name, cases):
    rows = list(study(name).study(LOGS))
    by_case = {}
    for row in rows:
        by_case.setdefault(row.case, set()).add(row.figure)
        assert row.of == LOGS
        assert 0 <= row.happened <= row.of
    assert len(by_case) == cases
    assert all(figures == FIGURES[name] for figures in by_case.values())
    lines = list(study("tally").table(rows))
    assert len(lines) == len(rows) + 1
    assert all(row.figure in line for row, line in zip(rows, lines[1:], strict=True))


def test_every_interval_of_a_test_of_arms_is_counted(study):
    rows = list(study("tests_of_arms").study(LOGS))
    names = {(row.study, row.figure) for row in rows}
    for metric in ("revenue", "reward", "objective", "engagement"):
        for kind in ("difference", "ratio", "difference, adjusted", "ratio, adjusted"):
            assert ("results", f"{metric}, {kind}") in names
    for arm in ("decided", "control"):
        assert ("results", f"incremental, {arm}, difference, adjusted") in names
    for metric in ("revenue", "bought", "revenue/orders"):
        assert ("disco ab", f"{metric}, difference, adjusted") in names
    for depth in ("10%", "20%", "30%"):
        assert ("results", f"objective against everybody {depth}") in names
    assert sum("rates of few" in row.case for row in rows) == 2
    assert {row.case for row in rows if "looks" in row.case} == {
        f"{tail}, 5 looks, arms alike" for tail in ("normal", "heavy")
    }


def test_the_study_of_beliefs_counts_what_is_printed_per_depth(study):
    rows = list(study("beliefs").study(2))
    assert {row.case for row in rows} == {
        f"{count}, {tail}" for count in ("1 campaign", "4 campaigns") for tail in ("normal", "heavy")
    }
    assert {row.figure for row in rows} == {
        f"{name}, {depth}"
        for name in ("basket", "receivers who buy", "revenue per code")
        for depth in ("10% off", "20% off", "30% off")
    }


def test_references_agree_wherever_they_are_installed(study):
    references = study("references")
    found = list(references.study(5))
    assert {one.library for one in found} >= {"scipy", "scikit-learn"}
    assert all(one.largest <= references.SAME for one in found)
    assert "scipy" in next(references.lines(1))


def test_the_replay_study_counts_every_policy(study):
    replays = study("replays")
    one = next(setting for setting in replays.SETTINGS if setting.name == "both")
    rows = list(replays.study(1, settings=(one,), runs=1))
    assert {row.case for row in rows} == {
        f"both, {tail}, {name}"
        for tail in ("normal", "heavy")
        for name in ("thompson", "greedy", "thompson less greedy")
    }
    assert len(rows) == 2 * (10 + 10 + 2)


def test_the_forecast_study_counts_every_figure_in_five_settings(study):
    rows = list(study("selection").study(1))
    learning = [
        (name, policy) for name in ("learning", "caps", "engagement", "both") for policy in ("greedy", "thompson")
    ]
    assert {row.case for row in rows} == {
        f"{setting}, {tail}, {policy}"
        for tail in ("normal", "heavy")
        for setting, policy in (("fixed", "random"), *learning)
    }
    assert len(rows) == 2 * (2 + len(learning) * (4 + 2))


def test_the_truth_of_a_forecast_study_against_many_customers(study):
    selection, world = study("selection"), study("world").World(0.6)
    figures = (world.objective, world.revenue)
    levels = [world.expected(lambda x, figure=figure: figure(x).mean(axis=1)) for figure in figures]
    x = world.customers(np.random.default_rng(6), 400_000)
    for level, figure in zip(levels, figures, strict=True):
        means = figure(x).mean(axis=1)
        assert level == pytest.approx(means.mean(), abs=4 * means.std() / len(x) ** 0.5)
    rng = np.random.default_rng(2)
    log = selection._log(world, rng)
    found = selection._truths(world, rng, log, selection.SETTINGS[1], (selection.Greedy(),), levels, seed=1)
    worst, best = (world.expected(lambda x, pick=pick: pick(world.objective(x), axis=1)) for pick in (np.min, np.max))
    assert all(worst < found[name][0] < best for name in ("greedy", "random"))


def test_the_truth_of_a_log_study_against_many_customers(study):
    logged, world = study("logged"), study("world").World(0.6)
    x = world.customers(np.random.default_rng(3), 400_000)
    for law, value in zip((logged.target_law, logged.other_law), logged.expected(world), strict=True):
        terms = (law(x) * world.revenue(x)).sum(axis=1)
        assert value == pytest.approx(terms.mean(), abs=4 * terms.std() / len(x) ** 0.5)


def test_the_truth_of_a_test_study_against_many_customers(study):
    arms = study("tests_of_arms")
    rng, true = np.random.default_rng(4), arms.truths(0.6)
    many = [arms.Campaign(rng, 0.6) for _ in range(40)]
    for arm, expected in true.items():
        paid = np.concatenate([(one.price * (1 - one.depth))[one.arm == arm] for one in many])
        bought = np.concatenate([one.buys[one.arm == arm] for one in many])
        assert expected["revenue"] == pytest.approx(paid.mean(), abs=4 * paid.std() / paid.size**0.5)
        assert expected["engagement"] == pytest.approx(bought.mean(), abs=4 * bought.std() / bought.size**0.5)


def test_the_truth_of_a_replay_study_for_random_codes(study):
    """Random codes learn nothing, so their value is the plain mean over the depths."""
    replays, world = study("replays"), study("world").World(0.6)
    found = replays.truth(world, replays.SETTINGS[1], replays.Random(), runs=40)
    x = world.customers(np.random.default_rng(5), 200_000)
    assert found.revenue == pytest.approx(world.revenue(x).mean(), rel=0.02)
    assert found.objective == pytest.approx(world.objective(x).mean(), rel=0.02)
