"""The documentation site names every page, every public name and every route. `./run docs` builds it and `./run drill
site` asks it questions; both take too long for a test."""

import json
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import disco

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
HOOKS = SimpleNamespace(**runpy.run_path(str(DOCS / "site_hooks.py")))
MADE = {*HOOKS.ROOT_PAGES, *HOOKS.reference_pages(disco._HOME_OF), "http.md"}


def _named(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    parts = part.values() if isinstance(part, dict) else part
    return [name for one in parts for name in _named(one)]


def test_the_navigation_names_every_page_once_and_no_other() -> None:
    named = _named(HOOKS.navigation((DOCS / "README.md").read_text(encoding="utf-8")))
    pages = {page.name for page in DOCS.glob("*.md")} | MADE | {"decisions/README.md"}
    assert sorted(named) == sorted(pages)


def test_the_reference_describes_every_public_name_once() -> None:
    pages = HOOKS.reference_pages(disco._HOME_OF)
    described = [name for text in pages.values() for name in re.findall(r"^::: disco\.(\w+)$", text, re.MULTILINE)]
    assert sorted(described) == sorted(set(disco.__all__) - {"__version__"})
    listed = re.findall(r"^\| \[`disco\.(\w+)`\]\((\w+\.md)#", pages["reference/index.md"], re.MULTILINE)
    assert all(f"::: disco.{name}\n" in pages[f"reference/{page}"] for name, page in listed)
    assert sorted(name for name, _ in listed) == sorted(described)


def test_the_page_of_the_http_api_has_every_route_with_its_fields() -> None:
    document = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))
    page = HOOKS.http_page(document)
    routes = {f"## {method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert routes == set(re.findall(r"^## .*$", page, re.MULTILINE))
    assert re.search(r"\| `plan_id` \| body", page)


def test_links_of_the_site_stay_in_it() -> None:
    pages = {str(page.relative_to(DOCS)): page for page in DOCS.rglob("*.md")}
    pages |= {name: ROOT / file for name, file in HOOKS.ROOT_PAGES.items()}
    there, broken = {*pages, *MADE}, []
    for name, file in pages.items():
        text = HOOKS.linked(file.read_text(encoding="utf-8"), page=name)
        for target in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text):
            place = ((DOCS / name).parent / target).resolve().relative_to(DOCS).as_posix()
            if place not in there and not (DOCS / place).is_file():
                broken.append(f"{name} → {target}")
    assert broken == []


def test_a_docstrings_parameters_and_example_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object, Object=object))
    as_markdown = runpy.run_path(str(DOCS / "docstrings.py"))["as_markdown"]
    text = "Double it.\n\nnumber: any,\n    also negative\nname: of it\n\n>>> double(2)\n4"
    assert as_markdown(text) == (
        "Double it.\n\n- `number`: any,\n  also negative\n- `name`: of it\n\n```python\n>>> double(2)\n4\n```"
    )
