"""What a plan may cost and whether its groups can be compared, in the sentences that every page and command shows.

They follow from the plan and its forecast, so plans that were kept before get them too.
"""

from collections.abc import Mapping

from disco.records.currency import Currency
from disco.records.decisions import Arm
from disco.records.depths import depth_percent
from disco.records.life import PlanRecord
from disco.records.locale import LOCALE_INPUT, Locale
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast
from disco.records.wording import counted, money, percent

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
