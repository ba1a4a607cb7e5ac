"""A/B tests: every interval of `disco results` and of `disco ab`, with a true difference, and looks before the end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from disco.evaluation.read_out import MetricColumns, ab_test, experiment

from .tally import Row, Tally
from .world import TAILS

CUSTOMERS = 6000
SHARES = {"decided": 0.5, "control": 0.3, "holdout": 0.2}
RATES = {"decided": 0.22, "control": 0.18, "holdout": 0.12}  # who buys: with a code, with a random one, without any
LIFT = {"decided": 1.10, "control": 1.0, "holdout": 1.0}  # of the basket
DEPTH = {"decided": 0.1, "control": 0.2, "holdout": 0.0}
SPREAD = 0.1  # control has its depth, and as often one more or one less by this, at random
FEW = {"decided": (400, 0.015), "control": (300, 0.01)}  # customers and the rate at which they buy, in tests of few
WEIGHT = 3.0
LEVEL = 40.0  # mean full price of control
LOOKS = 5


FEW_SHARES = {arm: float(size) for arm, (size, _) in FEW.items()}


class Campaign:
    """Customers who spend more the more they spent before; baskets lognormal with mean LEVEL in control."""

    def __init__(self, rng: np.random.Generator, noise_sd: float, *, null: bool = False) -> None:
        self.arm = rng.choice(list(SHARES), CUSTOMERS, p=list(SHARES.values()))
        self.before = rng.lognormal(0.0, 0.8, CUSTOMERS)
        rate, lift = (np.array([table["control" if null else arm] for arm in self.arm]) for table in (RATES, LIFT))
        habit = self.before**0.4 / np.exp(0.4**2 * 0.8**2 / 2)  # its mean is 1
        self.buys = rng.random(CUSTOMERS) < np.minimum(rate * habit, 1.0)
        noise = rng.lognormal(-(noise_sd**2) / 2, noise_sd, CUSTOMERS)
        self.price = np.where(self.buys, LEVEL * lift * habit * noise, 0.0)
        self.depth = np.array([DEPTH["control" if null else arm] for arm in self.arm])
        if not null:
            moved = rng.integers(-1, 2, CUSTOMERS) * SPREAD
            self.depth = np.where(self.arm == "control", (self.depth + moved).round(2), self.depth)
        self.other = np.where(rng.random(CUSTOMERS) < 0.05, LEVEL * rng.lognormal(0, 0.6, CUSTOMERS), 0.0)


def truths(noise_sd: float, *, points: int = 20_001) -> dict[str, dict[str, float]]:
    """By arm: expected rate, revenue, reward, objective and spend before, over a fine grid of what is known before."""
    z = np.linspace(-7, 7, points)
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()
    habit = np.exp(0.8 * z) ** 0.4 / np.exp(0.4**2 * 0.8**2 / 2)
    found = {}
    for arm, rate in RATES.items():
        chance = np.minimum(rate * habit, 1.0)
        price = float(weight @ (chance * LEVEL * LIFT[arm] * habit))  # the noise has mean 1
        revenue, markdown = price * (1 - DEPTH[arm]), price * DEPTH[arm]
        found[arm] = {
            "engagement": float(weight @ chance),
            "revenue": revenue,
            "reward": revenue - markdown,
            "objective": WEIGHT * revenue - markdown,
        }
    return found


def study(tests: int, *, seed: int = 3) -> Iterator[Row]:
    for tail, noise_sd in TAILS.items():
        rng, true = np.random.default_rng(seed), truths(noise_sd)
        results, own = Tally("results", tail), Tally("disco ab", tail)
        few = Tally("disco ab", f"{tail}, rates of few", highest=1.0)
        for _ in range(tests):
            made = Campaign(rng, noise_sd)
            _count_results(results, made, true)
            _count_own(own, made, true)
            _count_few(few, rng)
        yield from (*results.rows(), *own.rows(), *few.rows(), *_looks(tests, noise_sd, tail, seed=seed))


def _count_results(tally: Tally, made: Campaign, true: dict[str, dict[str, float]]) -> None:
    """What `disco results` prints of a campaign with control and holdout."""
    coded = made.arm != "holdout"
    found = ab_test(
        made.arm,
        np.where(coded, made.depth, np.nan),
        np.where(coded & (made.price > 0), made.price, np.nan),
        revenue_weight=WEIGHT,
        before=made.before,
        other_revenue=made.other + np.where(coded, 0.0, made.price),
        shares=SHARES,
    )
    decided, control = true["decided"], true["control"]
    for metric in ("revenue", "reward", "objective", "engagement"):
        finding = found.finding(metric)
        for name, used in (("", finding.comparison), (", adjusted", finding.adjusted and finding.adjusted.comparison)):
            if used is None:
                continue
            tally.covers(f"{metric}, difference{name}", used.difference, decided[metric] - control[metric])
            tally.covers(f"{metric}, ratio{name}", used.relative, decided[metric] / control[metric] - 1)
    baskets = [true[arm]["revenue"] / true[arm]["engagement"] for arm in ("decided", "control")]
    per = found.finding("revenue", "purchaser").comparison
    tally.covers("revenue per purchaser, difference", per.difference, baskets[0] - baskets[1])
    for depth, findings in found.undifferentiated.items():
        price = control["revenue"] / (1 - DEPTH["control"])
        worth = price * (WEIGHT * (1 - depth) - depth)
        against = next(one for one in findings if one.metric == "objective").decisive
        tally.covers(f"objective against everybody {depth:.0%}", against.difference, decided["objective"] - worth)
    other = 0.05 * LEVEL * np.exp(0.6**2 / 2)
    for arm in ("decided", "control"):
        gain, unit = true[arm]["revenue"] - true["holdout"]["revenue"], true["holdout"]["revenue"] + other
        for name, used in (("", found.incremental[arm]), (", adjusted", found.incremental_adjusted[arm].comparison)):
            tally.covers(f"incremental, {arm}, difference{name}", used.difference, gain)
            tally.covers(f"incremental, {arm}, ratio{name}", used.relative, gain / unit)


def _count_own(tally: Tally, made: Campaign, true: dict[str, dict[str, float]]) -> None:
    """What `disco ab` prints: a mean, a rate and a ratio of two sums, plain and adjusted."""
    paid = made.price * (1 - made.depth)
    bought = made.buys.astype(float)
    metrics = [
        MetricColumns(name="revenue", numerator=paid),
        MetricColumns(name="bought", numerator=bought),
        MetricColumns(name="revenue/orders", numerator=paid, denominator=bought),
    ]
    figures = {
        "revenue": {arm: one["revenue"] for arm, one in true.items()},
        "bought": {arm: one["engagement"] for arm, one in true.items()},
        "revenue/orders": {arm: one["revenue"] / one["engagement"] for arm, one in true.items()},
    }
    for kind, before in (("", None), (", adjusted", made.before)):
        for one in experiment(made.arm, metrics, before=before, shares=SHARES).differences:
            if one.arm == "decided":
                value, unit = figures[one.metric]["decided"], figures[one.metric]["control"]
                tally.covers(f"{one.metric}, difference{kind}", one.difference, value - unit)
                tally.covers(f"{one.metric}, ratio{kind}", one.relative, value / unit - 1)


def _count_few(tally: Tally, rng: np.random.Generator) -> None:
    """Rates with a handful of successes; added ones make their intervals rather too wide."""
    sizes = [size for size, _ in FEW.values()]
    bought = np.concatenate([rng.random(size) < rate for size, rate in FEW.values()]).astype(float)
    found = experiment(np.repeat(list(FEW), sizes), [MetricColumns(name="bought", numerator=bought)], shares=FEW_SHARES)
    (_, rate), (_, unit) = FEW.values()
    tally.covers("bought, difference", found.differences[0].difference, rate - unit)


def _looks(tests: int, noise_sd: float, tail: str, *, seed: int) -> list[Row]:
    """Arms alike, looked at five times as customers arrive: tests in which any look excluded 0."""
    rng = np.random.default_rng(seed)
    tally = Tally("disco ab", f"{tail}, {LOOKS} looks, arms alike", lowest=0.0, highest=0.05)
    for _ in range(tests):
        made = Campaign(rng, noise_sd, null=True)
        paid, wrong = made.price * (1 - made.depth), {"with --looks": False, "without (why it is there)": False}
        for look in range(1, LOOKS + 1):
            seen = slice(0, CUSTOMERS * look // LOOKS)
            metric = [MetricColumns(name="revenue", numerator=paid[seen])]
            for name, looks in (("with --looks", LOOKS), ("without (why it is there)", 1)):
                found = experiment(made.arm[seen], metric, shares=SHARES, looks=looks).differences
                one = next(difference for difference in found if difference.arm == "decided")
                wrong[name] |= not one.difference.covers(0.0)
        for name, event in wrong.items():
            tally.add(f"revenue, any look excludes 0, {name}", event)
    return tally.rows()
