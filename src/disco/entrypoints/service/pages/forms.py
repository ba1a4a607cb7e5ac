"""What a form of a page sent: text by name, as it was typed, and the sentences beside fields that cannot be used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from disco.entrypoints.service.reading import refuse_unkeepable_text
from disco.records.errors import DiscoError, InputError, ServiceError

_MOST_FIELDS = 2_000


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
