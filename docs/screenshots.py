"""`./run screenshots [FOLDER]`: every page of the console at both widths and in both themes, and its complaints.

The demo's shop is made below the folder (once), served with its worker on a free port of loopback, and looked at with
Debian's Chromium. index.html shows all pictures side by side. The exit code is 1 where a page is missing, asked for
something elsewhere, or wrote an error to the console.

`./run screenshots --docs` takes the three pictures of README and docs instead, of the demo in out/demo.
"""

import argparse
import sys
import time
from html import escape
from pathlib import Path

from console_browser import DESKTOP_PX, PHONE_PX, Theme, chromium, settle, visitor
from console_shop import PAGES, demo_shop, served_demo
from playwright.sync_api import Error, Page

_CUSTOMERS = 10_000
_LOOKS: tuple[tuple[int, Theme], ...] = (
    (DESKTOP_PX, "light"),
    (DESKTOP_PX, "dark"),
    (PHONE_PX, "light"),
    (PHONE_PX, "dark"),
)

_LONGEST_MS = 180_000  # customers of the whole demo are opened first
_IMAGES = Path(__file__).parent / "images"
_IN_DOCS = {"planner": ("/plan/F", 860), "demand": ("/demand", 860), "results": ("/campaigns/D/results", 900)}
_DRAWN = {"planner": "table.allocation", "demand": ".chart canvas, .chart svg", "results": ".chart canvas, .chart svg"}


def main(folder: Path, *, shop: Path | None, only: list[str]) -> int:
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    made = demo_shop(shop or folder / "shop", customers=_CUSTOMERS)
    wanted = {name: address for name, address in PAGES.items() if not only or name in only}
    problems: list[str] = []
    with served_demo(made, folder / "server.log") as served, chromium() as browser:
        for width_px, theme in _LOOKS:
            with visitor(browser, served["url"], width_px=width_px, theme=theme) as (page, watch):
                if "sign-in" in wanted:
                    problems += _taken(page, folder, "sign-in", wanted["sign-in"], width_px, theme)
                page.goto(served["demo"])
                for name, address in wanted.items():
                    if name != "sign-in":
                        problems += _taken(page, folder, name, address, width_px, theme)
                    problems += [f"{name}, {width_px} px, {theme}: {said}" for said in watch.take()]
    (folder / "index.html").write_text(_sheet(wanted, problems), encoding="utf-8")
    pictures = f"{len(_LOOKS) * len(wanted)} pictures in {time.monotonic() - began:.0f} s"
    sys.stdout.write("".join(f"{line}\n" for line in (*problems, f"{folder / 'index.html'}: {pictures}")))
    return 1 if problems else 0


def _taken(page: Page, folder: Path, name: str, address: str, width_px: int, theme: Theme) -> list[str]:
    """The picture; what is wrong with the page as a whole."""
    where, problems = f"{name}, {width_px} px, {theme}", []
    try:
        reply = page.goto(address)
        if reply is None or not reply.ok:
            problems.append(f"{where}: {address} answered {'nothing' if reply is None else reply.status}")
        settle(page)
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width_px:
            problems.append(f"{where}: the page is {wide} px wide")
    except Error as error:
        problems.append(f"{where}: {error.message.splitlines()[0]}")
    page.screenshot(path=folder / _file(name, width_px, theme), full_page=True)
    return problems


def take_for_docs(shop: Path) -> None:
    """The pictures of README and docs: the first screen of three pages, at the desktop's width."""
    with (
        served_demo(shop, shop.parent / "server.log") as served,
        chromium() as browser,
        visitor(browser, served["url"], width_px=DESKTOP_PX) as (page, _),
    ):
        page.set_default_timeout(_LONGEST_MS)
        page.goto(served["demo"])
        for name, (address, height_px) in _IN_DOCS.items():
            page.set_viewport_size({"width": DESKTOP_PX, "height": height_px})
            page.goto(address)
            page.locator(_DRAWN[name]).first.wait_for()
            settle(page)
            page.screenshot(path=_IMAGES / f"console-{name}.png")


def _file(name: str, width_px: int, theme: Theme) -> str:
    return f"{name}-{width_px}-{theme}.png"


def _sheet(pages: dict[str, str], problems: list[str]) -> str:
    """A contact sheet."""
    rows = "\n".join(
        f"<h2>{escape(name)} <code>{escape(address)}</code></h2><div>"
        + "".join(f'<a href="{file}"><img src="{file}" loading="lazy" alt="{file}"></a>' for file in files)
        + "</div>"
        for name, address in pages.items()
        if (files := [_file(name, width_px, theme) for width_px, theme in _LOOKS])
    )
    found = "".join(f"<li>{escape(line)}</li>" for line in problems) or "<li>none</li>"
    return _SHEET.format(found=found, rows=rows)


_SHEET = """<!doctype html>
<meta charset="utf-8">
<title>The console</title>
<style>
body {{ font-family: sans-serif; margin: 2rem }}
div {{ display: flex; gap: 1rem; align-items: start }}
img {{ width: 22rem; border: 1px solid #999 }}
</style>
<h1>The console</h1>
<p>Problems:</p>
<ul>{found}</ul>
{rows}
"""


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", nargs="?", default="out/screenshots", type=Path)
    options.add_argument("--shop", type=Path, help="a shop that `disco demo` made, instead of a new one")
    options.add_argument("--only", nargs="*", choices=PAGES, default=[], help="only these pages")
    options.add_argument("--docs", action="store_true", help="only the three pictures of README and docs")
    given = options.parse_args()
    if given.docs:
        take_for_docs(demo_shop(given.shop or Path("out/demo"), customers=50_000))
        sys.exit()
    sys.exit(main(given.folder, shop=given.shop, only=given.only))
