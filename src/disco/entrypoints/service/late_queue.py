"""Late arrivals of a running service: requests that arrive while a transaction runs are decided in the next one.

Each campaign and caller has a line. The first request of an empty line goes at once; those that come meanwhile go
together, so that the cost of a transaction, its commit above all, is shared when there is much to do. A line longer
than what can be answered soon is refused at its end (503), and not kept waiting.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disco.entrypoints.service.limits import busy
from disco.records.errors import DiscoError

if TYPE_CHECKING:
    from disco.entrypoints.python import Shop
    from disco.operations.late import LateDecision
    from disco.operations.late_desk import LateDesk
    from disco.records.people import Actor

_MOST_TOGETHER = 128  # customers of one transaction
_MOST_WAITING = 512  # of all lines: more than a second's work is refused
_MOST_DESKS = 32  # campaigns whose model is kept in memory
_GATHER_S = 0.004  # a short wait for company, once there was some: half the transactions for 4 ms


@dataclass(eq=False, slots=True)
class _Line:
    """Who waits for one campaign and caller."""

    waiting: "deque[tuple[str, asyncio.Future[LateDecision]]]" = field(default_factory=deque)
    crowded: bool = False  # whether the last transaction had several customers


class LateQueue:
    """Asked by the routes of one server process.

    shop: gives the shop with its database open. threads: transactions at once, each of another line.
    """

    def __init__(self, shop: "Callable[[], Shop]", *, threads: int = 2, most_waiting: int = _MOST_WAITING) -> None:
        self._shop, self._most_waiting = shop, most_waiting
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="late")
        self._lines: dict[tuple[str, Actor | None], _Line] = {}
        self._desks: OrderedDict[str, LateDesk] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._waiting = 0

    async def ask(self, campaign: str, customer: str, actor: "Actor | None" = None) -> "LateDecision":
        """The decision about a customer: now, or as it was made before. DiscoError: why there is none."""
        if self._waiting >= self._most_waiting:
            raise busy()
        line = self._lines.get((campaign, actor))
        if line is None:
            line = self._lines[campaign, actor] = _Line()
            task = asyncio.create_task(self._serve(campaign, actor, line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        answer: asyncio.Future[LateDecision] = asyncio.get_running_loop().create_future()
        line.waiting.append((customer, answer))
        self._waiting += 1
        try:
            return await answer
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Answer who waits, then end."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown()

    async def _serve(self, campaign: str, actor: "Actor | None", line: _Line) -> None:
        """One transaction after the other, until nobody waits."""
        try:
            while line.waiting:
                if line.crowded:
                    await asyncio.sleep(_GATHER_S)
                together = [line.waiting.popleft() for _ in range(min(len(line.waiting), _MOST_TOGETHER))]
                line.crowded = len(together) > 1
                await self._answer(campaign, actor, together)
        finally:
            del self._lines[campaign, actor]
            for _, answer in line.waiting:  # only where this task is cancelled
                answer.cancel()

    async def _answer(
        self, campaign: str, actor: "Actor | None", together: "list[tuple[str, asyncio.Future[LateDecision]]]"
    ) -> None:
        customers = [customer for customer, answer in together if not answer.done()]  # who has gone needs no answer
        try:
            found = await self._decided(campaign, actor, customers)
        except Exception as error:  # whatever it is, it belongs to those who asked
            found = dict.fromkeys(customers, error)
        for customer, answer in together:
            if answer.done():
                continue
            said = found[customer]
            if isinstance(said, Exception):
                answer.set_exception(said)
            else:
                answer.set_result(said)

    async def _decided(
        self, campaign: str, actor: "Actor | None", customers: list[str]
    ) -> "dict[str, LateDecision | DiscoError | Exception]":
        from disco.operations.late_desk import NotPreparedError

        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._decide, campaign, actor, customers)
        except NotPreparedError:
            await self._prepared(campaign)
            return await loop.run_in_executor(self._threads, self._decide, campaign, actor, customers)

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

    def _decide(
        self, campaign: str, actor: "Actor | None", customers: list[str]
    ) -> "dict[str, LateDecision | DiscoError | Exception]":
        """In a thread."""
        shop, desk = self._shop(), self._desks.get(campaign)
        shop = shop if actor is None else shop.by(actor)
        answers, kept = shop.late_at_desk(campaign, customers, desk=desk)
        if kept is not None:
            self._desks[campaign] = kept
            self._desks.move_to_end(campaign)
            while len(self._desks) > _MOST_DESKS:
                self._desks.popitem(last=False)
        return dict(answers)
