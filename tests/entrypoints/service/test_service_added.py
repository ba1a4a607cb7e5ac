"""What codes added on every surface: the command line, Python, HTTP, the client and the console."""

import json
from pathlib import Path

import added_shop
import pytest
from fastapi.testclient import TestClient
from visitors import visiting

from disco.entrypoints import cli
from disco.entrypoints.client import Client
from disco.entrypoints.service.app import create_app
from disco.office.keys.use_cases import create_key
from disco.records.errors import StateError
from disco.records.people import Role


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return added_shop.make(tmp_path_factory.mktemp("surfaces") / "shop").folder


def test_all_surfaces_say_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shop = added_shop.opened(folder)
    expected = shop.added().as_dict()
    with shop.store() as store:
        key = create_key(store, name="Vera", role=Role.VIEWER, expires=None, clock=shop.clock).key
    with (
        TestClient(create_app(shop), base_url="http://localhost", raise_server_exceptions=False) as web,
        Client("http://localhost", key=key, transport=web._transport) as remote,
    ):
        assert remote.added().as_dict() == expected
        answer = web.get("/api/v1/added?first=2025-05-01&last=2025-05-31", headers={"authorization": f"Bearer {key}"})
        assert answer.json()["campaigns"] == ["second"]
        refused = web.post("/api/v1/holdout/release", json={"reason": "x"}, headers={"authorization": f"Bearer {key}"})
        assert refused.status_code == 403
    with visiting(folder) as browser:
        page = browser.get("/added")
        assert expected["headline"].split(" (")[0] in page.words.replace("\xa0", " ")
        assert browser.get("/added?table=1-1&format=csv").text.startswith("Figure,")
    page = tmp_path / "added.html"
    monkeypatch.setattr("sys.argv", ["disco", "added", "--json", "--html", str(page), "--shop", str(folder)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["revenue"] == expected["revenue"]
    assert "Codes brought" in page.read_text(encoding="utf-8")


def test_the_console_says_why_nothing_is_known(tmp_path: Path) -> None:
    shop = added_shop.make(tmp_path / "shop", holdout={"share": "20%", "lasting": False})
    with pytest.raises(StateError):
        shop.added()
    with visiting(tmp_path / "shop") as browser:
        page = browser.get("/added")
        assert page.status == 200
        assert "no campaign was launched with a lasting holdout" in page.words


def test_whoever_may_approve_releases_the_holdout_with_a_reason(tmp_path: Path) -> None:
    shop = added_shop.make(tmp_path / "shop")
    with shop.store() as store:
        key = create_key(store, name="Anna", role=Role.APPROVER, expires=None, clock=shop.clock).key
    with (
        TestClient(create_app(shop), base_url="http://localhost", raise_server_exceptions=False) as web,
        Client("http://localhost", key=key, transport=web._transport) as remote,
    ):
        assert remote.release_holdout("The year is over.", dry_run=True).dry_run
        assert remote.release_holdout("The year is over.").reason == "The year is over."
    assert shop.audit(limit=1).entries[-1].actor == "Anna"
