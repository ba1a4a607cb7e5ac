"""A plan of a large shop: streamed by bucket, refused where a disk is too small, whole or absent after a kill."""

import signal
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killed_steps import INTERRUPTED, plan_step
from many_processes import ended

from disco.entrypoints.python import Shop
from disco.features import ContextNetwork
from disco.features.builder import build_features
from disco.operations.contexts import FeatureCache
from disco.operations.plan import PlanResult, make_plan
from disco.records import files
from disco.records.errors import InputError

CUSTOMERS = 9  # a bucket takes as long with one customer as with many
TRAINED_ON = 160
AS_OF = date(2026, 3, 1)
PLAN = {
    "campaign": "spring",
    "customers": {"table": "customers", "as_of": AS_OF.isoformat()},
    "depths": {"0.1": {"at_most": "40%"}, "0.2": {"at_most": "30%"}},
    "objective": {"revenue_weight": 3},
    "policy": {"name": "random"},
    "valid": {"from": AS_OF.isoformat(), "days": 7},
    "seed": 4,
}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("network")
    _tables(folder, customers=TRAINED_ON)
    shop = Shop.open(folder)
    with shop.data.tables() as tables:
        features = build_features(tables, as_of=AS_OF).drop_columns(["customer_id"])
    fitted = ContextNetwork(heads="level", max_epochs=1).fit(
        features, [4.0 + number % 3 for number in range(TRAINED_ON)]
    )
    fitted.save(folder / "context.safetensors")
    return (folder / "context.safetensors").read_bytes()


def _tables(folder: Path, *, customers: int = CUSTOMERS) -> None:
    (folder / "data").mkdir()
    (folder / "disco.yaml").write_text("threads: 1\n")
    ids = [f"c{number:03d}" for number in range(customers)]
    rows = 4 * customers
    tables = {
        "customers": {"customer_id": ids[::-1], "joined_on": [date(2025, 1, 1)] * customers},
        "orders": {
            "order_id": [f"o{number}" for number in range(rows)],
            "customer_id": [ids[number * 7 % customers] for number in range(rows)],
            "ordered_at": pa.array([date(2026, 1 + number % 2, 1 + number % 28) for number in range(rows)]),
            "full_price": [20.0 + number for number in range(rows)],
            "paid": [20.0 + number for number in range(rows)],
            "items": [1 + number % 3 for number in range(rows)],
            "code": pa.nulls(rows, pa.string()),
        },
        "site": {
            "customer_id": [ids[number * 3 % customers] for number in range(rows)],
            "day": pa.array([date(2026, 2, 1 + number % 28) for number in range(rows)]),
            **{name: [number % 5 for number in range(rows)] for name in ("visits", "views", "add_to_bag")},
            **{name: [number % 2 for number in range(rows)] for name in ("saves", "checkouts")},
        },
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / "data" / f"{name}.parquet")


@pytest.fixture
def shop(tmp_path: Path, network: bytes) -> Shop:
    return _shop(tmp_path / "shop", network)


def _shop(folder: Path, network: bytes) -> Shop:
    folder.mkdir(exist_ok=True)
    _tables(folder)
    (folder / "context.safetensors").write_bytes(network)
    return Shop.open(folder)


def planned(shop: Shop, *, bucket: int | None = None) -> PlanResult:
    cache = shop.cache() if bucket is None else replace(shop.cache(), bucket_customers=bucket)
    with shop.site(missing="create") as site:
        return make_plan(replace(site, cache=cache), shop.read_plan(PLAN))


@pytest.fixture(scope="module")
def whole_plan(tmp_path_factory: pytest.TempPathFactory, network: bytes) -> PlanResult:
    """Of an equal shop, by one program over all customers."""
    return planned(_shop(tmp_path_factory.mktemp("whole"), network))


def kept_names(shop: Shop) -> list[str]:
    return sorted(path.name for path in (shop.artefacts / "features").glob("*"))


@pytest.mark.parametrize("bucket", [1, 7, CUSTOMERS - 1])
def test_a_plan_is_the_same_for_any_size_of_a_bucket(shop: Shop, bucket: int) -> None:
    whole = planned(shop)
    names = kept_names(shop)
    content = (shop.artefacts / "features" / names[0]).read_bytes()
    shop.cache().purge()
    streamed = planned(shop, bucket=bucket)
    assert "reading the tables" in streamed.seconds
    assert "reading the tables" not in whole.seconds
    assert (streamed.plan_id, streamed.inputs) == (whole.plan_id, whole.inputs)
    assert kept_names(shop) == names
    assert (shop.artefacts / "features" / names[0]).read_bytes() == content


def test_the_second_plan_of_a_day_starts_from_kept_features(shop: Shop) -> None:
    first, second = planned(shop), planned(shop)
    assert "checking the tables" in first.seconds
    assert "checking the tables" not in second.seconds
    assert second.plan_id == first.plan_id
    assert list(second.seconds)[-1] == "keeping the plan"
    assert all(seconds >= 0 for seconds in second.seconds.values())
    assert second.as_dict()["seconds"] == dict(second.seconds)


# ---- a disk that is too small ----


def test_a_disk_too_small_for_a_plan_is_refused_before_the_work(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda place: 2_000)
    with pytest.raises(InputError) as refused:
        planned(shop, bucket=7)
    said = str(refused.value)
    assert "is too small: about 1 MB will be written (features 1 MB, temporary files 1 MB, the plan 1 MB)" in said
    assert "and 1 MB are free" in said
    assert "TMPDIR" in said
    assert kept_names(shop) == []


def test_a_disk_too_small_for_the_plan_alone_is_refused_when_features_are_kept(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = planned(shop)
    monkeypatch.setattr(files, "free_bytes", lambda place: 2_000)
    with pytest.raises(InputError, match=r"will be written \(the plan 1 MB\)"):
        planned(shop)
    monkeypatch.setattr(files, "free_bytes", lambda place: 10**9)
    assert planned(shop).plan_id == first.plan_id


def test_space_is_asked_of_each_disk_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def free(place: Path) -> int:
        asked.append(place)
        return 5_000_000_000

    monkeypatch.setattr(files, "free_bytes", free)
    here = tmp_path / "not" / "there" / "yet"
    files.require_space([files.Space(here, 2 * 10**9, "features"), files.Space(tmp_path, 3 * 10**9, "the plan")])
    assert asked == [tmp_path]
    with pytest.raises(InputError, match=r"about 6\.0 GB will be written.*and 5\.0 GB are free"):
        files.require_space([files.Space(here, 3 * 10**9, "features"), files.Space(tmp_path, 3 * 10**9, "the plan")])


# ---- a plan that is killed ----


@pytest.mark.parametrize(
    ("stage", "is_kept", "number"),
    [
        ("reading the tables", False, signal.SIGKILL),
        ("computing features", False, signal.SIGINT),
        ("computing features", False, signal.SIGKILL),
        ("embedding customers", True, signal.SIGKILL),
        ("keeping the plan", True, signal.SIGINT),
        ("keeping the plan", True, signal.SIGKILL),
    ],
)
def test_an_interrupted_plan_leaves_nothing_half_written_and_its_next_try_reuses_what_is_whole(
    shop: Shop,
    whole_plan: PlanResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    is_kept: bool,
    number: int,
) -> None:
    (tmp_path / "tmp").mkdir()
    code = ended(plan_step, shop.folder, PLAN, stage=stage, number=int(number), temporary=tmp_path / "tmp")
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else INTERRUPTED)
    whole = [name for name in kept_names(shop) if name.endswith(".parquet")]
    assert len(whole) == is_kept  # under its name it is whole
    with shop.store() as store, store.reading() as transaction:
        assert transaction.plans.ids() == ()
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path / "tmp"))
    again = planned(shop, bucket=7)
    assert ("reading the tables" in again.seconds) is not is_kept
    assert len(kept_names(shop)) == 1  # nor is anything else left
    assert list((tmp_path / "tmp").rglob("*.arrow")) == []
    assert again.plan_id == whole_plan.plan_id


def test_features_without_a_name_are_gone_after_a_dry_run(shop: Shop) -> None:
    built, _ = FeatureCache(folder=shop.artefacts / "features", keep=False).features_as_of(shop.data, AS_OF)
    assert built.num_rows == CUSTOMERS
    assert not (shop.artefacts / "features").exists()
    assert built.read().num_rows == CUSTOMERS
