"""What caps cost in learning: TS-IP against a learner that acts without caps while its consumer keeps them.

The benchmark also compares cap settings: the gap is the part of a setting's cost that is paid in knowledge,
which a single batch cannot show.
"""

from dataclasses import dataclass, replace

import numpy as np

from disco.records.estimate import Estimate
from disco.views.charts import Axis, CurveChart, IntervalChart, IntervalRow, Line
from disco.views.formats import Count, Number
from disco.views.table import Column, Table
from studies.item import Check, Claim, Facts, Item, Prose, Sample
from studies.lab import Lab
from studies.policies import SHARE, words
from studies.readings import NARROW, READINGS, DepthReading
from studies.simulation import RANDOM, THOMPSON, ULCC, WARM, Games, Gap, Request, Runs, gap, main_rules, play
from studies.stage import Stage

PAPER_GAP = 0.00234
CLOSE = 0.001
POLICIES = (RANDOM, THOMPSON, ULCC)
#: Shares of a batch per depth, shallow to deep, beside a third each.
OTHER_SETTINGS = {
    "60 / 30 / 10%": (0.6, 0.3, 0.1),
    "10 / 30 / 60%": (0.1, 0.3, 0.6),
    "30 / 20 / 10%, the rest none": (0.3, 0.2, 0.1),
}
_P = Number(decimals=3)


@dataclass(frozen=True, slots=True)
class Gaps:
    """TS-ULCC against TS-IP by environment: on basket value and on the objective."""

    basket: tuple[Gap, ...]
    objective: tuple[Gap, ...]

    @classmethod
    def of(cls, games: Games, reading: DepthReading) -> "Gaps":
        def pair(stage: Stage) -> tuple[Runs, Runs]:
            return games.of(stage, ULCC, reading=reading), games.of(stage, THOMPSON, reading=reading)

        pairs = [pair(stage) for stage in games.stages]
        return cls(
            tuple(gap(free.basket_value_by_batch, capped.basket_value_by_batch) for free, capped in pairs),
            tuple(gap(free.objective_by_batch, capped.objective_by_batch) for free, capped in pairs),
        )

    @property
    def overall(self) -> Sample:
        return Sample.of([found.overall.mean for found in self.basket])

    @property
    def growth(self) -> Sample:
        return Sample.of([found.last_half.mean - found.first_half.mean for found in self.basket])

    @property
    def of_objective(self) -> Sample:
        return Sample.of([found.overall.mean for found in self.objective])


def run(lab: Lab) -> Item:
    rules = main_rules(lab)
    games, *others = play(
        lab,
        Request(start=WARM, rules=rules, readings=tuple(READINGS.values()), policies=POLICIES),
        *(
            Request(start=WARM, rules=replace(rules, caps=_caps(shares, rules.batch)), policies=POLICIES)
            for shares in OTHER_SETTINGS.values()
        ),
        named="ulcc",
    )
    by_setting = {
        "a third each": Gaps.of(games, NARROW),
        **{name: Gaps.of(played, NARROW) for name, played in zip(OTHER_SETTINGS, others, strict=True)},
    }
    gaps = {reading.name: Gaps.of(games, reading) for reading in READINGS.values()}
    main = gaps[NARROW.name]
    return Item(
        key="ulcc",
        title="What caps cost in learning (TS-ULCC)",
        paper="Warm start: over 100 batches TS-IP's basket value is 0.234% below TS-ULCC's (t-test, p < 0.001); the "
        "gap in the first fifty batches does not differ from that in the last fifty (t-test, p > 0.05).",
        checks=tuple(check for reading, found in gaps.items() for check in _checks(found, reading)),
        prose=PROSE,
        facts=_facts(main, by_setting),
        charts=(_series(games), _settings_chart(by_setting)),
        tables=(_tests(games, main), _settings_table(by_setting), _readings(gaps)),
    )


def _caps(shares: tuple[float, ...], customers: int) -> tuple[int, ...]:
    return tuple(int(share * customers + 1e-9) for share in shares)


def _checks(gaps: Gaps, reading: str) -> list[Check]:
    growth = gaps.growth
    below_ulcc, of_paper_size, under_one = (
        claim.check(gaps.overall, reading=reading)
        for claim in (
            Claim("TS-IP is below TS-ULCC", "0.234%, p < 0.001", SHARE, above=0.0),
            Claim("the gap is of the paper's size", PAPER_GAP, SHARE, within=CLOSE),
            Claim("TS-IP is less than one per cent below TS-ULCC", "below 1%", SHARE, below=0.01),
        )
    )
    # the paper's own test: it does not reject that both halves are equal
    no_growth = Check(
        claim="no growth of the gap shows from the first half to the last",
        paper="no difference, p > 0.05",
        ours=growth,
        unit=SHARE,
        rule="interval of last half minus first half reaches 0 or below",
        holds=growth.half_width is not None and growth.interval[0] <= 0,
        is_open=growth.half_width is None,
        reading=reading,
    )
    return [below_ulcc, of_paper_size, no_growth, under_one]


def _tests(games: Games, main: Gaps) -> Table:
    rows: list[list[str | float | Estimate | None]] = []
    for stage, found in zip(games.stages, main.basket, strict=True):
        repeats = len(games.of(stage, THOMPSON).figures)
        rows.append(
            [
                stage.name,
                float(repeats),
                found.overall.estimate(),
                found.p_overall,
                found.first_half.mean,
                found.last_half.mean,
                found.p_halves,
            ]
        )
    return Table(
        caption="TS-IP below TS-ULCC, environment by environment",
        columns=[
            "environment",
            Column("repeats", Count()),
            Column("gap", SHARE),
            Column("p: no gap", _P),
            Column("first half", SHARE),
            Column("last half", SHARE),
            Column("p: equal halves", _P),
        ],
        rows=rows,
        note="Basket value, paired by repeat; t-tests and 95% intervals over repeats within an environment. Negative: "
        "TS-IP is the better one.",
    )


def _series(games: Games) -> CurveChart:
    free, capped = games.of(games.main, ULCC), games.of(games.main, THOMPSON)
    by_batch = (1 - capped.basket_value_by_batch / free.basket_value_by_batch).mean(axis=0)
    parts = np.array_split(np.arange(by_batch.size), min(20, by_batch.size))
    found = gap(free.basket_value_by_batch, capped.basket_value_by_batch)
    side = "below" if found.overall.mean > 0 else "above"
    return CurveChart(
        title=f"In one environment TS-IP is {100 * abs(found.overall.mean):.2f}% {side} the learner without caps"
        if found.p_overall is not None and found.p_overall < 0.05
        else "In one environment no clear gap between TS-IP and the learner without caps",
        subtitle=f"Gap in basket value; {games.main.name}, γ = 20, warm start, mean of {len(free.figures)} repeats",
        x=Axis("Batch", Count()),
        y=Axis("TS-IP below TS-ULCC", SHARE),
        lines=[
            Line("gap", [float(part.mean() + 1) for part in parts], [float(by_batch[part].mean()) for part in parts]),
            Line("the paper's 0.234%", [1.0, float(by_batch.size)], [PAPER_GAP, PAPER_GAP], muted=True),
        ],
    )


def _settings_chart(by_setting: dict[str, Gaps]) -> IntervalChart:
    costs = {name: gaps.of_objective for name, gaps in by_setting.items()}
    clear = {name: cost.mean for name, cost in costs.items() if cost.is_clear and cost.mean > 0}
    dearest = max(clear, key=lambda name: clear[name], default=None)
    return IntervalChart(
        title="Under no cap setting is there a clear cost in learning"
        if dearest is None
        else f"Of four cap settings, {dearest} costs most in learning: {100 * clear[dearest]:+.2f}% of the objective",
        subtitle="TS-IP below TS-ULCC under the same caps, warm start, γ = 20",
        x=Axis("Objective below TS-ULCC's", SHARE),
        rows=[IntervalRow(name, gaps.of_objective.estimate()) for name, gaps in by_setting.items()],
        interval="95% interval over environments",
    )


def _settings_table(by_setting: dict[str, Gaps]) -> Table:
    return Table(
        caption="What caps cost in learning, by cap setting",
        columns=["codes, shallow to deep", Column("basket value", SHARE), Column("objective", SHARE)],
        rows=[[name, gaps.overall.estimate(), gaps.of_objective.estimate()] for name, gaps in by_setting.items()],
        note="By which share TS-IP is below TS-ULCC under the same caps: what lifting the caps for learning alone "
        "would bring. It is not what the caps themselves cost. Warm start; 95% intervals over environments.",
    )


def _readings(gaps: dict[str, Gaps]) -> Table:
    return Table(
        caption="TS-IP below TS-ULCC by encoding of the depths",
        columns=[
            "reading",
            Column("basket value", SHARE),
            Column("last half − first", SHARE),
            Column("objective", SHARE),
        ],
        rows=[
            [name, found.overall.estimate(), found.growth.estimate(), found.of_objective.estimate()]
            for name, found in gaps.items()
        ],
        note="95% intervals over environments.",
    )


PROSE: Prose = (
    ("agree", "The gap in basket value is {gap}, and all environments agree on the side."),
    ("disagree", "The gap in basket value is {gap}, and environments disagree on the side."),
    "A learner without caps plays the depths that it finds best, while caps make TS-IP play every depth, so caps need "
    "not slow learning. Engagement is learned too, one rate per depth, from the customers chosen for that depth; with "
    "and without caps different customers are chosen, so the rates differ as well. On the objective the gap is "
    "{objective}. By cap setting, on the objective: {settings}.",
)


def _facts(main: Gaps, by_setting: dict[str, Gaps]) -> Facts:
    agree = len({found.overall.mean > 0 for found in main.basket}) == 1
    return {
        "gap": words(main.overall),
        "agree": agree,
        "disagree": not agree,
        "objective": words(main.of_objective),
        "settings": "; ".join(f"{name}: {words(found.of_objective)}" for name, found in by_setting.items()),
    }
