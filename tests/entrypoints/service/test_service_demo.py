"""`disco serve --demo`: a link signs an operator in, on a simulated shop and on this machine alone."""

from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app
from disco.entrypoints.service.serving import serve
from disco.records.errors import DiscoError

SECRET = "a-secret-of-the-demo"


@pytest.fixture
def simulated(shop):
    """A shop whose own time is a year behind."""
    with (shop / "disco.yaml").open("a") as settings:
        settings.write("\nsimulated_days_behind: 365\n")
    return shop


@pytest.fixture
def visitor(simulated):
    app = create_app(Shop.open(simulated), demo=SECRET)
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as client:
        yield client


def test_the_link_signs_an_administrator_in_as_often_as_it_is_used(visitor):
    for _ in range(2):
        answer = visitor.get(f"/demo/{SECRET}", headers={"sec-fetch-site": "none"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/campaigns")
        cookies = answer.headers.get_list("set-cookie")
        session = next(one for one in cookies if one.startswith("disco_session="))
        assert "HttpOnly" in session
        assert int(session.lower().split("max-age=")[1].split(";")[0]) > 86_400  # by the shop's own time
        assert visitor.get("/me").json() | {"role": "admin", "name": "Demo operator"} == visitor.get("/me").json()


def test_every_page_says_that_the_shop_is_simulated_and_which_day_it_is_there(visitor):
    visitor.get(f"/demo/{SECRET}")
    day = (datetime.now(UTC) - timedelta(days=365)).date()
    page = visitor.get("/campaigns", headers={"accept": "text/html"}).text
    assert f"Simulated shop. It is {day.day} {day:%b} {day.year} here" in page


def test_the_operator_is_listed_as_the_one_of_the_demo(visitor):
    visitor.get(f"/demo/{SECRET}")
    page = visitor.get("/people", headers={"accept": "text/html"}).text
    assert "the link of the demo" in page
    assert "an identity provider" not in page


@pytest.mark.parametrize(
    ("secret", "headers", "status"),
    [
        ("another", {}, 404),
        (SECRET, {"sec-fetch-site": "cross-site"}, 403),
        (SECRET, {"origin": "http://evil.example"}, 403),
        (SECRET, {"host": "evil.example"}, 400),
    ],
)
def test_neither_a_wrong_link_nor_another_site_signs_anybody_in(visitor, secret, headers, status):
    answer = visitor.get(f"/demo/{secret}", headers=headers)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


def test_without_the_demo_there_is_no_such_link(simulated):
    with TestClient(create_app(Shop.open(simulated)), base_url="http://localhost") as client:
        for secret in (SECRET, "None"):
            assert client.get(f"/demo/{secret}").status_code == 404


@pytest.mark.parametrize(
    ("host", "settings", "words"),
    [
        ("0.0.0.0", "", "an address of loopback"),
        ("127.0.0.1", "service: {public_url: https://disco.example.com}", "only this machine can reach"),
        ("127.0.0.1", "service: {hosts: [disco.example.com]}", "only this machine can reach"),
        ("127.0.0.1", "simulated_days_behind:", "not a simulated shop"),
    ],
)
def test_the_demo_is_refused_where_others_could_come_or_the_shop_is_real(shop, host, settings, words):
    text = "simulated_days_behind: 365\n" if "simulated" not in settings else ""
    with (shop / "disco.yaml").open("a") as file:
        file.write(f"\n{text}{settings}\n")

    def never(serving):
        raise AssertionError("it served")

    with pytest.raises(DiscoError, match=words):
        serve(Shop.open(shop), host=host, port=0, worker=False, started=never, demo=True)


def test_without_a_demo_the_command_says_how_to_make_one(disco, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, words in (((), "Run `disco demo` first"), (("--shop", "other"), "Run `disco demo -o other` first")):
        code, _, said = disco("serve", "--demo", *options)
        assert code == 1
        assert words in said
    assert not list(tmp_path.iterdir())
