"""Who got which code, and why somebody got theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import Query, Request, Response

from disco.entrypoints.service.shop_of import ShopOf
from disco.operations.explain import Explanation
from disco.operations.overview import DecisionCounts, Division, decision_counts
from disco.records.decisions import Arm
from disco.records.depths import depth_percent
from disco.records.errors import InputError
from disco.records.money import read_currency
from disco.records.people import Role
from disco.records.wording import count, counted, percent
from disco.views.charts import Axis, BarChart, Bars
from disco.views.formats import Count, Money, Percent
from disco.views.table import Cell, Column, Table
from disco.web.header import CampaignName, campaign_address, campaign_header
from disco.web.route import Routes
from disco.web.shell import Header, Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)

DIVISIONS: dict[Division, str] = {
    "segment": "Segment of the plan",
    "channel": "Channel",
    "history": "Purchases of the past year",
}
GROUPS = {Arm.DECIDED: "Decided", Arm.CONTROL: "Control", Arm.HOLDOUT: "Holdout"}
_MOST_BARS = 12
_NO_CODE = "No code"
CustomerId = Annotated[str, Query(max_length=1000, alias="id")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsPage(Page):
    """The decisions of a campaign in counts."""

    template = "decisions.html"
    rail = "Campaigns"
    address: str
    by: Division
    divisions: tuple[tuple[Division, str], ...]
    by_part: BarChart
    part_table: Table
    by_group: BarChart
    group_table: Table
    left_out: str
    """How many parts the picture leaves to the table, in words; empty: none."""
    customers_address: str
    """Where a customer is looked up."""
    codes_address: str
    favoured: str
    """Where any column of the customers divides them."""

    def tables(self) -> Mapping[str, Table]:
        return {"parts": self.part_table, "groups": self.group_table}


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerPage(Page):
    """Why a customer got this code."""

    template = "customer.html"
    rail = "Campaigns"
    address: str
    typed: str
    error: str
    """Why the customer cannot be shown; empty: they can, or nobody was asked for."""
    reasons: tuple[str, ...]
    worth: BarChart | None
    """What each depth was worth above its price; None where depths were assigned at random."""
    figures: Table | None
    details: tuple[str, ...]
    """All sentences, with the figures of the model."""

    def tables(self) -> Mapping[str, Table]:
        return {} if self.figures is None else {"depths": self.figures}


@router.get("/campaigns/{name}/decisions", Role.VIEWER)
def decisions(request: Request, shop: ShopOf, name: CampaignName, by: str | None = None) -> Response:
    header = campaign_header(shop, name, here="decisions")
    with shop.store() as store:
        found = decision_counts(store, name, by=by)
    shown = found.parts[:_MOST_BARS]
    page = DecisionsPage(
        title="Decisions",
        answer=_answer(found),
        header=header,
        address=campaign_address(name, "decisions"),
        by=found.by,
        divisions=tuple((one, _name_of(found, one)) for one in found.divisions),
        by_part=_chart(found, [Row(part, part) for part in shown], title=_part_title(found)),
        part_table=_table(found, [Row(part, part) for part in found.parts], caption=_name_of(found, found.by)),
        by_group=_chart(found, _groups(found), title=_group_title(found)),
        group_table=_table(found, _groups(found), caption="Group"),
        left_out=_left_out(len(found.parts) - len(shown)),
        customers_address=campaign_address(name, "customers"),
        codes_address=campaign_address(name, "codes"),
        favoured=campaign_address(name, "favoured"),
    )
    return respond(request, page, part="counts" if "hx-request" in request.headers else None)


@router.get("/campaigns/{name}/customers", Role.PLANNER)
def customers(request: Request, shop: ShopOf, name: CampaignName, customer: CustomerId = "") -> Response:
    header, typed = campaign_header(shop, name, here="decisions"), customer.strip()
    if not typed:
        return respond(request, _customer_page(name, typed, header=header))
    try:
        found = shop.explain(name, typed)
    except InputError as error:  # it says why somebody was not part of the campaign
        return respond(request, _customer_page(name, typed, header=header, error=str(error)), status=404)
    return respond(request, _customer_page(name, typed, header=header, found=found))


# ---- counts


class Row(NamedTuple):
    """A part or a group of the customers."""

    name: str
    part: str | None = None
    arm: Arm | None = None


def _answer(found: DecisionCounts) -> str:
    by_depth = [
        f"{count(codes)} at {depth_percent(depth)}" for depth in found.depths if (codes := found.count(depths=[depth]))
    ]
    if not by_depth:
        return f"None of {counted(found.customers, 'customer')} got a code."
    return f"{count(found.codes)} of {counted(found.customers, 'customer')} got a code: {', '.join(by_depth)}."


def _groups(found: DecisionCounts) -> list[Row]:
    return [Row(name, arm=arm) for arm, name in GROUPS.items() if found.count(arm=arm)]


def _name_of(found: DecisionCounts, division: Division) -> str:
    """Segments are known by the name of their column."""
    if division == "segment" and found.segment_column is not None:
        return found.segment_column
    return DIVISIONS[division]


def _size(found: DecisionCounts, row: Row) -> int:
    return found.count(part=row.part, arm=row.arm)


def _columns(found: DecisionCounts) -> list[tuple[str, float | None]]:
    """Name and depth; customers without a code last."""
    return [*((depth_percent(depth), depth) for depth in found.depths), (_NO_CODE, None)]


def _chart(found: DecisionCounts, rows: Sequence[Row], *, title: str) -> BarChart:
    return BarChart(
        title=title,
        subtitle="Share of customers with a code, by its depth; the others got none",
        categories=[row.name for row in rows],
        y=Axis("With a code", Percent(decimals=0)),
        bars=[
            Bars(
                depth_percent(depth),
                [found.count(part=row.part, arm=row.arm, depths=[depth]) / _size(found, row) for row in rows],
                depth=depth,
            )
            for depth in found.depths
        ],
        stacked=True,
    )


def _table(found: DecisionCounts, rows: Sequence[Row], *, caption: str) -> Table:
    columns, cells = _columns(found), list[list[Cell]]()
    for row in rows:
        counts = [found.count(part=row.part, arm=row.arm, depths=[depth]) for _, depth in columns]
        cells.append([row.name, *counts, sum(counts), 1 - counts[-1] / sum(counts)])
    names = (Column(name, Count()) for name, _ in columns)
    return Table(
        caption=f"Customers by what they got, by {caption[:1].lower()}{caption[1:]}",
        columns=[caption, *names, Column("Customers", Count()), Column("Got a code", Percent())],
        rows=cells,
    )


def _part_title(found: DecisionCounts) -> str:
    """Which part gets codes most often."""
    shares = {part: 1 - found.count(part=part, depths=[None]) / found.count(part=part) for part in found.parts}
    if len(shares) == 1:
        return f"{percent(next(iter(shares.values())), decimals=0)} of all customers got a code"
    most, least = max(shares, key=lambda part: shares[part]), min(shares, key=lambda part: shares[part])
    if percent(shares[most], decimals=0) == percent(shares[least], decimals=0):
        return f"{percent(shares[most], decimals=0)} of the customers got a code, in every part alike"
    high, low = (percent(shares[part], decimals=0) for part in (most, least))
    return f"{most}: {high} got a code, the largest share; {least}: {low}, the smallest"


def _group_title(found: DecisionCounts) -> str:
    decided = found.count(arm=Arm.DECIDED)
    codes = decided - found.count(arm=Arm.DECIDED, depths=[None])
    return f"{count(codes)} of {count(decided)} customers in the decided group got a code"


def _left_out(parts: int) -> str:
    return f"{counted(parts, 'smaller part')} {'is' if parts == 1 else 'are'} in the table alone." if parts > 0 else ""


# ---- one customer


def _customer_page(
    name: str, typed: str, *, header: Header, error: str = "", found: Explanation | None = None
) -> CustomerPage:
    answer = "Type a customer's id to see why they got their code, or none."
    if error:
        answer = "This customer cannot be shown."
    if found is not None:
        got = "no code" if found.depth is None else depth_percent(found.depth)
        code = "" if found.code is None else f" (code {found.code})"
        answer = f"Customer {found.customer} got {got}{code}."
    return CustomerPage(
        title="Why this code?",
        answer=answer,
        header=header,
        address=campaign_address(name, "customers"),
        typed=typed,
        error=error,
        reasons=() if found is None else found.reasons,
        worth=None if found is None else _worth_chart(found),
        figures=None if found is None else _figures(found),
        details=() if found is None else (*found.words, *_formula(found)),
    )


def _formula(found: Explanation) -> tuple[str, ...]:
    if not found.figures:
        return ()
    return (
        "What a code is worth is (w × revenue − markdown) × chance to buy, divided by w, at the figures the policy "
        f"used for this decision; w is {found.revenue_weight:g}.",
    )


def _worth_chart(found: Explanation) -> BarChart | None:
    """What each depth was worth above the price of its code, in revenue."""
    if not found.figures:
        return None
    unit = Money(read_currency(found.currency), signed=True)
    surplus = [figure.surplus / found.revenue_weight for figure in found.figures]
    return BarChart(
        title=_worth_title(found),
        subtitle="Revenue that a code is worth with this customer, less what it is worth with somebody else; the "
        "depth with the largest amount above zero is given",
        categories=[depth_percent(figure.depth) for figure in found.figures],
        y=Axis("Above its price", unit),
        bars=[Bars("Above its price", surplus, depth=[figure.depth for figure in found.figures])],
        height_px=260,
    )


def _worth_title(found: Explanation) -> str:
    if found.depth is None:
        return "No code was worth its price for them"
    if found.runner_up is None:
        return f"{depth_percent(found.depth)} was worth more than its price"
    return f"{depth_percent(found.depth)} was worth most; {depth_percent(found.runner_up.depth)} was second"


def _figures(found: Explanation) -> Table | None:
    if not found.figures:
        return None
    unit, weight = Money(read_currency(found.currency)), found.revenue_weight
    return Table.of(
        "Each depth for this customer",
        found.figures,
        {
            "Depth": lambda figure: depth_percent(figure.depth),
            Column("Chance to buy", Percent()): lambda figure: figure.engagement,
            Column("Basket if they buy", unit): lambda figure: figure.expected_full_price,
            Column("Worth in revenue", unit): lambda figure: figure.value / weight,
            Column("Price of a code", unit): lambda figure: figure.price / weight,
            Column("Above its price", Money(unit.currency, signed=True)): lambda figure: figure.surplus / weight,
        },
        note="Worth: what the code brings with this customer, as revenue. Price: what one more such code would bring "
        "with somebody else.",
    )
