"""Docstrings as Markdown: a list of parameters stays a list, and an example stays one, wherever it stands."""

import re
from typing import Any

import griffe

_PARAMETERS = re.compile(r"[a-z_][\w.]*(, [a-z_][\w.]*)*: \S")


class Docstrings(griffe.Extension):
    """Changes the docstrings that the reference shows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """The text with its parameters as items of a list and its doctests as blocks of code."""
    return "\n\n".join(map(_paragraph, re.split(r"\n\s*\n", text.strip())))


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if lines[0].lstrip().startswith(">>>"):
        return "\n".join(["```python", *lines, "```"])
    if not _PARAMETERS.match(lines[0]):
        return text
    listed = []
    for line in lines:
        name, _, meaning = line.partition(": ")
        if _PARAMETERS.match(line):
            listed.append(f"- {', '.join(f'`{one}`' for one in name.split(', '))}: {meaning}")
        else:
            listed.append(f"  {line.strip()}")
    return "\n".join(listed)
