"""Late arrivals of a running service: requests that arrive while a transaction runs are answered in the next one.

A request first looks up whether the customer has a decision; only who has none is decided about. Look-ups of a campaign
share a line, and decisions have a line for each caller, whose name the journal has. So a look-up never waits for a
commit. The first request of an empty line goes at once; those that come meanwhile go together, so that the cost of a
transaction, its commit above all, is shared when there is much to do. When more wait than can be answered soon, the
next ones are refused (503), and not kept waiting.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from disco.operations.late import LateDecision, LateDesk, NotPreparedError
from disco.web.limits import busy

if TYPE_CHECKING:
    from disco.entrypoints.python import Shop
    from disco.records.people import Actor

_MOST_TOGETHER = 128  # customers of one transaction
_MOST_WAITING = 512  # of all lines: more than a second's work is refused
_MOST_DESKS = 32  # campaigns whose model is kept in memory
# a short wait for company, once there was some: fewer transactions for a few milliseconds
_GATHER_LOOK_S, _GATHER_DECIDE_S = 0.003, 0.006

_Answer: TypeAlias = "LateDecision | Exception | None"  # None: there is no decision yet
_Work: TypeAlias = "Callable[[list[str]], dict[str, _Answer]]"


def warm() -> None:
    """Import what the first decision needs and others do not. An import while requests are answered would keep all of
    them waiting for seconds, and two threads that import at once may meet a module that is half made."""
    for name in ("numba", "disco.adapters.shop_data", "disco.features"):
        import_module(name)


@dataclass(eq=False, slots=True)
class _Line:
    """Who waits for one kind of answer."""

    campaign: str
    work: _Work  # in a thread
    gather_s: float
    waiting: "deque[tuple[str, asyncio.Future[_Answer]]]" = field(default_factory=deque)
    crowded: bool = False  # whether the last transaction had several customers


class LateQueue:
    """Asked by the routes of one server process.

    shop: gives the shop with its database open. threads: transactions at once, each of another line.
    """

    def __init__(self, shop: "Callable[[], Shop]", *, threads: int = 4, most_waiting: int = _MOST_WAITING) -> None:
        self._shop, self._most_waiting = shop, most_waiting
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="late")
        self._lines: dict[object, _Line] = {}
        self._desks: OrderedDict[str, LateDesk] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._waiting = 0

    async def ask(self, campaign: str, customer: str, actor: "Actor | None" = None) -> LateDecision:
        """The decision about a customer: now, or as it was made before. DiscoError: why there is none."""
        if self._waiting >= self._most_waiting:
            raise busy()
        self._waiting += 1
        try:
            found = await self._joined(
                campaign,
                customer,
                lambda: _Line(campaign, lambda names: self._look_up(campaign, names), _GATHER_LOOK_S),
            )
            if found is None:
                found = await self._joined(
                    (campaign, actor),
                    customer,
                    lambda: _Line(campaign, lambda names: self._decide(campaign, actor, names), _GATHER_DECIDE_S),
                )
        finally:
            self._waiting -= 1
        assert isinstance(found, LateDecision)
        return found

    async def close(self) -> None:
        """Answer who waits, then end."""
        while self._tasks:  # who was looked up may still have to be decided about
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)
        self._threads.shutdown()

    def _joined(self, key: object, customer: str, new: Callable[[], _Line]) -> "asyncio.Future[_Answer]":
        """Join the end of a line, which is made where there is none."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = new()
            task = asyncio.create_task(self._serve(key, line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        line.waiting.append((customer, answer))
        return answer

    async def _serve(self, key: object, line: _Line) -> None:
        """One transaction after the other, until nobody waits."""
        try:
            while line.waiting:
                if line.crowded:
                    await asyncio.sleep(line.gather_s)
                together = [line.waiting.popleft() for _ in range(min(len(line.waiting), _MOST_TOGETHER))]
                line.crowded = len(together) > 1
                await self._answer(line, together)
        finally:
            del self._lines[key]
            for _, answer in line.waiting:  # only where this task is cancelled
                answer.cancel()

    async def _answer(self, line: _Line, together: "list[tuple[str, asyncio.Future[_Answer]]]") -> None:
        customers = [customer for customer, answer in together if not answer.done()]  # who has gone needs no answer
        if not customers:
            return
        try:
            found = await self._worked(line, customers)
        except Exception as error:  # whatever it is, it belongs to those who asked
            found = dict.fromkeys(customers, error)
        for customer, answer in together:
            if answer.done():
                continue
            said = found.get(customer)
            if isinstance(said, Exception):
                answer.set_exception(said)
            else:
                answer.set_result(said)

    async def _worked(self, line: _Line, customers: list[str]) -> dict[str, _Answer]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, line.work, customers)
        except NotPreparedError:
            await self._prepared(line.campaign)
            return await loop.run_in_executor(self._threads, line.work, customers)

    async def _prepared(self, campaign: str) -> None:
        """Prepare a campaign that was launched by an earlier version, or restored from a backup: once for all lines."""
        work = self._preparing.get(campaign)
        if work is None:
            work = self._preparing[campaign] = asyncio.create_task(self._prepare(campaign))
        await asyncio.shield(work)

    async def _prepare(self, campaign: str) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, lambda: self._shop().contexts(campaign))
        finally:
            del self._preparing[campaign]

    def _look_up(self, campaign: str, customers: list[str]) -> dict[str, _Answer]:
        """In a thread."""
        desk = self._desks.get(campaign)
        answers, read = self._shop().late_look_up(campaign, customers, desk=desk)
        if read is not desk:
            self._keep(campaign, read)
        return dict(answers)

    def _decide(self, campaign: str, actor: "Actor | None", customers: list[str]) -> dict[str, _Answer]:
        """In a thread."""
        shop = self._shop() if actor is None else self._shop().by(actor)
        desk = self._desks.get(campaign)
        if desk is None:  # many other campaigns were asked about in between
            _, desk = shop.late_look_up(campaign, (), desk=None)
        answers, kept = shop.late_decide(list(dict.fromkeys(customers)), desk=desk)
        self._keep(campaign, kept)
        return dict(answers)

    def _keep(self, campaign: str, desk: LateDesk) -> None:
        self._desks[campaign] = desk
        self._desks.move_to_end(campaign)
        while len(self._desks) > _MOST_DESKS:
            self._desks.popitem(last=False)
