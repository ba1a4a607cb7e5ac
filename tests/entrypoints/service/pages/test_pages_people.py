"""People and keys: invitations and keys that are shown once, roles, and everybody's own password."""

import re
from pathlib import Path

import pytest
from visitors import PASSWORD, Browser, Visit, visiting

from disco.records.people import Role

OTHER = "another horse battery staple"
HOSTILE = "<script>alert(1)</script>"


def test_somebody_is_invited_by_a_link_that_is_shown_once(newcomer: Browser) -> None:
    page = newcomer.get("/people")
    assert "1 person can sign in, and no key is in use." in page.words
    made = newcomer.send("/people", name="Ben", role="planner", email="ben@example.com", key="k1")
    assert made.status == 200
    link = re.search(r"http://localhost/invitation#([\w-]+)", made.text)
    assert link is not None
    assert "Invitations that were not used yet" in made.words
    assert link[1] not in newcomer.get("/people").text
    body = {"token": link[1], "password": OTHER}
    assert newcomer.client.post("/invitations/accept", json=body).status_code == 200
    assert "Ben planner ben@example.com a password yes" in newcomer.get("/people").words
    again = newcomer.send("/people", name="Ben", role="planner", email="ben@example.com", key="k1")
    assert again.headers["idempotency-replayed"] == "true"
    assert link[0] in again.text


@pytest.mark.parametrize(
    ("fields", "wrong", "words"),
    [
        ({"name": "", "role": "viewer"}, "name", "1 to 100 printable characters"),
        ({"name": "x" * 101, "role": "viewer"}, "name", "1 to 100 printable characters"),
        ({"name": "Ada", "role": "viewer"}, "name", "Ada is known as admin"),
        ({"name": "Ben", "role": "king"}, "role", "viewer, planner, approver, admin"),
        ({"name": "Ben", "role": "viewer", "email": "no address"}, "email", "an e-mail address"),
    ],
)
def test_wrong_invitations_are_answered_beside_the_field(
    newcomer: Browser, fields: dict[str, str], wrong: str, words: str
) -> None:
    answer = newcomer.send("/people", **fields)
    assert answer.status == 422
    assert words in answer.error(wrong)
    assert f'value="{fields["name"]}"' in answer.field("name")
    assert "<html" not in answer.text


def test_roles_change_and_people_are_disabled(tmp_path: Path, visit: Visit) -> None:
    with visit(tmp_path, Role.VIEWER) as viewer, visiting(tmp_path) as admin:
        changed = admin.send("/people/change", person="Vera", role="planner")
        assert "Vera is planner now." in changed.said
        assert viewer.get("/settings").status in (200, 404)
        disabled = admin.send("/people/change", person="Vera", disabled="yes")
        assert "Vera can sign in no more." in disabled.said
        assert viewer.get("/campaigns").status == 303
        assert "again" in admin.send("/people/change", person="Vera", disabled="no").said
        last = admin.send("/people/change", person="Ada", role="viewer")
        assert last.status == 422
        assert "Ada is the last administrator" in last.words
        nobody = admin.send("/people/change", person=HOSTILE, role="viewer")
        assert nobody.status == 422
        assert "There is no person" in nobody.words
        assert "<script" not in nobody.text
        assert admin.send("/people/change", person="Vera", role="king").status == 422


def test_a_key_is_shown_once_and_revoked(newcomer: Browser) -> None:
    made = newcomer.send("/keys", key_name="checkout", key_role="planner", key_days="30", key="k2")
    key = re.search(r"disco_\w{12}_[\w-]+", made.text)
    assert key is not None
    bearer = {"authorization": f"Bearer {key[0]}"}
    assert newcomer.client.get("/api/v1/campaigns", headers=bearer).status_code == 200
    page = newcomer.get("/people")
    assert key[0] not in page.text
    assert "checkout planner valid until" in page.words
    key_id = key[0].split("_")[1]
    gone = newcomer.send("/keys/revoke", key_id=key_id)
    assert "The key for checkout is refused from now on." in gone.said
    assert newcomer.client.get("/api/v1/campaigns", headers=bearer).status_code == 401
    assert "Revoke" not in gone.words
    assert newcomer.send("/keys/revoke", key_id="nothing").status == 404


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"key_name": " ", "key_role": "viewer"}, "key_name"),
        ({"key_name": "x" * 500, "key_role": "viewer"}, "key_name"),
        ({"key_name": "a", "key_role": ""}, "key_role"),
        *(({"key_name": "a", "key_role": "viewer", "key_days": days}, "key_days") for days in ("0", "-1", "1e3", "٣")),
        ({"key_name": "a", "key_role": "viewer", "key_days": "9" * 400}, "key_days"),
    ],
)
def test_wrong_keys_are_answered_beside_the_field(newcomer: Browser, fields: dict[str, str], wrong: str) -> None:
    answer = newcomer.send("/keys", **fields)
    assert answer.status == 422
    assert "expected" in answer.error(wrong)
    assert "disco_" not in answer.text


def test_text_that_cannot_be_kept_is_refused_in_words(newcomer: Browser) -> None:
    answer = newcomer.send("/people", name="Ben\0", role="viewer")
    assert answer.status == 400
    assert answer.headers["hx-retarget"] == "#note"
    assert "characters that cannot be kept" in answer.words


def test_everybody_changes_their_own_password(tmp_path: Path, visit: Visit) -> None:
    with visit(tmp_path, Role.VIEWER) as viewer:
        page = viewer.get("/account")
        assert "Vera signs in with a password and is viewer." in page.words
        wrong = viewer.send("/account/password", password="wrong password", new_password=OTHER, again=OTHER)
        assert wrong.status == 422
        assert "not" in wrong.error("password")
        assert "wrong password" not in wrong.text
        short = viewer.send("/account/password", password=PASSWORD, new_password="short", again="short")
        assert "at least 12" in short.error("new_password")
        other = viewer.send("/account/password", password=PASSWORD, new_password=OTHER, again=PASSWORD)
        assert "once more" in other.error("again")
        done = viewer.send("/account/password", password=PASSWORD, new_password=f" {OTHER} ", again=f" {OTHER} ")
        assert "The password was changed." in done.said
        assert viewer.get("/account").status == 200
        body = {"name": "Vera", "password": f" {OTHER} "}
        assert viewer.client.post("/sign-in", json=body).status_code == 200
        assert viewer.get("/people").status == 403
