"""One suite over every store: what is put on a shelf is what comes back, and what contradicts is refused."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import MOMENT, NETWORK, add_campaign, decisions, plan_record, version

from disco.adapters.store import CampaignStore
from disco.records.errors import InputError, StateError
from disco.records.kept import DECISIONS
from disco.records.life import State


@pytest.fixture
def store(database_url: str) -> Iterator[CampaignStore]:
    store = CampaignStore(database_url)
    yield store
    store.close()


def test_a_plan_is_kept_once_and_found_by_the_beginning_of_its_id(store: CampaignStore) -> None:
    records = [plan_record("spring", plan_id=plan_id) for plan_id in ("abc1", "abd2")]
    with store.writing("spring") as shelves:
        for record in [*records, *records]:
            shelves.add_plan(record)
    with store.reading() as shelves:
        assert shelves.plans("spring") == tuple(records)
        assert shelves.plan("abc") == records[0]
        for unclear, words in (
            ("ab", "several"),
            ("ABC", "no such plan"),
            ("", "no such plan"),
            ("a_c", "no such plan"),
        ):
            with pytest.raises(StateError, match=words):
                shelves.plan(unclear)
        assert shelves.plans("autumn") == ()


def test_a_campaign_has_a_plan_and_is_launched_once(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        record = add_campaign(shelves)
        later = add_campaign(shelves, "a-later-one", start="2027-04-01")
        assert shelves.campaigns() == (record, later)
        with pytest.raises(StateError, match="launched before"):
            shelves.add_campaign(record)
        shelves.set_state("spring", State.PAUSED)
        assert shelves.campaign("spring").state is State.PAUSED
        assert shelves.find_campaign("autumn") is None
        for ask in (shelves.campaign, shelves.decisions, shelves.batches, shelves.reserve, shelves.counts):
            with pytest.raises(StateError, match=r"autumn.*no such campaign"):
                ask("autumn")


def test_a_campaign_without_its_plan_is_refused(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        record = add_campaign(shelves)
    homeless = type(record)(**{**_fields(record), "campaign": "other", "plan_id": "nowhere"})
    with pytest.raises(StateError, match="no such plan"), store.writing("other") as shelves:
        shelves.add_campaign(homeless)
    with store.reading() as shelves:
        assert shelves.campaigns() == (record,)


def _fields(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


@pytest.mark.parametrize("integer_ids", [True, False])
def test_decisions_come_back_as_they_were_and_are_numbered_on(store: CampaignStore, integer_ids: bool) -> None:
    ids = [-(2**63), 2**63 - 1, 17] if integer_ids else ["", 'a "quoted", {id} \\ \n', "ключ 🔑"]
    first = decisions(
        ids,
        codes=["A", None, "C"],
        expected_full_price=pa.array([0.1 + 0.2, None, 5e-324]),
        expected_engagement=pa.array([None, 1.7976931348623157e308, 0.0]),
    )
    with store.writing("spring") as shelves:
        add_campaign(shelves, integer_ids=integer_ids)
        assert shelves.add_decisions("spring", first) == 0
        late = decisions([4] if integer_ids else ["4"], late=[True])
        assert shelves.add_decisions("spring", late) == 3
    with store.reading() as shelves:
        kept = shelves.decisions("spring")
        assert kept.schema.remove(1) == DECISIONS.remove(1)
        assert kept["row"].to_pylist() == [0, 1, 2, 3]
        assert kept["late"].to_pylist() == [False, False, False, True]
        for name in first.column_names:
            assert repr(kept[name].to_pylist()[:3]) == repr(first[name].to_pylist())
        assert shelves.decisions("spring", customers=pa.array(ids[1:])).equals(kept.slice(1, 2))
        assert shelves.decisions("spring", codes=pa.array(["C", "A", "none", None, "A"])).equals(kept.take([0, 2]))
        assert shelves.decisions("spring", only_late=True).equals(kept.slice(3))
        assert shelves.decisions("spring", codes=pa.array(["A"]), customers=pa.array(ids[1:])).num_rows == 0
        assert shelves.decisions("spring", codes=pa.array([], pa.string())).num_rows == 0


_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(
    rows=st.dictionaries(_texts, st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
    reason=st.none() | _texts,
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_and_any_double_survive(store: CampaignStore, rows: dict[str, float], reason: str | None) -> None:
    table = decisions(list(rows), value=list(rows.values()), codes=[None] * len(rows), arm=[reason or ""] * len(rows))
    with suppress(_UndoneError), store.writing("spring") as shelves:
        add_campaign(shelves)
        shelves.add_decisions("spring", table)
        kept = shelves.decisions("spring")
        asked = shelves.decisions("spring", customers=table["customer_id"])
        raise _UndoneError
    assert kept["customer_id"].to_pylist() == list(rows)
    assert repr(kept["value"].to_pylist()) == repr([value + 0.0 for value in rows.values()])  # −0 becomes 0
    assert kept["arm"].to_pylist() == [reason or ""] * len(rows)
    assert asked.equals(kept)


class _UndoneError(Exception):
    pass


@pytest.mark.parametrize(
    "again",
    [decisions(["1"], codes=["NEW"]), decisions(["9"], codes=["CODE-1"]), decisions(["7", "7"], codes=["X", "Y"])],
    ids=["customer", "code", "customer within"],
)
def test_a_customer_or_code_that_is_there_is_refused_and_nothing_is_written(
    store: CampaignStore, again: pa.Table
) -> None:
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        shelves.add_decisions("spring", decisions(["1", "2"]))

    def add() -> None:
        with store.writing("spring") as shelves:
            shelves.set_state("spring", State.CLOSED)
            shelves.add_decisions("spring", again)

    with pytest.raises(StateError, match="there already"):
        add()
    with store.reading() as shelves:
        assert shelves.decisions("spring").num_rows == 2
        assert shelves.campaign("spring").state is State.LAUNCHED


def test_a_code_belongs_to_one_campaign_a_customer_may_be_in_many(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        add_campaign(shelves, "autumn")
        shelves.add_decisions("spring", decisions(["1", "2"]))
        shelves.add_decisions("autumn", decisions(["1", "2"], codes=["A1", None]))
        assert shelves.known_codes(pa.array(["x", "CODE-2", "A1"])).to_pylist() == ["A1", "CODE-2"]
    with pytest.raises(StateError), store.writing("autumn") as shelves:
        shelves.add_decisions("autumn", decisions(["3"], codes=["CODE-1"]))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_no_number_that_is_none_gets_in(store: CampaignStore, number: float) -> None:
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        with pytest.raises(InputError, match="NaN or infinity"):
            shelves.add_decisions("spring", decisions(["1", "2"], value=[0.0, number]))
        with pytest.raises(InputError, match="NaN"):
            shelves.add_contexts("spring", NETWORK, np.full((1, 3), number), first_row=0)
        with pytest.raises(InputError, match="NUL"):
            shelves.add_decisions("spring", decisions(["a\0b"]))
        with pytest.raises(InputError, match="NUL"):
            shelves.decisions("spring", customers=pa.array(["a\0b"]))


def test_propensities_are_added_after_the_launch(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        add_campaign(shelves, "autumn")
        for name in ("spring", "autumn"):
            shelves.add_decisions(name, decisions(["1", "2", "3"], codes=[None] * 3))
        shelves.set_propensities(
            "spring", pa.table({"row": [2, 0], "propensity": [0.25, 1 / 3], "propensity_draws": [200, 200]})
        )
        assert shelves.decisions("spring")["propensity"].to_pylist() == [1 / 3, None, 0.25]
        assert shelves.decisions("spring")["propensity_draws"].to_pylist() == [200, None, 200]
        assert shelves.decisions("autumn")["propensity"].null_count == 3


def test_contexts_come_back_by_row_across_blobs_and_late_additions(store: CampaignStore) -> None:
    many = 2 * 65_536 + 5
    matrix = np.arange(many * 3, dtype=np.float64).reshape(-1, 3) / 7
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        shelves.add_contexts("spring", NETWORK, matrix[:-2], first_row=0)
        shelves.add_contexts("spring", NETWORK, np.asfortranarray(matrix[-2:]), first_row=many - 2)
        shelves.add_contexts("spring", "network-b", matrix[:4, :1], first_row=0)
    rows = np.array([many - 1, 0, 65_535, 65_536, many - 3, 0, 2 * 65_536])
    with store.reading() as shelves:
        assert shelves.contexts("spring", NETWORK).tobytes() == matrix.tobytes()
        assert shelves.contexts("spring", NETWORK, rows).tobytes() == matrix[rows].tobytes()
        assert shelves.contexts("spring", NETWORK, rows[:0]).shape == (0, 3)
        assert shelves.contexts("spring", "network-b").shape == (4, 1)
        for wrong in (many, -1):
            with pytest.raises(StateError, match="rows without a context"):
                shelves.contexts("spring", NETWORK, np.array([0, wrong]))
        with pytest.raises(StateError, match="no contexts of network other"):
            shelves.contexts("spring", "other")
    with pytest.raises(InputError, match="2 columns"), store.writing("spring") as shelves:
        shelves.add_contexts("spring", NETWORK, matrix[:1, :2], first_row=many)


def test_a_reserve_is_taken_one_by_one_and_never_overdrawn(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        shelves.set_reserve("spring", {0.1: 2, 0.25: None, 0.3: 0})
        assert [shelves.take_code("spring", 0.1) for _ in range(4)] == [True, True, False, False]
        assert shelves.take_code("spring", 0.25)
        assert not shelves.take_code("spring", 0.3)
        assert not shelves.take_code("spring", 0.2)
        assert shelves.reserve("spring") == {0.1: 0, 0.25: None, 0.3: 0}
        shelves.set_reserve("spring", {0.1: 7})
        assert shelves.reserve("spring") == {0.1: 7}


def test_evidence_is_replaced_whole_per_network(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        add_campaign(shelves)
        assert shelves.evidence("spring", NETWORK) is None
        for content in (b"one", b"\x00\xfftwo"):
            shelves.put_evidence("spring", NETWORK, content)
        shelves.put_evidence("spring", "another", b"")
        assert shelves.evidence("spring", NETWORK) == b"\x00\xfftwo"
        assert shelves.evidence("spring", "another") == b""
        assert shelves.networks("spring") == ("another", NETWORK)


def test_one_version_of_a_model_is_active(store: CampaignStore) -> None:
    with store.writing("main") as shelves:
        assert shelves.version("main") is None
        shelves.add_version(version(1), activate=True)
        shelves.add_version(version(2), activate=True)
        shelves.add_version(version(3), activate=False)
        shelves.add_version(version(1, model="other", basket=b""), activate=True)
        assert shelves.version("main") == version(2)
        shelves.activate("main", 1)
    with store.reading() as shelves:
        assert shelves.version("main") == version(1)
        assert shelves.version("main", 3) == version(3)
        assert shelves.version("main", 4) is None
        assert [record.number for record in shelves.versions("main")] == [1, 2, 3]
        assert shelves.version("other") == version(1, model="other", basket=b"")
    with store.writing("main") as shelves:
        for wrong in (3, 5):
            with pytest.raises(StateError, match="expected version 4"):
                shelves.add_version(version(wrong), activate=True)
        with pytest.raises(StateError, match="no version 9"):
            shelves.activate("main", 9)


def test_moments_keep_their_microseconds_and_need_a_time_zone(store: CampaignStore) -> None:
    with store.writing("spring") as shelves:
        shelves.add_plan(plan_record())
        assert shelves.plan("plan-of-spring").planned_at == MOMENT
    other = plan_record(plan_id="other")
    naive = type(other)(**{**_fields(other), "planned_at": MOMENT.replace(tzinfo=None)})
    with pytest.raises(InputError, match="without a time zone"), store.writing("spring") as shelves:
        shelves.add_plan(naive)
