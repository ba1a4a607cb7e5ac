"""What planners have open at this server: audiences that are being opened, and the limits that were solved last.

Audiences are opened in threads of their own, so that a page only asks how far they are: one at a time, where those
whose condition is slow let others go first. Solves run one beside another up to a limit; a page that has asked anew no
longer waits for what it asked before.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeVar

from anyio import CapacityLimiter

from disco.adapters.conditions import Turn
from disco.adapters.sentences import in_words
from disco.entrypoints.python import Shop
from disco.operations.audience import check_audience
from disco.operations.what_if import (
    Frontier,
    OpenAudience,
    OpenAudiences,
    SolvedLimits,
    SolvedMoney,
    about,
    intervals,
    reachable,
    solve,
)
from disco.records.campaign_records import PlanRecord
from disco.records.errors import DefectError, DiscoError
from disco.records.plan import Plan
from disco.views.planner import (
    LimitsDifference,
    PlannerFigures,
    difference_from,
    planner_figures,
    with_intervals_of,
)
from disco.web.logs import log, places_of

_MOST_BEGUN, _MOST_BEGUN_BY_ONE = 32, 2  # audiences that wait for their turn or their condition, in all and by caller
_LOOKS_S = 1.0  # between two checks whether a page still needs an audience
_SOLVED_AT_ONCE = 2
_REMEMBERED = 200  # of small values
_FRONTIERS = 20
_SOLVED = 2  # whose arrays are kept until their intervals are asked for
_COUNTING = "counting the customers"
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningProgress:
    """How far an audience is that is being opened."""

    stage: str = "waiting for another audience"
    done: int = 0
    total: int = 1
    eligible: int | None = None
    """Customers who meet the condition and the lists; None: not counted yet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SolvedDraft:
    """Solved limits of a draft, with what their intervals need."""

    revision: int
    opened: OpenAudience
    plan: Plan
    solved: SolvedLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFigures:
    """What a draft's page shows: the figures, and of which revision they are."""

    revision: int
    figures: PlannerFigures
    difference: LimitsDifference | None
    """From a plan that was kept before."""


class SupersededError(Exception):
    """The page has asked anew meanwhile."""


class _UnwantedError(Exception):
    """No page needs the audience any more."""


class PlannerDesk:
    """The planners of one server. Threads may share it."""

    def __init__(self, audiences: OpenAudiences, *, stopping: threading.Event) -> None:
        self.audiences, self._stopping, self._lock = audiences, stopping, threading.Lock()
        self.solving = CapacityLimiter(_SOLVED_AT_ONCE)
        self._opening = threading.Lock()  # one at a time: each needs much memory and all processors
        self._openers: dict[str, str] = {}  # what a plan says about its customers → who has asked for them
        self._keys: OrderedDict[str, str] = OrderedDict()  # what a plan says about its customers → key of the audience
        self._progress: dict[str, OpeningProgress] = {}
        self._failed: OrderedDict[str, DiscoError] = OrderedDict()
        self._asked: OrderedDict[str, int] = OrderedDict()  # page → its newest question
        self._solved: OrderedDict[str, SolvedDraft] = OrderedDict()  # by draft
        self._shown: OrderedDict[str, ShownFigures] = OrderedDict()  # by draft
        self._drawing = ThreadPoolExecutor(1, thread_name_prefix="frontier")
        self._frontiers: OrderedDict[str, Future[Frontier]] = OrderedDict()  # by plan

    # ---- audiences

    def find(self, plan: Plan) -> OpenAudience | None:
        """The audience of a plan, where it is open."""
        with self._lock:
            key = self._keys.get(about(plan))
        return None if key is None else self.audiences.find(key)

    def open(self, shop: Shop, plan: Plan, *, is_wanted: Callable[[], bool] = lambda: True) -> OpeningProgress:
        """Begin to open the audience of a plan, unless that has begun; how far it is. Raises why it could not.

        A caller who has begun others waits, and begins by asking again, as pages do. is_wanted: asked now and then;
        where it says no, the opening ends, and begins anew if somebody else asks.
        """
        name = about(plan)
        with self._lock:
            if name in self._failed:
                raise copy(self._failed[name])  # each thread raises an error of its own
            if name not in self._progress:
                caller, begun = shop.data.conditions.caller, list(self._openers.values())
                if len(begun) >= _MOST_BEGUN or begun.count(caller) >= _MOST_BEGUN_BY_ONE or self._stopping.is_set():
                    return OpeningProgress()
                self._progress[name], self._openers[name] = OpeningProgress(), caller
                threading.Thread(target=self._load, args=(shop, plan, name, is_wanted), name="audience").start()
            return self._progress[name]

    def forget(self, plan: Plan, *, failure_only: bool = False) -> None:
        """Read the tables again the next time; failure_only: only where they could not be read."""
        name = about(plan)
        with self._lock:
            self._failed.pop(name, None)
            if failure_only:
                return
            key = self._keys.pop(name, None)
        if key is not None:
            self.audiences.close(key)

    def _load(self, shop: Shop, plan: Plan, name: str, is_wanted: Callable[[], bool]) -> None:
        looked, turn = time.monotonic(), Turn(self._opening)

        def watch() -> None:
            nonlocal looked
            if self._stopping.is_set():
                raise _UnwantedError
            if time.monotonic() - looked > _LOOKS_S:
                looked = time.monotonic()
                if not is_wanted():
                    raise _UnwantedError

        def tell(done: int, total: int | None, stage: str) -> None:
            watch()
            before = self._progress[name]
            self._progress[name] = replace(before, stage=stage, done=done + 1, total=(total or 0) + 1)

        shop = replace(shop, watch=watch, turn=turn)
        try:
            turn.take(watch)
            tell(-1, 3, _COUNTING)
            counted = len(check_audience(shop.data, plan).ids)
            self._progress[name] = replace(self._progress[name], eligible=counted)
            with shop.site() as site:
                opened = self.audiences.of(site, plan, report=tell)
            with self._lock:
                _remember(self._keys, name, opened.key)
        except _UnwantedError:
            pass  # whoever asks later begins anew
        except Exception as error:
            said = self._said(error)
            with self._lock:
                _remember(self._failed, name, said)
        finally:
            turn.leave()
            with self._lock:
                del self._progress[name], self._openers[name]

    def _said(self, error: BaseException) -> DiscoError:
        said = in_words(error)
        if isinstance(said, DefectError):
            log().error("unhandled exception", **places_of(error))
        return said

    # ---- limits

    def ask(self, page: str, number: int) -> None:
        """A page asks anew. Without the name of a page nobody waits, so nothing is noted."""
        if not page:
            return
        with self._lock:
            _remember(self._asked, page, max(number, self._asked.get(page, 0)))

    def solve(
        self,
        draft: str,
        revision: int,
        plan: Plan,
        opened: OpenAudience,
        *,
        page: str,
        number: int,
        record: PlanRecord | None = None,
    ) -> SolvedLimits:
        """Solve the limits of a draft, and keep what its page shows. SupersededError where the page has asked anew, or
        where later limits, which may be solved faster, are shown already.

        record: the kept plan that they are compared with.
        """
        with self._lock:
            if page and self._asked.get(page, number) > number:
                raise SupersededError
        solved = solve(opened, plan)
        self.audiences.settle()
        with self._lock:
            before = self._shown.get(draft)
            if before is not None and before.revision > revision:
                if page:
                    raise SupersededError
                return solved
            figures = planner_figures(plan, solved, None)
            figures = with_intervals_of(figures, None if before is None else before.figures)
            difference = None
            if record is not None:
                currency = opened.basis.currency
                difference = difference_from(record, plan, arms=solved.arms, total=solved.total, currency=currency)
            _remember(self._shown, draft, ShownFigures(revision=revision, figures=figures, difference=difference))
            kept = SolvedDraft(revision=revision, opened=opened, plan=plan, solved=solved)
            _remember(self._solved, draft, kept, most=_SOLVED)
        return solved

    def intervals(self, draft: str, revision: int, plan: Plan, opened: OpenAudience) -> SolvedMoney:
        """Draw the intervals of a draft's limits, which are solved again where their arrays are no longer kept."""
        with self._lock:
            kept = self._solved.get(draft)
        if kept is None or kept.revision != revision:
            kept = SolvedDraft(revision=revision, opened=opened, plan=plan, solved=solve(opened, plan))
        money = intervals(kept.opened, kept.plan, kept.solved)
        with self._lock:
            now = self._shown.get(draft)
            if now is not None and now.revision == revision:
                figures = planner_figures(kept.plan, kept.solved, money)
                _remember(self._shown, draft, replace(now, figures=figures))
        return money

    def shown(self, draft: str) -> ShownFigures | None:
        """The figures that were shown last of a draft."""
        with self._lock:
            return self._shown.get(draft)

    def frontier(self, plan: Plan, opened: OpenAudience) -> Frontier | None:
        """What a plan could reach; None while it is computed. Raises why it failed; the next call tries again."""
        name = f"{opened.key} {opened.opened_at} {plan.model_dump_json()}"
        with self._lock:
            if name not in self._frontiers:
                _remember(self._frontiers, name, self._drawing.submit(self._draw, opened, plan), most=_FRONTIERS)
            found = self._frontiers[name]
            if not found.done():
                return None
            failure = found.exception()
            if failure is not None:
                del self._frontiers[name]
        if failure is None:
            return found.result()
        raise copy(self._said(failure))

    def _draw(self, opened: OpenAudience, plan: Plan) -> Frontier:
        found = reachable(opened, plan)
        self.audiences.settle()
        return found

    def close(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
        self._drawing.shutdown(wait=False, cancel_futures=True)


def _remember(kept: "OrderedDict[str, Kept]", name: str, value: Kept, *, most: int = _REMEMBERED) -> None:
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > most:
        kept.popitem(last=False)
