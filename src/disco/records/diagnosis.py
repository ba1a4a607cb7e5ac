"""What a check-up found: one line per thing looked at, whether of data, of a model or of a campaign."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from disco.records.errors import DiscoError

# what to do about a database that is not as it must be
RESTORE = (
    "Move the database away and restore the last backup (`disco restore`). If no other program wrote to it, report a "
    "defect."
)
REPAIR = "Run `disco doctor --repair`, which builds it again."


class Outcome(StrEnum):
    """How one look ended."""

    OK = "ok"
    WATCH = "watch"  # usable, but weaker than it should be
    FAILED = "failed"  # decisions built on it cannot be trusted
    SKIPPED = "skipped"  # could not be looked at; the reason is in `found`


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that was looked at.

    >>> moved = {"found": "PSI 0.41", "expected": "below 0.25", "figure": 0.41}
    >>> Diagnosis(check="drift", where="spend_90d", outcome=Outcome.FAILED, **moved).failed
    True
    """

    check: str
    """The kind of check."""
    where: str
    """The feature, group, campaign or part that was checked."""
    outcome: Outcome
    """How it ended: ok, watch (usable, but weaker than it should be), failed, or skipped."""
    found: str
    """What was found."""
    expected: str
    """What was expected; empty where `found` is a whole sentence."""
    fix: str = ""
    """What to do; empty where nothing needs doing."""
    figure: float | None = None
    """What was measured, where it is a number."""

    @classmethod
    def of(cls, check: str, where: str, ok: bool, found: str, *, expected: str, fix: str = "") -> "Diagnosis":
        """A check that either passes or fails; `fix` says what to do when it fails."""
        outcome = Outcome.OK if ok else Outcome.FAILED
        return cls(check=check, where=where, outcome=outcome, found=found, expected=expected, fix="" if ok else fix)

    @classmethod
    def note(cls, check: str, where: str, found: str, *, expected: str, fix: str) -> "Diagnosis":
        """Something that is usable, but weaker than it should be."""
        return cls(check=check, where=where, outcome=Outcome.WATCH, found=found, expected=expected, fix=fix)

    @classmethod
    def of_error(cls, check: str, where: str, error: Exception, *, fix: str = "") -> "Diagnosis":
        """A check that ended in an error; our own errors say what to do."""
        if isinstance(error, DiscoError):
            return cls(check=check, where=where, outcome=Outcome.FAILED, found=str(error).rstrip("."), expected="")
        text = " ".join(str(error).split())[:200]
        found = f"cannot be read ({type(error).__name__}: {text})"
        return cls(check=check, where=where, outcome=Outcome.FAILED, found=found, expected="", fix=fix)

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def failed(self) -> bool:
        return self.outcome is Outcome.FAILED

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and for services."""
        return asdict(self)


def attempted(
    check: str, where: str, look: Callable[[], Iterable[Diagnosis]], *, fix: str = ""
) -> tuple[Diagnosis, ...]:
    """What `look` finds. An error is a finding too: damaged data may raise anything, and other checks follow.

    fix: what to do about an error that does not say it itself.
    """
    try:
        return tuple(look())
    except Exception as error:
        return (Diagnosis.of_error(check, where, error, fix=fix),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One thing that was built again from what is sound."""

    where: str
    """The campaign or table."""
    changed: str
    """What was changed."""


@dataclass(frozen=True, slots=True)
class CheckUp:
    """All that was looked at. Two check-ups of one thing add up."""

    diagnoses: tuple[Diagnosis, ...]

    def __add__(self, other: "CheckUp") -> "CheckUp":
        return CheckUp(self.diagnoses + other.diagnoses)

    def __iter__(self) -> Iterator[Diagnosis]:
        return iter(self.diagnoses)

    @property
    def failed(self) -> bool:
        """Whether anything failed."""
        return any(diagnosis.failed for diagnosis in self.diagnoses)

    def worst_first(self) -> tuple[Diagnosis, ...]:
        """Failed, watched, skipped, ok; within each the largest figure first."""
        order = (Outcome.FAILED, Outcome.WATCH, Outcome.SKIPPED, Outcome.OK)
        return tuple(sorted(self.diagnoses, key=lambda one: (order.index(one.outcome), -(one.figure or 0.0))))

    @property
    def counts(self) -> dict[Outcome, int]:
        """Diagnoses per outcome."""
        seen = Counter(diagnosis.outcome for diagnosis in self.diagnoses)
        return {outcome: seen[outcome] for outcome in Outcome}
