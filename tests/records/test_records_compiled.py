"""Kernels: compiled at the first call; the interpreter gives the same bits, and only where it is asked to."""

import json
import os
import pickle
import pty
import subprocess
import sys

import numpy as np
import pytest

import disco
from disco.allocation import solve
from disco.allocation.dual import box
from disco.belief import algebra
from disco.belief.curves import demand_curve
from disco.belief.elementary import exponential, exponentials
from disco.belief.encodings import SmoothSpline
from disco.belief.model import BasketModel
from disco.belief.model_file import to_bytes
from disco.policy import POLICIES
from disco.records import compiled

_FIGURES = """
import json, sys
import numpy as np
import pytest
from contextlib import nullcontext
from disco.belief.curves import demand_curve
from disco.belief.encodings import RadialBasis, SmoothSpline
from disco.belief.model import BasketModel
from disco.policy import POLICIES
from disco.records.compiled import without_compiler

found = {}
with without_compiler() if sys.argv[1] == "interpreted" else nullcontext():
    evidence = BasketModel.from_bytes(bytes.fromhex(sys.argv[2])).evidence
    for encoding in (SmoothSpline(), RadialBasis()):
        for monotone in (False, True):
            model = BasketModel(encoding=encoding, monotone=monotone).add(evidence)
            for name, policy in POLICIES.items():
                drawn = policy().full_prices(
                    model, [[0.3, -1.2]], [0.1, 0.2, 0.4], ids=["c0000017"], seed=3, campaign="spring"
                )
                found[f"{encoding.kind} {monotone} {name}"] = drawn.tobytes().hex()
            curve = demand_curve(model, [0.3, -1.2], [0.1, 0.25], draws=50)
            found[f"{encoding.kind} {monotone} curve"] = curve.full_price.draws.tobytes().hex()
print(json.dumps({"found": found, "numba": "numba" in sys.modules}))
"""


def test_the_interpreter_gives_the_bits_of_the_compiler() -> None:
    rng = np.random.default_rng(5)
    context, depth = rng.normal(size=(400, 2)).clip(-4, 4), rng.choice([0.1, 0.2, 0.3], size=400)
    learned = BasketModel().update(context, depth, np.exp(3 + context[:, 0] * 0.3 + depth + rng.normal(0, 0.5, 400)))
    stored = to_bytes(learned).hex()
    answers = {}
    for how in ("interpreted", "compiled"):
        done = subprocess.run([sys.executable, "-c", _FIGURES, how, stored], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        answers[how] = json.loads(done.stdout)
    assert answers["interpreted"]["found"] == answers["compiled"]["found"]
    assert (answers["interpreted"]["numba"], answers["compiled"]["numba"]) == (False, True)


def test_one_customers_draws_are_those_of_a_segment_of_one() -> None:
    """A curve of one customer is computed over draws; of a segment, over customers. Two equal customers are one."""
    rng = np.random.default_rng(6)
    model = BasketModel(encoding=SmoothSpline()).update(
        rng.normal(size=(200, 3)).clip(-4, 4), rng.choice([0.1, 0.3], size=200), np.exp(rng.normal(3, 0.5, 200))
    )
    alone = demand_curve(model, [0.5, -0.25, 1.0], [0.1, 0.2, 0.3])
    twice = demand_curve(model, [[0.5, -0.25, 1.0]] * 2, [0.1, 0.2, 0.3])
    assert (alone.full_price.draws == twice.full_price.draws).all()
    assert (alone.full_price.mean == twice.full_price.mean).all()


def test_a_kernel_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(exponentials)) is exponentials
    line = np.array([0.0, 1.0])
    exponentials(line, 2, 700.0)
    assert line.tolist() == [1.0, exponential(1.0)]
    assert set(POLICIES) == {"thompson", "ucb", "epsilon_greedy", "greedy", "random"}


_FIRST_CALLS = """
import sys
from hashlib import sha256
import numpy as np
import disco
from disco.campaign import Belief, decide
from disco.allocation.paths import _search
from disco.belief import BasketModel, Engagement
from disco.policy import Thompson
from disco.records.decisions import Audience, Offer

rng, digest = np.random.default_rng(8), sha256()
def keep(*arrays):
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
base = rng.normal(size=(1500, 1)) + np.linspace(0, 1, 4) * rng.normal(1, 0.4, (1500, 4))
flags, groups = rng.random(base.shape) < 0.7, rng.choice(["a", "b"], 1500)
ids = rng.permutation(1500) - 700
for values, arguments in (
    (base, {"caps": [300, 200, 100, 400], "ids": ids}),
    (base.astype(np.float32), {"caps": [300, 200, 100, 0], "eligible": flags}),
    (np.round(base), {"caps": [300, 300, 300, 300]}),
    (np.tile(base, (2, 1)), {"caps": [600, 400, 200, 800], "ids": [f"c{number}" for number in range(3000)]}),
    (base[:350], {"caps": [80, 60, 40, 90], "costs": np.abs(base[:350, ::-1]), "budget": 60.0}),
    (base, {"caps": [400] * 4, "segments": disco.Segments(groups, {"a": {"caps": [100, 90, 80, 70]}})}),
):
    found = disco.allocate(values, **arguments)
    keep(found.choice, found.prices, found.value, found.bound)
context, depths = rng.normal(size=(600, 3)).clip(-4, 4), (0.1, 0.2, 0.4)
depth = rng.choice(depths, 600)
model = BasketModel().update(context, depth, np.exp(3 + context[:, 0] * 0.3 + depth + rng.normal(0, 0.5, 600)))
decisions = decide(
    Audience(ids=np.arange(600), context=context, known=np.ones(600, bool)),
    belief=Belief(basket=model, engagement=Engagement()),
    offer=Offer(depths=depths, caps=(90, 60, None), revenue_weight=3.0), policy=Thompson(), campaign="spring", seed=42,
)
keep(decisions.choice, decisions.value, decisions.prices, decisions.expected_full_price, decisions.engagement)
print(digest.hexdigest(), _search.is_ready())
"""


def test_first_calls_are_interpreted_and_give_the_bytes_of_compiled_ones(tmp_path):
    answers = {}
    for patience in ("100.0", "0.0"):
        environment = {**os.environ, **({"NUMBA_CACHE_DIR": str(tmp_path)} if patience != "0.0" else {})}
        program = f"from disco.records import compiled; compiled._PATIENCE = {patience}\n{_FIRST_CALLS}"
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        answers[patience] = done.stdout.split()
    assert answers["100.0"] == [answers["0.0"][0], "False"]
    assert answers["0.0"][1] == "True"


def test_no_result_depends_on_whether_newton_was_compiled(monkeypatch):
    """With floors prices may depend on where they began, so that tables with floors go the same way everywhere."""
    exactly = [100, 100, 150]
    problems = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        values, costs = rng.normal(size=(350, 3)), rng.random((350, 3))
        given = {"caps": exactly, "floors": exactly}
        cheapest = -disco.allocate(-costs, **given).value
        dearest = costs[np.arange(350), disco.allocate(values, **given).choice].sum()
        problems.append((values, {**given, "costs": costs, "budget": 0.5 * (cheapest + dearest)}))
    values = np.random.default_rng(1).normal(size=(5000, 3))
    problems.append((values, {"caps": [1500, 1500, 2000], "floors": [1500, 1500, 2000]}))
    problems.append((values, {"caps": [1500, 1500, 1000]}))
    found = {}
    for ready in (False, True):
        monkeypatch.setattr(solve, "_PATHS_BEFORE_COMPILING", solve._PathsBeforeCompiling(0 if ready else 10**9))
        monkeypatch.setattr(compiled.Kernel, "is_ready", lambda kernel, ready=ready: ready)
        results = [disco.allocate(values, **given) for values, given in problems]
        found[ready] = [(one.choice.tobytes(), one.prices.tobytes(), one.value, one.bound) for one in results]
    assert found[False] == found[True]


def test_error_bars_of_prices_have_the_same_bits_interpreted():
    rng = np.random.default_rng(3)
    for case in range(20):
        columns = 2 + case % 7
        density = -rng.random((columns, columns)) * (rng.random((columns, columns)) < 0.7)
        density = np.triu(density, 1) + np.triu(density, 1).T
        np.fill_diagonal(density, rng.random(columns) * (case % 3) - density.sum(axis=1))
        prices = np.maximum(rng.normal(size=columns), 0.0)
        counts, high = rng.random(columns) * 500, rng.random(columns) * 500
        outcomes = []
        for kernel in (box.plain(), box.compiled()):
            width, error = np.empty(columns), np.empty((columns, columns))
            ends = kernel(
                density,
                prices,
                counts,
                np.zeros(columns),
                high,
                4000.0,
                0.9,
                3.5,
                high < 64.0,
                width,
                error,
                case % 2 > 0,
            )
            outcomes.append((np.array(ends).tobytes(), width.tobytes(), error.tobytes()))
        assert outcomes[0] == outcomes[1]


def test_a_kernel_is_compiled_when_patience_has_run_out():
    kernel = compiled.njit(patient=True)(lambda numbers: numbers.size)
    assert kernel.is_patient()
    assert kernel(np.empty(1000)) == 1000
    assert kernel._compiled is None
    assert kernel(np.empty(10_000_000)) == 10_000_000
    assert kernel._compiled is not None
    assert not kernel.is_patient()
    failing = compiled.njit(patient=True)(lambda numbers: numbers.missing)
    with pytest.raises(AttributeError):
        failing(np.empty(0))
    assert failing._patience < compiled._PATIENCE
    slow = compiled.njit(patient=True)(lambda numbers: numbers.size)
    slow._patience = 1e-9
    assert slow(np.empty(0)) == 0
    assert slow._patience < 0.0
    assert slow._compiled is None
    assert slow(np.empty(0)) == 0
    assert slow._compiled is not None


def test_patient_kernels_take_no_logarithms_or_powers_of_a_library():
    """What an interpreter and a compiler take from different libraries has different bits."""
    library = {"log", "log2", "log10", "log1p", "exp", "expm1", "sin", "cos", "tan", "pow", "power", "hypot", "lgamma"}
    seen = set()

    def check(kernel):
        if kernel in seen:
            return
        seen.add(kernel)
        code = kernel.__wrapped__.__code__
        assert not library & set(code.co_names), kernel.__qualname__
        for name in code.co_names:
            called = kernel.__wrapped__.__globals__.get(name)
            if isinstance(called, compiled.Kernel):
                check(called)

    for module in [module for name, module in sys.modules.items() if name.startswith("disco.")]:
        for kernel in vars(module).values():
            if isinstance(kernel, compiled.Kernel) and kernel._patience != 0.0:
                check(kernel)
    assert algebra._inverse_root in seen
    assert len(seen) > 20


@pytest.mark.parametrize("terminal", [True, False], ids=["a terminal", "a pipe"])
def test_a_terminal_is_told_once_that_kernels_are_compiled(terminal, tmp_path):
    reader, writer = pty.openpty() if terminal else os.pipe()
    program = (
        "from disco.records import compiled; compiled._UNNOTICED = compiled._PATIENCE = 0.0; import numpy as np; "
        "from disco.records.exact_sums import add_bits, exact_sum; "
        "exact_sum(np.ones(3)); print('ready', add_bits.is_ready())"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, stderr=writer, stdout=subprocess.PIPE, text=True, check=True
    )
    os.close(writer)
    try:
        told = os.read(reader, 10_000).decode()
    except OSError:  # what Linux answers at the end of a terminal to which nobody wrote
        told = ""
    os.close(reader)
    assert done.stdout.split() == ["ready", "True"]
    assert told.count("compiling kernels for this machine") == (1 if terminal else 0)
