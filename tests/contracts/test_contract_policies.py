"""What every policy promises, whatever its formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.belief import BasketModel, OneHotDepth, SmoothSpline
from disco.policy import POLICIES, EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
from disco.records.errors import InputError, SchemaMismatchError
from disco.testing import check_policy

EVERY = [Thompson(), Thompson(scope="round"), UpperConfidence(), EpsilonGreedy(epsilon=0.3), Greedy(), Random()]
DEPTHS = (0.2, 0.3, 0.5)
every_policy = pytest.mark.parametrize("policy", EVERY, ids=repr)


def rows(count, seed=1):
    generator = np.random.default_rng(seed)
    context = generator.normal(size=(count, 4)).clip(-4, 4)
    return context, generator.choice(DEPTHS, count), np.exp(generator.normal(3.5, 0.6, count))


MODELS = [
    BasketModel().update(*rows(400)),
    BasketModel(encoding=SmoothSpline(), monotone=True).update(*rows(400)),
    BasketModel(encoding=OneHotDepth(DEPTHS), constant_precision=None).update(*rows(400)),
]
CONTEXT = rows(3001, seed=2)[0]
IDS = np.random.default_rng(3).permutation(10**6)[:3001]


def served(policy, model, context=CONTEXT, depths=DEPTHS, *, ids=IDS, seed=1, campaign="spring", **more):
    return policy.full_prices(model, context, depths, ids=ids, seed=seed, campaign=campaign, **more)


def test_the_suite_covers_every_policy():
    assert {type(policy) for policy in EVERY} == set(POLICIES.values())


@every_policy
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.encoding.kind)
def test_it_keeps_what_authors_of_policies_are_asked_for(policy, model):
    check_policy(policy, model=model)
    assert served(policy, model).flags.f_contiguous
    short = served(policy, model, dtype=np.float32)
    assert short.flags.f_contiguous
    if not model.monotone:
        np.testing.assert_array_equal(short, served(policy, model).astype(np.float32))


class Careless:
    """A policy whose draws belong to rows instead of customers."""

    name = "careless"

    def full_prices(self, model, context, depths, *, ids, seed, campaign, dtype=np.float64, **more):
        return np.random.default_rng(seed).uniform(1, 2, (len(context), len(depths))).astype(dtype)


class Zeroing(Greedy):
    """A policy that writes into the contexts it is given, with equal prices whenever it is asked."""

    def full_prices(self, model, context, depths, **question):
        context[:] = 0.0
        return super().full_prices(model, context, depths, **question)


def test_a_policy_that_breaks_a_promise_is_told_which():
    with pytest.raises(AssertionError, match="Broken promise: chunks of customers give the same bytes"):
        check_policy(Careless())
    with pytest.raises(AssertionError, match="Broken promise: the contexts are not changed"):
        check_policy(Zeroing())


@every_policy
@settings(max_examples=25, deadline=None)
@given(keep=st.lists(st.integers(0, 3000), min_size=1, max_size=40, unique=True))
def test_who_else_is_there_never_matters(policy, keep):
    whole = served(policy, MODELS[0])
    np.testing.assert_array_equal(served(policy, MODELS[0], CONTEXT[keep], ids=IDS[keep]), whole[keep])


@every_policy
def test_threads_give_the_same_bytes(policy):
    context = np.random.default_rng(5).normal(size=(150_000, 4)).clip(-4, 4)  # enough for several threads
    ids = np.arange(150_000)
    whole = served(policy, MODELS[0], context, ids=ids)
    parts = [
        served(policy, MODELS[0], context[a : a + 40_000], ids=ids[a : a + 40_000]) for a in range(0, 150_000, 40_000)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize(
    "policy", [Thompson(), Thompson(scope="round"), EpsilonGreedy(epsilon=0.3), Random()], ids=repr
)
def test_another_seed_or_campaign_is_another_draw(policy):
    base = served(policy, MODELS[0])
    for other in (served(policy, MODELS[0], seed=2), served(policy, MODELS[0], campaign="summer")):
        assert (base != other).any()


@every_policy
@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_order_of_contexts_does_not_matter(policy, order):
    np.testing.assert_array_equal(served(policy, MODELS[0], np.array(CONTEXT, order=order)), served(policy, MODELS[0]))


@every_policy
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_bad_figures_are_refused(policy, bad):
    context = CONTEXT.copy()
    context[7, 1] = bad
    with pytest.raises(InputError, match="context, row 8, column 2"):
        served(policy, MODELS[0], context)
    with pytest.raises(InputError, match="depth, row 2"):
        served(policy, MODELS[0], depths=[0.1, bad])


@every_policy
def test_bad_questions_are_refused(policy):
    with pytest.raises(SchemaMismatchError):
        served(policy, MODELS[0], CONTEXT[:, :3])
    with pytest.raises(InputError, match="ids"):
        served(policy, MODELS[0], ids=IDS[:5])
    with pytest.raises(InputError, match="seed"):
        served(policy, MODELS[0], seed=1.5)
    for dtype in (int, np.float16, "money"):
        with pytest.raises(InputError, match="dtype"):
            served(policy, MODELS[0], dtype=dtype)
    with pytest.raises(InputError, match="one-hot"):
        served(policy, MODELS[2], depths=[0.2, 0.25])
