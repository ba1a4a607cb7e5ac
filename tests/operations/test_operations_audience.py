"""Who a plan is about: the condition decides, wrong ones are named, and equal files give equal hashes."""

import sqlite3
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.adapters.config import ShopSettings
from disco.entrypoints.python import Shop
from disco.features import FEATURES, CodesSent, ContextNetwork
from disco.features.snapshot import counted, snapshot_of, with_snapshot
from disco.operations.audience import LoadedAudience, load_audience
from disco.operations.plan import PlanResult, make_plan
from disco.operations.site import Site
from disco.records.errors import InputError
from disco.records.plan import CodesSection, Plan, read_plan

AS_OF = date(2026, 3, 1)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Any trained network will do; its file is what a shop has."""
    rng = np.random.default_rng(3)
    X = pa.table({feature.name: rng.lognormal(size=300) for feature in FEATURES})
    path = tmp_path_factory.mktemp("network") / "context.safetensors"
    ContextNetwork(heads="level", max_epochs=1).fit(X, rng.normal(4, 1, 300)).save(path)
    return path.read_bytes()


@pytest.fixture
def shop(tmp_path: Path, network: bytes) -> Shop:
    (tmp_path / "context.safetensors").write_bytes(network)
    write(
        tmp_path,
        customers={
            "customer_id": [1, 2, 3, 4],
            "joined_on": [date(2025, 1, 1), date(2025, 6, 1), date(2026, 3, 1), date(2025, 9, 1)],
            "country": ["GB", "GB", "GB", "US"],
        },
        orders={
            "order_id": [10, 11],
            "customer_id": [1, 4],
            "ordered_at": pa.array([date(2026, 1, 5), date(2026, 2, 1)]),
            "full_price": [50.0, 60.0],
            "paid": [50.0, 60.0],
            "items": [1, 2],
            "code": pa.array([None, None], pa.string()),
        },
    )
    return Shop(tmp_path, ShopSettings())


def write(folder: Path, **tables: Mapping[str, object]) -> None:
    (folder / "data").mkdir(exist_ok=True)
    for name, columns in tables.items():
        pq.write_table(pa.table(dict(columns)), folder / "data" / f"{name}.parquet")


def plan(eligible: str = "country = 'GB'", table: str = "data/customers.parquet") -> Plan:
    return read_plan(
        {
            "campaign": "spring",
            "customers": {"table": table, "eligible": eligible, "as_of": AS_OF},
            "depths": {0.2: {}},
            "objective": {"revenue_weight": 3},
            "valid": {"from": AS_OF, "days": 7},
        }
    )


def load(shop: Shop, wanted: Plan, *, keep: bool = True) -> LoadedAudience:
    site = Site(store=None, data=shop.data, clock=None, prior=None, cache=shop.cache(keep=keep))  # type: ignore[arg-type]
    return load_audience(site, wanted)


def ids(loaded: LoadedAudience) -> list[int]:
    return loaded.audience.ids.tolist()


def test_the_condition_decides_and_newcomers_are_left_out_with_a_note(shop: Shop) -> None:
    loaded = load(shop, plan())
    assert ids(loaded) == [1, 2]
    assert loaded.audience.known.tolist() == [True, False]
    assert loaded.features["customer_id"].to_pylist() == [1, 2]
    assert any("1 eligible customers joined on or after 2026-03-01" in note for note in loaded.notes)
    assert ids(load(shop, plan("true"))) == [1, 2, 4]


def test_the_shops_own_table_may_be_named(shop: Shop) -> None:
    assert ids(load(shop, plan(table="customers"))) == [1, 2]


def test_a_csv_of_customers_meets_integer_ids(shop: Shop) -> None:
    (shop.folder / "data" / "vip.csv").write_text("customer_id,joined_on,tier\n4,2025-09-01,gold\n1,2025-01-01,gold\n")
    assert ids(load(shop, plan("tier = 'gold'", "vip.csv"))) == [1, 4]


@pytest.mark.parametrize(
    ("eligible", "named"),
    [
        ("contry = 'GB'", "contry"),
        ("country =", "syntax error"),
        ("country", "BOOL"),
        ("true; DROP TABLE customers", "eligible"),
        ("customer_id IN (SELECT customer_id FROM 'data/customers.parquet')", "disabled"),
        ("country = 'FR'", "customers.eligible: found no customer who meets"),
    ],
)
def test_a_wrong_condition_is_named_with_what_there_is(shop: Shop, eligible: str, named: str) -> None:
    with pytest.raises(InputError, match=named) as caught:
        load(shop, plan(eligible))
    assert "customers.eligible" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("customer_id,joined_on\n1,2025-01-01\n1,2025-01-01\n", "1 twice"),
        ("customer_id,joined_on\n99,2025-01-01\n", "1 unknown id, the first in row 2"),
        ("id,joined_on\n1,2025-01-01\n", "customer_id"),
    ],
)
def test_a_table_that_cannot_be_used_is_named(shop: Shop, content: str, named: str) -> None:
    (shop.folder / "data" / "list.csv").write_text(content)
    with pytest.raises(InputError, match=named):
        load(shop, plan("true", "list.csv"))


def test_a_missing_table_is_named(shop: Shop) -> None:
    with pytest.raises(InputError, match=r"no file .*nowhere\.parquet"):
        load(shop, plan(table="nowhere.parquet"))


def test_equal_files_give_equal_inputs_and_features_are_built_once(shop: Shop) -> None:
    first = load(shop, plan())
    (kept,) = (shop.artefacts / "features").iterdir()
    stamp = kept.stat().st_mtime_ns
    again = load(shop, plan())
    assert again.inputs == first.inputs
    assert again.notes == first.notes
    assert kept.stat().st_mtime_ns == stamp
    assert (again.audience.context == first.audience.context).all()


def test_inputs_change_with_what_the_decision_rests_on_and_with_nothing_else(shop: Shop) -> None:
    before = load(shop, plan()).inputs
    table = pq.read_table(shop.folder / "data" / "orders.parquet")
    later = table.set_column(2, "ordered_at", pa.array([date(2026, 1, 5), date(2026, 5, 1)]))
    write(shop.folder, orders=dict(zip(later.column_names, later.columns, strict=True)))
    assert load(shop, plan()).inputs == before, "customer 4 is not eligible"
    dearer = table.set_column(3, "full_price", pa.array([55.0, 60.0]))
    write(shop.folder, orders=dict(zip(dearer.column_names, dearer.columns, strict=True)))
    changed = load(shop, plan()).inputs
    assert {name for name in before if changed[name] != before[name]} == {"features"}
    assert load(shop, plan("customer_id = 1")).inputs["customers"] != before["customers"]


def test_without_keep_nothing_is_written(shop: Shop) -> None:
    before = sorted(shop.folder.rglob("*"))
    load(shop, plan(), keep=False)
    assert sorted(shop.folder.rglob("*")) == before


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "poisoned", "without a hash"])
def test_cached_features_that_are_not_as_written_are_built_again_with_a_note(shop: Shop, damage: str) -> None:
    first = load(shop, plan())
    (kept,) = (shop.artefacts / "features").iterdir()
    content = kept.read_bytes()
    if damage == "cut":
        kept.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        kept.write_bytes(b"")
    elif damage == "flipped":
        # 60 places of the file's data; most of them are values, and a flipped value reads as another number
        places = np.random.default_rng(1).integers(4, len(content), 60)
        kept.write_bytes(bytes(byte ^ (1 if place in places else 0) for place, byte in enumerate(content)))
    elif damage == "poisoned":
        table = pq.read_table(kept)
        place = table.column_names.index("spend_365d")
        pq.write_table(table.set_column(place, "spend_365d", pa.array([1e6] * table.num_rows)), kept)
    else:  # as an older version named it
        kept.rename(kept.with_name(f"{kept.stem.partition('-')[0]}.parquet"))
    rehearsed = load(shop, plan(), keep=False)
    again = load(shop, plan())
    for loaded in (rehearsed, again):
        assert loaded.inputs == first.inputs
        assert any("cached features of 2026-03-01 could not be verified" in note for note in loaded.notes)
    assert [path.name for path in (shop.artefacts / "features").iterdir()] == [kept.name]
    assert load(shop, plan()).notes == first.notes


def test_single_flipped_bytes_in_cached_features_change_no_input(shop: Shop) -> None:
    first = load(shop, plan())
    (kept,) = (shop.artefacts / "features").iterdir()
    content = kept.read_bytes()
    for place in np.random.default_rng(2).integers(0, len(content), 8).tolist():
        kept.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        assert load(shop, plan(), keep=False).inputs == first.inputs


@pytest.mark.parametrize("place", ["../other.csv", "/etc/passwd", "data/../../other.csv", "link.csv"])
def test_a_table_outside_the_shop_is_refused(shop: Shop, place: str) -> None:
    other = shop.folder.parent / "other.csv"
    other.write_text("customer_id,joined_on\n1,2025-01-01\n")
    (shop.folder / "data" / "link.csv").symlink_to(other)
    with pytest.raises(InputError, match=r"customers\.table: found no file .* below data/"):
        load(shop, plan("true", place))


def test_tables_may_lie_where_the_setting_says(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("tables")
    for path in (shop.folder / "data").iterdir():
        path.rename(elsewhere / path.name)
    (shop.folder / "data").rmdir()
    moved = Shop(shop.folder, ShopSettings(data=str(elsewhere)))
    assert ids(load(moved, plan(table=str(elsewhere / "customers.parquet")))) == [1, 2]


def pooled(at_most: int) -> Plan:
    content = plan().model_dump(mode="json", by_alias=True)
    return read_plan(
        {**content, "depths": {0.2: {"at_most": at_most}}, "policy": {"name": "random"}, "codes": {"pool": "codes.txt"}}
    )


def make(shop: Shop, wanted: Plan) -> PlanResult:
    with shop.site(missing="create") as site:
        return make_plan(site, wanted, dry_run=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no file"),
        ("CODE-1\n", "1 unused code; expected at least 2"),
        ("CODE-1\nCODE-1\nCODE-2\n", "repeat"),
        (
            "root:x:0:0:root:/root:/bin/bash\nCODE-2\n",
            "1 line without a usable code, the first is entry 1; expected 4 to 64",
        ),
        ("", "pool of codes: found no codes; expected a code for each customer"),
        ("CODE-1\n=1+1+1\n", "the first is entry 2"),
        ("CODE-1\nABC\n", "the first is entry 2"),
        (f"CODE-1\n{'A' * 65}\n", "the first is entry 2"),
    ],
)
def test_a_pool_that_cannot_be_used_is_found_by_the_plan(shop: Shop, content: str | None, words: str) -> None:
    if content is not None:
        (shop.folder / "lists").mkdir()
        (shop.folder / "lists" / "codes.txt").write_text(content)
    with pytest.raises(InputError, match=words):
        make(shop, pooled(2))


def test_a_pool_outside_the_shop_is_refused_before_anything_is_read(shop: Shop) -> None:
    wanted = pooled(2).model_copy(update={"codes": CodesSection(pool="../../../etc/passwd")})
    with pytest.raises(InputError, match=r"codes\.pool: found no file .*/etc/passwd' below lists/ or data/"):
        make(shop, wanted)


def test_a_pool_too_small_for_the_reserve_is_warned_of(shop: Shop) -> None:
    (shop.folder / "lists").mkdir()
    (shop.folder / "lists" / "codes.txt").write_text("CODE-1\nCODE-2\n")
    content = pooled(2).model_dump(mode="json", by_alias=True)
    wanted = read_plan({**content, "reserve": {"share": 0.5}, "depths": {0.2: {"at_most": 3}}})
    assert any(
        "1 go out at the launch, so 1 are left for the reserve of 2" in word for word in make(shop, wanted).warnings
    )
    assert not any("pool" in word for word in make(shop, pooled(2)).warnings)


# ---- contexts centred on the day ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def centring_network(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A network with an engagement head, which knows where the features stood when it was trained."""
    rng = np.random.default_rng(4)
    X = pa.table({feature.name: rng.lognormal(size=600) for feature in FEATURES})
    X = X.cast(with_snapshot(X.schema, counted(X)))
    depth = rng.choice([0.1, 0.3], 600)
    codes = CodesSent(X, depth, rng.random(600) < 0.4, np.full(600, "a"))
    path = tmp_path_factory.mktemp("network") / "context.safetensors"
    ContextNetwork(max_epochs=1).fit(X, rng.normal(4, 1, 600), depth, codes=codes).save(path)
    return path.read_bytes()


@pytest.fixture
def busy_shop(tmp_path: Path, centring_network: bytes) -> Shop:
    """300 customers with an order each, the first 50 of them in the US."""
    (tmp_path / "context.safetensors").write_bytes(centring_network)
    write(
        tmp_path,
        customers={
            "customer_id": list(range(300)),
            "joined_on": [date(2025, 1, 1)] * 300,
            "country": ["US"] * 50 + ["GB"] * 250,
        },
        orders=_orders(price=50.0),
    )
    return Shop(tmp_path, ShopSettings())


def _orders(*, price: float) -> dict[str, object]:
    """One order each; those of customers outside the plan cost `price`."""
    return {
        "order_id": list(range(300)),
        "customer_id": list(range(300)),
        "ordered_at": pa.array([date(2026, 1, 1 + number % 28) for number in range(300)]),
        "full_price": [price] * 50 + [20.0 + number for number in range(250)],
        "paid": [price] * 50 + [20.0 + number for number in range(250)],
        "items": [1] * 300,
        "code": pa.array([None] * 300, pa.string()),
    }


def test_contexts_are_centred_on_all_customers_of_the_day_and_the_plan_names_the_snapshot(busy_shop: Shop) -> None:
    loaded = load(busy_shop, plan())
    network = busy_shop.data.network()
    day = snapshot_of(loaded.features.schema)
    assert day is not None
    assert day.customers == 300  # not only those of the plan
    assert loaded.inputs["snapshot"] == day.hash
    assert loaded.head == network.head_ is not None
    uncentred = network.transform(loaded.features.read().replace_schema_metadata(None))
    assert not np.array_equal(loaded.audience.context, uncentred)
    # a rebuild embeds the features kept with the campaign, which carry the snapshot
    assert network.transform(loaded.features.read()).tobytes() == loaded.audience.context.tobytes()


def test_customers_outside_the_plan_move_the_snapshot_and_with_it_the_inputs(busy_shop: Shop) -> None:
    before = load(busy_shop, plan())
    again = load(busy_shop, plan())
    assert again.inputs == before.inputs  # from the cache
    write(busy_shop.folder, orders=_orders(price=500.0))
    after = load(busy_shop, plan())
    assert after.inputs["features"] == before.inputs["features"]
    assert after.inputs["snapshot"] != before.inputs["snapshot"]
    assert after.audience.context.tobytes() != before.audience.context.tobytes()


def test_part_of_the_customers_gets_the_same_contexts_as_within_the_whole(busy_shop: Shop) -> None:
    whole, some = load(busy_shop, plan()), load(busy_shop, plan("customer_id IN (60, 77)"))
    places = np.isin(whole.audience.ids, some.audience.ids)
    assert some.audience.context.tobytes() == whole.audience.context[places].tobytes()


def test_features_cached_before_there_were_snapshots_get_theirs(busy_shop: Shop) -> None:
    before = load(busy_shop, plan())
    (cached,) = busy_shop.cache().folder.glob("*.parquet")
    kept = pq.read_table(cached)
    bare = {key: value for key, value in kept.schema.metadata.items() if key != b"disco.snapshot"}
    pq.write_table(kept.replace_schema_metadata(bare), cached)
    assert load(busy_shop, plan()).inputs == before.inputs
    damaged = {**kept.schema.metadata, b"disco.snapshot": kept.schema.metadata[b"disco.snapshot"][:-9] + b"123456]]}"}
    pq.write_table(kept.replace_schema_metadata(damaged), cached)
    rebuilt = load(busy_shop, plan())
    assert rebuilt.inputs == before.inputs
    assert any("could not be verified" in note for note in rebuilt.notes)


def test_a_feature_that_moved_beyond_reason_is_a_note(busy_shop: Shop) -> None:
    """The network was trained on features around 1, and prices here are in the hundreds."""
    write(busy_shop.folder, orders=_orders(price=5e7))
    (note,) = (note for note in load(busy_shop, plan()).notes if "standard deviations" in note)
    assert "disco check" in note


def test_a_network_without_the_head_names_no_snapshot(shop: Shop) -> None:
    loaded = load(shop, plan())
    assert "snapshot" not in loaded.inputs
    assert loaded.head is None
    assert snapshot_of(loaded.features.schema) is not None  # kept for a network that comes later


def kept_files(shop: Shop, kind: str) -> list[Path]:
    return sorted((shop.artefacts / kind).glob("*"))


def embeds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Appended to whenever customers are embedded: how many."""
    seen: list[int] = []
    transform = ContextNetwork.transform

    def counting(self: ContextNetwork, X: pa.Table, **given: object) -> object:
        seen.append(X.num_rows)
        return transform(self, X, **given)

    monkeypatch.setattr(ContextNetwork, "transform", counting)
    return seen


def test_the_second_plan_of_a_day_reads_contexts_instead_of_embedding(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = embeds(monkeypatch)
    first, second = load(shop, plan()), load(shop, plan())
    assert seen == [2]
    assert second.inputs == first.inputs
    assert second.audience.context.tobytes() == first.audience.context.tobytes()
    assert second.audience.known.tolist() == first.audience.known.tolist()
    assert second.audience.context.flags["C_CONTIGUOUS"]
    everybody = load(shop, plan("true"))  # other customers are embedded
    assert seen == [2, 3]
    assert everybody.audience.context[:2].tobytes() == first.audience.context.tobytes()
    assert len(kept_files(shop, "contexts")) == 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_kept_contexts_that_are_not_as_written_are_embedded_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    seen = embeds(monkeypatch)
    first = load(shop, plan())
    (kept,) = kept_files(shop, "contexts")
    content = kept.read_bytes()
    if damage == "flipped":
        kept.write_bytes(content[:30] + bytes([content[30] ^ 1]) + content[31:])
    elif damage == "cut":
        kept.write_bytes(content[:100])
    else:
        kept.unlink()
    again = load(shop, plan())
    assert seen == [2, 2]
    assert again.audience.context.tobytes() == first.audience.context.tobytes()
    assert [path.read_bytes() for path in kept_files(shop, "contexts")] == [content]


def test_another_network_embeds_the_same_features_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(shop, plan())
    rng = np.random.default_rng(4)
    X = pa.table({feature.name: rng.lognormal(size=300) for feature in FEATURES})
    network = ContextNetwork(heads="level", max_epochs=1).fit(X, rng.normal(4, 1, 300))
    network.save(shop.folder / "context.safetensors")
    again = load(Shop(shop.folder, ShopSettings()), plan())
    assert again.inputs["features"] == first.inputs["features"]
    assert again.audience.context.tobytes() != first.audience.context.tobytes()


def test_a_purge_removes_features_and_contexts(shop: Shop) -> None:
    load(shop, plan())
    removed = shop.cache().purge()
    assert {path.parent.name for path in removed} == {"features", "contexts"}
    assert kept_files(shop, "features") == kept_files(shop, "contexts") == []


def test_plans_with_equal_features_share_their_artefact_until_it_is_damaged(shop: Shop) -> None:
    def features(result: PlanResult) -> str:
        with shop.store() as store, store.reading() as transaction:
            assert transaction.plans.tables(result.plan_id).features.num_rows == 2
        with sqlite3.connect(shop.folder / "disco.db") as connection:
            found = connection.execute("select features from plans where plan_id = ?", (result.plan_id,)).fetchone()
        return str(found[0])

    def make_kept(seed: int) -> PlanResult:
        wanted = plan().model_copy(update={"seed": seed})
        with shop.site(missing="create") as site:
            return make_plan(site, wanted)

    name = features(make_kept(1))
    artefact = shop.artefacts / f"{name}.arrow"
    written = artefact.stat().st_mtime_ns
    assert features(make_kept(2)) == name
    assert artefact.stat().st_mtime_ns == written
    content = artefact.read_bytes()
    artefact.write_bytes(content[:-50])
    assert features(make_kept(3)) == name
    assert artefact.read_bytes() == content
