"""The A/B test told: uplifts by the truth and as answered, accuracy online, and how many customers it would take."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from disco.reports import Axis, Column, Count, IntervalChart, IntervalRow, Number, Percent, Table
from disco.reports.formats import count, percent
from disco.studies.customers.figures import Cell
from disco.studies.paper.cache import Arrays
from disco.studies.paper.item import MAIN_READING, Check, Item, Row, above, below, estimate_of, near
from disco.studies.paper.readings import READINGS

PAPER_REVENUE, PAPER_REWARD = 0.0112, 0.0123
UNDIFFERENTIATED_REVENUE, UNDIFFERENTIATED_REWARD = 0.0356, 0.0410
ONLINE = {
    "WAPE": (0.133, 0.01),
    "Spearman": (0.446, 0.04),
    "MAE": (0.557, 0.04),
    "MSE": (0.496, 0.06),
    "R²": (0.113, 0.1),
}
REVENUE, REWARD, BASKET, ALONE_REVENUE, ALONE_REWARD = range(5)  # of what is expected by the truth
_UPLIFT = Percent(decimals=2, signed=True)
_WITHIN = 0.01  # a point


def told(measured: list[Arrays], *, warm: Cell | None, key: str) -> Item:
    """The item; `warm` is TS-IP's uplift of the basket value in the warm simulation, where it was run."""
    main = {place: _expected(measured, MAIN_READING, place) for place in range(5)}
    pooled = _pooled(measured, MAIN_READING)
    needed = int(np.mean([each["needed"][0] for each in measured]))
    checks = [check for reading in READINGS for check in _checks(measured, reading)]
    if warm is not None:
        gap = Cell.of([ours - theirs for ours, theirs in zip(main[BASKET].values, warm.values, strict=True)])
        checks.append(
            near(
                "the A/B basket value is in line with the warm simulation's (difference)",
                gap,
                paper=0.0,
                within=0.005,
                unit=_UPLIFT,
            )
        )
    return Item(
        key=key,
        title="The A/B test, against random codes and against one depth for all (section 5)",
        paper="Decided codes bring +1.12 % of revenue (p < 0.001) and +1.23 % of reward (p < 0.01) over random codes "
        "with the same caps, +3.56 % and +4.10 % over one depth for everybody; online accuracy is WAPE 0.133, Spearman "
        "0.446, MAE 0.557, MSE 0.496, R² 0.113; the uplift is in line with the warm simulation.",
        checks=tuple(checks),
        why="Half of the customers of campaign C are decided after A and B were learned, the other half get random "
        "codes; each depth goes to a third of an arm. By the truth, without the luck of one campaign, the decided half "
        f"earns {_words(main[REVENUE])} of revenue and {_words(main[REWARD])} of reward. As answered, the environments "
        f"together show {percent(pooled.relative, decimals=2, signed=True)} (p = {pooled.p_value:.2g}). An uplift of "
        f"+1.12 % shows with p < 0.001 in eight tests of ten only with {count(needed)} customers, so a shop of this "
        "size often cannot tell. What there is to gain depends on how far customers differ in their answer to depth "
        "and how much of it six numbers tell; three depths that lie ten points apart leave little room. Which depth "
        "the paper's undifferentiated campaign had is not said; ours is the middle one, the mean of the caps. The "
        "paper's R² of 0.113 does not fit its rank correlation of 0.446, whose square is 0.2.",
        charts=(_chart(measured, warm),),
        tables=(_uplifts(measured), _realised(measured), _online(measured)),
    )


@dataclass(frozen=True, slots=True)
class Pooled:
    """One uplift from several shops, each weighted by its precision."""

    relative: float
    p_value: float


def _pooled(measured: list[Arrays], reading: str, place: int = 0) -> Pooled:
    relative, error = (
        np.array([each[f"{reading}: realised"][2 * place + part] for each in measured]) for part in (0, 1)
    )
    weight = error**-2.0
    mean = float((relative * weight).sum() / weight.sum())
    return Pooled(mean, float(2 * norm.sf(abs(mean) * np.sqrt(weight.sum()))))


def _expected(measured: list[Arrays], reading: str, place: int) -> Cell:
    return Cell.of([float(each[f"{reading}: expected"][place]) for each in measured])


def _accuracy(measured: list[Arrays], reading: str, place: int) -> Cell:
    return Cell.of([float(each[f"{reading}: accuracy"][place]) for each in measured])


def _words(cell: Cell) -> str:
    return percent(cell.mean, decimals=2, signed=True)


def _checks(measured: list[Arrays], reading: str) -> tuple[Check, ...]:
    uplifts = []
    for what, place, paper in (
        ("revenue over random codes", REVENUE, PAPER_REVENUE),
        ("reward over random codes", REWARD, PAPER_REWARD),
        ("revenue over one depth for all", ALONE_REVENUE, UNDIFFERENTIATED_REVENUE),
        ("reward over one depth for all", ALONE_REWARD, UNDIFFERENTIATED_REWARD),
    ):
        found, text = _expected(measured, reading, place), _UPLIFT.text(paper)
        uplifts.append(above(f"more {what}, by the truth", found, than=0.0, paper=text, unit=_UPLIFT, reading=reading))
        uplifts.append(
            near(
                f"as much {what} as in the paper, to a point",
                found,
                paper=paper,
                within=_WITHIN,
                unit=_UPLIFT,
                reading=reading,
            )
        )
    chance = Cell.of([_pooled(measured, reading).p_value])
    return (
        *uplifts,
        below(
            "the answered revenue uplift of all environments together has p < 0.001",
            chance,
            than=0.001,
            paper="p < 0.001",
            unit=Number(decimals=4),
            reading=reading,
            clearly=False,
        ),
        *(
            near(
                f"online {name}",
                _accuracy(measured, reading, place),
                paper=target,
                within=within,
                unit=Number(decimals=3),
                reading=reading,
            )
            for place, (name, (target, within)) in enumerate(ONLINE.items())
        ),
    )


def _chart(measured: list[Arrays], warm: Cell | None) -> IntervalChart:
    rows = [
        IntervalRow("Revenue, A/B", estimate_of(_expected(measured, MAIN_READING, REVENUE))),
        IntervalRow("Reward, A/B", estimate_of(_expected(measured, MAIN_READING, REWARD))),
        IntervalRow("Basket value, A/B", estimate_of(_expected(measured, MAIN_READING, BASKET))),
    ]
    if warm is not None:
        rows.append(IntervalRow("Basket value, warm simulation", estimate_of(warm), muted=True))
    rows += [
        IntervalRow(
            "Revenue, over the middle depth for all", estimate_of(_expected(measured, MAIN_READING, ALONE_REVENUE))
        ),
        IntervalRow(
            "Reward, over the middle depth for all", estimate_of(_expected(measured, MAIN_READING, ALONE_REWARD))
        ),
    ]
    revenue = _expected(measured, MAIN_READING, REVENUE)
    return IntervalChart(
        title=f"Deciding who gets which depth is worth {_words(revenue)} of revenue",
        subtitle=f"Expected uplift by the simulation's truth over random codes with the same caps, {MAIN_READING}",
        x=Axis("Uplift", _UPLIFT),
        interval="95 % interval over environments",
        rows=rows,
    )


def _uplifts(measured: list[Arrays]) -> Table:
    names = ("Revenue", "Reward", "Basket value", "Revenue, over one depth", "Reward, over one depth")
    paper = (PAPER_REVENUE, PAPER_REWARD, None, UNDIFFERENTIATED_REVENUE, UNDIFFERENTIATED_REWARD)
    rows: list[Row] = [("the paper", *paper)]
    rows += [(reading, *(estimate_of(_expected(measured, reading, p)) for p in range(5))) for reading in READINGS]
    return Table(
        caption="Expected uplift by the truth",
        columns=("Reading", *(Column(name, _UPLIFT) for name in names)),
        rows=rows,
        note="Over random codes with the same caps, and over the middle depth for everybody; reward is revenue less "
        "markdown, basket value revenue per purchaser. Mean with 95 % interval over environments.",
    )


def _realised(measured: list[Arrays]) -> Table:
    rows = []
    for place, each in enumerate(measured, start=1):
        found = each[f"{MAIN_READING}: realised"]
        uplift, error = float(found[0]), float(found[1])
        chance = float(2 * norm.sf(abs(uplift / error)))
        rows.append((f"{place}", float(found[-2]), float(found[-1]), uplift, 1.96 * error, chance))
    pooled = _pooled(measured, MAIN_READING)
    buyers = [float(np.sum([each[f"{MAIN_READING}: realised"][part] for each in measured])) for part in (-2, -1)]
    error = abs(pooled.relative) / max(float(norm.isf(pooled.p_value / 2)), 1e-9)
    return Table(
        caption=f"Revenue per customer as answered, {MAIN_READING}",
        columns=(
            "Environment",
            Column("Purchasers, decided", Count()),
            Column("Purchasers, random", Count()),
            Column("Revenue uplift", _UPLIFT),
            Column("±, 95 %", Percent(decimals=2)),
            Column("p", Number(decimals=4)),
        ),
        rows=[*rows, ("all together", *buyers, pooled.relative, 1.96 * error, pooled.p_value)],
        note="One campaign per environment, ratio of means, normal approximation; all together: weighted by precision.",
    )


def _online(measured: list[Arrays]) -> Table:
    unit = Number(decimals=3)
    rows: list[Row] = [("the paper", *(target for target, _ in ONLINE.values()))]
    rows += [
        (reading, *(estimate_of(_accuracy(measured, reading, place)) for place in range(len(ONLINE))))
        for reading in READINGS
    ]
    return Table(
        caption="Accuracy online: purchases of the decided half, predicted before the campaign",
        columns=("Reading", *(Column(name, unit) for name in ONLINE)),
        rows=rows,
    )
