"""How many customers an A/B test needs, or what a given number of customers can show."""

from dataclasses import dataclass, replace

from disco.evaluation.power import Design
from disco.records.errors import InputError
from disco.records.result import Result


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PowerResult(Result):
    """The design of an A/B test of decided codes against control."""

    control_share: float
    """Control's share of the customers."""
    level: float
    """1 − α of the two-sided test."""
    baseline: float
    """Mean of the figure in control, per customer assigned."""
    sd: float
    """Its standard deviation between customers."""
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
    baseline: float,
    sd: float,
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
    given. explained: share of the variance that pre-period figures explain (CUPED).
    """
    if engagement is None:
        design = Design(baseline=baseline, sd=sd, control_share=control_share, level=level)
    else:
        design = Design.of_purchases(
            baseline=baseline, sd=sd, engagement=engagement, control_share=control_share, level=level
        )
    design = replace(design, explained=explained)
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
        baseline=design.baseline,
        sd=design.sd,
        uplift=uplift,
        power=power,
        customers=customers,
        control=control,
        decided=customers - control,
        purchasers=None if engagement is None else round(customers * engagement),
    )
