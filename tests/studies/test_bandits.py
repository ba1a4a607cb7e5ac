"""Bandit simulations: runs that mean what they say, and units of work that are the same however they came about."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from disco.evaluation import UnconstrainedLearner
from disco.policy import Greedy, Random, Thompson
from disco.records.errors import InputError
from disco.studies.bandits.figures import Runs, basket_uplift, objective_uplift
from disco.studies.bandits.recipes import NARROW, RECIPES, SPLINE
from disco.studies.bandits.simulation import Measure, Rules, simulate, starting_belief
from disco.studies.bandits.stage import Crowd, Law, Past, Stage, dealt_at_random
from disco.studies.bandits.study import COLD, WARM, Play, run_plays
from disco.studies.bandits.unit import Shelf, Unit
from disco.studies.bandits.work import run_units
from disco.studies.paper.readings import READINGS, empty_model

DEPTHS = (0.1, 0.2, 0.3)
RULES = Rules(batches=3, batch=90, caps=(30, 30, 30), revenue_weight=3.0)


def make_stage(*, customers: int = 600, seed: int = 1, spread: float = 0.4, purchases: float = 0.5) -> Stage:
    """Customers whose first context figure is their level and whose second is how strongly depth moves them."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(customers, 2)).clip(-3, 3)
    u = np.asarray(DEPTHS) / 0.5
    level = 3.5 + 0.3 * context[:, :1] + (0.6 + spread * context[:, 1:]) * u
    probability = np.clip(np.full((customers, 3), purchases) + 0.05 * u, 0, 1)
    law = Law(depths=DEPTHS, log_full_price=level, purchase_probability=probability, residual_sd=0.5)
    nothing = Past(context=np.zeros((0, 2)), depth=np.zeros(0), full_price=np.zeros(0))
    stage = Stage(name="test", seed=seed, context=context, law=law, past=nothing, depth_scale=0.5)
    log = dealt_at_random(stage, rows=2000)
    return stage.with_past(Past(context=log.context, depth=log.depth, full_price=log.full_price))


def run(stage: Stage, player: object, *, rules: Rules = RULES, codes: int | None = WARM, repeat: int = 0) -> np.ndarray:
    start = starting_belief(stage, NARROW, codes=codes)
    return simulate(stage, player, recipe=NARROW, start=start, rules=rules, repeat=repeat)


def unit(stage: Stage, **changes: object) -> Unit:
    base = Unit(stage=stage.key, recipe=NARROW, start=WARM, player=Thompson(), rules=RULES, first=0, repeats=2)
    return replace(base, **changes)


# ---- what a run measures -------------------------------------------------------------------------------------------


def test_money_by_hand() -> None:
    """Everybody buys for 40 at any depth and nothing is left to chance: each figure is known."""
    n = 50
    law = Law(
        depths=(0.1, 0.3),
        log_full_price=np.full((n, 2), np.log(40.0)),
        purchase_probability=np.ones((n, 2)),
        residual_sd=0.0,
    )
    past = Past(context=np.zeros((2, 1)), depth=np.array([0.1, 0.3]), full_price=np.array([40.0, 40.0]))
    stage = Stage(name="flat", seed=3, context=np.linspace(-1, 1, n)[:, None], law=law, past=past, depth_scale=0.5)
    rules = Rules(batches=2, batch=10, caps=(4, 3), revenue_weight=3.0)
    found = run(stage, Random(), rules=rules)
    assert found[:, Measure.CODES].tolist() == [7, 7]
    for purchases, revenue, markdown in (
        (Measure.PURCHASES, Measure.REVENUE, Measure.MARKDOWN),
        (Measure.EXPECTED_PURCHASES, Measure.EXPECTED_REVENUE, Measure.EXPECTED_MARKDOWN),
    ):
        assert found[:, purchases].tolist() == [7, 7]
        np.testing.assert_allclose(found[:, revenue], 4 * 36 + 3 * 28)
        np.testing.assert_allclose(found[:, markdown], 4 * 4 + 3 * 12)
    runs = Runs(found[None], 3.0)
    np.testing.assert_allclose(runs.basket_value, (4 * 36 + 3 * 28) / 7)
    np.testing.assert_allclose(runs.objective_by_batch, 3 * (4 * 36 + 3 * 28) - (4 * 4 + 3 * 12))


def test_realised_figures_are_draws_of_the_expected_ones() -> None:
    stage = make_stage()
    totals = run(stage, Random(), rules=replace(RULES, batches=60)).sum(axis=0)
    for realised, expected in (
        (Measure.PURCHASES, Measure.EXPECTED_PURCHASES),
        (Measure.REVENUE, Measure.EXPECTED_REVENUE),
        (Measure.MARKDOWN, Measure.EXPECTED_MARKDOWN),
    ):
        # 60 · 90 codes, half of them purchases with a spread of about two thirds: six standard errors
        assert totals[realised] == pytest.approx(totals[expected], rel=6 * 1.2 / np.sqrt(5400))


def test_a_crowd_belongs_to_its_repeat_and_batch_alone() -> None:
    stage = make_stage()
    one, again = (Crowd.drawn(stage, size=50, repeat=2, batch=5) for _ in range(2))
    other = Crowd.drawn(stage, size=50, repeat=2, batch=6)
    assert (one.rows == again.rows).all()
    assert (one.residual == again.residual).all()
    assert not (one.rows == other.rows).all()
    shallow, deep = (one.answers(stage.law, np.full(50, column)) for column in (0, 2))
    assert not (np.isnan(deep) & ~np.isnan(shallow)).any(), "a deeper code turned a purchase into none"
    assert np.isnan(one.answers(stage.law, np.full(50, -1))).all()


def test_without_caps_the_unconstrained_learner_is_the_policy_itself() -> None:
    stage = make_stage()
    free = replace(RULES, caps=(None, None, None))
    np.testing.assert_array_equal(
        run(stage, UnconstrainedLearner(policy=Thompson()), rules=free), run(stage, Thompson(), rules=free)
    )


def test_with_caps_the_learner_learns_something_else_and_the_consumer_keeps_the_caps() -> None:
    stage = make_stage()
    learner, policy = run(stage, UnconstrainedLearner(policy=Thompson())), run(stage, Thompson())
    np.testing.assert_array_equal(learner[0], policy[0])  # the first batch is decided by the same belief and draw
    assert not (learner[1:] == policy[1:]).all()
    assert (learner[:, Measure.CODES] <= sum(cap for cap in RULES.caps if cap is not None)).all()


def test_knowing_who_responds_pays() -> None:
    """Strong and visible differences in response: a policy that uses them is far above Random under the same caps."""
    stage = make_stage(customers=3000, spread=0.5)
    rules = replace(RULES, batches=10, batch=900, caps=(300, 300, 300), revenue_weight=None)
    random, greedy, blind = (
        Runs(run(stage, player, rules=rules, codes=codes)[None], None)
        for player, codes in ((Random(), WARM), (Greedy(), WARM), (Random(), COLD))
    )
    assert basket_uplift(greedy, random)[0] > 0.01
    assert objective_uplift(greedy, random)[0] > 0.01
    assert abs(objective_uplift(blind, random)[0]) < 0.01


def test_an_automatic_model_tunes_itself_warm_and_cold() -> None:
    stage = make_stage()
    automatic = next(recipe for recipe in RECIPES if recipe.automatic)
    assert starting_belief(stage, automatic, codes=WARM).basket.reason.startswith(("chosen by marginal", "kept as it"))
    start = starting_belief(stage, automatic, codes=COLD)
    tuned = simulate(stage, Thompson(), recipe=automatic, start=start, rules=RULES, repeat=0)
    plain = simulate(stage, Thompson(), recipe=NARROW, start=start, rules=RULES, repeat=0)
    np.testing.assert_array_equal(tuned[0], plain[0])
    assert not (tuned == plain).all()


def test_recipes_are_the_papers_readings() -> None:
    assert [recipe.name for recipe in RECIPES] == list(READINGS)
    for recipe in RECIPES:
        assert recipe.model(depth_scale=0.5).hash == empty_model(recipe.name).hash


def test_a_start_larger_than_the_past_is_refused() -> None:
    stage = make_stage()
    with pytest.raises(InputError, match="at most the 2,000 of the past"):
        starting_belief(stage, NARROW, codes=2001)


# ---- units of work -------------------------------------------------------------------------------------------------


def test_every_setting_is_part_of_a_units_name() -> None:
    stage = make_stage()
    units = [
        unit(stage),
        unit(make_stage(seed=2)),
        unit(stage, recipe=SPLINE),
        unit(stage, start=COLD),
        unit(stage, player=Thompson(exploration=0.5)),
        unit(stage, rules=replace(RULES, revenue_weight=None)),
        unit(stage, rules=replace(RULES, caps=(30, 30, None))),
        unit(stage, first=2),
        unit(stage, repeats=3),
    ]
    assert len({each.file_name for each in units}) == len(units)
    assert unit(stage).file_name == units[0].file_name


def test_a_repeat_is_the_same_in_any_block() -> None:
    stage = make_stage()
    together = unit(stage, repeats=3).run(stage)
    apart = [unit(stage, first=first, repeats=1).run(stage)[0] for first in range(3)]
    np.testing.assert_array_equal(together, apart)
    assert not (together[0] == together[1]).all()


def test_an_interrupted_study_continues_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """Stopped after two units in this process, then continued over two others; another study is never interrupted."""
    stage = make_stage()
    units = [unit(stage, player=player, first=first) for player in (Thompson(), Random()) for first in (0, 2, 4)]
    broken, whole = Shelf(tmp_path / "broken"), Shelf(tmp_path / "whole")
    for shelf in (broken, whole):
        stage.save(shelf.stages)

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_units(units, shelf=broken, processes=1, progress=stop)
    left = broken.missing(units)
    assert len(left) == len(units) - 2, "the interruption did not interrupt"
    kept = {path: path.stat().st_mtime_ns for path in (broken.folder / "units").glob("*.npy")}

    heard: list[tuple[int, int]] = []
    run_units(units, shelf=broken, processes=2, progress=lambda done, total: heard.append((done, total)))
    assert heard[0] == (len(units) - len(left), len(units))
    assert heard[-1] == (len(units), len(units))
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items()), "finished work was done again"

    run_units(units, shelf=whole, processes=1)
    for each in units:
        assert broken.path(each).read_bytes() == whole.path(each).read_bytes()


@pytest.mark.parametrize("damage", [b"", b"not an array", b"half"])
def test_a_damaged_unit_is_done_again(tmp_path: Path, damage: bytes) -> None:
    stage, shelf = make_stage(), Shelf(tmp_path)
    stage.save(shelf.stages)
    run_units([unit(stage)], shelf=shelf, processes=1)
    path = shelf.path(unit(stage))
    sound = path.read_bytes()
    path.write_bytes(sound[: len(sound) // 2] if damage == b"half" else damage)
    assert shelf.missing([unit(stage)]) == [unit(stage)]
    run_units([unit(stage)], shelf=shelf, processes=1)
    assert path.read_bytes() == sound


def test_plays_read_back_all_their_repeats(tmp_path: Path) -> None:
    stage = make_stage()
    play = Play(stage=stage.key, recipe=NARROW, start=WARM, player=Random(), rules=RULES, repeats=12)
    found = run_plays([play], stages=[stage], shelf=Shelf(tmp_path), processes=1)[play]
    assert found.figures.shape == (12, RULES.batches, len(Measure))
    np.testing.assert_array_equal(found.figures[11], run(stage, Random(), repeat=11))


def test_a_stage_survives_its_file_and_no_other_is_taken_for_it(tmp_path: Path) -> None:
    stage = make_stage()
    path = stage.save(tmp_path)
    assert Stage.load(path).key == stage.key
    forged = tmp_path / f"{'0' * 24}.npz"
    forged.write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="other contents than its name says"):
        Stage.load(forged)
