"""Figures 1 and 2 and section 4.2 of the paper: eight items, each one measure of every simulated retailer.

An item is declared as a `Study`: what is measured, the claims with the figures that decide them, the words, the charts
and the tables. u is the scaled depth, depth / 0.5, which is what the encoding and the paper's axes see.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco.belief import BasketModel, DistanceToDepth, Encoding, LinearDepth, OneHotDepth, RadialBasis
from disco.evaluation.accuracy import accuracy, monotonicity
from disco.features import TrainingSet
from disco.records.arrays import Floats, Matrix, Vector
from disco.records.decisions import Purchases
from disco.views.charts import Axis, BarChart, Bars, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.views.formats import Count, Money, Number, Percent, Unit, number, percent
from disco.views.table import Column, Table
from studies.baselines import LEAST_SQUARES, LIGHT_GBM, NETWORK, RANDOM_FOREST, fit_models
from studies.cache import Arrays
from studies.calibration import TARGETS
from studies.environment import CAMPAIGNS, LEVEL, PAST_CAMPAIGNS, Environment
from studies.item import Claim, Facts, Figure, Results, Row, Sample, Study
from studies.lab import ReproductionSettings
from studies.readings import (
    AUTOMATIC,
    CENTRES,
    DEPTH_SCALE,
    MAIN_READING,
    READINGS,
    SCALED_DEPTHS,
    SPLINE,
    WIDE,
    curves,
    learned,
    some_customers,
    true_curves,
)

WAPE, SPEARMAN, BIAS = 0, 1, 5  # figures of accuracy; between them MAE, MSE and R²
WITHIN = {WAPE: 0.01, SPEARMAN: 0.04}  # of the paper's figures
TRUTH = "truth (simulated)"
PLAYED_FROM, PLAYED_TO = 0.65, 0.95  # u of campaigns A and B
OVER_ENVIRONMENTS = "95% interval over environments"
_THREE = Number(decimals=3)
_DEEP = SCALED_DEPTHS >= PLAYED_FROM - 1e-9


def entry(name: str, *place: int) -> Figure:
    """One number of a measured array; {} in its name stands for the reading."""
    return lambda each, reading: float(each[name.format(reading)][place])


def over_depth(title: str, subtitle: str, *, y: str, unit: Unit | None = None, **more: Any) -> CurveChart:
    """A chart over the scaled depth."""
    return CurveChart(
        title=title, subtitle=subtitle, x=Axis("Scaled depth u", Number()), y=Axis(y, unit or Number()), **more
    )


def by_row(
    caption: str,
    first: str,
    names: Iterable[str],
    columns: Mapping[str, Figure],
    *,
    unit: Unit,
    note: str,
    share: bool = False,
    paper: Sequence[float] = (),
) -> Callable[[Results], Table]:
    """A table with a row per name, which the figures take as their reading, and the paper's row on top of them."""

    def table(results: Results) -> Table:
        rows: list[Row] = [("the paper", *paper)] if paper else []
        rows += [
            (name, *(results.sample(figure, name).estimate(share=share) for figure in columns.values()))
            for name in names
        ]
        headings = [Column(heading, unit) for heading in columns]
        return Table(caption=caption, columns=(first, *headings), rows=rows, note=note)

    return table


def past_purchases(environment: Environment) -> Purchases:
    """Of campaigns A and B together."""
    return _joined([environment.campaigns[name].purchases for name in PAST_CAMPAIGNS])


def _joined(parts: list[Purchases]) -> Purchases:
    context, depth, full_price = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("context", "depth", "full_price")
    )
    return Purchases(context=context, depth=depth, full_price=full_price)


def _rows(seen: Purchases, rows: NDArray[Any]) -> Purchases:
    return Purchases(context=seen.context[rows], depth=seen.depth[rows], full_price=seen.full_price[rows])


# ---- figure 1, left: the depth as three radial basis functions -------------------------------------------------------

RBF_GRID = np.linspace(0.0, 1.0, 101)


def measure_rbf(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """ψ2 on the grid for each reading; the automatic one after campaigns A and B have chosen its width."""
    features = {name: reading.encoding.features(RBF_GRID) for name, reading in READINGS.items()}
    chosen = learned(environment, AUTOMATIC.name).encoding
    width = chosen.gamma if isinstance(chosen, RadialBasis) else None
    return {
        **features,
        AUTOMATIC.name: chosen.features(RBF_GRID),
        "width": np.atleast_1d(np.asarray(width, np.float64)),
    }


def _functions_chart(title: str, reading: str, names: tuple[str, ...], **more: Any) -> Callable[[Results], CurveChart]:
    def chart(results: Results) -> CurveChart:
        features = results.arrays[0][reading]
        lines = [Line(name, RBF_GRID, features[:, place]) for place, name in enumerate(names)]
        return over_depth(title, lines=lines, **more)

    return chart


def _widths_table(results: Results) -> Table:
    return Table(
        caption="Width chosen from campaigns A and B",
        columns=("Environment", Column("γ, automatic", Number(decimals=1)), Column("Range of a function", Percent())),
        rows=[
            (str(seed), float(each["width"][0]), float(np.ptp(each[AUTOMATIC.name], axis=0).min()))
            for seed, each in zip(results.seeds, results.arrays, strict=True)
        ],
        note="Range: from the smallest to the largest value over u in [0, 1], of the function that varies least.",
    )


RBF = Study(
    key="rbf",
    title="Radial basis functions of the depth (figure 1, left)",
    paper="Three smooth bumps at 0.25, 0.50 and 0.75 turn every depth from 0 to 1 into three numbers, each its "
    "similarity to one of the three places.",
    measure=measure_rbf,
    readings=tuple(reading for reading in READINGS if reading != SPLINE.name),
    claims_by_reading=(
        (
            Claim(
                "similarity falls away from each place",
                "bumps",
                below=0.5,
                rule="every function falls below 0.5 somewhere",
            ),
            lambda each, reading: float(each[reading].min(axis=0).max()),
        ),
        (
            Claim(
                "no depth is far from all places",
                "whole range",
                above=0.1,
                rule="at every depth some function exceeds 0.1",
            ),
            lambda each, reading: float(each[reading].max(axis=1).min()),
        ),
        (
            Claim(
                "depths 0.05 apart have different codes",
                "distinct",
                above=0.02,
                rule="their codes differ by more than 0.02",
            ),
            lambda each, reading: float(np.linalg.norm(np.diff(each[reading][::5], axis=0), axis=1).min()),
        ),
    ),
    prose=(
        "With α = 20 in the formula as printed, the three functions vary by less than two per cent over the whole "
        "range: they are nearly three constants, which cannot produce what the paper shows. Read as γ = 20, "
        "exp(−20(a − μ)²), they are the bumps that the paper describes, so γ = 20 is our main reading. γ = 2 is wide: "
        "the middle function never falls below a half. The automatic choice takes the width with the highest marginal "
        "likelihood on campaigns A and B, which may differ between shops. The spline is not a set of bumps and is "
        "shown for comparison.",
    ),
    charts=(
        _functions_chart(
            f"Read as {MAIN_READING}, three bumps distinguish all depths",
            MAIN_READING,
            tuple(f"at {centre:.2f}" for centre in CENTRES),
            subtitle="Value of each function over the scaled depth u, centres 0.25, 0.50 and 0.75",
            y="Similarity",
            from_zero=True,
        ),
        _functions_chart(
            "The spline has a straight line and two bends instead",
            SPLINE.name,
            ("slope", "first bend", "second bend"),
            subtitle="Value of each function over the scaled depth u",
            y="Value",
        ),
    ),
    tables=(_widths_table,),
)


# ---- figure 1, middle: effective plays after 1,000 plays each at u = 0.4, 0.6 and 0.8 --------------------------------

PLAYED, PLAYS = (0.4, 0.6, 0.8), 1000
PLAYS_GRID = np.linspace(0.02, 1.0, 50)  # holds the played depths, the middles between them and the far end
_BETWEEN, _FAR = (0.5, 0.7), 0.1
ALONE = f"{MAIN_READING}, ψ2 alone"  # without context or constant, so three played depths determine all three functions
LINES = (MAIN_READING, ALONE, *(reading for reading in READINGS if reading != MAIN_READING))


def measure_plays(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Effective plays over the grid for one fixed customer, under each reading's encoding, prior and noise."""
    (context,) = some_customers(environment, most=1).context
    plays = {reading: _effective_plays(learned(environment, reading), context) for reading in READINGS}
    alone = replace(learned(environment, MAIN_READING), constant_precision=None)
    return {**plays, ALONE: _effective_plays(alone, context[:0])}


def _effective_plays(model: BasketModel, context: Vector) -> Vector:
    empty = replace(model, campaigns={}, noise_sd=model.posterior.noise_sd)
    rows = len(PLAYED) * PLAYS
    depths = np.repeat(PLAYED, PLAYS) * model.depth_scale
    # the prices do not matter: effective plays depend only on ψψᵀ
    played = empty.update(np.tile(context, (rows, 1)), depths, np.full(rows, 50.0))
    return played.effective_plays(np.tile(context, (PLAYS_GRID.size, 1)), PLAYS_GRID * model.depth_scale)


def _plays_at(plays: Vector, u: float) -> float:
    return float(plays[np.abs(PLAYS_GRID - u).argmin()])


def _least_plays(*depths: float) -> Figure:
    return lambda each, reading: min(_plays_at(each[reading], u) for u in depths)


COUNTS_BETWEEN = Claim("unplayed depths between them count as played", "shared", Count(), above=0.5 * PLAYS)
FADES = Claim("a depth far away (0.1) counts far less, as a share of the played", "fades", below=0.5)


def _plays_facts(results: Results) -> Facts:
    between, far = results.of_claim(COUNTS_BETWEEN), results.of_claim(FADES)
    local = [reading for reading in LINES if between[reading].holds and far[reading].holds]
    return {"local": ", ".join(local), "nowhere": not local}


def _plays_chart(results: Results) -> CurveChart:
    mean = {reading: results.mean(reading) for reading in LINES}
    shared = sum(min(_plays_at(plays, u) for u in _BETWEEN) > 0.5 * PLAYS for plays in mean.values())
    ceiling = 3.5 * PLAYS
    capped = [reading for reading in LINES if mean[reading].max() > ceiling]
    note = f"; cut at {ceiling:,.0f}" if capped else ""
    return over_depth(
        f"Depths between the played ones count as played under {shared} of {len(LINES)} encodings",
        f"Effective plays after {PLAYS:,} plays at each dot, one context, mean of environments{note}",
        y="Effective plays",
        unit=Count(),
        from_zero=True,
        lines=[
            Line(
                reading,
                PLAYS_GRID,
                np.minimum(mean[reading], ceiling),
                muted=reading != MAIN_READING and reading in capped,
            )
            for reading in LINES
        ],
        points=[Points("played", PLAYED, [PLAYS] * len(PLAYED))],
        height_px=380,
    )


def _plays_table(results: Results) -> Table:
    shown = (0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    return Table(
        caption="Effective plays by depth",
        columns=("Reading", *(Column(f"u = {u:g}", Count()) for u in shown)),
        rows=[(reading, *(results.sample(_least_plays(u), reading).mean for u in shown)) for reading in LINES],
        note="Mean over environments; 0.4, 0.6 and 0.8 were played 1,000 times each.",
    )


EFFECTIVE_PLAYS = Study(
    key="plays",
    title="Effective plays after 1,000 plays at 0.4, 0.6 and 0.8 (figure 1, middle)",
    paper="For a fixed context, depths near those played count as played too. (That this fades with distance is our "
    "reading.)",
    measure=measure_plays,
    readings=LINES,
    claims_by_reading=(
        (
            Claim("played depths count at least the plays they had", "about 1,000", Count(), above=0.95 * PLAYS),
            _least_plays(*PLAYED),
        ),
        (COUNTS_BETWEEN, _least_plays(*_BETWEEN)),
        (
            FADES,
            lambda each, reading: _plays_at(each[reading], _FAR) / min(_plays_at(each[reading], u) for u in PLAYED),
        ),
    ),
    prose=(
        "Plays of a depth are counted as 1/(ψᵀV⁻¹ψ) − 1/(ψᵀV0⁻¹ψ): how many plays of this very depth would leave the "
        "same uncertainty. For one customer the model has four unknowns, a level and three functions. Three played "
        "depths leave one of them undetermined; at a narrow width the depths between depend on it. With the three "
        "functions alone, as the paper's fixed context may be meant, nothing is undetermined and those depths count as "
        "played; but plays then grow again at both ends, where all functions vanish and the prior alone remains.",
        ("local", "How far a play reaches depends on the width: it is local under {local}."),
        ("nowhere", "How far a play reaches depends on the width: it is local under no reading."),
        "With wide functions a play anywhere informs every depth; the spline has a prior for its slope and bends, and "
        "loses information steadily with distance.",
    ),
    facts=_plays_facts,
    charts=(_plays_chart,),
    tables=(_plays_table,),
)


# ---- figure 1, right: uncertainty over depth, trained on more and more purchases at depths above 0.6 alone -----------

SEEN_FROM = 0.6  # scaled: every purchase to learn from was deeper
VOLUMES = (200, 500, 2_000, 10_000, 50_000)
UNSEEN, SEEN = SCALED_DEPTHS < SEEN_FROM - 1e-9, SCALED_DEPTHS > SEEN_FROM + 1e-9


def measure_uncertainty(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """(volumes, depths) mean sd of E[ln F] over a thousand customers, for each reading."""
    seen = deep_purchases(environment)
    order = np.random.default_rng(environment.seed).permutation(len(seen))
    context = some_customers(environment).context
    volumes = [volume for volume in VOLUMES if volume <= len(seen)]

    def sds(reading: str) -> Matrix:
        rows = []
        for volume in volumes:
            first = _rows(seen, order[:volume])
            model = READINGS[reading].model().update(first.context, first.depth, first.full_price)
            rows.append(curves(READINGS[reading].settled(model), context)[1].mean(axis=0))
        return np.array(rows)

    return {"volumes": np.array(volumes), **{reading: sds(reading) for reading in READINGS}}


def deep_purchases(environment: Environment) -> Purchases:
    seen = past_purchases(environment)
    return _rows(seen, seen.depth > SEEN_FROM * DEPTH_SCALE)


def _common_volumes(arrays: list[Arrays]) -> list[Arrays]:
    """A shop with fewer purchases has fewer volumes."""
    common = min(each["volumes"].size for each in arrays)
    return [{name: rows[:common] for name, rows in each.items()} for each in arrays]


def _unseen_over_seen(each: Arrays, reading: str) -> float:
    sds = each[reading]
    return float((sds[:, UNSEEN].mean(axis=1) / sds[:, SEEN].mean(axis=1)).min())


def _shrinks(part: NDArray[np.bool_]) -> Figure:
    return lambda each, reading: float(each[reading][-1, part].mean() / each[reading][0, part].mean())


def _uncertainty_facts(results: Results) -> Facts:
    edge = results.sample(lambda each, reading: float(each[reading][-1, 0] / each[reading][-1, UNSEEN].max()),
                          MAIN_READING).mean  # fmt: skip
    falls_back = edge < 0.95
    return {"falls_back": falls_back, "edge": percent(edge, decimals=0), "keeps": not falls_back}


def _volume_chart(results: Results) -> CurveChart:
    mean = results.mean(MAIN_READING)
    shrinks = [float(mean[-1, part].mean() / mean[0, part].mean()) for part in (UNSEEN, SEEN)]
    return over_depth(
        "More data reduce uncertainty, least where no depth was played"
        if shrinks[0] > shrinks[1]
        else "More data reduce uncertainty, where depths were played and where not",
        f"Sd of the predicted ln(full price), mean of 1,000 customers, {MAIN_READING}; trained on u above 0.6",
        y="Standard deviation",
        from_zero=True,
        lines=[
            Line(f"{volume:,} purchases", SCALED_DEPTHS, row, known=(SEEN_FROM, 1.0))
            for volume, row in zip(results.arrays[0]["volumes"].tolist(), mean, strict=True)
        ],
        height_px=380,
    )


def _reading_chart(results: Results) -> CurveChart:
    last = {reading: results.mean(reading)[-1] for reading in READINGS}
    steady = bool((np.diff(last[SPLINE.name][UNSEEN]) < 0).all())
    return over_depth(
        "The spline's uncertainty grows steadily with distance from the played depths"
        if steady
        else "Uncertainty at unseen depths depends on the encoding",
        "Sd of the predicted ln(full price) at the largest volume, mean of 1,000 customers",
        y="Standard deviation",
        from_zero=True,
        lines=[Line(reading, SCALED_DEPTHS, sd, known=(SEEN_FROM, 1.0)) for reading, sd in last.items()],
        height_px=380,
    )


def _uncertainty_table(results: Results) -> Table:
    def cell(reading: str, place: int, part: NDArray[np.bool_]) -> Sample:
        return results.sample(lambda each, _: float(each[reading][place, part].mean()))

    volumes = results.arrays[0]["volumes"].tolist()
    return Table(
        caption="Mean sd of ln(full price) below and above 0.6",
        columns=("Reading", Column("Purchases", Count()), Column("Below 0.6", _THREE), Column("Above 0.6", _THREE)),
        rows=[
            (reading, volumes[place], *(cell(reading, place, part).estimate() for part in (UNSEEN, SEEN)))
            for reading in READINGS
            for place in (0, len(volumes) - 1)
        ],
        note="Mean over environments with 95% intervals.",
    )


UNCERTAINTY = Study(
    key="uncertainty",
    title="Uncertainty over depth and data volume (figure 1, right)",
    paper="Trained on depths above 0.6 alone, the model stays less certain below 0.6 at every volume, and still "
    "becomes more certain there as data grow.",
    measure=measure_uncertainty,
    aligned=_common_volumes,
    readings=tuple(READINGS),
    claims_by_reading=(
        (
            Claim("sd below 0.6 exceeds that above 0.6 at every volume (smallest ratio)", "more uncertain", above=1.0),
            _unseen_over_seen,
        ),
        (
            Claim("sd below 0.6 shrinks from the smallest to the largest volume (ratio)", "shrinks", below=1.0),
            _shrinks(UNSEEN),
        ),
        (Claim("sd above 0.6 shrinks too (ratio)", "shrinks", below=1.0), _shrinks(SEEN)),
    ),
    prose=(
        "Ours is the sd of ln full price; the paper's is that of sampled baskets. Depths below 0.6 are informed only "
        "through functions that also cover the played depths, so their uncertainty shrinks more slowly.",
        (
            "falls_back",
            f"Under {MAIN_READING} the uncertainty falls again towards depth 0 (to {{edge}} of its peak). There all "
            "three bumps vanish and only the constant remains, whose uncertainty is small. With narrow bumps "
            "uncertainty alone is therefore a poor sign of extrapolation; the spline's uncertainty keeps growing with "
            "distance, and its effective plays keep falling.",
        ),
        ("keeps", f"Under {MAIN_READING} the uncertainty does not fall towards depth 0."),
    ),
    facts=_uncertainty_facts,
    charts=(_volume_chart, _reading_chart),
    tables=(_uncertainty_table,),
)


# ---- figure 2, left: observed baskets by depth, before and after the discount ----------------------------------------

BEFORE, AFTER = "full", "discounted"


def measure_elasticity(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Mean basket per depth, before and after the discount, of all random campaigns, and how many were bought."""
    seen = _joined([environment.campaigns[name].purchases for name in CAMPAIGNS])
    depths, which = np.unique(seen.depth, return_inverse=True)
    count = np.bincount(which)
    mean = np.bincount(which, seen.full_price) / count
    return {"depths": depths, "count": count, BEFORE: mean, AFTER: mean * (1 - depths)}


def _slope(name: str) -> Figure:
    """Weighted least squares of the ln mean basket on depth, as the relative change per ten points."""

    def slope(each: Arrays, reading: str) -> float:
        fitted, _ = np.polyfit(each["depths"], np.log(each[name]), 1, w=np.sqrt(each["count"]))
        return float(np.expm1(0.1 * fitted))

    return slope


def _rank(name: str) -> Figure:
    """Rank correlation of the mean basket with depth."""

    def rank(each: Arrays, reading: str) -> float:
        ranks: Vector = np.argsort(np.argsort(each[name])).astype(np.float64)
        return float(np.corrcoef(ranks, np.arange(ranks.size))[0, 1])

    return rank


def _elasticity_facts(results: Results) -> Facts:
    change = results.sample(_slope(AFTER)).mean
    return {
        "change": percent(change, signed=True),
        "rank": number(results.sample(_rank(AFTER)).mean),
        "makes": "does not make" if change < 0 else "makes",
    }


def _baskets_chart(name: str, y: str, title: Callable[[Results], str]) -> Callable[[Results], CurveChart]:
    def relative(each: Arrays, place: int) -> float:
        return float((each[name] / np.average(each[name], weights=each["count"]))[place]) - 1

    def chart(results: Results) -> CurveChart:
        depths = results.arrays[0]["depths"]
        cells = [results.sample(lambda each, _, place=place: relative(each, place)) for place in range(depths.size)]  # type: ignore[misc]
        low, high = zip(*(cell.interval for cell in cells), strict=True)
        return CurveChart(
            title=title(results),
            subtitle="Mean basket of purchases with a random code relative to the shop's average, campaigns A to D, %",
            x=Axis("Depth of the code", Percent(decimals=0)),
            y=Axis(y, Percent(signed=True)),
            interval=OVER_ENVIRONMENTS,
            lines=(),
            points=[Points("observed", depths, [cell.mean for cell in cells], low, high)],
        )

    return chart


def _elasticity_table(results: Results) -> Table:
    counts = results.mean("count")
    return Table(
        caption="Mean basket by depth",
        columns=(
            Column("Depth", Percent()),
            Column("Purchases per environment", Count()),
            Column("Before the discount", Money()),
            Column("After the discount", Money()),
        ),
        rows=[
            (
                float(depth),
                float(counts[place]),
                *(results.sample(entry(name, place)).estimate() for name in (BEFORE, AFTER)),
            )
            for place, depth in enumerate(results.arrays[0]["depths"])
        ],
    )


ELASTICITY = Study(
    key="elasticity",
    title="Observed elasticity: full-price and discounted baskets (figure 2, left)",
    paper="Baskets before the discount grow with its depth; baskets after the discount do not.",
    measure=measure_elasticity,
    claims=(
        (
            Claim(
                "full-price baskets grow with depth (change per 10 points of depth)",
                "grow",
                Percent(signed=True),
                above=0.0,
            ),
            _slope(BEFORE),
        ),
        (Claim("they grow nearly monotonically (rank correlation with depth)", "monotone", above=0.9), _rank(BEFORE)),
        (Claim("discounted baskets do not (rank correlation with depth)", "not monotone", below=0.9), _rank(AFTER)),
    ),
    prose=(
        "Simulated customers buy larger baskets at deeper discounts by construction, so this rise is no evidence for "
        "the paper's claim. After the discount, ten more points of depth change the basket by {change} (rank "
        "correlation {rank}): the larger basket {makes} up for the lower price. The mean at a depth is over those who "
        "bought at it, so it also reflects who buys at all; campaign D (the three shallow depths) went out by e-mail.",
    ),
    facts=_elasticity_facts,
    charts=(
        _baskets_chart(
            BEFORE, "Basket before the discount", lambda _: "Before the discount, deeper codes bring larger baskets"
        ),
        _baskets_chart(
            AFTER,
            "Basket after the discount",
            lambda results: (
                "After the discount, they bring smaller ones"
                if results.sample(_slope(AFTER)).mean < 0
                else "After the discount, they still bring larger ones"
            ),
        ),
    ),
    tables=(_elasticity_table,),
)


# ---- figure 2, middle: raw depth, distance, radial basis functions and one-hot compared ------------------------------

SEVEN = tuple(0.125 * place for place in range(1, 8))
PLAIN: Mapping[str, Encoding] = {
    "raw depth": LinearDepth(),
    "distance to 0.5": DistanceToDepth(0.5),
    **{
        f"{len(at)} centres, γ = {width}": RadialBasis(at, gamma=width)
        for at in (CENTRES, SEVEN)
        for width in (2, 20, 50)
    },
}
ONE_HOT, CHOSEN = "one-hot", "3 centres, γ = 20"
AT_PLAYED, AT_ALL = 2, 3  # of a scheme's figures, after WAPE and Spearman: monotone shares at played and at all depths
_TEST_SHARE = 1 / 3
_READING = "reading: {}"
SHOWN_SCHEMES = (*PLAIN, *(_READING.format(each) for each in READINGS if each not in (MAIN_READING, WIDE.name)))


def measure_encodings(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Per scheme: accuracy on purchases kept out, monotone shares, and the curve averaged over customers."""
    training, test = split_purchases(environment)
    customers = some_customers(environment)
    played = np.unique(training.depth) / DEPTH_SCALE
    out: dict[str, NDArray[Any]] = {f"{TRUTH}: curve": true_curves(environment, customers).mean(axis=0)}
    for name, model in _schemes(played).items():
        fitted = model.update(training.context, training.depth, training.full_price)
        if name == _READING.format(AUTOMATIC.name):
            fitted = AUTOMATIC.settled(fitted)
        scores = accuracy(fitted.predict(test.context, test.depth)[0], np.log(test.full_price))
        seen = curves(fitted, customers.context, played)[0]
        everywhere = seen if name == ONE_HOT else curves(fitted, customers.context)[0]
        shares = _monotone(seen, played), _monotone(everywhere, played if name == ONE_HOT else SCALED_DEPTHS)
        out[f"{name}: figures"] = np.array([scores.wape, scores.spearman, *shares])
        out[f"{name}: curve"] = everywhere.mean(axis=0)
    return out


def _schemes(played: Vector) -> dict[str, BasketModel]:
    plain = {**PLAIN, ONE_HOT: OneHotDepth(tuple(played.tolist()))}
    models = {name: BasketModel(encoding=encoding, depth_scale=DEPTH_SCALE) for name, encoding in plain.items()}
    return models | {_READING.format(name): reading.model() for name, reading in READINGS.items()}


def _monotone(log_prices: Matrix, u: Vector) -> float:
    return monotonicity(np.exp(log_prices), u * DEPTH_SCALE).steps


def split_purchases(environment: Environment) -> tuple[Purchases, Purchases]:
    """Purchases of the two training campaigns, a third of them kept out."""
    seen = past_purchases(environment)
    out = np.random.default_rng(environment.seed).random(len(seen)) < _TEST_SHARE
    return _rows(seen, ~out), _rows(seen, out)


def _scheme(name: str, place: int) -> Figure:
    return entry(f"{name}: figures", place)


def _range(place: int, *names: str) -> Figure:
    """The largest minus the smallest figure of the schemes."""
    return lambda each, reading: float(np.ptp([each[f"{name}: figures"][place] for name in names]))


def _encodings_facts(results: Results) -> Facts:
    def share(name: str, place: int) -> float:
        return results.sample(_scheme(name, place)).mean

    best = max(PLAIN, key=lambda name: share(name, AT_ALL))
    return {
        "best": best,
        "best_share": percent(share(best, AT_ALL), decimals=0),
        "all_depths": percent(share(CHOSEN, AT_ALL), decimals=0),
        "played_depths": percent(share(CHOSEN, AT_PLAYED), decimals=0),
    }


def _shares_chart(results: Results) -> IntervalChart:
    cells = {name: results.sample(_scheme(name, AT_ALL)) for name in SHOWN_SCHEMES}
    growing = [name for name, cell in cells.items() if cell.mean > 0.9]
    return IntervalChart(
        title=f"Baskets keep growing in nine steps of ten under {len(growing)} of {len(cells)} encodings",
        subtitle="Steps of u by 0.05, over all depths and 1,000 customers, at which the predicted basket does not fall",
        x=Axis("Monotone share", Percent(decimals=0)),
        interval=OVER_ENVIRONMENTS,
        reference=0.9,
        rows=[
            IntervalRow(name, cell.estimate(share=True), muted=name.startswith("reading"))
            for name, cell in cells.items()
        ],
    )


def _baskets_over_depth(title: str, subtitle: str, curves_by_name: Mapping[str, Floats], **more: Any) -> CurveChart:
    """Typical baskets, money; marked where depths were played, and the truth muted."""
    return over_depth(
        title,
        subtitle,
        y="Full-price basket, £",
        unit=Number(decimals=0),
        lines=[
            Line(
                name,
                SCALED_DEPTHS,
                curve,
                known=None if name == TRUTH else (PLAYED_FROM, PLAYED_TO),
                muted=name == TRUTH,
            )
            for name, curve in curves_by_name.items()
        ],
        height_px=400,
        **more,
    )


def _encoding_curves_chart(results: Results) -> CurveChart:
    shown = ("raw depth", "distance to 0.5", CHOSEN, "7 centres, γ = 20", _READING.format("spline"), TRUTH)
    mean = {name: np.exp(results.mean(f"{name}: curve")) for name in shown}
    apart = {u: np.ptp([curve[np.argmin(np.abs(SCALED_DEPTHS - u))] for curve in mean.values()]) for u in (0.1, 0.8)}
    return _baskets_over_depth(
        f"Typical baskets lie £{apart[0.8]:,.0f} apart at u = 0.8, near the played depths, "
        f"and £{apart[0.1]:,.0f} at u = 0.1",
        "Typical full-price basket, 1,000 customers, £, mean of environments; trained on u of 0.65 and more",
        mean,
    )


def _encodings_table(results: Results) -> Table:
    def cells(name: str, *places: int) -> list[Any]:
        return [results.sample(_scheme(name, place)).estimate(share=True) for place in places]

    return Table(
        caption="Accuracy and monotone share by encoding",
        columns=(
            "Encoding",
            Column("WAPE", _THREE),
            Column("Spearman", _THREE),
            Column("Monotone, played depths", Percent()),
            Column("Monotone, all depths", Percent()),
        ),
        rows=[
            (
                name,
                *cells(name, WAPE, SPEARMAN, AT_PLAYED),
                None if name == ONE_HOT else cells(name, AT_ALL)[0],
            )
            for name in (*PLAIN, ONE_HOT, *SHOWN_SCHEMES[len(PLAIN) :])
        ],
        note="Purchases of A and B, two thirds to train, a third to test. Monotone: share of the steps from one depth "
        "to the next, over 1,000 customers, at which the predicted basket does not fall; all depths: u from 0.05 to 1. "
        "One-hot predicts at played depths only. Mean over environments with 95% intervals.",
    )


ENCODINGS = Study(
    key="encodings",
    title="Encodings compared: accuracy and monotone share (figure 2, middle)",
    paper="Raw depth, Euclidean distance and six sets of radial basis functions: all have WAPE 0.140 and Spearman "
    "0.475, but only some keep baskets growing with depth, those with seven centres among them; three centres with "
    "α = 20 is chosen because it is smaller. (One-hot is avoided there; we add it.)",
    measure=measure_encodings,
    readings=tuple(READINGS),
    claims=(
        (Claim("WAPE of the chosen encoding", 0.140, _THREE, within=WITHIN[WAPE]), _scheme(CHOSEN, WAPE)),
        (Claim("its Spearman correlation", 0.475, _THREE, within=WITHIN[SPEARMAN]), _scheme(CHOSEN, SPEARMAN)),
        (
            Claim("all schemes have one WAPE (range)", "0.000", Number(decimals=4), below=0.0015),
            _range(WAPE, *PLAIN, ONE_HOT),
        ),
        (
            Claim("and one Spearman correlation (range)", "0.000", Number(decimals=4), below=0.0075),
            _range(SPEARMAN, *PLAIN, ONE_HOT),
        ),
        (
            Claim("schemes differ in how monotone they are (range of shares)", "uneven", Percent(), above=0.1),
            _range(AT_ALL, *PLAIN),
        ),
    ),
    claims_by_reading=(
        (
            Claim("the encoding is nearly monotone over all depths", "near-monotone", Percent(), above=0.9),
            _scheme(_READING, AT_ALL),
        ),
    ),
    prose=(
        "Accuracy hardly depends on the encoding because a purchase's depth explains much less of its basket than the "
        "customer does. Encodings differ where nothing was played: there prior and shape determine the curve. Of the "
        "plain schemes, {best} keeps the largest share of the steps from one depth to the next from falling "
        f"({{best_share}}); {CHOSEN} keeps {{all_depths}} over all depths and {{played_depths}} among the depths it "
        "was trained on. Campaigns A and B played scaled depths of 0.65 and more, as the paper's did.",
    ),
    facts=_encodings_facts,
    charts=(_shares_chart, _encoding_curves_chart),
    tables=(_encodings_table,),
)


# ---- figure 2, right: predicted demand curves of a thousand customers, and of three of them --------------------------

_INDIVIDUALS = 3
ALL_STEPS, WHOLE_CURVES, PLAYED_STEPS = range(3)  # of the monotone shares


def measure_demand(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Per reading: the average curve, its spread over customers, three customers' curves, and monotone shares."""
    customers, depths = some_customers(environment), SCALED_DEPTHS * DEPTH_SCALE
    out = {TRUTH: true_curves(environment, customers).mean(axis=0)}
    for reading in READINGS:
        predicted = curves(learned(environment, reading), customers.context)[0]
        everywhere = monotonicity(np.exp(predicted), depths)
        deep = monotonicity(np.exp(predicted[:, _DEEP]), depths[_DEEP])
        out[reading] = predicted.mean(axis=0)
        out[f"{reading}: error"] = predicted.std(axis=0, ddof=1) / np.sqrt(len(predicted))
        out[f"{reading}: three"] = predicted[:_INDIVIDUALS]
        out[f"{reading}: shares"] = np.array([everywhere.steps, everywhere.curves, deep.steps])
    return out


def _demand_facts(results: Results) -> Facts:
    def share(reading: str, place: int) -> float:
        return results.sample(entry("{}: shares", place), reading).mean

    best = max(READINGS, key=lambda reading: share(reading, ALL_STEPS))
    return {
        "played": percent(share(MAIN_READING, PLAYED_STEPS), decimals=0),
        "everywhere": percent(share(MAIN_READING, ALL_STEPS), decimals=0),
        "best": best[0].upper() + best[1:],
        "best_share": percent(share(best, ALL_STEPS), decimals=0),
    }


def _individuals_chart(results: Results) -> CurveChart:
    first = results.arrays[0]
    mean, error = first[MAIN_READING], 1.96 * first[f"{MAIN_READING}: error"]
    rises = "rises" if (np.diff(mean[_DEEP]) >= 0).all() else "does not rise everywhere"
    known = (PLAYED_FROM, PLAYED_TO)
    average = (np.exp(mean), np.exp(mean - error), np.exp(mean + error))
    return over_depth(
        f"Among the depths that were played, the average curve {rises}; single customers differ",
        f"Predicted typical full-price basket, {MAIN_READING}, first environment, £",
        y="Full-price basket, £",
        unit=Number(decimals=0),
        interval="95% interval of the mean",
        lines=[
            Line("mean of 1,000", SCALED_DEPTHS, *average, known=known),
            *(
                Line(f"customer {place}", SCALED_DEPTHS, np.exp(curve), known=known)
                for place, curve in enumerate(first[f"{MAIN_READING}: three"], start=1)
            ),
        ],
        height_px=380,
    )


def _averages_chart(results: Results) -> CurveChart:
    mean = {name: np.exp(results.mean(name)) for name in (*READINGS, TRUTH)}
    away = {name: float(np.abs(np.log(mean[name] / mean[TRUTH]))[~_DEEP].max()) for name in READINGS}
    closest = min(away, key=lambda name: away[name])
    return _baskets_over_depth(
        f"Below the played depths, {closest} stays closest to the truth",
        "Predicted typical full-price basket, mean of 1,000 customers and all environments, £",
        mean,
    )


DEMAND = Study(
    key="demand",
    title="Demand curves of a thousand customers and of three (figure 2, right)",
    paper="Predicted full-price baskets rise with depth, on average and for three customers, and over more than 90% of "
    "the customer × depth space.",
    measure=measure_demand,
    readings=tuple(READINGS),
    claims_by_reading=(
        (
            Claim("baskets do not fall over the customer × depth space", "more than 90%", Percent(), above=0.9),
            entry("{}: shares", ALL_STEPS),
        ),
        (
            Claim("the average curve rises at every step", "monotone", Percent(), above=0.999),
            lambda each, reading: float((np.diff(each[reading]) >= 0).mean()),
        ),
    ),
    prose=(
        f"Over depths that were played, {MAIN_READING} keeps {{played}} of the steps from falling; over all depths "
        "{everywhere}. Below the played depths only the prior acts on a narrow bump, and it pulls the curve to the "
        "constant. {best} keeps {best_share}. The spline's prior expects baskets to grow with depth; with it, monotone "
        "curves are partly an assumption. A served curve can also be projected onto monotone ones (`monotone=True`), "
        "which none of these figures use.",
    ),
    facts=_demand_facts,
    charts=(_individuals_chart, _averages_chart),
    tables=(
        by_row(
            "Share of steps at which the predicted basket does not fall",
            "Reading",
            READINGS,
            {
                "All depths": entry("{}: shares", ALL_STEPS),
                "Played depths, u ≥ 0.65": entry("{}: shares", PLAYED_STEPS),
                "Whole curves that never fall": entry("{}: shares", WHOLE_CURVES),
            },
            unit=Percent(),
            share=True,
            note="1,000 customers per environment, steps of u by 0.05; mean with 95% interval over environments.",
        ),
    ),
)


# ---- section 4.2: the network against a random forest, gradient boosting and least squares ---------------------------

MODELS = (NETWORK, RANDOM_FOREST, LIGHT_GBM, LEAST_SQUARES)
MOST_ORDERS = 70_000  # to train on, as many as in the calibration


def measure_models(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """WAPE, Spearman, MAE, MSE and R² of each model on the month after training."""
    training, test = _some_orders(environment.orders("training")), environment.orders("test")
    network = LEVEL.network(seed=environment.seed, max_epochs=settings.max_epochs)
    models = fit_models(training, seed=environment.seed, effort=settings.effort, network=network)
    return {
        name: np.array(astuple(accuracy(predict(test.X), test.log_full_price))[1:]) for name, predict in models.items()
    }


def _some_orders(orders: TrainingSet) -> TrainingSet:
    """At most `MOST_ORDERS`, drawn at random and still in time order."""
    if len(orders) <= MOST_ORDERS:
        return orders
    rows = np.sort(np.random.default_rng(0).permutation(len(orders))[:MOST_ORDERS])
    return TrainingSet(
        orders.ids[rows],
        orders.X.take(rows),
        orders.log_full_price[rows],
        orders.depth[rows],
        orders.depth_derived[rows],
    )


def _network_less(name: str, place: int) -> Figure:
    return lambda each, reading: float(each[NETWORK][place] - each[name][place])


BELOW_THE_LINE = Claim("the network's WAPE is below least squares'", "−0.007", _THREE, below=0.0)
ABOVE_THE_LINE = Claim("its Spearman is above least squares'", "+0.063", _THREE, above=0.0)


def _models_facts(results: Results) -> Facts:
    in_order = all(results.of_claim(claim)[""].holds for claim in (BELOW_THE_LINE, ABOVE_THE_LINE))
    return {"in_order": in_order, "unclear": not in_order}


def _models_chart(results: Results) -> BarChart:
    cells = {name: results.sample(entry(name, SPEARMAN)) for name in MODELS}
    low, high = zip(*(cell.interval for cell in cells.values()), strict=True)
    ahead = all(cells[name].mean > cells[LEAST_SQUARES].mean for name in MODELS if name != LEAST_SQUARES)
    return BarChart(
        title="Network and trees rank baskets alike, and better than least squares"
        if ahead
        else "Not every model ranks baskets better than least squares",
        subtitle="Spearman correlation of predicted and true ln full price, month after training",
        categories=list(MODELS),
        y=Axis("Spearman", Number()),
        interval=OVER_ENVIRONMENTS,
        bars=[
            Bars("simulated", [cell.mean for cell in cells.values()], low, high),
            Bars("the paper", [TARGETS[name].spearman for name in MODELS], muted=True),
        ],
    )


CONTEXT_MODELS = Study(
    key="models",
    title="Context models: network, random forest, LightGBM, least squares (section 4.2)",
    paper="WAPE and Spearman of ln full price: network 0.153/0.409, random forest 0.153/0.409, LightGBM 0.154/0.410, "
    "least squares 0.160/0.346. The network is as good as the trees and better than the line.",
    measure=measure_models,
    claims=(
        *(
            (Claim(f"{what} of the {name}", target, _THREE, within=WITHIN[place]), entry(name, place))
            for name in MODELS
            for what, place, target in (
                ("WAPE", WAPE, TARGETS[name].wape),
                ("Spearman", SPEARMAN, TARGETS[name].spearman),
            )
        ),
        *(
            (Claim(f"network and {name} have one WAPE", 0.0, _THREE, within=0.002), _network_less(name, WAPE))
            for name in (RANDOM_FOREST, LIGHT_GBM)
        ),
        (BELOW_THE_LINE, _network_less(LEAST_SQUARES, WAPE)),
        (ABOVE_THE_LINE, _network_less(LEAST_SQUARES, SPEARMAN)),
    ),
    prose=(
        "The simulated retailer was calibrated to these figures, on other seeds, so agreement is no evidence.",
        (
            "in_order",
            "The order of the models also holds in shops that the calibration did not use, so the calibration does not "
            "depend on its seeds.",
        ),
        (
            "unclear",
            "The gap between the network and least squares is not clear in every shop: it needs more orders to train "
            "on, or more shops, to be seen.",
        ),
    ),
    facts=_models_facts,
    charts=(_models_chart,),
    tables=(
        by_row(
            "Accuracy of ln full price on the month after training",
            "Model",
            MODELS,
            {name: entry("{}", place) for place, name in enumerate(("WAPE", "Spearman", "MAE", "MSE", "R²"))},
            unit=_THREE,
            note=f"Up to {MOST_ORDERS:,} orders to train; mean with 95% interval over environments.",
        ),
    ),
)  # fmt: skip


# ---- section 4.2: accuracy campaign by campaign, A and B to learn from, C alike, D by e-mail at unseen depths --------

PAPER_ACCURACY = {"A": (0.140, 0.476), "B": (0.140, 0.447), "C": (0.139, 0.438), "D": (0.134, 0.461)}  # WAPE, Spearman


def measure_campaigns(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """(campaigns, figures) for each reading: WAPE, Spearman, MAE, MSE, R², and the mean error of ln F."""
    out = {}
    for reading in READINGS:
        model = learned(environment, reading)
        rows = []
        for name in CAMPAIGNS:
            seen = environment.campaigns[name].purchases
            predicted, observed = model.predict(seen.context, seen.depth)[0], np.log(seen.full_price)
            rows.append([*astuple(accuracy(predicted, observed))[1:], float(np.mean(predicted - observed))])
        out[reading] = np.array(rows)
    return out


def _of_campaign(name: str, place: int) -> Figure:
    return entry("{}", CAMPAIGNS.index(name), place)


def _loss_of_d(each: Arrays, reading: str) -> float:
    return _of_campaign("D", WAPE)(each, reading) - _of_campaign("C", WAPE)(each, reading)


D_LIKE_C = Claim("D is predicted as well as C (WAPE of D less that of C)", "−0.005", _THREE, below=0.005)


def _campaigns_facts(results: Results) -> Facts:
    good = [reading for reading, check in results.of_claim(D_LIKE_C).items() if check.holds]
    return {
        "bias": number(results.sample(_of_campaign("D", BIAS), MAIN_READING).mean, signed=True),
        "good": ", ".join(good),
        "none": not good,
        "narrow": MAIN_READING not in good,
    }


def _campaigns_chart(results: Results) -> IntervalChart:
    losses = results.of_claim(D_LIKE_C)
    good = [reading for reading, check in losses.items() if check.holds]
    return IntervalChart(
        title=f"Campaign D is clearly predicted as well as C under {len(good)} of {len(READINGS)} readings",
        subtitle="WAPE of D, at depths shallower than any that was learned from, less WAPE of C; the line: the paper's",
        x=Axis("WAPE of D less WAPE of C", Number(decimals=3, signed=True)),
        interval=OVER_ENVIRONMENTS,
        reference=PAPER_ACCURACY["D"][WAPE] - PAPER_ACCURACY["C"][WAPE],
        rows=[IntervalRow(reading, check.ours.estimate()) for reading, check in losses.items()],
    )


REWARD_MODEL = Study(
    key="campaigns",
    title="The reward model on campaigns A to D (section 4.2)",
    paper="Trained on A and B: WAPE and Spearman 0.140/0.476 and 0.140/0.447 there, 0.139/0.438 on the new campaign C, "
    "and 0.134/0.461 on D, which goes out by e-mail, is valid for a month and has only shallower, unseen depths.",
    measure=measure_campaigns,
    readings=tuple(READINGS),
    claims_by_reading=(
        *(
            (
                Claim(f"{what} of {name}", PAPER_ACCURACY[name][place], _THREE, within=WITHIN[place]),
                _of_campaign(name, place),
            )
            for name in CAMPAIGNS
            for what, place in (("WAPE", WAPE), ("Spearman", SPEARMAN))
        ),
        (D_LIKE_C, _loss_of_d),
    ),
    prose=(
        "On A, B and C all readings predict alike, because the depths were played. D uses depths below all of them, "
        f"where {MAIN_READING} is off by {{bias}} in ln F on average.",
        ("good", "D is clearly as accurate as C (within 0.005 of WAPE) under: {good}."),
        ("none", "Under no reading is D clearly as accurate as C (within 0.005 of WAPE)."),
        (
            "narrow",
            "That the paper's model extrapolated well may mean that its width was not as narrow as γ = 20, that it had "
            "learned from far more purchases, or that its customers respond to shallow codes as to deep ones.",
        ),
    ),
    facts=_campaigns_facts,
    charts=(_campaigns_chart,),
    tables=tuple(
        by_row(
            f"{what} by campaign",
            "Reading",
            READINGS,
            {f"Campaign {name}": _of_campaign(name, place) for name in CAMPAIGNS},
            unit=_THREE,
            note="Mean with 95% interval over environments; A and B were trained on.",
            paper=[PAPER_ACCURACY[name][place] for name in CAMPAIGNS],
        )
        for what, place in (("WAPE", WAPE), ("Spearman", SPEARMAN))
    ),
)

STUDIES = (RBF, EFFECTIVE_PLAYS, UNCERTAINTY, ELASTICITY, ENCODINGS, DEMAND, CONTEXT_MODELS, REWARD_MODEL)
