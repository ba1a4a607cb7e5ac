"""`./run drill site`: the built site in a browser without a network, and ten questions that its search answers.

Every page is looked at for addresses elsewhere. Then the site is opened from its folder, as somebody would who was sent
it, each question's words are typed into the search, and the page that answers must be among the first five.
"""

import argparse
import re
import sys
import time
from pathlib import Path

from console_browser import chromium
from playwright.sync_api import Page, Route

ROOT = Path(__file__).parents[2]
FIRST = 5
# a question, the words that somebody types who has not read the pages, and the pages of which one answers it
QUESTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("How do I install it without a clone?", "install wheel", ("install",)),
    ("Which columns does my table of orders need?", "orders columns", ("tables",)),
    ("How do I limit how often a customer gets a code?", "contact limit codes per customer", ("plan",)),
    ("How do I get the codes into Klaviyo?", "klaviyo", ("export",)),
    ("Why did this customer get this code?", "explain customer", ("cli", "campaign-life", "console", "http", "python")),
    ("How do I delete what is kept about a customer?", "forget customer", ("privacy", "cli")),
    ("How do I make an API key?", "create api key", ("people", "cli", "service")),
    ("How do I restore a backup?", "restore backup", ("database", "deploy")),
    ("What is a shadow price?", "shadow price", ("glossary", "allocation", "maths")),
    ("How do codes get into our warehouse?", "export warehouse table", ("warehouses",)),
)
_ADDRESS = re.compile(r"""(?:src|href)=["'](https?://[^"']+)|url\((https?://[^)]+)\)|@import ["'](https?://[^"']+)""")


def main(site: Path) -> int:
    if not (site / "index.html").is_file():
        raise SystemExit(f"{site}: no site; run `./run docs` first")
    problems = [f"{page}: {address}" for page, address in external(site)]
    pages = len(list(site.rglob("*.html")))
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    with chromium() as browser:
        context = browser.new_context(offline=True)
        context.route(re.compile(r"^https?://"), refuse)
        page = context.new_page()
        page.goto((site / "index.html").resolve().as_uri())
        for question, words, answers in QUESTIONS:
            started = time.monotonic()
            found = search(page, words)
            place = next((at for at, name in enumerate(found, 1) if name in answers), None)
            print(
                f"{time.monotonic() - started:5.1f} s  {place or '-':>2}  {question:55} {words!r}: {', '.join(found)}"
            )
            if place is None:
                problems.append(f"{question} {words!r}: none of {', '.join(answers)} among {', '.join(found)}")
    problems += [f"asked for {address}" for address in asked]
    print(f"{pages} pages, {len(QUESTIONS)} questions, {len(problems)} problems")
    print("".join(f"  {problem}\n" for problem in problems), end="")
    return 1 if problems else 0


def external(site: Path) -> list[tuple[str, str]]:
    """(page, address) of whatever a browser would fetch from elsewhere; links that people may follow are none."""
    found = []
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        text = re.sub(r"<a [^>]*>", "", file.read_text(encoding="utf-8"))
        found += [
            (str(file.relative_to(site)), next(filter(None, match.groups()))) for match in _ADDRESS.finditer(text)
        ]
    return found


def search(page: Page, words: str) -> list[str]:
    """The names of the first pages that the site's own search shows."""
    box = page.locator("input.md-search__input")
    box.click()
    box.clear()
    box.press_sequentially(words)
    page.wait_for_function("document.querySelectorAll('.md-search-result__item').length > 0")
    page.wait_for_timeout(1500)  # the list is drawn anew with each letter
    links = page.locator(".md-search-result__item > .md-search-result__link").evaluate_all(
        "links => links.map(link => link.href)"
    )
    names = [re.sub(r".*/site/|\.html.*", "", link) for link in links]
    return list(dict.fromkeys(names))[:FIRST]


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("site", nargs="?", default=ROOT / "out" / "site", type=Path)
    sys.exit(main(options.parse_args().site))
