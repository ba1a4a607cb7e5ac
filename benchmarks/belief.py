"""Draws and updates beside bandit libraries, on the same rows, in one run: `./run bench belief [--quick]`.

Also values, what `decide` maximises: drawn full prices times one engagement rate per depth, and times each customer's
own drawn rate. Peers have no engagement; their draws stand beside both.

Every contender runs in a process of its own: import, data, one warm-up, then timed repeats. Peers keep one linear model
per depth (as their users do) or, where they can, the one model over all depths. Contexts come with a constant.
Memory is the peak beyond what was held before the call (inputs, interpreter), over the size of the output.
"""

import argparse
import ctypes
import gc
import importlib.metadata
import multiprocessing
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

DEPTHS = (0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45)
NOISE = 0.7
DEFAULTS = "own rates, defaults of a shop"  # exploration 0.1 and smearing; "own rates" has 1 and none
Job = Callable[[], Any]


def rows(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts (count, 6), depths, full prices: the same for every contender."""
    generator = np.random.default_rng(7)
    context = generator.standard_normal((count, 6)).clip(-4, 4)
    depth = generator.choice(DEPTHS, count)
    log_price = 3.7 + 0.3 * context[:, 0] + depth * (1 + 0.3 * context[:, 1]) + NOISE * generator.standard_normal(count)
    return context, depth, np.exp(log_price)


def with_constant(context: np.ndarray) -> np.ndarray:
    return np.column_stack((np.ones(len(context)), context))


# ---- contenders: (rows) -> {task: job} -------------------------------------------------------------------------------


def disco(count: int, *, float32: bool = False) -> dict[str, Job]:
    from disco.adapters.engines import LocalEngine
    from disco.belief import BasketModel, Evidence, RadialBasis
    from disco.policy import Thompson

    context, depth, price = rows(count)
    model = BasketModel(encoding=RadialBasis((0.25, 0.5, 0.75), gamma=20)).update(context, depth, price)
    ids, policy, dtype = np.arange(count), Thompson(), np.float32 if float32 else np.float64
    engine = LocalEngine()
    return {
        "draw": lambda: policy.full_prices(
            model, context, DEPTHS, ids=ids, seed=1, campaign="bench", dtype=dtype, engine=engine
        ),
        "update": lambda: Evidence.of(context, depth, price, engine=engine),
    }


def disco_values(count: int) -> dict[str, Job]:
    """Draws and values with one rate per depth, and with every customer's own drawn rate, by two groups of settings."""
    from disco.adapters.config import EXPLORATION
    from disco.adapters.engines import LocalEngine
    from disco.belief import BasketModel, Engagement, EngagementCounts, RadialBasis
    from disco.campaign import Belief, values_of
    from disco.policy import Thompson
    from disco.records.decisions import Audience
    from disco.records.score import EngagementHead, ScoreBins

    context, depth, price = rows(count)
    model = BasketModel(encoding=RadialBasis((0.25, 0.5, 0.75), gamma=20)).update(context, depth, price)
    weights = np.array([0.0, 0.5, 0.3, -0.2, 0.1, 0.2, 0.4])
    head = EngagementHead(weights, ScoreBins.of(with_constant(context[:100_000]) @ weights))
    score, engine = head.scores(context), LocalEngine()
    used = np.random.default_rng(8).random(count) < 1 / (1 + np.exp(2.2 - 3 * (depth - 0.25) - score))
    counts = EngagementCounts.of(depth, used, score=score, bins=head.bins)
    audience = Audience(ids=np.arange(count), context=context, known=True)

    def job(belief: Belief, exploration: float = 1.0) -> Job:
        return lambda: values_of(
            audience,
            belief=belief,
            depths=np.array(DEPTHS),
            revenue_weight=3.0,
            policy=Thompson(exploration=exploration),
            seed=1,
            campaign="bench",
            engine=engine,
        )

    return {
        "one rate per depth": job(Belief(basket=model, engagement=Engagement(counts=counts.margin))),
        "own rates": job(Belief(basket=model, engagement=Engagement(counts=counts), head=head)),
        DEFAULTS: job(
            Belief(basket=replace(model, smearing=True), engagement=Engagement(counts=counts), head=head),
            exploration=EXPLORATION,
        ),
        "count codes": lambda: EngagementCounts.of(depth, used, score=score, bins=head.bins),
    }


def disco_float32(count: int) -> dict[str, Job]:
    return {"draw": disco(count, float32=True)["draw"]}


def mabwiser(count: int) -> dict[str, Job]:
    from mabwiser.mab import MAB, LearningPolicy

    context, depth, price = rows(count)
    x, y = with_constant(context), np.log(price)
    bandit = MAB(list(DEPTHS), LearningPolicy.LinTS(alpha=NOISE, l2_lambda=1.0))
    bandit.fit(depth, y, x)
    return {"draw": lambda: bandit.predict_expectations(x), "update": lambda: bandit.partial_fit(depth, y, x)}


def contextualbandits(count: int, *, sample_from: str = "ci") -> dict[str, Job]:
    from contextualbandits.online import LinTS

    context, depth, price = rows(count)
    arm, y = np.searchsorted(DEPTHS, depth), np.log(price)
    bandit = LinTS(len(DEPTHS), v_sq=NOISE**2, sample_from=sample_from, random_state=1)
    bandit.fit(context, arm, y)
    return {
        "draw": lambda: bandit.decision_function(context),
        "update": lambda: bandit.partial_fit(context, arm, y),
    }


def contextualbandits_coef(count: int) -> dict[str, Job]:
    return {"draw": contextualbandits(count, sample_from="coef")["draw"]}


def bayesianbandits_arms(count: int) -> dict[str, Job]:
    from bayesianbandits import NormalRegressor

    context, depth, price = rows(count)
    x, y = with_constant(context), np.log(price)
    arms = [NormalRegressor(alpha=1.0, beta=NOISE**-2, random_state=1) for _ in DEPTHS]

    def update() -> None:
        for arm, value in zip(arms, DEPTHS, strict=True):
            mine = depth == value
            arm.partial_fit(x[mine], y[mine])

    update()
    return {"draw": lambda: np.concatenate([arm.sample_marginal(x) for arm in arms]), "update": update}


def bayesianbandits_joint(count: int) -> dict[str, Job]:
    from bayesianbandits import NormalRegressor

    context, depth, price = rows(count)
    y = np.log(price)
    centres = np.array((0.25, 0.5, 0.75))

    def features(context: np.ndarray, depth: np.ndarray) -> np.ndarray:
        a = np.column_stack((np.ones(len(depth)), np.exp(-20 * (depth[:, None] - centres) ** 2)))
        return (with_constant(context)[:, :, None] * a[:, None, :]).reshape(len(context), -1)

    psi = features(context, depth)
    model = NormalRegressor(alpha=1.0, beta=NOISE**-2, random_state=1).fit(psi, y)
    part = 50_000  # the whole tensor customers × depths × features would not fit beside the others

    def draw() -> np.ndarray:
        out = []
        for start in range(0, count, part):
            some = context[start : start + part]
            every = features(np.repeat(some, len(DEPTHS), axis=0), np.tile(DEPTHS, len(some)))
            out.append(model.sample_reward_space(every, block_size=len(DEPTHS))[0])
        return np.concatenate(out)

    return {"draw": draw, "update": lambda: model.partial_fit(psi, y)}


VALUES = "disco, values"
CONTENDERS: dict[str, tuple[Callable[[int], dict[str, Job]], str, int]] = {
    VALUES: (disco_values, "full prices and engagement rates, drawn and multiplied", 8),
    "disco": (disco, "one curve per customer, joint over its depths", 8),
    "disco, float32 out": (disco_float32, "the same draws, half the memory", 4),
    "mabwiser LinTS": (mabwiser, "one model per depth, depths independent", 8),
    "contextualbandits LinTS ci": (contextualbandits, "one model per depth, depths independent", 8),
    "contextualbandits LinTS coef": (contextualbandits_coef, "one model per depth, depths independent", 8),
    "bayesianbandits marginal": (bayesianbandits_arms, "one model per depth, depths independent", 8),
    "bayesianbandits joint": (bayesianbandits_joint, "one model, joint over a customer's depths", 8),
}


# ---- measuring -------------------------------------------------------------------------------------------------------


def status_kib(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))


def measure(name: str, count: int, repeats: int, limit_s: float) -> dict[str, tuple[list[float], float]]:
    """Per task: seconds of each repeat, and peak extra memory in bytes (NaN where the system cannot say)."""
    warnings.simplefilter("ignore")
    jobs = CONTENDERS[name][0](count)
    found = {}
    for job in jobs.values():
        job()  # warm-up: compilation, caches
    if name == VALUES:  # turn about, so that other work on the machine hits each alike
        turns: dict[str, tuple[list[float], float]] = {task: ([], float("nan")) for task in jobs}
        for _ in range(repeats):
            for task, job in jobs.items():
                start = time.perf_counter()
                job()
                turns[task][0].append(time.perf_counter() - start)
        return turns
    for task, job in jobs.items():
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)  # memory freed by the warm-up must not hide what the call needs
        peak, seconds = float("nan"), []
        watched = os.path.exists("/proc/self/clear_refs")
        while len(seconds) < repeats and (len(seconds) < 2 or sum(seconds) < limit_s):
            if watched and not seconds:
                with open("/proc/self/clear_refs", "w") as file:
                    file.write("5")  # restart the high-water mark
                before = status_kib("VmRSS")
            start = time.perf_counter()
            result = job()
            seconds.append(time.perf_counter() - start)
            if watched and len(seconds) == 1:
                peak = (status_kib("VmHWM") - before) * 1024.0
            del result
        found[task] = (seconds, peak)
    return found


def apart(name: str, *arguments: Any) -> dict[str, tuple[list[float], float]] | str:
    """`measure` in a fresh process; a contender that fails says why and spoils nothing."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply(measure, (name, *arguments))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def table(task: str, results: dict[str, Any], count: int) -> None:
    mine = statistics.median(results["disco"][task][0])
    print(f"\n{'contender':30} {'median s':>9} {'spread':>17} {'of disco':>9} {'memory/output':>14}  what it draws")
    for name, found in results.items():
        if isinstance(found, str):
            print(f"{name:30} failed: {found[:100]}")
        elif task in found:
            seconds, peak = found[task]
            median = statistics.median(seconds)
            spread = f"{min(seconds):.4f}–{max(seconds):.4f}"
            size = count * len(DEPTHS) * CONTENDERS[name][2]
            memory = f"{peak / size:13.2f}×" if task == "draw" else f"{peak / 2**20:10.0f} MiB"
            note = CONTENDERS[name][1] if task == "draw" else ""
            print(f"{name:30} {median:9.4f} {spread:>17} {median / mine:8.1f}× {memory:>14}  {note}")


def verdict(results: dict[str, Any], count: int) -> None:
    """The figures we promise, met or not."""
    peers = {name: found for name, found in results.items() if "disco" not in name and not isinstance(found, str)}
    ours = results["disco"]
    draw, update = (statistics.median(ours[task][0]) for task in ("draw", "update"))
    figures = []
    if "mabwiser LinTS" in peers:
        slow = statistics.median(peers["mabwiser LinTS"]["draw"][0])
        figures.append(("draws against mabwiser LinTS", slow / draw, 20.0))
    if peers:
        fastest = min(statistics.median(found["draw"][0]) for found in peers.values())
        figures.append(("draws against the fastest peer", fastest / draw, 5.0))
        fastest = min(statistics.median(found["update"][0]) for found in peers.values() if "update" in found)
        figures.append(("update against the fastest peer", fastest / update, 2.0))
    values = results[VALUES]
    if isinstance(values, str):
        sys.exit(f"{VALUES} failed: {values}")
    print(f"\nDraws and values: {count:,} customers × {len(DEPTHS)} depths, turn about")
    for task, (seconds, _) in values.items():
        print(f"{task:30} {statistics.median(seconds):9.4f} {min(seconds):9.4f}–{max(seconds):.4f}")
    one, own = values["one rate per depth"][0], values["own rates"][0]
    ratio = statistics.median(b / a for a, b in zip(one, own, strict=True))
    print()
    print(f"{'own rates against one per depth':36} {ratio:6.2f}×  wanted ≤ 2×  {'met' if ratio <= 2 else 'NOT MET'}")
    ratio = statistics.median(b / a for a, b in zip(own, values[DEFAULTS][0], strict=True))
    print(f"{'defaults against exploration 1':36} {ratio:6.2f}×  wanted ≤ 1.2×  {'met' if ratio <= 1.2 else 'NOT MET'}")
    if peers:
        fastest = min(statistics.median(found["draw"][0]) for found in peers.values()) / statistics.median(own)
        figures.append(("own rates against the fastest peer", fastest, 4.0))
    share = ours["draw"][1] / (count * len(DEPTHS) * 8)
    print(f"{'memory of draws over the output':36} {share:6.2f}×  wanted 1.5×  {'met' if share < 1.5 else 'NOT MET'}")
    for what, ratio, wanted in figures:
        print(f"{what:36} {ratio:6.1f}×  wanted {wanted:g}×  {'met' if ratio >= wanted else 'NOT MET'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 customers and three repeats")
    parser.add_argument("--customers", type=int)
    options = parser.parse_args()
    count = options.customers or (100_000 if options.quick else 1_000_000)
    repeats = 3 if options.quick else 9
    names = ("numpy", "numba", "mabwiser", "contextualbandits", "bayesianbandits")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    print(f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores")
    results = {}
    for name in CONTENDERS:
        print(f"… {name}", file=sys.stderr, flush=True)
        results[name] = apart(name, count, repeats, 20.0)
    again = apart("disco", count, repeats, 20.0)  # before and after its peers: other work on the machine hits both
    if isinstance(results["disco"], str) or isinstance(again, str):
        sys.exit(f"disco failed: {results['disco']}, {again}")
    for task, (seconds, _) in again.items():
        results["disco"][task][0].extend(seconds)
    print(f"\nPer-customer draws: {count:,} customers × {len(DEPTHS)} depths")
    table("draw", results, count)
    print(f"\nEvidence of {count:,} purchases")
    table("update", results, count)
    verdict(results, count)


if __name__ == "__main__":
    main()
