"""Lists of customer ids as people keep them: one column, with or without a header, as text, CSV or Parquet."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.adapters.shop_data import FolderShopData
from disco.adapters.tables.id_list import read_id_list
from disco.records.errors import FileFormatError, InputError
from disco.records.table_format import CsvFormat, TableFormat

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
        "vip.csv: the first line, 'Kunde', is read as a header",
        "vip.csv: 1 of 2 ids name no customer, the first '5' in row 3",
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
    with pytest.raises(InputError, match=rf"vip.csv, row 4: found '{written}'.*Did you mean '{meant}'\?"):
        read_id_list(listed, file="vip.csv").among(CUSTOMERS)


def test_a_list_of_strangers_is_refused(listed: Path) -> None:
    listed.write_text("e-mail\na@b.c\nd@e.f\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"3 ids, such as 'd@e.f', none of them a customer's; expected ids such as '1'"
    ):
        read_id_list(listed).among(CUSTOMERS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04\0\0", "bytes that are not text"),
        (b"1;Anna\n2;Bert\n", "found the columns 1, Anna; expected one customer id per line"),
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
    with pytest.raises(FileFormatError, match="column id: double"):
        read_id_list(path)
    pq.write_table(pa.table({"id": [1], "name": ["Anna"]}), path)
    with pytest.raises(FileFormatError, match="the columns id, name"):
        read_id_list(path)


def test_a_plans_list_lies_in_the_shop(tmp_path: Path) -> None:
    (tmp_path / "shop" / "data").mkdir(parents=True)
    (tmp_path / "outside.csv").write_text("1\n", encoding="utf-8")
    (tmp_path / "shop" / "vip.csv").write_text("1\n", encoding="utf-8")
    shop = tmp_path / "shop"
    data = FolderShopData(folder=shop, place=str(shop / "data"), queries=None, network_file=shop / "context")
    assert data.id_list("vip.csv", setting="include").ids.to_pylist() == ["1"]
    with pytest.raises(InputError, match="include: found no file"):
        data.id_list("vips.csv", setting="include")
    with pytest.raises(InputError, match="outside the shop's folder"):
        data.id_list("../outside.csv", setting="include")


def test_a_list_as_table_of_customers_needs_a_header_or_another_key(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    data = FolderShopData(folder=tmp_path, place=str(tmp_path / "data"), queries=None, network_file=tmp_path / "x")
    (tmp_path / "vip.csv").write_text("customer_id\n1\n2\n", encoding="utf-8")
    with data.customers("vip.csv") as (_, table):
        assert table.to_pylist() == [{"customer_id": "1"}, {"customer_id": "2"}]
    (tmp_path / "vip.csv").write_text("1\n2\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"one column, named '1'.*`include:`"), data.customers("vip.csv"):
        pass
