"""Every error DISCO raises on purpose. Each says what was found, what was expected and what to do.

    DiscoError
    ├── InputError (ValueError)      something handed in cannot be used; nothing was changed
    │   ├── UsageError               the command line or call itself is wrong
    │   ├── TableError               a table has problems: all of them, in `.problems`
    │   ├── PlanError                a campaign plan or settings file has problems: all of them, in `.problems`
    │   ├── LimitError               caps, floors, budget or segments cannot be read as limits
    │   ├── FileFormatError          a model, evidence or artefact file is damaged or of another kind
    │   ├── ForbiddenAddressError    a webhook leads to an address that it may not lead to
    │   └── SignatureError           a webhook delivery is altered, too old, or not from us
    ├── SchemaMismatchError          a context, model or table belongs to another schema
    ├── IllConditionedError          a posterior cannot be computed to working accuracy; the reason is named
    ├── InfeasibleError              limits contradict each other; `.conflicts` says which and by how much
    ├── StateError                   the campaign is not in a state that allows this
    │   ├── ApprovalError            a plan needs the approval of a second person
    │   ├── ConflictError            another transaction changed the same rows at this moment; trying again will help
    │   ├── NotFoundError            nothing is kept under the name or id that was given
    │   ├── ReplyConflictError       an idempotency key was used for another request
    │   ├── ReplyInProgressError     the request with this idempotency key is still being processed
    │   ├── RevisionError            somebody else has changed it since it was read
    │   ├── RevisionMissingError     a change has to say which revision it changes
    │   ├── SealError                rows were changed by another program, so that nothing is built on them
    │   ├── UpgradeError             the database is at another revision than this program
    │   └── UnavailableError         the database cannot be reached at the moment; trying again may help
    ├── AuthenticationError          nobody knows who calls: a key, session, password or link that is not valid
    ├── RoleError                    the caller is known, and their role does not allow this
    ├── ServiceError                 the service refused the request itself: unknown route, too large, too often
    ├── IdentityProviderError        the identity provider cannot be reached, or answers with what cannot be used
    ├── DeliveryError                a webhook's receiver did not answer with success; it is tried again
    ├── MissingPartError             a library or system part is absent; says how to get it
    ├── ReportError                  the work is done and kept, but what reports it could not be written
    └── DefectError                  a defect of ours: an exception that nothing of ours expected
        └── CertificateError         our own result failed its independent check, never ignored

Each class carries the exit code of the command line, which never shows a traceback (DISCO_DEBUG=1: of a DefectError).
Values in messages are cut (`MOST_QUOTED`), and what would drive a terminal is written out.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from disco.records.refusals import escaped, shortened

_MOST_PROBLEMS = 100  # in a message; `.problems` has all of them


class DiscoError(Exception):
    """Base of the tree: `what`, then optionally what was found, what was expected, and the next step."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, found: object = None, expected: object = None, fix: str | None = None) -> None:
        self.what, self.found, self.expected, self.fix = what, found, expected, fix
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
    pass


class UsageError(InputError):
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
        self.problems = tuple(problems)
        lines = [what, *(f"  {problem}" for problem in self.problems[:_MOST_PROBLEMS])]
        if (more := len(self.problems) - _MOST_PROBLEMS) > 0:
            lines.append(f"  and {more:,} more")
        super().__init__("\n".join(lines))


class TableError(_ProblemsError):
    pass


class PlanError(_ProblemsError):
    pass


class LimitError(InputError):
    pass


class FileFormatError(InputError):
    pass


class ForbiddenAddressError(InputError):
    pass


class SignatureError(InputError):
    pass


class SchemaMismatchError(DiscoError):
    pass


class IllConditionedError(DiscoError, ArithmeticError):
    pass


class InfeasibleError(DiscoError):
    def __init__(self, what: str, *, conflicts: Sequence[str], fix: str | None = None) -> None:
        self.conflicts = tuple(conflicts)
        lines = "\n".join([what, *(f"  {conflict}" for conflict in self.conflicts)])
        super().__init__(lines.removesuffix("."), fix=fix)  # a conflict may end in advice of its own


class StateError(DiscoError):
    pass


class ConflictError(StateError):
    pass


class NotFoundError(StateError):
    pass


class RevisionError(StateError):
    pass


class RevisionMissingError(StateError):
    pass


class ReplyConflictError(StateError):
    pass


class ReplyInProgressError(StateError):
    pass


class SealError(StateError):
    pass


class UnavailableError(StateError):
    pass


class UpgradeError(StateError):
    pass


class ApprovalError(StateError):
    pass


class AuthenticationError(DiscoError):
    pass


class RoleError(DiscoError):
    pass


class ServiceError(DiscoError):
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
        self.problems = tuple(problems)


class IdentityProviderError(DiscoError):
    pass


class DeliveryError(DiscoError):
    pass


class MissingPartError(DiscoError):
    pass


class ReportError(DiscoError):
    exit_code = 4

    def __init__(self, what: str, *, fix: str | None = None, result: object = None) -> None:
        super().__init__(what, fix=fix)
        self.result = result  # of the work that is done, where it is known


class DefectError(DiscoError):
    exit_code = 3

    @classmethod
    def of(cls, error: BaseException) -> "DefectError":
        """The sentence about an exception that nobody expected."""
        what = f"This is a defect of disco or a damaged file ({type(error).__name__}: {shortened(str(error))})"
        return cls(what, fix="Run the command again with DISCO_DEBUG=1 for the details, and report them.")


class CertificateError(DefectError):
    pass
