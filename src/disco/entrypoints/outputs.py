"""What the outputs of commands must leave alone: the command's own inputs, and the files that make up a shop."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from disco.records.files import Protected, check_place

if TYPE_CHECKING:
    from disco.entrypoints.python import Shop

Replaces = Literal["network", "tables"]
_SETTINGS = "disco.yaml"
_SQLITE_HEADER = b"SQLite format 3\0"
_BESIDE_SQLITE = ("-journal", "-wal", "-shm")
_NETWORK_HEADER = b"disco context network"  # stands in the header of every version of the file
_LONGEST_HEADER_BYTES = 1 << 24


def check_outputs(
    *outputs: Path | None,
    inputs: Iterable[Path | str | None] = (),
    shop: Path | None = None,
    replaces: Replaces | None = None,
) -> None:
    """Refuse, before any work, an output that would replace something of the shop or an input of the same command.

    outputs: the files to be written; None was not asked for.
    inputs: files, and folders or database URLs of tables.
    shop: the folder of `--shop`. The shop whose folder an output lies in is protected in any case.
    replaces: what this command exists to replace: `train context` a network, `simulate` tables (by a rule of its own).
    """
    inputs, asked = tuple(inputs), [output for output in outputs if output is not None]
    for place, output in enumerate(asked):
        protected = [
            *_inputs(output, inputs, replaces),
            *(one for folder in _shops(output, shop) for one in _files_of(folder, replaces)),
            *_recognised(output, replaces),
            *(Protected(other, "the file of another output") for other in asked[:place]),
        ]
        check_place(output, protected=protected)


def _inputs(output: Path, inputs: Iterable[Path | str | None], replaces: Replaces | None) -> Iterator[Protected]:
    for given in inputs:
        if given is None or "://" in str(given):
            continue
        path = Path(given)
        if not path.is_dir():
            yield Protected(path, "an input of this command")
        elif replaces == "network" and (not output.exists() or _is_network(output)):
            yield from _tables(path)  # tables may lie in the shop's own folder, and so does the network
        else:
            yield Protected(path, "the folder of tables that this command reads", inside=True)


def _shops(output: Path, given: Path | None) -> "Iterator[Shop]":
    """The shop that was named, and the one in whose folder the output lies."""
    from disco.adapters.config import ShopSettings, load_settings
    from disco.entrypoints.python import Shop
    from disco.records.errors import PlanError

    if given is not None:
        yield Shop(given, load_settings(given))
    around = next((folder for folder in Path(os.path.realpath(output)).parents if (folder / _SETTINGS).is_file()), None)
    if around is None or (given is not None and around == Path(os.path.realpath(given))):
        return
    try:
        settings = load_settings(around)
    except PlanError:  # not this command's shop: its wrong settings are no reason to refuse, its files are still its
        settings = ShopSettings.model_validate({})
    yield Shop(around, settings)


def _files_of(shop: "Shop", replaces: Replaces | None) -> Iterator[Protected]:
    settings, folder = shop.settings, shop.folder
    yield Protected(folder / _SETTINGS, "the shop's settings file")
    if (file := shop.files.database) is not None:
        yield Protected(file, "the shop's database")
        yield from (Protected(Path(f"{file}{ending}"), "part of the shop's database") for ending in _BESIDE_SQLITE)
    network = folder / settings.context
    if replaces != "network":
        yield Protected(network, "the shop's context network")
    elif network.exists() and not _is_network(network):
        yield Protected(network, "set as the shop's context network but is another kind of file")
    if "://" not in settings.data and replaces != "tables":
        yield from _tables(folder / settings.data)
    yield Protected(shop.artefacts, "the shop's folder of artefacts", inside=True)


def _tables(folder: Path) -> Iterator[Protected]:
    from disco.records.tables import SCHEMAS

    for name in SCHEMAS:
        for label in (f"{name}.parquet", name):
            yield Protected(folder / label, f"the table {name}", inside=True)
        yield Protected(folder / f"{name}.csv", f"the table {name}")
    yield Protected(folder / "retailer.json", "the state of a simulated retailer")


def _recognised(output: Path, replaces: Replaces | None) -> Iterator[Protected]:
    """What a file is by its name or its first bytes, wherever it lies."""
    target = Path(os.path.realpath(output))
    if target.name == _SETTINGS:
        yield Protected(target, "the settings file of a shop")
    if _is_sqlite(target):
        yield Protected(target, "a SQLite database")
    for ending in _BESIDE_SQLITE:
        if target.name.endswith(ending) and _is_sqlite(target.with_name(target.name.removesuffix(ending))):
            yield Protected(target, "part of a SQLite database")
    if replaces != "network" and _is_network(target):
        yield Protected(target, "a context network")


def _is_sqlite(path: Path) -> bool:
    if not path.is_file():  # also: a FIFO is not opened, that would wait for somebody to write
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def _is_network(path: Path) -> bool:
    """Whether `disco train context` wrote it; only the header is read, so that a damaged one is still recognised."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")  # safetensors: the length of the header, then the header
        return length < _LONGEST_HEADER_BYTES and _NETWORK_HEADER in file.read(length)
