"""The calibration of the simulated retailer, and what contexts are worth on it: the page docs/calibration.md.

    ./run reproduce calibration [--quick] [--page FILE] [--figures FILE]

The retailer's settings are the defaults, frozen before any of this was measured.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path

import numpy as np

from disco.belief import BasketModel, Engagement, SmoothSpline
from disco.campaign import Belief, decide, learn
from disco.evaluation.accuracy import Accuracy, Judgement, accuracy, judge
from disco.features import ContextNetwork
from disco.policy import Thompson
from disco.records.arrays import Matrix, Vector
from disco.records.decisions import Audience, Offer
from disco.records.files import written_whole
from disco.retailer import RetailerSettings
from studies.baselines import (
    LEAST_SQUARES,
    LIGHT_GBM,
    NETWORK,
    RANDOM_FOREST,
    Effort,
    fit_models,
    group_importance,
)
from studies.environment import (
    LEVEL,
    PLAIN,
    PLAYED_CAMPAIGN,
    REVENUE_WEIGHT,
    SLOPE,
    ContextRecipe,
    StudyShop,
    confounded,
    open_shop,
)
from studies.item import Sample

MODELS, IMPORTANCE, SIZES = "models", "importance", "dimensions"
CONFOUNDED = 0.8
DECIDED_SHARES = (0.3, 0.2, 0.1)  # of the customers, shallow to deep, as in the demo
PLAIN_LEVEL, PLAIN_SLOPE = ContextRecipe("level", PLAIN), ContextRecipe("level+slope", PLAIN)
MAIN = (PLAIN_LEVEL, LEVEL, PLAIN_SLOPE, SLOPE)
OTHER_DIMENSIONS = tuple(ContextRecipe(heads, None, size) for size in (4, 8, 12) for heads in ("level", "level+slope"))
Progress = Callable[[str], None]


# ---- figures -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one shop, for one place in a table."""

    table: str
    row: str
    column: str
    seed: int
    value: float


def tabulate(figures: Iterable[Figure]) -> dict[str, dict[str, dict[str, Sample]]]:
    """Tables of rows of columns of samples, in the order of first appearance."""
    grouped: dict[str, dict[str, dict[str, list[float]]]] = {}
    for figure in figures:
        row = grouped.setdefault(figure.table, {}).setdefault(figure.row, {})
        row.setdefault(figure.column, []).append(figure.value)
    return {
        table: {row: {name: Sample.of(values) for name, values in columns.items()} for row, columns in rows.items()}
        for table, rows in grouped.items()
    }


def difference(
    figures: Iterable[Figure], *, table: str, minus: tuple[str, str], column: str, name: str
) -> list[Figure]:
    """Row minus row, shop by shop: what is common to a shop cancels."""
    kept = [f for f in figures if f.table == table and f.column == column]
    first, second = ({f.seed: f.value for f in kept if f.row == row} for row in minus)
    return [Figure(table, name, column, seed, first[seed] - second[seed]) for seed in first if seed in second]


# ---- contexts ------------------------------------------------------------------------------------------------------


def probe(context: Matrix, target: Vector) -> float:
    """R² of the best line from context to target, fitted on every other row and judged on the rest.

    >>> x = np.random.default_rng(0).standard_normal((1000, 2))
    >>> round(probe(x, 2 * x[:, 0] - x[:, 1]), 6), abs(probe(x, x[:, 0] * x[:, 1])) < 0.05
    (1.0, True)
    """
    design = np.column_stack([np.ones(len(context)), context])
    weights = np.linalg.lstsq(design[::2], target[::2], rcond=None)[0]
    left = target[1::2] - design[1::2] @ weights
    return float(1 - left.var() / target[1::2].var())


def probes(network: ContextNetwork, shop: StudyShop) -> dict[str, float]:
    """R² of the true elasticity and the true baseline from ψ1, over customers with a purchase in the year."""
    truth = shop.retailer.truth(shop.ids[shop.known], [0.1])
    context = network.transform(shop.features.filter(shop.known), check_scale=False)
    return {"elasticity": probe(context, truth.elasticity), "baseline": probe(context, truth.baseline)}


def decided_campaign(network: ContextNetwork, shop: StudyShop) -> Judgement:
    """Learn from campaigns A and B, decide C as in production, and judge the choice by the truth."""
    prior = Belief(basket=BasketModel(encoding=SmoothSpline(), depth_scale=0.5), engagement=Engagement())
    belief = learn(prior, [past.log(network).lesson for past in shop.campaigns])
    campaign = shop.retailer.settings.campaign(PLAYED_CAMPAIGN)
    caps = tuple(int(share * len(shop.ids)) for share in DECIDED_SHARES)
    decisions = decide(
        Audience(ids=shop.ids, context=network.transform(shop.features, check_scale=False), known=shop.known),
        belief=belief,
        offer=Offer(depths=campaign.depths, caps=caps, revenue_weight=REVENUE_WEIGHT),
        policy=Thompson(exploration=1.0),
        campaign=campaign.name,
        seed=shop.retailer.settings.seed,
    )
    truth = shop.retailer.truth(shop.ids, campaign.depths, channel=str(campaign.channel))
    return judge(
        decisions.choice,
        full_price=truth.expected_full_price,
        purchase_probability=truth.purchase_probability,
        depths=campaign.depths,
        revenue_weight=REVENUE_WEIGHT,
    )


# ---- the study, shop by shop ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySize:
    """How much is done: shops, their size, and how hard models try."""

    seeds: tuple[int, ...] = (1, 2, 3, 4)
    more_seeds: tuple[int, ...] = (5, 6, 7, 8)  # of contexts and their worth only: differences are small
    customers: int = 50_000
    effort: Effort = field(default_factory=lambda: Effort(threads=1))  # a second thread spins on a busy machine
    max_epochs: int = 40


QUICK = StudySize(
    seeds=(1,),
    more_seeds=(),
    customers=2_000,
    effort=Effort(boosting_rounds=30, forest_trees=10, threads=1),
    max_epochs=4,
)


def contexts_table(confounding: float | None) -> str:
    """The name of the table of contexts for ordinary codes as they are, or following spend more closely."""
    return "contexts" if confounding is None else f"contexts, confounding {confounding:g}"


def run_study(size: StudySize, *, progress: Progress = lambda step: None) -> list[Figure]:
    """Every figure of the study. The retailer's settings are the defaults, frozen before any of this was measured."""
    figures: list[Figure] = []
    for seed in (*size.seeds, *size.more_seeds):
        settings = RetailerSettings(customers=size.customers, seed=seed)
        for confounding in (None, CONFOUNDED):
            progress(f"shop {seed}, {contexts_table(confounding)}")
            shop = open_shop(settings if confounding is None else confounded(settings, confounding))
            if confounding is None and seed in size.seeds:
                figures += _models(shop, size, seed)
                figures += _dimensions(shop, size, seed)
            figures += _contexts(shop, size, seed, contexts_table(confounding))
    for confounding in (None, CONFOUNDED):
        for name, minus in (
            ("ours: slope head − level head", (SLOPE.name, LEVEL.name)),
            ("level: ours − plain ReLU", (LEVEL.name, PLAIN_LEVEL.name)),
            ("ours with slope head − the paper's recipe", (SLOPE.name, PLAIN_LEVEL.name)),
        ):
            for column in ("elasticity R²", "baseline R²", "objective %", "by depth %", "of possible"):
                figures += difference(figures, table=contexts_table(confounding), minus=minus, column=column, name=name)
    return figures


def _accuracy_figures(result: Accuracy, table: str, row: str, seed: int) -> list[Figure]:
    names = ("orders", "WAPE", "Spearman", "MAE", "MSE", "R²")
    return [Figure(table, row, name, seed, value) for name, value in zip(names, astuple(result), strict=True)][1:]


def _mse(predicted: Vector, observed: Vector) -> float:
    return accuracy(predicted, observed).mse


def _models(shop: StudyShop, size: StudySize, seed: int) -> list[Figure]:
    """The paper's comparison, and how much worse the fit gets when a group of features is shuffled."""
    models = fit_models(
        shop.training, seed=seed, effort=size.effort, network=LEVEL.network(seed=seed, max_epochs=size.max_epochs)
    )
    figures = []
    for name, predict in models.items():
        result = accuracy(predict(shop.test.X), shop.test.log_full_price)
        figures += _accuracy_figures(result, MODELS, name, seed)
    for name in (LIGHT_GBM, NETWORK):
        known = _mse(models[name](shop.test.X), shop.test.log_full_price)
        for group, more in group_importance(models[name], shop.test, metric=_mse, seed=seed).items():
            figures.append(Figure(IMPORTANCE, name, group, seed, 100 * more / known))
    return figures


def _dimensions(shop: StudyShop, size: StudySize, seed: int) -> list[Figure]:
    figures = []
    for recipe in OTHER_DIMENSIONS:
        network = recipe.fit(shop.training, seed=seed, max_epochs=size.max_epochs)
        result = accuracy(network.predict(shop.test.X), shop.test.log_full_price)
        known = probes(network, shop)
        row = recipe.name
        figures += _accuracy_figures(result, SIZES, row, seed)[:2]
        figures += [Figure(SIZES, row, f"{name} R²", seed, value) for name, value in known.items()]
    return figures


def _contexts(shop: StudyShop, size: StudySize, seed: int, table: str) -> list[Figure]:
    figures = []
    for recipe in MAIN:
        network = recipe.fit(shop.training, seed=seed, max_epochs=size.max_epochs)
        result = accuracy(network.predict(shop.test.X), shop.test.log_full_price)
        figures += _accuracy_figures(result, table, recipe.name, seed)[:2]
        figures += [
            Figure(table, recipe.name, f"{name} R²", seed, value) for name, value in probes(network, shop).items()
        ]
        judged = decided_campaign(network, shop)
        figures.append(Figure(table, recipe.name, "objective %", seed, 100 * judged.objective_uplift))
        figures.append(Figure(table, recipe.name, "by depth %", seed, 100 * judged.uplift_by_depth))
        figures.append(Figure(table, recipe.name, "of possible", seed, judged.share_of_possible))
    return figures


# ---- the page ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """The paper's accuracy on the calendar month after training."""

    wape: float
    spearman: float


TARGETS = {
    LEAST_SQUARES: Target(0.160, 0.346),
    LIGHT_GBM: Target(0.154, 0.410),
    RANDOM_FOREST: Target(0.153, 0.409),
    NETWORK: Target(0.153, 0.409),
}
TOLERANCE = Target(0.006, 0.04)
Rows = Mapping[str, Mapping[str, Sample]]


def misses(models: Rows) -> list[str]:
    """Which targets were not met: empty when the calibration holds."""
    found = []
    for name, target in TARGETS.items():
        for column, wanted, allowed in (
            ("WAPE", target.wape, TOLERANCE.wape),
            ("Spearman", target.spearman, TOLERANCE.spearman),
        ):
            reached = models[name][column].mean
            if abs(reached - wanted) > allowed:
                found.append(f"{name}: {column} {reached:.3f}, expected {wanted:.3f} ± {allowed:g}")
        if name != LEAST_SQUARES:
            pairs = zip(models[LEAST_SQUARES]["MSE"].values, models[name]["MSE"].values, strict=True)
            worse = [place for place, (line, other) in enumerate(pairs) if line <= other]
            if worse:
                found.append(f"{name}: not better than least squares in {len(worse)} shops")
    return found


def parameters(customers: int) -> str:
    """The retailer's settings, as `disco simulate --settings` reads them."""
    return RetailerSettings(customers=customers, seed=1).to_json()


def page(figures: Iterable[Figure], *, customers: int) -> str:
    tables = tabulate(figures)
    failed = misses(tables[MODELS])
    parts = [
        "# Calibration of the simulated retailer",
        "Written by `./run reproduce calibration --page docs/calibration.md`; do not edit. Why the parameters "
        "are what they are: [decision 031](decisions/031-calibration.md). The retailer was calibrated to the "
        "first table alone, and frozen before anything below it was measured.",
        f"## Targets and reached values\n\n{customers:,} customers; orders of May to July 2025 to train, of August to "
        "test; means over shops, then each shop.",
        _models_table(tables[MODELS]),
        "All targets are met." if not failed else "Not met: " + "; ".join(failed) + ".",
        "## Contexts\n\nAccuracy without knowing the depth. R² of linear probes from the context to the truth. "
        "Objective: expected objective of campaign C decided after random campaigns A and B, per cent over random "
        "allocation with as many codes per depth; *by depth*: the part that comes from who gets which depth, given who "
        "gets a code; *of possible*: share of the way from random to an oracle. ± is a 95% interval of the mean over "
        f"shops. In the second table the depth of ordinary codes follows spend (correlation {CONFOUNDED:g}).",
        *(_plain(tables[name]) for name in (contexts_table(None), contexts_table(CONFOUNDED))),
        f"## Other dimensions\n\n{_plain(tables[SIZES])}",
        "## Importance per feature group\n\nPer cent by which the mean squared error grows when the group is shuffled "
        f"between orders.\n\n{_plain(tables[IMPORTANCE])}",
        f"## Parameters\n\n```json\n{parameters(customers)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _models_table(rows: Rows) -> str:
    columns = ("WAPE", "Spearman", "MAE", "MSE", "R²")
    body = []
    for name, cells in rows.items():
        target = TARGETS[name]
        by_shop = ", ".join(
            f"{wape:.3f}/{rank:.3f}" for wape, rank in zip(cells["WAPE"].values, cells["Spearman"].values, strict=True)
        )
        body.append(
            [name, f"{target.wape:.3f} / {target.spearman:.3f}", *(f"{cells[c].mean:.3f}" for c in columns), by_shop]
        )
    return _table(["model", "the paper", *columns, "WAPE/Spearman by shop"], body)


def _plain(rows: Rows) -> str:
    columns = list(dict.fromkeys(name for cells in rows.values() for name in cells))
    return _table(
        ["", *columns],
        ([row, *(_cell(cells[c]) if c in cells else "" for c in columns)] for row, cells in rows.items()),
    )


def _cell(cell: Sample) -> str:
    return f"{cell.mean:.3f}" + ("" if cell.half_width is None else f" ± {cell.half_width:.3f}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./run reproduce calibration", description="Run the calibration study and print its page."
    )
    parser.add_argument("--quick", action="store_true", help="one small shop: does it run, not what it says")
    parser.add_argument("--page", type=Path, help="write the page there as well")
    parser.add_argument("--figures", type=Path, help="write every figure of every shop there, as JSON")
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else StudySize()
    figures = run_study(size, progress=_tell)
    text = page(figures, customers=size.customers)
    if options.page:
        _write(options.page, text)
    if options.figures:
        _write(options.figures, json.dumps([asdict(figure) for figure in figures], indent=1))
    sys.stdout.write(text)
    return 0


def _tell(step: str) -> None:
    sys.stderr.write(f"{step}\n")


def _write(path: Path, text: str) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
