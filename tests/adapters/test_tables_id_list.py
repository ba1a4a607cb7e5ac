"""Lists of customer ids as people keep them: one column, with or without a header, as text, CSV or Parquet."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.adapters.shop_data import FolderShopData
from disco.adapters.tables.single_files import read_id_list
from disco.records.errors import FileFormatError, InputError
from disco.records.tables import CsvFormat, TableFormat

CUSTOMERS = pa.array(["1", "2", "007", "c9"])
GERMAN = TableFormat(columns={"customers": {"customer_id": "Kundennummer"}}, csv=CsvFormat(encoding="cp1252"))


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    return tmp_path / "vip.csv"


@pytest.mark.parametrize(
    "content",
    [
        b"1\n007\n",
        b"customer_id\n1\n007\n",
        b"CUSTOMER_ID\r\n1\r\n007\r\n",
        b"\xef\xbb\xbf1\r\n007",
        b"Kunde\n1\n007\n",
        b'"1"\n"007"\n',
        b"1 \n 007\n\n",
        b"1;\n007;\n",
        b"customer_id,e-mail\n1,a@b.c\n007,\n",
        b"name;Customer_ID\nM\xc3\xbcller;1\n;007\n",
        "1\n007\n".encode("utf-16"),
    ],
)
def test_every_form_of_a_list_gives_the_same_customers(listed: Path, content: bytes) -> None:
    listed.write_bytes(content)
    found = read_id_list(listed).among(CUSTOMERS)
    assert (found.ids.to_pylist(), found.unknown) == (["1", "007"], 0)


@pytest.mark.parametrize("csv", [CsvFormat(), CsvFormat(encoding="cp1252", delimiter=";"), CsvFormat(encoding="utf-8")])
@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n \r\n"])
def test_an_empty_file_is_refused_however_the_shop_writes_its_files(
    listed: Path, csv: CsvFormat, content: bytes
) -> None:
    listed.write_bytes(content)
    with pytest.raises(FileFormatError, match="found an empty file"):
        read_id_list(listed, written=TableFormat(csv=csv))


def test_a_header_alone_is_a_list_of_nobody(listed: Path) -> None:
    listed.write_text("customer_id\n", encoding="utf-8")
    assert read_id_list(listed).among(CUSTOMERS).ids.to_pylist() == []


def test_a_list_in_the_shops_own_words_is_read(listed: Path) -> None:
    listed.write_bytes("Straße;Kundennummer\nAllee 1;2\n".encode("cp1252"))
    assert read_id_list(listed, written=GERMAN).among(CUSTOMERS).ids.to_pylist() == ["2"]


@pytest.mark.parametrize(
    "ids", [pa.array([1, None, 2]), pa.array(["1", "2"]), pa.array(["1", "2"]).dictionary_encode()]
)
def test_a_parquet_list_is_read_whatever_its_column_is_called(tmp_path: Path, ids: pa.Array) -> None:
    pq.write_table(pa.table({"Kunde": ids}), tmp_path / "vip.parquet")
    assert read_id_list(tmp_path / "vip.parquet").among(CUSTOMERS).ids.to_pylist() == ["1", "2"]


def test_a_first_line_that_names_no_customer_is_a_header_and_this_is_said(listed: Path) -> None:
    listed.write_text("Kunde\n1\n5\n", encoding="utf-8")
    found = read_id_list(listed, file="vip.csv").among(CUSTOMERS)
    assert found.notes == (
        "vip.csv: row 1, which names no customer, is read as a header",
        "vip.csv: 1 of 2 ids name no customer, the first in row 3",
    )


def test_an_id_stays_an_id_where_nothing_else_would_be_left(listed: Path) -> None:
    listed.write_text("2\n", encoding="utf-8")
    assert read_id_list(listed).among(CUSTOMERS).ids.to_pylist() == ["2"]


def test_an_id_is_listed_once_and_in_the_order_of_the_list(listed: Path) -> None:
    listed.write_text("c9\n1\nc9\n", encoding="utf-8")
    assert read_id_list(listed).among(CUSTOMERS).ids.to_pylist() == ["c9", "1"]


def test_a_header_without_ids_is_an_empty_list(listed: Path) -> None:
    listed.write_text("customer_id\n", encoding="utf-8")
    assert read_id_list(listed).among(CUSTOMERS).ids.to_pylist() == []


@pytest.mark.parametrize(("written", "meant"), [("1.0", "1"), ("7", "007"), ("C9", "c9")])
def test_ids_that_a_spreadsheet_has_changed_are_asked_about(listed: Path, written: str, meant: str) -> None:
    listed.write_text(f"customer_id\n2\n\n{written}\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=rf"vip.csv, row 4: found an id that no customer has in this form;.*Did you mean '{meant}'\?"
    ):
        read_id_list(listed, file="vip.csv").among(CUSTOMERS)


def test_a_list_of_strangers_is_refused(listed: Path) -> None:
    listed.write_text("e-mail\na@b.c\nd@e.f\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"3 ids, none of them a customer's; expected ids such as '1'"):
        read_id_list(listed).among(CUSTOMERS)


@pytest.mark.parametrize("content", ["TOPSECRET", "1\nTOPSECRET", "TOPSECRET\n1", "TOPSECRET;x\n1;2", 'a\n"TOPSECRET'])
def test_no_message_quotes_what_is_no_customers_id(listed: Path, content: str) -> None:
    listed.write_text(content, encoding="utf-8")
    try:
        words = " ".join(read_id_list(listed).among(CUSTOMERS).notes)
    except InputError as error:
        words = str(error)
    assert words
    assert "TOPSECRET" not in words


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04\0\0", "bytes that are not text"),
        (b"1;Anna\n2;Bert\n", "found 2 columns, none of them named customer_id; expected one customer id per line"),
        (b"1\nM\xfcller\n", "csv: {encoding: cp1252}"),
        (b'1\n"2\n3\n', "quotation mark that is never closed"),
    ],
)
def test_what_is_no_list_of_ids_is_refused(listed: Path, content: bytes, words: str) -> None:
    listed.write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        read_id_list(listed)
    assert words in str(caught.value)


def test_a_parquet_list_of_other_things_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vip.parquet"
    pq.write_table(pa.table({"id": [1.0]}), path)
    with pytest.raises(FileFormatError, match="a column of double"):
        read_id_list(path)
    pq.write_table(pa.table({"id": [1], "name": ["Anna"]}), path)
    with pytest.raises(FileFormatError, match="2 columns, none of them named customer_id"):
        read_id_list(path)


@pytest.fixture
def shop(tmp_path: Path) -> FolderShopData:
    """A shop with a list below lists/ and one below data/, and with files that are for no plan."""
    folder = tmp_path / "shop"
    for name in ("lists/old", "data", "artefacts", "lists/.git"):
        (folder / name).mkdir(parents=True)
    for name in ("lists/vip.csv", "lists/old/vip.txt", "data/vip.csv", "old.csv", "../outside.csv"):
        (folder / name).write_text("1\n", encoding="utf-8")
    for name in ("secret.txt", "disco.yaml", "artefacts/a.csv", "lists/.git/a.txt", "lists/shop.tar.gz", "lists/token"):
        (folder / name).write_text("TOPSECRET\n", encoding="utf-8")
    private = tuple(folder / name for name in ("disco.yaml", "secret.txt", "artefacts", "not-there"))
    return FolderShopData(
        folder=folder, place=str(folder / "data"), queries=None, network_file=folder / "context", private=private
    )


READERS: dict[str, Callable[[FolderShopData, str], object]] = {
    "list": lambda shop, name: shop.id_list(name, setting="exclude"),
    "pool": lambda shop, name: shop.lines(name, setting="codes.pool", holds="code"),
    "table": lambda shop, name: shop.table_file(name, setting="customers.table"),
    "hash": lambda shop, name: shop.file_hash(name, setting="include"),
}


def test_a_plans_list_lies_below_lists_or_data(shop: FolderShopData) -> None:
    for name in (
        "lists/vip.csv",
        "vip.csv",
        "lists/old/vip.txt",
        "old/vip.txt",
        "data/vip.csv",
        "./lists/../data/vip.csv",
    ):
        assert shop.id_list(name, setting="include").ids.to_pylist() == ["1"], name
    assert shop.table_file("data/vip.csv", setting="file") == shop.table_file("vip.csv", setting="file")
    with pytest.raises(
        InputError, match=r"include: found no file 'old.csv' below lists/ or data/.*Move.* to lists/old.csv"
    ):
        shop.id_list("old.csv", setting="include")
    (shop.folder / "old.csv").rename(shop.folder / "lists" / "old.csv")  # then a plan of before works as it is
    assert shop.id_list("old.csv", setting="include").ids.to_pylist() == ["1"]
    with pytest.raises(InputError, match=r"found no file 'lists/vip.csv' below data/"):
        shop.table_file("lists/vip.csv", setting="customers.table")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "name",
    [
        "../outside.csv",
        "disco.yaml",
        "secret.txt",
        "artefacts/a.csv",
        "lists/linked.csv",
        "lists/hard.txt",
        "data/hard.csv",
        "lists/folder/a.csv",
        "data/folder/a.csv",
        "lists/.git/a.txt",
        "lists/shop.tar.gz",
        "lists/token",
        "lists/absent.csv",
        "lists",
        "",
        ".",
        "lists/vip.csv\0",
        "lists/\u200bvip.csv",
        "LISTS/vip.csv",
        "/etc/passwd",
        "sqlite:///disco.db",
    ],
)
def test_a_plan_reaches_no_other_file_by_any_name(shop: FolderShopData, reader: str, name: str) -> None:
    folder = shop.folder
    (folder / "lists" / "linked.csv").symlink_to(folder / "secret.txt")
    (folder / "lists" / "hard.txt").hardlink_to(folder / "secret.txt")
    (folder / "data" / "hard.csv").hardlink_to(folder / "disco.yaml")
    for place in ("lists", "data"):
        (folder / place / "folder").symlink_to(folder / "artefacts")
    try:
        content = READERS[reader](shop, name)  # a hash of nothing is empty
    except InputError as error:
        content = "TOPSECRET" if "TOPSECRET" in str(error) else ""
    assert content == ""


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("absent.csv", "Move the file to lists/absent.csv."),
        ("lists/absent.csv", "Check the name. A link to a file elsewhere is not used."),
        ("lists/linked.csv", "Check the name. A link to a file elsewhere is not used."),
        ("./data/absent.csv", "Check the name. A link to a file elsewhere is not used."),
        ("lists/../absent.csv", "Move the file to lists/absent.csv."),
    ],
)
def test_a_file_is_moved_below_the_lists_only_where_it_is_named_elsewhere(
    shop: FolderShopData, name: str, fix: str
) -> None:
    (shop.folder / "lists" / "linked.csv").symlink_to("/etc/hosts")
    with pytest.raises(InputError) as refused:
        shop.id_list(name, setting="include")
    assert str(refused.value).endswith(fix)


def test_private_files_are_refused_also_where_the_tables_lie_in_the_shops_own_folder(shop: FolderShopData) -> None:
    around = replace(shop, place=str(shop.folder))
    assert around.id_list("old.csv", setting="include").ids.to_pylist() == ["1"]
    for name in ("secret.txt", "disco.yaml", "artefacts/a.csv"):
        with pytest.raises(InputError, match="which plans may not use"):
            around.id_list(name, setting="include")


def test_a_list_as_table_of_customers_needs_a_header_or_another_key(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    data = FolderShopData(folder=tmp_path, place=str(tmp_path / "data"), queries=None, network_file=tmp_path / "x")
    (tmp_path / "data" / "vip.csv").write_text("customer_id\n1\n2\n", encoding="utf-8")
    with data.customers("vip.csv") as (_, table):
        assert table.to_pylist() == [{"customer_id": "1"}, {"customer_id": "2"}]
    (tmp_path / "data" / "vip.csv").write_text("1\n2\n", encoding="utf-8")
    with (
        pytest.raises(FileFormatError, match=r"one column, which is not named customer_id.*`include:`"),
        data.customers("vip.csv"),
    ):
        pass
