"""Learning: how certain the model is, how its forecasts did, what is assigned at random, and learning now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Query, Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.shop_of import ShopOf, readings_of
from disco.office.jobs.routes import asked_job
from disco.operations.overview import NextStep, campaign_progress
from disco.records.jobs import JobKind
from disco.records.people import Role
from disco.views.charts import BarChart, CurveChart, IntervalChart
from disco.views.learning_pages import (
    drift_chart,
    exploration_chart,
    exploration_table,
    forecasts_chart,
    forecasts_table,
    learning_words,
    level_chart,
    level_words,
    uncertainty_chart,
    versions_table,
)
from disco.views.table import Table
from disco.web.reading import FormOf
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, go_to, respond

router = Routes(is_described=False, kind=PageRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnChoice:
    """A campaign that can be learned."""

    campaign: str
    ready: bool
    """Whether all its outcomes are in."""
    ticked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPage(Page):
    """What the model has learned."""

    template = "learning.html"
    rail = "Learning"
    choices: tuple[LearnChoice, ...]
    """Campaigns that the active version does not know in full."""
    learn_error: str = ""
    uncertainty: CurveChart | None
    forecasts: CurveChart | None
    drift: IntervalChart | None
    level: CurveChart | None
    """Actual against expected, with what the forecasts took it times."""
    level_words: str
    exploration: BarChart | None
    versions: Table
    forecast_table: Table
    exploration_table: Table
    active: int | None
    """The version that decides the next plan."""
    known: tuple[int, ...]
    """Versions that can be made the active one."""
    typed: str = ""
    activate_error: str = ""

    def tables(self) -> Mapping[str, Table]:
        return {"versions": self.versions, "forecasts": self.forecast_table, "exploration": self.exploration_table}


@router.get("/learning", Role.VIEWER)
def learning(request: Request, shop: ShopOf, campaign: Annotated[str, Query(max_length=200)] = "") -> Response:
    return respond(request, _page(request, shop, ticked=(campaign,) if campaign else None))


@router.post("/learning/learn", Role.PLANNER)
def learn(request: Request, shop: ShopOf, form: FormOf) -> Response:
    """Submit a job that learns from the campaigns that were ticked."""
    chosen = form.texts("campaign")
    with shop.store() as store:
        known = {one.campaign for one in campaign_progress(store, today=shop.clock.today())}
        wrong = [name for name in chosen if name not in known]
        if not chosen or wrong:
            error = f"There is no campaign {wrong[0]}." if wrong else "Tick at least one campaign."
            page = replace(_page(request, shop, ticked=chosen), learn_error=error)
            return respond(request, page, status=422, part="learn")
    job = asked_job(shop, request, JobKind.LEARN, {"campaigns": list(chosen)})
    return go_to(request, f"/jobs/{job.id}", said="Learning was asked for; this page shows how far it is.")


@router.post("/learning/activate", Role.PLANNER)
def activate(request: Request, shop: ShopOf, form: FormOf) -> Response:
    """Go back, or forward, to a version of the model."""
    typed = form.text("version")
    page = _page(request, shop)
    error = ""
    if typed not in map(str, page.known):
        numbers = ", ".join(map(str, page.known)) or "none yet"
        error = f"Type the number of a version: {numbers}."
    elif int(typed) == page.active:
        error = f"Version {typed} is the active one already."
    if error:
        page = replace(page, typed=typed, activate_error=error)
        return respond(request, page, status=422, part="activate")
    shop.activate(int(typed))
    return go_to(request, "/learning", said=f"Version {typed} of the model decides the next plan.")


def _page(request: Request, shop: Shop, *, ticked: tuple[str, ...] | None = None) -> LearningPage:
    """ticked: campaigns to learn from; None: those whose outcomes are all in."""
    today, currency = shop.clock.today(), shop.settings.locale.currency
    with shop.store() as store:
        found = readings_of(request).learning(store, today=today)
        open_ones = [one for one in campaign_progress(store, today=today) if one.has_outcomes and not one.learned]
        with store.reading() as transaction:
            known = transaction.beliefs.numbers()
    choices = tuple(
        LearnChoice(
            campaign=one.campaign,
            ready=one.next_step is NextStep.LEARN,
            ticked=one.next_step is NextStep.LEARN if ticked is None else one.campaign in ticked,
        )
        for one in open_ones
    )
    return LearningPage(
        title="Learning",
        answer=learning_words(found),
        choices=choices,
        uncertainty=uncertainty_chart(found),
        forecasts=forecasts_chart(found, currency),
        drift=drift_chart(found),
        level=level_chart(found),
        level_words=level_words(found),
        exploration=exploration_chart(found),
        versions=versions_table(found),
        forecast_table=forecasts_table(found, currency),
        exploration_table=exploration_table(found),
        active=next((one.version for one in found.versions if one.active), None),
        known=known,
    )
