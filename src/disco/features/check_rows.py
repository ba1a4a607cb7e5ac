"""Features of customers with a history against the law of training: what moved, what is constant, what is new."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from disco.features.catalogue import FEATURES
from disco.features.diagnostics import (
    FEWEST_ROWS,
    PSI_ALARM,
    PSI_WATCH,
    clipped_shares,
    drift,
    missing_shares,
    outside_shares,
    rescaled_columns,
)
from disco.features.embedding import Embedding
from disco.features.scaling import Scaling
from disco.records.arrays import Matrix, Vector
from disco.records.diagnosis import Diagnosis, Outcome
from disco.records.grid import CONTEXT_LIMIT

EDGE_WATCH, EDGE_ALARM = 0.01, 0.05  # share of customers whom the network cannot place
_CHANCE = 1e-6  # below it, customers are not all alike by accident
_RAREST = 0.01  # a share that training did not show counts as this
#: Every campaign moves what customers have received and used, so their law leaves that of training by itself.
_MOVED_BY_CAMPAIGNS = frozenset(feature.name for feature in FEATURES if feature.group == "codes")


@dataclass(frozen=True, slots=True)
class _Limits:
    """A figure is ok below `watch` and failed from `alarm` on."""

    watch: float
    alarm: float
    words: str

    def outcome(self, figure: float) -> Outcome:
        return Outcome.OK if figure < self.watch else Outcome.WATCH if figure < self.alarm else Outcome.FAILED


_DRIFT = _Limits(PSI_WATCH, PSI_ALARM, f"below {PSI_WATCH:g}; {PSI_ALARM:g} fails")
_EDGE = _Limits(EDGE_WATCH, EDGE_ALARM, f"below {EDGE_WATCH:.0%}; {EDGE_ALARM:.0%} fails")


@dataclass(frozen=True, slots=True)
class _Look:
    """Features of customers with a history (rows, features), and which of them are not the same for everybody."""

    embedding: Embedding
    rows: Matrix
    varies: frozenset[str]

    @classmethod
    def at(cls, embedding: Embedding, rows: Matrix) -> "_Look":
        low = np.where(np.isnan(rows), np.inf, rows).min(axis=0)
        high = np.where(np.isnan(rows), -np.inf, rows).max(axis=0)
        names = zip(embedding.feature_names, low < high, strict=True)
        return cls(embedding, rows, frozenset(name for name, varies in names if varies))

    def varying(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Without the constant features, about which enough is said already."""
        return {name: figure for name, figure in figures.items() if name in self.varies}


def check_rows(embedding: Embedding, rows: Matrix) -> Iterator[Diagnosis]:
    """Everything that can be said about raw features (rows, features) of customers with a history."""
    look = _Look.at(embedding, rows)
    yield from _constant(look)
    if len(rows) < FEWEST_ROWS:
        said = f"{len(rows):,} customers with a history, too few to have a law"
        yield say("unit, drift, unseen, range, clipped", Outcome.SKIPPED, "", said, f"{FEWEST_ROWS:,} or more")
        return
    for part in (_rescaled, _drift, _unseen, _out_of_range, _clipped):
        yield from part(look)


def _rescaled(look: _Look) -> Iterator[Diagnosis]:
    expected = "the unit of training"
    found = rescaled_columns(look.embedding, look.rows)
    for name, factor in found:
        fix = "Convert the column back: money in pounds, not pence; shares, not percent."
        yield say("unit", Outcome.FAILED, name, f"values {factor:.3g} times those of training", expected, fix, factor)
    if not found:
        yield say("unit", Outcome.OK, "", "no column in another unit", expected)


def _constant(look: _Look) -> Iterator[Diagnosis]:
    """A feature that varied in training and no longer does; and one the network could never learn from."""
    scaling, sound = look.embedding.scaling, 0
    for place, name in enumerate(look.embedding.feature_names):
        column = look.rows[:, place]
        values = column[~np.isnan(column)]
        varies, learned = name in look.varies, scaling.spread[place] > 0
        if learned and not varies and _chance_of_one_value(scaling, place, column) < _CHANCE:
            said = f"{values[0]:g} for everybody" if values.size else "unknown (null) for everybody"
            fix = "Is a table missing or empty?"
            yield say("constant", Outcome.FAILED, name, said, "values that vary as in training", fix)
        elif varies and not learned:
            said = "values that vary, but were all equal in training"
            fix = "The network ignores the feature; train it again to use it."
            yield say("constant", Outcome.WATCH, name, said, "a feature the network has learned from", fix)
        else:
            sound += 1
    yield say("constant", Outcome.OK, f"{sound} features", "as in training", "values that vary as in training")


def _chance_of_one_value(scaling: Scaling, place: int, column: Vector) -> float:
    """How likely these customers would all be alike under the law of training: a rare return is 0 for most anyway."""
    shares, known = scaling.shares[place], column[~np.isnan(column)]
    if not known.size:
        return float(max(shares[-1], _RAREST) ** column.size)
    alike = shares[np.searchsorted(scaling.edges[place], known[0], side="right")]
    return float(max(alike / max(1 - shares[-1], _RAREST), _RAREST) ** known.size)


def _drift(look: _Look) -> Iterator[Diagnosis]:
    fix = "Find out what changed in the shop or its tables; if it is here to stay, train the network again."
    yield from _graded("drift", look.varying(drift(look.embedding, look.rows)), _DRIFT, "PSI {:.3f}".format, fix)


def _unseen(look: _Look) -> Iterator[Diagnosis]:
    """Nulls where training had none at all: a category of its own that the network never saw."""
    shares = missing_shares(look.embedding, look.rows)
    new = look.varying({name: now for name, (before, now) in shares.items() if before == 0 and now > 0})
    fix = "The network takes the middle of training for them; find out why they are missing."
    yield from _graded("unseen", new, _EDGE, lambda share: f"{share:.2%} null, in training none", fix)
    yield say("unseen", Outcome.OK, f"{len(shares) - len(new)} features", "no null that training did not know", "none")


def _out_of_range(look: _Look) -> Iterator[Diagnosis]:
    shares = look.varying(outside_shares(look.embedding, look.rows))
    fix = "The network never saw such values; look for a change of unit or meaning, or train it again."
    words = "well beyond the smallest and largest of training"
    yield from _graded("range", shares, _EDGE, lambda share: f"{share:.2%} {words}", fix)


def _clipped(look: _Look) -> Iterator[Diagnosis]:
    context = look.embedding.context(look.rows)
    shares = {f"unit {place + 1}": float(share) for place, share in enumerate(clipped_shares(context))}
    fix = "These customers are unlike any in training; train the network again with them."
    words = f"at the limit of ±{CONTEXT_LIMIT:g}"
    yield from _graded("clipped", shares, _EDGE, lambda share: f"{share:.2%} {words}", fix)
    alive = look.embedding.inverse_sd > 0
    still = alive & (np.ptp(context, axis=0) == 0)
    for unit in np.flatnonzero(still):
        said, fix = "the same for everybody, though it varied in training", "See the failed features."
        yield say("clipped", Outcome.FAILED, f"unit {unit + 1}", said, "a unit that tells customers apart", fix)


def _graded(
    check: str,
    figures: dict[str, float],
    limits: _Limits,
    words: Callable[[float], str],
    fix: str,
) -> Iterator[Diagnosis]:
    """One diagnosis per figure."""
    for where, figure in figures.items():
        outcome = limits.outcome(figure)
        if outcome is Outcome.FAILED and where in _MOVED_BY_CAMPAIGNS:
            outcome = Outcome.WATCH
        yield Diagnosis(
            check=check,
            where=where,
            outcome=outcome,
            found=words(figure),
            expected=limits.words,
            fix="" if outcome is Outcome.OK else fix,
            figure=float(figure),
        )


def say(
    check: str, outcome: Outcome, where: str, found: str, expected: str, fix: str = "", figure: float | None = None
) -> Diagnosis:
    """A diagnosis, written short."""
    return Diagnosis(check=check, where=where, outcome=outcome, found=found, expected=expected, fix=fix, figure=figure)
