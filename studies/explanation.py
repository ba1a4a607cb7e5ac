"""What explains the bandit results: where regret comes from, and what head, curve and policy are worth.

Of this, the paper has only the claim that exploring pays. Regret is split by a ladder of decision
makers, `studies.ladder`: each knows or may do less than the one above it. There is one shop per
environment and response shape. Each is the paper's in all but the shape, which is this study's parameter (`CONCAVE` is
the frozen default), with customers, orders and campaigns of its own, and networks trained on its own orders.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from disco.features import FEATURES
from disco.features.rows import table_matrix
from disco.policy import Greedy, Random, Thompson
from disco.records.arrays import Floats
from disco.records.estimate import Estimate
from disco.retailer.settings import Shape
from disco.views.charts import Axis, BarChart, Bars, IntervalChart, IntervalRow
from disco.views.formats import Percent
from disco.views.table import Column, Table
from studies.cache import Arrays
from studies.environment import (
    LEVEL,
    PAST_CAMPAIGNS,
    PLAYED_CAMPAIGN,
    REVENUE_WEIGHT,
    SLOPE,
    ContextRecipe,
    Environment,
    StudyShop,
    equal_caps,
    open_shop,
)
from studies.item import Claim, Facts, Item, Prose, Sample
from studies.lab import Lab, ReproductionSettings, RunSize
from studies.ladder import (
    FILLED,
    LOSSES,
    SCARCE,
    SCARCE_SHARES,
    Beyond,
    Rung,
    Yardstick,
    caps_of,
    rungs_of_knowledge,
    rungs_of_learning,
)
from studies.policies import SHARE, words
from studies.readings import NARROW, SPLINE, DepthReading
from studies.simulation import COLD, WARM, Player, Rules, Runs, objective_uplift, simulate, starting_belief
from studies.stage import Stage, stage_of_shop

SHAPES = (Shape.CONCAVE, Shape.S_SHAPED, Shape.THRESHOLD)
HEADS = {"level": LEVEL, "level+slope": SLOPE}
MODELS: tuple[DepthReading, ...] = (NARROW, SPLINE)
POLICIES: tuple[Player, ...] = (Greedy(), Thompson(exploration=1.0))
PAST_SHARES = (0.03, 0.15, 1.0)  # of the codes of campaigns A and B
DIMENSIONS = (4, 6, 8)  # the paper: six, and much the same with two more or less
EXPLORATION = (0.0, 0.3, 1.0, 3.0)
SLACK = "slack caps"
REGIMES = (FILLED, SCARCE)  # of the ladder
SITUATIONS = tuple(product(("warm", "cold"), (FILLED, SLACK)))
_CONTEXT, _LEARNED = list(Rung).index(Rung.CONTEXT), list(Rung).index(Rung.LEARNED)
#: Main effects, second minus first along an axis of `worth` (situations, heads, models, policies).
FACTORS = {"slope head": 1, "spline": 2, "Thompson sampling": 3}
_FACTOR_WORDS = {
    "slope head": "slope head instead of level head",
    "spline": "spline instead of γ = 20",
    "Thompson sampling": "Thompson instead of greedy",
}
_REGIME_WORDS = {
    FILLED: "everybody gets a code, a third of the customers each depth",
    SCARCE: "codes for "
    + ", ".join(f"{share:.0%}" for share in SCARCE_SHARES)
    + " of the customers, from the shallowest depth to the deepest",
}
_EVERYWHERE = "all shapes"
ByShape = Mapping[str, list[Arrays]]
Figure = Callable[[Arrays], float]
Row = list[str | float | Estimate | None]


# ---- what is measured ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much of it."""

    customers: int
    max_epochs: int
    batches: int
    batch: int
    repeats: int


AMOUNTS = {
    RunSize.TINY: Amount(customers=900, max_epochs=1, batches=1, batch=200, repeats=1),
    RunSize.QUICK: Amount(customers=4_000, max_epochs=5, batches=5, batch=2_000, repeats=1),
    RunSize.FULL: Amount(customers=20_000, max_epochs=40, batches=100, batch=5_000, repeats=2),
}


def concave(environment: Environment, settings: ReproductionSettings) -> Arrays:
    return _explained(environment, settings, Shape.CONCAVE)


def s_shaped(environment: Environment, settings: ReproductionSettings) -> Arrays:
    return _explained(environment, settings, Shape.S_SHAPED)


def threshold(environment: Environment, settings: ReproductionSettings) -> Arrays:
    return _explained(environment, settings, Shape.THRESHOLD)


def _explained(environment: Environment, settings: ReproductionSettings, shape: Shape) -> Arrays:
    """Shares above random allocation, of the objective throughout.

    - ladder (regimes, heads, models, rungs)
    - past (shares of the past,): LEARNED after that much of it
    - dimensions (sizes, 2): CONTEXT and LEARNED
    - exploration (warm and cold, scales of Thompson)
    - worth (situations, heads, models, policies)

    The middle three are those of the paper's head and γ = 20.
    """
    amount = AMOUNTS[settings.size]
    retailer = replace(
        environment.retailer,
        customers=amount.customers,
        curves=replace(environment.retailer.curves, shape=shape),
    )
    shop = open_shop(retailer, campaigns=(*PAST_CAMPAIGNS, PLAYED_CAMPAIGN))

    def stage(context: ContextRecipe) -> Stage:
        network = context.fit(shop.training, seed=retailer.seed, max_epochs=amount.max_epochs)
        return stage_of_shop(shop, network)

    stages = [stage(head) for head in HEADS.values()]
    beyond = _beyond(shop, stages)
    ladders = np.array([[_ladder(each, beyond, regime=regime) for each in stages] for regime in REGIMES])
    sizes = {
        size: _ladder(stage(replace(LEVEL, dimensions=size)), beyond, models=(NARROW,))
        for size in DIMENSIONS
        if size != LEVEL.dimensions
    }
    sizes[LEVEL.dimensions] = ladders[0, 0].tolist()
    return {
        "ladder": ladders,
        "past": np.array([_learned(stages[0], share=share) for share in PAST_SHARES]),
        "dimensions": np.array([[sizes[size][0][rung] for rung in (_CONTEXT, _LEARNED)] for size in DIMENSIONS]),
        "exploration": _exploration(stages[0], amount),
        "worth": np.array([_gains(stages, amount, start, caps) for start, caps in SITUATIONS]),
    }


def _yardstick(stage: Stage, *, regime: str = FILLED) -> Yardstick:
    caps = caps_of(regime, customers=len(stage.context), depths=len(stage.law.depths))
    return Yardstick.of(stage, caps=caps, revenue_weight=REVENUE_WEIGHT)


def _beyond(shop: StudyShop, stages: list[Stage]) -> Beyond:
    """What the stages' customers are worth to those who know their habits, or all their features."""
    played = next(run for run in shop.campaigns if run.campaign.name == PLAYED_CAMPAIGN)
    customers, campaign = played.features.filter(played.known), played.campaign
    return Beyond.of(
        _yardstick(stages[0]),
        spending=shop.retailer.spending_given_habits(
            customers["customer_id"].to_numpy(), campaign.depths, channel=str(campaign.channel)
        ),
        features=table_matrix(customers, tuple(feature.name for feature in FEATURES)),
        contexts=[stage.context for stage in stages],
    )


def _ladder(
    stage: Stage, beyond: Beyond, *, regime: str = FILLED, models: tuple[DepthReading, ...] = MODELS
) -> list[list[float]]:
    """(models, rungs)."""
    yardstick = _yardstick(stage, regime=regime)
    known = rungs_of_knowledge(yardstick, beyond)
    rows = []
    for reading in models:
        belief = starting_belief(stage, reading, codes=WARM)
        found = {**known, **rungs_of_learning(yardstick, reading, belief, Thompson(exploration=1.0))}
        rows.append([found[rung] for rung in Rung])
    return rows


def _learned(stage: Stage, *, share: float) -> float:
    belief = starting_belief(stage, NARROW, codes=int(share * stage.past.depth.size))
    return rungs_of_learning(_yardstick(stage), NARROW, belief, Thompson(exploration=1.0))[Rung.LEARNED]


def _rules(stage: Stage, amount: Amount, caps: str) -> Rules:
    depths = len(stage.law.depths)
    return Rules(
        batches=amount.batches,
        batch=amount.batch,
        caps=equal_caps(customers=amount.batch, depths=depths) if caps == FILLED else (None,) * depths,
        revenue_weight=REVENUE_WEIGHT,
    )


def _runs(stage: Stage, reading: DepthReading, player: Player, rules: Rules, *, start: str, repeats: int) -> Runs:
    belief = starting_belief(stage, reading, codes=WARM if start == "warm" else COLD)
    runs = [simulate(stage, player, reading=reading, start=belief, rules=rules, repeat=each) for each in range(repeats)]
    return Runs(np.stack(runs), rules.revenue_weight)


def _exploration(stage: Stage, amount: Amount) -> Floats:
    rules = _rules(stage, amount, FILLED)
    found = np.empty((2, len(EXPLORATION)))
    for row, start in enumerate(("warm", "cold")):
        random = _runs(stage, NARROW, Random(), rules, start=start, repeats=amount.repeats)
        for column, scale in enumerate(EXPLORATION):
            player = Thompson(exploration=scale)
            runs = _runs(stage, NARROW, player, rules, start=start, repeats=amount.repeats)
            found[row, column] = objective_uplift(runs, random).mean()
    return found


def _gains(stages: list[Stage], amount: Amount, start: str, caps: str) -> Floats:
    """(heads, models, policies) of objective above Random in one situation, paired: the same customers throughout."""
    rules = _rules(stages[0], amount, caps)
    random = _runs(stages[0], NARROW, Random(), rules, start=start, repeats=amount.repeats)
    found = np.empty((len(stages), len(MODELS), len(POLICIES)))
    for place in np.ndindex(*found.shape):
        head, model, policy = place
        runs = _runs(stages[head], MODELS[model], POLICIES[policy], rules, start=start, repeats=amount.repeats)
        found[place] = objective_uplift(runs, random).mean()
    return found


# ---- the item ------------------------------------------------------------------------------------------------------


def run(lab: Lab) -> Item:
    measured: ByShape = {
        shape: lab.measure(measure) for shape, measure in zip(SHAPES, (concave, s_shaped, threshold), strict=True)
    }
    return Item(
        key="explanation",
        title="What explains the bandit results",
        paper="That exploring pays: TS-IP above Greedy-IP from a warm and from a cold start. (It also says that two "
        "dimensions of the context more or less change little; a table below varies them.) The rest of this item goes "
        "beyond the paper.",
        checks=tuple(
            Claim(
                f"Thompson earns more than greedy from a {start} start", "TS-IP above Greedy-IP", SHARE, above=0.0
            ).check(_worth(measured, _EVERYWHERE, "Thompson sampling", (start, FILLED)))
            for start in ("warm", "cold")
        ),
        prose=PROSE,
        facts=_facts(measured, AMOUNTS[lab.settings.size]),
        charts=(
            *(_losses_chart(measured, regime) for regime in REGIMES),
            _worth_chart(measured, FILLED),
            _worth_chart(measured, SLACK),
        ),
        tables=(
            *(
                _ladder_table(measured, regime, head=place, model=0)
                for regime in REGIMES
                for place in range(len(HEADS))
            ),
            _worth_table(measured),
            _varied_table(measured),
        ),
    )


def _at(name: str, *place: int) -> Figure:
    return lambda shop: float(shop[name][place])


def _cells(measured: ByShape, shape: str, figure: Figure) -> Sample:
    """The figure over the environments: of one shape, or the mean of all shapes in each environment.

    Shops of one environment share its seed whatever their shape, so they are not independent pieces of evidence.
    """
    chosen = [shops for name, shops in measured.items() if shape in (name, _EVERYWHERE)]
    return Sample.of([float(np.mean([figure(shop) for shop in alike])) for alike in zip(*chosen, strict=True)])


def _rung(rung: Rung, *, regime: str = FILLED, head: int = 0, model: int = 0) -> Figure:
    return _at("ladder", REGIMES.index(regime), head, model, list(Rung).index(rung))


def _loss(measured: ByShape, shape: str, loss: str, *, regime: str = FILLED, head: int = 0, model: int = 0) -> Sample:
    upper, lower = (_rung(rung, regime=regime, head=head, model=model) for rung in LOSSES[loss])
    return _cells(measured, shape, lambda shop: upper(shop) - lower(shop))


def _worth(measured: ByShape, shape: str, factor: str, situation: tuple[str, str]) -> Sample:
    """A factor's main effect: the mean over the settings of the other two."""
    place, axis = SITUATIONS.index(situation), FACTORS[factor]

    def effect(shop: Arrays) -> float:
        by_setting: Floats = np.diff(shop["worth"][place], axis=axis - 1)
        return float(by_setting.mean())

    return _cells(measured, shape, effect)


def _losses_chart(measured: ByShape, regime: str) -> BarChart:
    cells = {shape: [_loss(measured, shape, loss, regime=regime) for loss in LOSSES] for shape in SHAPES}
    everywhere = {loss: _loss(measured, _EVERYWHERE, loss, regime=regime).mean for loss in LOSSES}
    del everywhere["constraint"]
    most = max(everywhere, key=lambda loss: everywhere[loss])
    estimates = {shape: [cell.estimate() for cell in row] for shape, row in cells.items()}
    wide = all(estimate.ends is not None for row in estimates.values() for estimate in row)
    return BarChart(
        title=f"{regime.capitalize()}: beyond the caps themselves, the largest loss is {most}, "
        f"{100 * everywhere[most]:.2f} points",
        subtitle="Objective lost from one decision maker to the next, of random allocation's; warm start, γ = 20, "
        f"context with {next(iter(HEADS))}, one engagement rate per depth",
        categories=list(LOSSES),
        y=Axis("Lost", Percent(decimals=1, signed=True)),
        bars=[
            Bars(
                str(shape),
                [estimate.value for estimate in row],
                [estimate.ends[0] for estimate in row if estimate.ends] if wide else None,
                [estimate.ends[1] for estimate in row if estimate.ends] if wide else None,
            )
            for shape, row in estimates.items()
        ],
        interval="95% interval over environments" if wide else "",
    )


def _worth_chart(measured: ByShape, caps: str) -> IntervalChart:
    rows = {
        f"{_FACTOR_WORDS[factor]}, {start}": _worth(measured, _EVERYWHERE, factor, (start, caps))
        for factor in FACTORS
        for start in ("warm", "cold")
    }
    clear = [name for name, cell in rows.items() if cell.is_clear]
    finding = (
        f"{len(clear)} of {len(rows)} choices make a clear difference"
        if clear
        else "no choice makes a clear difference"
    )
    return IntervalChart(
        title=f"{caps.capitalize()}: {finding}",
        subtitle="Objective gained by a choice, points of Random's, mean of three response shapes",
        x=Axis("Gained", SHARE),
        rows=[IntervalRow(name, cell.estimate()) for name, cell in rows.items()],
        interval="95% interval over environments",
    )


def _row(measured: ByShape, figure: Figure) -> list[Estimate]:
    return [_cells(measured, shape, figure).estimate() for shape in (*SHAPES, _EVERYWHERE)]


def _columns() -> list[Column]:
    return [*(Column(str(shape), SHARE) for shape in SHAPES), Column(_EVERYWHERE, SHARE)]


def _ladder_table(measured: ByShape, regime: str, *, head: int, model: int) -> Table:
    def loss_row(loss: str) -> list[Estimate]:
        return [
            _loss(measured, shape, loss, regime=regime, head=head, model=model).estimate()
            for shape in (*SHAPES, _EVERYWHERE)
        ]

    reached: list[Row] = [[rung, *_row(measured, _rung(rung, regime=regime, head=head, model=model))] for rung in Rung]
    lost: list[Row] = [[f"lost: {loss}", *loss_row(loss)] for loss in LOSSES]
    return Table(
        caption=f"From the oracle to the decision: {regime}, context with {list(HEADS)[head]}, {MODELS[model].name}",
        columns=["decision maker", *_columns()],
        rows=[*reached, *lost],
        note="Expected objective above random allocation with as many codes per depth, all customers decided at once "
        f"after campaigns A and B; {_REGIME_WORDS[regime]}. What is learned has one engagement rate per depth, as in "
        "the paper. Each loss is a row minus the next. 95% intervals over environments.",
    )


def _worth_table(measured: ByShape) -> Table:
    return Table(
        caption="What the choices are worth",
        columns=["choice", "start", "caps", *_columns()],
        rows=[
            [
                _FACTOR_WORDS[factor],
                start,
                caps,
                *(_worth(measured, shape, factor, (start, caps)).estimate() for shape in (*SHAPES, _EVERYWHERE)),
            ]
            for factor in FACTORS
            for start, caps in SITUATIONS
        ],
        note="Points of Random's objective over all batches, the mean over both settings of the other two choices. "
        "Slack: no depth is limited, so depth mixes differ and only the objective can be compared. 95% intervals over "
        "environments.",
    )


def _varied_table(measured: ByShape) -> Table:
    rows: list[Row] = [
        ["past codes", f"{share:.0%}", *_row(measured, _at("past", place))] for place, share in enumerate(PAST_SHARES)
    ]
    rows += [
        [f"dimensions, {maker}", str(size), *_row(measured, _at("dimensions", place, column))]
        for column, maker in enumerate(("best given the context", "learned"))
        for place, size in enumerate(DIMENSIONS)
    ]
    rows += [
        [f"exploration, {start} start", f"{scale:g}", *_row(measured, _at("exploration", place, column))]
        for place, start in enumerate(("warm", "cold"))
        for column, scale in enumerate(EXPLORATION)
    ]
    return Table(
        caption="One thing varied at a time",
        columns=["varied", "value", *_columns()],
        rows=rows,
        note="Objective above random allocation. Past codes and dimensions: one decision for all customers by the "
        "median of what was learned; exploration: over all batches, Thompson with that multiple of the noise (0 is "
        "greedy). "
        "Level head, γ = 20, filled caps. 95% intervals over environments.",
    )


PROSE: Prose = (
    "Under filled caps an oracle earns {oracle} more than random allocation, the system {system} after two random "
    "campaigns. The difference: {losses}. The caps themselves cost the oracle {constraint}. Choices, with filled caps: "
    "{choices}.",
    (
        "small",
        "The differences between policies are small compared with what no table tells about a customer, which we think "
        "is why their order depends on the environment.",
    ),
    "Shops of {customers} customers each, trained and played for this item alone; policies had {runs} of {batches} "
    "batches with {batch} customers.",
)


def _facts(measured: ByShape, amount: Amount) -> Facts:
    losses = {loss: _loss(measured, _EVERYWHERE, loss) for loss in LOSSES}
    worth = {
        (factor, start): _worth(measured, _EVERYWHERE, factor, (start, FILLED))
        for factor in FACTORS
        for start in ("warm", "cold")
    }
    largest = max(abs(worth["Thompson sampling", start].mean) for start in ("warm", "cold"))
    return {
        "oracle": words(_cells(measured, _EVERYWHERE, _rung(Rung.ORACLE))),
        "system": words(_cells(measured, _EVERYWHERE, _rung(Rung.DECIDED))),
        "losses": ", ".join(f"{loss} {words(cell)}" for loss, cell in losses.items() if loss != "constraint"),
        "constraint": words(losses["constraint"]),
        "choices": "; ".join(
            f"{_FACTOR_WORDS[factor]} {words(worth[factor, 'warm'])} warm and {words(worth[factor, 'cold'])} cold"
            for factor in FACTORS
        ),
        "small": largest < losses["private"].mean + losses["tables"].mean,
        "customers": f"{amount.customers:,}",
        "runs": f"{amount.repeats:,} run{'' if amount.repeats == 1 else 's'}",
        "batches": f"{amount.batches:,}",
        "batch": f"{amount.batch:,}",
    }
