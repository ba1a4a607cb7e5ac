"""BasketModel: its predictions against the textbook, what it does with campaigns, what sharing means, its tuning."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.belief import (
    BasketModel,
    DistanceToDepth,
    Evidence,
    LinearDepth,
    OneHotDepth,
    Prior,
    RadialBasis,
    SmoothSpline,
    demand_curve,
)
from disco.records.errors import IllConditionedError, InputError, SchemaMismatchError


def on_grid(values):
    return np.round(np.asarray(values) * 65536) / 65536


def psi_of(encoding, context, depth, scale=1.0):
    """[1, ψ1, ψ2, ψ1×ψ2], written out."""
    x, a = on_grid(context), encoding.features(np.asarray(depth) / scale)
    crossed = [x[:, i] * a[:, j] for i in range(x.shape[1]) for j in range(a.shape[1])]
    return np.column_stack((np.ones(len(x)), x, a, *crossed))


def purchases(count=400, d1=4, seed=1, depths=(0.1, 0.2, 0.4)):
    generator = np.random.default_rng(seed)
    context = generator.normal(size=(count, d1)).clip(-4, 4)
    depth = generator.choice(depths, count)
    log_price = 3.6 + 0.4 * context[:, 0] + depth * (1 + 0.5 * context[:, 1]) + 0.6 * generator.normal(size=count)
    return context, depth, np.exp(log_price)


@settings(max_examples=40, deadline=None)
@given(
    encoding=st.sampled_from(
        [
            RadialBasis((0.3, 0.5, 0.9), gamma=(2.0, 20.0, 5.0)),
            RadialBasis((0.4,), alpha=0.3),
            LinearDepth(),
            DistanceToDepth(reference=0.45),
            OneHotDepth((0.2, 0.4, 0.8)),
        ]
    ),
    precision=st.sampled_from([0.05, 2.5, 40.0]),
    constant=st.sampled_from([1e-6, 0.3]),
    seed=st.integers(0, 10_000),
    d1=st.integers(0, 6),
    count=st.integers(1, 200),
)
def test_prediction_is_the_textbooks(encoding, precision, constant, seed, d1, count):
    context, depth, price = purchases(count, max(d1, 2), seed)
    context = context[:, :d1]
    model = BasketModel(
        encoding=encoding, prior_precision=precision, constant_precision=constant, noise_sd=0.65, depth_scale=0.5
    ).update(context, depth, price)
    psi, y = psi_of(encoding, context, depth, 0.5), on_grid(np.log(price))
    v0 = np.full(psi.shape[1], precision)
    v0[0] = constant
    v = np.diag(v0) + psi.T @ psi
    new = purchases(10, max(d1, 2), seed + 1)[0][:, :d1]
    at = psi_of(encoding, new, np.full(10, 0.2), 0.5)
    mean, sd = model.predict(new, 0.2)
    np.testing.assert_allclose(mean, at @ np.linalg.solve(v, psi.T @ y), rtol=1e-7, atol=1e-7)
    expected = 0.65 * np.sqrt((at * np.linalg.solve(v, at.T).T).sum(axis=1))
    np.testing.assert_allclose(sd, expected, rtol=1e-7)


def test_block_precisions_go_to_their_blocks():
    encoding = RadialBasis((0.2, 0.5), gamma=4)
    prior = Prior(context=0.7, depth=(1.5, 2.5), interaction=(8.0, 9.0), depth_mean=(0.3, -0.2))
    context, depth, price = purchases(d1=2)
    model = BasketModel(encoding=encoding, prior_precision=prior, constant_precision=0.01, noise_sd=0.6)
    mean, sd = model.update(context, depth, price).predict(context, depth)
    psi, y = psi_of(encoding, context, depth), on_grid(np.log(price))
    v0 = np.array([0.01, 0.7, 0.7, 1.5, 2.5, 8.0, 9.0, 8.0, 9.0])
    m0 = np.array([0, 0, 0, 0.3, -0.2, 0, 0, 0, 0])
    v = np.diag(v0) + psi.T @ psi
    np.testing.assert_allclose(mean, psi @ np.linalg.solve(v, psi.T @ y + v0 * m0), rtol=1e-9)
    np.testing.assert_allclose(sd, 0.6 * np.sqrt((psi * np.linalg.solve(v, psi.T).T).sum(axis=1)), rtol=1e-9)


def test_before_any_data_it_says_the_prior():
    model = BasketModel(encoding=LinearDepth(), prior_precision=4.0, constant_precision=0.25, noise_sd=0.5)
    mean, sd = model.predict([[2.0]], [0.5])
    assert mean.tolist() == [0.0]
    # Var/σ² = 1/0.25 + 2²/4 + 0.5²/4 + (2·0.5)²/4
    assert sd[0] == pytest.approx(0.5 * np.sqrt(4 + 1 + 0.0625 + 0.25))
    assert BasketModel().posterior.noise_sd == pytest.approx(0.7)


def test_batches_are_one_model_whatever_their_order():
    context, depth, price = purchases()
    whole = BasketModel().update(context, depth, price)
    order = np.random.default_rng(0).permutation(len(depth))
    streamed = BasketModel()
    for part in np.array_split(order, 17):
        streamed = streamed.update(context[part], depth[part], price[part])
    assert streamed == whole
    assert streamed.hash == whole.hash
    assert (streamed.posterior.mean == whole.posterior.mean).all()


def test_a_fit_forgets_what_an_update_would_keep():
    first, second = ([[0.5, 1.0]], [0.1], [20.0]), ([[1.0]], [0.2], [30.0])
    learned = BasketModel().update(*first, campaign="spring")
    assert learned.fit(*second) == BasketModel().update(*second)
    assert repr(learned.posterior) == "Posterior(12 coefficients, 1 row, noise sd 0.572, condition 25.8)"


def test_an_undone_batch_leaves_no_trace():
    context, depth, price = purchases()
    before = BasketModel().update(context, depth, price, campaign="A")
    batch = Evidence.of(*purchases(seed=9))
    for campaign in ("A", "B"):
        assert before.add(batch, campaign=campaign).remove(batch, campaign=campaign) == before
        assert before.add(batch, campaign=campaign).remove(batch, campaign=campaign).hash == before.hash
        assert before.add(batch, campaign=campaign).hash != before.hash


def test_changing_the_encoding_equals_learning_again():
    rows = purchases()
    learned = BasketModel().update(*rows)
    for encoding in (RadialBasis(gamma=2), SmoothSpline(), LinearDepth()):
        moved = BasketModel(encoding=encoding).add(learned.evidence)
        again = BasketModel(encoding=encoding).update(*rows)
        assert (moved.posterior.mean == again.posterior.mean).all()


def test_forgetting_weighs_old_campaigns_and_keeps_their_integers():
    first, second, third = (purchases(seed=seed) for seed in (1, 2, 3))
    model = BasketModel(forgetting=0.5, noise_sd=0.6, prior_precision=2.0)
    for name, rows in (("A", first), ("B", second), ("C", third)):
        model = model.update(*rows, campaign=name)
    assert model.campaigns["A"] == Evidence.of(*first)
    psi = [psi_of(model.encoding, rows[0], rows[1]) for rows in (first, second, third)]
    y = [on_grid(np.log(rows[2])) for rows in (first, second, third)]
    v = np.diag([1e-6, *[2.0] * 19])
    b = np.zeros(20)
    for weight, p, values in zip((0.25, 0.5, 1.0), psi, y, strict=True):
        v, b = v + weight * p.T @ p, b + weight * p.T @ values
    mean, _ = model.predict(third[0], third[1])
    np.testing.assert_allclose(mean, psi[2] @ np.linalg.solve(v, b), rtol=1e-8)
    assert model.posterior.rows == pytest.approx(400 * 1.75)


def test_without_forgetting_the_order_of_campaigns_does_not_matter():
    a, b = purchases(seed=1), purchases(seed=2)
    ab = BasketModel().update(*a, campaign="A").update(*b, campaign="B")
    ba = BasketModel().update(*b, campaign="B").update(*a, campaign="A")
    assert (ab.posterior.mean == ba.posterior.mean).all()


def test_equal_models_are_equal_in_everything_the_order_of_campaigns_included():
    """With forgetting the order decides the weights: models in another order are other models, `==` and hash agree."""
    a, b = purchases(seed=1), purchases(seed=2)
    ab = BasketModel(forgetting=0.5).update(*a, campaign="A").update(*b, campaign="B")
    ba = BasketModel(forgetting=0.5).update(*b, campaign="B").update(*a, campaign="A")
    again = BasketModel(forgetting=0.5).update(*a, campaign="A").update(*b, campaign="B")
    assert ab != ba
    assert (ab.predict(a[0], 0.1)[0] != ba.predict(a[0], 0.1)[0]).any()
    assert ab == again
    assert hash(ab) == hash(again)


def test_what_a_model_hands_out_cannot_change_it():
    rows = purchases()
    model = BasketModel(constant_precision=None).update(*rows)
    posterior, evidence = model.posterior, model.evidence
    for array in (posterior.mean, posterior.root, posterior.precision, posterior.moment, evidence.high, evidence.low):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    before = model.hash, model.predict(rows[0], rows[1])[0]
    for column in rows:
        column[:] = 0.25  # the caller's arrays are the caller's
    assert model.hash == before[0]
    assert (BasketModel(constant_precision=None).add(evidence).posterior.mean == posterior.mean).all()


# ---- money and refusals ----------------------------------------------------------------------------------------------


def test_money_adds_half_the_noise_variance():
    context, depth, price = purchases()
    model = BasketModel().update(context, depth, price)
    mean, _ = model.predict(context[:3], 0.3)
    money = model.expected_full_price(context[:3], [0.1, 0.3])
    np.testing.assert_allclose(money[:, 1], np.exp(mean + model.spread([0.3])[0] ** 2 / 2), rtol=1e-12)
    assert money.flags.f_contiguous


def test_mean_money_is_the_mean_basket():
    """By moments: with plenty of data the mean prediction is the mean of the baskets, which exp(mean) is not."""
    context, depth, price = purchases(50_000, depths=(0.2,))
    model = BasketModel().update(context, depth, price)
    expected = model.expected_full_price(context, [0.2]).mean()
    assert expected == pytest.approx(price.mean(), rel=0.02)
    assert np.exp(model.predict(context, 0.2)[0]).mean() < 0.9 * price.mean()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e308, 4.5])
def test_predictions_refuse_bad_contexts(bad):
    model = BasketModel().update(*purchases())
    context = np.zeros((3, 4))
    context[1, 2] = bad
    for call in (model.predict, model.expected_full_price, model.effective_plays):
        with pytest.raises(InputError, match="context, row 2, column 3"):
            call(context, [0.1, 0.1, 0.1])


def test_predictions_refuse_other_schemas_and_depths():
    model = BasketModel(context_schema="s1").update(*purchases())
    with pytest.raises(SchemaMismatchError, match="3 columns"):
        model.predict(np.zeros((1, 3)), 0.1)
    with pytest.raises(SchemaMismatchError, match="s2"):
        model.predict(np.zeros((1, 4)), 0.1, context_schema="s2")
    with pytest.raises(InputError, match="depth, row 1"):
        model.predict(np.zeros((1, 4)), np.nan)
    with pytest.raises(InputError, match="2 rows"):
        model.predict(np.zeros((2, 4)), [0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    "settings",
    [
        {"noise_sd": 0.0},
        {"noise_sd": np.nan},
        {"noise_sd": "small"},
        {"depth_scale": 0},
        {"depth_scale": None},
        {"constant_precision": -1},
        {"forgetting": 0},
        {"forgetting": 1.01},
        {"prior_precision": True},
        {"noise_sd": 1e200},
        {"noise_sd": 1e-200},
        {"monotone": "no"},
        {"campaigns": {3: Evidence.empty(4)}},
        {"prior_precision": Prior(depth=(1.0, 2.0))},
    ],
)
def test_settings_that_make_no_model_are_refused(settings):
    with pytest.raises(InputError):
        BasketModel(**settings).update(*purchases()).predict(np.zeros((1, 4)), 0.1)


def test_empty_questions_get_empty_answers():
    model = BasketModel().update(*purchases())
    mean, sd = model.predict(np.empty((0, 4)), [])
    assert mean.shape == sd.shape == (0,)


# ---- names of context columns ----------------------------------------------------------------------------------------

NAMED = pd.DataFrame({"spend": [0.5, 1.0, -0.5], "recency": [0.1, 0.2, 0.3]})


@pytest.mark.parametrize("as_table", [lambda table: table, pa.Table.from_pandas], ids=["pandas", "Arrow"])
def test_contexts_with_other_column_names_are_refused_by_name(as_table):
    model = BasketModel().update(as_table(NAMED), [0.1, 0.2, 0.1], [20.0, 30.0, 25.0])
    assert model.context_names == ("spend", "recency")
    swapped, other = as_table(NAMED[["recency", "spend"]]), as_table(NAMED.rename(columns={"spend": "visits"}))
    for wrong in (swapped, other):
        for use in (
            lambda context: model.update(context, 0.1 + np.zeros(3), [20.0, 30.0, 25.0]),
            lambda context: model.predict(context, 0.1),
            lambda context: model.expected_full_price(context, [0.1]),
            lambda context: model.effective_plays(context, 0.1),
            lambda context: demand_curve(model, context, [0.1], draws=2),
        ):
            with pytest.raises(SchemaMismatchError, match=r"context columns: found .*; expected spend, recency"):
                use(wrong)
    plain = BasketModel().update(NAMED.to_numpy(), [0.1, 0.2, 0.1], [20.0, 30.0, 25.0])
    np.testing.assert_array_equal(model.predict(as_table(NAMED), 0.1), plain.predict(NAMED.to_numpy(), 0.1))


def test_names_are_no_part_of_a_model_s_identity_and_survive_its_file(tmp_path):
    rows = [0.1, 0.2, 0.1], [20.0, 30.0, 25.0]
    named, plain = BasketModel().update(NAMED, *rows), BasketModel().update(NAMED.to_numpy(), *rows)
    assert named == plain
    assert named.hash == plain.hash
    for model in (named, plain):
        model.save(tmp_path / "model.safetensors")
        assert BasketModel.load(tmp_path / "model.safetensors").context_names == model.context_names
        assert pickle.loads(pickle.dumps(model)).context_names == model.context_names
    assert plain.update(NAMED, *rows).context_names == ("spend", "recency")
    assert BasketModel().update(pd.DataFrame(NAMED.to_numpy()), *rows).context_names is None


# ---- effective plays, and where the posterior admits that it does not know -------------------------------------------


def straight_purchases(count, depths):
    generator = np.random.default_rng(1)
    context = generator.normal(size=(count, 4)).clip(-4, 4)
    depth = generator.choice(depths, count)
    log_price = 3.6 + 0.4 * context[:, 0] + depth * (1 + 0.5 * context[:, 1]) + 0.6 * generator.normal(size=count)
    return context, depth, np.exp(log_price)


def test_effective_plays_of_one_hot_are_the_plays():
    model = BasketModel(encoding=OneHotDepth((0.2, 0.5, 0.8)), constant_precision=None, prior_precision=3.0)
    model = model.update(np.empty((1000, 0)), np.full(1000, 0.5), np.full(1000, 30.0))
    plays = model.effective_plays(np.empty((3, 0)), [0.2, 0.5, 0.8])
    assert plays == pytest.approx([0, 1000, 0], abs=1e-9)
    assert (plays >= 0).all()


@pytest.mark.filterwarnings("error")
def test_a_question_without_any_feature_has_no_plays():
    # without a constant, and at the reference itself, ψ = 0: nothing can be learned about it
    model = BasketModel(encoding=DistanceToDepth(0.5), constant_precision=None)
    model = model.update(np.empty((3, 0)), np.full(3, 0.1), np.full(3, 20.0))
    assert model.effective_plays(np.empty((1, 0)), [0.5]).tolist() == [0.0]


@pytest.mark.parametrize(("gamma", "between"), [(2, 300), (20, 10)])
def test_effective_plays_of_radial_basis_are_shared(gamma, between):
    here = np.full((1, 6), 0.2)  # at a fixed context, as the definition says
    depth = np.repeat([0.4, 0.6], 1000)
    model = BasketModel(encoding=RadialBasis(gamma=gamma)).update(
        np.repeat(here, 2000, axis=0), depth, np.full(2000, 30.0)
    )
    asked = [0.4, 0.5, 0.6, 0.0, 1.0]
    left, middle, right, *far = model.effective_plays(np.repeat(here, 5, axis=0), asked)
    assert min(left, right) >= 1000
    assert between < middle < 2000
    assert max(far) < min(10, middle / 5)


def test_effective_plays_by_hand():
    # ψ = [1, u] at u = ½: V0 = (2, 3); 8 plays at u = ½ add ψψᵀ eight times, so they are worth exactly 8
    model = BasketModel(encoding=LinearDepth(), constant_precision=2.0, prior_precision=3.0)
    model = model.update(np.empty((8, 0)), np.full(8, 0.5), np.full(8, 20.0))
    assert model.effective_plays(np.empty((1, 0)), [0.5])[0] == pytest.approx(8)


@pytest.mark.parametrize("encoding", [RadialBasis(gamma=2), RadialBasis(gamma=20), SmoothSpline()])
def test_ignorance_is_larger_at_unplayed_depths_and_falls_with_data(encoding):
    sds = []
    for count in (200, 2000, 20_000):
        context, depth, price = straight_purchases(count, depths=(0.65, 0.75, 0.85))
        model = BasketModel(encoding=encoding, noise_sd=0.6).update(context, depth, price)
        sds.append([model.predict(np.zeros((1, 4)), [at])[1][0] for at in (0.75, 0.3)])
    played, unplayed = np.array(sds).T
    assert (unplayed > played).all()
    assert (np.diff(played) < 0).all()
    assert (np.diff(unplayed) < 0).all()


def test_ignorance_of_the_spline_grows_with_distance_on_both_sides():
    context, depth, price = straight_purchases(5000, depths=(0.45, 0.5, 0.55))
    model = BasketModel(encoding=SmoothSpline(), noise_sd=0.6).update(context, depth, price)
    for side in (np.arange(0.55, 1.001, 0.05), np.arange(0.45, -0.001, -0.05)):
        _, sd = model.predict(np.zeros((side.size, 4)), side.clip(0, 1))
        assert (np.diff(sd) > 0).all()


# ---- settings chosen by marginal likelihood --------------------------------------------------------------------------


def wavy_purchases(count=8000, *, wiggle=0.0, context_sd=0.4, seed=2):
    generator = np.random.default_rng(seed)
    context = generator.normal(size=(count, 2)).clip(-4, 4)
    depth = generator.choice(np.linspace(0.05, 0.95, 10), count)
    shape = wiggle * np.sin(12 * depth) + 0.7 * depth
    return context, depth, np.exp(3.5 + shape + context_sd * context[:, 0] + 0.5 * generator.normal(size=count))


def test_the_choice_explains_the_evidence_better_and_says_why():
    model = BasketModel(encoding=RadialBasis(gamma=20)).update(*wavy_purchases())
    tuned = model.tuned()
    assert tuned.posterior.log_evidence > model.posterior.log_evidence
    assert tuned.evidence == model.evidence
    assert "8,000 purchases" in tuned.reason
    assert f"of 7 widths gamma {tuned.encoding.gamma} explains them best" in tuned.reason
    assert "more than 1,000 times more likely than under the settings before" in tuned.reason
    sds = [prior**-0.5 for prior in (tuned.prior.context, tuned.prior.depth, tuned.prior.interaction)]
    for sd, part in zip(sds, ("the context", "the depth", "both together"), strict=True):
        assert f"±{sd:.3g} for {part}" in tuned.reason  # what is said is what was chosen
    assert tuned.tuned().posterior.log_evidence >= tuned.posterior.log_evidence - 1e-3


def test_a_straight_truth_wants_wide_bumps_and_a_wavy_one_narrow_bumps():
    widths = [BasketModel().update(*wavy_purchases(wiggle=wiggle)).tuned().encoding.gamma for wiggle in (0.0, 0.8)]
    assert widths[0] < widths[1]


def test_a_block_without_effect_gets_a_high_precision():
    prior = BasketModel(encoding=LinearDepth()).update(*wavy_purchases()).tuned().prior
    assert prior.interaction > 20 * prior.context  # the truth has no interaction


def test_no_neighbour_is_better():
    """Independent check of the optimum: moving any precision by a factor of two lowers the marginal likelihood."""
    tuned = BasketModel(encoding=LinearDepth()).update(*wavy_purchases(context_sd=0.8)).tuned()
    best = tuned.posterior.log_evidence
    for block in ("context", "depth"):
        for factor in (0.5, 2.0):
            moved = replace(tuned.prior, **{block: getattr(tuned.prior, block) * factor})
            assert replace(tuned, prior_precision=moved).posterior.log_evidence <= best + 1e-3


def test_the_spline_keeps_its_population_prior_and_re_estimates_deviations():
    model = BasketModel(encoding=SmoothSpline()).update(*wavy_purchases(context_sd=0.05))
    tuned = model.tuned()
    assert tuned.prior.depth == model.prior.depth
    assert tuned.prior.depth_mean == model.prior.depth_mean
    assert tuned.prior.context > 3 * model.prior.context  # customers deviate by 0.05, not by 0.3
    assert tuned.prior.absolute


def test_a_fixed_choice_stays_possible_and_nothing_to_learn_from_is_said():
    assert BasketModel().tuned().reason == "not tuned: there is no evidence yet"
    fixed = BasketModel(encoding=RadialBasis(alpha=20), prior_precision=Prior(context=2.0)).update(*wavy_purchases(100))
    assert fixed.encoding.alpha == 20
    assert fixed.reason == "chosen by hand"


def test_a_state_without_solution_is_tuned_into_one_that_has():
    model = BasketModel(encoding=RadialBasis(alpha=20), prior_precision=1e-14).update(*wavy_purchases(300))
    with pytest.raises(IllConditionedError):
        model.predict(np.zeros((1, 2)), 0.3)
    tuned = model.tuned()
    assert np.isfinite(tuned.predict(np.zeros((1, 2)), 0.3)).all()
    assert "no solution" in tuned.reason


@pytest.mark.parametrize("noise_sd", [None, 0.5])
def test_tuning_works_with_fixed_and_estimated_noise(noise_sd):
    model = BasketModel(noise_sd=noise_sd).update(*wavy_purchases(500))
    assert model.tuned().posterior.log_evidence >= model.posterior.log_evidence
