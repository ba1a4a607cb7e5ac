"""The findings as tables and figures."""

import numpy as np
from findings import POLICIES, Findings
from judging import FIGURES, LOAN_VALUE, OBJECTIVE, PLACEBO_ROUNDS, REVENUE, TAKE_UP
from learning import RANDOM

from disco import evaluation
from disco.reports import Column, Count, Estimate, Fact, Facts, Money, Number, Percent, Table
from disco.reports.formats import Unit, estimate_text
from disco.reports.table import Cell

RAND = Money(currency="R", decimals=0)
UNITS: dict[str, Unit] = {TAKE_UP: Percent(), LOAN_VALUE: RAND, REVENUE: RAND, OBJECTIVE: RAND}
CHANGES: dict[str, Unit] = {TAKE_UP: Percent(signed=True)} | dict.fromkeys(
    (LOAN_VALUE, REVENUE, OBJECTIVE), Money(currency="R", decimals=0, signed=True)
)


def named(found: Findings, target: str) -> str:
    return f"Everybody {target}" if target in found.offers.level_names else target[0].upper() + target[1:]


def estimate(value: evaluation.Estimate | None) -> Estimate:
    """For the page; without an interval where none is known. (A doubly robust value is always there, with a belief.)"""
    assert value is not None
    if not np.isfinite([value.lower, value.upper]).all():
        return Estimate(value.value)
    return Estimate(value.value, value.lower, value.upper)


def summary(found: Findings) -> Table:
    """Worth per letter by target, doubly robust: what the terminal shows."""
    rows: list[list[Cell]] = []
    for name in found.trial.targets:
        gain = None if name == RANDOM else estimate(found.judged[name, OBJECTIVE].gain)
        take_up, loans, worth = (
            estimate(found.judged[name, figure].value.dr) for figure in (TAKE_UP, LOAN_VALUE, OBJECTIVE)
        )
        rows.append([named(found, name), take_up, loans, worth.value, gain])
    return Table(
        caption="Worth per letter, doubly robust within strata",
        columns=(
            "Policy",
            Column("Take-up", Percent()),
            Column("Loan value", RAND),
            Column("Objective", RAND),
            Column("Objective against as dealt", CHANGES[OBJECTIVE]),
        ),
        rows=rows,
    )


def slope_table(found: Findings) -> Table:
    units = {figure: Number(decimals=3 if figure == TAKE_UP else 0, signed=True) for figure in found.slopes}
    return Table(
        caption="Rise per unit of depth (from 0 to 100 % off), least squares",
        columns=("Figure per letter", "Within strata", "Pooled"),
        rows=[
            [figure, *(estimate_text(estimate(value), unit=units[figure]) for value in (row.within, row.pooled))]
            for figure, row in found.slopes.items()
        ],
        note="Robust 95 % intervals. Take-up as a share of letters, money in rand.",
    )


def gain_facts(found: Findings) -> Facts:
    unit, facts = CHANGES[OBJECTIVE], []
    for name in POLICIES:
        judged = found.judged[name, OBJECTIVE]
        note = (
            f"{unit.text(judged.gain.lower)} to {unit.text(judged.gain.upper)}; promised {unit.text(judged.promised)}"
        )
        facts.append(Fact(f"{named(found, name)}: objective per letter", unit.text(judged.gain.value), note))
    return Facts(facts)


def value_table(found: Findings) -> Table:
    return Table(
        caption="Worth per letter, doubly robust",
        columns=("Policy", *(Column(figure[0].upper() + figure[1:], UNITS[figure]) for figure in FIGURES)),
        rows=[
            [named(found, name), *(estimate(found.judged[name, figure].value.dr) for figure in FIGURES)]
            for name in found.trial.targets
        ],
    )


def estimator_table(found: Findings) -> Table:
    rows = []
    for name in found.trial.targets:
        judged = found.judged[name, OBJECTIVE]
        value = judged.value
        promise = None if name == RANDOM else judged.promised
        estimates = [None if e is None else estimate(e) for e in (value.ips, value.snips, value.dr)]
        rows.append([named(found, name), *estimates, promise, value.effective_rows, value.largest_weight])
    money = Column("Promised gain", CHANGES[OBJECTIVE])
    return Table(
        caption="Objective per letter by three estimators",
        columns=(
            "Policy",
            *(Column(name, RAND) for name in ("IPS", "SNIPS", "DR")),
            money,
            Column("Effective letters", Count()),
            Column("Largest weight", Number(decimals=1)),
        ),
        rows=rows,
        note="Propensities are the shares of the levels within risk band × wave.",
    )


def fold_table(found: Findings) -> Table:
    folds = [fold.name for fold in found.trial.folds]
    return Table(
        caption="Objective against the offers as dealt, by where it was judged",
        columns=("Policy", *(Column(f"Judged on {name}", CHANGES[OBJECTIVE]) for name in folds)),
        rows=[
            [named(found, name), *(estimate(found.by_fold[fold, name, OBJECTIVE].gain) for fold in folds)]
            for name in found.trial.targets
            if name != RANDOM
        ],
    )


def ordering_table(found: Findings) -> Table:
    return Table(
        caption="Was the order of the undifferentiated offers foretold?",
        columns=(
            "Judged on",
            "Figure",
            *(Column(name, Count()) for name in ("Pairs of levels", "Told apart", "Of these foretold")),
        ),
        rows=[[row.judged_on, row.figure, row.pairs, row.told_apart, row.foretold] for row in found.ordering],
        note="Told apart: the 95 % interval of their difference does not cover 0. A belief's take-up never falls with "
        "depth, so an order in take-up is partly built in.",
    )


def loan_size_table(found: Findings) -> Table:
    return Table(
        caption="ln(loan size) of takers, foretold from other letters",
        columns=(
            "Judged on",
            Column("Takers", Count()),
            *(Column(name, Number(decimals=3)) for name in ("WAPE", "Spearman", "R²")),
            Column("Inside their 90 % intervals", Percent()),
        ),
        rows=[
            [row.fold, row.accuracy.rows, row.accuracy.wape, row.accuracy.spearman, row.accuracy.r2, row.inside]
            for row in found.loan_sizes
        ],
    )


def placebo_table(found: Findings) -> Table:
    return Table(
        caption=f"How often the 95 % interval of the gain in loan value covered 0 in {PLACEBO_ROUNDS} placebo deals",
        columns=("Policy", Column("Covered", Percent(decimals=0))),
        rows=[[named(found, name), share] for name, share in found.placebo.items()],
    )


def cell_table(found: Findings) -> Table:
    return Table(
        caption="Take-up by band and level: foretold (90 %) and observed",
        columns=(
            "Judged on",
            "Band",
            "Level",
            Column("Letters", Count()),
            Column("Foretold", Percent()),
            Column("Observed", Percent()),
            "Held",
        ),
        rows=[
            [
                c.fold,
                c.band,
                c.level,
                c.letters,
                Estimate(c.foretold, *sorted((c.lower, c.upper))),
                c.observed,
                "yes" if c.inside else "no",
            ]
            for c in found.cells
        ],
    )
