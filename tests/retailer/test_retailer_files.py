"""A shop in a folder: the same bytes for the same settings, and no half-written state whatever is interrupted."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.adapters.engines import LocalEngine
from disco.records.errors import FileFormatError, InputError
from disco.retailer import Response, Retailer, RetailerSettings
from disco.retailer.draws import BLOCK
from disco.retailer.simulation import is_simulated
from disco.retailer.tables import Tables

CodesFor = Callable[..., pa.Table]
_SETTINGS = RetailerSettings(customers=700, seed=5)


@pytest.fixture
def shop() -> Retailer:
    return Retailer.simulate(_SETTINGS)


@pytest.fixture
def response(shop: Retailer, codes_for: CodesFor) -> Response:
    return shop.respond(codes_for(_SETTINGS.campaign("A"), range(600)))


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _die_after(replacements: int, patch: pytest.MonkeyPatch) -> None:
    """The process dies when it has put so many files into their places."""
    replace, done = os.replace, []

    def dies(source: Path, target: Path) -> None:
        if len(done) == replacements:
            raise KeyboardInterrupt
        done.append(target)
        replace(source, target)

    patch.setattr("os.replace", dies)


def _same(left: Tables, right: Tables) -> bool:
    return left.keys() == right.keys() and all(left[name].equals(right[name]) for name in left)


def test_two_writes_are_byte_identical_and_another_seed_is_not(shop: Retailer, tmp_path: Path) -> None:
    shop.write(tmp_path / "one")
    Retailer.simulate(_SETTINGS).write(tmp_path / "two")
    Retailer.simulate(RetailerSettings(customers=700, seed=6)).write(tmp_path / "three")
    one, two, three = (_bytes(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two
    assert sorted(one) == sorted([*(f"{name}.parquet" for name in shop.tables()), "retailer.json"])
    assert all(one[name] != three[name] for name in one)


class _Reordering:
    """An engine that computes the chunks from the last to the first."""

    threads = 1

    def map(self, function: Callable[[int], Tables], chunks: Iterable[int]) -> Iterator[Tables]:
        done = {chunk: function(chunk) for chunk in sorted(chunks, reverse=True)}
        return (done[chunk] for chunk in sorted(done))


def test_threads_and_the_order_of_blocks_do_not_change_a_byte(tmp_path: Path) -> None:
    calendar = replace(_SETTINGS.calendar, history_start=date(2025, 7, 1))
    shop = Retailer.simulate(replace(_SETTINGS, customers=2 * BLOCK + 300, calendar=calendar))
    for name, engine in (("one", None), ("two", LocalEngine(threads=2)), ("back", _Reordering())):
        shop.write(tmp_path / name, engine=engine)
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two") == _bytes(tmp_path / "back")
    assert pq.read_metadata(tmp_path / "one" / "orders.parquet").num_row_groups == 3  # written as they are made
    head = Retailer.simulate(replace(shop.settings, customers=BLOCK)).tables()  # the same customers, fewer of them
    for name, table in shop.tables().items():
        assert table.slice(0, head[name].num_rows).equals(head[name])


def test_a_disk_too_small_is_refused_after_the_first_block_with_both_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calendar = replace(_SETTINGS.calendar, history_start=date(2025, 8, 1))
    shop = Retailer.simulate(replace(_SETTINGS, customers=400 * BLOCK, calendar=calendar))
    blocks: list[None] = []
    monkeypatch.setattr("disco.retailer.simulation.disk_usage", lambda folder: SimpleNamespace(free=123_000_000))
    with pytest.raises(InputError, match=r"0\.12 GB free.*about \d\.\d\d GB for the tables") as refused:
        shop.write(tmp_path, after_block=lambda: blocks.append(None))
    assert "too small" in str(refused.value)
    assert (blocks, list(tmp_path.iterdir())) == ([], [])


def test_a_written_shop_is_read_back_and_answers_alike(
    shop: Retailer, response: Response, tmp_path: Path, codes_for: CodesFor
) -> None:
    shop.write(tmp_path)
    for name, table in shop.tables().items():
        assert pq.read_table(tmp_path / f"{name}.parquet").equals(table)
    again = Retailer.load(tmp_path)
    assert again.settings == _SETTINGS
    assert _same(again.tables(), shop.tables())
    assert again.respond(codes_for(_SETTINGS.campaign("A"), range(600))).outcomes.equals(response.outcomes)


def test_nothing_about_single_customers_is_stored(shop: Retailer, tmp_path: Path) -> None:
    shop.write(tmp_path)
    state = json.loads((tmp_path / "retailer.json").read_text())
    assert set(state) == {"format", "today", "settings"}
    assert RetailerSettings.from_json(json.dumps(state["settings"])) == _SETTINGS
    assert (tmp_path / "retailer.json").stat().st_size < 10_000


def test_moving_on_appends_and_survives_reading_and_writing(
    shop: Retailer, response: Response, tmp_path: Path, codes_for: CodesFor
) -> None:
    shop.write(tmp_path)
    response.append_to(tmp_path)
    later = Retailer.load(tmp_path)
    assert later.today == response.end
    assert _same(later.tables(), response.shop.tables())
    for name, table in response.shop.tables().items():
        assert pq.read_table(tmp_path / f"{name}.parquet").equals(table)
    codes = codes_for(_SETTINGS.campaign("B"), range(600))
    assert _same(later.respond(codes).tables(), response.shop.respond(codes).tables())


def test_an_interrupted_step_can_be_taken_again(
    shop: Retailer, response: Response, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies when some tables are replaced and others, with retailer.json, are not."""
    shop.write(tmp_path / "calm")
    response.append_to(tmp_path / "calm")
    shop.write(tmp_path / "torn")
    with monkeypatch.context() as patch:
        _die_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            response.append_to(tmp_path / "torn")
    after, before = _bytes(tmp_path / "calm"), _bytes(tmp_path / "torn")
    replaced = [name for name in after if before[name] == after[name] and name != "customers.parquet"]
    assert len(replaced) == 2
    assert _same(Retailer.load(tmp_path / "torn").tables(), shop.tables())
    response.append_to(tmp_path / "torn")
    calm, torn = Retailer.load(tmp_path / "calm"), Retailer.load(tmp_path / "torn")
    assert _same(calm.tables(), torn.tables())
    assert sorted(_bytes(tmp_path / "torn")) == sorted(_bytes(tmp_path / "calm"))


def test_an_interrupted_rewrite_is_no_shop_and_can_be_done_again(
    shop: Retailer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Retailer.simulate(RetailerSettings(customers=20, seed=1)).write(tmp_path)
    with monkeypatch.context() as patch:
        _die_after(3, patch)  # retailer.json, which says so, and two of the tables
        with pytest.raises(KeyboardInterrupt):
            shop.write(tmp_path)
    with pytest.raises(InputError, match=r"interrupted.*--overwrite"):
        Retailer.load(tmp_path)
    assert is_simulated(tmp_path)
    shop.write(tmp_path)
    assert _same(Retailer.load(tmp_path).tables(), shop.tables())


def test_a_table_of_other_columns_is_refused_and_not_appended_to(
    shop: Retailer, response: Response, tmp_path: Path
) -> None:
    shop.write(tmp_path)
    orders = pq.read_table(tmp_path / "orders.parquet")
    pq.write_table(orders.append_column("till", pa.array(["1"] * orders.num_rows)), tmp_path / "orders.parquet")
    before = _bytes(tmp_path)
    for step in (lambda: Retailer.load(tmp_path), lambda: response.append_to(tmp_path)):
        with pytest.raises(FileFormatError, match=r"orders\.parquet"):
            step()
    assert _bytes(tmp_path) == before


def test_a_failure_while_writing_leaves_no_files(
    shop: Retailer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(InputError, match="No space"):
        shop.write(tmp_path / "shop")
    assert list((tmp_path / "shop").iterdir()) == []


def test_a_step_of_another_day_is_refused(shop: Retailer, response: Response, tmp_path: Path) -> None:
    shop.write(tmp_path)
    response.append_to(tmp_path)
    before = _bytes(tmp_path)
    with pytest.raises(InputError, match="2025-09-12"):
        response.append_to(tmp_path)
    assert _bytes(tmp_path) == before


def test_folders_that_hold_no_shop_are_refused_by_name(shop: Retailer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"retailer\.json: found no such file"):
        Retailer.load(tmp_path)
    shop.write(tmp_path)
    state = (tmp_path / "retailer.json").read_text()
    for broken in ("{", state.replace('"format": 1', '"format": 9'), state.replace('"seed": 5', '"seed": -5')):
        (tmp_path / "retailer.json").write_text(broken)
        with pytest.raises(InputError):
            Retailer.load(tmp_path)
    (tmp_path / "retailer.json").write_text(state)
    (tmp_path / "orders.parquet").write_bytes(b"no parquet")
    with pytest.raises(FileFormatError, match=r"orders\.parquet"):
        Retailer.load(tmp_path)
    (tmp_path / "orders.parquet").unlink()
    with pytest.raises(InputError, match=r"orders\.parquet"):
        Retailer.load(tmp_path)
