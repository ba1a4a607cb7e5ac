"""What an attempt to sign in proves, and which role the claims of a provider give."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from disco.office.sign_in.openid import Admission
from disco.office.sign_in.provider import LONGEST_ATTEMPT, Attempt
from disco.records.errors import RoleError, ServiceError
from disco.records.people import Role

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ROLES = {"staff": Role.VIEWER, "buyers": Role.PLANNER, "bosses": Role.ADMIN}


def admission(**changes: Any) -> Admission:
    given = {"role_claim": "groups", "roles": ROLES, "default_role": None, "email_domains": ()} | changes
    return Admission(**given)


def test_an_attempt_is_known_by_its_state_for_ten_minutes() -> None:
    attempt = Attempt.begin(NOW)
    assert len({attempt.secret, attempt.state, attempt.nonce, attempt.verifier, Attempt.begin(NOW).state}) == 5
    assert all(43 <= len(one) <= 128 for one in (attempt.state, attempt.nonce, attempt.verifier))  # RFC 7636
    assert attempt.secret not in repr(attempt)
    attempt.refuse_other(attempt.state, now=NOW)
    Attempt(attempt.secret).refuse_other(attempt.state, now=NOW + LONGEST_ATTEMPT - timedelta(seconds=1))
    for state, now in (
        ("", NOW),
        (Attempt.begin(NOW).state, NOW),
        (attempt.state, NOW + LONGEST_ATTEMPT),
        (attempt.state, NOW - timedelta(hours=1)),
    ):
        with pytest.raises(ServiceError, match="not begun in this browser"):
            attempt.refuse_other(state, now=now)


@pytest.mark.parametrize("secret", ["", "x", ".", "99999999999999.x", "-5.x", "\u0661.x", "1e9.x"])
def test_a_cookie_that_is_no_attempt_is_refused(secret: str) -> None:
    with pytest.raises(ServiceError):
        Attempt(secret).refuse_other(Attempt(secret).state, now=NOW)


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"groups": ["staff"]}, Role.VIEWER),
        ({"groups": ["bosses", "staff", "buyers"]}, Role.ADMIN),
        ({"groups": "buyers"}, Role.PLANNER),
        ({"groups": ["Staff", " staff", "staff "]}, None),
        ({"groups": [["staff"], {"staff": 1}, None, 7]}, None),
        ({"roles": ["staff"]}, None),
        ({}, None),
    ],
)
def test_the_highest_role_of_the_claim_counts(claims: dict[str, Any], role: Role | None) -> None:
    given = {"sub": "7", "name": "Ada", **claims}
    if role is None:
        with pytest.raises(RoleError, match="no role at this service"):
            admission().person(given)
        assert admission(default_role=Role.PLANNER).person(given).role is Role.PLANNER
    else:
        assert admission(default_role=Role.PLANNER).person(given).role is role


def test_a_claim_is_found_by_its_name_or_by_the_path_to_it() -> None:
    nested = {"sub": "7", "realm": {"roles": ["staff"]}, "https://example.com/roles": ["buyers"]}
    assert admission(role_claim="realm.roles").person(nested).role is Role.VIEWER
    assert admission(role_claim="https://example.com/roles").person(nested).role is Role.PLANNER
    with pytest.raises(RoleError):
        admission(role_claim="realm.roles.deeper").person(nested)


def test_a_person_is_called_by_the_best_claim_there_is() -> None:
    open_to_all = admission(default_role=Role.VIEWER)
    claims = {"sub": "7", "preferred_username": "ada", "name": "Ada Byron", "email": "ada@example.com"}
    for missing, name in (
        (None, "ada"),
        ("preferred_username", "Ada Byron"),
        ("name", "ada@example.com"),
        ("email", "7"),
    ):
        claims.pop(str(missing), None)
        assert open_to_all.person(claims).name == name
    assert len(open_to_all.person({"sub": "7", "name": "x" * 5000}).name) == 100


def test_more_is_asked_for_only_where_something_is_missing() -> None:
    whole = {"sub": "7", "name": "Ada", "email": "ada@example.com", "groups": []}
    assert not admission().needs_more(whole)
    for name in ("name", "email", "groups"):
        assert admission().needs_more({key: value for key, value in whole.items() if key != name})
    assert not admission(roles={}).needs_more({key: value for key, value in whole.items() if key != "groups"})
