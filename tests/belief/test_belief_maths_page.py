"""docs/maths.md names only what exists."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "maths.md"
NAMES = sorted(set(re.findall(r"\| `(disco(?:\.\w+)+)` \|$", PAGE.read_text(), re.MULTILINE)))


def test_every_row_of_every_table_names_something():
    lines = PAGE.read_text().splitlines()
    rows = [line for line in lines if line.startswith("|") and "---" not in line and "Name in code" not in line]
    assert len(rows) > 40
    assert [row for row in rows if not re.search(r"\| `disco(\.\w+)+` \|$", row)] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_name_exists(name):
    parts = name.split(".")
    found = importlib.import_module(".".join(parts[:2]))
    for part in parts[2:]:
        assert part in dir(found) or part in getattr(found, "__dataclass_fields__", {}), f"{name} does not exist"
        found = getattr(found, part, found)
