"""`disco allocate` from files to files: results, refusals, and nothing half-written."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from disco.allocation import allocate
from disco.entrypoints.cli import calculators
from disco.records.errors import DiscoError, InputError, LimitError, TableError, UsageError


@pytest.fixture
def run(tmp_path):
    app = typer.Typer()
    calculators.register(app)

    def call(*arguments):
        result = CliRunner().invoke(app, ["allocate", *map(str, arguments)])
        if isinstance(result.exception, DiscoError):
            raise result.exception
        return result

    return call


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(1.0, 1.0, (50, 3))
    table = {"customer_id": [f"c{i}" for i in range(50)], "country": ["GB", "FR"] * 25}
    for column, name in enumerate(("0.05", "0.10", "0.2")):
        table[name] = values[:, column]
    pq.write_table(pa.table(table), tmp_path / "values.parquet")
    (tmp_path / "caps.yaml").write_text('caps: {"0.1": 5, 0.20: 7}\n')
    return tmp_path, values, table


def test_csv_files_give_what_parquet_files_give(run, files):
    folder, values, table = files
    lines = [",".join(map(repr, row)) for row in values.tolist()]
    lines[3] = lines[3].rpartition(",")[0] + ","  # not eligible
    rows = [f"{one},GB,{line}" for one, line in zip(table["customer_id"], lines, strict=True)]
    (folder / "values.csv").write_text("\n".join(["customer_id,country,0.05,0.10,0.2", *rows, ""]))
    run(folder / "values.csv", "--caps", folder / "caps.yaml", "-o", folder / "out.csv")
    eligible = np.ones(values.shape, bool)
    eligible[3, 2] = False
    expected = allocate(values, [None, 5, 7], ids=table["customer_id"], eligible=eligible)
    head, *written = [line.split(",") for line in (folder / "out.csv").read_text().replace('"', "").splitlines()]
    assert head == ["customer_id", "depth", "value"]
    assert [row[1] for row in written] == [("0.05", "0.1", "0.2", "")[column] for column in expected.choice]
    for cell, words in (("NaN", "a finite number"), ("much", r"values\.csv.*'much'")):
        (folder / "values.csv").write_text(f"customer_id,0.1\n0017,{cell}\n")
        with pytest.raises(DiscoError, match=words):
            run(folder / "values.csv", "--caps", folder / "caps.yaml", "-o", folder / "out.csv")


def test_writes_the_allocation_and_its_summary(run, files):
    folder, values, table = files
    out, summary = folder / "out.parquet", folder / "summary.json"
    result = run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", out, "--summary", summary)
    assert result.exit_code == 0
    expected = allocate(values, [None, 5, 7], ids=table["customer_id"])
    written = pq.read_table(out)
    assert written.column_names == ["customer_id", "depth", "value"]
    assert written["customer_id"].to_pylist() == table["customer_id"]
    depths = [None if column < 0 else (0.05, 0.1, 0.2)[column] for column in expected.choice]
    assert written["depth"].to_pylist() == depths
    report = json.loads(summary.read_text())
    assert report["status"] == "OPTIMAL"
    assert report["value"] == expected.value
    assert report["gap"] == 0.0
    assert report["counts"] == {"0.05": int(expected.counts[0]), "0.1": 5, "0.2": 7}
    assert set(report["prices"]) == {"0.05", "0.1", "0.2"}
    assert report["conflicts"] == []
    assert set(report) >= {"bound", "seconds"}


def test_highs_gives_the_same_value(run, files):
    folder, *_ = files
    values = []
    for solver in ("exact", "highs"):
        result = run(
            folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o", "--solver", solver, "--json"
        )
        values.append(json.loads(result.stdout)["value"])
    assert values[0] == pytest.approx(values[1], abs=1e-9)


def test_null_is_not_eligible(run, files):
    folder, _, table = files
    masked = pa.array(table["0.2"], mask=np.arange(50) < 48)
    pq.write_table(pa.table({**table, "0.2": masked}), folder / "values.parquet")
    result = run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o.parquet", "--quiet")
    assert result.exit_code == 0
    assert result.stdout == ""
    depths = pq.read_table(folder / "o.parquet")["depth"].to_pylist()
    assert 0.2 not in depths[:48]


def test_budget_segments_and_floors_from_one_file(run, files):
    folder, _, table = files
    pq.write_table(
        pa.table({**table, **{k: np.abs(table[k]) for k in ("0.05", "0.10", "0.2")}}), folder / "costs.parquet"
    )
    limits = {
        "caps": {"0.05": 20},
        "floors": {"0.2": 2},
        "budget": 12.5,
        "segments": {"country": {"GB": {"caps": {"0.1": 3}}}},
    }
    (folder / "caps.json").write_text(json.dumps(limits))
    result = run(
        folder / "values.parquet", "--caps", folder / "caps.json", "--costs", folder / "costs.parquet",
        "-o", folder / "o.parquet", "--json",
    )  # fmt: skip
    report = json.loads(result.stdout)
    assert report["prices"]["budget"] > 0
    assert report["cost"] <= 12.5
    assert report["counts"]["0.2"] >= 2
    assert report["bound"] >= report["value"]
    out = pq.read_table(folder / "o.parquet")
    taken = [
        depth == 0.1 and place == "GB" for depth, place in zip(out["depth"].to_pylist(), table["country"], strict=True)
    ]
    assert sum(taken) <= 3


def test_infeasible_exits_1_with_a_summary_and_no_allocation(run, files):
    folder, *_ = files
    (folder / "caps.yaml").write_text("caps: {}\nfloors: {0.1: 30, 0.2: 30}\n")
    summary = folder / "summary.json"
    result = run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o", "--summary", summary)
    assert result.exit_code == 1
    report = json.loads(summary.read_text())
    assert report["status"] == "INFEASIBLE"
    assert report["value"] is None
    assert report["conflicts"][0]["limits"] == ["floor 30 of depth 0.1", "floor 30 of depth 0.2"]
    assert "from 30 to 20" in report["conflicts"][0]["change"]
    assert sorted(path.name for path in folder.iterdir()) == ["caps.yaml", "summary.json", "values.parquet"]


@pytest.mark.parametrize(
    ("caps", "error", "words"),
    [
        ("caps: {0.3: 5}", LimitError, "depth 0.3"),
        ("caps: {0.1: -5}", LimitError, r"caps\.yaml, cap of depth 0\.1: found -5"),
        ("caps: {}\nbudget: 5", LimitError, "costs"),
        ("caps: {}\nsegments: {country: {}, city: {}}", LimitError, "one column"),
        ("caps: {}\nsegments: {city: {}}", LimitError, "city"),
        ("caps: {}\nfloor: {}", LimitError, "floor"),
        ("caps: [1, 2]", LimitError, "mapping"),
        ("caps: {0.1: 5", InputError, "YAML"),
        ("caps: {0.1: .nan}", LimitError, "nan"),
    ],
)
def test_bad_limits_are_named_and_nothing_is_written(run, files, caps, error, words):
    folder, *_ = files
    (folder / "caps.yaml").write_text(caps)
    with pytest.raises(error, match=words):
        run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o.parquet")
    assert not (folder / "o.parquet").exists()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"0.2": [float("nan")] * 50}, TableError, "column 0.2, row 1 .and 49 more."),
        ({"0.2": [float("inf")] * 50}, TableError, "inf"),
        (
            {"customer_id": ["same"] * 50},
            InputError,
            r"values\.parquet, column customer_id: found 'same' more than once",
        ),
        ({"0.20": [1.0] * 50}, InputError, "again"),
        ({"0.2": ["x"] * 50}, InputError, "float"),
        ({"20": [1.0] * 50}, InputError, "0.20"),
    ],
)
def test_bad_tables_are_named(run, files, change, error, words):
    folder, _, table = files
    pq.write_table(pa.table({**table, **change}), folder / "values.parquet")
    with pytest.raises(error, match=words):
        run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o.parquet")


def test_missing_broken_and_empty_files(run, files):
    folder, _, table = files
    with pytest.raises(InputError, match="no such file"):
        run(folder / "nothing.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o")
    with pytest.raises(InputError, match=r"no such file.*add --engine spark"):
        run("table:shop.values", "--caps", folder / "caps.yaml", "-o", folder / "o")
    with pytest.raises(InputError, match="no such file"):
        run(folder / "values.parquet", "--caps", folder / "nothing.yaml", "-o", folder / "o")
    with pytest.raises(InputError, match="Parquet"):
        run(folder / "caps.yaml", "--caps", folder / "caps.yaml", "-o", folder / "o")
    with pytest.raises(InputError, match="a folder"):
        run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder)
    with pytest.raises(InputError, match="no folder"):
        run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "no" / "such" / "o")
    with pytest.raises(UsageError, match="highs"):
        run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o", "--solver", "cplex")
    pq.write_table(pa.table(table).slice(0, 0), folder / "values.parquet")
    with pytest.raises(InputError, match="empty"):
        run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o")
    pq.write_table(pa.table({"customer_id": [1, 2], "age": [3, 4]}), folder / "values.parquet")
    with pytest.raises(InputError, match="named by depth"):
        run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o")


def test_a_cost_may_be_missing_only_where_the_customer_may_not_have_the_depth(run, files):
    folder, _, table = files
    costs = {**table, **{name: np.ones(50) for name in ("0.05", "0.10", "0.2")}}
    costs["0.2"] = pa.array(np.ones(50), mask=np.arange(50) == 4)
    pq.write_table(pa.table(costs), folder / "costs.parquet")
    (folder / "caps.yaml").write_text("caps: {}\nbudget: 9\n")
    given = ("--caps", folder / "caps.yaml", "--costs", folder / "costs.parquet", "-o", folder / "o.parquet")
    with pytest.raises(InputError, match=r"column 0\.2, row 5"):
        run(folder / "values.parquet", *given)
    masked = pa.array(table["0.2"], mask=np.arange(50) == 4)
    pq.write_table(pa.table({**table, "0.2": masked}), folder / "values.parquet")
    assert run(folder / "values.parquet", *given).exit_code == 0


def test_a_floor_above_its_own_cap_is_explained_in_the_summary(run, files):
    folder, *_ = files
    (folder / "caps.yaml").write_text("caps: {0.1: 5}\nfloors: {0.1: 6}\n")
    summary = folder / "summary.json"
    for solver in ("exact", "highs"):
        result = run(
            folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o", "--summary", summary,
            "--solver", solver,
        )  # fmt: skip
        assert result.exit_code == 1
        report = json.loads(summary.read_text())
        assert report["status"] == "INFEASIBLE"
        assert report["conflicts"][0]["change"] == "Raise the cap of depth 0.1 from 5 to 6"


def test_costs_are_found_by_customer_in_any_order(run, files):
    folder, _, table = files
    rng = np.random.default_rng(5)
    costs = pa.table(
        {"customer_id": table["customer_id"], **{name: rng.random(50) for name in ("0.05", "0.10", "0.2")}}
    )
    (folder / "caps.yaml").write_text("caps: {}\nbudget: 9\n")
    rows = []
    for order in (np.arange(50), rng.permutation(50)):
        pq.write_table(costs.take(pa.array(order)), folder / "costs.parquet")
        given = ("--caps", folder / "caps.yaml", "--costs", folder / "costs.parquet", "-o", folder / "o.parquet")
        assert run(folder / "values.parquet", *given).exit_code == 0
        rows.append(pq.read_table(folder / "o.parquet"))
    assert rows[0].equals(rows[1])
    pq.write_table(costs.slice(1), folder / "costs.parquet")
    with pytest.raises(InputError, match=r"costs\.parquet: found no row of customer"):
        run(folder / "values.parquet", *given)
    negative = costs.set_column(1, "0.05", pa.array([*[1.0] * 49, -1.0]))
    pq.write_table(negative, folder / "costs.parquet")
    with pytest.raises(InputError, match=r"costs\.parquet, column 0\.05, row 50: found -1\.0"):
        run(folder / "values.parquet", *given)


def test_a_column_of_nulls_alone_is_open_to_nobody(run, files):
    folder, _, table = files
    pq.write_table(pa.table({**table, "0.2": pa.nulls(50)}), folder / "values.parquet")
    (folder / "caps.yaml").write_text("caps: {}\n")
    result = run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o.parquet", "--json")
    assert json.loads(result.stdout)["counts"]["0.2"] == 0


def test_a_segment_may_be_called_no(run, files):
    folder, _, table = files
    pq.write_table(pa.table({**table, "country": ["NO"] * 25 + ["on"] * 25}), folder / "values.parquet")
    limits = "caps: {}\nsegments: {country: {NO: {caps: {0.1: 1, 0.2: 0, 0.05: 0}}, on: {caps: {0.2: 2}}}}\n"
    (folder / "caps.yaml").write_text(limits)
    run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o.parquet")
    depths = pq.read_table(folder / "o.parquet")["depth"].to_pylist()
    assert sum(depth is not None for depth in depths[:25]) <= 1
    assert depths[25:].count(0.2) <= 2


def test_segments_named_without_limits_are_accepted(run, files):
    folder, *_ = files
    (folder / "caps.yaml").write_text("caps: {0.1: 5}\nsegments: {country: {}}\n")
    result = run(folder / "values.parquet", "--caps", folder / "caps.yaml", "-o", folder / "o.parquet")
    assert result.exit_code == 0


def test_a_folder_of_values_gives_a_folder_with_the_same_rows_and_summary(run, files):
    folder, _, _ = files
    (folder / "values").mkdir()
    table = pq.read_table(folder / "values.parquet")
    for at in range(0, 50, 20):
        pq.write_table(table.slice(at, 20), folder / "values" / f"{at:02}.parquet")
    caps = ("--caps", folder / "caps.yaml")
    run(folder / "values.parquet", *caps, "-o", folder / "one.parquet", "--summary", folder / "one.json")
    for _ in range(2):  # what was written before is replaced
        result = run(folder / "values", *caps, "-o", folder / "codes", "--summary", folder / "codes.json")
        assert result.exit_code == 0
    assert pq.read_table(folder / "codes").equals(pq.read_table(folder / "one.parquet"))
    said, expected = (json.loads((folder / name).read_text()) for name in ("codes.json", "one.json"))
    assert said | {"seconds": 0} == expected | {"seconds": 0}
    with pytest.raises(UsageError, match="--solver"):
        run(folder / "values", *caps, "-o", folder / "codes", "--solver", "highs")
    with pytest.raises(InputError, match="other content"):
        run(folder / "values", *caps, "-o", folder / "values")


def test_a_null_id_is_said_of_its_own_file(run, files):
    folder, _, table = files
    costs = {"customer_id": table["customer_id"], **{name: np.ones(50) for name in ("0.05", "0.10", "0.2")}}
    (folder / "caps.yaml").write_text("caps: {}\nbudget: 9\n")
    given = ("--caps", folder / "caps.yaml", "--costs", folder / "costs.parquet", "-o", folder / "o.parquet")
    unnamed = pa.array(table["customer_id"], mask=np.arange(50) == 6)
    for wrong in ("values", "costs"):
        for name, columns in (("values", table), ("costs", costs)):
            rows = {**columns, "customer_id": unnamed} if name == wrong else columns
            pq.write_table(pa.table(rows), folder / f"{name}.parquet")
        with pytest.raises(InputError, match=rf"{wrong}\.parquet, column customer_id: found a null"):
            run(folder / "values.parquet", *given)
