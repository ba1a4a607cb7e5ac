"""Every error DISCO raises on purpose. Each says what was found, what was expected and what to do.

    DiscoError
    ├── InputError (ValueError)      something handed in cannot be used; nothing was changed
    │   ├── UsageError               the command line or call itself is wrong
    │   ├── TableError               a table has problems: all of them, in `.problems`
    │   ├── PlanError                a campaign plan or settings file has problems: all of them, in `.problems`
    │   ├── LimitError               caps, floors, budget or segments cannot be read as limits
    │   └── FileFormatError          a model, evidence or artefact file is damaged or of another kind
    ├── SchemaMismatchError          a context, model or table belongs to another schema
    ├── IllConditionedError          a posterior cannot be computed to working accuracy; the reason is named
    ├── InfeasibleError              limits contradict each other; `.conflicts` says which and by how much
    ├── StateError                   the campaign is not in a state that allows this
    ├── MissingPartError             a library or system part is absent; says how to get it
    └── CertificateError             our own result failed its independent check: a defect of ours, never ignored

The command line turns InputError, and every other DiscoError, into exit 1 (UsageError: exit 2), without a traceback.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


class DiscoError(Exception):
    """Base of the tree: `what`, then optionally what was found, what was expected, and the next step."""

    def __init__(self, what: str, *, found: object = None, expected: object = None, fix: str | None = None) -> None:
        self.what, self.found, self.expected, self.fix = what, found, expected, fix
        facts = [f"{word} {fact}" for word, fact in (("found", found), ("expected", expected)) if fact is not None]
        message = f"{what}: {'; '.join(facts)}" if facts else what
        super().__init__(f"{message}. {fix}" if fix else message)

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
    pass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a table or a plan: where it is, what was found, what was expected, the next step.

    `row` is the first row concerned, counted from 1 below the header; `rows` is how many rows are concerned.
    """

    kind: str
    file: str
    column: str
    found: str
    expected: str
    fix: str
    row: int | None = None
    rows: int = 1

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
        sentence = f"found {self.found}; expected {self.expected}. {self.fix}"
        return f"{where}: {sentence}" if where else sentence

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and for services."""
        return asdict(self)


class _ProblemsError(InputError):
    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([what, *(f"  {problem}" for problem in self.problems)]))


class TableError(_ProblemsError):
    pass


class PlanError(_ProblemsError):
    pass


class LimitError(InputError):
    pass


class FileFormatError(InputError):
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


class MissingPartError(DiscoError):
    pass


class CertificateError(DiscoError):
    pass
