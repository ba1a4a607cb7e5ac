"""Outputs never replace an input or a file of the shop; devices are written through, and links stay links."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.entrypoints.outputs import check_outputs
from disco.features.network import KIND
from disco.records.errors import InputError

Disco = Callable[..., tuple[int, str, str]]

# every command with an output of its own, as typed in the folder of the shop; OUT is the output
SHOP_COMMANDS = {
    "export": "export first -o OUT --shop .",
    "results": "results first --html OUT --shop .",
    "frontier": "frontier second.yaml --html OUT --shop .",
    "ingest": "ingest first outcomes.parquet --quarantine OUT --shop .",
    "train basket": "train basket --log log.parquet --context x1 -o OUT --shop .",
}
OTHER_COMMANDS = {
    "features": "features data --as-of 2025-06-01 -o OUT",
    "train context": "train context --tables data --window-start 2025-06-01 -o OUT",
    "allocate": "allocate values.parquet --caps caps.yaml -o OUT",
    "allocate --summary": "allocate values.parquet --caps caps.yaml -o new.parquet --summary OUT",
    "respond": "respond data codes.parquet -o OUT",
}
COMMANDS = SHOP_COMMANDS | OTHER_COMMANDS


@pytest.fixture
def here(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The learned shop as the current folder, with settings, and inputs for every command."""
    (shop / "disco.yaml").write_text("context: context.safetensors\n")
    pq.write_table(pa.table({"x1": [0.5], "depth": [0.1], "full_price": [20.0]}), shop / "log.parquet")
    pq.write_table(pa.table({"customer_id": ["a", "b"], "0.1": [1.0, 2.0]}), shop / "values.parquet")
    (shop / "caps.yaml").write_text("caps: {0.1: 1}\n")
    monkeypatch.chdir(shop)
    return shop


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _refused(disco: Disco, command: str, out: str, words: str) -> None:
    before = _contents(Path())
    code, said, err = disco(*(out if word == "OUT" else word for word in command.split()))
    assert (code, said) == (1, ""), command
    assert " ".join(err.split()).startswith(f"error: {out} {words}"), err
    assert " Name " in err, "it says what to do"
    assert _contents(Path()) == before


def _as_typed(command: str, out: str) -> str:
    """`export` asks for a name that ends in .parquet or .csv: a link leads past that."""
    if not command.startswith("export") or Path(out).suffix in (".parquet", ".csv"):
        return out
    Path("link.csv").unlink(missing_ok=True)
    Path("link.csv").symlink_to(out)
    return "link.csv"


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_output_replaces_what_makes_up_a_shop(disco: Disco, here: Path, command: str) -> None:
    artefact = next((here / "artefacts").glob("*.arrow"))
    kept = {
        "disco.db": "is the shop's database",
        "disco.db-wal": "is part of the shop's database",
        "disco.db-journal": "is part of the shop's database",
        "disco.yaml": "is the shop's settings file",
        "context.safetensors": "is the shop's context network",
        f"artefacts/{artefact.name}": "lies in the shop's folder of artefacts",
        "artefacts/new.parquet": "lies in the shop's folder of artefacts",
        "data/orders.parquet": "is the table orders",
        "data/customers.csv": "is the table customers",
        "data/site/part-1.parquet": "lies in the table site",
        "data/retailer.json": "is the state of a simulated retailer",
    }
    (here / "data" / "site").mkdir()
    inside = "lies in the folder of tables that this command reads"
    if command.startswith(("features", "respond")):
        kept |= {out: inside for out in kept if out.startswith("data/")}
    if command.startswith("train context"):
        del kept["context.safetensors"]  # that is its work
        kept |= {"data/orders.parquet": inside, "data/retailer.json": inside}
    for out, words in kept.items():
        _refused(disco, command, _as_typed(command, out), words)


@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("ingest first outcomes.parquet --quarantine OUT --shop .", "outcomes.parquet"),
        ("ingest first outcomes.parquet --quarantine OUT --shop . --dry-run", "outcomes.parquet"),
        ("frontier second.yaml --html OUT --shop .", "second.yaml"),
        ("train basket --log log.parquet --context x1 -o OUT --shop .", "log.parquet"),
        ("features data --as-of 2025-06-01 --catalogue caps.yaml -o OUT", "caps.yaml"),
        ("train context --features features.parquet -o OUT", "features.parquet"),
        ("train context --tables data --window-start 2025-06-01 --catalogue caps.yaml -o OUT", "caps.yaml"),
        ("allocate values.parquet --caps caps.yaml -o OUT", "values.parquet"),
        ("allocate values.parquet --caps caps.yaml --summary OUT -o new.parquet", "caps.yaml"),
        ("allocate values.parquet --caps caps.yaml --costs costs.parquet -o OUT", "costs.parquet"),
        ("respond data codes.parquet -o OUT", "codes.parquet"),
    ],
)
def test_no_output_replaces_an_input(disco: Disco, here: Path, command: str, out: str) -> None:
    for name in ("features.parquet", "costs.parquet"):
        (here / name).write_text("an input")
    (here / "same.link").symlink_to(out)
    for name in (out, f"../{here.name}/{out}", str(here / out), "same.link"):
        _refused(disco, command, name, "is an input of this command")


def test_inputs_that_only_other_files_name_are_protected_too(disco: Disco, here: Path) -> None:
    (here / "data" / "vip.parquet").write_bytes((here / "data" / "customers.parquet").read_bytes())
    (here / "vip.yaml").write_text(
        (here / "second.yaml").read_text().replace("table: customers", "table: data/vip.parquet")
    )
    _refused(disco, "frontier vip.yaml --html OUT --shop .", "data/vip.parquet", "is an input of this command")
    # a file of features names the folder of its tables
    (here / "disco.yaml").unlink()
    (here / "data").rename(here / "tables")
    assert disco("features", "tables", "--as-of", "2025-06-01", "-o", "features.parquet")[0] == 0
    words = "lies in the folder of tables that this command reads"
    _refused(disco, "train context --features features.parquet -o OUT", "tables/orders.parquet", words)


@pytest.mark.parametrize("command", OTHER_COMMANDS.values(), ids=OTHER_COMMANDS)
def test_databases_settings_and_networks_are_recognised_wherever_they_lie(
    disco: Disco, here: Path, tmp_path: Path, command: str
) -> None:
    """No shop is around these: they are known by their first bytes or by their name."""
    away = tmp_path / "away"
    away.mkdir()
    (away / "old.db").write_bytes((here / "disco.db").read_bytes())
    (away / "old.db-wal").write_bytes(b"pages")
    (away / "network").write_bytes((here / "context.safetensors").read_bytes())
    kept = {"old.db": "is a SQLite database", "old.db-wal": "is part of a SQLite database"}
    kept |= {"disco.yaml": "is the settings file of a shop"}
    kept |= {} if command.startswith("train context") else {"network": "is a context network"}
    before = _contents(away)
    for name, words in kept.items():
        _refused(disco, command, str(away / name), words)
    assert _contents(away) == before


def test_the_shop_around_an_output_is_protected_though_its_settings_are_wrong(
    disco: Disco, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "disco.yaml").write_text("colour: red\n")
    monkeypatch.chdir(here.parent)  # another folder, whose settings are read
    allocate = f"allocate {here.name}/values.parquet --caps {here.name}/caps.yaml -o OUT"
    _refused(disco, allocate, f"{here.name}/data/orders.parquet", "is the table orders")
    assert disco(*allocate.replace("OUT", f"{here.name}/new.parquet").split())[0] == 0


def test_two_outputs_of_one_name_are_refused(disco: Disco, here: Path) -> None:
    command = "allocate values.parquet --caps caps.yaml -o one.parquet --summary OUT"
    _refused(disco, command, "one.parquet", "is the file of another output")


def test_training_replaces_a_network_and_nothing_else(disco: Disco, here: Path) -> None:
    train = "train context --tables data --window-start 2025-06-01 --max-epochs 1 -o OUT"
    before = (here / "context.safetensors").read_bytes()
    assert KIND.encode() in before, "outputs are recognised by it"
    assert disco(*train.replace("OUT", "context.safetensors").split())[0] == 0
    assert (here / "context.safetensors").read_bytes() != before
    (here / "context.safetensors").write_bytes(b"a letter")
    words = "is set as the shop's context network but is another kind of file"
    _refused(disco, train, "context.safetensors", words)


def test_tables_in_the_shops_own_folder_leave_room_for_the_network(here: Path) -> None:
    network, orders = here / "data" / "context.safetensors", here / "data" / "orders.parquet"
    check_outputs(network, inputs=(here / "data",), replaces="network")
    network.write_bytes((here / "context.safetensors").read_bytes())
    check_outputs(network, inputs=(here / "data",), replaces="network")
    for path in (orders, here / "data" / "outcomes.csv"):
        with pytest.raises(InputError):
            check_outputs(path, inputs=(here / "data",), replaces="network")


def test_ordinary_outputs_are_replaced_as_ever(disco: Disco, here: Path) -> None:
    for _ in range(2):
        assert disco("export", "first", "-o", "again.csv", "--shop", ".")[0] == 0
        assert disco("results", "first", "--html", "page.html", "--shop", ".")[0] == 0
        assert disco("allocate", "values.parquet", "--caps", "caps.yaml", "-o", "a.parquet", "--summary", "s")[0] == 0
    assert not list(here.rglob("*.partial"))


def test_outputs_at_devices_and_links(disco: Disco, here: Path) -> None:
    device = os.stat("/dev/null")
    allocate = ("allocate", "values.parquet", "--caps", "caps.yaml")
    assert disco(*allocate, "-o", "/dev/null", "--summary", "/dev/null")[0] == 0
    assert disco("results", "first", "--html", "/dev/null", "--shop", ".")[0] == 0
    assert disco("ingest", "first", "outcomes.parquet", "--quarantine", "/dev/null", "--shop", ".")[0] == 0
    now = os.stat("/dev/null")
    assert stat.S_ISCHR(now.st_mode)
    assert (now.st_ino, now.st_rdev) == (device.st_ino, device.st_rdev)
    (here / "far").mkdir()
    for name, command in (("codes.csv", ("export", "first", "-o")), ("page.html", ("results", "first", "--html"))):
        (here / f"link-{name}").symlink_to(f"far/{name}")
        for _ in range(2):
            assert disco(*command, f"link-{name}", "--shop", ".")[0] == 0
            assert os.readlink(here / f"link-{name}") == f"far/{name}"
            assert (here / "far" / name).stat().st_size > 100
    assert len(list((here / "far").iterdir())) == 2


def test_standard_output_as_a_file_of_the_shell(here: Path) -> None:
    """`>> log` keeps what is in the log; the summary and the words of the command come after it."""
    log = here / "log.txt"
    log.write_text("before\n")
    words = ["allocate", "values.parquet", "--caps", "caps.yaml", "-o", "a.parquet", "--summary", "/dev/stdout"]
    program = "from disco.entrypoints.cli import main; main()"
    with log.open("a") as file:
        subprocess.run([sys.executable, "-c", program, *words], stdout=file, check=True, cwd=here)
    text = log.read_text()
    assert text.startswith("before\n{")
    assert '"status": "OPTIMAL"' in text
    assert "optimal: value 2.00" in text


def test_a_link_planted_under_the_old_temporary_name_is_not_followed(disco: Disco, here: Path) -> None:
    victim = here / "victim"
    victim.write_text("untouched")
    for name in ("codes.csv", "page.html"):
        (here / f".{name}.{os.getpid()}.partial").symlink_to(victim)
    assert disco("export", "first", "-o", "codes.csv", "--shop", ".")[0] == 0
    assert disco("results", "first", "--html", "page.html", "--shop", ".")[0] == 0
    assert victim.read_text() == "untouched"
    assert not (here / "codes.csv").is_symlink()
    for name in ("codes.csv", "page.html"):
        assert stat.S_IMODE((here / name).stat().st_mode) == 0o600
