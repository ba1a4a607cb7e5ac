"""Every error DISCO raises on purpose. Each says what was found, what was expected and what to do.

    DiscoError
    ├── InputError (ValueError)
    │   ├── UsageError
    │   ├── TableError
    │   ├── PlanError
    │   ├── LimitError
    │   ├── FileFormatError
    │   ├── ForbiddenAddressError
    │   └── SignatureError
    ├── SchemaMismatchError
    ├── IllConditionedError
    ├── InfeasibleError
    ├── StateError
    │   ├── ApprovalError
    │   ├── ConflictError
    │   ├── NotFoundError
    │   ├── ReplyConflictError
    │   ├── ReplyInProgressError
    │   ├── RevisionError
    │   ├── RevisionMissingError
    │   ├── SealError
    │   ├── UpgradeError
    │   └── UnavailableError
    ├── AuthenticationError
    ├── RoleError
    ├── ServiceError
    ├── IdentityProviderError
    ├── DeliveryError
    ├── MissingPartError
    ├── ReportError
    └── DefectError
        └── CertificateError

What each means stands at its class, with the exit code of the command line, which never shows a traceback
(DISCO_DEBUG=1: of a DefectError). Values in messages are cut (`MOST_QUOTED`), and what would drive a terminal is
written out.
"""

import re
import reprlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

_MOST_PROBLEMS = 100  # in a message; `.problems` has all of them


class DiscoError(Exception):
    """Base of the tree: `what`, then optionally what was found, what was expected, and the next step."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, found: object = None, expected: object = None, fix: str | None = None) -> None:
        self.what: str = what
        self.found: object = found
        self.expected: object = expected
        self.fix: str | None = fix
        facts = [] if found is None else [f"found {shortened(str(found))}"]
        facts += [] if expected is None else [f"expected {expected}"]
        message = f"{what}: {'; '.join(facts)}" if facts else what
        super().__init__(escaped(f"{message}. {fix}" if fix else message))

    def __reduce__(self) -> tuple[Any, ...]:
        # workers hand errors over pickled, and constructors here take more than the message
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[DiscoError], args: tuple[Any, ...], state: dict[str, Any]) -> DiscoError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class InputError(DiscoError, ValueError):
    """Something handed in cannot be used; nothing was changed."""


class UsageError(InputError):
    """The command line or call itself is wrong."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a table or a plan: where it is, what was found, what was expected, the next step.

    `row` is the first row concerned, as a spreadsheet numbers those of a CSV file (the header is row 1), elsewhere
    counted from 1; `rows` is how many rows are concerned.
    """

    kind: str
    file: str
    column: str
    found: str
    expected: str
    fix: str
    row: int | None = None
    rows: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", shortened(self.found))  # it quotes what was found

    def __str__(self) -> str:
        where = self._place()
        return f"{self.file}, {self._sentence(where)}" if where else f"{self.file}: {self._sentence('')}"

    def within_file(self) -> str:
        """The same without the file, for lists that name it once."""
        return self._sentence(self._place())

    def _place(self) -> str:
        parts = [f"column {self.column}"] if self.column else []
        if self.row is not None:
            parts.append(f"row {self.row}" + (f" (and {self.rows - 1} more)" if self.rows > 1 else ""))
        return ", ".join(parts)

    def _sentence(self, where: str) -> str:
        sentence = f"found {self.found}; expected {self.expected}. {self.fix}".rstrip()
        return f"{where}: {sentence}" if where else sentence

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and for services."""
        return asdict(self)


class _ProblemsError(InputError):
    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        lines = [what, *(f"  {problem}" for problem in self.problems[:_MOST_PROBLEMS])]
        if (more := len(self.problems) - _MOST_PROBLEMS) > 0:
            lines.append(f"  and {more:,} more")
        super().__init__("\n".join(lines))


class TableError(_ProblemsError):
    """A table has problems: all of them, in `.problems`."""


class PlanError(_ProblemsError):
    """A campaign plan or settings file has problems: all of them, in `.problems`."""


class LimitError(InputError):
    """Caps, floors, budget or segments cannot be read as limits."""


class FileFormatError(InputError):
    """A model, evidence or artefact file is damaged or of another kind."""


class ForbiddenAddressError(InputError):
    """A webhook leads to an address that it may not lead to."""


class SignatureError(InputError):
    """A webhook delivery is altered, too old, or not from us."""


class SchemaMismatchError(DiscoError):
    """A context, model or table belongs to another schema."""


class IllConditionedError(DiscoError, ArithmeticError):
    """A posterior cannot be computed to working accuracy; the reason is named."""


class InfeasibleError(DiscoError):
    """Limits contradict each other; `.conflicts` says which and by how much."""

    def __init__(self, what: str, *, conflicts: Sequence[str], fix: str | None = None) -> None:
        self.conflicts: tuple[str, ...] = tuple(conflicts)
        lines = "\n".join([what, *(f"  {conflict}" for conflict in self.conflicts)])
        super().__init__(lines.removesuffix("."), fix=fix)  # a conflict may end in advice of its own


class StateError(DiscoError):
    """The campaign is not in a state that allows this."""


class ConflictError(StateError):
    """Another transaction changed the same rows at this moment; trying again will help."""


class NotFoundError(StateError):
    """Nothing is kept under the name or id that was given."""


class RevisionError(StateError):
    """Somebody else has changed it since it was read."""


class RevisionMissingError(StateError):
    """A change has to say which revision it changes."""


class ReplyConflictError(StateError):
    """An idempotency key was used for another request."""


class ReplyInProgressError(StateError):
    """The request with this idempotency key is still being processed."""


class SealError(StateError):
    """Rows were changed by another program, so that nothing is built on them."""


class UnavailableError(StateError):
    """The database cannot be reached at the moment; trying again may help."""


class UpgradeError(StateError):
    """The database is at another revision than this program."""


class ApprovalError(StateError):
    """A plan needs the approval of a second person."""


class AuthenticationError(DiscoError):
    """The caller is not known: a key, session, password or link is not valid."""


class RoleError(DiscoError):
    """The caller is known, and their role does not allow this."""


class ServiceError(DiscoError):
    """The service refused the request itself: unknown route, too large, too often."""

    def __init__(
        self,
        what: str,
        *,
        status: int,
        kind: str,
        found: object = None,
        expected: object = None,
        fix: str | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        super().__init__(what, found=found, expected=expected, fix=fix)
        self.status, self.kind = status, kind  # of the HTTP reply; the last part of the problem's type
        self.problems: tuple[Problem, ...] = tuple(problems)


class IdentityProviderError(DiscoError):
    """The identity provider cannot be reached, or answers with what cannot be used."""


class DeliveryError(DiscoError):
    """A webhook's receiver did not answer with success; it is tried again."""


class MissingPartError(DiscoError):
    """A library or system part is absent; says how to get it."""


class ReportError(DiscoError):
    """The work is done and kept, but what reports it could not be written."""

    exit_code = 4

    def __init__(self, what: str, *, fix: str | None = None, result: object = None) -> None:
        super().__init__(what, fix=fix)
        self.result = result  # of the work that is done, where it is known


class DefectError(DiscoError):
    """A defect of ours: an unhandled exception."""

    exit_code = 3

    @classmethod
    def of(cls, error: BaseException) -> "DefectError":
        """The sentence about an unhandled exception."""
        what = f"This is a defect of disco or a damaged file ({type(error).__name__}: {shortened(str(error))})"
        return cls(what, fix="Run the command again with DISCO_DEBUG=1 for the details, and report them.")


class CertificateError(DefectError):
    """Our own result failed its independent check; never ignored."""


# ==== what a refusal says: the value that was found, what was expected, and what was probably meant
#
# ---- values of other people: short, on one line, and without characters that drive a terminal


MOST_QUOTED = 200  # characters of one value in a message
_MOST_LISTED = 12

# C0 controls, DEL, C1 controls, marks of direction and of invisible width, line separators, bytes that were no UTF-8
_DRIVING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
)
_IN_TEXT = re.compile(f"[{_DRIVING}]")
_IN_LINE = re.compile(f"[\t\n{_DRIVING}]")
_NAMES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxfrozenset = 6
_SHORT.maxstring = _SHORT.maxother = MOST_QUOTED
_SHORT.maxlong = 60


def escaped(text: str) -> str:
    """Text of several lines, with what would drive a terminal written out.

    >>> escaped("a\\x1b[2J b\\u202e\\n"), escaped("caf\\udce9")
    ('a\\\\x1b[2J b\\\\u202e\\n', 'caf\\\\xe9')
    """
    return _IN_TEXT.sub(_written_out, text)


def one_line(text: str) -> str:
    """The same for a cell or a quoted value: line breaks and tabs are written out as well.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return _IN_LINE.sub(_written_out, text)


def shortened(text: str, *, most: int = MOST_QUOTED) -> str:
    """A value on one line, cut after `most` characters.

    >>> shortened("x" * 1000, most=5)
    'xxxxx… (1,000 characters)'
    """
    if len(text) <= most:
        return one_line(text)
    return f"{one_line(text[:most])}… ({len(text):,} characters)"


def quoted(value: object) -> str:
    """Its `repr`, short however large the value is: nested collections are not spelled out.

    >>> quoted("=1+1"), quoted({"a": [[[["deep"]]]]})
    ("'=1+1'", "{'a': [[[...]]]}")
    """
    return shortened(_SHORT.repr(value))


def as_given(value: object) -> str:
    """The `repr` of a value that somebody gave; whoever shows it shortens it.

    >>> as_given("a"), as_given(16**5000)
    ("'a'", 'a number of more than 4,300 digits')
    """
    try:
        return repr(value)
    except ValueError:  # Python does not write out longer ones
        return f"a number of more than {sys.get_int_max_str_digits():,} digits"


def _written_out(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that Python could not decode
        code -= 0xDC00
    return _NAMES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


# ---- what was expected, in our own words instead of the library's


_WORDS = {
    "string_type": "text",
    "string_too_short": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list, such as [a, b]",
    "list_type": "a list, such as [a, b]",
    "dict_type": "keys and values, such as {name: value}",
    "too_short": "at least one entry",
    "model_type": "keys and values, such as {name: value}",
    "model_attributes_type": "keys and values, such as {name: value}",
}
_DAY = "a day such as 2027-03-01"


def expected_of(detail: Any) -> str:
    """The words for one error of pydantic (an item of `ValidationError.errors()`).

    >>> expected_of({"type": "date_from_datetime_parsing", "msg": "Input should be a valid date or datetime, …"})
    'a day such as 2027-03-01'
    >>> expected_of({"type": "greater_than", "msg": "Input should be greater than 0"})
    'greater than 0'
    """
    kind = str(detail["type"])
    if kind.startswith("date"):
        return _DAY
    return _WORDS.get(kind) or str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")


# ---- what was probably meant


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The question after a word that is not known, whatever its case; None where nothing comes close.

    >>> did_you_mean("Purchse", ["purchase", "refund"]), did_you_mean("x", ["refund"])
    ('Did you mean purchase?', None)
    """
    plain = {other.strip().casefold(): other for other in known}
    near = get_close_matches(name.strip().casefold(), plain, n=1)
    return f"Did you mean {plain[near[0]]}?" if near else None


def listed(names: Sequence[str]) -> str:
    """The first dozen of the names that there are.

    >>> listed(["a", "b"]), listed(list("abcdefghijklmn"))
    ('a, b', 'a, b, c, d, e, f, g, h, i, j, k, l…')
    """
    return ", ".join(names[:_MOST_LISTED]) + ("…" if len(names) > _MOST_LISTED else "")
