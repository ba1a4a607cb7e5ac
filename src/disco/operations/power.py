"""How many customers an A/B test needs, or what a given number of customers can show."""

from dataclasses import dataclass, replace

from disco.evaluation.power import Design
from disco.records.errors import InputError
from disco.records.result import Result
from disco.records.wording import percent


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PowerResult(Result):
    """The design of an A/B test of decided codes against control."""

    control_share: float
    """Control's share of the customers."""
    level: float
    """1 − α of the two-sided test."""
    figure: str
    """What is tested, in words: an amount per customer, an amount of which only purchasers have one, or a rate."""
    is_rate: bool
    """Whether the figure is a rate, the share of customers who do something."""
    baseline: float
    """Mean of the figure in control, per customer assigned; of a rate, the rate."""
    sd: float
    """Its standard deviation between customers in control."""
    uplift: float
    """Relative difference: given, or the smallest that can be detected."""
    power: float
    """Chance of detecting the uplift: given, or what these customers give."""
    customers: int
    """Customers of both groups together: given, or needed."""
    control: int
    """Customers in control."""
    decided: int
    """Customers in the decided group."""
    purchasers: int | None
    """About how many of the customers buy, where `engagement` was given."""


def power(
    *,
    baseline: float | None = None,
    sd: float | None = None,
    rate: float | None = None,
    uplift: float | None = None,
    customers: int | None = None,
    power: float = 0.8,
    control_share: float = 0.5,
    level: float = 0.95,
    engagement: float | None = None,
    explained: float = 0.0,
) -> PowerResult:
    """With `uplift`: the customers needed. With `customers`: the smallest uplift they show. With both: the chance.

    baseline, sd: of the figure in control, per customer; per purchaser where `engagement` (the share that buys) is
    given. rate: instead of both, the share of control who do something, such as buying. explained: share of the
    variance that pre-period figures explain (CUPED).
    """
    if rate is not None:
        if baseline is not None or sd is not None or engagement is not None:
            raise InputError("rate", found="a rate and an amount", expected="a rate alone, or baseline and sd")
        design = Design.of_rate(rate, control_share=control_share, level=level)
        figure = f"a rate of {percent(rate)} in control"
    elif baseline is None or sd is None:
        raise InputError("baseline", found="none", expected="baseline and sd of an amount, or a rate")
    elif engagement is None:
        design = Design(baseline=baseline, sd=sd, control_share=control_share, level=level)
        figure = f"an amount per customer, mean {baseline:,.4g} and sd {sd:,.4g} in control, customers without it as 0"
    else:
        buyers = f"the {percent(engagement)} of control who buy"
        figure = f"an amount per customer, of {baseline:,.4g} (sd {sd:,.4g}) for {buyers} and 0 for all others"
        design = Design.of_purchases(
            baseline=baseline, sd=sd, engagement=engagement, control_share=control_share, level=level
        )
    design = replace(design, explained=explained)
    if explained:
        figure += f", less the {percent(explained)} of its variance that figures from before explain"
    if uplift is not None and customers is not None:
        power = design.power(uplift, customers=customers)
    elif uplift is not None:
        customers = design.customers(uplift, power=power)
    elif customers is not None:
        uplift = design.detectable_uplift(customers=customers, power=power)
    else:
        raise InputError("power needs an uplift, a number of customers, or both")
    control = round(customers * control_share)
    return PowerResult(
        control_share=control_share,
        level=level,
        figure=figure,
        is_rate=design.is_rate,
        baseline=design.baseline,
        sd=design.sd,
        uplift=uplift,
        power=power,
        customers=customers,
        control=control,
        decided=customers - control,
        purchasers=None if engagement is None else round(customers * engagement),
    )
