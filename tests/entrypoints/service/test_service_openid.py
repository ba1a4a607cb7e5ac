"""Sign-in through a real identity provider on loopback (npm oidc-provider): whole, altered, replayed, refused."""

import io
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import openid_provider as support
import pytest
import uvicorn

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import ShopService, create_app
from disco.office.people.use_cases import change_person
from disco.records.errors import MissingPartError
from disco.web.limits import TokenBuckets

API = "/api/v1"
ADA = {
    "name": "Ada Byron",
    "preferred_username": "ada",
    "email": "ada@example.com",
    "email_verified": True,
    "groups": ["everybody", "disco-planners"],
}


class Place:
    """A service that answers over TCP, with a provider beside it."""

    def __init__(self, folder: Path, url: str, provider: support.Provider, service: ShopService) -> None:
        self.folder, self.url, self.provider, self.service = folder, url, provider, service

    def configure(self, **changes: Any) -> None:
        """Write `oidc` anew into disco.yaml; the service notices by itself."""
        settings = {
            "issuer": self.provider.issuer,
            "client_id": "disco",
            "scopes": ["openid", "profile", "email", "groups"],
            "roles": {"disco-admins": "admin", "disco-planners": "planner", "disco-viewers": "viewer"},
        } | changes
        (self.folder / "disco.yaml").write_text(json.dumps({"oidc": settings}))

    @contextmanager
    def browser(self) -> Iterator[httpx.Client]:
        with httpx.Client(timeout=30, trust_env=False) as one:
            yield one

    def returned(self, browser: httpx.Client, login: str = "ada", **options: Any) -> httpx.URL:
        """The way to the provider and back; not yet asked: our own page at its end."""
        return support.come_back(browser, f"{self.url}/sign-in/oidc", login=login, to=self.url, **options)

    def sign_in(self, login: str = "ada") -> httpx.Response:
        """Our answer to whoever comes back, in a new browser."""
        with self.browser() as browser:
            return browser.get(self.returned(browser, login))


@contextmanager
def place(folder: Path, *, claims_in_token: bool = False) -> Iterator[Place]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # a request that comes before the server does waits instead of being refused
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with support.provider(f"{url}/sign-in/oidc/callback", claims_in_token=claims_in_token) as provider:
            provider.accounts = {"ada": dict(ADA)}
            provider.tell()
            (folder / "client-secret").write_text(support.SECRET + "\n")
            app = create_app(Shop.open(folder))
            here = Place(folder, url, provider, app.state.service)
            here.configure(client_secret_file="client-secret")
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
            thread.start()
            try:
                yield here
            finally:
                server.should_exit = True
                thread.join(30)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    try:
        support.installed()
    except MissingPartError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: {missing}")
    with place(tmp_path_factory.mktemp("openid")) as one:
        yield one


@pytest.fixture
def here(shared: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The service and the provider as they were at first, but for the people who have signed in."""
    monkeypatch.setenv("DISCO_OIDC_CLIENT_SECRET", support.SECRET)
    shared.provider.accounts = {"ada": dict(ADA)}
    shared.provider.tell()
    shared.configure()
    shared.service.failures = TokenBuckets(rate=1.0, burst=30.0)
    return shared


def refused(answer: httpx.Response, status: int, kind: str) -> str:
    """The sentence of a problem."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:disco:problem:{kind}"
    assert "session" not in answer.headers.get("set-cookie", "")
    return str(answer.json()["detail"])


def test_a_person_signs_in_through_the_forms_of_the_provider(here: Place) -> None:
    here.configure(name="Example <ID>")
    with here.browser() as browser:
        assert '<a href="/sign-in/oidc">Sign in with Example &lt;ID&gt;</a>' in browser.get(f"{here.url}/sign-in").text
        assert browser.get(f"{here.url}/me").status_code == 401
        sent = browser.get(f"{here.url}/sign-in/oidc")
        asked = {name: values[0] for name, values in parse_qs(urlsplit(sent.headers["location"]).query).items()}
        assert sent.status_code == 303
        assert sent.headers["location"].startswith(f"{here.provider.issuer}/auth?")
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert {len(asked[name]) for name in ("state", "nonce", "code_challenge")} == {43}
        assert asked["redirect_uri"] == f"{here.url}/sign-in/oidc/callback"
        back = browser.get(here.returned(browser))
        assert (back.status_code, back.headers["location"]) == (303, "/campaigns")
        me = browser.get(f"{here.url}/me").json()
        assert (me["name"], me["kind"], me["role"]) == ("ada", "person", "planner")
        cookies = {cookie.name: cookie for cookie in browser.cookies.jar if cookie.domain == "127.0.0.1"}
        assert cookies["disco_session"].has_nonstandard_attr("HttpOnly")
        assert "disco_openid" not in cookies
        # a session like any other: changes need its token, and it ends
        power = {"baseline": 50, "sd": 30, "mde": 2}
        assert browser.post(f"{here.url}{API}/power", json=power).status_code == 403
        csrf = {"x-csrf-token": me["csrf_token"]}
        assert (
            browser.post(f"{here.url}{API}/keys", json={"name": "x", "role": "admin"}, headers=csrf).status_code == 403
        )
        assert browser.post(f"{here.url}/sign-out", headers=csrf).json()["ended"] is True
        assert browser.get(f"{here.url}/me").status_code == 401


def test_who_did_not_begin_here_is_not_signed_in(here: Place) -> None:
    """Login CSRF: somebody's own answer of the provider, or an altered one, in another person's browser."""
    with here.browser() as attacker, here.browser() as victim:
        url = here.returned(attacker)
        assert "not begun in this browser" in refused(victim.get(url), 403, "sign-in")
        victim.get(f"{here.url}/sign-in/oidc")  # has an attempt of their own
        refused(victim.get(url), 403, "sign-in")
        for state in ("", "x" * 43, "ä", url.params["state"][:-1]):
            refused(attacker.get(url.copy_set_param("state", state)), 403, "sign-in")
            attacker.get(f"{here.url}/sign-in/oidc")
        # each answer ended the attempt, so not even the right one is good any more
        refused(attacker.get(url), 403, "sign-in")


def test_an_answer_is_used_once(here: Place) -> None:
    with here.browser() as browser:
        browser.get(f"{here.url}/healthz")
        url = here.returned(browser)
        kept = browser.cookies["disco_openid"]
        assert browser.get(url).status_code == 303
        refused(browser.get(url), 403, "sign-in")
        # even with the cookie of the attempt the provider redeems a code once
        again = httpx.get(url, headers={"cookie": f"disco_openid={kept}"}, trust_env=False)
        assert "the code is unknown, has expired or was used" in refused(again, 401, "authentication")


def test_a_code_of_somebody_else_cannot_be_put_into_an_own_attempt(here: Place) -> None:
    """PKCE: a stolen code is redeemed only with the verifier of the attempt that it was made for."""
    with here.browser() as victim, here.browser() as attacker:
        stolen = here.returned(victim).params["code"]
        own = here.returned(attacker)
        refused(attacker.get(own.copy_set_param("code", stolen)), 401, "authentication")


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        ("other key", "signature is wrong"),
        ("unknown key", "cannot be read"),
        ("altered", "signature is wrong"),
        ("nonce", "claim nonce is wrong"),
        ("no nonce", "claim nonce is wrong"),
        ("audience", "claim aud is wrong"),
        ("audiences", "claim azp is wrong"),
        ("issuer", "claim iss is wrong"),
        ("expired", "it has expired"),
        ("no expiry", "claim exp is wrong"),
        ("future", "claim iat is wrong"),
        ("none", "cannot be read"),
        ("shared secret", "cannot be read"),
        ("not a token", "cannot be read"),
    ],
)
def test_a_token_that_proves_nothing_is_refused(here: Place, tamper: str, said: str) -> None:
    here.provider.tell(tamper=tamper)
    sentence = refused(here.sign_in(), 401, "authentication")
    assert said in sentence
    here.provider.tell()
    assert here.sign_in().status_code == 303


def test_another_provider_cannot_answer(here: Place) -> None:
    with here.browser() as browser:
        url = here.returned(browser)
        answer = browser.get(url.copy_set_param("iss", "https://id.example.com"))
    assert "another identity provider" in refused(answer, 401, "authentication")
    with here.browser() as browser:
        url = here.returned(browser)
        refused(browser.get(url.copy_remove_param("iss")), 401, "authentication")


def test_new_keys_of_the_provider_are_fetched(here: Place) -> None:
    assert here.sign_in().status_code == 303
    here.provider.stop()
    here.provider.start()  # with another key, which the kept ones do not have
    assert here.sign_in().status_code == 303


def test_roles_follow_the_provider_at_the_next_sign_in(here: Place) -> None:
    def role(groups: Any) -> tuple[int, str]:
        here.provider.accounts["bob"] = {"preferred_username": "bob", "groups": groups}
        here.provider.tell()
        with here.browser() as browser:
            answer = browser.get(here.returned(browser, "bob"))
            return answer.status_code, browser.get(f"{here.url}/me").json().get("role", "")

    assert role(["disco-viewers"]) == (303, "viewer")
    assert role(["disco-viewers", "disco-planners"]) == (303, "planner")
    assert role("disco-viewers") == (303, "viewer")
    for none in ([], ["admin"], None, 7, [["disco-admins"]], {"disco-admins": True}):
        assert role(none) == (403, "")
    here.configure(default_role="viewer")
    assert role([]) == (303, "viewer")
    here.configure(role_claim="realm.roles")
    here.provider.accounts["bob"] = {"preferred_username": "bob"}
    here.provider.tell()
    assert "has no role at this service" in refused(here.sign_in("bob"), 403, "role")


def test_only_confirmed_addresses_of_allowed_domains_come_in(here: Place) -> None:
    here.configure(email_domains=["Example.com"])
    assert here.sign_in().status_code == 303
    for email, verified in (
        ("ada@example.com", False),
        ("ada@example.com", "true"),
        ("ada@example.com.evil.example", True),
        ("ada@evil.example", True),
        (None, True),
    ):
        here.provider.accounts["ada"] = ADA | {"email": email, "email_verified": verified}
        here.provider.tell()
        assert "confirmed e-mail address" in refused(here.sign_in(), 403, "role")


def test_a_disabled_person_does_not_come_back(here: Place) -> None:
    here.provider.accounts["eve"] = ADA | {"preferred_username": "eve"}
    here.provider.tell()
    with here.browser() as browser:
        browser.get(here.returned(browser, "eve"))
        assert browser.get(f"{here.url}/me").status_code == 200
        store = here.service.shop().held_store
        assert store is not None
        change_person(store, "eve", disabled=True)
        assert browser.get(f"{here.url}/me").status_code == 401
    assert "eve cannot sign in any more" in refused(here.sign_in("eve"), 401, "authentication")


def test_a_name_that_somebody_has_is_not_given_to_another(here: Place) -> None:
    assert here.sign_in().status_code == 303
    here.provider.accounts["mallory"] = ADA | {"preferred_username": "ADA"}
    here.provider.tell()
    assert "another person named ADA" in refused(here.sign_in("mallory"), 409, "state")


def test_who_declines_at_the_provider_is_told_so(here: Place) -> None:
    with here.browser() as browser:
        answer = browser.get(here.returned(browser, deny=True))
    assert "did not let you sign in" in refused(answer, 403, "role")


def test_a_provider_that_is_gone_is_a_sentence_and_comes_back(tmp_path: Path, here: Place) -> None:
    here.configure(name="another")  # settings that are new: nothing of the provider is known yet
    here.provider.stop()
    try:
        answer = httpx.get(f"{here.url}/sign-in/oidc", trust_env=False)
        assert "does not answer" in refused(answer, 503, "identity-provider")
        assert answer.headers["retry-after"]
    finally:
        here.provider.start()
    with here.browser() as browser:
        url = here.returned(browser)
        here.provider.stop()
        try:
            refused(browser.get(url), 503, "identity-provider")
        finally:
            here.provider.start()
    assert here.sign_in().status_code == 303


def test_settings_that_do_not_fit_are_sentences(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def begun() -> httpx.Response:
        return httpx.get(f"{here.url}/sign-in/oidc", trust_env=False)

    here.configure(issuer=here.provider.issuer + "/")
    assert "exactly as the provider does" in refused(begun(), 503, "identity-provider")
    here.configure()
    monkeypatch.setenv("DISCO_OIDC_CLIENT_SECRET", "another secret")
    assert "refuses this service (invalid_client)" in refused(here.sign_in(), 503, "identity-provider")
    monkeypatch.delenv("DISCO_OIDC_CLIENT_SECRET")
    assert "DISCO_OIDC_CLIENT_SECRET" in refused(begun(), 503, "missing-part")
    here.configure(client_secret_file="client-secret")
    assert here.sign_in().status_code == 303
    here.configure(client_secret_file="nowhere")
    assert "cannot be read" in refused(begun(), 503, "missing-part")
    (here.folder / "disco.yaml").write_text("currency: GBP\n")
    assert "no identity provider" in refused(begun(), 404, "not-found")


def test_nothing_in_a_request_says_where_people_are_led(here: Place) -> None:
    with here.browser() as browser:
        for query in ("next=https://evil.example", "redirect_uri=https://evil.example", "return_to=//evil.example"):
            sent = browser.get(f"{here.url}/sign-in/oidc?{query}")
            assert sent.headers["location"].startswith(here.provider.issuer)
            assert "evil" not in sent.headers["location"]
        url = here.returned(browser).copy_set_param("next", "https://evil.example")
        assert browser.get(url).headers["location"] == "/campaigns"
        evil = httpx.get(f"{here.url}/sign-in/oidc", headers={"host": "evil.example"}, trust_env=False)
        refused(evil, 400, "host")


def test_neither_codes_nor_tokens_reach_the_log(here: Place, logged: io.StringIO) -> None:
    before = logged.tell()
    with here.browser() as browser:
        url = here.returned(browser)
        attempt = browser.cookies["disco_openid"]
        assert browser.get(url).status_code == 303
        session = browser.cookies["disco_session"]
    end = time.monotonic() + 20
    while '"route": "/sign-in/oidc/callback"' not in (text := logged.getvalue()[before:]):
        assert time.monotonic() < end, text  # a request is logged after its answer was sent
        time.sleep(0.01)
    for secret in (url.params["code"], url.params["state"], attempt, session, support.SECRET, "ada"):
        assert secret not in text


def test_wrong_answers_from_one_address_are_slowed(here: Place) -> None:
    here.service.failures = TokenBuckets(rate=0.001, burst=2)
    answers = [httpx.get(f"{here.url}/sign-in/oidc/callback?state=x&code=y", trust_env=False) for _ in range(3)]
    assert [one.status_code for one in answers] == [403, 403, 429]


def test_claims_that_stand_in_the_token_are_enough(shared: Place, tmp_path: Path) -> None:
    with place(tmp_path, claims_in_token=True) as here:
        assert here.sign_in().status_code == 303
