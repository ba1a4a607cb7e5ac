"""The numbers in the source of the allocation are those of its page, each with what it is and what chose it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "disco" / "allocation"
# No more than there are: a new one takes the place of another, or follows from one.
MOST_TUNED = 88


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


def rows(columns: int) -> dict[str, str]:
    """Number → value of the table of the page with so many columns."""
    page = (ROOT / "docs" / "allocation.md").read_text(encoding="utf-8")
    cells = [re.split(r" *\| *", line.strip().strip("|").strip()) for line in page.splitlines() if "|" in line]
    named = [row for row in cells if len(row) == columns and re.fullmatch(r"`[a-z_.]+\.[A-Z_]+`", row[0])]
    return {row[0].strip("`"): row[1].strip("`") for row in named}


def test_every_number_of_the_source_is_on_the_page():
    tuned, fixed = rows(4), rows(3)
    assert not set(tuned) & set(fixed)
    assert {**tuned, **fixed} == dict(constants())


def test_tuned_numbers_do_not_grow():
    assert len(rows(4)) <= MOST_TUNED
