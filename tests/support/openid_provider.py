"""A real identity provider on loopback: npm's oidc-provider, installed once into the environment of the tests."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx

from disco.records.errors import MissingPartError

VERSION = "8.8.1"
SECRET = "a client secret of 32 characters"
_SERVER = Path(__file__).with_suffix(".mjs")
_SECONDS = 300


def installed() -> Path:
    """The folder with the package and everything it needs; a folder per version, so that it is installed once."""
    folder = Path(sys.prefix) / f"npm-oidc-provider-{VERSION}"
    if folder.is_dir():
        return folder
    if shutil.which("node") is None or (npm := shutil.which("npm")) is None:
        raise MissingPartError(
            "an identity provider", found="no node or npm", expected="both", fix="On Debian: apt-get install npm."
        )
    scratch = Path(tempfile.mkdtemp(prefix="npm-", dir=sys.prefix))
    command = [npm, "install", "--prefix", str(scratch), "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"]
    done = subprocess.run(
        [*command, f"oidc-provider@{VERSION}"], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        shutil.rmtree(scratch, ignore_errors=True)
        raise MissingPartError(
            "an identity provider", found=f"npm failed: {done.stderr[-300:]}", expected=f"oidc-provider {VERSION}"
        )
    try:
        scratch.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


class Provider:
    """A provider that runs; what it knows can be changed while it does."""

    def __init__(self, folder: Path, redirect_uri: str, *, claims_in_token: bool) -> None:
        self._folder, self._redirect_uri, self._in_token = folder, redirect_uri, claims_in_token
        self._control = folder / "control.json"
        self.accounts: dict[str, dict[str, Any]] = {}
        self._process: subprocess.Popen[str] | None = None
        self.issuer, self._port = "", 0
        self.tell()

    def tell(self, *, tamper: str | None = None) -> None:
        """Let the provider know its accounts, and how its ID tokens are wrong."""
        partial = self._control.with_suffix(".partial")
        partial.write_text(json.dumps({"accounts": self.accounts, "tamper": tamper}))
        partial.replace(self._control)

    def start(self) -> None:
        """Start it, with new keys, where it was before."""
        program = installed() / "server.mjs"  # node looks for packages beside the program
        if not program.exists() or program.read_text() != _SERVER.read_text():
            partial = program.with_suffix(f".{os.getpid()}")
            shutil.copy(_SERVER, partial)
            partial.replace(program)
        self._process = subprocess.Popen(
            ["node", str(program), str(self._control), str(self._port), SECRET, self._redirect_uri],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"IN_TOKEN": "1" if self._in_token else "0"},
            text=True,
        )
        assert self._process.stdout is not None
        self.issuer = self._process.stdout.readline().strip()
        if not self.issuer:
            raise AssertionError(f"the provider ended with {self._process.wait()}")
        self._port = int(self.issuer.rsplit(":", 1)[1])

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


@contextmanager
def provider(redirect_uri: str, *, claims_in_token: bool = False) -> Iterator[Provider]:
    """A running provider that sends people back there."""
    with tempfile.TemporaryDirectory(prefix="disco-openid-") as folder:
        one = Provider(Path(folder), redirect_uri, claims_in_token=claims_in_token)
        one.start()
        try:
            yield one
        finally:
            one.stop()


class _Form(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = values.get("action") or ""
        elif tag == "input" and values.get("name"):
            self.fields[str(values["name"])] = values.get("value") or ""


def come_back(browser: httpx.Client, start: str, *, login: str, to: str, deny: bool = False) -> httpx.URL:
    """Follow a sign-in through the provider's forms, as a person does; the URL by which the browser comes back.

    start: where our service sends the browser. to: how our own URLs begin.
    """
    answer = browser.get(start)
    for _ in range(20):
        if answer.has_redirect_location:
            url = answer.url.join(answer.headers["location"])
            if str(url).startswith(to):
                return url
            answer = browser.get(url)
            continue
        form = _Form()
        form.feed(answer.text)
        assert answer.status_code == 200, answer.text
        assert form.action is not None, answer.text
        if deny:
            answer = browser.get(urljoin(str(answer.url), f"{answer.url.path}/abort"))
            continue
        filled = form.fields | ({"login": login, "password": "any"} if "login" in form.fields else {})
        answer = browser.post(urljoin(str(answer.url), form.action), data=filled)
    raise AssertionError("the provider never sent the browser back")
