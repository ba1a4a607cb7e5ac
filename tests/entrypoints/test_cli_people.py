"""`disco keys` and `disco audit`: keys are printed once, and every command that writes stands in the journal."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from disco import Shop
from disco.office.approvals.use_cases import approve_plan
from disco.office.keys.use_cases import caller_of_key
from disco.records.people import Actor, ActorKind, Role

Disco = Callable[..., tuple[int, str, str]]


@pytest.fixture
def empty_shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "disco.yaml").write_text("currency: GBP\n")
    return folder


def test_a_key_is_printed_once_and_can_be_used_until_it_is_revoked(disco: Disco, empty_shop: Path) -> None:
    code, out, _ = disco(
        "keys", "create", "--role", "planner", "--name", "crm", "--expires", "90d", "--json", "--shop", empty_shop
    )
    made = json.loads(out)
    assert (code, made["role"], made["name"]) == (0, "planner", "crm")
    shop = Shop.open(empty_shop)
    with shop.store() as store:
        assert caller_of_key(store, made["key"], shop.clock).role is Role.PLANNER
    code, out, _ = disco("keys", "list", "--shop", empty_shop)
    assert code == 0
    assert made["id"] in out
    assert made["key"].split("_", 2)[2] not in out
    code, out, _ = disco("keys", "revoke", made["id"][:4], "--shop", empty_shop)
    assert (code, out) == (0, f"The key {made['id']} of crm is revoked.\n")
    code, out, _ = disco("keys", "list", "--json", "--shop", empty_shop)
    assert [key["valid"] for key in json.loads(out)["keys"]] == [False]
    code, _, error = disco("keys", "revoke", "ffffff", "--shop", empty_shop)
    assert (code, "There is no key ffffff. `disco keys list`" in error) == (1, True)
    code, out, _ = disco("audit", "--json", "--shop", empty_shop)
    assert [entry["action"] for entry in json.loads(out)["entries"]] == ["create key", "revoke key"]


@pytest.mark.parametrize("expires", ["0d", "soon", "90", "-3d", "9999999d", "99999y"])
def test_an_age_that_is_none_is_refused(disco: Disco, empty_shop: Path, expires: str) -> None:
    arguments = ("keys", "create", "--role", "viewer", "--name", "x", f"--expires={expires}", "--shop", empty_shop)
    code, _, error = disco(*arguments)
    assert code in (1, 2)
    assert "expires" in error


def test_a_shop_without_a_database_has_no_keys_and_no_journal(disco: Disco, empty_shop: Path) -> None:
    for command in (("keys", "list"), ("audit",), ("audit", "verify")):
        code, _, error = disco(*command, "--shop", empty_shop)
        assert (code, "has no campaigns yet" in error) == (1, True)


def test_every_command_that_writes_is_in_the_journal_and_no_customer_is(disco: Disco, shop: Path) -> None:
    assert disco("pause", "first", "--shop", shop)[0] == 0
    assert disco("pause", "first", "--shop", shop)[0] == 0, "again: nothing is written"
    code, out, _ = disco("audit", "--json", "--shop", shop)
    entries = json.loads(out)["entries"]
    assert code == 0
    assert [(entry["action"], entry["subject"]) for entry in entries] == [
        ("plan", "first"),
        ("launch", "first"),
        ("ingest", "first"),
        ("learn", "main"),
        ("pause", "first"),
    ]
    assert {entry["kind"] for entry in entries} == {"command line"}
    assert entries[0]["detail"]["plan_id"] == entries[1]["detail"]["plan_id"]
    with closing(sqlite3.connect(shop / "disco.db")) as connection:
        journal = str(connection.execute("SELECT * FROM journal").fetchall())
        customers = connection.execute("SELECT DISTINCT customer_id FROM outcomes").fetchall()
    assert customers
    assert not any(customer in journal for (customer,) in customers)
    code, out, _ = disco("audit", "--after", 1, "--limit", 2, "--shop", shop)
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["2", "3"]
    assert lines[3].startswith("Next: disco audit --after 3")


def test_a_changed_journal_is_named_by_verify_doctor_and_backup(disco: Disco, shop: Path, tmp_path: Path) -> None:
    code, out, _ = disco("audit", "verify", "--json", "--shop", shop)
    verdict = json.loads(out)
    assert (code, verdict["ok"], verdict["entries"]) == (0, True, 4)
    assert disco("audit", "verify", "--contains", verdict["last"], "--shop", shop)[0] == 0
    code, out, _ = disco("audit", "verify", "--contains", "ab" * 32, "--shop", shop)
    assert (code, "no entry has the hash abab" in out) == (1, True)
    with closing(sqlite3.connect(shop / "disco.db")) as connection, connection:
        sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'journal_refuses_update'").fetchone()[0]
        connection.execute("DROP TRIGGER journal_refuses_update")
        connection.execute("UPDATE journal SET actor = 'somebody else' WHERE number = 3")
        connection.execute(sql)
    code, out, _ = disco("audit", "verify", "--shop", shop)
    assert code == 1
    assert "Entry 3: its content is not what was written." in out
    code, out, _ = disco("audit", "verify", "--json", "--shop", shop)
    assert (code, json.loads(out)["first_bad"]) == (1, 3)
    code, out, _ = disco("doctor", "--json", "--shop", shop)
    failed = [check for check in json.loads(out)["checks"] if check["outcome"] == "failed"]
    assert code == 1
    assert [(one["check"], one["found"]) for one in failed] == [
        ("journal", "entry 3: its content is not what was written")
    ]
    code, _, error = disco("backup", "-o", tmp_path / "b.tar.gz", "--shop", shop)
    assert (code, "entry 3 of the audit journal" in error) == (1, True)


def test_a_launch_without_approval_is_refused_on_the_command_line(
    disco: Disco, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (shop / "disco.yaml").open("a") as file:
        file.write("approval: second_person\n")
    code, out, _ = disco("plan", shop / "second.yaml", "--json", "--shop", shop)
    plan_id = json.loads(out)["plan_id"]
    code, _, error = disco("launch", plan_id, "--shop", shop)
    assert (code, "needs the approval of a second person" in error) == (1, True)
    monkeypatch.setenv("DISCO_APPROVAL", "none")
    assert disco("launch", plan_id, "--shop", shop)[0] == 1, "the environment does not waive it"
    code, _, error = disco("approve", plan_id, "--shop", shop)
    assert (code, "and cannot approve it. Another person has to approve it." in error) == (1, True)
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, "somebody-else")
    assert disco("approve", plan_id, "--shop", shop)[0] == 1, "names of the environment are not believed"
    with Shop.open(shop).store() as store:
        approve_plan(store.by(Actor("Ben", ActorKind.COMMAND_LINE)), plan_id, Shop.open(shop).clock)
    code, out, _ = disco("launch", plan_id, "--shop", shop)
    assert code == 0
    assert disco("audit", "verify", "--shop", shop)[0] == 0
