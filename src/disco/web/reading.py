"""Bodies at the door: JSON that means one thing only, uploads, written to disk as they come, and forms of pages.

Refused: NaN and Infinity, numbers that a double cannot hold, a key that is given twice, deep nesting, text that no
database can keep (NUL, halves of surrogate pairs), and bodies above their limit.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from math import isinf
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn
from urllib.parse import parse_qsl

from anyio import to_thread
from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict

from disco.records.errors import DiscoError, InputError, ServiceError, quoted
from disco.records.files import temporary_folder

DEEPEST = 40
_MOST_DIGITS = 400  # of a whole number; a double ends at 309
_MOST_CONTAINERS = 500_000  # lists and objects: each takes 60 to 250 bytes, but two in the text
_MOST_FIELDS = 2_000  # of a form
_UNKEEPABLE = re.compile("[\0\ud800-\udfff]")


class RequestBody(BaseModel):
    """What the body of every JSON request has in common: unknown keys and infinite numbers are refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)


def read_json(content: bytes) -> Any:
    """The value of a JSON text."""
    if content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS:
        raise _refused("more than that", f"at most {_MOST_CONTAINERS:,} lists and objects")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(f"byte {error.start + 1}, which is not UTF-8") from None
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_unique,
        )
    except json.JSONDecodeError as error:
        raise _refused(f"line {error.lineno}, column {error.colno}, which is not JSON ({error.msg})") from None
    except RecursionError:
        raise _refused("lists or objects that are nested too deeply") from None
    _refuse_unkeepable(value)
    return value


def _refused(found: str, expected: str = "JSON in UTF-8") -> ServiceError:
    return ServiceError("body", status=400, kind="body", found=found, expected=expected)


def _refuse_constant(name: str) -> NoReturn:
    raise _refused(name, "finite numbers, or null where there is none")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise _refused(text[:40], "numbers that a double can hold")
    return number


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise _refused(f"a number of {len(text)} digits", "numbers that a double can hold")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _refused(f"the key {quoted(twice)} twice in one object", "each key once")
    return found


def _refuse_unkeepable(value: Any, depth: int = 0) -> None:
    if depth > DEEPEST:
        raise _refused("lists or objects that are nested too deeply", f"at most {DEEPEST} levels")
    if isinstance(value, str):
        refuse_unkeepable_text(value, where="body")
    elif isinstance(value, dict):
        for name, part in value.items():
            refuse_unkeepable_text(name, where="body")
            _refuse_unkeepable(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _refuse_unkeepable(part, depth + 1)


def refuse_unkeepable_text(text: str, *, where: str) -> None:
    """Neither database can keep NUL or half of a surrogate pair."""
    if _UNKEEPABLE.search(text):
        found, expected = f"{quoted(text)}, which has characters that cannot be kept", "text without NUL"
        raise ServiceError(where, status=400, kind="body", found=found, expected=expected)


@asynccontextmanager
async def uploaded(request: Request, *, name: str) -> AsyncIterator[tuple[Path, str]]:
    """The body as a file of this name in a temporary folder, which is gone after the block; and its SHA-256."""
    manager = temporary_folder("upload")
    folder = await to_thread.run_sync(manager.__enter__)
    try:
        path, digest = folder / name, sha256()
        with path.open("wb") as file:
            async for part in request.stream():
                digest.update(part)
                await to_thread.run_sync(file.write, part)
        yield path, digest.hexdigest()
    finally:
        await to_thread.run_sync(manager.__exit__, None, None, None)


# ---- forms of pages ----


@dataclass(frozen=True, slots=True)
class Form:
    """Fields by name. A name that was sent several times keeps all of its texts."""

    sent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """The text of a field without blanks at its ends; the last one where there are several."""
        return self.sent[name][-1].strip() if name in self.sent else default

    def as_typed(self, name: str) -> str:
        """The same with its blanks, which belong to a password."""
        return self.sent[name][-1] if name in self.sent else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """All texts of a field, as for boxes that are ticked."""
        return self.sent.get(name, ())

    def __contains__(self, name: str) -> bool:
        return name in self.sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What a form holds: the texts as they were typed, and the sentences beside those that cannot be used."""

    texts: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        return self.texts.get(name, default)

    def error(self, name: str) -> str:
        return self.errors.get(name, "")

    @classmethod
    def refused(cls, form: Form, error: DiscoError, *, names: Mapping[str, str], otherwise: str) -> "Typed":
        """names: the field of each `what` of an error; otherwise: the field of all other errors."""
        return cls(
            texts={name: form.text(name) for name in form.sent},
            errors={names.get(error.what, otherwise): sentence(error)},
        )


def sentence(error: DiscoError) -> str:
    """What is wrong with the text of a field, beside that field: its name is not said again."""
    if not isinstance(error, InputError) or error.expected is None:
        return str(error)
    words = f"Found {error.found}; expected {error.expected}."
    return f"{words} {error.fix}" if error.fix else words


EMPTY = Typed()
"""A form before anybody has typed."""


async def form_of(request: Request) -> Form:
    """The fields in the body of a request (`application/x-www-form-urlencoded`)."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/x-www-form-urlencoded":
        raise ServiceError(
            "Content-Type", status=415, kind="content-type", found=kind[:100] or "none", expected="the fields of a form"
        )
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise ServiceError(
            "body", status=400, kind="body", found="bytes that are no form", expected="the fields of a form in UTF-8"
        ) from None
    sent: dict[str, tuple[str, ...]] = {}
    for name, text in pairs:
        refuse_unkeepable_text(text, where="body")
        sent[name] = (*sent.get(name, ()), text)
    return Form(sent)


FormOf = Annotated[Form, Depends(form_of)]
