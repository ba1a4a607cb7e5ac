"""A public class name exists once, so that a name in an error, a page or a search leads to one place."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "disco"


def test_no_public_class_name_is_defined_twice():
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
