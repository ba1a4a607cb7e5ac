"""What codes added, as tables, a curve and one page."""

from disco.operations.added import Added, MovedWeek, Stretch
from disco.records.estimate import Estimate
from disco.records.money import read_currency
from disco.records.wording import date
from disco.views.charts import Axis, CurveChart, Points
from disco.views.formats import Count, Money, Names, Number, Percent, Unit
from disco.views.page import PageItem, Report, Section
from disco.views.table import Cell, Column, FigureCell, Table

_INTERVAL = "90% interval"
_LEAST_OF_FOUR = 2.24  # standard errors: of a normal law, one value in eighty is as low


def added_table(found: Added) -> Table:
    """Each figure per customer, with codes and without, and in total."""
    figures = found.figures()
    return Table.of(
        "What codes added",
        figures,
        {
            "Figure": str.capitalize,
            "Per person with codes": lambda name: FigureCell(figures[name].others, _unit(found, name)),
            "Held out": lambda name: FigureCell(figures[name].held, _unit(found, name)),
            "Added per person (90%)": lambda name: FigureCell(
                _interval(figures[name].per_customer), _unit(found, name, signed=True)
            ),
            "Added in total (90%)": lambda name: FigureCell(_interval(figures[name].total), _total(found, name)),
            Column("Share", Percent(signed=True)): lambda name: figures[name].relative,
        },
    )


def _interval(found: Estimate) -> Estimate | float:
    return Estimate(found.value, found.lower, found.upper) if found.bounded else found.value


def _unit(found: Added, name: str, *, signed: bool = False) -> Unit:
    return (
        Number(decimals=3, signed=signed) if name == "orders" else Money(read_currency(found.currency), signed=signed)
    )


def _total(found: Added, name: str) -> Unit:
    return Count(signed=True) if name == "orders" else Money(read_currency(found.currency), signed=True)


def people_table(found: Added) -> Table:
    """Who is compared, against what the plans held out."""
    ratio = found.sample_ratio
    names = {"held": "Held out of all campaigns", "others": "Others"}
    return Table(
        caption="Who is compared",
        columns=["", Column("People", Count()), Column("Expected", Count())],
        rows=[[names[side], ratio.found[side], ratio.expected[side]] for side in names],
        note="" if ratio.ok else "The sides differ by more than chance, so no figure can be trusted.",
    )


def moved_table(found: Added) -> Table:
    """The weeks around a campaign."""
    money = Money(read_currency(found.currency), signed=True)
    rows: list[list[Cell]] = [[_week(one), _interval(one.revenue), one.campaigns] for one in found.moved]
    return Table(
        caption="Before, during and after a campaign",
        columns=["Week", Column("Added per person and week (90%)", money), Column("Campaigns", Count())],
        rows=rows,
    )


def moved_chart(found: Added) -> CurveChart | None:
    """Revenue added in the weeks around a campaign; None where too few are known for a curve."""
    if len(found.moved) < 2:
        return None
    ends = [one.revenue.ends or (one.revenue.value, one.revenue.value) for one in found.moved]
    lower, upper = zip(*ends, strict=True)
    weeks = list(range(1, len(found.moved) + 1))
    return CurveChart(
        title=_moved_title(found),
        subtitle="Revenue per person and week, with codes less without, on average over the campaigns",
        x=Axis("Week", Names([_week(one) for one in found.moved])),
        y=Axis("Added per person", Money(read_currency(found.currency), signed=True)),
        interval=_INTERVAL,
        lines=[],
        points=[Points("Added", weeks, [one.revenue.value for one in found.moved], lower, upper)],
    )


def _moved_title(found: Added) -> str:
    less = [
        str(stretch)
        for stretch in (Stretch.BEFORE, Stretch.AFTER)
        if any(one.stretch is stretch and _is_clearly_less(one.revenue) for one in found.moved)
    ]
    if less:
        return f"Fewer purchases {' and '.join(less)} campaigns: codes move some of them in time"
    return "No purchases are seen to be missing before or after campaigns"


def _is_clearly_less(found: Estimate) -> bool:
    """Below 0 by more than the least of four weeks is by chance, nine times in ten."""
    return found.standard_error is not None and found.value < -_LEAST_OF_FOUR * found.standard_error


def _week(one: MovedWeek) -> str:
    """
    >>> found = Estimate(1.0)
    >>> [_week(MovedWeek(stretch=Stretch.BEFORE, week=week, campaigns=1, revenue=found)) for week in (-2, 0, 1)]
    ['2 before', 'during', '1 after']
    """
    return "during" if one.week == 0 else f"{abs(one.week)} {'before' if one.week < 0 else 'after'}"


def outlook_table(found: Added) -> Table | None:
    """What other shares, and more time, would show of revenue; None where that is not known."""
    if not found.outlook:
        return None
    days = sorted({one.days for one in found.outlook})
    shares = sorted({one.share for one in found.outlook})
    least = {(one.share, one.days): one.detectable for one in found.outlook}
    return Table(
        caption="The least change of revenue that would be shown (with a chance of 80%)",
        columns=["Held out", *(Column(f"After {day:,} days", Percent()) for day in days)],
        rows=[[Percent().text(share), *(least[share, day] for day in days)] for share in shares],
    )


def added_report(found: Added) -> Report:
    """One page for a finance director."""
    chart, outlooks = moved_chart(found), outlook_table(found)
    moved: list[PageItem] = [moved_table(found)] if chart is None else [chart, moved_table(found)]
    sections = [
        Section("With codes and without", "\n\n".join(found.words), [added_table(found), people_table(found)]),
        Section(
            "Are purchases added, or moved in time?",
            "A purchase that a code only brings forward is missing after the campaign; one that waits for a code is "
            "missing before it. Where campaigns follow each other closely, a week is after one and before the next.",
            moved,
        ),
    ]
    if outlooks is not None:
        said = (
            "A larger holdout shows smaller changes sooner, and costs what codes would have brought for these people."
        )
        sections.append(Section("What a larger share, or more time, would show", said, [outlooks]))
    return Report(
        title="What codes added",
        lead=found.headline,
        sections=sections,
        footer=f"Orders from {date(found.first)} to {date(found.last)}.",
    )
