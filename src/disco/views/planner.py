"""What limits lead to, for people: one sentence, codes by depth, money with intervals, and what holds a plan back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from disco.operations.plan_warnings import (
    chance_text,
    experience_warnings,
    group_warning,
    overspend_warning,
    overspend_words,
)
from disco.operations.review import changed_settings
from disco.operations.what_if import SolvedLimits, SolvedMoney
from disco.records.campaign_records import PlanRecord
from disco.records.decisions import Arm
from disco.records.depths import depth_percent
from disco.records.estimate import LEVEL, Estimate
from disco.records.money import Currency, read_currency
from disco.records.plan import Plan, limit_count
from disco.records.plan_summary import ArmForecast, MoneyForecast
from disco.records.wording import counted, percent
from disco.views.charts.parts import depth_colour
from disco.views.formats import Count, Money, estimate_text
from disco.views.table import Cell, Column, FigureCell, Table

_GROUPS = {
    Arm.DECIDED: "Decided group",
    Arm.CONTROL: "Control group, random codes",
    Arm.HOLDOUT: "Holdout, no code",
}
_NO_CODE_ALLOWED = "These limits allow no code."
_NONE_LEARNED = "No purchase was learned yet, so nobody can say what the codes will bring."
_SMALL = 0.01  # of all code cost: not worth a clause
_LARGEST_WEIGHT = 1_000_000_000  # that is written in digits
_LARGEST_AMOUNT = 1e15  # likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDepth:
    """One depth under the limits."""

    depth: float
    name: str
    """Such as "20% off"."""
    colour: str
    """Of the depth, the same on every page."""
    codes: int
    """Of all groups."""
    cap: int | None
    """The most codes; None: no limit."""
    length: float
    """Of its bar, from 0 to 100."""
    cap_place: float | None
    """Of its cap on the same scale; None: no limit, or beyond the scale."""
    share: str
    """Of the customers."""
    words: str
    """Codes, cap and what is kept of it for late arrivals, in one line."""
    price: float | None
    """What one more code brings; below 0: what a code that the floor asks for costs; None: not known."""
    binds: bool
    """Whether its cap costs revenue."""
    experience: str
    """"never tried" or "rarely tried", where its forecast extrapolates; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyFigure:
    """An amount with its interval, where it is known already."""

    name: str
    estimate: Estimate
    text: str
    """The amount."""
    interval: str
    """Such as "£1.19m to £1.30m"; empty while it is being computed."""
    place: float
    """Of the amount on a scale from 0 to 100 that all amounts share."""
    band: tuple[float, float] | None
    """Lower end and width on that scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerFigures:
    """What the planner shows about solved limits."""

    headline: str
    customers: int
    """Customers who are decided about."""
    codes: int
    depths: tuple[PlannedDepth, ...]
    money: tuple[MoneyFigure, ...]
    """Revenue, markdown and objective; empty before any purchase was learned, and where nobody gets a code."""
    no_money: str
    """Why there is no money, in a sentence; empty where there is."""
    binding: tuple[str, ...]
    """What holds the plan back and what one more code or unit of budget is worth, in sentences."""
    budget: str
    """What is spent of the budget, and the chance to spend more; empty without one."""
    groups_cost: str
    """What control and holdout cost, in a sentence; empty without them."""
    warnings: tuple[str, ...]
    """What to think about before this is launched, in the sentences of `disco plan`."""
    experience: tuple[str, ...]
    """The depths whose forecast extrapolates, in the same sentences."""
    groups: Table
    """By group: customers, codes, revenue, markdown."""
    unit: Money
    seconds: float
    """How long the solve took."""
    has_intervals: bool

    def by_depth(self) -> dict[float, PlannedDepth]:
        return {one.depth: one for one in self.depths}

    def table(self) -> Table:
        """Codes by depth."""
        return Table.of(
            "Codes by depth",
            self.depths,
            {
                "Depth": lambda one: one.name,
                Column("Codes", Count()): lambda one: one.codes,
                Column("At most", Count()): lambda one: one.cap,
                "Share of customers": lambda one: one.share,
                Column("One more code brings", self.unit): lambda one: one.price,
            },
        )


def planner_figures(plan: Plan, solved: SolvedLimits, money: SolvedMoney | None) -> PlannerFigures:
    """money: None while the intervals are not there."""
    unit = Money(read_currency(solved.currency))
    source = solved if money is None else money
    codes = _codes(solved.arms)
    return PlannerFigures(
        headline=headline(plan, solved, money),
        customers=solved.customers,
        codes=sum(codes.values()),
        depths=_depths(plan, solved, codes),
        money=_money(plan, source, unit),
        no_money="" if solved.total is not None else _no_money(plan, solved),
        binding=binding_words(plan, solved),
        budget=_budget_words(plan, solved, money, unit),
        groups_cost=_groups_words(plan, solved, money, unit),
        warnings=_warnings(plan, solved, money, unit),
        experience=tuple(experience_warnings(solved.experience)),
        groups=group_table(source.arms, unit),
        unit=unit,
        seconds=solved.seconds,
        has_intervals=money is not None or solved.total is None,
    )


def with_intervals_of(figures: PlannerFigures, before: PlannerFigures | None) -> PlannerFigures:
    """The figures with the bands of the limits before, while their own are being computed."""
    known = {} if before is None else {one.name: one for one in before.money}
    return replace(
        figures,
        money=tuple(
            replace(one, interval=known[one.name].interval, band=known[one.name].band) if one.name in known else one
            for one in figures.money
        ),
    )


# ---- words ----


def headline(plan: Plan, solved: SolvedLimits, money: SolvedMoney | None) -> str:
    """The answer in one sentence: codes, money, and what holds the plan back."""
    unit = Money(read_currency(solved.currency))
    total = solved.total if money is None else money.total
    parts = [counted(sum(_codes(solved.arms).values()), "code")]
    if total is not None:
        interval = "" if money is not None else " (…)"
        parts.append(f"expected revenue {estimate_text(total.revenue, unit=unit)}{interval}")
        cost = f"code cost {unit.text(total.markdown.value)}"
        if plan.budget_amount is not None:
            chance = None if money is None else money.overspend_chance
            more = f"{'…' if chance is None else chance_text(chance)} chance of more"
            whole, reserve = unit.text(plan.budget_amount), plan.reserve.share
            at_launch = unit.text(plan.budget_amount * (1 - reserve))
            budget = f"{at_launch}, the budget of {whole} without its reserve" if reserve else f"{whole} budget"
            cost += f" of {budget} ({more})"
        parts.append(cost)
    sentence = ", ".join(parts)
    if total is None:
        return f"{sentence}. {_no_money(plan, solved)}"
    return f"{sentence}; {_what_holds(plan, solved)}."


def _no_money(plan: Plan, solved: SolvedLimits) -> str:
    if _allows_no_code(plan, solved):
        return _NO_CODE_ALLOWED
    is_unlearned = solved.version is None or any(_codes(solved.arms).values())
    return _NONE_LEARNED if is_unlearned else "Nobody gets a code under these limits."


def _allows_no_code(plan: Plan, solved: SolvedLimits) -> bool:
    if any(_codes(solved.arms).values()):
        return False
    caps = [limit_count(one.at_most, eligible=solved.customers) for one in plan.depths.values()]
    return plan.budget_amount == 0 or all(cap == 0 for cap in caps)


def _what_holds(plan: Plan, solved: SolvedLimits) -> str:
    if solved.prices is None:
        return "depths are assigned at random"
    prices_above_0 = sorted(((price, depth) for depth, price in solved.prices.items() if price > 0), reverse=True)
    limits = [f"the {_short(depth)} cap" for _, depth in prices_above_0]
    for label, prices in (solved.segment_prices or {}).items():
        limits += [f"the {_short(depth)} cap in {label}" for depth, price in prices.items() if price > 0]
    if solved.budget_price > 0:
        limits.insert(0, "the budget")
    if not limits:
        return "no limit holds you back"
    if len(limits) == 1:
        return f"{limits[0]} is what holds you back"
    if len(limits) > 2:
        return f"{limits[0]}, {limits[1]} and {counted(len(limits) - 2, 'more limit')} hold you back"
    return f"{limits[0]} and {limits[1]} hold you back"


def binding_words(plan: Plan, solved: SolvedLimits) -> tuple[str, ...]:
    """Every limit that costs something, and what one more is worth, in sentences."""
    unit = Money(read_currency(solved.currency))
    if solved.prices is None:
        return ()
    words = []
    for depth, price in solved.prices.items():
        words += _price_words(_short(depth), "", price, unit)
    for label, prices in (solved.segment_prices or {}).items():
        for depth, price in prices.items():
            words += _price_words(_short(depth), f" in {label}", price, unit)
    if solved.budget_price > 0:
        one, worth = unit.text(1.0).removesuffix(".00"), unit.text(solved.budget_price)
        words.append(f"The budget is reached: {one} more brings {worth} of revenue.")
    if not words and _allows_no_code(plan, solved):
        return (_NO_CODE_ALLOWED,)
    return tuple(words)


def _price_words(depth: str, where: str, price: float, unit: Money) -> list[str]:
    if price > 0:
        return [f"The {depth} cap{where} is reached: one more code brings {unit.text(price)}."]
    if price < 0:
        return [f"The {depth} floor{where} costs {unit.text(-price)} for each code."]
    return []


def _budget_words(plan: Plan, solved: SolvedLimits, money: SolvedMoney | None, unit: Money) -> str:
    if plan.budget_amount is None or solved.total is None:
        return ""
    words = f"{unit.text(solved.total.markdown.value)} of the budget of {unit.text(plan.budget_amount)} is planned"
    is_kept = plan.reserve.share > 0 and solved.budget_price > 0 and plan.overspend_risk is None
    words += "; the rest is kept for late arrivals." if is_kept else "."
    if solved.ceiling is not None and solved.ceiling < plan.budget_amount and plan.overspend_risk is not None:
        words += f" To keep the risk, expected code cost is limited to {unit.text(solved.ceiling)}."
    chance = None if money is None else money.overspend_chance
    if overspend_warning(plan, chance):
        return words  # the warning says it already
    return f"{words} {overspend_words(plan, chance)}"


def _groups_words(plan: Plan, solved: SolvedLimits, money: SolvedMoney | None, unit: Money) -> str:
    """What it costs that some customers are not decided about."""
    shares = {"control": plan.control.share, "holdout": plan.holdout.share}
    groups = " and ".join(name for name, share in shares.items() if share)
    if not groups or solved.total is None:
        return ""
    words = f"Price of {groups}:"
    if money is None:
        return f"{words} …"
    if money.groups_cost is None:
        return ""
    lost, saved = money.groups_cost.revenue, money.groups_cost.markdown
    small = _SMALL * solved.total.markdown.value
    if lost <= 0:
        return f"{words} no expected revenue{f', but {unit.text(-saved)} of code cost' if saved < -small else ''}."
    share = percent(lost / (lost + solved.total.revenue.value))
    less = f", less {unit.text(saved)} of saved code cost" if saved > small else ""
    return f"{words} about {unit.text(lost)} of expected revenue ({share}){less}."


def _warnings(plan: Plan, solved: SolvedLimits, money: SolvedMoney | None, unit: Money) -> tuple[str, ...]:
    sentences = (
        "" if money is None else overspend_warning(plan, money.overspend_chance),
        group_warning(
            plan,
            solved.arms if money is None else money.arms,
            budget_price=solved.budget_price,
            currency=unit.currency,
        ),
    )
    return tuple(sentence for sentence in sentences if sentence)


def _short(depth: float) -> str:
    """As in "the 30% cap"."""
    return depth_percent(depth).removesuffix(" off")


# ---- figures ----


def _codes(arms: Mapping[Arm, ArmForecast]) -> dict[float, int]:
    """By depth, of all groups."""
    found: dict[float, int] = {}
    for arm in arms.values():
        for depth, codes in arm.codes.items():
            found[depth] = found.get(depth, 0) + codes
    return found


def _depths(plan: Plan, solved: SolvedLimits, codes: Mapping[float, int]) -> tuple[PlannedDepth, ...]:
    caps = {depth: limit_count(one.at_most, eligible=solved.customers) for depth, one in plan.depths.items()}
    most = max(*codes.values(), *(cap for cap in caps.values() if cap is not None and cap <= solved.customers), 1)
    found = []
    for depth, given in codes.items():
        cap, price = caps[depth], None if solved.prices is None else solved.prices[depth]
        share, binds = percent(given / max(solved.customers, 1)), price is not None and price > 0
        found.append(
            PlannedDepth(
                depth=depth,
                name=depth_percent(depth),
                colour=depth_colour(depth),
                codes=given,
                cap=cap,
                length=100 * given / most,
                cap_place=None if cap is None or cap > most else 100 * cap / most,
                share=share,
                words=_codes_words(given, cap, kept=solved.reserve[depth] or 0 if binds else 0, share=share),
                price=price,
                binds=binds,
                experience=solved.experience[depth].words if depth in solved.experience else "",
            )
        )
    return tuple(found)


def _codes_words(codes: int, cap: int | None, *, kept: int, share: str) -> str:
    """kept: codes that a cap that is reached leaves for late arrivals.

    >>> _codes_words(11_793, 12_500, kept=707, share="23.6%"), _codes_words(40, None, kept=0, share="2.0%")
    ('11,793 codes of at most 12,500 (707 kept for late arrivals)', '40 codes, 2.0% of customers')
    """
    words = counted(codes, "code")
    if cap is None:
        return f"{words}, {share} of customers"
    return f"{words} of at most {cap:,}" + (f" ({kept:,} kept for late arrivals)" if kept else "")


def _money(plan: Plan, found: SolvedLimits | SolvedMoney, unit: Money) -> tuple[MoneyFigure, ...]:
    if found.total is None or found.objective is None:
        return ()
    weight = _weight_text(plan.objective.revenue_weight)
    named = {
        "Revenue": found.total.revenue,
        "Markdown (code cost)": found.total.markdown,
        f"Objective ({weight} × revenue − markdown)": found.objective,
    }
    scale = max(
        abs(end) for one in (found.total.revenue, found.total.markdown) for end in (one.value, *(one.ends or ()))
    )
    return tuple(_figure(name, one, unit, 1.15 * scale or 1.0) for name, one in named.items())


def _weight_text(weight: float) -> str:
    """
    >>> _weight_text(3), _weight_text(1.25), _weight_text(2e6), _weight_text(1e300)
    ('3', '1.25', '2,000,000', 'more than 1,000,000,000')
    """
    return f"{weight:,.10g}" if weight <= _LARGEST_WEIGHT else f"more than {_LARGEST_WEIGHT:,}"


def _amount_text(value: float, unit: Money) -> str:
    """
    >>> _amount_text(1234.5, Money()), _amount_text(1e300, Money()), _amount_text(-1e300, Money())
    ('£1.23k', 'more than £1,000,000bn', 'less than −£1,000,000bn')
    """
    if abs(value) <= _LARGEST_AMOUNT:
        return unit.text(value)
    return f"more than {unit.text(_LARGEST_AMOUNT)}" if value > 0 else f"less than {unit.text(-_LARGEST_AMOUNT)}"


def _figure(name: str, one: Estimate, unit: Money, scale: float) -> MoneyFigure:
    def place(value: float) -> float:
        return min(max(100 * value / scale, 0.0), 100.0)

    interval, band = "", None
    if one.ends is not None:
        lower, upper = one.ends
        is_stated = max(abs(lower), abs(upper)) <= _LARGEST_AMOUNT
        interval = f"{unit.text(lower)} to {unit.text(upper)}" if is_stated else "too large to state an interval"
        band = (place(lower), place(upper) - place(lower))
    return MoneyFigure(
        name=name,
        estimate=one,
        text=_amount_text(one.value, unit),
        interval=interval,
        place=place(one.value),
        band=band,
    )


def group_table(arms: Mapping[Arm, ArmForecast], unit: Money) -> Table:
    """Customers, codes and expected money of each group."""
    return Table.of(
        "By group",
        arms,
        {
            "Group": lambda arm: _GROUPS[arm],
            Column("Customers", Count()): lambda arm: arms[arm].customers,
            Column("Codes", Count()): lambda arm: sum(arms[arm].codes.values()),
            Column("Revenue", unit): lambda arm: getattr(arms[arm].money, "revenue", None),
            Column("Markdown", unit): lambda arm: getattr(arms[arm].money, "markdown", None),
        },
        note=f"Expected, with {LEVEL:.0%} intervals",
    )


# ---- the difference from a plan that was kept before ----


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsDifference:
    """What has changed since a kept plan."""

    against: str
    """The kept plan, in words."""
    figures: Table
    """Codes, revenue and markdown: then and now."""
    settings: Table | None
    """Settings that differ; None: none do."""


def difference_from(
    record: PlanRecord,
    plan: Plan,
    *,
    arms: Mapping[Arm, ArmForecast],
    total: MoneyForecast | None,
    currency: Currency,
) -> LimitsDifference:
    """From a kept plan to another, or to limits that are being tried, and what these lead to."""
    summary, unit = record.summary, Money(currency)
    then, now = _codes(summary.arms), _codes(arms)
    rows: list[list[Cell]] = [["Codes", _figures(sum(then.values())), _figures(sum(now.values()))]]
    rows += [
        [depth_percent(depth), _figures(then.get(depth, 0)), _figures(now.get(depth, 0))]
        for depth in sorted({*then, *now})
    ]
    for name in ("revenue", "markdown"):
        amounts = [None if one is None else getattr(one, name).value for one in (summary.total, total)]
        cells = [None if amount is None else FigureCell(amount, unit) for amount in amounts]
        rows.append([f"Expected {name}", *cells])
    changed = tuple(changed_settings(record.plan, plan))
    return LimitsDifference(
        against=f"plan {record.plan_id[:8]} of {record.plan.campaign}",
        figures=Table(caption="What comes out", columns=["Figure", "Then", "Now"], rows=rows),
        settings=Table(
            caption="What was set",
            columns=["Setting", "Then", "Now"],
            rows=[[one.key, one.before, one.after] for one in changed],
        )
        if changed
        else None,
    )


def _figures(codes: int) -> FigureCell:
    return FigureCell(codes, Count())
