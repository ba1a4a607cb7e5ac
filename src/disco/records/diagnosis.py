"""What a check-up found: one line per thing looked at, whether of data, of a model or of a campaign."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How one look ended."""

    OK = "ok"
    WATCH = "watch"  # usable, but weaker than it should be
    FAILED = "failed"  # decisions built on it cannot be trusted
    SKIPPED = "skipped"  # could not be looked at; the reason is in `found`


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing looked at: `check` is the kind of look, `where` the feature, unit or arm; `figure` what was measured.

    >>> moved = {"found": "PSI 0.41", "expected": "below 0.25", "figure": 0.41}
    >>> Diagnosis(check="drift", where="spend_90d", outcome=Outcome.FAILED, **moved).failed
    True
    """

    check: str
    where: str
    outcome: Outcome
    found: str
    expected: str
    fix: str = ""
    figure: float | None = None

    @property
    def failed(self) -> bool:
        return self.outcome is Outcome.FAILED

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and for services."""
        return asdict(self)


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
