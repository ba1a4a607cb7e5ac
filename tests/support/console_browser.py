"""Debian's Chromium on the console: a watched page says what it asked for elsewhere, and what it complained about."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route, expect, sync_playwright
from studies.picture import find_browser

Theme = Literal["light", "dark"]
DESKTOP_PX, PHONE_PX = 1280, 390
_PATIENCE_MS = 30_000  # a page that is slow on a busy machine is not a wrong one
HEIGHT_PX = {DESKTOP_PX: 800, PHONE_PX: 844}
_AXE = Path(__file__).parent / "vendor" / "axe.min.js"
_SERIOUS = ("serious", "critical")
# what Chromium writes for a refusal that a page answers in words: signed out, changed by somebody else, a wrong field
_REFUSED = tuple(f"Failed to load resource: the server responded with a status of {code}" for code in (401, 412, 422))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium with nothing of its own to look for in the network."""
    flags = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    flags.append("--disable-gpu")  # where there is none, imitating one took a quarter of the processor time
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # Chromium refuses its sandbox to root
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=find_browser(), args=flags)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watch:
    """What the pages of a context did that they must not do."""

    external: list[str] = field(default_factory=list)
    """Addresses elsewhere that were asked for; none of them is let through."""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, among them what the policy of content forbade, and exceptions of scripts."""

    def forgive_given_up(self) -> None:
        """htmx writes two errors for a request that was given up, as where its page was left meanwhile or a newer
        request took its place. That is how it should be; any other error stays."""
        if len(self.complaints) >= 2:
            before, last = self.complaints[-2:]
            if "htmx:sendAbort" in last and before == last.replace("htmx:sendAbort", "htmx:afterRequest"):
                del self.complaints[-2:]

    def take(self) -> list[str]:
        """Everything since the last time."""
        found = [f"external request: {address}" for address in self.external] + self.complaints
        self.external.clear()
        self.complaints.clear()
        return found


@contextmanager
def visitor(
    browser: Browser, url: str, *, width_px: int = DESKTOP_PX, theme: Theme = "light"
) -> Iterator[tuple[Page, Watch]]:
    """Somebody with a browser of their own, before they sign in. The policy of the pages holds."""
    context = browser.new_context(
        base_url=url,
        viewport={"width": width_px, "height": HEIGHT_PX.get(width_px, 800)},
        color_scheme=theme,
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    context.set_default_timeout(_PATIENCE_MS)
    expect.set_options(timeout=_PATIENCE_MS)
    try:
        watch = _watched(context, urlsplit(url).netloc)
        yield context.new_page(), watch
    finally:
        context.close()


def _watched(context: BrowserContext, own: str) -> Watch:
    watch = Watch()

    def pass_on(route: Route) -> None:
        address = urlsplit(route.request.url)
        if address.scheme in ("data", "blob") or address.netloc == own:
            route.continue_()
        else:
            watch.external.append(route.request.url)
            route.abort()

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_REFUSED):
            watch.complaints.append(f"console {message.type}: {message.text}")
            watch.forgive_given_up()

    context.route("**/*", pass_on)
    context.on("console", heard)
    context.on("weberror", lambda error: watch.complaints.append(f"exception: {error.error}"))
    return watch


_AT_WORK = ".htmx-request, .htmx-swapping, .htmx-settling, [aria-busy=true], [role=status] progress, .waiting"


def settle(page: Page) -> None:
    """Wait until a page has drawn its charts and no part of it is being loaded or computed."""
    page.wait_for_load_state("load")
    page.wait_for_function(
        "(busy) => !document.querySelector(busy)"
        " && [...document.querySelectorAll('.chart')].every(one => one.querySelector('canvas, svg'))",
        arg=_AT_WORK,
    )


@cache
def _axe_source() -> str:
    return _AXE.read_text(encoding="utf-8")


def axe_violations(page: Page) -> list[str]:
    """What axe-core finds that keeps people out (serious or critical). The debugger brings it in, past the policy."""
    page.evaluate(_axe_source())
    found: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['impact']}: {one['help']} ({one['id']}): {json.dumps([node['target'] for node in one['nodes'][:4]])}"
        for one in found["violations"]
        if one["impact"] in _SERIOUS
    ]
