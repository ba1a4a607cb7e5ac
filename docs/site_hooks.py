"""The documentation site: pages that stand there alone, and links that lead out of the folder of pages.

MkDocs calls the functions whose names begin with `on_` (mkdocs.yml, `hooks`). The reference is made from the table of
public names, so that none can be left out, and the page of the HTTP API from openapi.json.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
ROOT_PAGES = {
    "overview.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "code-of-conduct.md": "CODE_OF_CONDUCT.md",
}
"""Pages of the site → the files beside docs/ that they are."""
REFERENCE = {
    "shop": ("A shop", ("entrypoints", "office")),
    "deciding": ("Deciding", ("campaign", "policy", "allocation", "records", "operations")),
    "belief": ("Belief", ("belief",)),
    "features": ("Features and contexts", ("features",)),
    "evaluation": ("Evaluation", ("evaluation",)),
    "tables": ("Tables and engines", ("adapters",)),
    "modules": ("Errors and other modules", ("",)),
}
"""Pages of the reference: their titles, and the rooms whose public names they describe ("": modules of their own)."""
_WEIGHTS = {"glossary.md": 4.0, "plan.md": 2.0, "warehouses.md": 2.0, "changelog.md": 0.2, "reproduction.md": 0.2}
_WEIGHTS |= {"calibration.md": 0.3, "json.md": 0.5, "http.md": 0.5}
_WEIGHTS_OF_FOLDERS = {"decisions": 0.1, "reference": 0.5}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?://)([^)\s]+)\)")


def reference_pages(homes: Mapping[str, str]) -> dict[str, str]:
    """Markdown of the reference by page; homes: public name → its module (`disco._HOME_OF`)."""
    page_of = {room: page for page, (_, rooms) in REFERENCE.items() for room in rooms}
    names: dict[str, list[str]] = {page: [] for page in REFERENCE}
    for name, home in sorted(homes.items()):
        room = home.partition(".")[2].partition(".")[0]
        if room not in page_of:
            raise SystemExit(f"docs/site_hooks.py: REFERENCE has no page for names of {home}, such as {name}")
        names[page_of[room]].append(name)
    index = [
        "# Reference",
        "",
        "Every public name of `disco`, from its docstrings.",
        "",
        "| Name | Page |",
        "|---|---|",
    ]
    pages = {}
    for page, (title, _) in REFERENCE.items():
        pages[f"reference/{page}.md"] = "\n".join([f"# {title}", *(f"\n::: disco.{name}" for name in names[page]), ""])
        index += [f"| [`disco.{name}`]({page}.md#disco.{name}) | {title} |" for name in names[page]]
    return pages | {"reference/index.md": "\n".join(index) + "\n"}


def http_page(document: Mapping[str, Any]) -> str:
    """Markdown of every route of an OpenAPI document."""
    parts = ["# The HTTP API", "", document["info"]["description"], ""]
    parts += ["[openapi.json](openapi.json) is the same for programs. [service.md](service.md) walks through it.", ""]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            parts += [f"## {method.upper()} {path}", "", f"{route['summary']}.", "", route.get("description", ""), ""]
            rows = [_parameter(one) for one in route.get("parameters", ()) if one["name"] != "Idempotency-Key"]
            rows += _body(route, document["components"]["schemas"])
            if rows:
                parts += ["| Name | In | Meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(parts)


def _parameter(one: Mapping[str, Any]) -> str:
    needed = "" if one.get("required") else ", optional"
    return f"| `{one['name']}` | {one['in']}{needed} | {_cell(one.get('description', ''))} |"


def _body(route: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[str]:
    given = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = schemas.get(given.get("$ref", "").rsplit("/", 1)[-1], given)
    needed = schema.get("required", ())
    return [
        f"| `{name}` | body{'' if name in needed else ', optional'} | {_cell(field.get('description', ''))} |"
        for name, field in schema.get("properties", {}).items()
    ]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def linked(markdown: str, *, page: str) -> str:
    """The text with its links as the site has them; a file that is no page of it is named without a link.

    page: the path of the page within the site.
    """
    origin = (ROOT / ROOT_PAGES[page]).parent if page in ROOT_PAGES else (DOCS / page).parent
    up = "../" * page.count("/")

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        place = _place(target, origin)
        return f"[{text}]({up}{place}{anchor})" if place is not None else text if text.startswith("`") else f"`{text}`"

    text = _LINK.sub(link, markdown)
    return _IMAGE.sub(lambda match: f"![{match[1]}]({up}{_place(match[2], origin)})", text)


def navigation(index: str) -> list[dict[str, Any]]:
    """The parts of the site: those of docs/README.md (`index`) in their order; Reference is the last."""
    parts: list[dict[str, Any]] = [{"Home": "README.md"}]
    for section in index.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        targets = [
            target for line in text.splitlines() if line.startswith("- ") for _, target, _ in _LINK.findall(line)
        ]
        pages = [_place(target, DOCS) for target in targets]
        parts.append({title.strip(): [page for page in dict.fromkeys(pages) if page is not None]})
    parts[-1]["Reference"] += [f"reference/{page}.md" for page in ("index", *REFERENCE)] + ["http.md"]
    return parts


def _place(target: str, origin: Path) -> str | None:
    """The page of the site that a link leads to, seen from a folder; None: it is no page of it."""
    found = (origin / target).resolve()
    for name, file in ROOT_PAGES.items():
        if found == (ROOT / file).resolve():
            return name
    if found.is_dir():
        found = found / "README.md"
    return found.relative_to(DOCS).as_posix() if found.is_relative_to(DOCS) else None


def on_config(config: Any) -> Any:
    """Order the pages as docs/README.md does, so that a new page has to be named in one place."""
    config.nav = navigation((DOCS / "README.md").read_text(encoding="utf-8"))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that have no file in docs/."""
    from mkdocs.structure.files import File

    import disco

    made = {name: (ROOT / file).read_text(encoding="utf-8") for name, file in ROOT_PAGES.items()}
    made |= reference_pages(disco._HOME_OF)
    made["http.md"] = http_page(json.loads((DOCS / "openapi.json").read_text(encoding="utf-8")))
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links as the site has them, and how far up the search shows the page."""
    name = page.file.src_uri
    page.meta["search"] = {"boost": _WEIGHTS.get(name, _WEIGHTS_OF_FOLDERS.get(name.partition("/")[0], 1.0))}
    return markdown if name.startswith("reference/") or name == "http.md" else linked(markdown, page=name)
