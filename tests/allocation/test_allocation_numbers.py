"""The numbers in the source of the allocation are those of its page, each with what it is and what chose it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "disco" / "allocation"
TUNED, BOUNDS, FOLLOW = "## Tuned numbers", "### Bounds of memory and of work", "### Numbers that follow"
# No more than there are: a new one takes the place of another, or follows from one.
MOST_TUNED, MOST_BOUNDS = 60, 17


def is_number(node: ast.AST) -> bool:
    """An expression of numbers, constants and small values made of them; neither text nor an array."""
    parts = list(ast.walk(node))
    if any(isinstance(part, ast.Attribute) for part in parts):
        return False
    kinds = {type(part.value) for part in parts if isinstance(part, ast.Constant)}
    return bool(kinds) and kinds <= {int, float}


def constants() -> Iterator[tuple[str, str]]:
    """(module.NAME, value as it is written) of each constant of a module."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for statement in ast.parse(text).body:
            if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name | ast.Tuple):
                continue
            target, value = statement.targets[0], statement.value
            pairs = [(target, value)] if isinstance(target, ast.Name) else zip(target.elts, value.elts, strict=True)
            for name, own in pairs:
                if name.id.isupper() and is_number(own):
                    yield f"{module}.{name.id}", ast.get_source_segment(text, own) or ""


def rows(heading: str) -> dict[str, str]:
    """Number → value of the table of the page below a heading; each cell of a row says something."""
    page = (ROOT / "docs" / "allocation.md").read_text(encoding="utf-8")
    section = re.split(r"^##", page.partition(heading + "\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    cells = [re.split(r" *\| *", line.strip().strip("|").strip()) for line in section.splitlines() if "|" in line]
    named = [row for row in cells if re.fullmatch(r"`[a-z_.]+\.[A-Z_]+`", row[0])]
    assert all(all(row) for row in named)
    return {row[0].strip("`"): row[1].strip("`") for row in named}


def test_every_number_of_the_source_is_on_the_page():
    tables = [rows(heading) for heading in (TUNED, BOUNDS, FOLLOW)]
    assert sum(map(len, tables)) == len(set().union(*tables))
    assert {**tables[0], **tables[1], **tables[2]} == dict(constants())


def test_tuned_numbers_do_not_grow():
    assert len(rows(TUNED)) <= MOST_TUNED
    assert len(rows(BOUNDS)) <= MOST_BOUNDS
