"""`disco backup`, `disco restore`: a shop in one file and back, between databases; nothing damaged is ever restored."""

import gzip
import io
import json
import sqlite3
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from whole_shop import make_shop

from disco import Shop
from disco.operations.upkeep import audit
from disco.records.errors import DiscoError
from disco.store.copying import copy_out
from disco.store.store import open_database

Disco = Callable[..., tuple[int, str, str]]


def _shop(folder: Path, database: str, request: pytest.FixtureRequest) -> Path:
    """A shop with a bit of everything, on that kind of database."""
    if database == "sqlite":
        make_shop(folder)
    else:
        made = make_shop(folder.with_name(f"{folder.name}-on-sqlite"))
        folder.mkdir()
        (folder / "disco.yaml").write_text(f"database_url: {request.getfixturevalue('new_postgres_url')()}\n")
        Shop.open(made).backup(made / "backup.tar.gz")
        Shop.restore(made / "backup.tar.gz", folder)
    (folder / "context.safetensors").write_bytes(b"a network")
    return folder


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return _shop(tmp_path / "shop", "sqlite", request)


@pytest.fixture
def backup(shop: Path, tmp_path: Path) -> Path:
    file = tmp_path / "shop.tar.gz"
    Shop.open(shop).backup(file)
    return file


def test_times_of_backups_are_those_of_the_shop(tmp_path: Path, disco: Disco) -> None:
    tokyo = tmp_path / "tokyo"
    tokyo.mkdir()
    (tokyo / "disco.yaml").write_text("time_zone: Asia/Tokyo\n")
    shop = Shop.open(tokyo, now=datetime(2026, 11, 15, 20, 30, tzinfo=UTC))
    with shop.store(missing="create"):
        pass
    assert str(shop.backup(tmp_path / "tokyo.tar.gz").made_at) == "2026-11-16 05:30:00+09:00"
    code, out, _ = disco("restore", tmp_path / "tokyo.tar.gz", "--shop", tmp_path / "again")
    assert (code, "as of 2026-11-16 05:30+09:00." in out) == (0, True)


def _tables(shop: Path, folder: Path) -> dict[str, pa.Table]:
    """Every table of a shop's database, row by row."""
    folder.mkdir()
    copy_out(open_database(Shop.open(shop).database_url), folder)
    return {path.name: pa.ipc.open_file(str(path)).read_all() for path in folder.iterdir()}


def _is_sound(shop: Path) -> bool:
    with Shop.open(shop).store() as store:
        assert [finding for finding in audit(store) if not finding.ok] == []
        with store.reading() as transaction:
            assert transaction.seals.broken() == ()
            assert transaction.journal.first_break() is None
            assert [transaction.seals.broken_of(name) for name in transaction.plans.names()] == [()] * 3
    return True


@pytest.mark.parametrize("source", ["sqlite", "postgresql"])
@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_a_restored_shop_is_the_same_row_by_row(
    disco: Disco, tmp_path: Path, request: pytest.FixtureRequest, source: str, target: str
) -> None:
    shop, restored, file = _shop(tmp_path / "shop", source, request), tmp_path / "restored", tmp_path / "b.tar.gz"
    code, out, _ = disco("backup", "-o", file, "--shop", shop, "--json")
    said = json.loads(out)
    assert code == 0
    assert said["bytes"] == file.stat().st_size
    assert (said["campaigns"], said["artefacts"]) == (["c1", "c2", "c4"], len(list((shop / "artefacts").iterdir())))
    assert file.stat().st_mode & 0o777 == 0o600
    if (source, target) != ("sqlite", "sqlite"):  # another database than that of the backup's own settings
        restored.mkdir()
        url = "sqlite:///disco.db" if target == "sqlite" else request.getfixturevalue("new_postgres_url")()
        (restored / "disco.yaml").write_text(f"database_url: {url}\n")
    code, out, error = disco("restore", file, "--shop", restored)
    assert code == 0, error
    assert "3 campaigns" in out
    before, after = _tables(shop, tmp_path / "before"), _tables(restored, tmp_path / "after")
    assert "holdout" in before["secrets.arrow"]["name"].to_pylist()  # the same people are held out afterwards
    entries = before["journal.arrow"].num_rows
    assert after["journal.arrow"].slice(0, entries) == before["journal.arrow"]
    assert after["journal.arrow"].slice(entries)["action"].to_pylist() == ["restore"]
    own = ("journal.arrow", "tallies.arrow")
    assert {name: after[name] for name in after if name not in own} == {
        name: before[name] for name in before if name not in own
    }
    for part in ("context.safetensors", "artefacts"):
        names = [path.relative_to(shop) for path in [shop / part, *(shop / part).rglob("*")] if path.is_file()]
        assert names
        assert all((restored / name).read_bytes() == (shop / name).read_bytes() for name in names)
    assert _is_sound(restored)
    # life goes on: numbers of new rows follow those that were restored
    with Shop.open(restored).store() as store, store.writing("c1", action="test") as transaction:
        connection = transaction.plans._connection
        connection.exec_driver_sql(
            "INSERT INTO batches (batch_id, campaign_number, source, content_hash, received_at) "
            "VALUES ('new', 1, 'x', 'x', 0)"
        )
    assert list(restored.glob(".disco*")) == []


def test_a_restore_says_where_the_tables_have_to_be_put_before_the_health_check(
    disco: Disco, backup: Path, tmp_path: Path
) -> None:
    code, out, _ = disco("restore", backup, "--shop", tmp_path / "bare")
    assert code == 0
    words = f"put them into {tmp_path / 'bare' / 'data'} first"
    assert words in out
    assert out.index(words) < out.index("Next: disco doctor")
    (tmp_path / "own" / "data").mkdir(parents=True)
    (tmp_path / "own" / "data" / "customers.csv").write_text("customer_id,joined_on\nC1,2025-01-01\n")
    code, out, _ = disco("restore", backup, "--shop", tmp_path / "own", "--json")
    assert (code, json.loads(out)["missing_tables"]) == (0, None)
    code, out, _ = disco("doctor", "--shop", tmp_path / "own", "--json")
    assert not [one for one in json.loads(out)["checks"] if one["check"] == "tables" and one["outcome"] != "ok"]


_INGEST = """
import sys, pyarrow as pa
from datetime import datetime
from disco import Shop
shop = Shop.open(sys.argv[1])
print("ready", flush=True)
for number in range(100_000):
    shop.ingest("c2", pa.table({
        "event_id": [f"w{number}-{row}" for row in range(50)], "campaign_id": ["c2"] * 50,
        "customer_id": ["nobody"] * 50, "code": ["NONE"] * 50, "ordered_at": [datetime(2025, 10, 2)] * 50,
        "full_price": [1.0] * 50, "kind": ["purchase"] * 50, "refers_to": pa.nulls(50, pa.string())}))
"""


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_backup_is_one_state_while_another_process_writes(
    tmp_path: Path, request: pytest.FixtureRequest, database: str
) -> None:
    shop = _shop(tmp_path / "shop", database, request)
    batches: list[int] = []
    with subprocess.Popen([sys.executable, "-c", _INGEST, str(shop)], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            while len(batches) < 3 or batches[-1] == batches[0]:
                assert writer.poll() is None
                file = tmp_path / f"{len(batches)}.tar.gz"
                done = Shop.open(shop).backup(file)
                batches.append(done.rows["batches"])
                assert len(batches) < 200
        finally:
            writer.kill()
    for number in (0, len(batches) - 1):
        restored = tmp_path / f"restored-{number}"
        restored.mkdir()
        (restored / "disco.yaml").write_text("database_url: sqlite:///disco.db\n")
        Shop.restore(tmp_path / f"{number}.tar.gz", restored)
        assert _is_sound(restored)
        with Shop.open(restored).store() as store, store.reading() as transaction:
            sizes = transaction.ledger.counts("c2").to_pylist()
        assert {one["rows"] for one in sizes if one["disposition"] == "unmatched" and one["rows"] > 40} <= {50}


def test_a_shop_with_campaigns_is_never_replaced(disco: Disco, shop: Path, backup: Path) -> None:
    before = {path: path.read_bytes() for path in shop.rglob("*") if path.is_file()}
    code, _, error = disco("restore", backup, "--shop", shop)
    assert code == 1
    assert "a restore never replaces one" in error
    assert {path: path.read_bytes() for path in shop.rglob("*") if path.is_file()} == before


def test_a_lost_database_is_restored_beside_its_artefacts(disco: Disco, shop: Path, backup: Path) -> None:
    (shop / "disco.db").write_bytes(b"")
    damaged = next((shop / "artefacts").glob("*.arrow"))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1])
    code, out, error = disco("restore", backup, "--shop", shop)
    assert code == 0, error
    assert f"{shop / 'disco.yaml'} was there and stayed" in out
    assert damaged.read_bytes() == content
    assert _is_sound(shop)


def test_a_backup_is_refused_where_something_is_missing_or_damaged(disco: Disco, shop: Path, tmp_path: Path) -> None:
    artefact = next((shop / "artefacts").glob("*.arrow"))
    content = artefact.read_bytes()
    artefact.write_bytes(content[:-1])
    code, _, error = disco("backup", "-o", tmp_path / "b.tar.gz", "--shop", shop)
    assert (code, "is damaged" in error) == (1, True)
    artefact.unlink()
    code, _, error = disco("backup", "-o", tmp_path / "b.tar.gz", "--shop", shop)
    assert (code, "is missing" in error) == (1, True)
    assert not (tmp_path / "b.tar.gz").exists()
    code, _, error = disco("backup", "-o", shop / "disco.db", "--shop", shop)
    assert (code, "the shop's database" in error) == (1, True)


def _rewritten(backup: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> bytes:
    """The archive with other members, its sums computed again."""
    with tarfile.open(backup) as archive:
        members = [(entry, archive.extractfile(entry).read()) for entry in archive]  # type: ignore[union-attr]
    change(members)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for entry, content in members:
            entry.size = len(content) if entry.isreg() else 0
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def _entry(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, "/etc/passwd"
    return entry


def _with_manifest(members: list[tuple[tarfile.TarInfo, bytes]], **changes: object) -> None:
    manifest = json.loads(members[-1][1])
    members[-1] = (members[-1][0], json.dumps({**manifest, **changes}).encode())


CHANGES: dict[str, Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]] = {
    "a file outside": lambda members: members.insert(0, (_entry("../evil"), b"x")),
    "an absolute name": lambda members: members.insert(0, (_entry("/tmp/evil"), b"x")),
    "a name that climbs": lambda members: members.insert(0, (_entry("artefacts/../../evil"), b"x")),
    "a link": lambda members: members.insert(0, (_entry("disco.yaml", tarfile.SYMTYPE), b"")),
    "a hard link": lambda members: members.insert(0, (_entry("disco.yaml", tarfile.LNKTYPE), b"")),
    "a device": lambda members: members.insert(0, (_entry("disco.yaml", tarfile.CHRTYPE), b"")),
    "a folder": lambda members: members.insert(0, (_entry("artefacts", tarfile.DIRTYPE), b"")),
    "a file twice": lambda members: members.insert(0, members[0]),
    "a file too many": lambda members: members.insert(0, (_entry("database/more.arrow"), b"x")),
    "a file missing": lambda members: members.pop(0) and None,
    "no manifest": lambda members: members.pop() and None,
    "something after the manifest": lambda members: members.append((_entry("disco.yaml"), b"x")),
    "a changed file": lambda members: members.__setitem__(0, (members[0][0], members[0][1][:-1] + b"?")),
    "another format": lambda members: _with_manifest(members, format="tar"),
    "a newer revision": lambda members: _with_manifest(members, revision="9999"),
    "no files": lambda members: _with_manifest(members, files={}),
    "files of another form": lambda members: _with_manifest(members, files=[1]),
    "a manifest of another form": lambda members: members.__setitem__(-1, (members[-1][0], b"[]")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_archive_that_disco_did_not_write_is_refused(
    disco: Disco, backup: Path, tmp_path: Path, change: str
) -> None:
    forged, target = tmp_path / "forged.tar.gz", tmp_path / "new" / "target"
    forged.write_bytes(_rewritten(backup, CHANGES[change]))
    code, out, error = disco("restore", forged, "--shop", target)
    assert (code, out) == (1, "")
    assert "forged.tar.gz" in error
    assert "Traceback" not in error
    assert not target.parent.exists()
    assert not (tmp_path / "evil").exists()


def test_a_backup_from_before_the_first_release_is_refused_without_a_promise_to_upgrade(
    disco: Disco, backup: Path, tmp_path: Path
) -> None:
    forged, target = tmp_path / "forged.tar.gz", tmp_path / "target"
    forged.write_bytes(_rewritten(backup, lambda members: _with_manifest(members, revision="0011")))
    code, _, error = disco("restore", forged, "--shop", target)
    assert code == 1
    assert "is of revision 0011, from before the first release" in error
    assert "Go on with the disco that made it" in error
    assert "then upgrade" not in error
    assert not target.exists()


def _unpacks_to(archive: bytes, content: bytes) -> bool:
    """Whether nothing changed: a flip in the time or name of gzip's header, or in the unused bits after a block."""
    try:
        return gzip.decompress(archive) == content
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False


def test_every_flipped_or_missing_byte_is_found(disco: Disco, backup: Path, tmp_path: Path) -> None:
    content, random, target = backup.read_bytes(), Random(7), tmp_path / "target"
    damaged = [content[: random.randrange(len(content))] for _ in range(6)] + [b"", b"no archive"]
    while len(damaged) < 38:
        place = random.randrange(len(content))
        flipped = content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]
        if not _unpacks_to(flipped, gzip.decompress(content)):
            damaged.append(flipped)
    for one in damaged:
        (tmp_path / "damaged.tar.gz").write_bytes(one)
        code, _, error = disco("restore", tmp_path / "damaged.tar.gz", "--shop", target)
        assert code == 1
        assert "Use another backup" in error
        assert not target.exists()


def test_a_restore_that_fails_at_the_end_leaves_nothing(
    shop: Path, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("disco.store.copying._insert", fail)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    for target in (tmp_path / "new" / "target", tmp_path / "mine"):
        with pytest.raises(InterruptedError):
            Shop.restore(backup, target)
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    monkeypatch.undo()
    Shop.restore(backup, tmp_path / "mine")
    assert _is_sound(tmp_path / "mine")


def test_what_cannot_be_backed_up_or_restored_is_named(disco: Disco, tmp_path: Path) -> None:
    code, _, error = disco("backup", "-o", tmp_path / "b.tar.gz", "--shop", tmp_path)
    assert (code, "no campaigns yet" in error) == (1, True)
    code, _, error = disco("restore", tmp_path / "nothing.tar.gz", "--shop", tmp_path / "x")
    assert (code, "no such file" in error) == (1, True)
    (tmp_path / "file").touch()
    with pytest.raises(DiscoError, match="found a file"):
        Shop.restore(tmp_path / "b.tar.gz", tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_damaged_shop_does_not_replace_a_good_backup(disco: Disco, shop: Path, backup: Path) -> None:
    good = backup.read_bytes()
    with sqlite3.connect(shop / "disco.db") as database:
        database.execute("UPDATE outcomes SET full_price_minor = full_price_minor + 1 WHERE row = 0")
    code, _, error = disco("backup", "-o", backup, "--shop", shop)
    assert code == 1
    assert "The shop is damaged, so no backup was written: " in error
    assert backup.read_bytes() == good
    assert disco("backup", "--damaged", "-o", backup, "--shop", shop)[0] == 0
    assert backup.read_bytes() != good
