"""One suite over every store: what is put on a shelf is what comes back, and what contradicts is refused."""

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import MOMENT, NETWORK, add_campaign, add_late, decisions, plan_record, version
from stores import open_store

from disco.records.campaign_records import State
from disco.records.errors import InputError, StateError
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.money import read_currency
from disco.store import BELIEF, Store
from disco.store.database import FEW
from disco.store.plans import PlanTables
from disco.store.schema import DECISIONS


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    store = open_store(store_url)
    yield store
    store.close()


LATER = MOMENT + timedelta(days=3)
NOBODY = PlanTables(decisions=decisions([]).drop_columns(["code"]), contexts=np.zeros((0, 3)), features=None)


def test_a_plan_is_kept_once_and_found_by_the_beginning_of_its_id(store: Store) -> None:
    records = [plan_record("spring", plan_id=plan_id) for plan_id in ("abcd1", "abcd2", "xyz")]
    with store.writing("spring", action="test") as transaction:
        for record in [*records, *records]:
            transaction.plans.add(record, NOBODY)
    with store.reading() as transaction:
        assert transaction.plans.of("spring") == tuple(records)
        assert transaction.plans.get("abcd1") == records[0]
        assert transaction.plans.get("xyz") == records[2]
        for unclear, words in (
            ("abcd", "Several ids begin with abcd"),
            ("abc", "no plan abc. Give at least 4 characters"),
            ("xy", "at least 4 characters"),
            ("ABCD", "no plan"),
            ("", "no plan"),
            ("a_cd", "no plan"),
        ):
            with pytest.raises(StateError, match=words):
                transaction.plans.get(unclear)
        assert transaction.plans.of("autumn") == ()


def test_a_campaign_has_a_plan_and_is_launched_once(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        record = add_campaign(transaction)
        later = add_campaign(transaction, "a-later-one", start="2027-04-01")
        assert transaction.plans.campaigns() == (record, later)
        with pytest.raises(StateError, match="launched before"):
            transaction.plans.launch(record)
        transaction.plans.set_state("spring", State.PAUSED)
        assert transaction.plans.campaign("spring").state is State.PAUSED
        transaction.plans.recall("spring", at=LATER)
        assert transaction.plans.campaign("spring").recalled_at == LATER
        assert transaction.plans.campaign("a-later-one").recalled_at is None
        with pytest.raises(StateError, match="recalled before"):
            transaction.plans.recall("spring", at=LATER)
        assert transaction.plans.find_campaign("autumn") is None
        decided, ledger = transaction.decisions, transaction.ledger
        for ask in (transaction.plans.campaign, decided.of, ledger.batches, decided.reserve, ledger.counts):
            with pytest.raises(StateError, match=r"No campaign autumn"):
                ask("autumn")


def test_a_campaign_without_its_plan_is_refused(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        record = add_campaign(transaction)
    homeless = type(record)(**{**_fields(record), "campaign": "other", "plan_id": "nowhere"})
    with pytest.raises(StateError, match="There is no plan"), store.writing("other", action="test") as transaction:
        transaction.plans.launch(homeless)
    with store.reading() as transaction:
        assert transaction.plans.campaigns() == (record,)


def _fields(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


@pytest.mark.parametrize("integer_ids", [True, False])
def test_decisions_come_back_as_they_were_and_are_numbered_on(store: Store, integer_ids: bool) -> None:
    ids = [-(2**63), 2**63 - 1, 17] if integer_ids else ["", 'a "quoted", {id} \\ \n', "ключ 🔑"]
    first = decisions(
        ids,
        codes=["A", None, "C"],
        expected_full_price=pa.array([0.1 + 0.2, None, 5e-324]),
        expected_engagement=pa.array([None, 1.7976931348623157e308, 0.0]),
    )
    late = decisions([4] if integer_ids else ["4"], codes=["L"])
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=first)
        add_late(transaction, late)
    with store.reading() as transaction:
        kept = transaction.decisions.of("spring")
        assert kept.schema.remove(1) == DECISIONS.remove(1)
        assert kept["row"].to_pylist() == [0, 1, 2, 3]
        assert kept["late"].to_pylist() == [False, False, False, True]
        for name in first.column_names:
            assert repr(kept[name].to_pylist()[:3]) == repr(first[name].to_pylist())
        for name in late.column_names:
            assert kept[name].to_pylist()[3:] == late[name].to_pylist()
        assert transaction.decisions.of("spring", customers=pa.array(ids[1:])).equals(kept.slice(1, 2))
        asked = pa.array(["C", "L", "A", "none", None, "A"])
        assert transaction.decisions.of("spring", codes=asked).equals(kept.take([0, 2, 3]))
        assert transaction.decisions.of("spring", only_late=True).equals(kept.slice(3))
        assert transaction.decisions.of("spring", only_late=True, from_row=3).equals(kept.slice(3))
        assert transaction.decisions.of("spring", only_late=True, from_row=4).num_rows == 0
        assert transaction.decisions.of("spring", codes=pa.array(["A"]), customers=pa.array(ids[1:])).num_rows == 0
        both = transaction.decisions.of("spring", codes=pa.array(["A", "C"]), customers=pa.array(ids[1:]))
        assert both.equals(kept.slice(2, 1))
        assert transaction.decisions.of("spring", codes=pa.array([], pa.string())).num_rows == 0


def test_the_tables_of_a_plan_come_back(store: Store) -> None:
    features = pa.table({"customer_id": ["1", "2"], "spend": pa.array([1.5, None])})
    decided = decisions(["1", "2"]).drop_columns(["code"])
    contexts = np.array([[1 / 3, -0.0, 5e-324], [1.0, 2.0, 3.0]])
    with store.writing("spring", action="test") as transaction:
        transaction.plans.add(plan_record(), PlanTables(decisions=decided, contexts=contexts, features=features))
    with store.reading() as transaction:
        found = transaction.plans.tables("plan-of-spring")
        assert found.decisions.select(decided.column_names).to_pylist() == decided.to_pylist()
        assert found.contexts.tobytes() == contexts.tobytes()
        assert found.features is not None
        assert found.features.equals(features)


_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(
    rows=st.dictionaries(_texts, st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
    reason=st.none() | _texts,
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_and_any_double_survive(store: Store, rows: dict[str, float], reason: str | None) -> None:
    table = decisions(list(rows), value=list(rows.values()), codes=[None] * len(rows), arm=[reason or ""] * len(rows))
    with suppress(_UndoneError), store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=table)
        kept = transaction.decisions.of("spring")
        asked = transaction.decisions.of("spring", customers=table["customer_id"])
        raise _UndoneError
    assert kept["customer_id"].to_pylist() == list(rows)
    assert repr(kept["value"].to_pylist()) == repr([value + 0.0 for value in rows.values()])  # −0 becomes 0
    assert kept["arm"].to_pylist() == [reason or ""] * len(rows)
    assert asked.equals(kept)


class _UndoneError(Exception):
    pass


@pytest.mark.parametrize(
    "again",
    [
        decisions(["1"], codes=["NEW"]),
        decisions(["8"], codes=["NEW"]),
        decisions(["9"], codes=["CODE-1"]),
        decisions(["9"], codes=["CODE-8"]),
        decisions(["7", "7"], codes=["X", "Y"]),
    ],
    ids=["customer", "late customer", "code", "late code", "customer within"],
)
def test_a_late_customer_or_code_that_is_there_is_refused_and_nothing_is_written(store: Store, again: pa.Table) -> None:
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["1", "2"]))
        add_late(transaction, decisions(["8"]))

    def add() -> None:
        with store.writing("spring", action="test") as transaction:
            transaction.plans.set_state("spring", State.CLOSED)
            add_late(transaction, again)

    with pytest.raises(StateError, match="already"):
        add()
    with store.reading() as transaction:
        assert transaction.decisions.of("spring").num_rows == 3
        assert transaction.plans.campaign("spring").state is State.LAUNCHED


@pytest.mark.parametrize(
    "twice", [decisions(["1", "2", "1"], codes=["A", "B", "C"]), decisions(["1", "2", "3"], codes=["A", "B", "A"])]
)
def test_a_launch_with_a_customer_or_a_code_twice_is_refused(store: Store, twice: pa.Table) -> None:
    with pytest.raises(StateError, match=r"(1|A) twice"), store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=twice)
    with store.reading() as transaction:
        assert transaction.plans.campaigns() == ()


def test_codes_belong_to_the_decisions_that_have_a_depth(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["1", "2"], codes=["A", None]))
        with pytest.raises(InputError, match="one code per depth"):
            transaction.decisions.add_codes("spring", pa.array(["A", "B"]), pooled=False)


def test_a_code_of_a_pool_belongs_to_one_campaign_a_customer_may_be_in_many(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["1", "2"]), pooled=True)
        add_campaign(transaction, "autumn", decided=decisions(["1", "2"], codes=["A1", None]))
        add_late(transaction, decisions(["5"], codes=["P5"]), pooled=True)
        asked = pa.array(["x", "CODE-2", "A1", "P5"])
        assert transaction.decisions.codes_in_use(asked).to_pylist() == ["A1", "CODE-2", "P5"]
        assert transaction.decisions.codes_in_use(asked, campaign="autumn").to_pylist() == ["A1"]
    with pytest.raises(StateError, match="already"), store.writing("winter", action="test") as transaction:
        add_campaign(transaction, "winter", decided=decisions(["3"], codes=["CODE-1"]), pooled=True)
    with pytest.raises(StateError, match="already"), store.writing("autumn", action="test") as transaction:
        add_late(transaction, decisions(["3"], codes=["CODE-1"]), "autumn", pooled=True)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_no_number_that_is_none_gets_in(store: Store, number: float) -> None:
    with store.writing("spring", action="test") as transaction:
        with pytest.raises(InputError, match="NaN or infinity"):
            add_campaign(transaction, decided=decisions(["1", "2"], value=[0.0, number]))
        with pytest.raises(InputError, match="NaN"):
            add_campaign(transaction, decided=decisions(["1"]), contexts=np.full((1, 3), number))
        with pytest.raises(InputError, match="NUL"):
            add_campaign(transaction, decided=decisions(["a\0b"]))
        add_campaign(transaction, decided=decisions(["1"]))
        with pytest.raises(InputError, match="NaN or infinity"):
            add_late(transaction, decisions(["2"], value=[number]))
        with pytest.raises(InputError, match="NUL"):
            transaction.decisions.of("spring", customers=pa.array(["a\0b"]))


def test_propensities_are_added_after_the_launch(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        for name in ("spring", "autumn"):
            add_campaign(transaction, name, decided=decisions(["1", "2", "3"], codes=[None] * 3))
        transaction.decisions.set_propensities(
            "spring", pa.table({"row": [2, 0], "propensity": [0.25, 1 / 3], "propensity_draws": [200, 200]})
        )
        assert transaction.decisions.of("spring")["propensity"].to_pylist() == [1 / 3, None, 0.25]
        assert transaction.decisions.of("spring")["propensity_draws"].to_pylist() == [200, None, 200]
        assert transaction.decisions.of("autumn")["propensity"].null_count == 3
        beyond = pa.table({"row": [3], "propensity": [0.5], "propensity_draws": [1]})
        with pytest.raises(StateError, match="decisions of the launch"):
            transaction.decisions.set_propensities("spring", beyond)


def test_contexts_come_back_by_row_with_those_of_late_arrivals(store: Store) -> None:
    many = 70_000
    matrix = np.arange(many * 3, dtype=np.float64).reshape(-1, 3) / 7
    people = decisions([str(number) for number in range(many)], codes=[None] * many)
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=people.slice(0, many - 2), contexts=np.asfortranarray(matrix[:-2]))
        for row in (many - 2, many - 1):
            late = people.slice(row, 1)
            transaction.decisions.add_late("spring", late, contexts=matrix[row:][:1], features=None, pooled=False)
        transaction.contexts.add("spring", "network-b", matrix[:4, :1])
    rows = np.array([many - 1, 0, 65_535, 65_536, many - 3, 0, many - 2])
    with store.reading() as transaction:
        assert transaction.contexts.of("spring", NETWORK).tobytes() == matrix.tobytes()
        assert transaction.contexts.of("spring", NETWORK, rows).tobytes() == matrix[rows].tobytes()
        assert transaction.contexts.of("spring", NETWORK, rows[:0]).shape == (0, 3)
        assert transaction.contexts.of("spring", "network-b").shape == (4, 1)
        for wrong in (many, -1):
            with pytest.raises(StateError, match="no context in some"):
                transaction.contexts.of("spring", NETWORK, np.array([0, wrong]))
        with pytest.raises(StateError, match="no contexts of network other"):
            transaction.contexts.of("spring", "other")
    new = decisions(["new"])
    with pytest.raises(InputError, match="3 finite columns"), store.writing("spring", action="test") as transaction:
        transaction.decisions.add_late("spring", new, contexts=matrix[:1, :2], features=None, pooled=False)


def test_features_come_back_with_those_of_late_arrivals(store: Store) -> None:
    features = pa.table({"customer_id": ["1", "2"], "spend": pa.array([1.5, None]), "orders": pa.array([1, 2])})
    features = features.replace_schema_metadata({"as_of": "2027-03-01"})
    late = pa.table({"customer_id": ["3"], "spend": [0.1 + 0.2], "orders": [7]})
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["1", "2"]), features=features)
        assert transaction.contexts.features("spring").equals(features, check_metadata=True)
        transaction.decisions.add_late(
            "spring", decisions(["3"]), contexts=np.zeros((1, 3)), features=late, pooled=False
        )
        found = transaction.contexts.features("spring")
        assert found.to_pylist() == [*features.to_pylist(), *late.to_pylist()]
        assert found.schema.equals(features.schema, check_metadata=True)
        add_late(transaction, decisions(["4"]))
        with pytest.raises(StateError, match=r"late arrivals.*have no features"):
            transaction.contexts.features("spring")
        add_campaign(transaction, "autumn", decided=decisions(["1"], codes=["A"]))
        with pytest.raises(StateError, match="No features"):
            transaction.contexts.features("autumn")


def test_a_reserve_is_taken_one_by_one_and_never_overdrawn(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction)
        transaction.decisions.set_reserve("spring", {0.1: 2, 0.25: None, 0.3: 0})
        assert [transaction.decisions.take_code("spring", 0.1) for _ in range(4)] == [True, True, False, False]
        assert transaction.decisions.take_code("spring", 0.25)
        assert not transaction.decisions.take_code("spring", 0.3)
        assert not transaction.decisions.take_code("spring", 0.2)
        assert transaction.decisions.reserve("spring") == {0.1: 0, 0.25: None, 0.3: 0}
        transaction.decisions.set_reserve("spring", {0.1: 7})
        assert transaction.decisions.reserve("spring") == {0.1: 7}
        assert [transaction.decisions.take_code("spring", 0.1, count=count) for count in (5, 3, 2)] == [
            True,
            False,
            True,
        ]
        assert transaction.decisions.reserve("spring") == {0.1: 0}


def test_the_seal_of_late_arrivals_names_who_came_so_far(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction)
        assert transaction.decisions.late_seal("spring") is None
    seals = []
    for customer in (500, 501):
        with store.writing("spring", action="test") as transaction:
            add_late(transaction, decisions([customer], codes=[f"L{customer}"]))
        with store.reading() as transaction:
            seals.append(transaction.decisions.late_seal("spring"))
            assert transaction.decisions.late_seal("spring") == seals[-1]
    assert None not in seals
    assert seals[0] != seals[1]


@pytest.mark.parametrize("count", [3, FEW, FEW + 1])
def test_few_and_many_names_find_the_same_late_arrivals(store: Store, count: int) -> None:
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction)
        add_late(transaction, decisions(list(range(500, 502)), codes=["L1", None]))
    with store.reading() as transaction:
        kept = transaction.decisions.of("spring", only_late=True)
        asked = pa.array(["501", *(f"nobody {place}" for place in range(count - 2)), "500"])
        assert transaction.decisions.of("spring", customers=asked).equals(kept)
        codes = pa.array(["L1", *(f"none {place}" for place in range(count - 1))])
        assert transaction.decisions.codes_in_use(codes).to_pylist() == ["L1"]


def test_evidence_is_replaced_whole_per_network(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        add_campaign(transaction)
        assert transaction.beliefs.evidence("spring", NETWORK) is None
        for content in (b"one", b"\x00\xfftwo"):
            transaction.beliefs.put_evidence("spring", NETWORK, content)
        transaction.beliefs.put_evidence("spring", "another", b"")
        assert transaction.beliefs.evidence("spring", NETWORK) == b"\x00\xfftwo"
        assert transaction.beliefs.evidence("spring", "another") == b""
        assert transaction.beliefs.networks("spring") == ("another", NETWORK)


def test_one_version_is_active(store: Store) -> None:
    with store.writing(BELIEF, action="test") as transaction:
        assert transaction.beliefs.version() is None
        transaction.beliefs.add_version(version(1), activate=True)
        transaction.beliefs.add_version(version(2, basket=b""), activate=True)
        transaction.beliefs.add_version(version(3), activate=False)
        assert transaction.beliefs.version() == version(2, basket=b"")
        transaction.beliefs.activate(1)
    with store.reading() as transaction:
        assert transaction.beliefs.version() == version(1)
        assert transaction.beliefs.version(3) == version(3)
        assert transaction.beliefs.version(4) is None
        assert [record.number for record in transaction.beliefs.versions()] == [1, 2, 3]
    with store.writing(BELIEF, action="test") as transaction:
        for wrong in (3, 5):
            with pytest.raises(StateError, match="next version of belief is 4"):
                transaction.beliefs.add_version(version(wrong), activate=True)
        with pytest.raises(StateError, match="no version 9"):
            transaction.beliefs.activate(9)


def test_moments_keep_their_microseconds_and_need_a_time_zone(store: Store) -> None:
    with store.writing("spring", action="test") as transaction:
        transaction.plans.add(plan_record(), NOBODY)
        assert transaction.plans.get("plan-of-spring").planned_at == MOMENT
    other = plan_record(plan_id="other")
    naive = type(other)(**{**_fields(other), "planned_at": MOMENT.replace(tzinfo=None)})
    with pytest.raises(InputError, match="without a time zone"), store.writing("spring", action="test") as transaction:
        transaction.plans.add(naive, NOBODY)


def test_a_store_refuses_another_currency_or_zone_once_a_campaign_was_launched(database_url: str) -> None:
    euro = Locale(read_currency("EUR"), "Europe/Berlin")
    for locale in (POUNDS_UTC, euro):  # nothing was launched, so either may be
        with closing(open_store(database_url, locale)) as store, store.reading() as transaction:
            assert store.locale == transaction.locale == locale
    with closing(open_store(database_url, euro)) as store, store.writing("spring", action="test") as transaction:
        add_campaign(transaction, locale=euro.fingerprint())
    for other in (POUNDS_UTC, replace(euro, time_zone="UTC"), replace(euro, currency=read_currency("JPY"))):
        with pytest.raises(StateError, match="cannot change once a campaign was launched"):
            open_store(database_url, other)
    open_store(database_url, euro).close()
