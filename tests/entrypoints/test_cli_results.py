"""What a person asks afterwards: how did it go, why this customer, is everything in order."""

import json
import re
import sqlite3
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import service_shop

Run = Callable[..., tuple[int, str, str]]


def done(disco: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = disco(*arguments, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """The shop after its second campaign, decided with control and holdout, was answered and ingested."""
    return service_shop.answered(tmp_path / "answered")


def test_results_agree_with_the_outcomes_file(disco: Run, answered: Path) -> None:
    result = done(disco, "results", "second", "--as-of", "2025-11-05", "--shop", answered)
    outcomes = pq.read_table(answered / "second.parquet")
    codes = {row["code_id"]: row for row in pq.read_table(answered / "codes.parquet").to_pylist()}
    revenue = sum(row["full_price"] * (1 - codes[row["code"]]["depth"]) for row in outcomes.to_pylist())
    arms = result["arms"].values()
    assert sum(arm["summary"]["purchasers"] for arm in arms) == outcomes.num_rows == result["counts"]["applied"]
    assert sum(arm["summary"]["revenue"] for arm in arms) == pytest.approx(revenue)
    assert set(result["incremental"]) == {"decided", "control"}
    assert result["sample_ratio"]["p_value"] > 0
    assert result["final"]


def test_results_as_text_and_page_and_before_the_end(disco: Run, answered: Path) -> None:
    page = answered / "second.html"
    code, out, _ = disco("results", "second", "--as-of", "2025-10-20", "--html", page, "--shop", answered)
    assert code == 0
    assert "Decided group against control" in out
    assert "to date" in out
    assert "Campaign second" in page.read_text()
    assert not done(disco, "results", "second", "--as-of", "2025-10-20", "--shop", answered)["final"]


def test_all_campaigns_in_short(disco: Run, answered: Path) -> None:
    page = answered / "all.html"
    result = done(disco, "results", "--as-of", "2025-11-05", "--html", page, "--shop", answered)
    first, second = result["campaigns"]
    assert (first["expected"], first["verdict"]) == (None, None)
    assert second["expected"]["revenue"]["lower"] < second["expected"]["revenue"]["upper"]
    assert page.is_file()
    code, out, _ = disco("results", "--shop", answered)
    assert code == 0
    parts = out.split("\n\n")
    assert re.search(r"than random codes: .* over 1 campaign\.|from random codes over 1 campaign: ", parts[0]), parts[0]
    assert [line.split()[0] for line in parts[1].splitlines()] == ["Campaign", "first", "second"]
    assert parts[2].startswith("All final campaigns together")


def test_a_random_campaign_has_nothing_to_compare(disco: Run, shop: Path) -> None:
    code, out, _ = disco("results", "first", "--shop", shop)
    assert code == 0
    assert "no control group" in out


def test_campaigns_lists_states_and_batches(disco: Run, answered: Path) -> None:
    disco("pause", "second", "--shop", answered)
    listed = done(disco, "campaigns", "--shop", answered)
    assert [(one["campaign"], one["state"]) for one in listed["campaigns"]] == [
        ("first", "ended"),
        ("second", "ended"),
    ], "all codes have expired since, paused or not"
    (batch,) = done(disco, "campaigns", "second", "--shop", answered)["campaigns"][0]["batches"]
    assert batch["applied"] == pq.read_table(answered / "second.parquet").num_rows
    disco("revert", batch["batch_id"], "--shop", answered)
    code, out, _ = disco("campaigns", "second", "--shop", answered)
    assert code == 0
    assert "reverted" in out


@pytest.mark.parametrize(
    ("day", "state", "says"),
    [
        ("2025-09-30", "scheduled", "starts on 1 Oct 2025"),
        ("2025-10-01", "running", "still running"),
        ("2025-10-31", "running", "still running"),
        ("2025-11-01", "ended", "has ended: all codes have expired, outcomes may still arrive"),
        ("2025-11-05", "ended", "has ended: all codes have expired."),
    ],
)
def test_results_state_a_campaign_by_its_dates(disco: Run, answered: Path, day: str, state: str, says: str) -> None:
    assert done(disco, "results", "second", "--as-of", day, "--shop", answered)["state"] == state
    assert says in disco("results", "second", "--as-of", day, "--shop", answered)[1]
    if state == "running":
        disco("pause", "second", "--shop", answered)
        assert done(disco, "results", "second", "--as-of", day, "--shop", answered)["state"] == "paused"
    disco("close", "second", "--shop", answered)
    assert done(disco, "results", "second", "--as-of", day, "--shop", answered)["state"] == "closed"


def test_explain_gives_the_chosen_depth_the_largest_surplus_and_a_chance(disco: Run, answered: Path) -> None:
    done(disco, "propensities", "second", "--draws", 20, "--shop", answered)
    chosen = 0
    for row in pq.read_table(answered / "codes.parquet").to_pylist()[:20]:
        found = done(disco, "explain", "second", row["customer_id"], "--shop", answered)
        assert found["depth"] == row["depth"]
        assert found["code"] == row["code_id"]
        assert found["words"]
        assert 0 < found["propensity"] <= 1
        if found["figures"]:
            best = max(found["figures"], key=lambda figure: figure["value"] - figure["price"])
            chosen += best["depth"] == row["depth"]
    assert chosen


def test_explain_without_a_customer_shows_an_example(disco: Run, answered: Path) -> None:
    found = done(disco, "explain", "second", "--shop", answered)
    assert (found["arm"], found["code"] is not None) == ("decided", True)
    assert "An example" in found["words"][0]
    assert found["figures"] == done(disco, "explain", "second", found["customer"], "--shop", answered)["figures"]


def test_explain_says_why_somebody_was_not_part_of_the_campaign(disco: Run, answered: Path) -> None:
    def said(customer: str) -> str:
        code, out, err = disco("explain", "second", customer, "--shop", answered)
        assert (code, out) == (1, "")
        return str(err)

    file = answered / "data" / "customers.parquet"
    customers = pq.read_table(file)
    french = next(row["customer_id"] for row in customers.to_pylist() if row["country"] == "FR")
    assert f"{french} was not part of campaign second: they are not eligible (country = 'FR')" in said(french)
    assert "the plan asks for country = 'GB'" in said(french)
    assert "has no such customer" in said("nobody")
    assert f"Did you mean {french}?" in said(french.upper())
    new = pa.Table.from_pylist(
        [
            {**customers.to_pylist()[0], "customer_id": f"c99{day}", "country": "GB", "joined_on": date(2025, day, 2)}
            for day in (3, 11)
        ],
        customers.schema,
    )
    pq.write_table(pa.concat_tables([customers, new]), file)
    assert "they joined on 2 Nov 2025, and the plan is as of" in said("c9911")
    assert "`disco late second c9911` decides about them" in said("c9911")
    assert "were not in the tables when the plan was made" in said("c993")
    file.unlink()
    assert "was not part of campaign second. The reason is not known" in said("c993")


def test_the_doctor_finds_a_sound_shop_sound(disco: Run, answered: Path) -> None:
    result = done(disco, "doctor", "--shop", answered)
    assert result["ok"]
    looked_at = {name for check in result["checks"] for name in (check["check"], check["where"])}
    assert {"program", "disk", "journal", "integrity", "evidence", "counts", "version"} <= looked_at
    assert {check["where"] for check in result["checks"] if check["outcome"] != "ok"} <= {"permission to read"}


def test_the_doctor_names_what_is_wrong(disco: Run, answered: Path) -> None:
    with sqlite3.connect(answered / "disco.db") as connection:
        changed = connection.execute("UPDATE outcomes SET full_price_minor = full_price_minor + 1 WHERE row = 0")
        assert changed.rowcount > 0
    (answered / "context.safetensors").unlink()
    code, out, _ = disco("doctor", "--shop", answered)
    assert code == 1
    failed = {line.split(": ")[0] for line in out.splitlines() if line.startswith("failed")}
    assert "failed   network, context network" in failed
    assert any("evidence, campaign second" in line for line in failed)


def test_the_doctor_says_what_it_repaired_and_what_it_cannot(disco: Run, answered: Path) -> None:
    content = "CAST(replace(CAST(evidence AS TEXT), 'redeemed\":[', 'redeemed\":[1') AS BLOB)"
    with sqlite3.connect(answered / "disco.db") as connection:
        connection.execute(f"UPDATE evidence SET evidence = {content}")
    code, out, _ = disco("doctor", "--shop", answered)
    assert code == 1
    assert "evidence of campaign second" in out
    assert "`disco doctor --repair`" in out
    code, out, _ = disco("doctor", "--repair", "--shop", answered)
    assert code == 0
    assert out.startswith("repaired campaign first: The evidence under network ")
    again = done(disco, "doctor", "--repair", "--shop", answered)
    assert again["ok"]
    assert again["repaired"] == []
    with sqlite3.connect(answered / "disco.db") as connection:
        connection.execute("UPDATE outcomes SET full_price_minor = full_price_minor + 1 WHERE row = 0")
    code, out, _ = disco("doctor", "--repair", "--shop", answered)
    assert code == 1
    assert out.startswith("Nothing could be repaired.")
    assert "restore the last backup" in out


def test_a_damaged_artefact_comes_back_from_a_backup_as_the_doctor_says(
    disco: Run, answered: Path, tmp_path: Path
) -> None:
    backup, elsewhere = tmp_path / "shop.tar.gz", tmp_path / "elsewhere"
    assert disco("backup", "-o", backup, "--shop", answered)[0] == 0
    with sqlite3.connect(answered / "disco.db") as connection:
        (name,) = connection.execute("SELECT decisions FROM plans JOIN campaigns USING (plan_id)").fetchone()
    artefact = answered / "artefacts" / f"{name}.arrow"
    artefact.write_bytes(artefact.read_bytes()[:-1])
    code, out, _ = disco("doctor", "--shop", answered)
    assert code == 1
    assert f"missing or damaged: {name}" in out
    assert "restore the last backup into another folder" in out
    assert disco("restore", backup, "--shop", elsewhere)[0] == 0
    artefact.write_bytes((elsewhere / "artefacts" / artefact.name).read_bytes())
    assert disco("doctor", "--shop", answered)[0] == 0


def test_the_doctor_of_an_empty_folder(disco: Run, tmp_path: Path) -> None:
    code, out, _ = disco("doctor", "--shop", tmp_path)
    assert code == 1
    assert "`disco plan` creates it" in out
    assert list(tmp_path.iterdir()) == []


def test_a_shop_that_has_planned_nothing_yet_misses_no_database(disco: Run, tmp_path: Path) -> None:
    assert disco("init", tmp_path / "new")[0] == 0
    _, out, _ = disco("doctor", "--shop", tmp_path / "new")
    assert "ok       database, campaigns: none yet" in out
    (tmp_path / "new" / "artefacts").mkdir()
    (tmp_path / "new" / "artefacts" / "3f9a1c.arrow").touch()  # so there was one: where is it?
    _, out, _ = disco("doctor", "--shop", tmp_path / "new")
    assert "failed   database" in out


def test_a_forecast_is_corrected_by_what_earlier_ones_brought(disco: Run, answered: Path) -> None:
    """The first campaign had no forecast, the second had one: it counts once it is over and learned."""
    plan = (answered / "second.yaml").read_text().replace("campaign: second", "campaign: third")
    third = answered / "third.yaml"
    third.write_text(plan.replace("2025-10-01", "2025-11-04"))

    def corrections() -> dict[str, dict[str, float]]:
        arms = done(disco, "plan", third, "--dry-run", "--shop", answered)["arms"]
        return {name: arm["correction"] for name, arm in arms.items() if arm["correction"]}

    before = corrections()
    assert {name: found["campaigns"] for name, found in before.items()} == {"decided": 0, "control": 0}
    done(disco, "learn", "second", "--as-of", "2025-11-04", "--shop", answered)
    after = corrections()
    assert {name: found["campaigns"] for name, found in after.items()} == {"decided": 1, "control": 1}
    arms = done(disco, "results", "second", "--as-of", "2025-11-04", "--shop", answered)["arms"]
    came = sum(arms[name]["summary"]["revenue"] for name in after)
    expected = sum(arms[name]["expected_revenue"] for name in after)
    for found in after.values():
        level = found["log_factor"] - found["log_season"]  # one level for all codes of a campaign
        assert (level > 0) == (came > expected)
        assert found["level_step"] > 0, "a surprise may widen the next forecast: the level may have moved"


def test_belief_narrows_with_what_is_learned(disco: Run, answered: Path) -> None:
    first = done(disco, "belief", "--shop", answered)
    done(disco, "learn", "second", "--as-of", "2025-11-04", "--shop", answered)
    second = done(disco, "belief", "--shop", answered)
    assert (first["version"], second["version"]) == (1, 2)
    assert second["purchases"] > first["purchases"]
    for before, after in zip(first["depths"], second["depths"], strict=True):
        for figure in ("basket", "engagement"):
            assert before[figure]["lower"] < before[figure]["value"] < before[figure]["upper"]
        widths = [np.log(one["basket"]["upper"] / one["basket"]["lower"]) for one in (before, after)]
        assert widths[1] < widths[0]
    assert done(disco, "belief", 1, "--shop", answered) == first
    code, out, _ = disco("belief", "--shop", answered)
    assert code == 0
    assert "10% off" in out
    assert disco("belief", 9, "--shop", answered)[0] == 1


def test_explain_names_the_list_that_left_somebody_out(disco: Run, shop: Path) -> None:
    customers = pq.read_table(shop / "data" / "customers.parquet").to_pylist()
    british = next(row["customer_id"] for row in customers if row["country"] == "GB")
    (shop / "lists").mkdir()
    (shop / "lists" / "unsubscribed.txt").write_text(british + "\n")
    plan = (shop / "second.yaml").read_text() + "exclude: lists/unsubscribed.txt\n"
    (shop / "without.yaml").write_text(plan.replace("campaign: second", "campaign: without"))
    done(disco, "plan", shop / "without.yaml", "--shop", shop)
    done(disco, "launch", "without", "--shop", shop)
    code, _, err = disco("explain", "without", british, "--shop", shop)
    assert code == 1
    assert "they are on the list lists/unsubscribed.txt, which the plan names as `exclude`" in err
