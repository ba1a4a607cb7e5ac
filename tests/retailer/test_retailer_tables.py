"""The raw tables: whole, consistent, inside the calendar, and the same however much is simulated at once."""

from dataclasses import replace
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from disco.records.table_rules import TableSource
from disco.records.tables import SCHEMAS
from disco.records.validation import validate
from disco.retailer import Retailer, RetailerSettings
from disco.retailer.settings import Baskets, Calendar, OrdinaryCodes, PurchaseChance, ShoppingHabits

Tables = dict[str, pa.Table]


def test_columns_are_those_users_were_promised(tables: Tables) -> None:
    for name, table in tables.items():
        promised = [column.name for column in SCHEMAS[name].columns]
        assert table.column_names[: len(promised)] == promised
    assert tables["orders"].schema.field("full_price").type == pa.float64()
    assert tables["orders"].schema.field("ordered_at").type == pa.timestamp("us")
    assert tables["site"].schema.field("day").type == pa.date32()


def test_the_house_s_own_validation_finds_nothing(shop: Retailer, tables: Tables) -> None:
    """Keys, references, money, depths, dates: on the day the history ends nothing lies in the future."""
    sources = [TableSource(name, table, f"{name}.parquet") for name, table in tables.items()]
    report = validate(sources, as_of=date.fromordinal(shop.today.toordinal() - 1))
    assert report.problems == ()
    assert report.rows["customers"] == 12_000


def test_everything_happens_inside_the_history(shop: Retailer, tables: Tables) -> None:
    start, end = shop.settings.calendar.history_start, shop.settings.calendar.history_end
    for name, column in {"orders": "ordered_at", "returns": "returned_at", "codes": "sent_at", "site": "day"}.items():
        low, high = pc.min_max(tables[name][column]).as_py().values()
        days = [day.date() if isinstance(day, datetime) else day for day in (low, high)]
        assert start <= days[0] < days[1] < end
    orders = tables["orders"].join(tables["customers"], keys="customer_id")
    assert pc.all(pc.greater_equal(orders["ordered_at"].cast(pa.date32()), orders["joined_on"])).as_py()


def test_a_redeemed_code_and_its_order_tell_the_same_story(tables: Tables) -> None:
    codes = tables["codes"].filter(pc.is_valid(tables["codes"]["redeemed_at"]))
    orders = tables["orders"].filter(pc.is_valid(tables["orders"]["code"]))
    assert codes.num_rows == orders.num_rows > 1000
    pairs = orders.join(codes, keys="code", right_keys="code_id", right_suffix=" of code")
    assert pc.all(pc.equal(pairs["ordered_at"], pairs["redeemed_at"])).as_py()
    assert pc.all(pc.equal(pairs["customer_id"], pairs["customer_id of code"])).as_py()
    expected = pairs["full_price"].to_numpy() * (1 - pairs["depth"].to_numpy())
    np.testing.assert_allclose(pairs["paid"].to_numpy(), expected, atol=0.0051)


def test_every_order_is_seen_on_the_site(tables: Tables) -> None:
    orders = tables["orders"]
    days = pa.table({"customer_id": orders["customer_id"], "day": orders["ordered_at"].cast(pa.date32())})
    bought = days.group_by(["customer_id", "day"]).aggregate([([], "count_all")])
    both = bought.join(tables["site"], keys=["customer_id", "day"], join_type="inner")
    assert both.num_rows == bought.num_rows
    assert pc.all(pc.greater_equal(both["checkouts"], both["count_all"])).as_py()


def test_equal_settings_give_equal_tables_and_another_seed_does_not(shop: Retailer, tables: Tables) -> None:
    again = Retailer.simulate(replace(shop.settings)).tables()
    assert all(again[name].equals(tables[name]) for name in tables)
    other = Retailer.simulate(replace(shop.settings, seed=shop.settings.seed + 1)).tables()
    assert not any(other[name].equals(tables[name]) for name in tables)


def test_a_smaller_shop_is_the_beginning_of_a_larger_one(shop: Retailer, tables: Tables) -> None:
    """So nothing depends on how many blocks are simulated, or on who else is there."""
    small = Retailer.simulate(replace(shop.settings, customers=10_000)).tables()
    last = pa.scalar("c0010000")
    for name in ("customers", "orders", "codes", "site"):
        begin = tables[name].filter(pc.less(tables[name]["customer_id"], last))
        assert begin.equals(small[name])


def test_blocks_come_one_by_one(shop: Retailer, tables: Tables) -> None:
    blocks = shop.history()
    first = next(blocks)
    assert first["customers"].num_rows == 10_000
    assert first["orders"].equals(tables["orders"].slice(0, first["orders"].num_rows))
    assert next(blocks)["customers"].num_rows == 2_000


def test_the_season_shows(tables: Tables) -> None:
    """Late November against the same days of June, and weekends against working days, of customers who were there."""
    when = tables["orders"]["ordered_at"].to_numpy().astype("datetime64[D]")

    def orders_between(start: str, end: str) -> int:
        return int(((when >= np.datetime64(start)) & (when < np.datetime64(end))).sum())

    busy, quiet = orders_between("2024-11-21", "2024-12-02"), orders_between("2024-06-21", "2024-07-02")
    assert busy > 1.4 * quiet
    weekend = (when.astype(np.int64) + 3) % 7 >= 5
    assert 1.05 < weekend.sum() / 2 / ((~weekend).sum() / 5) < 1.35


def test_some_customers_have_not_bought_for_a_year_and_some_joined_late(tables: Tables) -> None:
    recent = tables["orders"].filter(pc.greater_equal(tables["orders"]["ordered_at"], pa.scalar(datetime(2024, 9, 1))))
    active = pc.count_distinct(recent["customer_id"]).as_py()
    assert 0.03 < 1 - active / 12_000 < 0.25
    late = pc.greater_equal(tables["customers"]["joined_on"], pa.scalar(date(2024, 1, 1)))
    assert pc.mean(late.cast(pa.float64())).as_py() == pytest.approx(0.3, abs=0.03)


def _residuals(settings: RetailerSettings) -> tuple[pa.Table, np.ndarray]:
    """Orders without a code, and ln F minus the customer's baseline."""
    shop = Retailer.simulate(settings)
    orders = shop.tables()["orders"]
    orders = orders.filter(pc.is_null(orders["code"]))
    truth = shop.truth(orders["customer_id"], [0.1])
    return orders, np.log(orders["full_price"].to_numpy()) - truth.baseline


def test_residuals_have_the_sd_of_the_settings_and_share_their_mission() -> None:
    """Var = residual_sd²; two orders of one customer in one month differ by 2·(residual_sd² − mission_sd²)."""
    settings = RetailerSettings(
        customers=10_000, seed=11, calendar=Calendar(basket_share=0.0), baskets=Baskets(residual_sd=0.8, mission_sd=0.5)
    )
    orders, residual = _residuals(settings)
    assert residual.mean() == pytest.approx(0, abs=0.02)
    assert residual.std() == pytest.approx(0.8, rel=0.02)
    month = orders["ordered_at"].to_numpy().astype("datetime64[M]").astype(np.int64)
    customer = pc.cast(pc.utf8_slice_codeunits(orders["customer_id"], 1), pa.int64()).to_numpy()
    order = np.lexsort([month, customer])
    pair = (np.diff(customer[order]) == 0) & (np.diff(month[order]) == 0)
    assert pair.sum() > 10_000
    assert np.diff(residual[order])[pair].var() == pytest.approx(2 * (0.8**2 - 0.5**2), rel=0.05)


@pytest.mark.parametrize("confounding", [0.0, 0.6, -0.4])
def test_depth_of_ordinary_codes_follows_spend_as_much_as_asked(confounding: float) -> None:
    """The depth's normal score has this correlation with the baseline; nine steps cost it a little."""
    settings = RetailerSettings(
        customers=10_000, seed=2, ordinary_codes=OrdinaryCodes(confounding=confounding), engagement=PurchaseChance()
    )
    shop = Retailer.simulate(settings)
    codes = shop.tables()["codes"]
    baseline = shop.truth(codes["customer_id"], [0.1]).baseline
    found = np.corrcoef(codes["depth"].to_numpy(), baseline)[0, 1]
    assert found == pytest.approx(confounding, abs=0.05)


def test_nobody_lapses_when_nobody_should() -> None:
    """With no lapsing, and missions certain every month, every customer who had joined orders in the last month."""
    habits = ShoppingHabits(lapsed=0.0, missions_per_month=50.0, missions_spread=0.0, joined_during_history=0.0)
    orders = Retailer.simulate(RetailerSettings(customers=300, seed=5, habits=habits)).tables()["orders"]
    last = orders.filter(pc.greater_equal(orders["ordered_at"], pa.scalar(datetime(2025, 8, 1))))
    assert pc.count_distinct(last["customer_id"]).as_py() == 300
