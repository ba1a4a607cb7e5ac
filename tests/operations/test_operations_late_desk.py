"""Late arrivals from what is prepared: the same bytes as `disco late`, one reason per customer, strangers marked."""

import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from stores import artefacts_of

from disco.adapters.config import ShopSettings
from disco.adapters.shop import WallClock
from disco.entrypoints.python import Shop
from disco.features import FEATURES, ContextNetwork
from disco.operations import launch
from disco.operations.forget import access, forget
from disco.operations.late import LateDecision, NotPreparedError, decide_new, late_arrivals, look_up, prepare_arrivals
from disco.operations.upkeep import audit
from disco.records.errors import InputError, StateError
from disco.store import schema

SECRET = b"s" * 32
PLANNED, DAY = date(2026, 3, 1), date(2026, 3, 9)
NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
CUSTOMERS, NEW = 240, 120  # of all customers, how many joined after the plan's day


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    rng = np.random.default_rng(3)
    features = pa.table({feature.name: rng.lognormal(size=300) for feature in FEATURES})
    path = tmp_path_factory.mktemp("network") / "context.safetensors"
    ContextNetwork(heads="level", max_epochs=1).fit(features, rng.normal(4, 1, 300)).save(path)
    return path.read_bytes()


def write_tables(folder: Path, *, text_ids: bool) -> None:
    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng(5)
    numbers = np.arange(1, CUSTOMERS + 1)
    ids = np.array([f"c{number}" for number in numbers]) if text_ids else numbers
    joined = [date(2025, 1, 1) if n <= CUSTOMERS - NEW else date(2026, 3, 4) for n in numbers.tolist()]
    joined[-1] = DAY  # this morning: nothing is known of them yet
    customers = {
        "customer_id": ids,
        "joined_on": joined,
        "country": np.where(numbers % 11, "GB", "US"),
        "region": np.where(numbers % 3, "North", "South"),
        "channel": np.where(numbers % 2, "sms", "email"),
    }
    buyers = rng.choice(ids[:-1], 400)
    late = np.isin(buyers, ids[CUSTOMERS - NEW :])
    days = np.where(late, np.datetime64("2026-03-05"), np.datetime64("2025-11-01"))
    orders = {
        "order_id": np.arange(400),
        "customer_id": buyers,
        "ordered_at": days.astype("datetime64[us]"),
        "full_price": np.round(rng.lognormal(4, 0.5, 400), 2),
        "paid": np.full(400, 10.0),
        "items": rng.integers(1, 5, 400),
        "code": pa.nulls(400, pa.string()),
    }
    given = {
        "code_id": [f"old{number}" for number in range(30)],
        "customer_id": ids[CUSTOMERS - NEW : CUSTOMERS - NEW + 30],
        "campaign_id": ["before"] * 30,
        "depth": [0.1] * 30,
        "sent_at": pa.array([datetime(2026, 3, 1)] * 30, pa.timestamp("us")),
        "redeemed_at": pa.nulls(30, pa.timestamp("us")),
    }
    for name, columns in (("customers", customers), ("orders", orders), ("codes", given)):
        pq.write_table(pa.table(columns), folder / "data" / f"{name}.parquet")
    (folder / "lists").mkdir()
    (folder / "lists" / "out.csv").write_text("\n".join(map(str, [*ids[-20:-10], "999001" if not text_ids else "x1"])))
    (folder / "lists" / "vip.csv").write_text("\n".join(map(str, [*ids[:150], "999002" if not text_ids else "x2"])))
    (folder / "lists" / "codes.txt").write_text("\n".join(f"POOL-{number:04d}" for number in range(400)))


def learned(folder: Path, network: bytes, *, text_ids: bool, url: str | None = None) -> Shop:
    """A shop that has learned from a random campaign."""
    write_tables(folder, text_ids=text_ids)
    (folder / "context.safetensors").write_bytes(network)
    settings = ShopSettings() if url is None else ShopSettings(database_url=url, artefacts=str(artefacts_of(url)))
    shop = Shop(folder, settings, WallClock(datetime(2026, 1, 1, 9, tzinfo=UTC)))
    before = plan(
        campaign="before",
        policy={"name": "random"},
        reserve={"share": 0},
        holdout={"share": 0},
        valid={"from": "2026-01-01", "days": 7},
        customers={"table": "customers", "as_of": "2026-01-01"},
    )
    sent = shop.launch(shop.plan(before).plan_id).decisions
    coded = sent.filter(sent["code"].is_valid())
    rows = coded.num_rows // 2
    purchases = pa.table(
        {
            "event_id": [f"e{number}" for number in range(rows)],
            "campaign_id": ["before"] * rows,
            "customer_id": coded["customer_id"].slice(0, rows),
            "code": coded["code"].slice(0, rows),
            "ordered_at": pa.array([datetime(2026, 1, 3)] * rows, pa.timestamp("us")),
            "full_price": np.round(np.exp(np.random.default_rng(1).normal(4, 0.5, rows)), 2),
            "kind": ["purchase"] * rows,
            "refers_to": pa.nulls(rows, pa.string()),
        }
    )
    shop.ingest("before", purchases)
    shop.learn("before", as_of=date(2026, 2, 20))
    for day in (PLANNED, DAY):  # once for all campaigns, whose plans and arrivals find them cached
        shop.cache().features_as_of(shop.data, day)
    return Shop(folder, settings, WallClock(NOW))


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory, network: bytes) -> dict[bool, Path]:
    """By whether ids are text: the folder of a shop that has learned."""
    place = tmp_path_factory.mktemp("templates")
    return {text: learned(place / str(text), network, text_ids=text).folder for text in (False, True)}


@pytest.fixture
def make(tmp_path: Path, templates: dict[bool, Path]):
    """Equal shops."""

    def shop(*, text_ids: bool = False) -> Shop:
        folder = tmp_path / f"shop{len(list(tmp_path.iterdir()))}"
        shutil.copytree(templates[text_ids], folder)
        return Shop(folder, ShopSettings(), WallClock(NOW))

    return shop


def plan(**more):
    return {
        "campaign": "spring",
        "customers": {"table": "customers", "eligible": "country = 'GB'", "as_of": PLANNED.isoformat()},
        "depths": {0.1: {"at_most": "40%"}, 0.3: {"at_most": "20%"}},
        "objective": {"revenue_weight": 3},
        "reserve": {"share": "50%"},
        "holdout": {"share": "10%"},
        "valid": {"from": "2026-03-08", "days": 14},
        "seed": 4,
        **more,
    }


def launched(shop: Shop, **more) -> Shop:
    """The shop with the campaign `spring`."""
    planned = Shop(shop.folder, shop.settings, WallClock(datetime(2026, 3, 1, 9, tzinfo=UTC)))
    shop.launch(planned.plan(plan(**more)).plan_id)
    return shop


@pytest.fixture(scope="module")
def prepared_folder(tmp_path_factory: pytest.TempPathFactory, templates: dict[bool, Path]) -> Path:
    folder = tmp_path_factory.mktemp("prepared") / "shop"
    prepare(launched(Shop(Path(shutil.copytree(templates[False], folder)), ShopSettings(), WallClock(NOW))))
    return folder


@pytest.fixture
def prepared(tmp_path: Path, prepared_folder: Path) -> Shop:
    """A shop with the campaign `spring`, whose late arrivals are prepared."""
    return Shop(Path(shutil.copytree(prepared_folder, tmp_path / "prepared")), ShopSettings(), WallClock(NOW))


def twin(shop: Shop) -> Shop:
    """An equal shop, with the same campaign."""
    return Shop(Path(shutil.copytree(shop.folder, f"{shop.folder}-twin")), shop.settings, shop.clock)


def prepare(shop: Shop, **more):
    with shop.site() as site:
        return prepare_arrivals(site, **more)


def ask(shop: Shop, customers, *, desk=None, clock=None, **more):
    names, clock = [str(customer) for customer in customers], clock or shop.clock
    with shop.store() as store:
        answers, desk = look_up(store, "spring", names, desk=desk, clock=clock)
        fresh = [name for name in names if name not in answers]
        if fresh:
            settings = {"prior": shop.prior(), "clock": clock, "secret": SECRET, **more}
            decided, desk = decide_new(store, shop.data, fresh, desk=desk, **settings)
            answers |= decided
        return answers, desk


def late(shop: Shop, customers):
    with shop.site() as site:
        return late_arrivals(site, "spring", [str(customer) for customer in customers], secret=SECRET)


def kept(shop: Shop):
    """Everything that late arrivals left in the database."""
    with shop.store() as store, store.reading() as transaction:
        number = transaction.decisions._session.number("spring")
        rows = sa.select(schema.late_decisions).where(schema.late_decisions.c.campaign_number == number)
        late = transaction.decisions._connection.execute(rows.order_by(schema.late_decisions.c.row)).mappings().all()
        record = transaction.plans.campaign("spring")
        return (
            [{**row, "context": bytes(row["context"])} for row in late],
            transaction.decisions.reserve("spring"),
            transaction.decisions.late_seal("spring"),
            transaction.beliefs.evidence("spring", record.network),
        )


VARIANTS = {
    "thompson": {"control": {"share": "20%"}},
    "ucb": {"policy": {"name": "ucb"}},
    "epsilon_greedy": {"policy": {"name": "epsilon_greedy"}},
    "greedy": {"policy": {"name": "greedy"}},
    "random": {"policy": {"name": "random"}, "holdout": {"share": 0}},
    "budget": {"budget": 150.0},
    "segments": {"segments": {"column": "region", "limits": {"North": {0.3: {"at_most": "5%"}}}}},
    "segments and budget": {
        "segments": {"column": "region", "limits": {"South": {0.1: {"at_most": "5%"}}}},
        "budget": 90.0,
        "channel": {"column": "channel"},
    },
    "pool": {"codes": {"pool": "lists/codes.txt"}},
    "pool and shared": {"codes": {"pool": "lists/codes.txt", "shared": {0.1: "SPRING10"}}},
    # with less exploration, the prices leave these customers hardly any code
    "prefix": {"codes": {"prefix": "SPRING"}, "control": {"share": "10%"}, "policy": {"exploration": 1}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_desk_gives_and_keeps_the_bytes_of_the_command(make, variant):
    one = launched(make(text_ids=variant == "prefix"), **VARIANTS[variant])
    compare(one, twin(one), prefix="c" if variant == "prefix" else "")


def test_the_desk_gives_the_same_on_another_database(make, tmp_path, network, new_postgres_url):
    more = VARIANTS["segments and budget"]
    other = learned(tmp_path / "postgresql", network, text_ids=False, url=new_postgres_url())
    compare(launched(make(), **more), launched(other, **more))


def compare(one: Shop, other: Shop, *, prefix: str = "") -> None:
    """One decides by the command, the other at the desk."""
    prepare(other)
    with one.store() as store, store.reading() as transaction:
        decided = {str(name) for name in transaction.decisions.of("spring")["customer_id"].to_pylist()}
    numbers = [n for n in range(CUSTOMERS - NEW + 1, CUSTOMERS) if n % 11]
    arriving = [f"{prefix}{n}" for n in numbers]
    assert not decided & set(arriving)
    command = [row for part in (arriving[:1], arriving[1:60], arriving[60:]) for row in late(one, part).decisions]
    desk, answers = None, {}
    for first in range(0, len(arriving), 17):
        found, desk = ask(other, arriving[first : first + 17], desk=desk)
        answers |= found
    assert [answers[name] for name in arriving] == command
    assert kept(other) == kept(one)
    codes = [answer.code for answer in command if answer.code]
    assert 5 < len(codes) < len(arriving)
    with other.store() as store:
        assert all(finding.ok for finding in audit(store))


def test_who_was_decided_gets_the_same_again_and_nothing_is_written(prepared):
    first, desk = ask(prepared, range(133, 143))
    before = kept(prepared)
    again, _ = ask(prepared, range(142, 132, -1), desk=desk)
    assert again == first
    assert all(isinstance(answer, LateDecision) for answer in first.values())
    rehearsed, _ = ask(prepared, [150, 151], dry_run=True)
    assert len(rehearsed) == 2
    assert kept(prepared) == before


def test_strangers_get_the_population_context_and_are_marked(make):
    shop = launched(make(), segments={"column": "region", "limits": {"North": {0.3: {"at_most": "5%"}}}})
    prepare(shop)
    answers, _ = ask(shop, [7_000_001, 7_000_002, CUSTOMERS, 131])
    assert [answers[str(one)].known for one in (7_000_001, 7_000_002, CUSTOMERS)] == [False] * 3
    rows = {row["customer_id"]: row for row in kept(shop)[0]}
    assert not any(np.frombuffer(rows["7000001"]["context"], "<f8"))
    assert rows["7000001"]["segment"] is None
    assert rows[str(CUSTOMERS)]["segment"] == "South"  # joined this morning: in the table, and nothing bought yet
    assert shop.explain("spring", 7_000_001).known is False
    with shop.store() as store, store.reading() as transaction:
        features = transaction.contexts.features("spring")
        assert features.slice(features.num_rows - 4)["customer_id"].to_pylist() == [
            7_000_001,
            7_000_002,
            CUSTOMERS,
            131,
        ]


def test_each_customer_who_is_left_out_gets_the_reason_of_the_command(make):
    more = {"exclude": "lists/out.csv", "contact": {"at_most": 1, "days": 30}}
    one = launched(make(), **more)
    other = twin(one)
    prepare(other)
    left_out = [CUSTOMERS - 15, CUSTOMERS - NEW + 5, 132]  # on the list, at the limit, abroad (132 = 12 · 11)
    answers, _ = ask(other, [*left_out, 200])
    for customer in left_out:
        with pytest.raises(InputError) as error:
            late(one, [customer])
        assert str(answers[str(customer)]) == str(error.value)
    assert isinstance(answers["200"], LateDecision)  # the others are decided all the same


def test_the_command_names_all_whom_the_first_reason_leaves_out_and_decides_nobody(make):
    shop = launched(make(), exclude="lists/out.csv")
    before = kept(shop)
    with pytest.raises(InputError, match=r"customer 132: found no row that meets .* \(and 2 more\)"):
        late(shop, [200, CUSTOMERS - 15, 132, 143, 7_000_001])
    with pytest.raises(
        InputError, match=rf"customer {CUSTOMERS - 15} \(and 1 more\): found somebody who is on the list"
    ):
        late(shop, [200, CUSTOMERS - 15, CUSTOMERS - 12])
    assert kept(shop) == before


def test_somebody_who_joined_today_gets_the_population_context_from_the_command_too(make):
    (decided,) = late(launched(make()), [CUSTOMERS]).decisions
    assert decided.customer_id == CUSTOMERS
    assert not decided.known


def test_lists_and_the_contact_rule_hold_for_strangers_too(make):
    shop = launched(make(), exclude="lists/out.csv", contact={"at_most": 1, "days": 400})
    prepare(shop)
    answers, _ = ask(shop, [999_001, 999_003])
    assert "on the list lists/out.csv" in str(answers["999001"])
    assert isinstance(answers["999003"], LateDecision)
    listed = launched(make(), include="lists/vip.csv")
    prepare(listed)
    answers, _ = ask(listed, [999_002, 999_003])
    assert isinstance(answers["999002"], LateDecision)
    assert "not on the list lists/vip.csv" in str(answers["999003"])


def test_a_code_of_another_campaign_since_the_preparation_counts(make):
    shop = launched(make(), contact={"at_most": 1, "days": 30})
    prepare(shop)
    other = plan(campaign="other", reserve={"share": "50%"}, valid={"from": "2026-03-08", "days": 14})
    planned = Shop(shop.folder, shop.settings, WallClock(datetime(2026, 3, 1, 9, tzinfo=UTC)))
    shop.launch(planned.plan(other).plan_id)
    coded = [
        one.customer_id
        for one in shop.late("other", [n for n in range(155, 215) if n % 11], as_of=DAY).decisions
        if one.code
    ]
    answers, _ = ask(shop, coded)
    assert coded
    assert all("at the limit of one code in 30 days" in str(answer) for answer in answers.values())


def test_nothing_is_decided_without_preparation_or_when_the_campaign_is_over(make):
    shop = launched(make(), reserve={"share": "30%"})
    with shop.store() as store:
        with store.writing("spring", action="late") as transaction:
            transaction.arrivals.remove("spring")
        with pytest.raises(NotPreparedError, match="contexts of campaign spring are not prepared"):
            ask(shop, [131])
    done = prepare(shop)
    assert [one.campaign for one in done.campaigns] == ["spring"]
    assert done.campaigns[0].as_of == DAY
    assert done.campaigns[0].with_features > 90
    with pytest.raises(StateError, match="over since"):
        ask(shop, [131], clock=WallClock(NOW + timedelta(days=20)))
    with shop.store() as store:
        launch.pause(store, "spring", clock=WallClock(NOW))
    with pytest.raises(StateError, match="paused"):
        ask(shop, [131])
    assert prepare(shop).campaigns == ()


@pytest.mark.parametrize("name", ["", " ", "12x", "007", "1\x00", "9" * 30, "1\n2", "x" * 300])
def test_an_id_that_no_customer_can_have_gets_no_code(prepared, name):
    answers, _ = ask(prepared, [name, "131"])
    assert isinstance(answers[name], InputError)
    assert isinstance(answers["131"], LateDecision)


def test_a_forgotten_customer_is_prepared_no_more_and_gets_no_second_code(prepared):
    ask(prepared, ["150"])
    with prepared.store() as store:
        (only,) = access(store, "152", tables="data").records
        assert (only.place, only.where, only.content["customer_id"]) == ("prepared", "spring", 152)
        assert len(only.content["context"]) == 6
        assert only.content["features"]["customer_id"] == 152
        forget(
            store,
            ["150", "152"],
            clock=prepared.clock,
            cache=prepared.cache(),
            folders=[prepared.folder],
            tables="data",
        )
        with store.reading() as transaction:
            left = transaction.arrivals.of("spring", pa.array(["150", "151", "152"]))
        assert access(store, "152", tables="data").records == ()
    assert left.customers["customer_id"].to_pylist() == [151]
    answers, _ = ask(prepared, ["150", "151", "152"])
    assert "was forgotten" in str(answers["150"])
    assert isinstance(answers["151"], LateDecision)
    assert not answers["152"].known  # they had no decision, and nothing is known of them now


def test_another_network_than_that_of_the_launch_is_refused(make, network, tmp_path):
    shop = launched(make())
    rng = np.random.default_rng(4)
    features = pa.table({feature.name: rng.lognormal(size=300) for feature in FEATURES})
    other = ContextNetwork(heads="level", max_epochs=1).fit(features, rng.normal(4, 1, 300))
    other.save(shop.folder / "context.safetensors")
    with pytest.raises(StateError, match="another context network"):
        prepare(shop, campaign="spring")
    assert "another context network" in prepare(shop).warnings[0]
