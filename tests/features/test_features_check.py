"""A check-up finds what is wrong with the features, says it once and by name, and is quiet about a world unchanged."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from disco.features import ContextNetwork, check_context
from disco.features.catalogue import SCHEMA_KEY
from disco.features.training import NetworkFit
from disco.records.diagnosis import CheckUp, Outcome

ROWS = 3000


def table(*, seed: int, rows: int = ROWS, **changes: object) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {
        "orders_365d": rng.poisson(3, rows) + 1.0,
        "spend_365d": rng.lognormal(4, 0.7, rows),
        "visits_7d": rng.poisson(0.4, rows).astype(float),
        "share": rng.beta(2, 5, rows),
        "flat": np.full(rows, 2.0),
    }
    return pa.table(columns | changes).replace_schema_metadata({SCHEMA_KEY: b"one"})


@pytest.fixture(scope="module")
def network() -> ContextNetwork:
    training = table(seed=0)
    target = np.log(training["spend_365d"].to_numpy()) + 0.2 * np.random.default_rng(9).normal(size=ROWS)
    return ContextNetwork(heads="level", hidden=(8,), dimensions=3, max_epochs=3).fit(training, target)


def bad(found: CheckUp) -> dict[tuple[str, str], Outcome]:
    return {(one.check, one.where): one.outcome for one in found if one.outcome is not Outcome.OK}


def test_the_same_law_passes_whatever_the_seed(network):
    for seed in range(1, 6):
        found = check_context(network, table(seed=seed))
        assert bad(found) == {}
        assert not found.failed


def test_every_feature_has_its_drift(network):
    drifts = {one.where: one.figure for one in check_context(network, table(seed=1)) if one.check == "drift"}
    assert set(drifts) == {"orders_365d", "spend_365d", "visits_7d", "share"}
    assert max(drifts.values()) < 0.05


def test_a_feature_that_moved_fails_alone(network):
    here = table(seed=1)["share"].to_numpy()
    found = check_context(network, table(seed=1, share=here**0.5))
    assert found.failed
    assert {where for check, where in bad(found) if check == "drift"} == {"share"}


def test_customers_without_a_history_are_not_held_against_the_shop(network):
    """They have zeros and nulls everywhere and are outside training: 30 % of them must not look like drift."""
    rng = np.random.default_rng(2)
    stranger = rng.random(ROWS) < 0.3
    plain = table(seed=1)
    zeros = {name: np.where(stranger, 0.0, plain[name].to_numpy()) for name in ("orders_365d", "spend_365d")}
    assert bad(check_context(network, table(seed=1, **zeros))) == {}
    everybody = check_context(network, table(seed=1, orders_365d=np.zeros(ROWS)))
    assert bad(everybody) == {("history", "orders_365d"): Outcome.FAILED}
    few = np.where(rng.random(ROWS) < 0.6, 0.0, plain["orders_365d"].to_numpy())
    assert bad(check_context(network, table(seed=1, orders_365d=few))) == {("history", "orders_365d"): Outcome.WATCH}


def test_another_unit_is_said_with_its_factor(network):
    found = check_context(network, table(seed=1, spend_365d=table(seed=1)["spend_365d"].to_numpy() * 100))
    (unit,) = [one for one in found if one.check == "unit"]
    assert unit.where == "spend_365d"
    assert unit.failed
    assert unit.figure == pytest.approx(100, rel=0.2)


@pytest.mark.parametrize("values", [pa.nulls(ROWS), pa.array([0.25] * ROWS)])
def test_a_constant_feature_is_said_once(network, values):
    found = check_context(network, table(seed=1, share=values))
    assert bad(found) == {("constant", "share"): Outcome.FAILED}


def test_a_feature_without_variation_in_training_is_no_news_until_it_varies(network):
    varied = check_context(network, table(seed=1, flat=np.random.default_rng(3).normal(size=ROWS)))
    assert bad(varied)["constant", "flat"] is Outcome.WATCH


def test_nulls_where_training_had_none_are_watched_then_fail(network):
    def with_nulls(share):
        values = table(seed=1)["visits_7d"].to_numpy().copy()
        values[: int(share * ROWS)] = np.nan
        return bad(check_context(network, table(seed=1, visits_7d=values)))

    assert ("unseen", "visits_7d") not in with_nulls(0.002)
    assert with_nulls(0.02)["unseen", "visits_7d"] is Outcome.WATCH
    assert with_nulls(0.1)["unseen", "visits_7d"] is Outcome.FAILED


def test_values_beyond_training_are_counted(network):
    values = table(seed=1)["spend_365d"].to_numpy().copy()
    values[:90] *= 1e4  # 3 %: too few to move the median or the deciles
    found = bad(check_context(network, table(seed=1, spend_365d=values)))
    assert found["range", "spend_365d"] is Outcome.WATCH
    assert ("drift", "spend_365d") not in found


def test_columns_that_are_gone_renamed_twice_or_text(network):
    plain = table(seed=1)
    renamed = plain.rename_columns([name.replace("share", "shares") for name in plain.column_names])
    found = check_context(network, renamed)
    assert found.failed
    (gone,) = [one for one in found if one.check == "columns"]
    assert (gone.where, gone.found, gone.fix) == ("share", "no such column", "Is it the column shares?")
    assert any(one.outcome is Outcome.SKIPPED for one in found)
    text = check_context(network, table(seed=1, share=["x"] * ROWS))
    assert [one.where for one in text if one.failed] == ["share"]
    twice = check_context(network, plain.append_column("share", plain["share"]))
    assert [one.found for one in twice if one.failed] == ["it 2 times"]
    infinite = table(seed=1)["share"].to_numpy().copy()
    infinite[7] = np.inf
    assert "row 8" in next(one.where for one in check_context(network, table(seed=1, share=infinite)) if one.failed)


def test_columns_in_another_order_change_nothing(network):
    plain = table(seed=1)
    assert check_context(network, plain.select(plain.column_names[::-1])) == check_context(network, plain)


def test_another_catalogue_fails_by_its_hash(network):
    other = table(seed=1).replace_schema_metadata({SCHEMA_KEY: b"two"})
    assert bad(check_context(network, other)) == {("schema", ""): Outcome.FAILED}
    nameless = table(seed=1).replace_schema_metadata(None)
    assert bad(check_context(network, nameless)) == {("schema", ""): Outcome.SKIPPED}


def test_few_customers_are_not_judged_by_their_law(network):
    for rows in (1, 2, 3, 10, 40, 200):
        for seed in range(5):
            found = check_context(network, table(seed=seed, rows=rows))
            assert not found.failed
            (skipped,) = [one for one in found if one.outcome is Outcome.SKIPPED]
            assert "too few" in skipped.found
    assert check_context(network, table(seed=1, rows=0)).failed  # nobody with a history
    lost = check_context(network, table(seed=1, rows=10, share=pa.nulls(10)))
    assert [one.where for one in lost if one.failed] == ["share"]


def test_dead_units_are_watched_and_fail_from_half_of_them_on(network):
    def with_dead(*units):
        dead = network.embedding_.inverse_sd.copy()
        dead[list(units)] = 0
        other = ContextNetwork()
        other._fitted = NetworkFit(replace(network.embedding_, inverse_sd=dead), (), (), ())
        return next(one for one in check_context(other, table(seed=1)) if one.check == "dead units")

    assert with_dead().outcome is Outcome.OK
    assert (with_dead(1).outcome, with_dead(1).where) == (Outcome.WATCH, "unit 2")
    assert with_dead(0, 2).outcome is Outcome.FAILED


def test_check_ups_add_and_the_worst_come_first(network):
    fine, poor = check_context(network, table(seed=1)), check_context(network, table(seed=1, share=pa.nulls(ROWS)))
    both = fine + poor
    assert both.failed
    assert both.counts[Outcome.FAILED] == 1
    assert both.worst_first()[0].failed
    assert sum(both.counts.values()) == len(fine.diagnoses) + len(poor.diagnoses)


def trained_with(**further: np.ndarray) -> ContextNetwork:
    training = table(seed=0, **further)
    target = np.log(training["spend_365d"].to_numpy())
    return ContextNetwork(heads="level", hidden=(8,), dimensions=3, max_epochs=3).fit(training, target)


def of_one_shop(*, seed: int, mixed_up: str = "") -> pa.Table:
    """Customers as three tables see them; the ids of one table may belong to other people."""
    rng = np.random.default_rng(seed)
    keen = rng.gamma(2.0, 1.0, ROWS)
    orders, joined = rng.poisson(keen) + 1.0, rng.uniform(100, 900, ROWS)
    tables = {
        "orders": {
            "orders_365d": orders,
            "coded_order_share_365d": rng.binomial(orders.astype(int), 0.3) / orders,
            "days_since_first_order": rng.uniform(0, 1, ROWS) * joined.clip(0, 365),
        },
        "site": {"visits_365d": rng.poisson(6 * keen).astype(float)},
        "customers": {"tenure_days": joined},
    }
    tables["codes"] = {"codes_redeemed_365d": np.rint(tables["orders"]["coded_order_share_365d"] * orders)}
    others = rng.permutation(ROWS)
    columns = {
        name: values[others] if part == mixed_up else values
        for part, table in tables.items()
        for name, values in table.items()
    }
    return pa.table(columns).replace_schema_metadata({SCHEMA_KEY: b"one"})


def test_ids_that_do_not_belong_together_are_found():
    """Every column has the distribution of training, so only the relations between tables show it."""
    training = of_one_shop(seed=0)
    trained = ContextNetwork(heads="level", hidden=(8,), dimensions=3, max_epochs=3).fit(
        training, np.log(training["visits_365d"].to_numpy() + 1)
    )
    for seed in range(1, 4):
        assert bad(check_context(trained, of_one_shop(seed=seed))) == {}
        found = {
            part: {where for (check, where), outcome in bad(check_context(trained, mixed)).items() if check == "ids"}
            for part in ("orders", "site", "codes", "customers")
            for mixed in [of_one_shop(seed=seed, mixed_up=part)]
        }
        assert found == {
            "orders": {"orders and site", "orders and codes", "orders and customers"},
            "site": {"orders and site"},
            "codes": {"orders and codes"},
            "customers": {"orders and customers"},
        }
        assert check_context(trained, of_one_shop(seed=seed, mixed_up="site")).failed


def test_what_campaigns_move_by_themselves_is_no_drift():
    """The first campaign gives everybody a code: days since the last one leave the law of training at once."""
    rng = np.random.default_rng(3)
    trained = trained_with(days_since_last_code=rng.integers(30, 366, ROWS).astype(float))
    found = check_context(trained, table(seed=1, days_since_last_code=rng.integers(20, 40, ROWS).astype(float)))
    assert bad(found) == {}
    assert [one.where for one in found if one.check == "drift" and one.figure is None] == ["1 features"]


@pytest.mark.parametrize("days", [0, 365])
def test_a_clock_that_ran_on_since_training_is_no_drift(days):
    """Customers of a year ago are a year older; one whose clock was lost is another matter."""
    rng = np.random.default_rng(4)
    trained = trained_with(tenure_days=rng.uniform(30, 2000, ROWS))
    later = check_context(trained, table(seed=1, tenure_days=rng.uniform(30, 2000, ROWS) + days))
    assert bad(later) == {}
    wrong = check_context(trained, table(seed=1, tenure_days=rng.uniform(30, 60, ROWS)))
    assert bad(wrong)["drift", "tenure_days"] is Outcome.FAILED


def young_shop(*, history: int, seed: int, **changes: object) -> pa.Table:
    """Customers of a shop whose orders begin `history` days ago, where everybody joined with their first order."""
    rng = np.random.default_rng(seed)
    joined = rng.uniform(0, history, ROWS) ** 1.2 / history**0.2
    year = np.minimum(joined, 365)
    further = {
        "tenure_days": np.rint(joined),
        "days_since_first_order": np.rint(year),
        "orders_365d": rng.poisson(year / 40) + 1.0,
        "orders_30d": rng.poisson(0.7, ROWS).astype(float),
    }
    return table(seed=seed, **further | changes)


@pytest.mark.parametrize("days_later", [90, 180, 365, 730])
def test_a_history_that_begins_on_a_fixed_day_grows_without_an_alarm(days_later):
    training = young_shop(history=180, seed=0)
    trained = ContextNetwork(heads="level", hidden=(8,), dimensions=3, max_epochs=3).fit(
        training, np.log(training["spend_365d"].to_numpy())
    )
    later = check_context(trained, young_shop(history=180 + days_later, seed=1))
    assert not later.failed, bad(later)
    assert not any(where == "tenure_days" for _, where in bad(later))
    grown = [one for one in later if one.where == "orders_365d" and one.outcome is Outcome.WATCH]
    assert all("on the day of training the orders went back 180 days" in one.expected for one in grown)
    assert all("begins a year or more after the first order" in one.fix for one in grown)
    faults = {
        ("drift", "orders_30d"): np.random.default_rng(2).poisson(3, ROWS).astype(float),
        ("range", "tenure_days"): np.where(np.arange(ROWS) % 10, later_tenure(days_later), 46_000.0),
        ("drift", "tenure_days"): later_tenure(days_later) % 20,
    }
    for (check, where), column in faults.items():
        wrong = check_context(trained, young_shop(history=180 + days_later, seed=1, **{where: column}))
        assert bad(wrong)[check, where] is Outcome.FAILED


def later_tenure(days_later: int) -> np.ndarray:
    return young_shop(history=180 + days_later, seed=1)["tenure_days"].to_numpy()


def test_a_shop_with_a_whole_year_in_training_is_judged_by_all_its_windows():
    training = young_shop(history=400, seed=0)
    trained = ContextNetwork(heads="level", hidden=(8,), dimensions=3, max_epochs=3).fit(
        training, np.log(training["spend_365d"].to_numpy())
    )
    moved = young_shop(history=500, seed=1, orders_365d=np.random.default_rng(2).poisson(30, ROWS) + 1.0)
    assert bad(check_context(trained, moved))["drift", "orders_365d"] is Outcome.FAILED


def test_a_code_to_everybody_is_no_empty_table_and_an_empty_table_is_found():
    rng = np.random.default_rng(5)
    month, year = rng.poisson(1, ROWS).astype(float), rng.poisson(6, ROWS).astype(float)
    trained = trained_with(codes_received_30d=month, codes_received_365d=year)
    everybody = check_context(trained, table(seed=1, codes_received_30d=np.ones(ROWS), codes_received_365d=year))
    assert bad(everybody) == {}
    empty, missing = np.zeros(ROWS), pa.nulls(ROWS)
    for values in (empty, missing):
        nobody = check_context(trained, table(seed=1, codes_received_30d=values, codes_received_365d=values))
        failed = {one.where: one.fix for one in nobody if one.failed and one.check == "constant"}
        assert failed["codes_received_365d"] == "Is the table codes missing or empty?"
        assert ("codes_received_30d" in failed) == (values is missing)
