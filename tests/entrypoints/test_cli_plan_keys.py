"""Segments from a plan file to the exported codes, counted again from the files alone."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import yaml

Run = Callable[..., tuple[int, str, str]]

LIMITS = {"GB": {0.30: {"at_most": 11}}, "FR": {0.10: {"at_least": 20}, 0.20: {"at_most": 0}}}


def done(disco: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = disco(*arguments, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def write(shop: Path, **more: object) -> Path:
    content = yaml.safe_load((shop / "second.yaml").read_text())
    content["customers"]["eligible"] = "true"
    (shop / "segments.yaml").write_text(yaml.safe_dump({**content, **more}))
    return shop / "segments.yaml"


def test_segments_hold_in_the_export_and_are_broken_down(disco: Run, shop: Path) -> None:
    plan = write(shop, segments={"column": "Country", "limits": LIMITS})
    assert disco("validate", plan, "--shop", shop)[0] == 0
    planned = done(disco, "plan", plan, "--shop", shop)
    country = {row["customer_id"]: row["country"] for row in pq.read_table(shop / "data/customers.parquet").to_pylist()}
    review = done(disco, "plan", "show", planned["plan_id"], "--shop", shop)
    by_country = {one["value"]: one["codes"] for one in review["groups"] if one["by"] == "Country"}
    assert set(by_country) == set(country.values())
    done(disco, "launch", planned["plan_id"], "--shop", shop)
    done(disco, "export", "second", "-o", shop / "out.parquet", "--shop", shop)
    sent = pq.read_table(shop / "out.parquet").to_pylist()
    given = Counter((country[row["customer_id"]], row["depth"]) for row in sent)
    assert 0 < given["GB", 0.3] <= 11
    assert given["FR", 0.1] >= 20
    assert given["FR", 0.2] == 0
    for place, codes in by_country.items():
        assert codes == {f"{depth:g}": given[place, depth] for depth in (0.1, 0.2, 0.3)}
    code, out, _ = disco("plan", "show", "second", "--shop", shop)
    assert (code, "FR" in out) == (0, True)
    code, out, err = disco("doctor", "--shop", shop)
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("segments", "words"),
    [
        ({"column": "contry", "limits": LIMITS}, "Did you mean country?"),
        ({"column": "country", "limits": {"GBR": {0.3: {"at_most": 3}}}}, "Did you mean GB?"),
        ({"column": "country", "limits": {"FR": {0.1: {"at_least": 100000}}}}, "at least 100,000 codes in FR"),
    ],
)
def test_segments_that_cannot_be_planned_are_refused(disco: Run, shop: Path, segments: object, words: str) -> None:
    code, _, err = disco("plan", write(shop, segments=segments), "--shop", shop)
    assert (code, words in err) == (1, True), err
    if "Did you mean" in words:
        code, _, err = disco("validate", write(shop, segments=segments), "--shop", shop)
        assert (code, words in err) == (1, True), err


def with_channels(shop: Path) -> dict[str, str]:
    """data/chosen.csv: the shop's customers with a channel each; by customer."""
    customers = pq.read_table(shop / "data/customers.parquet")
    names = ["sms" if row % 3 else "e-mail" for row in range(customers.num_rows)]
    customers = customers.append_column("channel", pa.array(names))
    pacsv.write_csv(customers.select(["customer_id", "joined_on", "country", "channel"]), shop / "data" / "chosen.csv")
    return dict(zip(customers["customer_id"].to_pylist(), names, strict=True))


def test_two_channels_with_limits_of_their_own(disco: Run, shop: Path) -> None:
    channel = with_channels(shop)
    plan = write(
        shop,
        customers={"table": "data/chosen.csv", "as_of": "2025-10-01"},
        channel={"column": "channel"},
        segments={"column": "channel", "limits": {"sms": {0.30: {"at_most": 5}}, "e-mail": {0.10: {"at_least": 9}}}},
    )
    planned = done(disco, "plan", plan, "--shop", shop)
    review = done(disco, "plan", "show", planned["plan_id"], "--shop", shop)
    assert {one["value"] for one in review["groups"] if one["by"] == "channel"} == {"sms", "e-mail"}
    done(disco, "launch", planned["plan_id"], "--shop", shop)
    done(disco, "export", "second", "-o", shop / "out.parquet", "--shop", shop)
    sent = pq.read_table(shop / "out.parquet").to_pylist()
    assert all(row["channel"] == channel[row["customer_id"]] for row in sent)
    given = Counter((row["channel"], row["depth"]) for row in sent)
    assert given["sms", 0.3] <= 5
    assert given["e-mail", 0.1] >= 9
    answered = done(disco, "respond", shop / "data", shop / "out.parquet", "-o", shop / "new.parquet")
    assert answered["codes"] == len(sent)


def test_a_customer_without_a_channel_is_named_with_their_row(disco: Run, shop: Path) -> None:
    with_channels(shop)
    lines = (shop / "data" / "chosen.csv").read_text().splitlines()
    lines[4] = lines[4].replace('"sms"', "").replace('"e-mail"', "")
    (shop / "data" / "chosen.csv").write_text("\n".join(lines) + "\n")
    customers = {"table": "data/chosen.csv", "as_of": "2025-10-01"}
    code, _, err = disco("plan", write(shop, customers=customers, channel={"column": "channel"}), "--shop", shop)
    who = lines[4].split(",")[0].strip('"')
    assert (code, f"no channel for customer {who}" in err, "row 5" in err) == (1, True, True), err
    code, _, err = disco("validate", shop / "segments.yaml", "--shop", shop)
    assert (code, f"no channel for customer {who}" in err) == (1, True), err


def test_lists_and_contact_rules_leave_customers_out(disco: Run, shop: Path) -> None:
    customers = pq.read_table(shop / "data/customers.parquet")["customer_id"].to_pylist()
    first = {row["customer_id"] for row in pq.read_table(shop / "codes.parquet").to_pylist()}
    vip, out = customers[:500], [*customers[40:80], "c9999999"]
    (shop / "lists").mkdir()
    (shop / "lists" / "vip.csv").write_text("\n".join(["customer_id", *vip]) + "\n")
    (shop / "lists" / "out.txt").write_text("\n".join(out) + "\n")
    keys = {"include": "lists/vip.csv", "exclude": "lists/out.txt", "contact": {"at_most": 1, "days": 60}}
    code, text, err = disco("plan", write(shop, **keys), "--shop", shop)
    assert code == 0, err
    assert "1 of 41 ids name no customer, the first in row 41" in " ".join(err.split())
    planned = done(disco, "plan", write(shop, **keys), "--shop", shop)
    there = {row["customer_id"] for row in pq.read_table(shop / "data/customers.parquet").to_pylist()}
    received = {
        row["customer_id"]
        for row in pq.read_table(shop / "data/codes.parquet").to_pylist()
        if "2025-08-02" <= f"{row['sent_at']:%Y-%m-%d}" <= "2025-10-01"
    } | first
    left = (set(vip) & there) - set(out)
    assert planned["left_out"] == {
        "include": len(there) - 500,
        "exclude": 40,
        "contact": len(left & received),
    }
    assert planned["customers"] == len(left - received)
    assert f"{planned['left_out']['contact']:,} at the limit of one code in 60 days" in " ".join(text.split())
    assert done(disco, "plan", "show", planned["plan_id"], "--shop", shop)["left_out"] == planned["left_out"]
    assert "Eligible, but left out" in disco("plan", "show", planned["plan_id"], "--shop", shop)[1]
    done(disco, "launch", planned["plan_id"], "--shop", shop)
    done(disco, "export", "second", "-o", shop / "out.parquet", "--shop", shop)
    assert {row["customer_id"] for row in pq.read_table(shop / "out.parquet").to_pylist()} <= left - received
    code, _, err = disco("late", "second", customers[50], "--as-of", "2025-10-03", "--shop", shop)
    assert (code, "is on the list lists/out.txt" in err) == (1, True), err
    tired = min(left & received)
    code, _, err = disco("late", "second", tired, "--as-of", "2025-10-03", "--shop", shop)
    assert (code, "is at the limit of one code in 60 days" in err) == (1, True), err
    (shop / "lists" / "out.txt").write_text("\n".join([*out, min(left - received)]) + "\n")
    again = done(disco, "late", "second", min(left - received), "--as-of", "2025-10-03", "--shop", shop)
    assert [one["customer_id"] for one in again["decisions"]] == [min(left - received)], "decided is decided"


def test_a_list_that_changed_stops_the_launch(disco: Run, shop: Path) -> None:
    customers = pq.read_table(shop / "data/customers.parquet")["customer_id"].to_pylist()
    (shop / "lists").mkdir()
    (shop / "lists" / "out.csv").write_text("\n".join(customers[:5]) + "\n")
    planned = done(disco, "plan", write(shop, exclude="lists/out.csv"), "--shop", shop)
    (shop / "lists" / "out.csv").write_text("\n".join(customers[:6]) + "\n")
    code, _, err = disco("launch", planned["plan_id"], "--shop", shop)
    assert (code, "exclude" in err, "Run `disco plan` again" in err) == (1, True, True), err
    for command in ("plan", "validate"):
        code, _, err = disco(command, write(shop, exclude="lists/absent.csv"), "--shop", shop)
        assert (code, "exclude" in err) == (1, True), err
    found = done(disco, "validate", write(shop, include="lists/out.csv"), "--shop", shop)
    assert found["eligible"] == 6


def test_a_shared_code_conditions_and_a_bounded_budget(disco: Run, shop: Path) -> None:
    free = done(disco, "plan", write(shop), "--dry-run", "--shop", shop)
    amount = round(0.6 * free["total"]["markdown"]["value"])
    keys: dict[str, object] = {
        "codes": {"shared": {0.10: "AUTUMN10"}},
        "conditions": {"minimum_basket": 25, "text": "Not on gift cards"},
        "budget": {"amount": amount, "overspend_risk": "15%"},
    }
    plan = write(shop, **keys)
    code, text, err = disco("plan", plan, "--shop", shop)
    assert code == 0, err
    assert "(overspend_risk allows 15%)" in " ".join(text.split())
    planned = done(disco, "plan", plan, "--shop", shop)
    assert planned["overspend_chance"] <= 0.15
    assert planned["ceiling"] < amount
    done(disco, "launch", planned["plan_id"], "--shop", shop)
    done(disco, "export", "second", "-o", shop / "out.csv", "--shop", shop)
    manifest = json.loads((shop / "out.csv.manifest.json").read_text())
    assert (manifest["minimum_basket"], manifest["conditions"]) == (25.0, "Not on gift cards")
    done(disco, "respond", shop / "data", shop / "out.csv", "-o", shop / "new.parquet")
    bought = pq.read_table(shop / "new.parquet").to_pylist()
    shared = [row for row in bought if row["code"] == "AUTUMN10"]
    assert len({row["customer_id"] for row in shared}) == len(shared) > 1
    found = done(disco, "ingest", "second", shop / "new.parquet", "--shop", shop)
    assert found["applied"] == len(bought)
    told = done(disco, "explain", "second", shared[0]["customer_id"], "--shop", shop)
    assert told["code"] == "AUTUMN10"
    code, out, err = disco("validate", "--as-of", "2026-01-31", "--shop", shop)
    assert code == 0, out + err
    copied = yaml.safe_load(done(disco, "plan", "copy", "second", "--shop", shop)["yaml"])
    assert {key: copied[key] for key in ("conditions", "budget")} == {
        "conditions": keys["conditions"],
        "budget": {"amount": amount, "overspend_risk": 0.15},
    }
    assert {float(depth): code for depth, code in copied["codes"]["shared"].items()} == {0.1: "AUTUMN10"}
