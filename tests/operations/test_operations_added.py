"""What codes added, from the orders of a shop: figures by hand, days, shares that change, refusals, and the release."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import added_shop
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from arriving import decide_late_arrivals
from small_life import NETWORK, SECRET, FixedClock, nothing_known, people

from disco.adapters.config import read_margin
from disco.entrypoints.python import Shop
from disco.operations.added import Stretch
from disco.records.errors import InputError, StateError
from disco.views.added import added_report, added_table, moved_chart, outlook_table


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return added_shop.make(tmp_path_factory.mktemp("added") / "shop")


def with_settings(shop: Shop, folder: Path, text: str) -> Shop:
    """The same shop under other settings."""
    (folder / "disco.yaml").write_text(text.format(shop=shop.folder), encoding="utf-8")
    return added_shop.opened(folder)


def sums(shop: Shop, start: str, end: str) -> dict[str, np.ndarray]:
    """Per person, straight from the file."""
    orders = pyarrow.csv.read_csv(shop.folder / "data" / "orders.csv").to_pandas()
    orders = orders[(orders.ordered_at >= start) & (orders.ordered_at < end)]
    totals = orders.groupby("customer_id")[["full_price", "paid"]].sum().reindex(range(added_shop.PEOPLE)).fillna(0)
    return {name: totals[name].to_numpy() for name in totals}


def held_flags(shop: Shop) -> np.ndarray:
    with shop.store() as store, store.reading() as transaction:
        decisions = transaction.decisions.of("first").sort_by("customer_id")
    return np.asarray(decisions["arm"].to_pylist()) == "holdout"


def test_figures_are_those_of_all_orders_of_both_sides(shop: Shop) -> None:
    found, held = shop.added(), held_flags(shop)
    assert (found.first, found.people, found.held) == (date(2025, 3, 1), added_shop.PEOPLE, held.sum())
    assert found.campaigns == ("first", "second")
    per_person = sums(shop, "2025-03-01", "2025-09-01")
    assert found.revenue.held == pytest.approx(per_person["paid"][held].mean())
    assert found.revenue.others == pytest.approx(per_person["paid"][~held].mean())
    markdown = per_person["full_price"] - per_person["paid"]
    assert found.markdown.others == pytest.approx(markdown[~held].mean())
    assert found.markdown.held == 0
    margin = per_person["paid"] - 0.55 * per_person["full_price"]
    assert found.margin is not None
    assert found.margin.others == pytest.approx(margin[~held].mean())
    assert found.revenue.per_customer.covers(50)  # twice: 15 off, a second order of 65, and a quarter of 100 missing
    assert found.revenue.total.value == pytest.approx(found.revenue.per_customer.value * (~held).sum())
    assert found.sample_ratio.ok
    assert "more revenue" in found.headline


def test_purchases_that_were_brought_forward_are_missing_afterwards(shop: Shop) -> None:
    found = shop.added()
    weeks = {(one.stretch, one.week): one.revenue.value for one in found.moved}
    assert weeks[Stretch.DURING, 0] > 0
    assert sum(weeks[Stretch.AFTER, week] for week in (1, 2, 3, 4)) < 0
    chart = moved_chart(found)
    assert chart is not None
    assert chart.title.startswith("Fewer purchases")


def test_days_are_those_asked_for_and_the_holdout_has_a_first_one(shop: Shop) -> None:
    found = shop.added(first=date(2025, 1, 1), last=date(2025, 4, 30))
    assert (found.first, found.last) == (date(2025, 3, 1), date(2025, 4, 30))
    assert found.campaigns == ("first",)
    assert any("Counting begins on 1 Mar 2025" in words for words in found.words)
    assert shop.added(first=date(2025, 4, 1), last=date(2025, 5, 5)).campaigns == ("second",)
    with pytest.raises(StateError, match="The holdout began on 1 Mar 2025"):
        shop.added(last=date(2025, 2, 1))
    with pytest.raises(InputError, match="a first day that is not after the last one"):
        shop.added(first=date(2025, 5, 1), last=date(2025, 4, 1))


def test_the_report_and_the_table_have_the_figures(shop: Shop) -> None:
    found = shop.added()
    assert found.to_arrow()["figure"].to_pylist() == ["revenue", "markdown", "margin", "orders"]
    assert type(found).from_dict(found.as_dict()).as_dict() == found.as_dict()
    assert [row[0] for row in added_table(found).text()] == ["Revenue", "Markdown", "Margin", "Orders"]
    assert outlook_table(found) is not None
    assert added_report(found).lead == found.headline
    assert "Codes brought" in added_report(found).html()


def test_a_margin_may_be_a_column_of_the_orders(shop: Shop, tmp_path: Path) -> None:
    settings = "data: {shop}/data\ndatabase_url: sqlite:///{shop}/disco.db\nartefacts: {shop}/artefacts\n"
    of_column = with_settings(shop, tmp_path, settings + "margin: earned\n").added()
    per_person, held = sums(shop, "2025-03-01", "2025-09-01"), held_flags(shop)
    assert of_column.margin is not None
    assert of_column.margin.others == pytest.approx(0.2 * per_person["full_price"][~held].mean())
    without = with_settings(shop, tmp_path, settings).added()
    assert without.margin is None
    assert any("The margin is not known" in words for words in without.words)
    with pytest.raises(InputError, match="the column profit, which the table orders does not have"):
        with_settings(shop, tmp_path, settings + "margin: profit\n").added()
    for wrong, figure in (("450%", "450%"), ("1.2", "120%"), ("0", "0%"), (".nan", "nan")):
        with pytest.raises(InputError, match=figure):
            with_settings(shop, tmp_path, settings + f"margin: {wrong}\n")
    assert read_margin(1) == 1


def test_shares_that_change_leave_those_in_between_out(tmp_path: Path) -> None:
    shop = added_shop.make(tmp_path / "shop")
    with shop.store() as store:
        more = {"share": "50%", "lasting": True}
        wider = added_shop.launch_one(store, "third", month=8, holdout=more)
        anew = added_shop.launch_one(store, "fourth", month=8, holdout={"share": "5%", "lasting": False})
    found, held = shop.added(), held_flags(shop)
    assert found.held == held.sum()
    assert found.people == added_shop.PEOPLE - (len(added_shop.held_of(wider)) - held.sum())
    with_code = anew.decisions.filter(anew.decisions["code"].is_valid())["customer_id"].to_pylist()
    to_held = sum(held[customer] for customer in with_code)
    assert any(f"People held out got {to_held} codes of other campaigns" in words for words in found.words)


def test_a_released_holdout_is_kept_in_the_journal_and_the_next_one_draws_others(tmp_path: Path) -> None:
    shop = added_shop.make(tmp_path / "shop")
    with shop.store() as store:
        running = added_shop.launch_one(store, "third", month=9)
    with pytest.raises(StateError, match="Campaign third holds these people out until"):
        shop.release_holdout("The year is over.")
    shop.close("third")
    with pytest.raises(InputError, match="reason"):
        shop.release_holdout(" ")
    assert shop.release_holdout("The year is over.", dry_run=True).dry_run
    assert shop.release_holdout("The year is over.").campaigns == ("first", "second", "third")
    entry = shop.audit(limit=1).entries[-1]
    assert (entry.action, entry.detail["reason"]) == ("release holdout", "The year is over.")
    assert shop.verify_audit().ok
    before = shop.added(last=date(2025, 8, 31))
    with shop.store() as store:
        fresh = added_shop.launch_one(store, "fourth", month=10)
    assert added_shop.held_of(fresh) != added_shop.held_of(running)
    assert shop.added(last=date(2025, 8, 31)).as_dict() == before.as_dict()
    with pytest.raises(StateError, match="The holdout began on 1 Oct 2025"):
        shop.added(last=date(2025, 10, 31))


def test_what_cannot_be_compared_is_said_with_its_figure(tmp_path: Path) -> None:
    none = added_shop.make(tmp_path / "none", holdout={"share": "20%", "lasting": False})
    with pytest.raises(StateError, match="no campaign was launched with a lasting holdout"):
        none.added()
    few = added_shop.make(tmp_path / "few", holdout={"share": "1%", "lasting": True})
    with pytest.raises(InputError, match=r"of 600 people held out \(\d\.\d\d%\)"):
        few.added()
    orders = few.folder / "data" / "orders.csv"
    table = pyarrow.csv.read_csv(orders)
    pyarrow.csv.write_csv(table.drop_columns(["paid"]), orders)
    with pytest.raises(StateError, match="no column paid"):
        few.added()
    pyarrow.csv.write_csv(table.slice(0, 0), orders)
    with pytest.raises(StateError, match="orders is empty"):
        few.added()
    orders.rename(orders.with_name("customers.csv"))
    with pytest.raises(StateError, match="no table of orders"):
        few.added()
    assert json.loads(none.campaigns().to_json())["campaigns"]


def test_returns_are_taken_off_the_order_they_came_from(tmp_path: Path) -> None:
    shop = added_shop.make(tmp_path / "shop")
    before = shop.added()
    assert not before.net_of_returns
    assert any("no table of returns" in words for words in before.words)
    orders = pyarrow.csv.read_csv(tmp_path / "shop" / "data" / "orders.csv")
    half = [round(paid / 2, 2) for paid in orders["paid"].to_pylist()]
    whole = pa.table({"order_id": orders["order_id"], "returned_at": orders["ordered_at"], "value": half})
    pyarrow.csv.write_csv(whole, tmp_path / "shop" / "data" / "returns.csv")
    after = shop.added()
    assert after.net_of_returns
    assert any(words.startswith("What was returned since is taken off") for words in after.words)
    for name in ("revenue", "markdown", "margin"):
        ratio = after.figures()[name].total.value / before.figures()[name].total.value
        assert ratio == pytest.approx(0.5, rel=1e-3)
    assert after.orders.total.value == pytest.approx(before.orders.total.value, rel=1e-4)  # adjusted by earlier spend


def test_people_who_only_arrived_late_are_counted_and_left_out(tmp_path: Path) -> None:
    shop = added_shop.make(tmp_path / "shop", reserve={"share": "10%"})
    before = shop.added()
    assert not any("only arrived after a launch" in words for words in before.words)
    with shop.store() as store:
        decide_late_arrivals(
            store,
            "first",
            people(range(9000, 9030)),
            network=NETWORK,
            prior=nothing_known(),
            clock=FixedClock(datetime(2025, 3, 5, 9, tzinfo=UTC)),
            secret=SECRET,
        )
    after = shop.added()
    assert any(words.startswith("30 people who only arrived after a launch are left out") for words in after.words)
    assert after.revenue == before.revenue
