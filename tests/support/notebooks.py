"""Notebooks of examples/, run cell by cell in one namespace: neither a kernel nor a notebook program is needed."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["metadata"]["language_info"]["name"]) == (4, "python")
    cells: list[dict[str, Any]] = content["cells"]
    return cells


def run(notebook: Path) -> dict[str, Any]:
    """The names after the last cell."""
    names: dict[str, Any] = {}
    for place, cell in enumerate(cells_of(notebook)):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {place}", "exec"), names)
    return names
