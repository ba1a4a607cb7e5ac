"""Who is favoured, as a table."""

from disco.evaluation.favoured import GroupFigure
from disco.operations.favoured import Favoured
from disco.records.estimate import Estimate
from disco.records.money import read_currency
from disco.views.formats import Count, Money, Percent, PercentagePoints
from disco.views.table import Cell, Column, Table


def favoured_table(found: Favoured) -> Table:
    """One row per value of the column, with the gap of its average discount to all others."""
    amount = Money(read_currency(found.currency))
    columns: list[Column | str] = [
        *(found.column, Column("Customers", Count()), Column("Average discount (90%)", Percent(decimals=2))),
        Column("Against all others (95%, joint)", PercentagePoints(signed=True, decimals=2)),
        Column("With a code", Percent()),
    ]
    optional = {"markdown": "Expected markdown each (90%)", "actual": "Markdown each so far (90%)"}
    shown = [name for name in optional if any(getattr(one, name) is not None for one in found.groups)]
    columns += [Column(optional[name], amount) for name in shown]
    rows: list[list[Cell]] = [
        [
            one.value,
            one.customers,
            _mean(one.depth),
            None if one.depth.gap is None else _interval(one.depth.gap),
            one.codes.mean.value,
            *(_mean(getattr(one, name)) for name in shown),
        ]
        for one in found.groups
    ]
    return Table(caption=f"Who gets what, by {found.column}", columns=columns, rows=rows)


def _mean(figure: GroupFigure) -> Estimate | float:
    return _interval(figure.mean)


def _interval(found: Estimate) -> Estimate | float:
    return Estimate(found.value, found.lower, found.upper) if found.bounded else found.value
