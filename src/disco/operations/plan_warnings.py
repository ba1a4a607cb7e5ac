"""What an operator should know before a launch, in sentences with their figures."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.belief import depth_experience, monotone_shares
from disco.campaign import Belief
from disco.evaluation.power import Design
from disco.features.check import PSI_ALARM, stability_index
from disco.operations.codes import pool_codes
from disco.operations.learned import contradictions
from disco.records.arrays import Matrix, Vector
from disco.records.arrow_tables import TableRows
from disco.records.campaign_records import PlanRecord
from disco.records.decisions import Arm, Audience
from disco.records.depths import depth_percent
from disco.records.errors import InputError
from disco.records.identity import customer_keys
from disco.records.locale import LOCALE_INPUT, Locale
from disco.records.money import Currency
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast
from disco.records.wording import counted, money, percent
from disco.store import Store

if TYPE_CHECKING:
    from disco.operations.plan import Planned


SHIFTED = PSI_ALARM  # a campaign to everybody alone moves a context by up to 0.4
_MOSTLY_MONOTONE = 0.9
_MOST_CUSTOMERS = 20_000  # enough for a share
_BINS = 10
_EXTRAPOLATES = "tried before, so the model extrapolates: "  # kept with plans, so it stays as it is
_AS_IF = re.compile(r" \(as if [^)]*\)")
_CLAUSE_END = re.compile(r"[.:;] ")
_SHORT_CODE = 4  # characters; a pool may have none that is shorter
_HARDLY_VISIBLE = 0.5  # uplift of revenue; a campaign that could show no smaller one shows nothing
_ABSURD = 10.0
_SPEND = "spend_30d"
_CHANCE = 27.9  # χ² with a degree of freedom less than there are bins is above it once in a thousand


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthExperience:
    """How well a depth is known, for the average customer."""

    purchases: float
    """The purchases at this very depth that all evidence is worth."""
    tried: bool
    """Whether anything was learned from codes of this depth."""
    extrapolated: bool
    """Whether so little is known that a forecast extrapolates."""

    @property
    def words(self) -> str:
        """ "never tried" or "rarely tried"; empty where the depth is known well enough."""
        return "" if not self.extrapolated else "rarely tried" if self.tried else "never tried"


def experience_of(belief: Belief, audience: Audience, depths: Sequence[float]) -> dict[float, DepthExperience]:
    """By depth; empty before any campaign is learned."""
    if not belief.basket.campaigns:
        return {}
    plays, extrapolated = depth_experience(belief.basket, audience.context[:_MOST_CUSTOMERS], np.asarray(depths))
    tried = {*belief.basket.evidence.depths.tolist(), *belief.engagement.counts.depths.tolist()}
    return {
        depth: DepthExperience(purchases=float(purchases), tried=depth in tried, extrapolated=bool(is_far))
        for depth, purchases, is_far in zip(depths, plays, extrapolated, strict=True)
    }


def experience_warnings(experience: Mapping[float, DepthExperience]) -> Iterator[str]:
    """The depths whose forecast extrapolates: those that were never tried, and those that rarely were."""
    for words in ("never tried", "rarely tried"):
        depths = [
            f"{depth_percent(depth)} (as if {one.purchases:,.0f} purchases were known)"
            for depth, one in experience.items()
            if one.words == words
        ]
        if depths:
            yield f"{words.split()[0].capitalize()} {_EXTRAPOLATES}{', '.join(depths)}."


def audience_warnings(
    belief: Belief,
    audience: Audience,
    depths: Vector,
    *,
    needs_belief: bool,
    has_budget: bool,
    last_contexts: Matrix | None,
) -> tuple[str, ...]:
    """`last_contexts`: of the customers of the last campaign under the same network, where there is one."""
    found = []
    stranger = 1 - float(audience.known.mean())
    if stranger > 0.5:
        found.append(f"{stranger:.0%} of the customers bought nothing in the year before, so they share one context.")
    if last_contexts is not None and len(last_contexts) and audience.known.any():
        index = stability_indices(last_contexts, audience.context[audience.known])
        by_chance = _CHANCE * (1 / len(last_contexts) + 1 / int(audience.known.sum()))  # what equal populations reach
        if index.max() > max(SHIFTED, by_chance):
            found.append(
                f"The customers differ from those of the last campaign: context feature {int(index.argmax()) + 1} has "
                f"a population stability index of {index.max():.2f} (above {SHIFTED} means another population)."
            )
    if not belief.basket.campaigns:
        if needs_belief:
            found.append(
                "Nothing was learned yet, so these decisions rest on the prior alone. Begin with `policy: random`."
            )
        if has_budget:
            found.append(
                "Before any campaign is learned costs are unknown, so the budget does not bind: limit the codes with "
                "`at_most` instead."
            )
        return tuple(found)
    rows = slice(0, _MOST_CUSTOMERS)
    found += contradictions(belief, depths)
    found += experience_warnings(experience_of(belief, audience, depths.tolist()))
    if depths.size > 1:
        keys = customer_keys(audience.ids[rows])
        share, _ = monotone_shares(belief.basket, audience.context[rows], depths, keys=keys)
        if share < _MOSTLY_MONOTONE:
            found.append(
                f"For {1 - share:.0%} of steps the model predicts smaller baskets at deeper discounts; consider "
                "`model: {monotone: true}` in disco.yaml."
            )
    return tuple(found)


def warning_in_brief(warning: str) -> str:
    """A few words for a list, from a warning that was kept with its plan.

    >>> warning_in_brief("Rarely tried before, so the model extrapolates: 15% off (as if 215 purchases were known).")
    '15% off was rarely tried before'
    >>> warning_in_brief("Short shared codes are easy to guess: SALE. Give them at least 8 characters.")
    'Short shared codes are easy to guess'
    """
    how_often, is_about_depths, depths_text = warning.partition(f" {_EXTRAPOLATES}")
    if is_about_depths:
        depths = _AS_IF.sub("", depths_text.rstrip(".")).split(", ")
        return f"{' and '.join(depths)} {'was' if len(depths) == 1 else 'were'} {how_often.lower()} tried before"
    return _CLAUSE_END.split(warning, maxsplit=1)[0].rstrip(".")


def warning_as_sentence(warning: str) -> str:
    """A warning that was kept with its plan, for a reader after the launch.

    >>> warning_as_sentence("Rarely tried before, so the model extrapolates: 15% off (as if 215 purchases were known).")
    'The plan had little experience of 15% off (as if 215 purchases were known), so its forecast extrapolates there.'
    >>> warning_as_sentence("Short shared codes are easy to guess: SALE.")
    'Warning when it was planned: Short shared codes are easy to guess: SALE.'
    """
    how_often, is_about_depths, depths = warning.partition(f" {_EXTRAPOLATES}")
    if is_about_depths:
        experience = "no" if how_often == "Never" else "little"
        return f"The plan had {experience} experience of {depths.rstrip('.')}, so its forecast extrapolates there."
    return f"Warning when it was planned: {warning}"


def key_warnings(plan: Plan) -> Iterator[str]:
    """What the keys of a plan say by themselves."""
    if plan.codes.prefix is not None and plan.codes.pool is not None:
        yield f"Codes come from {plan.codes.pool} as they are, so the prefix {plan.codes.prefix} is not used."
    short = [code for code in plan.shared_codes.values() if len(code) < _SHORT_CODE]
    if short:
        yield (
            f"Short shared codes are easy to guess: {', '.join(short)}. Give them at least {_SHORT_CODE} characters."
        )


def hour_warnings(plan: Plan, locale: Locale) -> Iterator[str]:
    """A time of day that no clock shows, because the clocks go forward over it."""
    for when, verb in ((plan.valid.opens, "begin"), (plan.valid.closes, "expire")):
        shown = locale.moment(when)
        if isinstance(when, datetime) and shown.replace(tzinfo=None) != when:
            yield (
                f"The clocks in {locale.time_zone} go forward over {when:%H:%M} on {when:%Y-%m-%d}, so codes {verb} at "
                f"{shown:%H:%M}."
            )


def launched_before(store: Store, plan: Plan, plan_id: str) -> tuple[str, ...]:
    """A word about a plan that cannot be launched any more."""
    with store.reading() as transaction:
        launched = transaction.plans.find_campaign(plan.campaign)
    if launched is None or launched.plan_id == plan_id:
        return ()
    return (f"{plan.campaign} was launched with plan {launched.plan_id}. To launch this one, give it another name.",)


def pool_warnings(store: Store, planned: "Planned", pool: Sequence[str] | None) -> tuple[str, ...]:
    """InputError where a launch could not take its codes from the pool; a word where late arrivals could not.

    pool: None where the plan names none.
    """
    if pool is None:
        return ()
    with store.reading() as transaction:
        if transaction.plans.find_campaign(planned.plan.campaign) is not None:
            return ()  # its codes are out
        shared = planned.plan.shared_codes
        depths = planned.decisions["depth"].drop_null().to_pylist()
        needed = sum(depth not in shared for depth in depths)
        pool_codes(transaction.decisions, pool, needed=needed, all_new=True, shared=shared.values())
    reserve = zip(planned.solution.depths, planned.solution.reserve, strict=True)
    late = sum(codes or 0 for depth, codes in reserve if depth not in shared)
    if len(pool) >= needed + late:
        return ()
    return (
        f"The pool has {len(pool):,} codes: {needed:,} go out at the launch, so {len(pool) - needed:,} are left for "
        f"the reserve of {late:,}.",
    )


def shared_elsewhere(store: Store, planned: "Planned") -> Iterator[str]:
    """A word about a shared code of another campaign whose codes are valid on the same days."""
    plan, ours = planned.plan, planned.decisions
    if not plan.shared_codes:
        return
    with store.reading() as transaction:
        for record in transaction.plans.campaigns():
            other = record.plan
            together = set(plan.shared_codes.values()) & set(other.shared_codes.values())
            if other.campaign == plan.campaign or not together or not plan.valid.overlaps(other.valid):
                continue
            theirs = transaction.decisions.of(other.campaign)
            for code in sorted(together):
                ids = [
                    table.filter(pc.equal(table["depth"], depth))["customer_id"].cast(pa.string()).combine_chunks()
                    for table, shared in ((ours, plan.shared_codes), (theirs, other.shared_codes))
                    for depth, text in shared.items()
                    if text == code
                ]
                both = int(pc.sum(pc.is_in(ids[0], value_set=ids[1])).as_py() or 0)
                yield (
                    f"The shared code {code} is also one of {other.campaign}, which is valid on the same days. "
                    f"{counted(both, 'customer')} would have it from both; a purchase counts for the campaign whose "
                    "outcomes it is in."
                )


def size_warnings(plan: Plan, arms: Mapping[Arm, ArmForecast], features: TableRows) -> Iterator[str]:
    """A word where the groups are so small that a campaign could show only a difference that nobody expects.

    What customers spent in the 30 days before the plan's day stands for what they will spend: in a campaign of d days
    the mean is d/30 of it, and the variance too. That is too rough for a result, and enough for an order of magnitude.
    """
    treated = arms.get(Arm.DECIDED)
    other = next((arm for arm in (Arm.CONTROL, Arm.HOLDOUT) if arm in arms), None)
    if treated is None or other is None or _SPEND not in features.column_names:
        return
    spend = np.nan_to_num(pc.fill_null(features[_SPEND], 0.0).to_numpy())
    share = arms[other].customers / (treated.customers + arms[other].customers)
    months = plan.valid.days / 30
    if not spend.any():
        yield "Nobody ordered in the 30 days before the plan's day, so results will hardly show a difference."
        return
    design = Design(baseline=float(spend.mean()) * months, sd=float(spend.std()) * months**0.5, control_share=share)
    try:
        uplift = design.detectable_uplift(customers=treated.customers + arms[other].customers)
    except InputError:  # fewer customers than show any difference
        uplift = math.inf
    if uplift > _HARDLY_VISIBLE:
        seen = f"of about {percent(uplift, decimals=0)} or more" if uplift < _ABSURD else "that would be enormous"
        beside = "control group" if other is Arm.CONTROL else "holdout"
        yield (
            f"The groups are small: in this campaign alone {treated.customers:,} customers and the {beside} of "
            f"{arms[other].customers:,} could show only a difference in revenue {seen} (with a chance of 80%). Results "
            "of several campaigns are pooled, and a larger group to compare with shows more: see `disco power`."
        )


def stability_indices(before: Matrix, after: Matrix) -> Vector:
    """Population stability index per column: Σ(q − p)·ln(q/p) over ten bins with equal shares p of `before`.

    >>> steady = np.linspace(-1, 1, 1000)[:, None]
    >>> stability_indices(steady, steady).round(6).tolist(), bool(stability_indices(steady, steady + 1)[0] > 0.25)
    ([0.0], True)
    """
    index = np.zeros(before.shape[1])
    for column in range(before.shape[1]):
        edges = np.unique(np.quantile(before[:, column], np.linspace(0, 1, _BINS + 1)[1:-1]))
        # half a customer more in each bin, so that none is empty
        p, q = (
            (np.bincount(np.searchsorted(edges, part[:, column], side="right"), minlength=edges.size + 1) + 0.5)
            / (len(part) + 0.5 * (edges.size + 1))
            for part in (before, after)
        )
        index[column] = stability_index(np.asarray(p), np.asarray(q), smallest_share=0.0)
    return index


# ---- cost and comparable groups ----
#
# What a plan may cost and whether its groups can be compared, in the sentences that every page and command shows.
#
# They follow from the plan and its forecast, so plans that were kept before get them too.


MOST_RISK = 0.2
"""A larger chance to overspend is warned of; new plans with a budget begin with this overspend risk."""
CONTROL_SHARE, HOLDOUT_SHARE = "10%", "5%"
"""Of new plans that decide."""
_COMPARABLE = 2 / 3  # with fewer codes per customer, revenue differs more by their number than by who gets which


def plan_risks(record: PlanRecord) -> tuple[str, ...]:
    """What to consider before the launch of a decided plan; empty where there is nothing."""
    currency = Locale.of_fingerprint(record.inputs.get(LOCALE_INPUT, "")).currency
    sentences = (
        overspend_warning(record.plan, record.summary.overspend_chance),
        group_warning(
            record.plan,
            record.summary.arms,
            budget_price=record.summary.solution.budget_price,
            currency=currency,
        ),
    )
    return tuple(sentence for sentence in sentences if sentence)


def chance_text(chance: float) -> str:
    """
    >>> chance_text(0.524), chance_text(0.001), chance_text(0.999)
    ('52%', 'less than 1%', 'more than 99%')
    """
    if chance < 0.005:
        return "less than 1%"
    return "more than 99%" if chance >= 0.995 else percent(chance, decimals=0)


def overspend_words(plan: Plan, chance: float | None) -> str:
    """chance: None while it is being computed. The reserve is for late arrivals, so these codes may not cost it."""
    most = "the budget without the reserve" if plan.reserve.share else "the budget"
    return f"The chance that the codes cost more than {most} is {'…' if chance is None else chance_text(chance)}."


def overspend_warning(plan: Plan, chance: float | None) -> str:
    """Empty where the chance is small or not known."""
    if chance is None or chance <= MOST_RISK:
        return ""
    if plan.overspend_risk is not None:
        return (
            f"{overspend_words(plan, chance)} The plan allows an overspend risk of {chance_text(plan.overspend_risk)}."
        )
    bound = percent(MOST_RISK, decimals=0)
    return f"{overspend_words(plan, chance)} Set an overspend risk of {bound} to keep the chance at or below that."


def group_warning(plan: Plan, arms: Mapping[Arm, ArmForecast], *, budget_price: float, currency: Currency) -> str:
    """Why the groups of a plan cannot say what deciding is worth; empty where they can, and where codes are random.

    budget_price: of the decided group; 0 where it needs no more money.
    """
    if plan.policy.assigns_at_random or Arm.DECIDED not in arms:
        return ""
    if len(arms) == 1:
        return _no_group_warning(plan, arms[Arm.DECIDED].customers)
    return "" if Arm.CONTROL not in arms else _coverage_warning(plan, arms, budget_price, currency)


def _no_group_warning(plan: Plan, customers: int) -> str:
    """Either the plan asks for no group, or it has so few customers that nobody was drawn into one."""
    shares = {"control": plan.control.share, "holdout": plan.holdout.share}
    groups = " and ".join(f"{100 * share:g}% {name}" for name, share in shares.items() if share)
    sentence = "There is neither a control group nor a holdout, so the results cannot show what deciding was worth."
    if groups:
        return f"{sentence} The plan has {counted(customers, 'customer')}, too few for {groups}."
    return f"{sentence} New plans begin with {CONTROL_SHARE} control and {HOLDOUT_SHARE} holdout."


def _coverage_warning(plan: Plan, arms: Mapping[Arm, ArmForecast], budget_price: float, currency: Currency) -> str:
    share = {arm: sum(arms[arm].codes.values()) / arms[arm].customers for arm in (Arm.DECIDED, Arm.CONTROL)}
    fewer, more = sorted(share, key=lambda arm: share[arm])
    if share[fewer] >= _COMPARABLE * share[more]:
        return ""
    sentence = (
        f"{percent(share[fewer], decimals=0)} of the {fewer} group get a code, and {percent(share[more], decimals=0)} "
        f"of the {more} group. Comparing them would show what more codes bring, not what deciding is worth."
    )
    if fewer is Arm.DECIDED and not budget_price:
        return f"{sentence} The decided group leaves out customers whose code would cost more than it brings."
    return f"{sentence}{_cause(plan, arms, fewer, more, currency)}"


def _cause(plan: Plan, arms: Mapping[Arm, ArmForecast], fewer: Arm, more: Arm, currency: Currency) -> str:
    """Groups have the same budget per customer, so the one whose codes cost more gets fewer of them."""
    costs = {arm: _cost_of_a_code(arms[arm]) for arm in (fewer, more)}
    dear, cheap = costs[fewer], costs[more]
    if plan.budget_amount is not None and (dear is None or (cheap is not None and dear > cheap)):
        words = " Both have the same budget per customer"
        if dear is not None and cheap is not None:
            each = f"{money(dear, currency=currency)} and a {more} one {money(cheap, currency=currency)}"
            words += f", but a {fewer} code costs {each}"
        return f"{words}. {_remedy(plan)}" if fewer is Arm.CONTROL else f"{words}."
    return ""


def _remedy(plan: Plan) -> str:
    """Control's codes are spread over the depths in proportion to their caps; a depth without one counts fully."""
    free = [depth_percent(depth) for depth, limits in plan.depths.items() if limits.at_most is None]
    if free and len(free) < len(plan.depths):
        return f"Control's codes follow the caps: give {' and '.join(free)} a cap."
    return "Control's codes follow the caps: lower those of the deeper depths, or raise the budget."


def _cost_of_a_code(group: ArmForecast) -> float | None:
    """Expected markdown; None without codes or forecast."""
    codes = sum(group.codes.values())
    return None if group.money is None or not codes else group.money.markdown.value / codes
