"""Files at the door: YAML in which no key is given twice."""

from pathlib import Path
from typing import Any

from disco.records.errors import FileFormatError, InputError


def read_yaml(path: Path, *, expected: str = "YAML or JSON in UTF-8") -> Any:
    """The content of a YAML (or JSON) file; None when it is empty."""
    import yaml

    if not path.is_file():
        raise InputError(str(path), found="no such file", expected=expected)
    try:
        text = path.read_text(encoding="utf-8-sig")
        twice = _key_given_twice(yaml.compose(text, Loader=yaml.SafeLoader), set())
        content = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise FileFormatError(str(path), found=" ".join(str(error).split()), expected=expected) from None
    if twice is not None:
        fix = "Remove one of them: it would hide the other."
        raise FileFormatError(str(path), found=f"{twice} twice in one place", expected="each key once", fix=fix)
    return content


def _key_given_twice(node: Any, visited: set[int]) -> str | None:
    """A key that stands twice in one mapping (0.1 and 0.10 are one), which YAML answers with the last of them."""
    if node is None or node.id == "scalar" or id(node) in visited:
        return None
    visited.add(id(node))
    if node.id == "sequence":
        return next((found for child in node.value if (found := _key_given_twice(child, visited))), None)
    keys: set[object] = set()
    for key, value in node.value:
        name = _number_or_text(key.value) if key.id == "scalar" else id(key)
        if name in keys:
            return str(key.value)
        keys.add(name)
        if (found := _key_given_twice(value, visited)) is not None:
            return found
    return None


def _number_or_text(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text
