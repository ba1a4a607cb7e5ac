"""Late arrivals through the service: who arrives together is decided together, and each gets their own answer."""

import asyncio
import importlib.util
import json
import threading
from pathlib import Path

import pytest

from disco.entrypoints.service.late_queue import LateQueue
from disco.operations.late import LateDecision, NotPreparedError
from disco.records.errors import InputError, ServiceError, StateError

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "service.py"


class SlowShop:
    """Decides when it is told to; `asked` holds the customers of each transaction that decides."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.looked_up: list[list[str]] = []
        self.known: dict[str, LateDecision] = {}
        self.actors: list[object] = []
        self.go = threading.Event()
        self.prepared = 1
        self.error: Exception | None = None

    def by(self, actor):
        self.actors.append(actor)
        return self

    def late_look_up(self, campaign, customers, *, desk):
        self.looked_up.append(list(customers))
        return {name: self.known[name] for name in customers if name in self.known}, campaign

    def late_decide(self, customers, *, desk):
        campaign = desk
        self.asked.append(list(customers))
        if self.error is not None:
            raise self.error
        if not self.prepared:
            raise NotPreparedError("not prepared")
        assert self.go.wait(60)
        answers = {
            name: LateDecision(customer_id=name, depth=0.1, code=f"{campaign}-{name}", known=True) for name in customers
        }
        return {name: InputError("bad") if name == "bad" else answer for name, answer in answers.items()}, campaign

    def contexts(self, campaign):
        self.prepared += 1


async def until(condition) -> None:
    """Returns when it is true; `run` ends what waits for ever."""
    while not condition():
        await asyncio.sleep(0.005)


def run(test) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_who_arrives_while_a_transaction_runs_shares_the_next_one():
    async def test() -> None:
        shop = SlowShop()
        queue = LateQueue(lambda: shop)
        first = asyncio.create_task(queue.ask("spring", "a"))
        await until(lambda: shop.asked)
        others = [asyncio.create_task(queue.ask("spring", name)) for name in ("b", "c", "bad", "b")]
        await asyncio.sleep(0.02)
        shop.go.set()
        assert (await first).code == "spring-a"
        found = await asyncio.gather(*others, return_exceptions=True)
        assert [one.code for one in (found[0], found[1], found[3])] == ["spring-b", "spring-c", "spring-b"]
        assert isinstance(found[2], InputError)
        assert shop.asked == [["a"], ["b", "c", "bad"]]
        await queue.close()

    run(test())


def test_callers_and_campaigns_have_lines_of_their_own():
    async def test() -> None:
        shop = SlowShop()
        shop.go.set()
        queue = LateQueue(lambda: shop)
        asks = [queue.ask(campaign, "a", actor) for campaign in ("spring", "autumn") for actor in ("key 1", "key 2")]
        found = await asyncio.gather(*asks)
        assert [one.code for one in found] == ["spring-a"] * 2 + ["autumn-a"] * 2
        assert len(shop.asked) == 4
        assert sorted(shop.actors) == ["key 1", "key 1", "key 2", "key 2"]
        await queue.close()

    run(test())


def test_an_error_of_the_transaction_is_everybodys_and_the_next_one_goes_on():
    async def test() -> None:
        shop = SlowShop()
        shop.error = StateError("The campaign is paused")
        queue = LateQueue(lambda: shop)
        found = await asyncio.gather(*(queue.ask("spring", name) for name in "ab"), return_exceptions=True)
        assert [str(one) for one in found] == ["The campaign is paused"] * 2
        shop.error = None
        shop.go.set()
        assert (await queue.ask("spring", "a")).code == "spring-a"
        await queue.close()

    run(test())


def test_a_line_that_is_too_long_is_refused_at_its_end():
    async def test() -> None:
        shop = SlowShop()
        queue = LateQueue(lambda: shop, most_waiting=3)
        waiting = [asyncio.create_task(queue.ask("spring", name)) for name in "abc"]
        await until(lambda: shop.asked)
        with pytest.raises(ServiceError, match="Too many requests"):
            await queue.ask("spring", "d")
        shop.go.set()
        assert [one.code for one in await asyncio.gather(*waiting)] == ["spring-a", "spring-b", "spring-c"]
        assert (await queue.ask("spring", "d")).code == "spring-d"
        await queue.close()

    run(test())


def test_a_campaign_that_is_not_prepared_is_prepared_once():
    async def test() -> None:
        shop = SlowShop()
        shop.prepared = 0
        shop.go.set()
        queue = LateQueue(lambda: shop)
        found = await asyncio.gather(*(queue.ask("spring", "a", actor) for actor in ("key 1", "key 2", "key 3")))
        assert [one.code for one in found] == ["spring-a"] * 3
        assert shop.prepared == 1
        await queue.close()

    run(test())


def test_who_has_gone_is_not_decided_about():
    async def test() -> None:
        shop = SlowShop()
        queue = LateQueue(lambda: shop)
        first = asyncio.create_task(queue.ask("spring", "a"))
        await until(lambda: shop.asked)
        gone, stays = (asyncio.create_task(queue.ask("spring", name)) for name in ("gone", "stays"))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0)
        shop.go.set()
        await asyncio.gather(first, stays)
        assert shop.asked == [["a"], ["stays"]]
        await queue.close()

    run(test())


def test_the_benchmark_finds_no_error_and_equal_decisions():
    """On SQLite; late arrivals on PostgreSQL under load are part of `test_no_acknowledged_write_is_lost_…`."""
    spec = importlib.util.spec_from_file_location("service_benchmark", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    arguments = ["--rate", "40", "--seconds", "1", "--customers", "300", "--newcomers", "200", "--connections", "8"]
    found = benchmark.run(benchmark.parsed([*arguments, "--database", "sqlite", "--steps", "--no-overload"]))
    assert found["main"]["statuses"] == {"200": 40}
    assert found["main"]["wrong"] == 0
    assert json.dumps(found)
