"""Answers to codes: drawn from the truth, owned by the customer, and once only."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from disco.records.errors import InputError, StateError, TableError
from disco.retailer import Response, Retailer

CodesFor = Callable[..., pa.Table]


@pytest.fixture(scope="module")
def answered(shop: Retailer, codes_for: CodesFor) -> Response:
    """Campaign A to all 12,000 customers."""
    return shop.respond(codes_for(shop.settings.campaign("A"), range(12_000)))


def _truth_of_codes(shop: Retailer, codes: pa.Table, channel: str) -> tuple[np.ndarray, np.ndarray]:
    """E[F] and P(purchase) of each code's own depth."""
    depths = sorted(set(codes["depth"].to_pylist()))
    truth = shop.truth(codes["customer_id"], depths, channel=channel)
    column = np.searchsorted(depths, codes["depth"].to_numpy())
    rows = np.arange(codes.num_rows)
    return truth.expected_full_price[rows, column], truth.purchase_probability[rows, column]


@pytest.mark.parametrize("name", ["A", "D"])
def test_purchases_and_baskets_come_from_the_truth(shop: Retailer, codes_for: CodesFor, name: str) -> None:
    """Purchases: z-tests for low and for high p. Baskets: mean and variance of ln F, and the mean of F."""
    campaign = shop.settings.campaign(name)
    codes = codes_for(campaign, range(12_000))
    response = shop.respond(codes)
    price, probability = _truth_of_codes(shop, codes, str(campaign.channel))
    place = pc.index_in(response.outcomes["code"], value_set=codes["code_id"].combine_chunks()).to_numpy()
    bought = np.zeros(12_000)
    bought[place] = 1
    high = probability > np.median(probability)
    for part in (high, ~high):
        spread = math.sqrt((probability * (1 - probability))[part].sum())
        assert abs(bought[part].sum() - probability[part].sum()) < 4.5 * spread
    sd = shop.settings.baskets.campaign_residual_sd
    paid = response.outcomes["full_price"].to_numpy()
    residual = np.log(paid) - (np.log(price[place]) - sd**2 / 2)
    count = place.size
    assert abs(residual.mean()) < 4.5 * sd / math.sqrt(count)
    assert abs(residual.var() / sd**2 - 1) < 4.5 * math.sqrt(2 / count)
    ratio_sd = math.sqrt(math.expm1(sd**2))
    assert abs((paid / price[place]).mean() - 1) < 5 * ratio_sd / math.sqrt(count)


def test_tables_of_the_period_agree_with_the_outcomes(answered: Response) -> None:
    outcomes = answered.outcomes
    orders = answered.orders.filter(pc.is_valid(answered.orders["code"])).sort_by("code")
    told = outcomes.sort_by("code")
    for column in ("code", "customer_id", "ordered_at", "full_price"):
        assert orders[column].combine_chunks().equals(told[column].combine_chunks())
    redeemed = answered.codes.filter(pc.is_valid(answered.codes["redeemed_at"])).sort_by("code_id")
    assert redeemed["redeemed_at"].combine_chunks().equals(told["ordered_at"].combine_chunks())
    assert answered.codes.num_rows == 12_000
    assert set(outcomes["kind"].to_pylist()) == {"purchase"}
    assert outcomes["refers_to"].null_count == outcomes.num_rows
    assert pc.count_distinct(outcomes["event_id"]).as_py() == outcomes.num_rows
    visitors = answered.site.group_by(["customer_id", "day"]).aggregate([([], "count_all")])
    assert visitors.num_rows == answered.site.num_rows


def test_customers_without_a_code_go_on_shopping(shop: Retailer, codes_for: CodesFor) -> None:
    """Also when nobody uses a code: with depth 0 and a single customer, most likely no purchase at all."""
    nobody = next(
        response
        for customer in range(20)
        if not (response := shop.respond(codes_for(shop.settings.campaign("A"), [customer], [0.0]))).outcomes.num_rows
    )
    assert pc.count_distinct(nobody.orders["customer_id"]).as_py() > 500
    assert nobody.orders["code"].null_count == nobody.orders.num_rows
    assert nobody.outcomes.schema.equals(
        shop.respond(codes_for(shop.settings.campaign("A"), range(99))).outcomes.schema
    )


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_an_answer_belongs_to_the_customer(
    shop: Retailer, codes_for: CodesFor, answered: Response, data: st.DataObject
) -> None:
    """The same customers, in any order and any company, do what they did when everybody had a code."""
    campaign = shop.settings.campaign("A")
    some = data.draw(st.lists(st.integers(0, 11_999), min_size=1, max_size=40, unique=True))
    every = codes_for(campaign, range(12_000))
    response = shop.respond(every.take(pa.array(some)))
    mine = pc.is_in(answered.outcomes["code"], value_set=every["code_id"].take(pa.array(some)).combine_chunks())
    assert response.outcomes.equals(answered.outcomes.filter(mine))


def test_a_deeper_code_never_loses_a_purchase_or_shrinks_a_basket(shop: Retailer, codes_for: CodesFor) -> None:
    """The chance numbers of a customer in a campaign are shared by all depths."""
    campaign = shop.settings.campaign("C")
    baskets: dict[str, float] = {}
    for depth in (0.05, 0.2, 0.35, 0.5):
        outcomes = shop.respond(codes_for(campaign, range(3_000), [depth] * 3_000)).outcomes
        deeper = dict(zip(outcomes["customer_id"].to_pylist(), outcomes["full_price"].to_pylist(), strict=True))
        assert set(baskets) <= set(deeper)
        assert all(deeper[customer] >= basket for customer, basket in baskets.items())
        assert len(deeper) > len(baskets)
        baskets = deeper


def test_campaigns_draw_anew(shop: Retailer, codes_for: CodesFor) -> None:
    """Another campaign's name is another chance; another seed as well."""
    campaign = shop.settings.campaign("A")
    first = set(shop.respond(codes_for(campaign, range(2_000))).outcomes["customer_id"].to_pylist())
    renamed = shop.respond(codes_for(replace(campaign, name="A2"), range(2_000)))
    assert first != set(renamed.outcomes["customer_id"].to_pylist())
    other = Retailer.simulate(replace(shop.settings, seed=99)).respond(codes_for(campaign, range(2_000)))
    assert first != set(other.outcomes["customer_id"].to_pylist())


@pytest.mark.parametrize("name", ["A", "D"])
def test_redemptions_are_delayed_within_the_validity(shop: Retailer, codes_for: CodesFor, name: str) -> None:
    """Delay / validity follows the exponential of the channel, conditioned on the validity."""
    campaign = shop.settings.campaign(name)
    outcomes = shop.respond(codes_for(campaign, range(12_000))).outcomes
    start = np.datetime64(datetime.combine(campaign.starts_on, datetime.min.time()).replace(hour=8), "us")
    days = (outcomes["ordered_at"].to_numpy() - start) / np.timedelta64(1, "D")
    assert ((days >= 0) & (days < campaign.valid_days)).all()
    mean = shop.settings.channel(campaign.channel).delay_days
    whole = -math.expm1(-campaign.valid_days / mean)
    assert kstest(days, lambda day: -np.expm1(-day / mean) / whole).pvalue > 1e-6


def test_two_campaigns_at_once_or_one_after_the_other(shop: Retailer, codes_for: CodesFor) -> None:
    """A cut in time changes nothing: the same rows, none twice, returns of the first period arriving in the second."""
    first, second = (codes_for(shop.settings.campaign(name), range(0, 12_000, 3)) for name in "AB")
    together = shop.respond(pa.concat_tables([first, second]))
    one = shop.respond(first)
    two = one.shop.respond(second)
    assert one.end == two.start
    assert two.end == together.end
    for name, rows in together.tables().items():
        parts = pa.concat_tables([one.tables()[name], two.tables()[name]])
        keys = [(column, "ascending") for column in rows.column_names]
        assert parts.sort_by(keys).equals(rows.sort_by(keys))
    late = pc.is_in(two.returns["order_id"], value_set=one.orders["order_id"].combine_chunks())
    assert pc.any(late).as_py()


def test_the_next_shop_knows_everything_so_far(shop: Retailer, answered: Response) -> None:
    tables, later = shop.tables(), answered.shop.tables()
    for name, rows in answered.tables().items():
        assert later[name].equals(pa.concat_tables([tables[name], rows]).combine_chunks())
    assert later["customers"].equals(tables["customers"])
    latest = np.datetime64(answered.end, "us")
    for name, column in {"orders": "ordered_at", "returns": "returned_at", "codes": "sent_at"}.items():
        assert (later[name][column].to_numpy() < latest).all()


def test_refunds_stay_within_what_was_paid(shop: Retailer, codes_for: CodesFor) -> None:
    """Campaign orders come back as often as their customers return things, never for more than was paid."""
    after = shop.respond(codes_for(shop.settings.campaign("A"), range(12_000))).shop
    tables = after.respond(codes_for(shop.settings.campaign("D"), range(12_000))).shop.tables()
    joined = tables["returns"].join(tables["orders"], keys="order_id", join_type="inner")
    assert joined.num_rows == tables["returns"].num_rows
    assert pc.all(pc.less_equal(joined["value"], joined["paid"])).as_py()
    delay = (joined["returned_at"].to_numpy() - joined["ordered_at"].to_numpy()) / np.timedelta64(1, "D")
    assert (delay >= 1.99).all()
    assert (delay <= shop.settings.habits.most_return_days).all()
    campaign_orders = pc.sum(pc.match_substring_regex(tables["orders"]["order_id"], "^o-A-")).as_py()
    came_back = pc.sum(pc.match_substring_regex(joined["order_id"], "^o-A-")).as_py()
    ordinary = tables["returns"].num_rows / tables["orders"].num_rows
    assert came_back / campaign_orders == pytest.approx(ordinary, abs=0.08)


def test_defaults_are_on_site_and_two_days(shop: Retailer, codes_for: CodesFor) -> None:
    codes = codes_for(shop.settings.campaign("A"), range(500))
    assert shop.respond(codes.drop_columns(["expires_at", "channel"])).outcomes.equals(shop.respond(codes).outcomes)
    mail = codes.drop_columns(["expires_at", "channel"]).append_column("channel", pa.array(["e-mail"] * 500))
    assert shop.respond(mail).end - shop.respond(codes).end == timedelta(days=28)
    text = codes.drop_columns(["expires_at", "channel"]).append_column("channel", pa.array(["sms"] * 500))
    assert shop.respond(text).outcomes.equals(shop.respond(mail).outcomes), "every message is answered as an e-mail"


def test_answering_twice_is_refused(shop: Retailer, codes_for: CodesFor) -> None:
    codes = codes_for(shop.settings.campaign("A"), [1, 2])
    after = shop.respond(codes).shop
    with pytest.raises(StateError, match="already simulated"):
        after.respond(codes)


def test_every_problem_of_the_codes_is_named_at_once(shop: Retailer, codes_for: CodesFor) -> None:
    good = codes_for(shop.settings.campaign("A"), range(10)).to_pylist()
    good[1]["depth"] = 20.0
    good[2]["customer_id"] = "c0099999"
    good[3] |= {"code_id": good[0]["code_id"], "depth": good[0]["depth"] + 0.05}
    good[4]["customer_id"] = good[0]["customer_id"]
    good[6]["expires_at"] = good[6]["sent_at"]
    good[7]["depth"] = None
    good[8]["depth"] = float("nan")
    with pytest.raises(TableError) as caught:
        shop.respond(pa.Table.from_pylist(good))
    found = {(problem.column, problem.row, problem.rows) for problem in caught.value.problems}
    assert found == {
        ("depth", 2, 2),
        ("depth", 8, 1),
        ("customer_id", 3, 1),
        ("code_id", 4, 1),
        ("customer_id", 5, 1),
        ("expires_at", 7, 1),
    }


def test_codes_without_a_column_rows_or_sense_are_refused(shop: Retailer, codes_for: CodesFor) -> None:
    codes = codes_for(shop.settings.campaign("A"), [1])
    with pytest.raises(InputError, match="no column depth"):
        shop.respond(codes.drop_columns("depth"))
    with pytest.raises(InputError, match="no rows"):
        shop.respond(codes.slice(0, 0))
    with pytest.raises(InputError, match="column depth"):
        shop.respond(codes.set_column(3, "depth", pa.array(["deep"])))
    far = pa.array([datetime(2035, 1, 1)], pa.timestamp("us"))
    with pytest.raises(InputError, match="400 days"):
        shop.respond(codes.set_column(codes.column_names.index("expires_at"), "expires_at", far))
