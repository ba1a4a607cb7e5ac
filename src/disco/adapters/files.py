"""YAML at the door: no key is given twice, and aliases stay small."""

import re
from pathlib import Path
from typing import Any

import yaml

from disco.records.errors import FileFormatError, InputError

_TAG = "tag:yaml.org,2002:"
_NUMBERS = {
    f"{_TAG}int": re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99})$"),  # a longer one is no number that anybody means
    f"{_TAG}float": re.compile(
        r"(?:[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
_EXPANSION, _ROOM = 10, 100_000  # the content may be ten times as large as the file, and small files larger


def read_yaml(path: Path, *, expected: str = "YAML or JSON in UTF-8") -> Any:
    """The content of a YAML (or JSON) file; None when it is empty."""
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected=expected)
    try:
        text = path.read_text(encoding="utf-8-sig")
        loader = _loader(text)
        node = loader.get_single_node()
        twice = _key_given_twice(node, set())
        _refuse_expansion(node, most=_EXPANSION * len(text) + _ROOM, file=str(path), expected=expected)
        content = None if node is None else loader.construct_document(node)
    except (OSError, RecursionError, UnicodeError, ValueError, yaml.YAMLError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(str(path), found=_in_words(error), expected=expected) from None
    if twice is not None:
        fix = "Remove one of them: it would hide the other."
        raise FileFormatError(str(path), found=f"{twice} twice in one place", expected="each key once", fix=fix)
    return content


def _loader(text: str) -> Any:
    """PyYAML's, without what only YAML 1.1 reads as a value of its own; all of it is text.

    Only true and false are Booleans: NO is Norway, and `on` may name a column. Only decimal numbers are numbers:
    1:30:00 is no number of seconds, 1_000 and 0x1F are refused where a number is needed, and 0777 may be a postal code.
    """
    loader = yaml.SafeLoader(text)
    loader.yaml_implicit_resolvers = {
        first: [
            (tag, _NUMBERS.get(tag, pattern))
            for tag, pattern in resolvers
            if tag != f"{_TAG}value" and (tag != f"{_TAG}bool" or first in "tTfF")
        ]
        for first, resolvers in loader.yaml_implicit_resolvers.items()
    }
    return loader


def _in_words(error: Exception) -> str:
    """What is wrong with the file, with the line where it is known."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        reason = " ".join(str(getattr(error, "problem", error)).split())
        return f"line {mark.line + 1}, column {mark.column + 1}, which is not YAML ({reason})"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1}, which is not UTF-8"
    if isinstance(error, RecursionError):
        return "lists or mappings that are nested too deeply"
    return " ".join(str(error).split())


def _refuse_expansion(node: Any, *, most: int, file: str, expected: str) -> None:
    """Refuse aliases of aliases that would make the content many times larger than the file, or endless."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(part: Any) -> int:
        if part.id == "scalar":
            return len(part.value) + 1
        if id(part) in open_nodes:
            raise FileFormatError(file, found="an alias within the value that it stands for", expected=expected)
        if id(part) not in sizes:
            open_nodes.add(id(part))
            children = part.value if part.id == "sequence" else [one for pair in part.value for one in pair]
            sizes[id(part)] = 1 + sum(size(child) for child in children)
            open_nodes.discard(id(part))
        return sizes[id(part)]

    if node is not None and size(node) > most:
        found = f"aliases that expand to {size(node):.2g} characters"
        raise FileFormatError(file, found=found, expected=expected, fix="Write the values out.")


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
