"""A check-up of data against a trained network: may decisions be built on these features with this network?

Features are compared over customers with a purchase in the year, as the network was trained on such customers alone.
All inputs are numbers, so the nearest thing to a category never seen is a null where training had none, or a value
beyond the smallest and largest of training.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from disco.features.catalogue import FEATURES, HISTORY_FEATURE
from disco.features.embedding import Embedding, Scaling, bin_shares, log_size_of
from disco.features.rows import is_numeric, known_rows, near_column, schema_of, table_matrix
from disco.features.snapshot import MOVED_BY_CAMPAIGNS, snapshot_of
from disco.records.arrays import Matrix, Vector
from disco.records.diagnosis import CheckUp, Diagnosis, Outcome
from disco.records.errors import InputError
from disco.records.exact_sums import CONTEXT_LIMIT

if TYPE_CHECKING:
    from disco.features.network import ContextNetwork

#: The usual reading of PSI is 0.1 and 0.25, for a population that nobody acts on. A shop that runs a campaign a month
#: moves by up to 0.2 within a year without any fault (shares of evening orders, say), so both limits lie above that.
PSI_WATCH, PSI_ALARM = 0.25, 0.5
_SMALLEST_SHARE = 1e-4  # an empty bin counts as this share, so that PSI stays finite
FEWEST_ROWS = 1000  # fewer differ from training by chance alone
_FACTOR = 20.0  # a rescaled column is off by at least this
MOST_DEAD = 0.5  # share of context units that may be dead before the context fails
EDGE_WATCH, EDGE_ALARM = 0.01, 0.05  # share of customers outside what the network has seen
CLIP_WATCH, CLIP_ALARM = 0.05, 0.1  # share of customers at the limit of a context unit; campaigns alone reach 2%
_LONGEST_DAYS, _STEP_DAYS = 3 * 365, 15  # how far a clock may have run on since training, and the steps tried
_CHANCE = 1e-6  # below it, customers are not all alike by accident
_RAREST = 0.01  # a share that training did not show counts as this
_CODES = frozenset(feature.name for feature in FEATURES if feature.group == "codes")
#: A code to everybody on one day makes these equal for everybody. An empty table of codes does so for whole years, too.
_ALIKE_AFTER_A_CAMPAIGN = frozenset(
    {"codes_received_7d", "codes_received_30d", "codes_received_90d", "days_since_last_code"}
)
_CLOCKS = frozenset({"tenure_days"})  # grow by a day every day
_FEWEST_AGED = 0.05  # share of the customers who must be older than the days that a clock may have run on
_YEAR = 365  # days that most features look back
_AGE_OF_HISTORY = "days_since_first_order"  # of the year: its largest value says how far back the orders of a day go
_WHOLE_YEAR = 350  # days: where tables go back a year, somebody's first order of it is older than this
_GROWN = 14  # days by which a history has to have grown since training to explain a change
#: Features of two tables that rise together in any shop, because the same people are behind both: those who buy more
#: visit more, and those who use codes have orders with codes. Simulated shops have rank correlations of 0.5 and more;
#: tables whose customer ids do not belong together have 0.
_RELATED = (
    ("orders_365d", "visits_365d", "orders and site"),
    ("coded_order_share_365d", "codes_redeemed_365d", "orders and codes"),
)
LINK_WATCH, LINK_ALARM = 0.2, 0.1  # rank correlation
EARLY_WATCH, EARLY_ALARM = 0.01, 0.1  # share of customers with an order before they joined: guests may have one


def check_context(network: "ContextNetwork", features: pa.Table) -> CheckUp:
    """Look at a feature table (as `build_features` gives it) through a trained network.

    Nothing is raised for what is wrong with the features: every problem is a diagnosis, and `.failed` says whether
    there is one that decisions should not be built on.
    """
    return CheckUp(tuple(_diagnoses(network.embedding_, features)))


def _diagnoses(embedding: Embedding, features: pa.Table) -> Iterator[Diagnosis]:
    yield _dead(embedding)
    yield _schema(embedding, features)
    unusable = tuple(_unusable_columns(embedding, features))
    yield from unusable
    if unusable:
        needed = "every column the network was trained on"
        yield say("drift, range and context", Outcome.SKIPPED, "", "columns that cannot be used", needed)
        return
    try:
        matrix = table_matrix(features, embedding.feature_names)
    except InputError as error:
        found, expected = str(error.found), str(error.expected)
        yield say("columns", Outcome.FAILED, error.what, found, expected, "Correct the value.")
        return
    rows = matrix[known_rows(matrix, embedding.feature_names)]
    if HISTORY_FEATURE in embedding.feature_names:
        yield _history(len(rows), len(matrix))
    if len(rows):
        yield from check_rows(embedding, rows, shift=embedding.shift(snapshot_of(features.schema)))


def _unusable_columns(embedding: Embedding, features: pa.Table) -> Iterator[Diagnosis]:
    for name in embedding.feature_names:
        times = features.column_names.count(name)
        if times != 1:
            close = near_column(name, features, embedding.feature_names)
            fix = f"Is it the column {close}?" if close and not times else "Build the features with the same catalogue."
            found = f"it {times} times" if times else "no such column"
            yield say("columns", Outcome.FAILED, name, found, "the column once", fix)
        elif not is_numeric(kind := features.schema.field(name).type):
            fix = "Convert the column back to numbers."
            yield say("columns", Outcome.FAILED, name, f"the type {kind}", "numbers", fix)


def _schema(embedding: Embedding, features: pa.Table) -> Diagnosis:
    here, trained = schema_of(features), embedding.schema
    if not here or not trained:
        return say("schema", Outcome.SKIPPED, "", "a table or a network without a schema hash", "the same hash on both")
    if here == trained:
        return say("schema", Outcome.OK, "", f"schema {here}", "the network's")
    fix = "Build the features with the catalogue of the training, or train the network again."
    return say("schema", Outcome.FAILED, "", f"features of schema {here}", f"schema {trained}", fix)


def _dead(embedding: Embedding) -> Diagnosis:
    dead, units = dead_units(embedding), embedding.dimensions
    share = len(dead) / units
    outcome = Outcome.OK if not dead else Outcome.WATCH if share < MOST_DEAD else Outcome.FAILED
    where, found = ", ".join(f"unit {unit + 1}" for unit in dead), f"{len(dead)} of {units} context units"
    fix = "Train again with a larger `leak`, another seed or fewer dimensions."
    return say("dead units", outcome, where, f"{found} constant in training", "none", fix, share)


def _history(known: int, rows: int) -> Diagnosis:
    share = known / rows if rows else 0.0
    outcome = Outcome.OK if share >= 0.5 else Outcome.WATCH if known else Outcome.FAILED
    found = f"{known:,} of {rows:,} customers with a purchase in the year"
    fix = "The others all get the population's context; is the table of orders complete?"
    return say("history", outcome, HISTORY_FEATURE, found, "at least half of them", fix, share)


@dataclass(frozen=True, slots=True)
class _Limits:
    """A figure is ok below `watch` and failed from `alarm` on."""

    watch: float
    alarm: float
    words: str

    def outcome(self, figure: float) -> Outcome:
        return Outcome.OK if figure < self.watch else Outcome.WATCH if figure < self.alarm else Outcome.FAILED


_DRIFT = _Limits(PSI_WATCH, PSI_ALARM, f"below {PSI_WATCH:g}; {PSI_ALARM:g} fails")
_CLIP = _Limits(CLIP_WATCH, CLIP_ALARM, f"below {CLIP_WATCH:.0%}; {CLIP_ALARM:.0%} fails")
_EARLY = _Limits(EARLY_WATCH, EARLY_ALARM, f"below {EARLY_WATCH:.0%}; {EARLY_ALARM:.0%} fails")
_EDGE = _Limits(EDGE_WATCH, EDGE_ALARM, f"below {EDGE_WATCH:.0%}; {EDGE_ALARM:.0%} fails")


class _Excuse(NamedTuple):
    """Why a feature moves without any fault, and what to do about it; empty: what is done about others."""

    reason: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class _Look:
    """Features of customers with a history (rows, features), and which of them are not the same for everybody."""

    embedding: Embedding
    rows: Matrix
    shift: Vector | None  # what centres the contexts of the day
    varies: frozenset[str]
    excused: Mapping[str, _Excuse]  # features that move without any fault

    @classmethod
    def at(cls, embedding: Embedding, rows: Matrix, shift: Vector | None) -> "_Look":
        low = np.where(np.isnan(rows), np.inf, rows).min(axis=0)
        high = np.where(np.isnan(rows), -np.inf, rows).max(axis=0)
        names = zip(embedding.feature_names, low < high, strict=True)
        days = unfinished_year(embedding, rows)
        excused = dict.fromkeys(MOVED_BY_CAMPAIGNS, _Excuse("campaigns move it"))
        if days:
            # customers are chosen by a purchase in this history, which moves whatever looks back over most of it
            grown = (name for name in embedding.feature_names if 2 * _lookback(name) > days)
            fix = "Train the network again, on a window that begins a year or more after the first order."
            excused |= dict.fromkeys(grown, _Excuse(f"on the day of training the orders went back {days} days", fix))
        return cls(embedding, rows, shift, frozenset(name for name, varies in names if varies), excused)

    def column(self, name: str) -> Vector:
        """The values of a feature, one per customer."""
        return self.rows[:, self.embedding.feature_names.index(name)]

    def varying(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Without the constant features, about which enough is said already."""
        return {name: figure for name, figure in figures.items() if name in self.varies}


def check_rows(embedding: Embedding, rows: Matrix, *, shift: Vector | None = None) -> Iterator[Diagnosis]:
    """Everything that can be said about raw features (rows, features) of customers with a history.

    shift: what centres the contexts of the day (`Embedding.shift`).
    """
    look = _Look.at(embedding, rows, shift)
    yield from _constant(look)
    if len(rows) < FEWEST_ROWS:
        said = f"{len(rows):,} customers with a history, too few to compare"
        yield say("unit, ids, drift, unseen, range, clipped", Outcome.SKIPPED, "", said, f"{FEWEST_ROWS:,} or more")
        return
    for part in (_rescaled, _linked, _drift, _unseen, _out_of_range, _clipped):
        yield from part(look)


def _rescaled(look: _Look) -> Iterator[Diagnosis]:
    expected = "the unit of training"
    found = rescaled_columns(look.embedding, look.rows)
    for name, factor in found:
        fix = "Convert the column back: money in pounds or euros, not in pence or cents; shares, not percent."
        yield say("unit", Outcome.FAILED, name, f"values {factor:.3g} times those of training", expected, fix, factor)
    if not found:
        yield say("unit", Outcome.OK, "", "no column in another unit", expected)


def _linked(look: _Look) -> Iterator[Diagnosis]:
    """Whether the customer ids of the tables belong together: what one customer did must fit from table to table.

    Every distribution stays as it is when ids are mixed up, so no other check would notice.
    """
    fix = "Were customer ids mixed up when the tables were exported or joined? Compare a few customers by hand."
    for one, other, tables in _RELATED:
        if one in look.varies and other in look.varies:
            link = rank_correlation(look.column(one), look.column(other))
            outcome = Outcome.OK if link >= LINK_WATCH else Outcome.WATCH if link >= LINK_ALARM else Outcome.FAILED
            said = f"a rank correlation of {link:.2f} between {one} and {other}"
            expected = f"at least {LINK_WATCH:g}; below {LINK_ALARM:g} fails"
            yield say("ids", outcome, tables, said, expected, fix, link)
    if {"days_since_first_order", "tenure_days"} <= set(look.embedding.feature_names):
        early = float(np.mean(look.column("days_since_first_order") > look.column("tenure_days")))
        said = f"{early:.2%} of the customers have an order from before they joined"
        yield say("ids", _EARLY.outcome(early), "orders and customers", said, _EARLY.words, fix, early)


def _constant(look: _Look) -> Iterator[Diagnosis]:
    """A feature that varied in training and no longer does; and one the network could never learn from."""
    scaling, sound = look.embedding.scaling, 0
    for place, name in enumerate(look.embedding.feature_names):
        column = look.rows[:, place]
        values = column[~np.isnan(column)]
        varies, learned = name in look.varies, scaling.spread[place] > 0
        if name in _ALIKE_AFTER_A_CAMPAIGN and values.size and not varies:
            sound += 1
        elif learned and not varies and _chance_of_one_value(scaling, place, column) < _CHANCE:
            said = f"{values[0]:g} for everybody" if values.size else "unknown (null) for everybody"
            fix = "Is the table codes missing or empty?" if name in _CODES else "Is a table missing or empty?"
            yield say("constant", Outcome.FAILED, name, said, "values that vary as in training", fix)
        elif varies and not learned:
            said = "values that vary, but were all equal in training"
            fix = "The network ignores the feature; train it again to use it."
            yield say("constant", Outcome.WATCH, name, said, "a feature the network has learned from", fix)
        else:
            sound += 1
    yield say("constant", Outcome.OK, f"{sound} features", "as in training", "values that vary as in training")


def _chance_of_one_value(scaling: Scaling, place: int, column: Vector) -> float:
    """How likely these customers would all be alike if drawn as in training: a rare return is 0 for most anyway."""
    shares, known = scaling.shares[place], column[~np.isnan(column)]
    if not known.size:
        return float(max(shares[-1], _RAREST) ** column.size)
    alike = shares[np.searchsorted(scaling.edges[place], known[0], side="right")]
    return float(max(alike / max(1 - shares[-1], _RAREST), _RAREST) ** known.size)


def _drift(look: _Look) -> Iterator[Diagnosis]:
    fix = "Find out what changed in the shop or its tables; if it is here to stay, train the network again."
    indices = look.varying(drift(look.embedding, look.rows))
    judged = {name: index for name, index in indices.items() if name not in MOVED_BY_CAMPAIGNS}
    yield from _graded("drift", judged, _DRIFT, "PSI {:.3f}".format, fix, look.excused)
    if moved := len(indices) - len(judged):
        said = "not compared with training"
        yield say("drift", Outcome.OK, f"{moved} features", said, "they move with every campaign")


def _unseen(look: _Look) -> Iterator[Diagnosis]:
    """Nulls where training had none at all: a category of its own that the network never saw."""
    shares = missing_shares(look.embedding, look.rows)
    new = look.varying({name: now for name, (before, now) in shares.items() if before == 0 and now > 0})
    fix = "The network takes the middle of training for them; find out why they are missing."
    yield from _graded("unseen", new, _EDGE, lambda share: f"{share:.2%} null, in training none", fix, look.excused)
    yield say("unseen", Outcome.OK, f"{len(shares) - len(new)} features", "no null that training did not know", "none")


def _out_of_range(look: _Look) -> Iterator[Diagnosis]:
    shares = look.varying(outside_shares(look.embedding, look.rows))
    fix = "The network never saw such values; look for a change of unit or meaning, or train it again."
    words = "well beyond the smallest and largest of training"
    yield from _graded("range", shares, _EDGE, lambda share: f"{share:.2%} {words}", fix, look.excused)


def _clipped(look: _Look) -> Iterator[Diagnosis]:
    context = look.embedding.context(look.rows, look.shift)
    shares = {f"unit {place + 1}": float(share) for place, share in enumerate(clipped_shares(context))}
    fix = "These customers are unlike any in training; train the network again with them."
    words = f"at the limit of ±{CONTEXT_LIMIT:g}"
    yield from _graded("clipped", shares, _CLIP, lambda share: f"{share:.2%} {words}", fix, {})
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
    excused: Mapping[str, _Excuse],
) -> Iterator[Diagnosis]:
    """One diagnosis per figure; what is excused is not failed."""
    for where, figure in figures.items():
        outcome, expected = limits.outcome(figure), limits.words
        advice = fix
        if outcome is not Outcome.OK and (excuse := excused.get(where)) is not None:
            outcome, expected = Outcome.WATCH, f"below {limits.watch:g}; {excuse.reason}, so it never fails"
            advice = excuse.fix or fix
        yield say(check, outcome, where, words(figure), expected, advice, float(figure))


def say(
    check: str, outcome: Outcome, where: str, found: str, expected: str, fix: str = "", figure: float | None = None
) -> Diagnosis:
    """A diagnosis, written short; where all is well there is nothing to fix."""
    advice = "" if outcome is Outcome.OK else fix
    return Diagnosis(
        check=check, where=where, outcome=outcome, found=found, expected=expected, fix=advice, figure=figure
    )


# ---- figures: pure functions of an `Embedding` and arrays -----------------------------------------------------------


def stability_index(reference: Vector, shares: Vector, *, smallest_share: float = _SMALLEST_SHARE) -> float:
    """Population stability index Σ (p − q)·ln(p / q) over bins; 0 when the laws agree.

    reference, shares: (bins,) q and p, each adding to 1; smaller ones count as `smallest_share`.

    >>> round(stability_index(np.array([0.5, 0.5]), np.array([0.2, 0.8])), 4)
    0.4159
    """
    q, p = (np.maximum(values, smallest_share) for values in (reference, shares))
    return float(np.sum((p - q) * np.log(p / q)))


def rank_correlation(one: Vector, other: Vector) -> float:
    """Spearman's ρ over the customers for whom both are known; equal values share their mean rank. 0 without any.

    >>> rank_correlation(np.array([1.0, 2.0, 2.0, np.nan]), np.array([10.0, 30.0, 30.0, 5.0]))
    1.0
    """
    known = ~(np.isnan(one) | np.isnan(other))
    ranks = []
    for values in (one[known], other[known]):
        _, place, count = np.unique(values, return_inverse=True, return_counts=True)
        rank = (np.cumsum(count) - (count - 1) / 2)[place]
        ranks.append(rank - rank.mean() if rank.size else rank)
    size = math.sqrt(float(ranks[0] @ ranks[0]) * float(ranks[1] @ ranks[1]))
    return float(ranks[0] @ ranks[1]) / size if size > 0 else 0.0


def drift(embedding: Embedding, rows: Matrix) -> dict[str, float]:
    """PSI of each feature against the training rows (deciles of training, and missing), largest first.

    A clock such as `tenure_days` is compared among those who were customers on the day of training, as it was then
    (`elapsed_days`): that customers age and that others join is no drift. Where tables begin on a fixed day, so that
    nobody is older than they are, this is all that a clock can show.
    """
    indices = {
        name: elapsed_days(embedding, rows[:, place], place)[1]
        if name in _CLOCKS
        else _index(embedding, rows[:, place], place)
        for place, name in enumerate(embedding.feature_names)
    }
    return dict(sorted(indices.items(), key=lambda item: -item[1]))


def _index(embedding: Embedding, column: Vector, place: int) -> float:
    return stability_index(embedding.scaling.shares[place], bin_shares(column, embedding.scaling.edges[place]))


def elapsed_days(embedding: Embedding, column: Vector, place: int) -> tuple[int, float]:
    """By how many days a clock (rows,) has run on since training, up to three years, and the PSI that is left then.

    The number of days at which those fit best who were customers before them. They must be a twentieth of all,
    because a few fit anything.
    """
    found = 0, _index(embedding, column, place)
    for days in range(_STEP_DAYS, _LONGEST_DAYS + 1, _STEP_DAYS):
        aged = column[~(column <= days)]  # also the unknown ones, which training knows as missing
        if aged.size < _FEWEST_AGED * column.size:
            break
        found = min(found, (days, _index(embedding, aged - days, place)), key=lambda pair: pair[1])
    return found


def unfinished_year(embedding: Embedding, rows: Matrix) -> int:
    """How many days of orders the tables held before the day of training, if that was no year and is more now; else 0.

    Every total, share and extreme of a year then grows with the calendar until the year is whole.
    """
    if _AGE_OF_HISTORY not in embedding.feature_names or not len(rows):
        return 0
    place = embedding.feature_names.index(_AGE_OF_HISTORY)
    before, now = embedding.scaling.limits[place, 1], np.nanmax(rows[:, place], initial=0.0)
    return int(before) if before < _WHOLE_YEAR and now > before + _GROWN else 0


def _lookback(name: str) -> int:
    """How many days before its date a feature looks at; a clock counts as 0, because it is compared as one."""
    feature = next((one for one in FEATURES if one.name == name), None)
    if name in _CLOCKS:
        return 0
    if feature is None:
        return _YEAR
    ends = [measure.rpartition("_")[2] for measure in feature.measures]
    return max(int(end) if end.isdigit() else _YEAR for end in ends)


def dead_units(embedding: Embedding) -> tuple[int, ...]:
    """Learned context units that are always 0 because they were constant over the training rows. A habit that is the
    same for everybody, such as the use of codes before there were any, is no fault."""
    learned = embedding.inverse_sd[: embedding.dimensions - embedding.habits]
    return tuple(int(unit) for unit in np.flatnonzero(learned == 0))


def clipped_shares(context: Matrix) -> Vector:
    """Share of rows per context unit at the limit of ±4.

    >>> clipped_shares(np.array([[4.0, 0.0], [-1.0, 0.5]])).tolist()
    [0.5, 0.0]
    """
    return np.asarray(np.mean(np.abs(context) >= CONTEXT_LIMIT, axis=0)) if len(context) else np.zeros(context.shape[1])


def missing_shares(embedding: Embedding, rows: Matrix) -> dict[str, tuple[float, float]]:
    """Share of missing values per feature: (in training, now)."""
    now = np.isnan(rows).mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    return {
        name: (float(embedding.scaling.shares[place, -1]), float(now[place]))
        for place, name in enumerate(embedding.feature_names)
    }


def outside_shares(embedding: Embedding, rows: Matrix) -> dict[str, float]:
    """Share of values per feature outside anything seen in training, by more than one robust sd of the scaled input.

    A clock is looked at as it was on the day of training (`elapsed_days`), where newcomers count as the youngest.
    """
    scaling, rows = embedding.scaling, rows.copy()
    for place, name in enumerate(embedding.feature_names):
        if name in _CLOCKS:
            days, _ = elapsed_days(embedding, rows[:, place], place)
            rows[:, place] = np.maximum(rows[:, place] - days, scaling.limits[place, 0]) if days else rows[:, place]

    def scaled(values: Matrix) -> Matrix:
        curved = np.sign(values) * np.log1p(np.abs(values) * scaling.unit)
        return np.asarray((curved - scaling.centre) * scaling.spread)

    low, high = scaled(scaling.limits.T)
    now = scaled(rows)
    outside = ((now < low - 1) | (now > high + 1)).mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    return dict(zip(embedding.feature_names, outside.tolist(), strict=True))


def rescaled_columns(embedding: Embedding, rows: Matrix) -> tuple[tuple[str, float], ...]:
    """Columns whose values are a large multiple of those in training, with the factor: pence for pounds, say.

    A column counts as rescaled when the median of ln |x| (x ≠ 0) moved by more than ln 20 and by more than twice its
    interquartile range in training. Fewer than a thousand rows are never judged: they may be a few odd customers. Nor
    are recencies (`days_since_…`): the day after a campaign to everybody, everybody's last code is a day old.
    """
    if len(rows) < FEWEST_ROWS:
        return ()
    found = []
    for place, name in enumerate(embedding.feature_names):
        middle, width = embedding.scaling.log_size[place]
        column = rows[:, place]
        now = log_size_of(column[~np.isnan(column)])[0]
        shift = now - middle
        if (
            not name.startswith("days_since_")
            and math.isfinite(shift)
            and abs(shift) > max(math.log(_FACTOR), 2 * width)
        ):
            found.append((name, math.exp(shift)))
    return tuple(found)
