"""`disco serve`: where it listens, what it warns of, and how it refuses."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from disco.entrypoints.python import Shop
from disco.entrypoints.service import serving
from disco.office.people.use_cases import first_invitation
from disco.office.sign_in.use_cases import accept_invitation
from disco.records.errors import InputError, PlanError, ServiceError, StateError
from disco.web.security import is_loopback, own_names, refuse_host

Run = Callable[..., tuple[int, str, str]]


def test_a_port_in_use_is_a_sentence(shop: Path, disco: Run) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = disco("serve", "--shop", shop, "--port", port)
    assert code == 1
    assert f"cannot listen on 127.0.0.1, port {port}" in err
    assert "--port" in err


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no such host.", 0)])
def test_a_place_that_does_not_exist_is_refused(tmp_path: Path, host: str, port: int) -> None:
    with pytest.raises((InputError, StateError)):
        serving.serve(Shop.open(tmp_path), host=host, port=port, worker=False, started=lambda _: None)


def served(monkeypatch: pytest.MonkeyPatch, shop: Shop, host: str) -> tuple[serving.Serving, uvicorn.Config]:
    """What a server would say and use, without answering anybody."""
    said: list[serving.Serving] = []
    used: list[uvicorn.Config] = []

    def run(self: Any, sockets: Any = None) -> None:
        used.append(self.config)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    serving.serve(shop, host=host, port=0, worker=False, started=said.append)
    return said[0], used[0]


def test_loopback_is_the_quiet_default_and_other_machines_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, settings = served(monkeypatch, Shop.open(tmp_path), "127.0.0.1")
    assert quiet.warnings == ()
    assert quiet.url.startswith("http://127.0.0.1:")
    assert settings.proxy_headers is False
    assert settings.app.state.service.hosts() == ("127.0.0.1",)  # type: ignore[union-attr]
    loud, settings = served(monkeypatch, Shop.open(tmp_path), "0.0.0.0")
    assert "Other machines can reach this server" in loud.warnings[0]
    assert "It answers under its addresses and the name" in loud.warnings[1]
    assert "service.hosts" in loud.warnings[1]
    assert "without TLS" in loud.warnings[2]
    assert settings.app.state.service.hosts() is None  # type: ignore[union-attr]


def test_a_missing_secret_of_the_identity_provider_is_said_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oidc = {"issuer": "https://id.example.com", "client_id": "disco", "default_role": "viewer"}
    said, _ = served(monkeypatch, Shop.open(tmp_path, oidc=oidc), "127.0.0.1")
    assert len(said.warnings) == 1
    assert "DISCO_OIDC_CLIENT_SECRET" in said.warnings[0]
    monkeypatch.setenv("DISCO_OIDC_CLIENT_SECRET", "a secret")
    said, _ = served(monkeypatch, Shop.open(tmp_path, oidc=oidc), "127.0.0.1")
    assert said.warnings == ()


def test_without_names_of_its_own_a_server_answers_under_addresses_and_the_machines_name() -> None:
    """A page of another site can give our address a name of its own (DNS rebinding), but no address."""
    for host in ("10.1.2.3:8080", "[2001:db8::1]:8080", "[2001:db8::1]", "localhost", *own_names()):
        refuse_host(host, known=None)
    for host in ("evil.example", "10.1.2.3.evil.example", "", ":8080"):
        with pytest.raises(ServiceError, match=r"service\.hosts or service\.public_url") as refused:
            refuse_host(host, known=None)
        assert refused.value.status == 400
    refuse_host("disco.example.com", known=("disco.example.com",))
    for host in ("evil.example", "10.1.2.3"):
        with pytest.raises(ServiceError):
            refuse_host(host, known=("disco.example.com",))


@contextmanager
def running(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    """A server with the settings of `disco serve`; where it answers."""
    with monkeypatch.context() as patch:
        _, settings = served(patch, Shop.open(folder), "127.0.0.1")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize(("trusted", "believed"), [("[127.0.0.1]", True), ("[10.0.0.7]", False), ("[]", False)])
def test_forwarded_headers_are_believed_from_trusted_proxies_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str, believed: bool
) -> None:
    """By what they decide: the limit of wrong keys per address, and whether cookies are secure."""
    (tmp_path / "disco.yaml").write_text(f"service: {{trusted_proxies: {trusted}}}\n")
    shop = Shop.open(tmp_path)
    with shop.store(missing="create") as store:
        link = first_invitation(store, shop.clock)
        assert link is not None
        accept_invitation(store, link.token, password="correct horse battery", name="Ada", clock=shop.clock)
    with running(monkeypatch, tmp_path) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        https = {"x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.1"}
        body = {"name": "Ada", "password": "correct horse battery"}
        answer = client.post("/sign-in", json=body, headers=https)
        assert answer.status_code == 200, answer.text
        cookies = answer.headers.get_list("set-cookie")
        assert all(("; Secure" in cookie) is believed for cookie in cookies)
        assert any(cookie.startswith("__Host-disco_session=") for cookie in cookies) is believed
        # a page of the https origin is the service's own only where the proxy's word counts
        own = https | {"origin": url.replace("http:", "https:")}
        assert (client.post("/sign-in", json=body, headers=own).status_code == 200) is believed
        client.cookies.clear()

        def status(address: str) -> int:
            headers = {"authorization": "Bearer wrong", "x-forwarded-for": address}
            return client.get("/api/v1/campaigns", headers=headers).status_code

        assert [status("203.0.113.1") for _ in range(40)][-1] == 429
        assert status("203.0.113.2") == (401 if believed else 429)
        # what a client adds in front of the proxy's own entry changes nothing
        assert status("198.51.100.9, 203.0.113.1") == 429


@pytest.mark.parametrize("proxies", ["['*']", "[proxy.example.com]", "[0.0.0.0/0]", "['::/0']", "['10.0.0.7/24']"])
def test_only_addresses_can_be_trusted(tmp_path: Path, proxies: str) -> None:
    (tmp_path / "disco.yaml").write_text(f"service: {{trusted_proxies: {proxies}}}\n")
    with pytest.raises(PlanError, match="addresses or networks"):
        Shop.open(tmp_path)


def test_behind_a_proxy_its_headers_are_believed_and_the_public_name_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"public_url": "https://disco.example.com", "trusted_proxies": ["10.0.0.7"]}
    said, settings = served(monkeypatch, Shop.open(tmp_path, service=own), "0.0.0.0")
    assert said.url == "https://disco.example.com"
    assert len(said.warnings) == 1
    assert settings.proxy_headers is True
    assert settings.forwarded_allow_ips == ["10.0.0.7"]
    assert set(settings.app.state.service.hosts()) == {"0.0.0.0", "disco.example.com"}  # type: ignore[union-attr]


def test_what_counts_as_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.com", "")))
