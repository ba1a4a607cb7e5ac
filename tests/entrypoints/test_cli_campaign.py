"""A campaign's life on the command line: what a person does in a week, and what they get wrong."""

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import yaml

Run = Callable[..., tuple[int, str, str]]


def done(disco: Run, *arguments: object) -> dict[str, Any]:
    """The JSON of a command that succeeds."""
    code, out, err = disco(*arguments, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def refused(disco: Run, *arguments: object) -> str:
    code, out, err = disco(*arguments)
    assert (code, out) == (1, "")
    return err


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def changed_plan(shop: Path, **sections: object) -> Path:
    plan = yaml.safe_load((shop / "second.yaml").read_text()) | sections
    path = shop / "changed.yaml"
    path.write_text(json.dumps(plan, default=str))
    return path


# ---- plan ----------------------------------------------------------------------------------------------------------


def test_a_plan_says_who_gets_what_with_intervals_and_prices(disco: Run, shop: Path) -> None:
    result = done(disco, "plan", shop / "second.yaml", "--shop", shop)
    assert result["version"] == 1
    assert set(result["arms"]) == {"decided", "control", "holdout"}
    assert sum(arm["customers"] for arm in result["arms"].values()) == result["customers"]
    for figure in ("revenue", "markdown", "reward"):
        interval = result["total"][figure]
        assert interval["lower"] < interval["value"] < interval["upper"]
    assert set(result["prices"]) == {"0.1", "0.2", "0.3"}
    assert len(list((shop / "artefacts").glob("*.arrow"))) == 9, "of two plans and a launch"
    code, out, _ = disco("plan", shop / "second.yaml", "--shop", shop)
    assert code == 0
    assert f"disco launch {result['plan_id']}" in out, "the same inputs give the same plan"
    assert "90% intervals" in out


def test_a_dry_run_writes_nothing(disco: Run, shop: Path) -> None:
    before = contents(shop)
    assert done(disco, "plan", shop / "second.yaml", "--shop", shop, "--dry-run")["dry_run"]
    assert contents(shop) == before
    (shop / "disco.db").unlink()
    assert "lost" in refused(disco, "plan", shop / "first.yaml", "--shop", shop, "--dry-run")
    shutil.rmtree(shop / "artefacts")
    assert done(disco, "plan", shop / "first.yaml", "--shop", shop, "--dry-run")["version"] is None
    assert not (shop / "disco.db").exists()


def _without_caches(shop: Path) -> dict[str, bytes]:
    caches = ("artefacts/features", "artefacts/contexts")
    return {name: content for name, content in contents(shop).items() if not name.startswith(caches)}


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"depths": {"20": {}}}, "Did you mean 0.20?"),
        ({"depths": {"0.2": {"at_most": -1}}}, "depths"),
        ({"objective": {"revenue_weight": float("nan")}}, "revenue_weight"),
        ({"customers": {"table": "customers", "eligible": "contry = 'GB'", "as_of": "2025-10-01"}}, "contry"),
        ({"customers": {"table": "vip.parquet", "as_of": "2025-10-01"}}, "vip.parquet"),
        ({"policy": {"name": "thomson"}}, "thompson"),
        ({"depths": {"0.2": {"at_least": 10_000}}}, "limits contradict"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_plan_is_refused_by_name_and_changes_nothing(
    disco: Run, shop: Path, sections: dict[str, object], named: str
) -> None:
    path = changed_plan(shop, **sections)
    before = _without_caches(shop)
    assert named in refused(disco, "plan", path, "--shop", shop)
    assert _without_caches(shop) == before


def test_a_new_network_is_refused_until_the_belief_is_rebuilt(disco: Run, shop: Path) -> None:
    network = shop / "context.safetensors"
    options = ("--window-start", "2025-06-01", "--max-epochs", 1, "--seed", 5, "-o", network)
    assert disco("train", "context", "--tables", shop / "data", *options)[0] == 0
    assert "disco learn --rebuild" in refused(disco, "plan", shop / "second.yaml", "--shop", shop)
    before = done(disco, "learn", "first", "--as-of", "2025-10-03", "--shop", shop, "--dry-run")
    database = (shop / "disco.db").read_bytes()
    code, out, _ = disco("learn", "--rebuild", "--as-of", "2025-10-03", "--shop", shop, "--dry-run")
    assert (code, "Nothing was written" in out) == (0, True)
    assert (shop / "disco.db").read_bytes() == database
    again = done(disco, "learn", "--rebuild", "--as-of", "2025-10-03", "--shop", shop)
    assert again["changed"]
    assert again["campaigns"] == before["campaigns"], "the same purchases under the new network"
    assert done(disco, "plan", shop / "second.yaml", "--shop", shop)["version"] == again["version"]


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        (["nobody"], "1 unknown id, the first in row 1"),
        ([["c0000001"]], "type list"),
        ([1.5], "type double"),
        ([None], "a value in every row"),
    ],
)
def test_a_table_of_other_customers_is_refused_by_name(disco: Run, shop: Path, ids: list[object], named: str) -> None:
    pq.write_table(pa.table({"customer_id": pa.array(ids)}), shop / "data" / "vip.parquet")
    path = changed_plan(shop, customers={"table": "vip.parquet", "as_of": "2025-10-01"})
    assert named in refused(disco, "plan", path, "--shop", shop)


# ---- launch and export -----------------------------------------------------------------------------------------------


def test_a_launch_is_idempotent_and_takes_an_id_its_beginning_or_the_campaign(disco: Run, shop: Path) -> None:
    plan_id = done(disco, "plan", shop / "second.yaml", "--shop", shop)["plan_id"]
    assert done(disco, "launch", plan_id[:8], "--shop", shop, "--dry-run")["again"] is False
    first = done(disco, "launch", plan_id, "--shop", shop)
    again = done(disco, "launch", "second", "--shop", shop)
    assert (first["again"], again["again"]) == (False, True)
    assert first["codes"] == again["codes"] > 0


def test_a_changed_input_is_refused_by_name(disco: Run, shop: Path) -> None:
    plan_id = done(disco, "plan", shop / "second.yaml", "--shop", shop)["plan_id"]
    orders = shop / "data" / "orders.parquet"
    table = pq.read_table(orders)
    pq.write_table(table.slice(0, table.num_rows // 2), orders)
    assert "changed since it was decided: features" in refused(disco, "launch", plan_id, "--shop", shop)
    pq.write_table(table, orders)
    assert done(disco, "launch", plan_id, "--shop", shop)["codes"] > 0


def test_two_plans_of_a_campaign_need_an_id_and_only_one_is_launched(disco: Run, shop: Path) -> None:
    first = done(disco, "plan", shop / "second.yaml", "--shop", shop)["plan_id"]
    other = done(disco, "plan", changed_plan(shop, seed=8), "--shop", shop)["plan_id"]
    message = refused(disco, "launch", "second", "--shop", shop)
    assert first in message
    assert other in message
    done(disco, "launch", other, "--shop", shop)
    assert other in refused(disco, "launch", first, "--shop", shop)
    assert done(disco, "launch", "second", "--shop", shop)["plan_id"] == other, "the campaign's own plan"


def test_codes_from_a_pool(disco: Run, shop: Path) -> None:
    (shop / "lists").mkdir(exist_ok=True)
    (shop / "lists" / "pool.txt").write_text("\n".join(f"BOUGHT-{number}" for number in range(2000)))
    plan_id = done(disco, "plan", changed_plan(shop, codes={"pool": "lists/pool.txt"}), "--shop", shop)["plan_id"]
    done(disco, "launch", plan_id, "--shop", shop)
    done(disco, "export", "second", "-o", shop / "second.parquet", "--shop", shop)
    codes = pq.read_table(shop / "second.parquet")["code_id"].to_pylist()
    assert codes
    assert all(code.startswith("BOUGHT-") for code in codes)
    assert len(set(codes)) == len(codes)
    third = changed_plan(shop, codes={"pool": "lists/pool.txt"}, campaign="third")
    assert "BOUGHT-" in refused(disco, "plan", third, "--shop", shop)  # they are in use
    (shop / "lists" / "pool.txt").unlink()
    assert "pool.txt" in refused(disco, "plan", third, "--shop", shop)


def test_the_key_of_the_codes_may_come_from_the_environment(
    disco: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(disco, "plan", shop / "second.yaml", "--shop", shop)
    other = Path(shutil.copytree(shop, shop.parent / "other"))
    codes = []
    for guessable, found in (
        ("short", "5 bytes"),
        ("a" * 32, "repeat"),
        ("correct horse " * 4, "repeat"),
        ("abcdefghijklmnopqrstuvwxyz0123456789", "pattern"),
    ):
        monkeypatch.setenv("DISCO_CODE_SECRET", guessable)
        said = refused(disco, "launch", "second", "--shop", shop)
        assert "DISCO_CODE_SECRET" in said
        assert found in said
        assert "openssl rand -hex 32" in said
    for folder, secret in ((shop, token_hex(32)), (other, token_hex(16))):
        monkeypatch.setenv("DISCO_CODE_SECRET", secret)
        done(disco, "launch", "second", "--shop", folder)
        done(disco, "export", "second", "-o", folder / "second.parquet", "--shop", folder)
        codes.append(set(pq.read_table(folder / "second.parquet")["code_id"].to_pylist()))
    assert len(codes[0]) == len(codes[1]) > 0
    assert codes[0].isdisjoint(codes[1])


def test_an_export_as_csv_and_parquet_has_the_same_codes(disco: Run, shop: Path) -> None:
    for name in ("codes.csv", "again.parquet"):
        done(disco, "export", "first", "-o", shop / name, "--shop", shop)
    text = pacsv.read_csv(shop / "codes.csv")
    assert text["code_id"].to_pylist() == pq.read_table(shop / "again.parquet")["code_id"].to_pylist()
    assert disco("export", "first", "-o", shop / "codes.xlsx", "--shop", shop)[0] == 2
    assert "No campaign nobody was launched" in refused(disco, "export", "nobody", "-o", shop / "x.csv", "--shop", shop)
    assert not (shop / "x.csv").exists()


# ---- ingest, learn, revert -------------------------------------------------------------------------------------------


def rows(shop: Path) -> list[dict[str, Any]]:
    """The outcomes of the first campaign as a CSV would have them."""
    table = pq.read_table(shop / "outcomes.parquet")
    return [{name: "" if value is None else str(value) for name, value in row.items()} for row in table.to_pylist()]


def write_csv(path: Path, table: list[dict[str, Any]]) -> Path:
    pacsv.write_csv(pa.Table.from_pylist(table), path)
    return path


def test_each_row_of_a_bad_file_has_its_fate_and_its_reason(disco: Run, shop: Path) -> None:
    first, *others = rows(shop)
    fresh = {**first, "event_id": "new"}
    bad = [
        {**fresh, "event_id": "n1", "full_price": "nan"},
        {**fresh, "event_id": "n2", "full_price": "-5"},
        {**fresh, "event_id": "n3", "full_price": "=1+1"},
        {**fresh, "event_id": "", "full_price": "5"},
        {**fresh, "event_id": "n4", "campaign_id": "other"},
        {**fresh, "event_id": "n5", "code": "=cmd()"},
        {**fresh, "event_id": "n6", "ordered_at": "2026-09-01 00:00:00"},
        {**fresh, "event_id": "n7", "ordered_at": "tomorrow"},
        others[0],
    ]
    quarantine = shop / "aside.csv"
    result = done(
        disco, "ingest", "first", write_csv(shop / "bad.csv", bad), "--quarantine", quarantine, "--shop", shop
    )
    fates = {name: result[name] for name in ("received", "applied", "duplicate", "expired", "unmatched", "rejected")}
    assert fates == {"received": 9, "applied": 0, "duplicate": 1, "expired": 1, "unmatched": 2, "rejected": 5}
    aside = pacsv.read_csv(quarantine).to_pylist()
    assert [row["row"] for row in aside] == list(range(2, 11)), "as a spreadsheet shows them"
    assert all(row["reason"] for row in aside)
    assert aside[5]["code"] == "'=cmd()", "a spreadsheet does not run it"


def test_amounts_after_the_discount_are_noticed_in_a_simulated_shop(disco: Run, shop: Path) -> None:
    outcomes, codes = pq.read_table(shop / "outcomes.parquet"), pq.read_table(shop / "codes.parquet")
    depth = dict(zip(codes["code_id"].to_pylist(), codes["depth"].to_pylist(), strict=True))
    left = [1 - depth[code] for code in outcomes["code"].to_pylist()]
    at = outcomes.schema.get_field_index("full_price")
    wrong = outcomes.set_column(at, "full_price", pa.array(np.round(outcomes["full_price"].to_numpy() * left, 2)))
    pq.write_table(wrong, shop / "wrong.parquet")
    again = done(disco, "ingest", "first", shop / "outcomes.parquet", "--shop", shop)  # only duplicates
    for name, is_odd in (("wrong", True), ("outcomes", False)):
        for batch in done(disco, "campaigns", "first", "--shop", shop)["campaigns"][0]["batches"]:
            if batch["reverted_at"] is None:
                done(disco, "revert", batch["batch_id"], "--shop", shop)
        found = done(disco, "ingest", "first", shop / f"{name}.parquet", "--shop", shop)
        assert found["applied"] == again["received"]
        assert any("amount after the discount" in warning for warning in found["warnings"]) is is_odd


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("cut.parquet", None, "cut.parquet"),
        ("ragged.csv", b"event_id,campaign_id\n1,2,3\n", "say what yours is called"),
        ("latin.csv", b"event_id,campaign_id,n\xe9\n1,first,2\n", "UTF-8"),
        ("columns.csv", b"event_id,campaign_id\n1,first\n", "no such column"),
        ("empty.csv", b"", "empty"),
        ("absent.csv", ..., "no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_whole(
    disco: Run, shop: Path, name: str, content: object, named: str
) -> None:
    if content is None:
        content = (shop / "outcomes.parquet").read_bytes()[:-100]
    if isinstance(content, bytes):
        (shop / name).write_bytes(content)
    before = contents(shop)
    assert named in refused(disco, "ingest", "first", shop / name, "--shop", shop)
    assert contents(shop) == before


def test_a_batch_comes_and_goes_and_the_belief_follows(disco: Run, shop: Path) -> None:
    """The year's poison: a file in pence. Learned, seen, reverted, learned again: as before."""
    first, *_ = rows(shop)
    before = done(disco, "learn", "first", "--as-of", "2025-10-03", "--shop", shop)
    poison = [
        {**first, "event_id": "poison", "kind": "correction", "refers_to": first["event_id"], "full_price": "99999"}
    ]
    batch = done(disco, "ingest", "first", write_csv(shop / "poison.csv", poison), "--shop", shop)
    assert batch["applied"] == 1
    assert done(disco, "learn", "first", "--as-of", "2025-10-03", "--shop", shop)["changed"]
    assert done(disco, "revert", batch["batch_id"][:8], "--shop", shop, "--dry-run")["dry_run"]
    done(disco, "revert", batch["batch_id"], "--shop", shop)
    assert "reverted" in refused(disco, "revert", batch["batch_id"], "--shop", shop)
    after = done(disco, "learn", "first", "--as-of", "2025-10-03", "--shop", shop)
    assert after["changed"]
    assert (after["campaigns"], before["changed"]) == (before["campaigns"], False)


def test_versions_can_be_switched(disco: Run, shop: Path) -> None:
    assert "not matured" in refused(disco, "learn", "first", "--as-of", "2025-09-10", "--shop", shop)
    [batch] = done(disco, "campaigns", "first", "--shop", shop)["campaigns"][0]["batches"]
    done(disco, "revert", batch["batch_id"], "--shop", shop)
    assert done(disco, "learn", "first", "--as-of", "2025-10-03", "--shop", shop)["version"] == 2
    assert done(disco, "learn", "--activate", 1, "--shop", shop)["version"] == 1
    assert done(disco, "plan", shop / "second.yaml", "--shop", shop, "--dry-run")["version"] == 1
    refused(disco, "learn", "--activate", 99, "--shop", shop)
    refused(disco, "learn", "--activate", 99, "--shop", shop, "--dry-run")
    assert disco("learn", "--shop", shop)[0] == 2
    assert disco("learn", "--activate", 1, "--rebuild", "--shop", shop)[0] == 2
    assert "nobody" in refused(disco, "learn", "nobody", "--shop", shop)


def test_train_basket_learns_campaigns_or_rows_of_a_log(disco: Run, shop: Path) -> None:
    options = ("--as-of", "2025-10-03", "--shop", shop)
    assert done(disco, "train", "basket", "--campaign", "first", *options)["changed"] is False
    log = {"customer_id": [1, 2, 3], "x": [0.1, -0.2, 0.3], "depth": [0.1, 0.2, 0.1], "full_price": [30.0, 40.0, None]}
    pq.write_table(pa.table(log), shop / "log.parquet")
    model = shop / "model.safetensors"
    result = done(
        disco, "train", "basket", "--log", shop / "log.parquet", "--context", "x", "-o", model, "--shop", shop
    )
    assert result["purchases"] == 2
    assert model.is_file()
    assert disco("train", "basket", "--shop", shop)[0] == 2


# ---- states and late arrivals ----------------------------------------------------------------------------------------


def test_late_arrivals_get_codes_from_the_reserve_unless_the_campaign_rests(disco: Run, shop: Path) -> None:
    done(disco, "plan", shop / "second.yaml", "--shop", shop)
    done(disco, "launch", "second", "--shop", shop)
    customers = pq.read_table(shop / "data" / "customers.parquet").to_pylist()
    british = [row["customer_id"] for row in customers if row["country"] == "GB"][:3]
    day = ("--as-of", "2025-10-10", "--shop", shop)
    (shop / "newcomers.txt").write_text("\n".join(british))
    decided = done(disco, "late", "second", "--file", shop / "newcomers.txt", *day)["decisions"]
    assert decided == done(disco, "late", "second", *british, *day)["decisions"], "who was decided stays decided"
    assert done(disco, "pause", "second", "--shop", shop)["state"] == "paused"
    kept = contents(shop / "artefacts")
    assert "paused" in refused(disco, "late", "second", *british, *day)
    assert contents(shop / "artefacts") == kept
    assert done(disco, "resume", "second", "--shop", shop)["state"] == "launched"
    assert "c9" in refused(disco, "late", "second", "c9", *day)
    assert done(disco, "close", "second", "--shop", shop)["state"] == "closed"
    assert "closed" in refused(disco, "resume", "second", "--shop", shop)
    assert disco("late", "second", *day)[0] == 2


def test_a_row_with_too_many_or_too_few_cells_is_set_aside_alone(disco: Run, shop: Path) -> None:
    outcomes = pq.read_table(shop / "outcomes.parquet")
    pacsv.write_csv(outcomes, shop / "outcomes.csv")
    lines = (shop / "outcomes.csv").read_text().splitlines()
    lines[2:3] = [lines[2], "one,two", f"{lines[3]},more"]
    (shop / "outcomes.csv").write_text("\n".join(lines) + "\n")
    aside = shop / "aside.csv"
    result = done(disco, "ingest", "first", shop / "outcomes.csv", "--quarantine", aside, "--shop", shop)
    counts = {name: result[name] for name in ("received", "duplicate", "rejected")}
    assert counts == {"received": outcomes.num_rows + 2, "duplicate": outcomes.num_rows, "rejected": 2}
    written = pacsv.read_csv(aside).to_pylist()
    cells = [(row["row"], row["reason"]) for row in written if row["disposition"] == "rejected"]
    assert cells == [(4, "2 cells; the header has 8"), (5, "9 cells; the header has 8")]
    again = done(disco, "ingest", "first", shop / "outcomes.csv", "--shop", shop)
    assert "the same rows were received before" in again["warnings"][0]


def test_a_recall_lists_the_unused_codes_and_shows_what_was_bought_after_it(disco: Run, shop: Path) -> None:
    done(disco, "plan", shop / "second.yaml", "--shop", shop)
    done(disco, "launch", "second", "--shop", shop)
    codes = done(disco, "export", "second", "-o", shop / "codes.parquet", "--shop", shop)["codes"]
    done(disco, "respond", shop / "data", shop / "codes.parquet", "-o", shop / "second.parquet")
    moments = pq.read_table(shop / "second.parquet")["ordered_at"].to_pylist()
    day = max(moments).date()
    late = sum(moment.date() == day for moment in moments)
    early = len(moments) - late
    assert early > 0
    assert "would be recalled" in disco("recall", "second", "--dry-run", "--shop", shop)[1]
    listed = shop / "recalled.csv"
    recalled = done(disco, "recall", "second", "--as-of", day, "--yes", "-o", listed, "--shop", shop)
    assert recalled["codes"] == codes
    assert recalled["recalled_at"] == f"{day}T00:00:00Z"
    assert len(listed.read_text().splitlines()) == codes + 1
    said = disco("recall", "second", "-o", listed, "--shop", shop)[1]
    assert f"{codes:,} codes to make invalid in the shop: {listed}." in " ".join(said.split())
    received = done(disco, "ingest", "second", shop / "second.parquet", "--shop", shop)
    assert (received["applied"], received["expired"]) == (early, late)
    code, out, _ = disco("results", "second", "--as-of", "2025-12-20", "--shop", shop)
    assert (code, f"was recalled on {day.day} {day:%b %Y}" in out) == (0, True)
    assert f"{late} purchase{'s'[: late > 1]} after the recall {'were' if late > 1 else 'was'} set aside" in out
    assert "recalled" in disco("campaigns", "--shop", shop)[1]
    again = done(disco, "recall", "second", "-o", listed, "--shop", shop)
    assert (again["again"], again["codes"], again["used"]) == (True, codes - early, early)
    learned = done(disco, "learn", "second", "--as-of", "2025-12-03", "--shop", shop)
    assert "second" in learned["campaigns"]
    for words in (("export", "second", "-o", shop / "again.csv"), ("late", "second", "c0000001"), ("pause", "second")):
        assert "recalled" in refused(disco, *words, "--shop", shop)
    assert done(disco, "doctor", "--shop", shop)["ok"]
    assert ".parquet or .csv" in disco("recall", "second", "-o", "list.txt", "--shop", shop)[2]


# ---- frontier --------------------------------------------------------------------------------------------------------


def test_the_frontier_says_that_a_risk_is_not_applied(disco: Run, shop: Path) -> None:
    plan = changed_plan(shop, budget={"amount": 300, "overspend_risk": "10%"})
    code, out, err = disco("frontier", plan, "--weights", "1,3", "--shop", shop)
    assert (code, "overspend_risk of 10% is not applied here" in err) == (0, True), out + err


def test_the_frontier_as_table_json_and_page(disco: Run, shop: Path) -> None:
    page = shop / "frontier.html"
    result = done(disco, "frontier", shop / "second.yaml", "--weights", "1,3", "--html", page, "--shop", shop)
    assert [reach["revenue_weight"] for reach in result["by_weight"]] == [1.0, 3.0]
    assert "What more markdown would bring" in page.read_text()
    code, out, _ = disco("frontier", shop / "second.yaml", "--budgets", "10,20", "--shop", shop)
    assert code == 0
    assert "£10.00" in out
    one = ("--weights", "2", "--budgets", "10", "--html", page)
    assert disco("frontier", shop / "second.yaml", *one, "--shop", shop)[0] == 0, "one point is a chart, too"
    assert disco("frontier", shop / "second.yaml", "--weights", "much", "--shop", shop)[0] == 2


def test_the_frontier_takes_any_budget_that_is_a_number(disco: Run, shop: Path) -> None:
    page = shop / "frontier.html"
    budgets = ("--weights", "2", "--budgets", "1e308,1e-308", "--html", page)
    result = done(disco, "frontier", shop / "second.yaml", *budgets, "--shop", shop)
    least, most = result["by_budget"]
    assert (least["budget"], most["budget"]) == (1e-308, 1e308)
    assert least["codes"] == 0 < most["codes"]
    assert page.is_file()
    for budget in ("1e309", "nan", "-1"):
        assert disco("frontier", shop / "second.yaml", "--budgets", budget, "--shop", shop)[0] in (1, 2)


def test_a_shop_without_campaigns_says_what_comes_first(disco: Run, tmp_path: Path) -> None:
    assert "`disco plan` creates it" in refused(disco, "export", "x", "-o", tmp_path / "x.csv", "--shop", tmp_path)
    assert "no such folder" in refused(disco, "learn", "x", "--shop", tmp_path / "nowhere")


# ---- questions before something final --------------------------------------------------------------------------------


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives the next command a terminal on which this answer is typed."""

    def type_in(answer: str) -> None:
        monkeypatch.setattr(sys, "stdin", _Terminal(answer))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return type_in


@pytest.mark.parametrize(
    "words",
    [
        ("launch", "PLAN"),
        ("close", "first"),
        ("recall", "first"),
        ("forget", "c0000001"),
        ("prune", "--older-than", "400d"),
    ],
)
def test_before_anything_final_a_terminal_is_asked_and_no_changes_nothing(
    disco: Run, shop: Path, on_a_terminal: Callable[[str], None], words: tuple[str, ...]
) -> None:
    plan_id = done(disco, "plan", shop / "second.yaml", "--shop", shop)["plan_id"]
    arguments = [plan_id if word == "PLAN" else word for word in words]
    before = contents(shop)
    for answer in ("n\n", "\n", ""):
        on_a_terminal(answer)
        code, out, err = disco(*arguments, "--shop", shop)
        assert (code, out) == (1, "")
        assert "[y/N]" in err
        assert "Nothing was changed." in err
        assert contents(shop) == before
    on_a_terminal("")
    code, _, err = disco(*arguments, "--shop", shop, "--yes")
    assert (code, "[y/N]" in err) == (0, False), "scripts are not asked"


def test_yes_on_a_terminal_closes_and_without_a_terminal_nothing_is_asked(
    disco: Run, shop: Path, on_a_terminal: Callable[[str], None]
) -> None:
    on_a_terminal("yes\n")
    code, out, err = disco("close", "first", "--shop", shop)
    assert (code, out, "[y/N]" in err) == (0, "first is closed.\n", True)
    plan_id = done(disco, "plan", shop / "second.yaml", "--shop", shop)["plan_id"]
    sys.stdin = io.StringIO()  # undone by the fixture
    code, _, err = disco("launch", plan_id, "--shop", shop)
    assert (code, "[y/N]" in err) == (0, False)
