"""Browsers in front of a shop: signed in with a session, whose changes carry its token."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import httpx
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app
from disco.office.people.use_cases import first_invitation, invite
from disco.office.sign_in.use_cases import accept_invitation, sign_in
from disco.records.people import Role
from disco.web.security import csrf_token

PASSWORD = "correct horse battery staple"
NAMES = {Role.VIEWER: "Vera", Role.PLANNER: "Paul", Role.APPROVER: "Anna", Role.ADMIN: "Ada"}


@dataclass(frozen=True)
class Seen:
    """A reply, as somebody reads it."""

    status: int
    text: str
    words: str  # without tags, blanks collapsed
    headers: Mapping[str, str]

    @classmethod
    def of(cls, answer: httpx.Response) -> "Seen":
        parser = _Words()
        parser.feed(answer.text)
        return cls(answer.status_code, answer.text, " ".join("".join(parser.found).split()), answer.headers)

    @property
    def said(self) -> str:
        return self.headers.get("hx-trigger", "")

    def field(self, name: str) -> str:
        """The element of a field, as its tag was written."""
        found = re.search(rf'<(?:input|select|textarea)[^>]* name="{re.escape(name)}"[^>]*>', self.text)
        assert found is not None, name
        return found[0]

    def error(self, name: str) -> str:
        """The sentence beside a field, which names it for readers of the screen."""
        found = re.search(rf'<p class="error" id="{re.escape(name)}-error"[^>]*>(.*?)</p>', self.text, re.DOTALL)
        assert found is not None, self.words
        assert re.search(rf'<(?:input|select|textarea)[^>]* aria-describedby="{re.escape(name)}-error', self.text)
        return found[1]


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._skipped = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._skipped = tag in ("script", "style")
        self.found.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._skipped = False
        self.found.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.found.append(data.replace("\xa0", " ").replace("\u2060", ""))


class Browser:
    """One person's browser: pages by GET, changes as htmx sends them."""

    def __init__(self, client: TestClient, csrf: str) -> None:
        self.client, self._csrf = client, csrf

    def get(self, path: str, **headers: str) -> Seen:
        return Seen.of(self.client.get(path, headers={"accept": "text/html", **headers}))

    def send(self, path: str, *, method: str = "POST", key: str | None = None, **fields: str) -> Seen:
        headers = {"hx-request": "true", "x-csrf-token": self._csrf, **({"idempotency-key": key} if key else {})}
        return Seen.of(self.client.request(method, path, data=fields, headers=headers))


Visit = Callable[[Path, Role], AbstractContextManager[Browser]]


@contextmanager
def visiting(folder: Path, role: Role = Role.ADMIN) -> Iterator[Browser]:
    """Somebody of this role, signed in."""
    shop, name = Shop.open(folder), NAMES[role]
    with shop.store(missing="create") as store:
        first = first_invitation(store, shop.clock)
        if first is not None:
            accept_invitation(store, first.token, password=PASSWORD, name=NAMES[Role.ADMIN], clock=shop.clock)
        if role is not Role.ADMIN:
            made = invite(store, name=name, role=role, clock=shop.clock)
            accept_invitation(store, made.token, password=PASSWORD, clock=shop.clock)
        token = sign_in(store, name=name, password=PASSWORD, clock=shop.clock).token
    with TestClient(
        create_app(Shop.open(folder)),
        base_url="http://localhost",
        raise_server_exceptions=False,
        follow_redirects=False,
    ) as client:
        client.cookies.set("disco_session", token)
        yield Browser(client, csrf_token(token))
