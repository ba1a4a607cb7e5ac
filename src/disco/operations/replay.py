"""Logs of decisions: the probability of each decision, and other policies replayed on them."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.allocation import Allocation, allocate_offer
from disco.belief import BasketModel, LinearDepth, RadialBasis, SmoothSpline
from disco.campaign import Belief, Figures, allowed_depths, expected_costs
from disco.evaluation.log import RandomisationWarning, RandomLog, random_log
from disco.evaluation.off_policy import OffPolicy
from disco.evaluation.passes import Player, Skew, UnconstrainedLearner
from disco.evaluation.replay import PolicyDifference, PolicyReplay, Replay
from disco.evaluation.replay import replay as run
from disco.operations.arms import SHARING, sending_costs
from disco.operations.customer_limit import markdown_left
from disco.operations.learn import deciding_belief
from disco.operations.plan import chosen_columns, limits_at_launch, segments_of
from disco.policy import POLICIES, Policy, Thompson, policy_named, policy_of
from disco.policy.propensity import Propensities, propensities
from disco.records.arguments import refuse_rows
from disco.records.arrays import Flags, Floats, Integers, Vector
from disco.records.cells import flags, is_bytes
from disco.records.chunks import Report
from disco.records.decisions import Arm, Audience, Offer
from disco.records.depths import depth_percent, read_depth
from disco.records.errors import FileFormatError, InputError
from disco.records.estimate import Estimate
from disco.records.ports import Engine
from disco.records.result import DepthKey, Result
from disco.records.tables import MOST_COLUMNS
from disco.store import Store

# ---- policies replayed ----
#
# What policies would have earned on a log of a campaign whose depths were assigned at random, from its file.


NO_CONTEXT = ("customer_id", "depth", "full_price", "propensity")  # columns of a log file with a meaning of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFigure:
    """An estimate."""

    value: float | None
    """The estimate."""
    standard_error: float | None
    """Its standard error."""
    lower: float | None
    """Lower end of the 95% interval."""
    upper: float | None
    """Upper end of the 95% interval."""

    @classmethod
    def of(cls, found: Estimate) -> "ReplayFigure":
        return cls(
            value=_known(found.value),
            standard_error=_known(found.standard_error),
            lower=_known(found.lower),
            upper=_known(found.upper),
        )

    @classmethod
    def of_any(cls, found: Estimate | None) -> "ReplayFigure":
        """What is not known is null in every part."""
        return cls(value=None, standard_error=None, lower=None, upper=None) if found is None else cls.of(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOffPolicy:
    """Off-policy estimates of one figure per customer presented; a customer without a code counts as 0."""

    ips: ReplayFigure | None
    """Inverse propensity scoring."""
    snips: ReplayFigure | None
    """Self-normalised inverse propensity scoring."""
    dr: ReplayFigure | None
    """Doubly robust."""
    effective_rows: float
    """How many rows of equal weight would be as exact."""

    @classmethod
    def of(cls, found: OffPolicy) -> "ReplayOffPolicy":
        kinds = {name: getattr(found, name) for name in ("ips", "snips", "dr")}
        figures = {name: None if kind is None else ReplayFigure.of(kind) for name, kind in kinds.items()}
        return cls(**figures, effective_rows=found.effective_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBatch:
    """One batch of customers of the pass over the log."""

    presented: int
    """Customers presented to the policy."""
    accepted: int
    """Customers for whom the policy chose the depth that was played."""
    purchasers: int
    """Accepted customers who bought."""
    average_basket_value: float | None
    """Mean revenue per purchaser; null where nobody bought."""
    repeats_mean: float | None
    """Mean of it over the resampled passes."""
    repeats_sd: float | None
    """Standard deviation of it over the resampled passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPolicy:
    """What one policy would have earned."""

    policy: str
    """The name of the policy."""
    average_basket_value: float | None
    """Mean revenue per purchaser, after the discount."""
    standard_error: float | None
    """Of average_basket_value."""
    interval: tuple[float | None, float | None]
    """95% interval of average_basket_value."""
    relative_to_random: float | None
    """average_basket_value over that of random codes under the same caps; 1 is no difference."""
    relative_to_random_standard_error: float | None
    """Of relative_to_random."""
    relative_to_random_interval: tuple[float | None, float | None]
    """95% interval of relative_to_random."""
    presented: int
    """Customers presented to the policy. Counts are those of the first pass."""
    accepted: int
    """Customers for whom the policy chose the depth that was played."""
    acceptance: float
    """accepted / presented."""
    purchasers: int
    """Accepted customers who bought."""
    no_code: int
    """Presented customers to whom the policy gave no code; they are never accepted."""
    codes: Mapping[DepthKey, int]
    """Codes given, per depth."""
    revenue_per_customer: ReplayOffPolicy
    """Revenue per customer presented."""
    objective_per_customer: ReplayOffPolicy | None
    """w·revenue − markdown; null without a revenue weight."""
    revenue_against_random: ReplayFigure
    """Revenue per customer (doubly robust) less that of random codes in the same passes."""
    objective_against_random: ReplayFigure | None
    """The objective likewise; null without a revenue weight."""
    draw_error: float | None
    """Standard error of revenue per customer that is the luck of the policy's draws; more passes make it smaller."""
    series: tuple[ReplayBatch, ...]
    """Batch by batch, in the order of the log, of the first pass."""

    @classmethod
    def of(cls, found: PolicyReplay, depths: Sequence[float]) -> "ReplayedPolicy":
        value, relative = (ReplayFigure.of_any(one) for one in (found.average_basket_value, found.relative_to_random))
        batches: list[dict[str, Any]] = [
            {name: _known(figure) for name, figure in batch.items()} for batch in found.series.to_arrow().to_pylist()
        ]
        return cls(
            policy=found.policy,
            average_basket_value=value.value,
            standard_error=value.standard_error,
            interval=(value.lower, value.upper),
            relative_to_random=relative.value,
            relative_to_random_standard_error=relative.standard_error,
            relative_to_random_interval=(relative.lower, relative.upper),
            presented=found.presented,
            accepted=found.accepted,
            acceptance=found.accepted / found.presented,
            purchasers=found.purchasers,
            no_code=found.no_code,
            codes=dict(zip(depths, found.codes.tolist(), strict=True)),
            revenue_per_customer=ReplayOffPolicy.of(found.revenue),
            objective_per_customer=None if found.objective is None else ReplayOffPolicy.of(found.objective),
            revenue_against_random=ReplayFigure.of(found.revenue_against_random),
            objective_against_random=None
            if found.objective_against_random is None
            else ReplayFigure.of(found.objective_against_random),
            draw_error=_known(found.draw_error),
            series=tuple(ReplayBatch(**batch) for batch in batches),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDifference:
    """What one policy would have earned more than another, per customer presented."""

    policy: str
    """The name of the policy."""
    other: str
    """The name of the policy it is compared with."""
    revenue: ReplayFigure
    """Revenue per customer (doubly robust), paired: both policies met the same customers in the same passes."""
    objective: ReplayFigure | None
    """The objective likewise; null without a revenue weight."""

    @classmethod
    def of(cls, names: tuple[str, str], found: PolicyDifference) -> "ReplayDifference":
        objective = None if found.objective is None else ReplayFigure.of(found.objective)
        return cls(policy=names[0], other=names[1], revenue=ReplayFigure.of(found.revenue), objective=objective)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReplayResult(Result):
    """What policies would have earned on the log."""

    policies: Mapping[str, ReplayedPolicy]
    """By name, those that were asked for."""
    random: ReplayedPolicy
    """The baseline: random codes under the same caps."""
    differences: tuple[ReplayDifference, ...]
    """Of every two policies that were asked for; those against random are with each policy."""
    depths: tuple[float, ...]
    """The depths offered."""
    rows: int
    """Rows of the log."""
    batch: int
    """Customers presented together."""
    passes: int
    """Passes over the log, over which figures are averaged."""
    repeats: int
    """Passes over resampled logs, for the standard errors."""
    skew: str
    """How unequal propensities were treated: resample or weight."""
    assumptions: tuple[str, ...]
    """What the replay takes for granted, in sentences."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""

    @classmethod
    def of(cls, found: Replay, *, assumptions: tuple[str, ...]) -> "ReplayResult":
        return cls(
            policies={name: ReplayedPolicy.of(one, found.depths) for name, one in found.policies.items()},
            random=ReplayedPolicy.of(found.random, found.depths),
            differences=tuple(ReplayDifference.of(names, one) for names, one in found.differences.items()),
            depths=tuple(found.depths),
            rows=found.rows,
            batch=found.batch,
            passes=found.passes,
            repeats=found.repeats,
            skew=found.skew,
            assumptions=assumptions,
            warnings=tuple(found.warnings),
        )


def _known(value: float | None) -> float | None:
    """JSON has neither NaN nor infinity: what is not known is null."""
    return value if value is not None and math.isfinite(value) else None


def read_log(
    path: Path,
    *,
    context: Sequence[str],
    strata: Sequence[str] = (),
    observed: bool = False,
    score: str | None = None,
    check_balance: bool = True,
) -> RandomLog:
    """A log from Parquet: `customer_id`, the context columns, `depth`, `full_price` (null = no purchase), `propensity`.

    context, strata: names of columns. Without a `propensity` column depths count as uniform, or, with `strata`, as
    frequent as they are within each stratum. observed: set a `propensity` column aside for the frequencies seen,
    overall or within strata. score: the name of a column of engagement scores, null where none is known.
    check_balance: as in `random_log`.
    """
    scored = () if score is None else (score,)
    taken = [name for name in (*context, *strata, *scored) if name in NO_CONTEXT]
    if taken:
        raise InputError(
            f"column {taken[0]}",
            found="it among the context, strata or scores",
            expected="what was known before the depth was assigned",
        )
    wanted = ["customer_id", *context, "depth", "full_price", *strata, *scored]
    if not context:
        raise InputError("context", found="no column", expected="the names of the context columns, such as x1,x2")
    table = _read(path, wanted)
    for name in ("customer_id", *strata):
        if pa.types.is_nested(table[name].type) or is_bytes(table[name].type):
            raise InputError(f"{path}, column {name}", found=str(table[name].type), expected="text or numbers")
    for name in ("customer_id", *context, "depth", *strata):
        refuse_rows(
            flags(table[name].is_null()),
            where=f"{path}, column {name}, row {{row}}",
            found="null",
            expected="a value in every row",
            fix="Fill in the value, or leave out the row.",
        )
    given = _numbers(table, "propensity", path) if "propensity" in table.column_names and not observed else None
    labels = None
    if strata:
        columns = [np.asarray(table[name].to_pylist(), object).astype(str) for name in strata]
        labels = np.array(["\x1f".join(row) for row in zip(*columns, strict=True)])
    try:
        return random_log(
            pa.table({name: _numbers(table, name, path) for name in context}),
            _numbers(table, "depth", path),
            _numbers(table, "full_price", path),
            customer_id=table["customer_id"].to_numpy(),
            propensity="observed" if observed else given,
            strata=labels,
            score=None if score is None else _numbers(table, score, path),
            check_balance=check_balance,
        )
    except InputError as error:
        if error.what.split(",")[0] != "log":
            raise
        where = f"{path}{error.what.removeprefix('log')}"
        raise InputError(where, found=error.found, expected=error.expected, fix=error.fix) from None


def _read(path: Path, wanted: Sequence[str]) -> pa.Table:
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet file with the log")
    try:
        with pq.ParquetFile(path) as file:
            there, leaves = file.schema_arrow.names, file.metadata.num_columns
            if leaves > MOST_COLUMNS:
                raise InputError(str(path), found=f"{leaves:,} columns", expected=f"at most {MOST_COLUMNS:,}")
            table = file.read([name for name in (*wanted, "propensity") if name in there])
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(str(path), found=str(error).splitlines()[0], expected="a Parquet file") from None
    missing = [name for name in wanted if name not in there]
    if missing:
        raise InputError(
            str(path),
            found=f"no column {', '.join(missing)}",
            expected=f"{', '.join(wanted)}; it has {', '.join(there)}",
        )
    if not table.num_rows:
        raise InputError(str(path), found="no rows", expected="a log with at least one")
    return table


def _numbers(table: pa.Table, name: str, path: Path) -> Vector:
    """A column as float64, null = NaN; a 32-bit 0.2 becomes 0.2. A NaN in the file is refused."""
    column = table[name].combine_chunks()
    kind = column.type
    if pa.types.is_null(kind):  # a column without a single value
        return np.full(len(column), np.nan)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(f"{path}, column {name}", found=f"values of type {kind}", expected="numbers")
    values = column.to_numpy(zero_copy_only=False)
    if pa.types.is_float32(kind) and name == "depth":
        values = np.array([float(str(value)) for value in values])
    known = flags(column.is_valid())
    out = np.where(known, values, np.nan).astype(np.float64)
    where, expected = f"{path}, column {name}, row {{row}}", "a finite number, or null for none"
    refuse_rows(known & ~np.isfinite(out), where=where, found=out, expected=expected)
    return out


def read_logs(
    log: Path,
    *,
    context: Sequence[str],
    strata: Sequence[str] = (),
    observed: bool = False,
    score: str | None = None,
    warm: Path | None = None,
) -> tuple[RandomLog, RandomLog | None, tuple[str, ...]]:
    """The log, the earlier log to learn from, and warnings about how random their depths look."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RandomisationWarning)
        found = read_log(log, context=context, strata=strata, observed=observed, score=score)
        # what is learned from the earlier log does not depend on how its depths were assigned
        earlier = (
            None if warm is None else read_log(warm, context=context, observed=True, score=score, check_balance=False)
        )
    return found, earlier, tuple(str(note.message) for note in caught)


def player_named(name: str) -> Player:
    """The policy of this name, as `disco replay --policy` knows them."""
    if name == UnconstrainedLearner.name:
        return UnconstrainedLearner(policy=Thompson())
    if name not in POLICIES:
        expected = f"one of {', '.join([*POLICIES, UnconstrainedLearner.name])}"
        raise InputError("policy", found=name, expected=expected)
    return policy_named(name)


ENCODINGS = {"radial_basis": RadialBasis, "smooth_spline": SmoothSpline, "linear": LinearDepth}
"""The depth encodings a replay can begin with."""


def read_caps(limits: Mapping[str, int | str]) -> dict[float, int | float | None]:
    """Most customers per depth and batch: `{"0.1": "25%", "0.2": 500}` by depth, shares as floats."""
    caps: dict[float, int | float | None] = {}
    for name, limit in limits.items():
        text = str(limit).strip()
        try:
            value: int | float = float(text[:-1]) / 100 if text.endswith("%") else int(text)
        except ValueError:
            raise InputError(f"cap of depth {name}", found=repr(limit), expected="a count, or a share as 25%") from None
        if value < 0 or (text.endswith("%") and not value <= 1):
            expected = "a count, or a share of the batch from 0% to 100%"
            raise InputError(f"cap of depth {name}", found=repr(limit), expected=expected)
        depth = read_depth(name, where="caps")
        if depth in caps:
            raise InputError("caps", found=f"depth {name} twice", expected="each depth once")
        caps[depth] = value
    return caps


def replay_files(
    log: Path,
    policies: Sequence[str],
    *,
    context: Sequence[str],
    caps: Mapping[str, int | str],
    batch: int | None,
    warm: Path | None,
    passes: int,
    repeats: int,
    seed: int,
    revenue_weight: float | None,
    strata: Sequence[str],
    observed: bool,
    skew: Skew,
    encoding: str,
    depth_scale: float,
    forgetting: float,
    learn_engagement: bool,
    engagement_score: str | None,
    report: Report | None = None,
    warn: Callable[[Sequence[str]], None] | None = None,
    engine: Engine | None = None,
) -> ReplayResult:
    """Replay the policies of these names on a log; parameters as for `disco.replay` and `Shop.replay`."""
    for names, where in ((context, "context"), (strata, "strata"), (policies, "policies")):
        if len(set(names)) != len(names):
            raise InputError(where, found=", ".join(names), expected="each name once")
    scored = () if engagement_score is None else (engagement_score,)
    for name in (*context, *strata, *scored):
        if name in NO_CONTEXT:
            raise InputError("context, strata", found=name, expected="columns known before the depth was assigned")
    players, limits = [player_named(name) for name in policies], read_caps(caps)
    if encoding not in ENCODINGS:
        raise InputError("encoding", found=encoding, expected=f"one of {', '.join(ENCODINGS)}")
    belief = BasketModel(encoding=ENCODINGS[encoding](), depth_scale=depth_scale, forgetting=forgetting)
    found, earlier, notes = read_logs(
        log, context=context, strata=strata, observed=observed, score=engagement_score, warm=warm
    )
    if warn is not None:
        warn(notes)
    played, done = (passes + repeats) * len({"random", *policies}), 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if report is not None:
            report(done, played, "passes over the log")

    replayed = run(
        found,
        players,
        belief=belief,
        batch=batch,
        caps=limits,
        revenue_weight=revenue_weight,
        passes=passes,
        repeats=repeats,
        seed=seed,
        warm=earlier,
        skew=skew,
        learn_engagement=learn_engagement or engagement_score is not None,
        progress=one_more,
        engine=engine,
    )
    learns = learn_engagement or engagement_score is not None
    assumptions = (*(() if learns else _assumed(found)), *_learned_nothing(replayed, earlier))
    return ReplayResult.of(replayed, assumptions=assumptions)


def _learned_nothing(replayed: Replay, earlier: RandomLog | None) -> tuple[str, ...]:
    """A word where policies decided everybody at once, before they knew anything."""
    if earlier is not None or replayed.batch < replayed.random.presented:
        return ()
    return (
        "All customers were one batch, so the policies decided before they had learned anything: choose a smaller "
        "batch, or bring an earlier log to learn from.",
    )


def _assumed(log: RandomLog) -> tuple[str, ...]:
    """What a replay takes for granted that does not learn who uses a code; nothing where everybody bought."""
    if log.bought.all():
        return ()
    shares = (
        f"{log.bought[log.depth == depth].mean():.1%} of those with {depth_percent(depth)}" for depth in log.depths
    )
    return (
        f"Engagement was taken as 1, so the policies chose depths by the basket alone. In the log {', '.join(shares)} "
        "bought. With --learn-engagement (learn_engagement) the share who buy is learned, too.",
    )


# ---- the probability of every decision ----
#
# How likely each decision was, so that the campaign's own log can be evaluated later. Off the critical path.


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PropensitiesResult(Result):
    """The probability of every decision of a launch, estimated and kept."""

    campaign: str
    """The name of the campaign."""
    decisions: int
    """Decisions that have their propensity now."""
    draws: int
    """Draws of the policy they were estimated from."""


def add_propensities(
    store: Store,
    campaign: str,
    *,
    prior: Belief,
    draws: int = 200,
    engine: Engine | None = None,
) -> PropensitiesResult:
    """Estimate and keep the probability of each decision of the launch. Running it again gives the same result.

    Decided: by fresh draws of the policy through the same limits. Control, and everybody in a random campaign: the
    share of the arm that got the depth. Holdout: 1, they never get a code. Late arrivals have none: they met other
    prices.
    """
    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
        decisions = decisions.filter(pa.array(~np.asarray(decisions["late"].to_numpy(), np.bool_)))
        rows = decisions["row"].to_numpy()
        contexts = transaction.contexts.of(campaign, record.network, rows)
        belief = deciding_belief(transaction, record, prior=prior)
        ids = decisions["customer_id"].to_numpy()
        left = markdown_left(transaction, record.plan, ids, before=record.launched_at)
    plan, arm = record.plan, np.asarray(decisions["arm"].to_pylist(), object)
    choice = chosen_columns(decisions, plan)
    probability, used = np.ones(rows.size), np.zeros(rows.size, np.int64)
    segment = segments_of(decisions) if plan.segments is not None else None
    costs = sending_costs(plan, decisions)
    everybody = Audience(ids=ids, context=contexts, known=decisions["known"].to_numpy(), markdown_left=left)
    allowed = allowed_depths(everybody, belief=belief, depths=np.asarray(plan.offered), engine=engine)
    for name, part in zip(SHARING, limits_at_launch(plan, decisions)[1], strict=True):
        here = np.flatnonzero(arm == name)
        if not here.size:
            continue
        if name is Arm.CONTROL or plan.policy.assigns_at_random:
            # limits of segments differ, so the law is the same for all customers of a segment
            for label in {""} if segment is None else set(segment[here]):
                ours = here if segment is None else here[segment[here] == label]
                probability[ours] = _shares(
                    choice[ours], depths=len(plan.offered), allowed=None if allowed is None else allowed[ours]
                )
            continue
        audience = Audience(
            ids=decisions["customer_id"].take(pa.array(here)).to_numpy(),
            context=contexts[here],
            known=decisions["known"].take(pa.array(here)).to_numpy(),
            segment=None if segment is None else segment[here],
            contact_cost=None if costs is None else costs[here],
            markdown_left=None if left is None else left[here],
        )
        found = decision_propensities(
            audience,
            belief=belief,
            offer=part
            if part.budget is None
            else replace(
                part,
                budget=part.budget / record.solution.budget_factor,
                cost_factors=record.solution.cost_factors,
            ),
            policy=policy_of(plan),
            campaign=campaign,
            seed=plan.seed,
            draws=draws,
            engine=engine,
        )
        probability[here], used[here] = found.played(choice[here]), found.draws
    with store.writing(campaign, action="propensities") as transaction:
        table = {"row": rows, "propensity": probability, "propensity_draws": used}
        transaction.decisions.set_propensities(
            campaign, pa.table({name: pa.array(column) for name, column in table.items()})
        )
        transaction.journal.note(decisions=int(rows.size), draws=draws)
    return PropensitiesResult(campaign=campaign, decisions=int(rows.size), draws=draws)


def decision_propensities(
    audience: Audience,
    *,
    belief: Belief,
    offer: Offer,
    policy: Policy,
    campaign: str,
    seed: int,
    draws: int = 200,
    engine: Engine | None = None,
) -> Propensities:
    """The law of every customer's depth, from the arguments of `decide`; `.played(decisions.choice)` is what to log.

    Nobody needs it before the codes are out. It costs as much as `draws` decisions for small campaigns, and as many
    draws without a solve for large ones.
    """
    costs = expected_costs(audience, belief=belief, offer=offer, engine=engine) if offer.budget is not None else None
    drawn = partial(
        Figures.of, audience, belief=belief, offer=replace(offer, budget=None), policy=policy, campaign=campaign
    )

    def solve(worth: Floats) -> Allocation:
        return allocate_offer(worth, audience, offer, costs=costs, where=f"campaign {campaign}", engine=engine)

    return propensities(
        policy,
        seed=seed,
        worth=lambda again: drawn(seed=again, engine=engine).values,
        solve=solve,
        costs=costs,
        draws=draws,
        # prices alone do not tell the segments apart
        method="auto" if offer.segments is None else "resolve",
    )


def _shares(choice: Integers, *, depths: int, allowed: Flags | None = None) -> Vector:
    """The share of the arm that got what each of its customers got.

    allowed: (n, K) which depths the limit of a customer leaves. A depth was drawn with one chance for everybody, and
    those whom it is not allowed have no code with that chance, too.
    """
    if allowed is not None:
        given = np.bincount(choice[choice >= 0], minlength=depths)
        each = allowed * (given / np.maximum(allowed.sum(axis=0), 1))
        of_choice = np.append(each, 1 - each.sum(axis=1, keepdims=True), axis=1)
        return np.asarray(of_choice[np.arange(choice.size), choice])
    shares = np.bincount(np.where(choice < 0, depths, choice), minlength=depths + 1) / choice.size
    return np.asarray(shares[choice])
