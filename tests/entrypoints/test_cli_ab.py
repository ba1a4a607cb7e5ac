"""`disco ab FILE`."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def columns(rows=2000, seed=1):
    rng = np.random.default_rng(seed)
    arm = rng.choice(["control", "mail", "app"], rows)
    spent = rng.gamma(2, 20, rows)
    bought = rng.random(rows) < np.where(arm == "mail", 0.4, 0.2)
    revenue = np.where(bought, np.round(spent * 0.7 + 5, 2), 0.0)
    return {
        "customer_id": [f"c{number}" for number in range(rows)],
        "group": arm.tolist(),
        "revenue": revenue.tolist(),
        "orders": np.where(bought, 1 + rng.poisson(0.3, rows), 0).tolist(),
        "bought": bought.tolist(),
        "last_year": np.where(rng.random(rows) < 0.1, None, np.round(spent, 2)).tolist(),
    }


@pytest.fixture
def parquet(tmp_path):
    def written(**changes):
        path = tmp_path / "test.parquet"
        pq.write_table(pa.table(columns() | changes), path)
        return path

    return written


def text_of(table, delimiter=",", decimal="."):
    def cell(value):
        if value is None:
            return ""
        return str(value).replace(".", decimal) if isinstance(value, float) else str(value)

    rows = zip(*table.values(), strict=True)
    return "\n".join([delimiter.join(table), *(delimiter.join(map(cell, row)) for row in rows)]) + "\n"


@pytest.fixture
def ab(disco):
    def run(*arguments, code=0):
        found = disco("ab", *arguments)
        assert found[0] == code, found[2]
        return SimpleNamespace(stdout=found[1], stderr=found[2])

    return run


ASKED = ("--arm", "group", "--metric", "revenue", "--metric", "revenue/orders", "--metric", "bought")


def test_the_promised_json_and_words(ab, parquet):
    path = parquet()
    found = json.loads(ab(path, *ASKED, "--before", "last_year", "--json").stdout)
    assert found["control"] == "control"
    assert sum(found["customers"].values()) == 2000
    assert found["sample_ratio_ok"] is True
    assert [(row["metric"], row["arm"]) for row in found["differences"][:2]] == [
        ("revenue", "app"),
        ("revenue", "mail"),
    ]
    mail = next(row for row in found["differences"] if (row["metric"], row["arm"]) == ("bought", "mail"))
    assert (mail["kind"], mail["verdict"]) == ("rate", "higher")
    assert mail["difference"]["lower"] > 0
    text = ab(path, *ASKED).stdout
    assert "bought: mail is higher than control by" in text
    assert "adjusted for 6 comparisons (Holm)" in text


def test_a_csv_file_reads_as_the_parquet_file(ab, parquet, tmp_path):
    path = parquet()
    plain, german = tmp_path / "plain.csv", tmp_path / "german.csv"
    plain.write_text(text_of(columns()))
    german.write_text(text_of(columns(), delimiter=";", decimal=","))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "disco.yaml").write_text('csv: {delimiter: ";", decimal: ","}\n')
    expected = ab(path, *ASKED, "--before", "last_year", "--json").stdout
    assert ab(plain, *ASKED, "--before", "last_year", "--json").stdout == expected
    shop = ("--shop", tmp_path / "shop")
    assert ab(german, *ASKED, "--before", "last_year", "--json", *shop).stdout == expected


def test_shares_other_than_planned_block_the_verdict(ab, parquet):
    found = ab(parquet(), *ASKED, "--shares", "control=50%,mail=25%,app=25%")
    assert "no verdict" in found.stdout
    assert "do not have their planned shares" in found.stderr
    again = ab(parquet(group=["control"] * 1500 + ["mail"] * 500), *ASKED)
    assert "--shares" in again.stderr


def test_looks_are_said(ab, parquet):
    found = ab(parquet(), "--arm", "group", "--metric", "revenue", "--control", "app", "--looks", "4")
    assert "Intervals and p-values hold at all 4 looks together." in found.stdout
    assert "adjusted for 2 comparisons (Holm)" in found.stdout
    assert "An interval and the p beside it are those of one comparison alone." in found.stdout
    assert "app (control)" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--arm", "groop", "--metric", "revenue"), 1, "Did you mean group?"),
        (("--arm", "group", "--metric", "revenue/"), 2, "--metric"),
        (("--arm", "group", "--metric", "revenue", "--control", "nobody"), 1, "an arm of"),
        (("--arm", "group", "--metric", "revenue", "--before", "revenue"), 1, "a column known before the test"),
        (("--arm", "group", "--metric", "revenue", "--metric", "revenue"), 1, "each metric once"),
        (("--arm", "group", "--metric", "group"), 1, "group"),
        (("--arm", "group", "--metric", "last_year"), 1, "an empty cell in data row"),
        (("--arm", "group", "--metric", "revenue", "--level", "95"), 2, "Did you mean 95%"),
        (("--arm", "group", "--metric", "revenue", "--shares", "mail"), 2, "NAME=SHARE"),
        (("--arm", "group", "--metric", "revenue", "--looks", "0"), 2, "looks"),
        (("--arm", "customer_id", "--metric", "revenue"), 1, "control"),
    ],
)
def test_wrong_usage_and_impossible_wishes(ab, parquet, arguments, code, message):
    found = ab(parquet(), *arguments, code=code)
    assert message in found.stderr


def test_bad_files(ab, parquet, tmp_path):
    assert "no such file" in ab(tmp_path / "none.csv", *ASKED, code=1).stderr
    twice = ab(parquet(customer_id=["x"] * 2000), *ASKED, code=1).stderr
    assert "1 customer in more than one row, the first 'x'" in twice
    assert "Sum the figures per customer first." in twice
    text = tmp_path / "text.csv"
    text.write_text("group,revenue\ncontrol,1\ncontrol,2\nnew,3\nnew,a lot\n")
    asked = ("--arm", "group", "--metric", "revenue")
    assert "column revenue, row 5: found 'a lot'" in ab(text, *asked, code=1).stderr
    text.write_text("group,revenue\ncontrol,1\ncontrol,2\nnew,3\n,4\n")
    assert "column group, row 5: found an empty cell" in ab(text, *asked, code=1).stderr
    text.write_text("group;revenue\ncontrol;1,50\ncontrol;2,25\nnew;3,10\nnew;4,00\n")
    assert 'csv: {decimal: ","}' in ab(text, *asked, code=1).stderr
    text.write_text("group,revenue\ncontrol,1\ncontrol,nan\nnew,3\nnew,4\n")
    assert "nan in data row 2" in ab(text, *asked, code=1).stderr
    text.write_text("group,revenue\n")
    assert ab(text, *asked, code=1).stderr.startswith("error: ")


def test_a_file_without_rows_and_a_folder_are_named(disco, tmp_path):
    (tmp_path / "empty.csv").write_text("group,revenue\n")
    for path, words in ((tmp_path / "empty.csv", "empty.csv: found no rows"), (tmp_path, "found a folder")):
        code, _, said = disco("ab", path, "--arm", "group", "--metric", "revenue")
        assert code == 1
        assert words in said
