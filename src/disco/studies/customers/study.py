"""The study, shop by shop."""

from collections.abc import Callable
from dataclasses import astuple, dataclass, field

from disco.evaluation import Accuracy, accuracy
from disco.features.baselines import LIGHT_GBM, NETWORK, Effort, fit_models, group_importance
from disco.records.arrays import Vector
from disco.retailer import RetailerSettings
from disco.studies.customers.context import decided_campaign, probes
from disco.studies.customers.figures import Figure, difference
from disco.studies.customers.recipes import LEVEL, MAIN, OTHER_DIMENSIONS, PLAIN_LEVEL, SLOPE
from disco.studies.customers.shop import Shop, confounded, open_shop

MODELS, IMPORTANCE, SIZES = "models", "importance", "dimensions"
CONFOUNDED = 0.8
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is done: shops, their size, and how hard models try."""

    seeds: tuple[int, ...] = (1, 2, 3, 4)
    more_seeds: tuple[int, ...] = (5, 6, 7, 8)  # of contexts and their worth only: differences are small
    customers: int = 50_000
    effort: Effort = field(default_factory=lambda: Effort(threads=1))  # a second thread spins on a busy machine
    max_epochs: int = 40


QUICK = Extent(
    seeds=(1,),
    more_seeds=(),
    customers=2_000,
    effort=Effort(boosting_rounds=30, forest_trees=10, threads=1),
    max_epochs=4,
)


def contexts_table(confounding: float | None) -> str:
    """The name of the table of contexts for ordinary codes as they are, or following spend more closely."""
    return "contexts" if confounding is None else f"contexts, confounding {confounding:g}"


def run_study(extent: Extent, *, progress: Progress = lambda step: None) -> list[Figure]:
    """Every figure of the study. The retailer's settings are the defaults, frozen before any of this was measured."""
    figures: list[Figure] = []
    for seed in (*extent.seeds, *extent.more_seeds):
        settings = RetailerSettings(customers=extent.customers, seed=seed)
        for confounding in (None, CONFOUNDED):
            progress(f"shop {seed}, {contexts_table(confounding)}")
            shop = open_shop(settings if confounding is None else confounded(settings, confounding))
            if confounding is None and seed in extent.seeds:
                figures += _models(shop, extent, seed)
                figures += _dimensions(shop, extent, seed)
            figures += _contexts(shop, extent, seed, contexts_table(confounding))
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


def _models(shop: Shop, extent: Extent, seed: int) -> list[Figure]:
    """The paper's comparison, and how much worse the fit gets when a group of features is shuffled."""
    models = fit_models(
        shop.training, seed=seed, effort=extent.effort, network=LEVEL.network(seed=seed, max_epochs=extent.max_epochs)
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


def _dimensions(shop: Shop, extent: Extent, seed: int) -> list[Figure]:
    figures = []
    for recipe in OTHER_DIMENSIONS:
        network = recipe.fit(shop.training, seed=seed, max_epochs=extent.max_epochs)
        result = accuracy(network.predict(shop.test.X), shop.test.log_full_price)
        known = probes(network, shop)
        row = recipe.name
        figures += _accuracy_figures(result, SIZES, row, seed)[:2]
        figures += [Figure(SIZES, row, f"{name} R²", seed, value) for name, value in known.items()]
    return figures


def _contexts(shop: Shop, extent: Extent, seed: int, table: str) -> list[Figure]:
    figures = []
    for recipe in MAIN:
        network = recipe.fit(shop.training, seed=seed, max_epochs=extent.max_epochs)
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
