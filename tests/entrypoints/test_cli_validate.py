"""`disco validate`: every planted fault at once, with its row; a clean folder; bad folders; no traceback."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from disco.entrypoints.new_shop import TEMPLATES

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The example tables, as Parquet where a type is to be wrong and CSV elsewhere."""
    folder = tmp_path / "data"
    folder.mkdir()
    for path in (TEMPLATES / "data").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def rewrite(path: Path, *lines: str) -> None:
    header = path.read_text().splitlines()[0]
    path.write_text("\n".join([header, *lines]) + "\n")


def test_a_clean_folder_is_one_line_with_row_counts(disco: Run, data: Path) -> None:
    code, out, err = disco("validate", data)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 1
    assert "orders (2 rows)" in out
    assert disco("validate", data, "--quiet") == (0, "", "")


def test_every_one_of_many_faults_is_named_at_once_with_its_row(disco: Run, data: Path) -> None:
    rewrite(
        data / "customers.csv", "1,2024-05-17,GB", "2,2025-01-09,GB", "2,2025-01-09,GB", "guest,2099-01-01,GB", "5,,GB"
    )
    rewrite(
        data / "orders.csv",
        "O1,1,2025-02-03T18:24:10,64.50,51.60,3,",
        "O2,2,2025-02-03T18:24:10,-1,0,1,",
        "O3,2,2025-02-03T18:24:10,10,10.01,1,",
        "O4,99,2025-02-03T18:24:10,10,10,1,",
        "O5,2,2025-02-03T18:24:10,NaN,10,1,",
        "O6,2,2025-02-03T18:24:10,10,10,-1,",
        "O6,2,2025-02-03T18:24:10,10,10,1,",
        "O8,2,2025-02-03T18:24:10,10,10,1,NEVER-SENT",
        "O9,2,2025-02-03T18:24:10Z,10,10,1,",
        "OA,2,03/02/2025,10,10,1,",
    )
    rewrite(
        data / "returns.csv",
        "O1,2025-02-12T10:00:00,30",
        "O1,2025-02-12T10:00:00,30",
        "O2,2025-01-12T10:00:00,0",
        "O0,2025-02-12T10:00:00,1",
    )
    rewrite(
        data / "codes.csv",
        "K1,1,spring,20,2025-02-01T08:00:00,",
        "K2,1,spring,0.2,2025-02-01T08:00:00,2025-01-01T08:00:00",
    )
    rewrite(
        data / "outcomes.csv",
        "E1,spring,1,,2025-02-03T18:24:10,64.50,purchase,",
        "E2,spring,1,,2025-02-03T18:24:10,64.50,refund,",
        "E3,spring,1,,2025-02-03T18:24:10,64.50,correction,E0",
        "E4,spring,1,,2025-02-03T18:24:10,64.50,gift,",
    )
    (data / "site.csv").unlink()
    counts = pa.table({name: [1, 1] for name in ("visits", "views", "add_to_bag", "saves")})
    site = counts.add_column(0, "customer_id", [["1", "2"]]).add_column(1, "day", [[20250201, 20250202]])
    pq.write_table(site, data / "site.parquet")
    code, out, _ = disco("validate", data, "--json")
    result = json.loads(out)
    found = {(entry["file"], entry["column"], entry["kind"], entry["row"]) for entry in result["problems"]}
    assert code == 1
    assert found == {
        ("customers.csv", "customer_id", "duplicate_key", 4),
        ("customers.csv", "customer_id", "mixed_ids", 5),
        ("customers.csv", "joined_on", "future_date", 5),
        ("customers.csv", "joined_on", "null", 6),
        ("orders.csv", "order_id", "duplicate_key", 8),
        ("orders.csv", "customer_id", "unknown_customer", 5),
        ("orders.csv", "ordered_at", "mixed_time_zones", 10),
        ("orders.csv", "ordered_at", "wrong_type", 11),
        ("orders.csv", "full_price", "negative_money", 3),
        ("orders.csv", "full_price", "not_finite", 6),
        ("orders.csv", "paid", "paid_above_full_price", 4),
        ("orders.csv", "items", "negative_count", 7),
        ("orders.csv", "code", "unknown_code", 9),
        ("returns.csv", "order_id", "unknown_order", 5),
        ("returns.csv", "returned_at", "returned_before_ordered", 4),
        ("returns.csv", "value", "refund_above_order", 3),
        ("codes.csv", "depth", "depth_range", 2),
        ("codes.csv", "redeemed_at", "redeemed_before_sent", 3),
        ("site.parquet", "day", "wrong_type", None),
        ("site.parquet", "checkouts", "missing_column", None),
        ("outcomes.csv", "kind", "unknown_choice", 5),
        ("outcomes.csv", "refers_to", "missing_refers_to", 3),
        ("outcomes.csv", "refers_to", "unknown_event", 4),
    }
    assert result["count"] == len(found)

    code, out, err = disco("validate", data, "--quiet")
    assert (code, err) == (1, "")
    for file, column, _, row in found:
        place = f"column {column}" + (f", row {row}" if row else "")
        section = out[out.index(file) :].split("\n\n")[0]
        assert place in section
    assert "Did you mean 0.20?" in out
    assert out.splitlines()[-1].startswith(f"{len(found)} problems in 6 files")


def test_as_of_decides_what_is_in_the_future(disco: Run, data: Path) -> None:
    assert disco("validate", data, "--as-of", "2025-02-20")[0] == 0
    code, out, _ = disco("validate", data, "--as-of", "2025-02-19")
    assert code == 1
    assert "returns.csv" in out
    assert "a date no later than 2025-02-19" in out
    assert disco("validate", data, "--as-of", "yesterday")[0] == 2


def test_nothing_is_written(disco: Run, data: Path) -> None:
    rewrite(data / "orders.csv", "O1,nobody,2025-02-03,-1,0,1,")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.rglob("*")}
    assert disco("validate", data)[0] == 1
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.rglob("*")} == before


@pytest.mark.parametrize("what", ["missing folder", "empty folder", "file"])
def test_bad_folders_end_in_one_clear_line(disco: Run, tmp_path: Path, what: str) -> None:
    place = tmp_path / "there"
    if what == "empty folder":
        place.mkdir()
    elif what == "file":
        place.touch()
    code, out, err = disco("validate", place)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert str(place) in err
    assert "Traceback" not in err
    code, _, err = disco("validate", place, "--json")
    assert code == 1
    assert str(place) in json.loads(err)["message"]


def test_the_shops_settings_name_the_tables(disco: Run, data: Path) -> None:
    (data.parent / "disco.yaml").write_text("data: data\n")
    code, out, _ = disco("validate", "--shop", data.parent)
    assert code == 0
    assert "customers (2 rows)" in out


def test_a_database_is_validated_like_a_folder(disco: Run, data: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(data.parent / "shop.db")
    for path in data.glob("*.csv"):
        table = pacsv.read_csv(path, convert_options=pacsv.ConvertOptions(strings_can_be_null=True))
        connection.execute(f"CREATE TABLE {path.stem} ({', '.join(table.column_names)})")
        marks = ", ".join("?" * table.num_columns)
        rows = [[None if cell is None else str(cell) for cell in row.values()] for row in table.to_pylist()]
        connection.executemany(f"INSERT INTO {path.stem} VALUES ({marks})", rows)
    connection.execute("UPDATE codes SET depth = '30'")
    connection.commit()
    connection.close()
    code, out, _ = disco("validate", f"sqlite:///{data.parent / 'shop.db'}")
    assert code == 1
    assert "Did you mean 0.30?" in out
    assert out.splitlines()[-1].startswith("1 problem in 1 file")


def test_a_plan_is_validated_too(disco: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text((TEMPLATES / "plan.yaml").read_text())
    code, out, _ = disco("validate", plan)
    assert code == 0
    assert "autumn-25" in out
    code, out, _ = disco("validate", plan, "--json")
    assert json.loads(out)["depths"] == [0.1, 0.2, 0.3]
    assert disco("validate", plan, "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    ("line", "wrong", "words"),
    [
        ("  0.20: {at_most: 20%}", "  20: {at_most: 20%}", "found 20; expected a share of the price in [0, 1)"),
        ("  0.20: {at_most: 20%}", "  20: {at_most: 20%}", "Did you mean 0.20?"),
        ("  0.20: {at_most: 20%}", "  0.1: {at_most: 5}", "0.1 twice"),
        ("seed: 42", "sed: 42", "sed: found the unknown key sed"),
        ("seed: 42", "seed: [", "expected YAML"),
    ],
)
def test_a_wrong_plan_is_refused_with_the_place(disco: Run, tmp_path: Path, line: str, wrong: str, words: str) -> None:
    text = (TEMPLATES / "plan.yaml").read_text()
    assert line in text
    plan = tmp_path / "plan.yaml"
    plan.write_text(text.replace(line, wrong))
    code, out, err = disco("validate", plan)
    assert (code, out) == (1, "")
    assert words in err
    code, _, err = disco("validate", plan, "--json")
    assert code == 1
    assert "plan.yaml" in json.loads(err)["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


def test_problems_of_a_plan_are_listed_for_machines(disco: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("campaign: x\ndepths: {20: {}}\n")
    _, _, err = disco("validate", tmp_path / "plan.yaml", "--json")
    problems = json.loads(err)["problems"]
    assert {"missing", "value"} == {problem["kind"] for problem in problems}
    assert any(problem["fix"] == "Did you mean 0.20?" for problem in problems)


def test_the_settings_of_the_shop_that_the_tables_lie_in_say_how_they_are_written(disco: Run, tmp_path: Path) -> None:
    data = tmp_path / "shop" / "data"
    data.mkdir(parents=True)
    (data / "customers.csv").write_bytes("Kunde;Seit;Ort\n1;31.01.2025;Köln\n".encode("cp1252"))
    settings = tmp_path / "shop" / "disco.yaml"
    code, out, _ = disco("validate", data)
    assert code == 1
    assert "the file has Kunde, Seit, Ort" in out
    settings.write_text("columns: {customers: {customer_id: Kunde, joined_on: Seit}}\n")
    code, out, _ = disco("validate", data)
    assert code == 1
    assert 'Write `csv: {dates: "%d.%m.%Y"}` in disco.yaml.' in out
    assert "csv: {encoding: cp1252}" in out
    settings.write_text(settings.read_text() + 'csv: {dates: "%d.%m.%Y", encoding: cp1252}\n')
    for where in ([data], ["--shop", tmp_path / "shop"]):
        code, out, _ = disco("validate", *where)
        assert code == 0, out
        assert "customers.csv: columns are separated by semicolons" in out
    settings.write_text("columns: {customer: {customer_id: Kunde}}\n")
    code, _, err = disco("validate", "--shop", tmp_path / "shop")
    assert code == 1
    assert "Did you mean customers?" in err


@pytest.fixture
def small_shop(tmp_path: Path) -> Path:
    """Two customers and an order, with the plan of `disco init`."""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "disco.yaml").write_text("data: data\n")
    (data / "customers.csv").write_text("customer_id,joined_on,country\n1,2025-01-01,GB\n2,2025-01-01,DE\n")
    (data / "orders.csv").write_text("order_id,customer_id,ordered_at,full_price\nA1,1,2025-08-30,5\n")
    (tmp_path / "plan.yaml").write_text((TEMPLATES / "plan.yaml").read_text())
    return tmp_path


def test_a_plan_is_compared_with_its_shop(disco: Run, small_shop: Path) -> None:
    for place in ((), ("--shop", small_shop)):
        code, out, err = disco("validate", small_shop / "plan.yaml", *place, "--json")
        assert (code, err) == (0, "")
        assert (json.loads(out)["eligible"], json.loads(out)["warnings"]) == (1, [])
    _, out, _ = disco("validate", small_shop / "plan.yaml")
    assert out.endswith(", 1 customer.\n")


@pytest.mark.parametrize(
    ("line", "wrong", "words"),
    [
        ("table: customers ", "table: vip.csv", "customers.table: found no file"),
        ("country = 'GB'", "land = 'GB'", 'Referenced column "land" not found'),
        ("country = 'GB'", "country = 'FR'", "customers.eligible: found no customer who meets"),
        ("seed: 42", "codes: {pool: codes.txt}", "codes.pool: found no file"),
        ("seed: 42", "segments: {column: region, limits: {North: {0.10: {at_most: 5}}}}", "no column region"),
        ("as_of: 2025-09-01", "as_of: 2025-09-01T08:00", "expected a day such as 2027-03-01"),
        ("as_of: 2025-09-01", "as_of: 1.9.", "expected a day such as 2027-03-01"),
    ],
)
def test_what_a_plan_names_is_looked_at(disco: Run, small_shop: Path, line: str, wrong: str, words: str) -> None:
    plan = small_shop / "plan.yaml"
    assert line in plan.read_text()
    plan.write_text(plan.read_text().replace(line, wrong))
    code, out, err = disco("validate", plan)
    assert (code, out) == (1, "")
    assert words in err


POOLED = "codes: {pool: codes.txt}\npolicy: {name: random}\n"
TEN = "".join(f"CODE-{number}\n" for number in range(10))


@pytest.fixture
def many(small_shop: Path) -> Callable[..., Path]:
    """Writes a plan for the shop, which now has forty customers, half of them in GB."""
    rows = "".join(f"{number},2025-01-01,{'GB' if number % 2 else 'DE'}\n" for number in range(1, 41))
    (small_shop / "data" / "customers.csv").write_text("customer_id,joined_on,country\n" + rows)

    def write(more: str, depths: str = "{0.10: {at_most: 20}, 0.30: {at_most: 5}}", **files: str) -> Path:
        (small_shop / "lists").mkdir(exist_ok=True)
        for name, content in files.items():
            (small_shop / "lists" / f"{name}.txt").write_text(content)
        plan = small_shop / "plan.yaml"
        plan.write_text(
            f"campaign: x\ncustomers: {{table: customers, as_of: 2025-09-01}}\ndepths: {depths}\n"
            "objective: {revenue_weight: 3}\nvalid: {from: 2025-09-02, days: 7}\n" + more
        )
        return plan

    return write


@pytest.mark.parametrize(
    ("more", "files", "words"),
    [
        (
            "segments: {column: country, limits: {GB: {0.10: {at_least: 9, at_most: 4}}}}\n",
            {},
            "10% off in GB: at least 9 codes, and at most 4",
        ),
        (
            "segments: {column: country, limits: {GB: {0.30: {at_least: 3}}, DE: {0.30: {at_least: 3}}}}\n",
            {},
            "30% off: at least 6 codes in all segments together, and at most 5",
        ),
        (
            "segments: {column: country, limits: {GB: {0.10: {at_least: 21}}}}\ndepths: {0.10: {}}\n",
            {},
            "all depths: at least 21 codes in GB, but only 20 customers of it outside the holdout",
        ),
        (POOLED, {"codes": ""}, "pool of codes: found no codes; expected a code for each customer"),
        (POOLED, {"codes": "\n \n"}, "pool of codes: found no codes"),
        (POOLED, {"codes": "CODE-1\nCODE-1\n"}, "1 repeated code"),
        (POOLED, {"codes": "CODE-1\nA B\n"}, "1 line without a usable code, the first is entry 2"),
        (POOLED, {"codes": TEN}, "found 10 unused codes; expected at least 25"),
        (
            "codes: {pool: codes.txt, shared: {0.10: code-3}}\n",
            {"codes": TEN},
            "found the shared code CODE-3; expected codes for one customer each",
        ),
        ("include: in.txt\nexclude: out.txt\n", {"in": "1\n2\n", "out": "2\n1\n"}, "include and exclude: found every"),
        ("exclude: out.txt\n", {"out": "".join(f"{n}\n" for n in range(1, 41))}, "exclude: found every one of the 40"),
        ("include: in.txt\n", {"in": "customer_id\n"}, "in.txt"),
        ("export: {columns: [contry]}\n", {}, "no column contry in "),
        ("export: {columns: [contry]}\n", {}, "Did you mean country?"),
        ("export: {columns: [country], template: klaviyo}\n", {}, "needs a column of e-mail addresses"),
    ],
)
def test_what_a_plan_would_be_refused_for_is_found_without_planning(
    disco: Run, many: Callable[..., Path], more: str, files: dict[str, str], words: str
) -> None:
    depths, _, rest = more.partition("depths: ")
    plan = many(depths, rest.strip(), **files) if rest else many(more, **files)
    code, out, err = disco("validate", plan)
    assert (code, out) == (1, ""), err
    assert words in err
    assert "customers.eligible: " not in err


@pytest.mark.parametrize(
    ("more", "files", "words"),
    [
        ("codes: {pool: codes.txt}\n", {"codes": TEN}, "The pool has 10 codes; up to 25 may be needed at the launch."),
        (
            "codes: {pool: codes.txt, shared: {0.10: SPRING}}\n",
            {"codes": "CODE-1\n"},
            "The pool has 1 code; up to 5 may be needed",
        ),
        ("codes: {shared: {0.10: A}}\n", {}, "Short shared codes are easy to guess: A."),
        ("codes: {pool: codes.txt, prefix: SPRING}\n", {"codes": TEN}, "the prefix SPRING is not used"),
    ],
)
def test_what_a_plan_may_stumble_over_is_a_warning(
    disco: Run, many: Callable[..., Path], more: str, files: dict[str, str], words: str
) -> None:
    code, _, err = disco("validate", many(more, **files))
    assert (code, words in err) == (0, True), err


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("{at_least: 30, at_most: 20}", "10% off: at least 30 codes, and at most 20 codes"),
        ("{at_least: 30%, at_most: 20%}", "10% off: at least 30% of the customers, and at most 20% of the customers"),
        ("{at_least: 30%, at_most: 20}", None),
    ],
)
def test_a_floor_above_its_cap_is_found_without_a_shop(
    disco: Run, tmp_path: Path, many: Callable[..., Path], limits: str, words: str | None
) -> None:
    alone = tmp_path / "elsewhere" / "plan.yaml"
    alone.parent.mkdir()
    many("", f"{{0.10: {limits}}}").rename(alone)
    code, _, err = disco("validate", alone)
    assert (code, words is None or words in err) == (0 if words is None else 1, True), err


def test_an_hour_that_no_clock_shows_is_a_warning(disco: Run, many: Callable[..., Path]) -> None:
    plan = many("")
    (plan.parent / "disco.yaml").write_text((plan.parent / "disco.yaml").read_text() + "time_zone: Europe/Berlin\n")
    written = plan.read_text().replace("from: 2025-09-02", 'from: "2026-03-29 02:30"')
    plan.write_text(written.replace("as_of: 2025-09-01", "as_of: 2026-03-01"))
    code, _, err = disco("validate", plan)
    words = "The clocks in Europe/Berlin go forward over 02:30 on 2026-03-29, so codes begin at 03:30."
    assert (code, words in " ".join(err.split())) == (0, True), err


def test_a_plan_beyond_the_tables_is_warned_about(disco: Run, small_shop: Path) -> None:
    plan = small_shop / "plan.yaml"
    plan.write_text(plan.read_text().replace("2025-09-0", "2027-09-0"))
    code, _, err = disco("validate", plan)
    assert code == 0
    assert "has no order in the year before 2027-09-01" in err


def test_rows_of_csv_files_are_numbered_as_in_a_spreadsheet_by_every_command(disco: Run, small_shop: Path) -> None:
    line = (small_shop / "data" / "orders.csv").read_text().splitlines()[1]
    with (small_shop / "data" / "orders.csv").open("a") as orders:
        orders.write(line.replace("A1", "A2").replace(",5", ",-5") + "\n")
    _, out, _ = disco("validate", "--shop", small_shop)
    assert "column full_price, row 3: found '-5'" in out
    _, _, err = disco("features", small_shop / "data", "--as-of", "2025-09-01", "-o", small_shop / "features.parquet")
    assert "orders.csv, column full_price, row 3: found '-5'" in err
    (small_shop / "data" / "vip.csv").write_text("customer_id,country\n1,GB\n,GB\n")
    plan = small_shop / "plan.yaml"
    plan.write_text(plan.read_text().replace("table: customers ", "table: vip.csv "))
    _, _, err = disco("validate", plan)
    assert "vip.csv, column customer_id, row 3: found nothing" in err
    (small_shop / "data" / "vip.csv").write_text("customer_id,country\n1,GB\n2.0,GB\n")
    _, _, err = disco("validate", plan)
    assert "found 1 unknown id, the first in row 3; expected customers of the table customers" in err
    assert "Did you mean '2'?" in err
