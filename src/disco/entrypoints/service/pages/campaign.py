"""One campaign: what it has sold and cost so far, whether its figures can be trusted, its batches, codes and end."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

from fastapi import Path, Query, Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.shop_of import ShopOf, readings_of
from disco.operations.guardrails import guardrails_now
from disco.operations.leaks import Leaks, read_leaks
from disco.operations.overview import CampaignOverview
from disco.operations.plan_warnings import warning_as_sentence, warning_in_brief
from disco.records.campaign_records import Disposition, Phase
from disco.records.decisions import Arm
from disco.records.errors import NotFoundError
from disco.records.estimate import Estimate
from disco.records.people import Role
from disco.records.wording import count, counted, local_text, money, percent
from disco.records.wording import date as day_text
from disco.views.campaign_tables import guardrails_table
from disco.views.charts import Axis, BarChart, Bars
from disco.views.formats import Count, Money, estimate_text
from disco.views.page import Fact, Facts
from disco.views.table import Column, Table
from disco.web.discretion import as_seen
from disco.web.header import CampaignName, campaign_address, header_of, next_link, state_text
from disco.web.reading import FormOf
from disco.web.replies import CSV, PARQUET, file_reply
from disco.web.route import Routes
from disco.web.shell import Link, Page, PageRoute, go_to, respond

router = Routes(is_described=False, kind=PageRoute)

FileFormat = Annotated[Literal["csv", "parquet"], Query(alias="format")]
BatchId = Annotated[str, Path(max_length=100)]
_OPEN = (Phase.SCHEDULED, Phase.RUNNING, Phase.PAUSED)
_MOST_ASIDE = 0.01  # of the outcomes received, before it is worth a look
_BUDGET = "Budget"
_COST = "What the discounts take from the full price of what is bought"
_MEANING = {
    Disposition.APPLIED: "count in all figures",
    Disposition.DUPLICATE: "were received before, and count once",
    Disposition.EXPIRED: "came after their code had expired, was recalled, or after the campaign was closed",
    Disposition.UNMATCHED: "fit no code, customer or event of this campaign",
    Disposition.REJECTED: "cannot be read, or contradict what counts",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLine:
    """Something that was checked, in words."""

    ok: bool
    text: str
    brief: str
    """A few words, for the list of campaigns."""
    is_new: bool = True
    """Whether it has turned up since the launch."""
    fine: str = "Fine"
    """What stands above it where it is no reason to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch of outcomes, and what can be done about it."""

    source: str
    received: str
    applied: int
    aside: int
    """Rows that do not count, other than duplicates."""
    reverted: str
    """When it was taken out; empty: it counts."""
    revert: str
    """The address that takes it out."""
    quarantine: str
    """The address of the rows that do not count, each with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndForm:
    """A form that asks for the campaign's name before it ends something for good."""

    action: Literal["close", "recall"]
    address: str
    title: str
    meaning: str
    """What it does, and what it does not undo."""
    typed: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage(Page):
    """The overview of a campaign."""

    template = "campaign.html"
    rail = "Campaigns"
    name: str
    facts: Facts
    spending: BarChart | None
    """Code cost so far, expected and allowed; None before anything was expected, spent or allowed."""
    health: tuple[HealthLine, ...]
    next_step: Link
    guardrails: Table | None
    """What watches over it; None: nothing does."""
    last_look: str
    """Up to which outcomes the guardrails have looked."""
    paused: str
    """Why a guardrail has paused it, and what that does; empty: none has."""
    outcomes: Table
    has_outcomes: bool
    batches: tuple[BatchRow, ...]
    batch_table: Table
    takes_outcomes: bool
    upload: str
    """Where a file of outcomes is sent."""
    codes: str
    """How many codes there are to send, in words."""
    codes_address: str
    report: str
    recalled_codes: str | None
    """Where the codes to make invalid are; None: the campaign was not recalled."""
    ends: tuple[EndForm, ...]

    def tables(self) -> Mapping[str, Table]:
        spending = {} if self.spending is None else {"spending": self.spending.table()}
        rails = {} if self.guardrails is None else {"guardrails": self.guardrails}
        return {"outcomes": self.outcomes, "batches": self.batch_table, **spending, **rails}


@router.get("/campaigns/{name}", Role.VIEWER)
def campaign(request: Request, shop: ShopOf, name: CampaignName) -> Response:
    return respond(request, campaign_page(request, shop, name))


@router.get("/campaigns/{name}/codes", Role.PLANNER)
def codes(shop: ShopOf, name: CampaignName, kind: FileFormat = "csv") -> Response:
    """The codes to send."""
    return file_reply(lambda file: shop.export(name, file), name=f"{name}-codes", kind=_KINDS[kind])


@router.get("/campaigns/{name}/recalled", Role.PLANNER)
def recalled(shop: ShopOf, name: CampaignName, kind: FileFormat = "csv") -> Response:
    """The codes to make invalid in the shop, of a campaign that was recalled."""
    if shop.campaigns(name).campaigns[0].recalled_at is None:
        raise NotFoundError(f"Campaign {name} was not recalled", fix="Its overview has a form that recalls it.")
    return file_reply(lambda file: shop.recall(name, file), name="recalled", kind=_KINDS[kind])


_KINDS = {"csv": CSV, "parquet": PARQUET}


@router.post("/campaigns/{name}/batches/{batch_id}/revert", Role.PLANNER)
def revert(request: Request, shop: ShopOf, name: CampaignName, batch_id: BatchId) -> Response:
    done = shop.revert(batch_id)
    said = f"The batch was taken out; {counted(done.counts.applied, 'outcome')} no longer count."
    return go_to(request, campaign_address(name) + "#outcomes", said=said)


@router.post("/campaigns/{name}/close", Role.PLANNER)
def close(request: Request, shop: ShopOf, name: CampaignName, form: FormOf) -> Response:
    return _ended(request, shop, name, "close", typed=form.text("close_name"))


@router.post("/campaigns/{name}/recall", Role.PLANNER)
def recall(request: Request, shop: ShopOf, name: CampaignName, form: FormOf) -> Response:
    return _ended(request, shop, name, "recall", typed=form.text("recall_name"))


def _ended(request: Request, shop: Shop, name: str, action: Literal["close", "recall"], *, typed: str) -> Response:
    if typed != name:
        error = f"This is not the campaign's name. Type {name} to {action} it." if typed else f"Type {name} first."
        return respond(
            request, campaign_page(request, shop, name, wrong=(action, typed, error)), status=422, part="ends"
        )
    if action == "close":
        shop.close(name)
        said = f"Campaign {name} is closed: outcomes that arrive from now on do not count."
    else:
        codes = shop.recall(name).codes
        said = f"Campaign {name} is recalled. Make {counted(codes, 'code')} invalid in the shop; their list is below."
    return go_to(request, campaign_address(name), said=said)


def campaign_page(
    request: Request, shop: Shop, name: str, *, wrong: tuple[str, str, str] | None = None
) -> OverviewPage:
    """wrong: a form that was refused, what was typed in it, and why."""
    with shop.store() as store:
        found = as_seen(request, readings_of(request).overview(store, name, today=shop.clock.today()))
        leaks = read_leaks(store, name)
        watched = None if found.plan.guardrails is None else guardrails_now(store, name)
    looked = None if watched is None else watched.last_outcomes
    batches = tuple(
        BatchRow(
            source=batch.source,
            received=local_text(batch.received_at, shop.settings.locale),
            applied=batch.applied,
            aside=batch.expired + batch.unmatched + batch.rejected,
            reverted="" if batch.reverted_at is None else local_text(batch.reverted_at, shop.settings.locale),
            revert=campaign_address(name, f"batches/{batch.batch_id}/revert"),
            quarantine=f"/api/v1/batches/{batch.batch_id}/quarantine",
        )
        for batch in found.entry.batches
    )
    phase = found.progress.phase
    return OverviewPage(
        title="Overview",
        answer=_answer(found),
        header=header_of(found.progress, here="overview"),
        name=name,
        facts=_facts(found),
        spending=_spending(found),
        health=(*health_of(found), *_leak_lines(leaks)),
        next_step=next_link(found.progress),
        guardrails=None if watched is None else guardrails_table(watched),
        last_look="No outcomes were received yet."
        if looked is None
        else f"They look at all outcomes; the last came on {local_text(looked, shop.settings.locale)}.",
        paused="" if watched is None else watched.paused,
        outcomes=_outcomes(found),
        has_outcomes=found.progress.has_outcomes,
        batches=batches,
        batch_table=_batch_table(batches),
        takes_outcomes=phase is not Phase.CLOSED,
        upload=f"/api/v1{campaign_address(name, 'outcomes')}",
        codes=f"{counted(found.entry.codes, 'code')} of the launch",
        codes_address=campaign_address(name, "codes"),
        report=f"/api/v1{campaign_address(name, 'report')}",
        recalled_codes=None if found.entry.recalled_at is None else campaign_address(name, "recalled"),
        ends=tuple(_with_error(form, wrong) for form in _ends(found)),
    )


# ---- words


def _answer(found: CampaignOverview) -> str:
    """Where it stands, and what it has sold and cost."""
    state, entry, sales = state_text(found.progress), found.entry, found.sales
    write = partial(money, currency=found.currency)
    codes = counted(entry.codes, "code")
    if found.progress.phase is Phase.SCHEDULED:
        return f"{state[0].upper()}{state[1:]}: {codes} to send."
    if not sales.purchases:
        return f"{state[0].upper()}{state[1:]}: {codes}, and no purchase was reported yet."
    so_far = " so far" if found.progress.phase in (Phase.RUNNING, Phase.PAUSED) else ""
    spent = f"{write(sales.markdown)} spent on codes"
    if found.budget is not None:
        spent = f"{write(sales.markdown)} of the {write(found.budget)} budget spent"
    compared = found.against_forecast
    missed = f", {compared.brief}" if compared is not None and compared.missed else ""
    return (
        f"{state[0].upper()}{state[1:]}{missed}: {codes}, {counted(sales.purchases, 'purchase')}{so_far}, "
        f"{write(sales.revenue)} revenue, {spent}."
    )


def _facts(found: CampaignOverview) -> Facts:
    unit, expected, sales = Money(found.currency), found.expected, found.sales
    entry = found.entry
    share = percent(sales.purchases / entry.codes) if entry.codes else "–"
    return Facts(
        [
            Fact(
                "Revenue with codes",
                unit.text(sales.revenue),
                _expected(None if expected is None else expected.revenue, unit),
            ),
            Fact(
                "Code cost", unit.text(sales.markdown), _expected(None if expected is None else expected.markdown, unit)
            ),
            Fact("Purchases", count(sales.purchases), f"{share} of {counted(entry.codes, 'code')}"),
            Fact("Customers", count(entry.customers), _model_text(found)),
        ]
    )


def _expected(estimate: Estimate | None, unit: Money) -> str:
    return "no forecast" if estimate is None else f"expected {estimate_text(estimate, unit=unit)}"


def _model_text(found: CampaignOverview) -> str:
    if found.plan.policy.assigns_at_random:
        return "codes assigned at random"
    version = found.entry.version
    return "decided before anything was learned" if version is None else f"decided by version {version} of the model"


def _spending(found: CampaignOverview) -> BarChart | None:
    """Bars from zero: what was spent, what is expected by the end with its interval, what is allowed."""
    write, spent = partial(money, currency=found.currency), found.sales.markdown
    forecast = None if found.expected is None else found.expected.markdown
    bars: list[tuple[str, float, float, float]] = [("So far", spent, spent, spent)]
    if forecast is not None:
        lower, upper = forecast.ends or (forecast.value, forecast.value)
        bars.append((_expected_name(found), forecast.value, lower, upper))
    if found.budget is not None:
        bars.append((_BUDGET, found.budget, found.budget, found.budget))
    if len(bars) == 1:
        return None
    names, values, lowers, uppers = zip(*bars, strict=True)
    return BarChart(
        title=_spending_title(spent, found.budget, None if forecast is None else forecast.value, write=write),
        subtitle=_COST + "; a bar with an interval is a forecast, the grey one a limit"
        if found.budget is not None
        else _COST + "; a bar with an interval is a forecast",
        categories=names,
        y=Axis("Code cost", Money(found.currency)),
        bars=[Bars("Code cost", values, lowers, uppers, muted=[name == _BUDGET for name in names])],
        interval="90% interval",
        height_px=260,
    )


def _expected_name(found: CampaignOverview) -> str:
    return "Expected by the end" if found.progress.phase in _OPEN else "Expected"


def _spending_title(spent: float, budget: float | None, expected: float | None, *, write: "partial[str]") -> str:
    if budget is not None and spent > budget:
        return f"The codes have cost {write(spent - budget)} more than the budget of {write(budget)}"
    if budget is not None and budget > 0:
        return f"The codes have cost {percent(spent / budget, decimals=0)} of the budget of {write(budget)}"
    if expected:
        return f"The codes have cost {percent(spent / expected, decimals=0)} of what was expected for all of them"
    return f"The codes have cost {write(spent)}"


def _leak_lines(found: Leaks) -> tuple[HealthLine, ...]:
    """Uses of codes by others than their owner; nothing where there was no use."""
    if not found.uses:
        return ()
    return (HealthLine(ok=not found.found, text=found.words, brief="codes leak"),)


def health_of(found: CampaignOverview) -> tuple[HealthLine, ...]:
    """What was checked about a campaign."""
    outcomes = found.entry.outcomes
    received = sum(outcomes.values())
    aside = outcomes[Disposition.UNMATCHED] + outcomes[Disposition.REJECTED]
    lines = []
    if (compared := found.against_forecast) is not None:
        label = "Fine" if compared.is_known else "Not yet"
        lines.append(HealthLine(ok=not compared.missed, text=compared.words, brief=compared.brief, fine=label))
    if found.sample_ratio is not None:
        sizes = ", ".join(f"{count(size)} {_GROUP[arm]}" for arm, size in found.sample_ratio.found.items())
        text = (
            f"The groups have the sizes that were planned: {sizes}."
            if found.sample_ratio.ok
            else f"The groups do not have the sizes that were planned: {sizes}. Find out where customers were lost "
            "before you trust any figure."
        )
        lines.append(HealthLine(ok=found.sample_ratio.ok, text=text, brief="group sizes are not as planned"))
    else:
        lines.append(
            HealthLine(
                ok=False,
                text="There is no group to compare with, so nobody can say what codes bring.",
                brief="no group to compare with",
                is_new=False,
            )
        )
    if received:
        share = aside / received
        verb = "fits" if aside == 1 else "fit"
        words = f"{count(aside)} of {counted(received, 'outcome')} {verb} no code or cannot be read"
        if not aside:
            words = "The outcome fits a code" if received == 1 else f"All {counted(received, 'outcome')} fit a code"
        fine = share <= _MOST_ASIDE
        lines.append(
            HealthLine(
                ok=fine,
                text=f"{words}." if fine else f"{words}; the rows are listed below, by batch.",
                brief=f"{count(aside)} of {counted(received, 'outcome')} {verb} no code",
            )
        )
    if found.budget is not None and found.sales.markdown > found.budget:
        lines.append(HealthLine(ok=False, text="The codes have cost more than the budget.", brief="over budget"))
    lines += [
        HealthLine(ok=False, text=warning_as_sentence(warning), brief=warning_in_brief(warning), is_new=False)
        for warning in found.warnings
    ]
    return tuple(lines)


_GROUP = {
    str(Arm.DECIDED): "decided",
    str(Arm.CONTROL): "in the control group",
    str(Arm.HOLDOUT): "in the holdout",
}


_OUTCOME = {Disposition.APPLIED: "Counted"}


def _outcomes(found: CampaignOverview) -> Table:
    return Table.of(
        "Outcomes received",
        Disposition,
        {
            "Outcome": lambda kind: _OUTCOME.get(kind, str(kind).capitalize()),
            Column("Rows", Count()): lambda kind: found.entry.outcomes[kind],
            "What it means": lambda kind: f"These {_MEANING[kind]}.",
        },
    )


def _batch_table(batches: tuple[BatchRow, ...]) -> Table:
    return Table.of(
        "Batches of outcomes",
        batches,
        {
            "Received": lambda one: one.received,
            "Source": lambda one: one.source,
            Column("Count", Count()): lambda one: one.applied,
            Column("Set aside", Count()): lambda one: one.aside,
            "State": lambda one: f"taken out {one.reverted}" if one.reverted else "counted",
        },
    )


def _ends(found: CampaignOverview) -> tuple[EndForm, ...]:
    name, phase = found.progress.campaign, found.progress.phase
    forms = []
    if phase in _OPEN:
        forms.append(
            EndForm(
                action="recall",
                address=campaign_address(name, "recall"),
                title="Recall the codes",
                meaning="Codes that were not used become invalid now, and you get their list to block them in the "
                "shop. Purchases made before now still count. This cannot be undone.",
            )
        )
    if phase is not Phase.CLOSED:
        is_early = not found.matured
        last = f"Outcomes are expected until {day_text(found.progress.matures_on)}." if is_early else ""
        forms.append(
            EndForm(
                action="close",
                address=campaign_address(name, "close"),
                title="Close the campaign",
                meaning="No more codes are given, and outcomes that arrive from now on do not count. This cannot be "
                f"undone. {last}".strip(),
            )
        )
    return tuple(forms)


def _with_error(form: EndForm, wrong: tuple[str, str, str] | None) -> EndForm:
    if wrong is None or wrong[0] != form.action:
        return form
    return replace(form, typed=wrong[1], error=wrong[2])


@router.post("/campaigns/{name}/pause", Role.PLANNER)
def pause(request: Request, shop: ShopOf, name: CampaignName) -> Response:
    shop.pause(name)
    said = f"Campaign {name} is paused: customers who arrive now get no code. Codes that are out stay valid."
    return go_to(request, campaign_address(name), said=said)


@router.post("/campaigns/{name}/resume", Role.PLANNER)
def resume(request: Request, shop: ShopOf, name: CampaignName) -> Response:
    shop.resume(name)
    said = f"Campaign {name} goes on: customers who arrive now get codes again."
    return go_to(request, campaign_address(name), said=said)
