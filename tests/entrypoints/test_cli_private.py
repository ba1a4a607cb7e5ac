"""Whatever a command creates is its owner's alone, under any umask; what was there keeps its mode."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Disco = Callable[..., tuple[int, str, str]]
_OWN_FILES = ("disco.yaml", "plan.yaml", "lists/unsubscribed.csv", "disco.db")
_OUTPUTS = ("codes.csv", "codes.csv.manifest.json", "aside.csv", "first.html")


@pytest.fixture(params=[0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Modes by name below a folder; those of artefacts and caches, whose names are hashes, by their endings."""
    found = {}
    for path in folder.rglob("*"):
        name = path.name if path.is_dir() or len(path.stem) < 32 else f"*{path.suffix}"
        found[str(path.parent.relative_to(folder) / name)] = stat.S_IMODE(path.stat().st_mode)
    return found


def test_a_shop_and_everything_its_commands_write_are_private(
    disco: Disco, learned_shop: Path, tmp_path: Path, umask: int
) -> None:
    shop = tmp_path / "company" / "shop"
    assert disco("init", shop)[0] == 0
    shutil.rmtree(shop / "data")
    shutil.copytree(learned_shop / "data", shop / "data")
    (shop / "data").chmod(0o755)
    theirs = modes(shop / "data")
    for name in ("first.yaml", "context.safetensors", "outcomes.parquet"):
        shutil.copy(learned_shop / name, shop / name)
        (shop / name).chmod(0o644)
    for words in (
        ("plan", shop / "first.yaml"),
        ("launch", "first"),
        ("export", "first", "-o", shop / "codes.csv"),
        ("ingest", "first", shop / "outcomes.parquet", "--quarantine", shop / "aside.csv"),
        ("results", "first", "--html", shop / "first.html"),
    ):
        code, _, err = disco(*words, "--shop", shop)
        assert code == 0, err
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (shop.parent, shop)] == [0o700, 0o700]
    found = {name: mode for name, mode in modes(shop).items() if not name.startswith("data/")}
    assert found == {
        **dict.fromkeys((*_OWN_FILES, *_OUTPUTS), 0o600),
        **dict.fromkeys(("artefacts/*.arrow", "artefacts/contexts/*.parquet", "artefacts/features/*.parquet"), 0o600),
        **dict.fromkeys(("lists", "artefacts", "artefacts/contexts", "artefacts/features"), 0o700),
        **dict.fromkeys(("first.yaml", "context.safetensors", "outcomes.parquet"), 0o644),
        "data": 0o755,
    }
    assert modes(shop / "data") == theirs, "the retailer's own tables are left as they are"


def test_a_report_that_was_opened_to_others_stays_open(disco: Disco, shop: Path) -> None:
    page = shop / "first.html"
    for mode in (0o600, 0o644):
        assert disco("results", "first", "--html", page, "--shop", shop)[0] == 0
        assert stat.S_IMODE(page.stat().st_mode) == mode
        page.chmod(0o644)


def test_the_journal_of_a_transaction_is_as_private_as_the_database(tmp_path: Path, umask: int) -> None:
    from disco.store import Store

    store = Store.embedded(tmp_path / "new" / "disco.db")
    with store.writing("none", action="test") as transaction:
        transaction.plans._connection.exec_driver_sql("CREATE TABLE journalled (x)")
        beside = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    store.close()
    assert beside == {"disco.db": 0o600, "disco.db-journal": 0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
