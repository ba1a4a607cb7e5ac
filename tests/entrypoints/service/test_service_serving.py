"""`disco serve`: where it listens, what it warns of, and how it refuses."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from disco.entrypoints.python import Shop
from disco.entrypoints.service import serving
from disco.entrypoints.service.security import is_loopback
from disco.records.errors import InputError, StateError

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
    assert "without TLS" in loud.warnings[1]
    assert settings.app.state.service.hosts() is None  # type: ignore[union-attr]


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
