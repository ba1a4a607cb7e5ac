"""Every page of the console in a real browser: it asks for nothing elsewhere, complains of nothing, and fits."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import console_browser
import pytest
from console_browser import DESKTOP_PX, PHONE_PX, axe_violations, chromium, settle, visitor
from console_shop import PAGES, demo_shop, served_demo
from playwright.sync_api import Browser

from disco.records.errors import MissingPartError
from disco.reports.picture import find_browser

VENDOR = Path(console_browser.__file__).parent / "vendor"
LOOKS = [(DESKTOP_PX, "light"), (PHONE_PX, "dark")]  # both widths, both themes
LOOKED_AT = ("sign-in", "campaigns", "campaign", "campaign-running")


def test_the_vendored_checker_has_the_recorded_hash() -> None:
    recorded = json.loads((VENDOR / "vendored.json").read_text(encoding="utf-8"))
    ours = {"README.md", "vendored.json"}
    found = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in VENDOR.iterdir() if one.name not in ours}
    assert found == recorded["sha256"]
    (axe,) = recorded["components"]
    assert f"axe v{axe['version']}" in (VENDOR / "axe.min.js").read_text(encoding="utf-8")[:100]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        find_browser()
    except MissingPartError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: {missing}")
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def served(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("console")
    with served_demo(demo_shop(folder / "demo"), folder / "server.log") as started:
        yield started


@pytest.mark.parametrize(("width_px", "theme"), LOOKS)
def test_every_page_is_open_to_everybody_and_fits(
    browser: Browser, served: dict[str, Any], width_px: int, theme: console_browser.Theme
) -> None:
    found = []
    with visitor(browser, served["url"], width_px=width_px, theme=theme) as (page, watch):
        page.goto(served["demo"])
        for name in LOOKED_AT:
            reply = page.goto(PAGES[name])
            settle(page)
            if reply is None or not reply.ok:
                found.append(f"{name}: {reply and reply.status}")
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > width_px:
                found.append(f"{name}: {wide} px wide")
            found += [f"{name}: {said}" for said in (*watch.take(), *axe_violations(page))]
    assert not found, "\n".join(found)
