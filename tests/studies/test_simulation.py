"""Bandit simulations: runs that mean what they say, and plays that are the same however they came about."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from studies.cache import worker_pool
from studies.readings import AUTOMATIC, NARROW, SPLINE
from studies.simulation import (
    COLD,
    WARM,
    Play,
    Rules,
    RunColumn,
    Runs,
    basket_uplift,
    objective_uplift,
    run_plays,
    simulate,
    starting_belief,
)
from studies.stage import Crowd, Law, Past, Stage, random_log_of

from disco.evaluation.passes import UnconstrainedLearner
from disco.policy import Greedy, Random, Thompson
from disco.records.errors import InputError

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
    log = random_log_of(stage, rows=2000)
    return stage.with_past(Past(context=log.context, depth=log.depth, full_price=log.full_price))


def run(stage: Stage, player: object, *, rules: Rules = RULES, codes: int | None = WARM, repeat: int = 0) -> np.ndarray:
    start = starting_belief(stage, NARROW, codes=codes)
    return simulate(stage, player, reading=NARROW, start=start, rules=rules, repeat=repeat)


def play(stage: Stage, **changes: object) -> Play:
    base = Play(stage=stage.key, reading=NARROW, start=WARM, player=Thompson(), rules=RULES, first=0, repeats=2)
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
    assert found[:, RunColumn.CODES].tolist() == [7, 7]
    for purchases, revenue, markdown in (
        (RunColumn.PURCHASES, RunColumn.REVENUE, RunColumn.MARKDOWN),
        (RunColumn.EXPECTED_PURCHASES, RunColumn.EXPECTED_REVENUE, RunColumn.EXPECTED_MARKDOWN),
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
        (RunColumn.PURCHASES, RunColumn.EXPECTED_PURCHASES),
        (RunColumn.REVENUE, RunColumn.EXPECTED_REVENUE),
        (RunColumn.MARKDOWN, RunColumn.EXPECTED_MARKDOWN),
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
    assert (learner[:, RunColumn.CODES] <= sum(cap for cap in RULES.caps if cap is not None)).all()


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
    assert starting_belief(stage, AUTOMATIC, codes=WARM).basket.reason.startswith(("chosen by marginal", "kept as it"))
    start = starting_belief(stage, AUTOMATIC, codes=COLD)
    tuned = simulate(stage, Thompson(), reading=AUTOMATIC, start=start, rules=RULES, repeat=0)
    plain = simulate(stage, Thompson(), reading=NARROW, start=start, rules=RULES, repeat=0)
    np.testing.assert_array_equal(tuned[0], plain[0])
    assert not (tuned == plain).all()


def test_a_start_larger_than_the_past_is_refused() -> None:
    stage = make_stage()
    with pytest.raises(InputError, match="at most the 2,000 of the past"):
        starting_belief(stage, NARROW, codes=2001)


# ---- plays ---------------------------------------------------------------------------------------------------------


def test_every_setting_is_part_of_the_name_of_a_piece(tmp_path: Path) -> None:
    stage = make_stage()
    plays = [
        play(stage),
        play(make_stage(seed=2)),
        play(stage, reading=SPLINE),
        play(stage, start=COLD),
        play(stage, player=Thompson(exploration=0.5)),
        play(stage, rules=replace(RULES, revenue_weight=None)),
        play(stage, rules=replace(RULES, caps=(30, 30, None))),
        play(stage, first=2),
        play(stage, repeats=3),
    ]
    names = [piece.path.name for each in plays for piece in each.pieces(tmp_path)]
    assert len(set(names)) == len(plays)
    assert play(stage).pieces(tmp_path)[0].path.name == names[0]


def test_a_repeat_is_the_same_in_any_piece() -> None:
    stage = make_stage()
    together = play(stage, repeats=3).run(stage)
    apart = [play(stage, first=first, repeats=1).run(stage)[0] for first in range(3)]
    np.testing.assert_array_equal(together, apart)
    assert not (together[0] == together[1]).all()


def test_more_repeats_keep_the_pieces_of_fewer(tmp_path: Path) -> None:
    stage = make_stage()
    few, more = (play(stage, repeats=repeats).pieces(tmp_path) for repeats in (20, 35))
    assert [piece.path for piece in more[:2]] == [piece.path for piece in few]
    assert [part.repeats for part in play(stage, repeats=35).parts()] == [10, 10, 10, 5]


def test_an_interrupted_study_continues_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """Stopped after two pieces in this process, then continued by another; another study is never interrupted."""
    stage = make_stage()
    plays = [play(stage, player=player, first=first) for player in (Thompson(), Random()) for first in (0, 2, 4)]
    broken, whole = tmp_path / "broken", tmp_path / "whole"

    def stop(step: str) -> None:
        if "(2 of 6)" in step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plays(plays, stages=[stage], folder=broken, progress=stop)
    kept = {path: path.stat().st_mtime_ns for path in (broken / "plays").iterdir()}
    assert len(kept) == 2, "the interruption did not interrupt"

    heard: list[str] = []
    with worker_pool(1) as pool:
        run_plays(plays, stages=[stage], folder=broken, pool=pool, progress=heard.append, step="test")
    assert heard == [f"test ({done} of 6)" for done in (3, 4, 5, 6)]
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items()), "finished work was done again"

    run_plays(plays, stages=[stage], folder=whole)
    for path in (whole / "plays").iterdir():
        assert (broken / "plays" / path.name).read_bytes() == path.read_bytes()


def test_plays_read_back_all_their_repeats(tmp_path: Path) -> None:
    stage = make_stage()
    wanted = play(stage, player=Random(), repeats=12)
    found = run_plays([wanted], stages=[stage], folder=tmp_path)[wanted]
    assert found.figures.shape == (12, RULES.batches, len(RunColumn))
    np.testing.assert_array_equal(found.figures[11], run(stage, Random(), repeat=11))


def test_a_stage_survives_its_file_and_no_other_is_taken_for_it(tmp_path: Path) -> None:
    stage = make_stage()
    path = stage.save(tmp_path)
    assert Stage.load(path).key == stage.key
    forged = tmp_path / f"{'0' * 24}.npz"
    forged.write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="other contents than its name says"):
        Stage.load(forged)
