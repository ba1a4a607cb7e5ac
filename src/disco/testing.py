"""Contract suites for what an author writes against DISCO: a policy, an engine, a depth encoding.

Each raises an AssertionError that says which promise is broken. They are the suites that DISCO's own classes pass
(tests/contracts), take a second, and need no test framework:

    def test_my_policy() -> None:
        disco.testing.check_policy(MyPolicy())
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from disco.belief import BasketModel, Encoding, RadialBasis
from disco.records.arrays import Floats
from disco.records.ports import Engine

if TYPE_CHECKING:
    from disco.policy import Policy

__all__ = ["check_encoding", "check_engine", "check_policy"]

_DEPTHS = (0.2, 0.3, 0.5)
_CUSTOMERS = 501
_CHUNKS = 7


def check_policy(policy: "Policy", *, model: BasketModel | None = None) -> None:
    """A policy gives one finite price above 0 per customer and depth, and the same ones whoever else is asked about.

    model: what it draws from; None: one that has learned 400 purchases with four context numbers.
    """
    generator = np.random.default_rng(2)
    context = generator.normal(size=(_CUSTOMERS, 4)).clip(-4, 4)
    ids, copy = generator.permutation(10**6)[:_CUSTOMERS], context.copy()
    model = _learned() if model is None else model

    def served(rows: Any = slice(None), **more: Any) -> Floats:
        question = {"ids": ids[rows], "seed": 1, "campaign": "spring"} | more
        return policy.full_prices(model, context[rows], _DEPTHS, **question)

    whole = served()
    _require(whole.shape == (_CUSTOMERS, len(_DEPTHS)), f"prices have the shape (customers, depths), not {whole.shape}")
    _require(whole.dtype == np.float64, f"prices are float64 unless `dtype` says otherwise, not {whole.dtype}")
    _require(bool(np.isfinite(whole).all() and (whole > 0).all()), "prices are finite and above 0")
    _same(served(), whole, "the same question gets the same answer: draws come from seed, campaign and customer alone")
    parts = [served(rows) for rows in np.array_split(np.arange(_CUSTOMERS), _CHUNKS)]
    _same(np.concatenate(parts), whole, "chunks of customers give the same bytes as all of them at once")
    some = generator.permutation(_CUSTOMERS)[:40]
    _same(served(some), whole[some], "a customer's prices do not depend on who else is there, or in which order")
    _same(served(ids=ids.astype(str).astype(object)), whole, "17 and '17' are one customer")
    short = served(dtype=np.float32)
    _require(short.dtype == np.float32, "`dtype=numpy.float32` is honoured")
    _require(bool(np.allclose(short, whole, rtol=1e-5)), "float32 prices are the float64 ones, but for rounding")
    _require(served(slice(0, 0)).shape == (0, len(_DEPTHS)), "no customers give an empty table")
    _same(context, copy, "the contexts are not changed")


def check_encoding(encoding: Encoding, *, depths: tuple[float, ...] = (0.0, 0.1, 0.3, 0.55, 1.0)) -> None:
    """An encoding turns each depth alone into `size` finite numbers, and is a value with a name, settings and a prior.

    depths: some that it knows, each divided by the model's `depth_scale`.
    """
    u = np.array(depths)
    features = encoding.features(u)
    _require(features.shape == (u.size, encoding.size), f"features have the shape (depths, size), not {features.shape}")
    _require(features.dtype == np.float64 and bool(np.isfinite(features).all()), "features are finite float64 numbers")
    _require(encoding.features(u[:0]).shape == (0, encoding.size), "no depths give an empty table")
    alone = np.vstack([encoding.features(u[[place]]) for place in range(u.size)])
    _same(features, alone, "the features of a depth depend on nothing else")
    _same(encoding.features(u[::-1]), features[::-1], "the features of a depth depend on nothing else")
    encoding.features(u)[:] = 7.0
    _same(u, np.array(depths), "changing the features changes no question")
    settings = json.loads(json.dumps(encoding.settings()))
    again = type(encoding)(**{key: tuple(one) if isinstance(one, list) else one for key, one in settings.items()})
    _require(again == encoding and hash(again) == hash(encoding), "its settings, as JSON, make an equal encoding again")
    _require(bool(encoding.kind), "it has a name, `kind`")
    precision = encoding.prior().precision(6, encoding.size, constant=1e-6)
    _require(precision.shape == (7 * (1 + encoding.size),), "its prior has a precision for every parameter")
    _require(bool((precision > 0).all()), "precisions are above 0")


def check_engine(engine: Engine) -> None:
    """An engine gives results in the order of the chunks, takes chunks as results are used, and passes errors on."""
    for count in (0, 1, 2, 50):
        _require(list(engine.map(_double, range(count))) == [2 * n for n in range(count)], "results come in order")
    taken: list[int] = []

    def chunks() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = engine.map(_double, chunks())
    next(results)
    _require(len(taken) < 1000, "chunks are taken as results are used, so that memory stays bounded")
    del results
    try:
        list(engine.map(_refuse_seven, range(20)))
    except ValueError:
        pass
    else:
        _require(False, "an error of a chunk reaches the caller")
    context = np.random.default_rng(1).normal(size=(300, 4)).clip(-4, 4)
    rows = (context, np.full(300, 0.2), np.exp(context[:, 0] + 3))
    model = BasketModel(encoding=RadialBasis())
    _require(model.update(*rows, engine=engine).hash == model.update(*rows).hash, "work has the same bytes anywhere")


def _double(number: int) -> int:
    return 2 * number


def _refuse_seven(number: int) -> int:
    if number >= 7:
        raise ValueError(str(number))
    return number


def _learned() -> BasketModel:
    generator = np.random.default_rng(1)
    context, depth = generator.normal(size=(400, 4)).clip(-4, 4), generator.choice(_DEPTHS, 400)
    return BasketModel().update(context, depth, np.exp(generator.normal(3.5, 0.6, 400)))


def _same(found: Any, expected: Any, promise: str) -> None:
    _require(np.array_equal(np.asarray(found), np.asarray(expected)), promise)


def _require(kept: bool, promise: str) -> None:
    if not kept:
        raise AssertionError(f"Broken promise: {promise}.")
