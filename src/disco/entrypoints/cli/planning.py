"""Before a launch: `disco plan`, `disco frontier`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import (
    DryRunFlag,
    EngineTerminal,
    ShopTerminal,
    Terminal,
    add_command,
    figures_text,
    next_command,
    warn,
)
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco.entrypoints.python import Shop
    from disco.operations.plan import PlanResult
    from disco.operations.review import PlanDifference, PlanReview
    from disco.records.plan import Plan
    from disco.records.plan_summary import ArmForecast
    from disco.views.table import Cell, Table


def register(app: typer.Typer) -> None:
    add_command(app, plan, example="disco plan plan.yaml --dry-run; disco plan show 3f9a1c --by country")
    add_command(app, frontier, example="disco frontier plan.yaml --html frontier.html")


def plan(
    terminal: EngineTerminal,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PLAN.yaml | show ID | diff A B | copy CAMPAIGN",
            help="A campaign plan (`disco init` writes one) to decide; or what to do with plans that were decided.",
        ),
    ],
    by: Annotated[
        list[str] | None, typer.Option(help="With show: also break down by this column of the customers table.")
    ] = None,
    dry_run: DryRunFlag = False,
) -> None:
    """Decide a campaign: who would get which code, what to expect from it, and what each limit costs.

    The decided plan is kept under the hash of everything it depends on and never changes; `disco launch` puts it into
    effect. Forecasts have 90% intervals. The price of a limit is the revenue that one more code would bring.

    `plan show ID` breaks a kept plan down by depth, group, history and spend. `plan diff A B` compares two plans, each
    an id, a campaign or a plan file (.yaml, .yml or .json): settings, and who would get another code. `plan copy
    CAMPAIGN` prints the plan file of an earlier campaign, with the lines to change marked.
    """
    from disco.entrypoints.python import is_plan_file

    here = terminal.shop()
    verb, *names = words
    if by and verb != "show":
        raise UsageError("--by", found=f"disco plan {verb}", expected="disco plan show ID")
    if not is_plan_file(verb) and verb in _REVIEWS:
        if len(names) != _REVIEWS[verb][0]:
            raise UsageError(f"disco plan {verb}", found=f"{len(names)} names", expected=_REVIEWS[verb][1])
        _review(terminal, here, verb, names, by=by or [])
        return
    if names:
        fix = "Give one plan file, or show ID, diff A B, copy CAMPAIGN."
        raise UsageError("disco plan", found=" ".join(words), expected="one plan file", fix=fix)
    with terminal.progress("starting", total=1) as report:
        planned = here.plan(verb, dry_run=dry_run, report=lambda done, total, stage: report(done, total or 1, stage))
    warn(planned.warnings)
    done = None if dry_run else f"Plan {planned.plan_id} of {planned.planned.plan.campaign} is kept"
    terminal.show(planned, _plan_text(planned, terminal.folder), done=done)


_LONG_S = 20.0  # a plan that took longer says where the time went
_REVIEWS = {
    "show": (1, "the id of a plan, or a campaign"),
    "diff": (2, "two plans: ids, campaigns or plan files"),
    "copy": (1, "a campaign, or the id of a plan"),
}


def _review(terminal: Terminal, here: "Shop", verb: str, names: list[str], *, by: list[str]) -> None:
    if verb == "show":
        review = here.plan_show(names[0], by=by)
        warn((*review.warnings, *review.notes))
        terminal.show(review, _review_text(review))
    elif verb == "diff":
        difference = here.plan_diff(names[0], names[1])
        terminal.show(difference, _difference_text(difference))
    else:
        copied = here.plan_copy(names[0])
        terminal.show(copied, copied.yaml.rstrip("\n"))


def _review_text(review: "PlanReview") -> str:
    from disco.records.depths import depth_percent
    from disco.records.money import read_currency
    from disco.views.formats import Count, Money
    from disco.views.table import Column, Table

    unit = Money(read_currency(review.currency))
    depths = review.planned.plan.offered
    figures = [Column(name, Count()) for name in ("Customers", *map(depth_percent, depths))]
    parts = [
        f"Plan {review.plan_id} of {review.campaign}: {review.customers:,} customers, "
        f"{'launched' if review.launched else 'not launched'}."
    ]
    if review.left_out:
        parts.append(_left_out(review.planned.plan, review.left_out))
    for kind in dict.fromkeys(one.by for one in review.groups):
        rows: list[list[Cell]] = [
            [one.value, one.customers, *(one.codes[depth] for depth in depths), one.revenue, one.markdown]
            for one in review.groups
            if one.by == kind
        ]
        columns: list[Column | str] = [kind.capitalize(), *figures, Column("Revenue", unit), Column("Markdown", unit)]
        parts.append(figures_text(Table(caption=kind, columns=columns, rows=rows)))
    return "\n\n".join([*parts, "Columns with % are codes. Revenue and markdown have 90% intervals."])


def _difference_text(found: "PlanDifference") -> str:
    from disco.records.money import read_currency
    from disco.views.formats import Count, Money
    from disco.views.table import Column, Table

    unit = Money(read_currency(found.currency))
    parts = [f"From plan {found.first} to plan {found.second}."]
    if found.settings:
        settings: list[list[Cell]] = [[one.key, one.before or "–", one.after or "–"] for one in found.settings]
        parts.append(figures_text(Table(caption="Settings", columns=["Setting", "First", "Second"], rows=settings)))
    else:
        parts.append("The settings are equal.")
    parts.append(
        f"{found.both:,} customers are in both plans, {found.only_first:,} only in the first and "
        f"{found.only_second:,} only in the second. {found.same:,} of both get the same, {found.both - found.same:,} "
        "something else."
    )
    if found.changes:
        changes = Table.of(
            "Changes",
            found.changes,
            {
                "First": lambda one: _code(one.before),
                "Second": lambda one: _code(one.after),
                Column("Customers", Count()): lambda one: one.customers,
            },
        )
        parts.append(figures_text(changes))
    if found.revenue != (None, None):
        money: list[list[Cell]] = [["Revenue", *found.revenue], ["Markdown", *found.markdown]]
        plans: list[Column | str] = ["All codes", Column("First", unit), Column("Second", unit)]
        parts.append(figures_text(Table(caption="Money", columns=plans, rows=money)))
    return "\n\n".join(parts)


def _code(depth: float | None) -> str:
    from disco.records.depths import depth_percent

    return "no code" if depth is None else depth_percent(depth)


def _plan_text(planned: "PlanResult", shop: Path) -> str:
    from disco.records.wording import validity

    plan = planned.planned.plan
    decided = "assigned at random" if planned.prices is None else f"decided by {plan.policy.name}"
    learned = "; nothing learned yet" if planned.version is None else f" with version {planned.version} of the model"
    parts = [
        f"{plan.campaign}: {planned.customers:,} customers, {decided}{learned}. "
        f"Codes valid {validity(plan.valid.opens, plan.valid.closes)}.",
        figures_text(_arms(planned)),
    ]
    if planned.left_out:
        parts.append(_left_out(planned.planned.plan, planned.left_out))
    if planned.total is not None:
        words = f"{_corrections(planned)}{_level_and_season(planned)}"
        parts.append(f"Forecast, with 90% intervals:\n{figures_text(_money(planned))}\n{words}")
    elif planned.version is None:
        parts.append("Nothing was learned yet, so there is no forecast.")
    if planned.ceiling is not None and planned.overspend_chance is not None:
        parts.append(_budget(planned))
    if planned.prices is not None:
        parts.append("\n".join([_certificate(planned), *(f"  {words}" for words in planned.binding)]))
    if sum(planned.seconds.values()) >= _LONG_S:
        parts.append(_stages(planned))
    after = next_command(f"launch {planned.plan_id}", shop)
    parts.append("Nothing was written." if planned.dry_run else f"Plan {planned.plan_id}. {after}")
    return "\n\n".join(parts)


def _stages(planned: "PlanResult") -> str:
    """How long each stage took that took a second or more."""
    long = [f"{stage} {seconds:,.0f} s" for stage, seconds in planned.seconds.items() if seconds >= 1]
    return f"It took {sum(planned.seconds.values()):,.0f} s: {', '.join(long)}."


def _groups(planned: "PlanResult") -> "dict[str, ArmForecast]":
    """The plan's groups by the names that people read."""
    from disco.operations.arms import group_name

    at_random = planned.prices is None
    return {group_name(arm, at_random=at_random): forecast for arm, forecast in planned.arms.items()}


def _corrections(planned: "PlanResult") -> str:
    """How earlier forecasts compared with what was bought, by depth; figures and intervals contain it."""
    from disco.records.depths import depth_percent
    from disco.records.wording import counted

    said = []
    for name, forecast in _groups(planned).items():
        found = forecast.correction
        if found is None or not found.campaigns:
            continue
        given = [depth for depth, codes in forecast.codes.items() if codes]
        factors = [f"{depth_percent(one)} × {found.factors([one])[0]:.2f}" for one in given]
        said.append(f"{name} {', '.join(factors)} ({counted(found.campaigns, 'campaign')})")
    if not said:
        return (
            "Ranges are wide, because no earlier forecast has matured and could be compared with what was bought. How "
            "far whole campaigns move is an assumption."
        )
    words = f"Corrected by earlier campaigns, actual against forecast: {'; '.join(said)}."
    if max(one.correction.campaigns for one in planned.arms.values() if one.correction is not None) == 1:
        words += " One past forecast: how far whole campaigns move is still an assumption in these ranges."
    return words


def _level_and_season(planned: "PlanResult") -> str:
    """Where the level of campaigns stands, and the season, in sentences; empty where both are off."""
    found = next((one.correction for one in planned.arms.values() if one.correction is not None), None)
    words = [] if found is None else [found.level_words(), found.season_words()]
    return "".join(f" {sentence}" for sentence in (*words, planned.season) if sentence)


def _left_out(plan: "Plan", left_out: "Mapping[str, int]") -> str:
    words = []
    for key, count in left_out.items():
        why = {"include": f"not on {plan.include}", "exclude": f"on {plan.exclude}"}.get(key)
        if plan.contact is not None and key == "contact":
            why = f"at the limit of {plan.contact.words}"
        words.append(f"{count:,} {why}")
    return f"Eligible, but left out: {', '.join(words)}."


def _budget(planned: "PlanResult") -> str:
    from disco.operations.plan_warnings import overspend_words
    from disco.records.money import read_currency
    from disco.views.formats import Money

    plan, money = planned.planned.plan, Money(read_currency(planned.currency), full=True).text
    assert plan.budget_amount is not None
    assert planned.ceiling is not None
    held = f"; {plan.reserve.share:.0%} of it is kept for late arrivals" if plan.reserve.share else ""
    words = f"Budget {money(plan.budget_amount)}{held}. {overspend_words(plan, planned.overspend_chance)}"
    if plan.overspend_risk is None:
        return words
    words = f"{words.removesuffix('.')} (overspend_risk allows {100 * plan.overspend_risk:g}%)."
    if planned.ceiling < plan.budget_amount:
        words += f" To keep to it, expected markdown is limited to {money(planned.ceiling)}."
    return words


def _certificate(planned: "PlanResult") -> str:
    solved = "Proved optimal." if planned.gap == 0 else f"Optimal to within {100 * planned.gap:.1g}%."
    return f"{solved} Limits worth changing:" if planned.binding else solved


def _arms(planned: "PlanResult") -> "Table":
    from disco.records.depths import depth_percent
    from disco.views.formats import Count
    from disco.views.table import Column, Table

    depths = planned.planned.plan.offered
    rows: list[list[Cell]] = [
        [
            name,
            forecast.customers,
            *(forecast.codes.get(depth, 0) for depth in depths),
            forecast.customers - sum(forecast.codes.values()),
        ]
        for name, forecast in _groups(planned).items()
    ]
    heads = ["Customers", *map(depth_percent, depths), "No code"]
    return Table(caption="Codes", columns=["Group", *(Column(head, Count()) for head in heads)], rows=rows)


def _money(planned: "PlanResult") -> "Table":
    from disco.records.money import read_currency
    from disco.views.formats import Money
    from disco.views.table import Column, Table

    unit, figures = Money(read_currency(planned.currency)), ("revenue", "markdown", "reward")
    expected = {name: forecast.money for name, forecast in _groups(planned).items()} | {"all": planned.total}
    rows: list[list[Cell]] = []
    for name, money in expected.items():
        if money is not None:
            rows.append([name, *(getattr(money, kind) for kind in figures)])
    return Table(
        caption="Forecast", columns=["Group", *(Column(kind.capitalize(), unit) for kind in figures)], rows=rows
    )


def frontier(
    terminal: ShopTerminal,
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="A campaign plan.")],
    weights: Annotated[
        str | None, typer.Option(help="Revenue weights to try, such as 1,2,3 (default: around the plan's).")
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(
            help="Markdown budgets to try, such as 1000,2000 (default: tenths of what is spent without a budget)."
        ),
    ] = None,
    cap: Annotated[
        str | None, typer.Option(metavar="DEPTH", help="Also vary the cap of this depth, such as 0.4.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page with the chart.")] = None,
) -> None:
    """Show what a plan could achieve: expected revenue against markdown, over the weight, a budget and one cap.

    Every line is an exact allocation of all eligible customers under the plan's limits, at expected baskets, without
    exploration, control or holdout. The plan as it is now is marked. Nothing is kept.
    """
    from disco.records.depths import read_depth
    from disco.records.tables import SCHEMAS
    from disco.views.frontier import FRONTIER_NOTE, frontier_report, frontier_tables

    check_outputs(html, inputs=(plan_file,), shop=terminal.folder)
    here = terminal.shop()
    plan = here.read_plan(plan_file)
    if plan.customers.table not in SCHEMAS:  # an input that is known only now
        check_outputs(html, inputs=(here.data.table_file(plan.customers.table, setting="customers.table"),))
    found = here.frontier(
        plan,
        revenue_weights=_numbers(weights, "--weights"),
        budgets=_numbers(budgets, "--budgets"),
        cap=None if cap is None else read_depth(cap),
    )
    warn(found.warnings)
    if html is not None:
        frontier_report(found).save(html)
    text = "\n\n".join(f"{table.caption}:\n{figures_text(table)}" for table in frontier_tables(found))
    terminal.show(found, f"{text}\n\n{FRONTIER_NOTE}")


def _numbers(text: str | None, option: str) -> list[float] | None:
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(math.isfinite(number) and number > 0 for number in numbers):
        raise UsageError(option, found=repr(text), expected="numbers above 0 with commas between, such as 1,2,3")
    return sorted(numbers)
