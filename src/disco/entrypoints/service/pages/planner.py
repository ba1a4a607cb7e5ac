"""The planner: limits on the left, what they lead to on the right.

A change of a field saves the draft (`POST /plan/{draft}`), whose reply asks for the numbers of that revision. Numbers
are solved at full size; their intervals follow in a request of their own. While customers are being opened, the page
asks how far they are.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date as day_of
from datetime import datetime
from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from anyio import to_thread
from fastapi import Path, Query, Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages import plan_form
from disco.entrypoints.service.pages.plan_form import DepthRow, SegmentRow, field_id
from disco.entrypoints.service.planner_desk import OpeningProgress, ShownFigures, SupersededError
from disco.entrypoints.service.shop_of import ShopOf
from disco.office.drafts.use_cases import get_draft, put_draft
from disco.office.jobs.bodies import read_body
from disco.office.jobs.routes import asked_job
from disco.office.jobs.use_cases import get_job
from disco.operations.review import FIRST_SHARE, first_cap, plan_to_compare
from disco.operations.what_if import OpenAudience, about
from disco.records.errors import (
    DiscoError,
    InfeasibleError,
    InputError,
    NotFoundError,
    PlanError,
    RevisionError,
    StateError,
    UnavailableError,
)
from disco.records.jobs import Draft, Job, JobKind, JobState
from disco.records.locale import Locale
from disco.records.people import Role
from disco.records.plan import Plan
from disco.records.wording import counted, date
from disco.views.planner import PlannerFigures
from disco.views.table import Table
from disco.web.header import draft_address, draft_header
from disco.web.reading import Form, FormOf, sentence
from disco.web.replies import json_reply
from disco.web.route import Routes
from disco.web.shell import Page, PageRoute, go_to, respond

if TYPE_CHECKING:
    from disco.entrypoints.service.app import ShopService
    from disco.entrypoints.service.planner_desk import PlannerDesk

router = Routes(is_described=False, kind=PageRoute)
DraftName = Annotated[str, Path(max_length=100)]
Against = Annotated[str, Query(max_length=100)]
POLICIES = {
    "thompson": "Decide, and try out what is uncertain (Thompson sampling)",
    "ucb": "Decide, and prefer what is uncertain (upper confidence bound)",
    "epsilon_greedy": "Decide, and now and then at random (epsilon-greedy)",
    "greedy": "Decide by what is known, without trying anything out",
    "random": "Assign depths at random, to learn without bias",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceWords:
    """The customers who are open."""

    customers: int
    sentence: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherValue:
    """A field in which two versions of a draft differ."""

    field: str
    theirs: str
    ours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftConflict:
    """Somebody else was faster."""

    sentence: str
    revision: int
    """Theirs."""
    differences: tuple[OtherValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerPage(Page):
    """A draft with what its limits lead to."""

    template = "planner.html"
    rail = "Plans"
    draft: str
    revision: int
    saved: str
    """Who changed it last, and when."""
    page_id: str
    """Names this page of this browser, so that its newest question is the one that counts."""
    against: str
    """The plan or campaign that it is compared with; empty: the last one."""
    texts: Mapping[str, str]
    errors: Mapping[str, str]
    """By field."""
    others: tuple[str, ...] = ()
    """What is wrong with the plan as a whole."""
    depths: tuple[DepthRow, ...] = ()
    segments: tuple[SegmentRow, ...] = ()
    other_keys: tuple[str, ...] = ()
    """Keys of the plan that have no field; they are kept."""
    holdout_words: str = ""
    shown: ShownFigures | None = None
    is_earlier: bool = False
    """Whether the figures are those of earlier limits."""
    is_waiting: bool = False
    """Whether the numbers of this revision have to be asked for."""
    opening: OpeningProgress | None = None
    audience: AudienceWords | None = None
    problem: tuple[str, ...] = ()
    """Why there are no new figures, line by line."""
    can_retry: bool = False
    conflict: DraftConflict | None = None
    job: Job | None = None
    """That saves the plan."""

    @property
    def figures(self) -> PlannerFigures | None:
        return None if self.shown is None else self.shown.figures

    @property
    def policies(self) -> Mapping[str, str]:
        return POLICIES

    @property
    def groups_words(self) -> str:
        """The groups in brief."""
        named = {"control": "control.share", "holdout": "holdout.share", "for late arrivals": "reserve.share"}
        return ", ".join(f"{self.text(key)} {name}" for name, key in named.items() if self.text(key)) or "none"

    @property
    def dates_words(self) -> str:
        """When codes are valid, in brief."""
        start = self.text("valid.from")
        day = date(day_of.fromisoformat(start)) if start and self.date_type("valid.from") == "date" else start
        return f"{day}, {self.text('valid.days')} days"

    @property
    def address(self) -> str:
        return draft_address(self.draft)

    def id_of(self, name: str) -> str:
        return field_id(name)

    @property
    def first_share(self) -> str:
        return FIRST_SHARE

    def found_id(self, depth: float) -> str:
        """Where it stands what a depth comes to."""
        return f"{field_id(f'depths.{depth}.at_most')}-found"

    def date_type(self, name: str) -> str:
        """Of a field for a day; one that holds something else shows it."""
        try:
            day_of.fromisoformat(self.text(name))
        except ValueError:
            return "text" if self.text(name) else "date"
        return "date" if len(self.text(name)) == len("2027-03-08") else "text"

    def text(self, name: str) -> str:
        return self.texts.get(name, "")

    def error(self, name: str) -> str:
        return self.errors.get(name, "")

    def has_error(self, *beginnings: str) -> bool:
        return any(name.startswith(beginnings) for name in self.errors)

    def tables(self) -> Mapping[str, Table]:
        if self.shown is None:
            return {}
        found = {"codes": self.shown.figures.table(), "groups": self.shown.figures.groups}
        difference = self.shown.difference
        return found if difference is None else {**found, "difference": difference.figures}


# ---- routes ----


@router.get("/plan/{draft}", Role.PLANNER)
def planner(request: Request, shop: ShopOf, draft: DraftName, against: Against = "") -> Response:
    found, desk = draft_of(shop, draft), _desk(request)
    plan, errors, others = _read(shop, found)
    if plan is not None:
        opened = desk.find(plan)
        desk.forget(plan, failure_only=opened is None or opened.version == _active_version(shop))
    page = _page(shop, desk, found, plan, errors=errors, others=others, against=against)
    return respond(request, page)


@router.post("/plan/{draft}", Role.PLANNER)
def save(request: Request, shop: ShopOf, draft: DraftName, form: FormOf) -> Response:
    """Keep what was typed; `action` adds or removes a depth or a limit of a segment."""
    action, seen, against = form.text("action"), plan_form.revision_of(form), form.text("against")[:100]
    found, desk = draft_of(shop, draft), _desk(request)
    mine, long = plan_form.written(found.plan, form), plan_form.too_long(found.plan, form)
    refused: dict[str, str] = {}
    try:
        mine = mine if long else _acted(mine, action, form, cap_of=partial(_first_cap, shop, desk, found))
    except InputError as error:
        refused["new_value" if action == "add-segment" else "new_depth"] = sentence(error)
        if error.what == "segments.column":
            refused = {"segments.column": sentence(error)}
    refused |= long
    try:
        if refused or mine != found.plan or seen != found.revision:
            with shop.store() as store:
                found = put_draft(store, draft, mine, if_match=seen, clock=shop.clock)
    except RevisionError:
        return _conflicting(request, shop, form, found, mine)
    plan, errors, others = _read(shop, found)
    texts = {name: form.text(name) for name in ("new_depth", "new_value", *long) if name in form and refused}
    page = _page(
        shop,
        desk,
        found,
        plan,
        errors={**errors, **refused},
        others=others,
        against=against,
        texts=texts,
        page_id=form.text("page")[:40],
    )
    if not action:
        return respond(request, page, part="saved_reply")
    return _retargeted(respond(request, page, part="limits", status=422 if refused else 200), "#limits", "outerHTML")


@router.get("/plan/{draft}/numbers", Role.PLANNER)
async def numbers(
    request: Request,
    shop: ShopOf,
    draft: DraftName,
    revision: Annotated[int, Query(ge=0)],
    page: Annotated[str, Query(max_length=40)] = "",
    again: bool = False,
    against: Against = "",
) -> Response:
    """Solve the limits of a draft; or how far its customers are; or why there are no figures."""
    desk = _desk(request)
    desk.ask(page, revision)
    found = await to_thread.run_sync(draft_of, shop, draft)
    if found.revision != revision and found.actor.is_same_person(request.state.caller.actor.name):
        return Response(status_code=204)  # a later change of theirs asks by itself
    plan, errors, others = _read(shop, found)
    make = partial(_page, shop, desk, found, plan, others=others, against=against, asked=True, page_id=page)
    if plan is None:
        problem = ("The numbers wait until the fields that are marked can be used.",)
        return await _answered(request, make, errors=errors, problem=problem)
    if again:
        desk.forget(plan)
    try:
        opened = desk.find(plan)
        if opened is None:
            is_wanted = partial(_says, shop, draft, about(plan))
            return await _answered(request, make, opening=desk.open(shop, plan, is_wanted=is_wanted))
        record = await to_thread.run_sync(_compared, shop, plan, against)
        solve = partial(desk.solve, draft, found.revision, plan, opened, page=page, number=revision, record=record)
        await to_thread.run_sync(solve, limiter=desk.solving)
    except SupersededError:
        return Response(status_code=204)
    except InfeasibleError as error:
        beside = plan_form.conflict_fields(error, found.plan)
        return await _answered(request, make, errors=beside, problem=_lines(error))
    except DiscoError as error:
        field = plan_form.error_field(error, plan_form.texts_of(found.plan)) if isinstance(error, InputError) else None
        beside = {} if field is None else {field: sentence(error)}
        return await _answered(request, make, errors=beside, problem=_lines(error), can_retry=True)
    return await _answered(request, make)


@router.get("/plan/{draft}/intervals", Role.PLANNER)
async def intervals(
    request: Request, shop: ShopOf, draft: DraftName, revision: Annotated[int, Query(ge=0)], against: Against = ""
) -> Response:
    """The money of the limits that were solved last, with its intervals."""
    desk, found = _desk(request), await to_thread.run_sync(draft_of, shop, draft)
    plan, _, _ = _read(shop, found)
    opened = None if plan is None else desk.find(plan)
    if plan is None or opened is None or found.revision != revision:
        return Response(status_code=204)
    await to_thread.run_sync(desk.intervals, draft, revision, plan, opened, limiter=desk.solving)
    page = await to_thread.run_sync(partial(_page, shop, desk, found, plan, against=against, asked=True))
    return respond(request, page, part="money_reply")


@router.get("/plan/{draft}/numbers.json", Role.PLANNER)
async def numbers_json(request: Request, shop: ShopOf, draft: DraftName) -> Response:
    """What the planner shows, as `disco plan --json` would state it."""
    desk, found = _desk(request), await to_thread.run_sync(draft_of, shop, draft)
    plan = shop.read_plan(found.plan)
    opened = desk.find(plan)
    if opened is None:
        raise StateError("The customers of this plan are not open", fix="Open the planner, and ask again.")
    solve = partial(desk.solve, draft, found.revision, plan, opened, page="", number=0)
    solved = await to_thread.run_sync(solve, limiter=desk.solving)
    money = await to_thread.run_sync(desk.intervals, draft, found.revision, plan, opened, limiter=desk.solving)
    return json_reply({**solved.as_dict(), **money.as_dict(), "seconds": solved.seconds})


@router.post("/plan/{draft}/save", Role.PLANNER)
def save_as_plan(request: Request, shop: ShopOf, draft: DraftName, form: FormOf) -> Response:
    """Decide the plan of a draft as a job, as `POST /api/v1/plans` does: the plan that the fields of the page say."""
    found, desk, seen = draft_of(shop, draft), _desk(request), plan_form.revision_of(form)
    if seen != found.revision and not _is_shown(found, form, by=request.state.caller.actor.name):
        return _conflicting(request, shop, form, found, found.plan)
    if not plan_form.is_same(found.plan, form):  # a field may have been left by the press of this very button
        try:
            with shop.store() as store:
                found = put_draft(store, draft, plan_form.written(found.plan, form), if_match=seen, clock=shop.clock)
        except RevisionError:
            return _conflicting(request, shop, form, found, found.plan)
    plan, errors, others = _read(shop, found)
    errors |= plan_form.too_long(found.plan, form)
    make = partial(_page, shop, desk, found, plan, against=form.text("against")[:100], page_id=form.text("page")[:40])
    if plan is None or errors:
        page = make(errors=errors, others=others, asked=True)
        return respond(request, page, part="saving_reply", status=422)
    body = read_body(JobKind.PLAN, {"plan": dict(found.plan), "dry_run": False})
    job = asked_job(shop, request, JobKind.PLAN, body.model_dump(mode="json", exclude_unset=True))
    return respond(request, make(job=job), part="saving_reply")


@router.get("/plan/{draft}/saving/{job_id}", Role.PLANNER)
def saving(request: Request, shop: ShopOf, draft: DraftName, job_id: Annotated[str, Path(max_length=100)]) -> Response:
    """How far the job is; its plan, once it is there."""
    with shop.store() as store:
        job = get_job(store, job_id)
    plan_id = None if job.result is None else job.result.get("plan_id")
    if job.kind is not JobKind.PLAN or (job.state is JobState.DONE and plan_id is None):
        raise NotFoundError(f"Job {job_id} saves no plan", fix="The page Jobs says what it does.")
    if job.state is JobState.DONE:
        return go_to(request, f"/plans/{plan_id}/launch?draft={quote(draft, safe='')}")
    found = draft_of(shop, draft)
    plan, _, _ = _read(shop, found)
    return respond(request, _page(shop, _desk(request), found, plan, asked=True, job=job), part="saving")


# ---- what a page is made of ----


def _desk(request: Request) -> "PlannerDesk":
    service: ShopService = request.app.state.service
    return service.desk


def draft_of(shop: Shop, name: str) -> Draft:
    """A draft; where it is gone, operators read which page lists the others."""
    try:
        with shop.store() as store:
            return get_draft(store, name)
    except NotFoundError:
        fix = "It may have been deleted. The page Plans lists all drafts."
        raise NotFoundError(f"There is no draft {name}", fix=fix) from None


def _read(shop: Shop, draft: Draft) -> tuple[Plan | None, dict[str, str], tuple[str, ...]]:
    """The plan of a draft; or what is wrong with it, by field and as a whole."""
    try:
        return shop.read_plan(draft.plan), {}, ()
    except PlanError as error:
        return None, *plan_form.errors_of(error, plan_form.texts_of(draft.plan))


def _says(shop: Shop, draft: str, customers: str) -> bool:
    """Whether a draft still is about these customers (`about`)."""
    with suppress(UnavailableError):
        try:
            return about(shop.read_plan(draft_of(shop, draft).plan)) == customers
        except (InputError, NotFoundError):  # it was changed into no plan, or deleted
            return False
    return True


def _active_version(shop: Shop) -> int | None:
    """Of the model that decides now: customers who were opened with another are opened again."""
    with shop.store() as store, store.reading() as transaction:
        active = transaction.beliefs.version()
    return None if active is None else active.number


def _compared(shop: Shop, plan: Plan, against: str) -> Any:
    with shop.store() as store:
        return plan_to_compare(store, plan.campaign, against=against)


def _page(
    shop: Shop,
    desk: "PlannerDesk",
    draft: Draft,
    plan: Plan | None,
    *,
    errors: Mapping[str, str] | None = None,
    others: tuple[str, ...] = (),
    against: str = "",
    asked: bool = False,
    opening: OpeningProgress | None = None,
    problem: tuple[str, ...] = (),
    can_retry: bool = False,
    texts: Mapping[str, str] | None = None,
    job: Job | None = None,
    page_id: str = "",
) -> PlannerPage:
    shown, locale = desk.shown(draft.name), shop.settings.locale
    is_now = shown is not None and shown.revision == draft.revision and not problem and opening is None
    opened = None if plan is None else desk.find(plan)
    return PlannerPage(
        title=f"Plan {draft.name}",
        answer=_answer(shown, plan, opening, problem),
        header=draft_header(draft.name, here="planner"),
        draft=draft.name,
        revision=draft.revision,
        saved=f"Saved by {draft.actor.name} at {_clock(draft.changed_at, locale)}",
        page_id=page_id or token_urlsafe(9),
        against=against,
        texts={**plan_form.texts_of(draft.plan), **(texts or {})},
        errors=errors or {},
        others=others,
        depths=plan_form.depth_rows(draft.plan),
        segments=plan_form.segment_rows(draft.plan),
        other_keys=plan_form.other_keys(draft.plan),
        holdout_words=plan_form.holdout_words(draft.plan, lasting=shop.settings.holdout.lasting),
        shown=shown,
        is_earlier=shown is not None and not is_now,
        is_waiting=not asked and not (is_now and opened is not None),
        opening=opening,
        audience=None if opened is None else _audience(opened, locale),
        problem=problem,
        can_retry=can_retry,
        job=job,
    )


def _answer(
    shown: ShownFigures | None, plan: Plan | None, opening: OpeningProgress | None, problem: tuple[str, ...]
) -> str:
    if problem and plan is None:
        return "Some of what was typed cannot be used yet."
    if problem:
        return "These limits give no plan."
    if shown is not None:
        return shown.figures.headline
    if opening is None and plan is None:
        return "This plan is not complete yet."
    whom = "the" if opening is None or opening.eligible is None else f"{opening.eligible:,}"
    return f"Opening {whom} customers; the numbers follow within a minute."


def _audience(opened: OpenAudience, locale: Locale) -> AudienceWords:
    left = [f"{counted(number, 'customer')} left out by {key}" for key, number in opened.left_out.items() if number]
    model = "nothing was learned yet" if opened.version is None else f"version {opened.version} of the model"
    return AudienceWords(
        customers=len(opened),
        sentence=f"{counted(len(opened), 'customer')}, read at {_clock(opened.opened_at, locale)} with {model}.",
        notes=(*left, *opened.notes),
    )


def _clock(moment: datetime, locale: Locale) -> str:
    local = locale.local(moment)
    return f"{local:%H:%M} on {date(local.date())}"


async def _answered(request: Request, make: Any, **more: Any) -> Response:
    page = await to_thread.run_sync(partial(make, **more))
    return respond(request, page, part="consequences_reply")


# ---- changes ----


def _is_shown(draft: Draft, form: Form, *, by: str) -> bool:
    """Whether a page of the person who wrote a draft last says the same as the draft, field by field."""
    return (
        draft.actor.is_same_person(by)
        and plan_form.has_fields_of(draft.plan, form)
        and plan_form.is_same(draft.plan, form)
    )


def _first_cap(shop: Shop, desk: "PlannerDesk", draft: Draft, depth: float) -> str:
    """Of a depth that is added: small where its forecast extrapolates."""
    plan, _, _ = _read(shop, draft)
    opened = None if plan is None else desk.find(plan)
    if opened is None:
        return first_cap(None, is_learned=_active_version(shop) is not None)
    return first_cap(opened.experience((depth,)).get(depth), is_learned=opened.version is not None)


def _acted(plan: dict[str, Any], action: str, form: Form, *, cap_of: Callable[[float], str]) -> dict[str, Any]:
    if action == "add-depth":
        return plan_form.with_depth(plan, form.text("new_depth"), cap_of=cap_of)
    if action == "remove-depth":
        return plan_form.without_depth(plan, form.text("key"))
    if action == "add-segment":
        return plan_form.with_segment(plan, form.text("new_value"), form.text("new_value_depth"))
    if action == "remove-segment":
        return plan_form.without_segment(plan, form.text("value"), form.text("key"))
    return plan


def _conflicting(request: Request, shop: Shop, form: Form, theirs: Draft, mine: Mapping[str, Any]) -> Response:
    """Both versions, field by field; nothing was written."""
    theirs = draft_of(shop, theirs.name)
    own = plan_form.texts_of(plan_form.written(theirs.plan, form))
    before = plan_form.texts_of(theirs.plan)
    me = theirs.actor.is_same_person(request.state.caller.actor.name)
    who = "You changed this plan in another window" if me else f"{theirs.actor.name} changed this plan"
    local = shop.settings.locale.local(theirs.changed_at)
    conflict = DraftConflict(
        sentence=f"{who} at {local:%H:%M}.",
        revision=theirs.revision,
        differences=tuple(
            OtherValue(field=plan_form.field_label(name), theirs=before.get(name) or "–", ours=own.get(name) or "–")
            for name in dict.fromkeys([*before, *own])
            if before.get(name, "") != own.get(name, "")
        ),
    )
    page = PlannerPage(
        title=f"Plan {theirs.name}",
        answer=conflict.sentence,
        draft=theirs.name,
        revision=theirs.revision,
        saved="",
        page_id="",
        against=form.text("against"),
        texts={},
        errors={},
        conflict=conflict,
    )
    return _retargeted(respond(request, page, part="conflict", status=412), "#conflict-place", "innerHTML")


def _retargeted(response: Response, target: str, swap: str) -> Response:
    response.headers["hx-retarget"], response.headers["hx-reswap"] = target, swap
    return response


def _lines(error: DiscoError) -> tuple[str, ...]:
    return tuple(line.strip() for line in str(error).splitlines() if line.strip())
