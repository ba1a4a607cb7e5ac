"""Why a customer got this depth, or none: the figures of the decision, computed again and put in words."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco import objective
from disco.campaign import Belief, allowed_depths, expected_costs
from disco.operations.arms import sending_costs
from disco.operations.codes import sent_codes
from disco.operations.customer_limit import limit_words, markdown_left
from disco.operations.learn import deciding_belief
from disco.policy import policy_of, rates_of_policy
from disco.records.arrays import Floats, Matrix, Vector
from disco.records.campaign_records import CampaignRecord
from disco.records.compiled import without_compiler
from disco.records.decisions import Arm, Audience
from disco.records.depths import depth_percent
from disco.records.errors import InputError
from disco.records.identity import read_ids
from disco.records.money import GBP, Currency
from disco.records.plan_summary import Solution
from disco.records.result import NotInJson, TableResult
from disco.records.wording import money as money_text
from disco.records.wording import number, percent
from disco.store import Store, Transaction
from disco.store.personal import is_forgotten

if TYPE_CHECKING:
    from disco.operations.audience import ShopData

_CHANGED = "These figures are not those of the launch: the settings of the shop have changed since."
_SAME = 1e-9  # relative: figures made again may differ from kept ones by rounding on another machine


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthFigures:
    """One depth for one customer."""

    depth: float
    """The depth: 0.1 is 10% off."""
    expected_full_price: float
    """Expected basket before the discount, in currency units, if the customer buys."""
    drawn_full_price: float
    """The basket that the policy used for this decision."""
    engagement: float
    """The customer's own chance to buy with such a code."""
    drawn_engagement: float
    """The chance that the policy used for this decision."""
    value: float
    """The objective (w·revenue − markdown)·engagement at the figures of the policy."""
    price: float
    """The shadow price of a code, with that of its segment's limits and of the budget it would take, in units of the
    objective."""
    surplus: float
    """value − price: the depth with the largest one above 0 is given."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(TableResult):
    """Why a customer got this depth or none. As a table: the figures, one row per depth."""

    campaign: str
    """The name of the campaign."""
    customer: str | int
    """The customer."""
    arm: Arm
    """decided, control or holdout."""
    late: bool
    """Whether they arrived after the launch."""
    known: bool
    """Whether their context is from their own year of purchases, and not the population's."""
    depth: float | None
    """Null: no code."""
    code: str | None
    """The code; null: none."""
    policy: str
    """The name of the policy."""
    version: int | None
    """The version of the model that decided; null: the prior."""
    context: tuple[float, ...]
    """Their context vector."""
    figures: tuple[DepthFigures, ...]
    """One per depth offered; empty where depths were assigned at random or nobody was to get one."""
    runner_up: DepthFigures | None
    """The next best depth."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    propensity: float | None
    """The probability of this decision before the draw, where `disco propensities` has estimated it."""
    words: tuple[str, ...]
    """The explanation in sentences."""
    reasons: NotInJson[tuple[str, ...]] = ()
    """The rule and what decided, in sentences that need no knowledge of the model."""
    revenue_weight: NotInJson[float] = 1.0
    """The weight of the plan: `value` and `price` divided by it are amounts of revenue."""

    def to_arrow(self) -> pa.Table:
        names = [one.name for one in fields(DepthFigures)]
        return pa.table({name: [getattr(figure, name) for figure in self.figures] for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """One row of the kept decisions, as far as words need it."""

    row: int
    customer_id: str | int
    arm: str
    depth: float | None
    code: str | None
    value: float
    known: bool
    late: bool
    propensity: float | None
    propensity_draws: int | None
    segment: str | None = None

    @property
    def got(self) -> str:
        return "no code" if self.depth is None else depth_percent(self.depth)


def explain(
    store: Store, campaign: str, customer: object = None, *, prior: Belief, data: "ShopData | None" = None
) -> Explanation:
    """Explain one decision from what was kept: the context, the model that decided, the prices of the solve.

    customer: None explains an example, the first customer whose code was decided. data: tells why somebody was not
    part of the campaign.
    """
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        is_example = customer is None
        if is_example:
            customer = _example(transaction.decisions.of(campaign))
        found = transaction.decisions.of(campaign, customers=pa.array([str(customer)]))
        if not found.num_rows:
            raise _not_a_member(transaction, record, str(customer), data)
        kept = [part.name for part in fields(_Decision) if part.name in found.column_names]
        found = found.set_column(found.schema.get_field_index("code"), "code", sent_codes(record.plan, found))
        made = _Decision(**found.select(kept).to_pylist()[0])
        context = transaction.contexts.of(campaign, record.network, np.array([made.row]))
        belief = deciding_belief(transaction, record, prior=prior)
        left = _markdown_left(transaction, record, made)
    if is_forgotten(found["customer_id"])[0]:
        raise InputError(
            f"The customer with the name {customer} was forgotten, and what was decided about them cannot be explained"
        )
    solution, arm = record.solution, Arm(made.arm)
    figures: tuple[DepthFigures, ...] = ()
    if arm is Arm.DECIDED and solution.prices is not None:
        with without_compiler():  # one customer
            figures = _figures(record, solution, belief, made, context, sending_costs(record.plan, found))
    asked = Audience(
        ids=read_ids([made.customer_id]), context=context, known=np.array([made.known]), markdown_left=left
    )
    refused = () if arm is Arm.HOLDOUT else _refused(asked, belief, record, given=made.depth)
    others = [figure for figure in figures if figure.depth != made.depth and figure.depth not in refused]
    runner_up = max(others, key=lambda figure: figure.surplus, default=None)
    chosen = next((figure for figure in figures if figure.depth == made.depth), None)
    weight, rule, currency = (
        record.plan.objective.revenue_weight,
        _rule(record, solution, arm, made, refused=len(refused)),
        store.locale.currency,
    )
    limited = "" if left is None else limit_words(record, float(left[0]), list(map(depth_percent, refused)), currency)
    at_prices, plain = _verdicts(
        chosen, runner_up, weight=weight, late=made.late, is_limited=bool(refused), currency=currency
    )
    if len(refused) == len(solution.depths):
        at_prices = plain = "So they got no code."
    changed = chosen is not None and abs(chosen.value - made.value) > _SAME * max(abs(made.value), 1.0)
    words = [
        *([f"An example; `disco explain {campaign} CUSTOMER` explains another one."] if is_example else []),
        _outcome(record, made),
        rule,
        _context_words(context, known=made.known),
        *(_figure_words(record, solution, made, figures, currency) if figures else ()),
        *([limited] if limited else []),
        *([at_prices] if figures else []),
        *([_CHANGED] if changed else []),
        *_propensity_words(made),
    ]
    return Explanation(
        campaign=campaign,
        customer=made.customer_id,
        arm=arm,
        late=made.late,
        known=made.known,
        depth=made.depth,
        code=made.code,
        policy=solution.policy,
        version=record.version,
        context=tuple(context[0].tolist()),
        figures=figures,
        runner_up=runner_up,
        currency=currency.code,
        propensity=made.propensity,
        words=tuple(words),
        reasons=(
            *((_plain_rule(record, made),) if figures else (rule,)),
            *([limited] if limited else []),
            *((plain, *([_CHANGED] if changed else [])) if figures else ()),
        ),
        revenue_weight=weight,
    )


def _markdown_left(transaction: Transaction, record: CampaignRecord, made: _Decision) -> Vector | None:
    """(1,) what the limit of a customer left when they were decided; about a late arrival, when the campaign ended."""
    day, before = (record.plan.valid.last, None) if made.late else (None, record.launched_at)
    return markdown_left(transaction, record.plan, read_ids([made.customer_id]), day=day, before=before)


def _refused(customer: Audience, belief: Belief, record: CampaignRecord, *, given: float | None) -> tuple[float, ...]:
    """The depths that the limit of the customer does not allow.

    given: what they got was allowed, whatever was spent between a late arrival and the campaign's end.
    """
    depths = np.asarray(record.plan.offered)
    allowed = allowed_depths(customer, belief=belief, depths=depths)
    return () if allowed is None else tuple(depth for depth in depths[~allowed[0]].tolist() if depth != given)


def _not_a_member(
    transaction: Transaction, record: CampaignRecord, customer: str, data: "ShopData | None"
) -> InputError:
    from disco.operations.audience import not_a_member  # reads tables, which explanations of members do not

    if transaction.forgotten.among([customer], since=record.launched_at):
        return InputError(f"{customer} was not part of campaign {record.campaign}, or was forgotten after its launch")
    return not_a_member(record, customer, data=data)


def _example(decisions: pa.Table) -> str | int:
    """The first customer with a decided code, or else the first with a code, or else the first."""
    at_launch = decisions.filter(pa.array(~is_forgotten(decisions["customer_id"])))
    coded = at_launch.filter(at_launch["code"].is_valid())
    decided = coded.filter(pc.equal(coded["arm"], str(Arm.DECIDED)))
    rows = next((one for one in (decided, coded, at_launch) if one.num_rows), None)
    if rows is None:
        raise InputError("No decision of this campaign can be explained: all its customers were forgotten")
    customer: str | int = rows["customer_id"][0].as_py()
    return customer


def _figures(
    record: CampaignRecord,
    solution: Solution,
    belief: Belief,
    made: _Decision,
    context: Matrix,
    sending: Vector | None,
) -> tuple[DepthFigures, ...]:
    """sending: (1,) what a code to the customer costs; None: nothing."""
    plan, policy, depths = record.plan, policy_of(record.plan), np.asarray(solution.depths)
    customer = Audience(ids=read_ids([made.customer_id]), context=context, known=np.array([made.known]))
    ids, seed, campaign = customer.ids, plan.seed, plan.campaign
    drawn = policy.full_prices(belief.basket, context, depths, ids=ids, seed=seed, campaign=campaign)
    own, score = belief.rates(customer, depths), belief.scores(customer)
    drawn_rates: Floats = own
    if score is not None:
        drawn_rates = rates_of_policy(policy, belief.engagement, score, depths, ids=ids, seed=seed, campaign=campaign)
    offer = solution.offer(revenue_weight=plan.objective.revenue_weight)
    values = objective.values(
        drawn.copy(), depths, drawn_rates, revenue_weight=offer.revenue_weight, contact_cost=sending
    )
    rates, drawn_rates = np.broadcast_to(own, drawn.shape), np.broadcast_to(drawn_rates, drawn.shape)
    expected = belief.basket.expected_full_price(context, depths)
    costs = expected_costs(customer, belief=belief, offer=offer)
    prices = np.asarray(solution.prices) + solution.budget_price * costs[0] + _segment_prices(solution, made)
    return tuple(
        DepthFigures(
            depth=depth,
            expected_full_price=float(expected[0, column]),
            drawn_full_price=float(drawn[0, column]),
            engagement=float(rates[0, column]),
            drawn_engagement=float(drawn_rates[0, column]),
            value=float(values[0, column]),
            price=float(prices[column]),
            surplus=float(values[0, column]) - float(prices[column]),
        )
        for column, depth in enumerate(solution.depths)
    )


def _segment_prices(solution: Solution, made: _Decision) -> Vector:
    """(K,) what the limits of the customer's own segment add to the shadow prices; 0 where it has none."""
    own = None if made.segment is None else (solution.segments or {}).get(made.segment)
    return np.zeros(len(solution.depths)) if own is None or own.prices is None else np.asarray(own.prices)


def _outcome(record: CampaignRecord, made: _Decision) -> str:
    code = "" if made.code is None else f" (code {made.code})"
    recall = "" if record.recalled_at is None else f", which was recalled on {record.recalled_at:%Y-%m-%d}"
    return f"Customer {made.customer_id} got {made.got}{code} in campaign {record.campaign}{recall}."


def _rule(record: CampaignRecord, solution: Solution, arm: Arm, made: _Decision, *, refused: int) -> str:
    """refused: how many depths the limit of the customer did not allow."""
    if arm is Arm.HOLDOUT and record.plan.holdout.lasting:
        return (
            "They are in the lasting holdout, the same people in every campaign, drawn by the shop's secret and their "
            "id alone. It gets no codes: it shows what would have happened anyway."
        )
    if arm is Arm.HOLDOUT:
        return "They were in the holdout, which gets no codes: it shows what would have happened anyway."
    left_out = " There were not enough codes for everybody, and they got none."
    if made.depth is not None or refused == len(solution.depths):  # the limit of a customer is a sentence of its own
        left_out = ""
    elif refused:
        left_out = " They got none: there were not enough codes for everybody, or theirs would have cost too much."
    if arm is Arm.CONTROL:
        return f"They were in the control group: depths were assigned at random, in proportion to their caps.{left_out}"
    if solution.prices is None and made.late:
        how = (
            "their depth was drawn from the codes that were left"
            if made.code
            else f"no code{' that they may have' * bool(refused)} was left in the reserve"
        )
        return f"They arrived after the launch of a random campaign; {how}."
    if solution.prices is None:
        return f"The campaign was random: depths were assigned at random, in proportion to their caps.{left_out}"
    when = " and arrived after the launch, so they were decided at its shadow prices" if made.late else ""
    policy = record.plan.policy.name
    return f"They were in the decided group{when}: the policy {policy} chose their depth, {_model_words(record)}."


def _plain_rule(record: CampaignRecord, made: _Decision) -> str:
    """The rule for readers who know no policies; lists of figures are left to a table."""
    when = " and arrived after the launch" if made.late else ""
    return f"They were in the decided group{when}: the depth was chosen for them, {_model_words(record)}."


def _model_words(record: CampaignRecord) -> str:
    return "before anything was learned" if record.version is None else f"using version {record.version} of the model"


def _context_words(context: Matrix, *, known: object) -> str:
    numbers = ", ".join(number(value, signed=True) for value in context[0])
    whose = (
        "from their own year of purchases"
        if known
        else "the population's context, because they bought nothing in the past year"
    )
    return f"Their context is ({numbers}), {whose}."


def _figure_words(
    record: CampaignRecord, solution: Solution, made: _Decision, figures: tuple[DepthFigures, ...], currency: Currency
) -> list[str]:
    weight, money = record.plan.objective.revenue_weight, partial(money_text, currency=currency)
    expected = _by_depth(figures, lambda figure: money(figure.expected_full_price))
    drawn = _by_depth(figures, lambda figure: money(figure.drawn_full_price))
    worth = _by_depth(
        figures, lambda figure: f"{money(figure.value / weight)} (shadow price {money(figure.price / weight)})"
    )
    what = "a code and of the budget it takes" if solution.budget_price else "a code"
    if _segment_prices(solution, made).any():
        what += f", with the limits of {made.segment}"
    return [
        f"Expected basket before the discount, if they buy: {expected}.",
        f"Baskets the policy used for this decision: {drawn}.",
        *_chance_words(solution, figures),
        f"What each code is worth in revenue, and the shadow price of {what}: {worth}.",
    ]


def _chance_words(solution: Solution, figures: tuple[DepthFigures, ...]) -> list[str]:
    """Where customers differ in it."""
    if solution.head is None:
        return []
    own = _by_depth(figures, lambda figure: percent(figure.engagement))
    drawn = _by_depth(figures, lambda figure: percent(figure.drawn_engagement))
    used = "" if own == drawn else f" The policy used {drawn}."
    return [f"Their own chance to buy with a code: {own}.{used}"]


def _by_depth(figures: tuple[DepthFigures, ...], text: Callable[[DepthFigures], str]) -> str:
    return ", ".join(f"{depth_percent(figure.depth)} {text(figure)}" for figure in figures)


def _verdicts(
    chosen: DepthFigures | None,
    runner_up: DepthFigures | None,
    *,
    weight: float,
    late: bool,
    is_limited: bool,
    currency: Currency,
) -> tuple[str, str]:
    """What decided between the depths: at shadow prices, and for readers who know none.

    is_limited: whether the limit of the customer did not allow some, which are not among these.
    """
    money = partial(money_text, currency=currency)
    if chosen is None:
        if runner_up is None or runner_up.surplus <= 0:
            code = "No code within the limit" if is_limited else "No code"
            return (
                f"{code} was worth its shadow price for them, so they got none.",
                f"{code} was worth more with them than with somebody else, so they got none.",
            )
        other = depth_percent(runner_up.depth)
        reason = "no such code was left" if late else "they tied with others for the last codes"
        return (
            f"{other} was worth its shadow price, but {reason}.",
            f"{other} was worth more with them than with somebody else, but {reason}.",
        )
    name, value, price = depth_percent(chosen.depth), chosen.value / weight, chosen.price / weight
    at_prices = f"{name} is worth {money(chosen.surplus / weight)} above its shadow price"
    plain = f"{name} is worth {money(value)} with them"
    if price > 0:
        more = "more" if value >= price else "less"
        plain += f" and {money(price)} with somebody else: {money(abs(value - price))} {more}"
    if runner_up is None:
        why = "within the limit" if is_limited else "offered"
        return f"{at_prices}; no other depth was {why}.", f"{plain}. No other depth was {why}."
    other, behind = depth_percent(runner_up.depth), (chosen.surplus - runner_up.surplus) / weight
    if behind >= 0:
        second = f"{other} was second, {money(behind)} behind."
        return f"{at_prices}; {second}", f"{plain}. {second}"
    better = f"{other} would have been worth {money(-behind)} more"
    rule = "the last codes of a limit go to customers for whom the difference is smallest, so that all limits hold."
    return f"{better} than {name} at these shadow prices: {rule}", f"{plain}. {better}: {rule}"


def _propensity_words(made: _Decision) -> list[str]:
    if made.propensity is None:
        return []
    draws = made.propensity_draws or 0
    how = f" (estimated from {draws:,} draws)" if draws > 1 else ""
    return [f"Before the draw, the probability of {made.got} was {percent(made.propensity)}{how}."]
