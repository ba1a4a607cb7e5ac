"""Laws of other orders: off they change nothing, on they do what they say, and the truth adds up."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from disco.records.errors import InputError
from disco.retailer import Retailer, RetailerSettings
from disco.retailer.laws import REGULAR_CODES, REMEMBERED_DAYS, SentBefore, answer_share, placed
from disco.retailer.settings import WORLDS, World

SETTINGS = RetailerSettings(customers=1500, seed=5)
LAWS = ("anyway", "waiting", "reference")
DAY = timedelta(days=1)


def year(settings: RetailerSettings, campaigns: int = 3) -> Retailer:
    """A month with a code for four customers in five, again and again."""
    shop = Retailer.simulate(settings)
    customers = [number for number in range(settings.customers) if number % 5]
    for _ in range(campaigns):
        start = datetime.combine(shop.today, datetime.min.time())
        ids = [f"c{number:07d}" for number in customers]
        codes = pa.table(
            {
                "code_id": [f"{shop.today}-{name}" for name in ids],
                "customer_id": ids,
                "campaign_id": [str(shop.today)] * len(ids),
                "depth": np.resize([0.1, 0.2, 0.3], len(ids)),
                "sent_at": pa.array([start] * len(ids), pa.timestamp("us")),
                "expires_at": pa.array([start + 28 * DAY] * len(ids), pa.timestamp("us")),
            }
        )
        shop = shop.respond(codes).shop
    return shop


@pytest.fixture(scope="module")
def shops() -> dict[str, Retailer]:
    return {name: year(SETTINGS.in_world(name)) for name in ("ordinary", *LAWS)}


def ordinary_orders(shop: Retailer) -> pa.Table:
    orders = shop.since_history["orders"]
    return orders.filter(pc.is_null(orders["code"]))


@pytest.mark.parametrize("law", LAWS)
def test_a_law_that_is_off_changes_no_row(shops: dict[str, Retailer], law: str) -> None:
    off = year(replace(SETTINGS, world=replace(WORLDS[law], **{law: 0.0})))
    assert off.since_history == shops["ordinary"].since_history
    assert np.array_equal(off.added().orders, shops["ordinary"].added().orders)


@pytest.mark.parametrize("law", LAWS)
def test_a_law_takes_orders_from_those_with_codes_alone_and_their_returns_with_them(
    shops: dict[str, Retailer], law: str
) -> None:
    plain, under = ordinary_orders(shops["ordinary"]), ordinary_orders(shops[law])
    assert set(under["order_id"].to_pylist()) < set(plain["order_id"].to_pylist())
    gone = plain.filter(pc.invert(pc.is_in(plain["order_id"], value_set=under["order_id"].combine_chunks())))
    numbers = pc.cast(pc.utf8_slice_codeunits(gone["customer_id"], 1), pa.int64()).to_numpy()
    assert (numbers % 5 > 0).all()
    returned = shops[law].since_history["returns"]["order_id"]
    assert not pc.any(pc.is_in(returned, value_set=gone["order_id"].combine_chunks())).as_py()
    assert returned.length() > 0
    early = pc.less(returned, "o202509000000000")
    assert pc.sum(early).as_py() > 0  # returns of the history's orders still come


def test_the_truth_is_what_happened_less_what_would_have(shops: dict[str, Retailer]) -> None:
    for name, shop in shops.items():
        truth, orders = shop.added(), shop.since_history["orders"]
        coded = orders.filter(pc.is_valid(orders["code"]))
        lost = (
            pc.sum(ordinary_orders(shops["ordinary"])["paid"]).as_py() - pc.sum(ordinary_orders(shop)["paid"]).as_py()
        )
        assert truth.revenue.sum() == pytest.approx(pc.sum(coded["paid"]).as_py() - lost)
        assert truth.markdown.sum() == pytest.approx(pc.sum(pc.subtract(coded["full_price"], coded["paid"])).as_py())
        assert truth.margin(0.4).sum() == pytest.approx(0.4 * truth.full_price.sum() - truth.markdown.sum())
        assert (truth.revenue[::5] == 0).all()  # nothing changes for those without codes
        assert (name == "ordinary") == (lost == 0)
    assert shops["ordinary"].added().revenue.sum() > shops["waiting"].added().revenue.sum()


def test_orders_stay_with_the_probabilities_of_the_page() -> None:
    """20,000 orders of one day each, of customers with codes of before."""
    count, day = 20_000, datetime(2026, 1, 1)
    ids = [f"c{number:07d}" for number in range(count)]
    orders = pa.table(
        {
            "order_id": [f"o{number}" for number in range(count)],
            "customer_id": ids,
            "ordered_at": pa.array([day] * count, pa.timestamp("us")),
        }
    )

    def codes(*sent: tuple[float, int, int | None]) -> pa.Table:
        """depth, days ago, and days ago of the use."""
        parts = [
            pa.table(
                {
                    "customer_id": ids,
                    "depth": np.full(count, depth),
                    "sent_at": pa.array([day - ago * DAY] * count, pa.timestamp("us")),
                    "redeemed_at": pa.array([None if used is None else day - used * DAY] * count, pa.timestamp("us")),
                }
            )
            for depth, ago, used in sent
        ]
        return pa.concat_tables(parts)

    def stays(world: World, table: pa.Table) -> float:
        settings = replace(RetailerSettings(customers=count), world=world)
        return float(placed(orders, table, settings=settings).mean())

    assert stays(World(anyway=0.6), codes((0.2, 10, 5))) == pytest.approx(0.4, abs=0.015)
    assert stays(World(anyway=0.6), codes((0.2, 10, -5))) == pytest.approx(0.4, abs=0.015)  # used after the order
    assert stays(World(anyway=0.6), codes((0.2, 50, 31))) == 1.0
    assert stays(World(anyway=0.6), codes((0.2, 10, None))) == 1.0
    assert stays(World(waiting=0.3), codes((0.2, 5, None))) == pytest.approx(1 - 0.3 / REGULAR_CODES, abs=0.015)
    several = codes(*((0.2, ago, None) for ago in (5, 40, 70, 100)))
    assert stays(World(waiting=0.3), several) == pytest.approx(0.7, abs=0.015)
    assert stays(World(waiting=0.3), codes((0.2, REMEMBERED_DAYS, None))) == 1.0
    remembered = codes((0.1, 1, None), (0.4, 60, None))  # 0.4 half forgotten
    assert stays(World(reference=1.5), remembered) == pytest.approx(np.exp(-1.5 * 0.2), abs=0.015)
    at = np.full(2, SentBefore.of(remembered).sent_at.max() + 86_400_000_000)
    share = answer_share(remembered, customer=np.array([0, 1]), depth=np.array([0.05, 0.3]), at=at, reference=1.5)
    assert share.tolist() == pytest.approx([np.exp(-1.5 * 0.15), 1.0])


def test_the_truth_of_answers_knows_what_customers_remember(shops: dict[str, Retailer]) -> None:
    shop, ids = shops["reference"], ["c0000000", "c0000003"]  # no codes; codes of 10%, 20% or 30%
    plain, under = (each.truth(ids, (0.05, 0.5)).purchase_probability for each in (shops["ordinary"], shop))
    assert np.array_equal(plain[0], under[0])
    assert under[1, 0] < plain[1, 0]
    assert under[1, 1] == plain[1, 1]


@pytest.mark.parametrize("wrong", [World(anyway=1.2), World(waiting=-0.1), World(reference=-1.0)])
def test_a_law_beyond_its_range_is_refused(wrong: World) -> None:
    with pytest.raises(InputError, match=r"world\."):
        replace(SETTINGS, world=wrong)


def test_campaigns_of_the_history_are_not_remembered(codes_for: Callable[..., pa.Table]) -> None:
    shop = Retailer.simulate(SETTINGS.in_world("reference"))
    codes = codes_for(SETTINGS.campaign("A"), range(300))
    assert shop.respond(codes).outcomes == Retailer.simulate(SETTINGS).respond(codes).outcomes
