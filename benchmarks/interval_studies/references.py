"""Our figures beside those of outside libraries on the same random figures: the largest relative difference of each.

SciPy and scikit-learn are compared in the tests, too. statsmodels and obp come with `./run bench` alone.
"""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from disco.evaluation.accuracy import accuracy
from disco.evaluation.estimates import Mean, compare, compare_adjusted, holm
from disco.evaluation.off_policy import off_policy
from disco.evaluation.power import Design
from disco.evaluation.read_out import MetricColumns, experiment, sample_ratio

LIBRARIES = ("scipy", "scikit-learn", "statsmodels", "obp")
SAME = 1e-9  # a relative difference beyond it is no rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One figure, by us and by another library, over many random data sets."""

    library: str
    figure: str
    largest: float  # relative difference
    compared: int


def versions() -> dict[str, str]:
    """Of the libraries that are compared with, as far as they are installed."""
    found = {one.metadata["Name"].lower(): one.version for one in importlib.metadata.distributions()}
    return {name: found[name] for name in LIBRARIES if name in found}


def study(repetitions: int, *, seed: int = 11) -> Iterator[Reference]:
    """Each pair of functions gives the same figures, ours first, for a generator of random data."""
    there = versions()
    for (library, figure), both in PAIRS.items():
        if library not in there:
            continue
        rng, largest = np.random.default_rng(seed), 0.0
        for _ in range(repetitions):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # obp was written for older versions of what it needs
                ours, theirs = (np.asarray(figures, np.float64) for figures in both(rng))
            scale = np.maximum(np.maximum(np.abs(ours), np.abs(theirs)), 1e-12)
            largest = max(largest, float((np.abs(ours - theirs) / scale).max()))
        yield Reference(library=library, figure=figure, largest=largest, compared=repetitions)


_Both = tuple[list[float], list[float]]


def _arms(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    sizes = rng.integers(20, 400, 2)
    first, second = (rng.gamma(2, rng.uniform(5, 30), size) * (rng.random(size) < 0.6) for size in sizes)
    return first, second


def _welch_scipy(rng: np.random.Generator) -> _Both:
    from scipy import stats

    first, second = _arms(rng)
    found = compare(Mean.of(first), Mean.of(second))
    expected = stats.ttest_ind(first, second, equal_var=False)
    ends = expected.confidence_interval(0.95)
    assert found.difference.ends is not None
    return [found.p_value, *found.difference.ends], [expected.pvalue, ends.low, ends.high]


def _sample_ratio(rng: np.random.Generator) -> _Both:
    from scipy import stats

    counts, shares = rng.integers(50, 500, 3), rng.dirichlet([5, 5, 5])
    found = sample_ratio(dict(zip("abc", counts.tolist(), strict=True)), dict(zip("abc", shares, strict=True)))
    return [found.p_value], [stats.chisquare(counts, counts.sum() * shares).pvalue]


def _spearman(rng: np.random.Generator) -> _Both:
    from scipy import stats

    observed = rng.normal(3, 1, 200)
    predicted = observed + rng.normal(size=200).round(1)
    return [accuracy(predicted, observed).spearman], [stats.spearmanr(predicted, observed).statistic]


def _errors(rng: np.random.Generator) -> _Both:
    from sklearn import metrics

    observed = rng.normal(3, 1, 200)
    predicted = observed + rng.normal(size=200)
    found = accuracy(predicted, observed)
    theirs = (metrics.mean_absolute_error, metrics.mean_squared_error, metrics.r2_score)
    return [found.mae, found.mse, found.r2], [one(observed, predicted) for one in theirs]


def _welch(rng: np.random.Generator) -> _Both:
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    first, second = _arms(rng)
    found = compare(Mean.of(first), Mean.of(second))
    other = CompareMeans(DescrStatsW(first), DescrStatsW(second))
    assert found.difference.ends is not None
    return [found.p_value, *found.difference.ends], [
        other.ttest_ind(usevar="unequal")[1],
        *other.tconfint_diff(usevar="unequal"),
    ]


def _holm(rng: np.random.Generator) -> _Both:
    from statsmodels.stats.multitest import multipletests

    p_values = rng.uniform(size=7) ** 3
    found = holm(dict(enumerate(p_values.tolist())))
    return [found[at] for at in range(7)], list(multipletests(p_values, method="holm")[1])


def _adjusted(rng: np.random.Generator) -> _Both:
    """Least squares of the figure on the arm and what was known before: its coefficient of the arm."""
    from statsmodels.api import OLS, add_constant

    sizes = rng.integers(50, 300, 2)
    before = rng.gamma(2, 1, int(sizes.sum()))
    figure = 5 + 2 * before + rng.normal(size=before.size)
    decided = np.arange(before.size) < sizes[0]
    found = compare_adjusted(
        figure[decided], figure[~decided], before=(before[decided, None], before[~decided, None])
    ).comparison
    fitted = OLS(figure, add_constant(np.column_stack([decided.astype(float), before]))).fit()
    return [found.difference.value], [float(fitted.params[1])]


def _ratio(rng: np.random.Generator) -> _Both:
    """A ratio of two sums with the delta method: least squares without a constant, errors robust as HC0."""
    from statsmodels.api import WLS

    orders = rng.poisson(1.5, 300).astype(float)
    revenue = orders * rng.gamma(3, 10, 300)
    found = Mean.of(revenue, orders)
    some = orders > 0
    fitted = WLS(revenue[some] / orders[some], np.ones(int(some.sum())), weights=orders[some]).fit(cov_type="HC0")
    return [found.value, found.variance], [float(fitted.params[0]), float(fitted.bse[0] ** 2) * 300 / 299]


def _rate_power(rng: np.random.Generator) -> _Both:
    """Unpooled variances of both arms, as in Welch's test."""
    from statsmodels.stats.power import normal_power_het

    rate, uplift, customers = rng.uniform(0.05, 0.4), rng.uniform(0.05, 0.4), int(rng.integers(1000, 9000))
    rates = np.array([rate, rate * (1 + uplift)])
    spread = float(np.sqrt((rates * (1 - rates)).sum()))  # of the difference, with one customer in each arm
    theirs = normal_power_het(rate * uplift, customers, 0.05, std_null=spread, std_alternative=spread)
    return [Design.of_rate(rate).power(uplift, customers=2 * customers)], [float(theirs)]


def _agresti_caffo(rng: np.random.Generator) -> _Both:
    """Ours has the quantile of Student's t, theirs the normal's: centre and error are compared."""
    from statsmodels.stats.proportion import confint_proportions_2indep

    sizes, counts = rng.integers(20, 60, 2), rng.integers(0, 9, 2)
    arm = np.repeat(["new", "control"], sizes)
    bought = np.concatenate([np.arange(size) < count for size, count in zip(sizes, counts, strict=True)])
    one = experiment(arm, [MetricColumns(name="bought", numerator=bought.astype(float))]).differences[0]
    lower, upper = confint_proportions_2indep(
        counts[0], sizes[0], counts[1], sizes[1], method="agresti-caffo", compare="diff"
    )
    ends = one.difference.ends
    assert ends is not None
    assert one.difference.standard_error is not None
    inside = ends[0] > -1 and ends[1] < 1
    middle = sum(ends) / 2 if inside else (lower + upper) / 2
    return [middle, one.difference.standard_error], [(lower + upper) / 2, (upper - lower) / 2 / 1.959963984540054]


def _off_policy(rng: np.random.Generator) -> _Both:
    from obp.ope import (
        DoublyRobust,
        InverseProbabilityWeighting,
        SelfNormalizedInverseProbabilityWeighting,
    )

    rows, depths = 500, 3
    law, target = (rng.dirichlet([2.0] * depths, rows) for _ in range(2))
    place = (rng.random((rows, 1)) > law.cumsum(axis=1)[:, :-1]).sum(axis=1)
    at = np.arange(rows), place
    figure, model = rng.gamma(1, 20, rows), rng.gamma(2, 10, (rows, depths))
    found = off_policy(
        figure,
        propensity=law[at],
        target=target[at],
        predicted_logged=model[at],
        predicted_target=(target * model).sum(axis=1),
    )
    assert found.snips is not None
    assert found.dr is not None
    given = {"reward": figure, "action": place, "pscore": law[at], "action_dist": target[:, :, None]}
    given["position"] = np.zeros(rows, np.int64)
    theirs = [
        InverseProbabilityWeighting().estimate_policy_value(**given),
        SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
        DoublyRobust().estimate_policy_value(**given, estimated_rewards_by_reg_model=model[:, :, None]),
    ]
    return [found.ips.value, found.snips.value, found.dr.value], theirs


PAIRS: dict[tuple[str, str], Callable[[np.random.Generator], _Both]] = {
    ("scipy", "Welch's test: p, both ends"): _welch_scipy,
    ("scipy", "sample ratio: χ², p"): _sample_ratio,
    ("scipy", "Spearman's correlation"): _spearman,
    ("scikit-learn", "MAE, MSE, R²"): _errors,
    ("statsmodels", "Welch's test: p, both ends"): _welch,
    ("statsmodels", "Holm's method"): _holm,
    ("statsmodels", "difference adjusted by what was known before (OLS)"): _adjusted,
    ("statsmodels", "ratio of two sums and its variance (WLS, HC0)"): _ratio,
    ("statsmodels", "power for a rate"): _rate_power,
    ("statsmodels", "rates of few: centre and error (Agresti and Caffo)"): _agresti_caffo,
    ("obp", "IPS, SNIPS, DR"): _off_policy,
}


def lines(repetitions: int) -> Iterator[str]:
    """The study as text."""
    there = versions()
    yield "Versions: " + ", ".join(f"{name} {version}" for name, version in there.items())
    if absent := [name for name in LIBRARIES if name not in there]:
        yield f"Not installed, so not compared: {', '.join(absent)}. ./run bench installs them."
    for one in study(repetitions):
        state = "" if one.largest <= SAME else "  DIFFERS"
        yield f"  {one.library:14} {one.figure:54} {one.largest:8.1e} of {one.compared:,} data sets{state}"
