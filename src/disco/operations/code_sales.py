"""What the codes of a campaign have sold, and whether that is what the plan forecast: one rule for every page."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import partial

import numpy as np
import pyarrow.compute as pc

from disco.operations.net_purchases import net_purchases
from disco.records.currency import Currency
from disco.records.estimate import Estimate
from disco.records.life import CampaignRecord
from disco.records.matching import places_in
from disco.records.money import from_minor_units
from disco.records.plan_summary import MoneyForecast
from disco.records.wording import date as day_text
from disco.records.wording import money, percent
from disco.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSales:
    """What was bought with the codes of a campaign, after refunds and corrections."""

    purchases: int
    """Codes with a purchase of which something was kept."""
    revenue: float
    """What customers paid, in currency units."""
    markdown: float
    """What the discounts took from the full price: the cost of the codes so far."""
    late_revenue: float
    """The part of the revenue that customers paid who arrived after the launch."""
    late_markdown: float
    """The part of the markdown that they got."""


NO_SALES = CodeSales(purchases=0, revenue=0.0, markdown=0.0, late_revenue=0.0, late_markdown=0.0)


def code_sales(transaction: Transaction, campaign: str) -> CodeSales:
    """What was bought with the codes of a campaign, of the launch and of late arrivals.

    Reads the outcomes that count and looks up the codes they name, so it costs what was bought and not what was sent.
    """
    net = net_purchases(transaction.ledger.applied(campaign))
    if not len(net.code):
        return NO_SALES
    order = pc.sort_indices(net.code)  # sums of money are made in one order, whatever came first
    codes = net.code.take(order)
    sold = transaction.decisions.of(campaign, codes=codes)
    place = places_in(codes, among=sold["code"].combine_chunks())
    depth = sold["depth"].combine_chunks().take(place).to_numpy(zero_copy_only=False)
    full_price = from_minor_units(net.full_price_minor[order.to_numpy()], transaction.locale.currency)
    late = sold["late"].combine_chunks().take(place).to_numpy(zero_copy_only=False).astype(np.bool_)
    paid, discount = full_price * (1 - depth), full_price * depth
    return CodeSales(
        purchases=net.purchases,
        revenue=float(paid.sum()),
        markdown=float(discount.sum()),
        late_revenue=float(paid[late].sum()),
        late_markdown=float(discount[late].sum()),
    )


# ---- beside the forecast ---------------------------------------------------------------------------------------------


class ForecastSide(StrEnum):
    """Where an actual figure lies, compared with the interval of its forecast."""

    NOT_YET = "not yet"  # purchases may still be reported, or none was
    BELOW = "below"
    INSIDE = "inside"
    ABOVE = "above"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstForecast:
    """Revenue and markdown of the codes of the launch, compared with their 90% forecast intervals."""

    revenue: ForecastSide
    """Where the revenue lies: not yet (before the last purchases are reported), below, inside or above."""
    markdown: ForecastSide
    """Where the markdown lies, likewise."""
    missed: bool
    """Whether the forecast was missed: revenue outside its interval, or markdown above its own."""
    brief: str
    """The miss in a few words; empty where there is none."""
    words: str
    """The comparison in sentences, with figures."""

    @property
    def is_known(self) -> bool:
        """Whether the forecast can be compared already."""
        return self.revenue is not ForecastSide.NOT_YET

    @property
    def label(self) -> str:
        """For a table: the miss, or that there is none, or that it is too early."""
        return self.brief or str(self.revenue)


def against_forecast(
    record: CampaignRecord,
    expected: MoneyForecast | None,
    *,
    purchases: int,
    revenue: float,
    markdown: float,
    today: date,
    currency: Currency,
) -> AgainstForecast | None:
    """Compare what the codes of a launch brought with its forecast; None where there is none to compare with.

    The rule: from the day on which the last purchase has been reported, a figure is inside its forecast when it lies
    within the interval. Before that day, and where no purchase was reported, nothing is concluded. A forecast is missed
    by revenue outside its interval or by markdown above its own: codes that cost less than forecast follow from sales
    that are lower, which the revenue says.
    """
    if expected is None or record.recalled_at is not None:
        return None
    early = today < record.matures_on
    if early or not purchases:
        words = (
            f"The forecast is compared on {day_text(record.matures_on)}, when the last purchases have been reported."
            if early
            else "The forecast cannot be compared: no purchase was reported."
        )
        not_yet = ForecastSide.NOT_YET
        return AgainstForecast(revenue=not_yet, markdown=not_yet, missed=False, brief="", words=words)
    sides = {"revenue": _side(revenue, expected.revenue), "code cost": _side(markdown, expected.markdown)}
    figures = {"revenue": (revenue, expected.revenue), "code cost": (markdown, expected.markdown)}
    missed = {
        name: side
        for name, side in sides.items()
        if side is ForecastSide.ABOVE or (side is ForecastSide.BELOW and name == "revenue")
    }
    sizes = {name: f"{_distance(*figures[name])}{side} forecast" for name, side in missed.items()}
    sentences = [
        f"{name.capitalize()} was {size}: {_figures(*figures[name], currency=currency)}."
        for name, size in sizes.items()
    ]
    if not missed:
        amounts = ", ".join(f"{name} {_figures(*pair, currency=currency)}" for name, pair in figures.items())
        sentences = [f"The codes did as forecast: {amounts}."]
    return AgainstForecast(
        revenue=sides["revenue"],
        markdown=sides["code cost"],
        missed=bool(missed),
        brief=" and ".join(f"{name} {size}" for name, size in sizes.items()),
        words=" ".join(sentences),
    )


def _side(actual: float, expected: Estimate) -> ForecastSide:
    lower, upper = expected.ends or (expected.value, expected.value)
    return ForecastSide.BELOW if actual < lower else ForecastSide.ABOVE if actual > upper else ForecastSide.INSIDE


def _distance(actual: float, expected: Estimate) -> str:
    """`34% `, or nothing where the forecast was 0."""
    return f"{percent(abs(actual / expected.value - 1), decimals=0)} " if expected.value > 0 else ""


def _figures(actual: float, expected: Estimate, *, currency: Currency) -> str:
    write = partial(money, currency=currency)
    lower, upper = expected.ends or (expected.value, expected.value)
    return f"{write(actual)}, expected {write(expected.value)} ({write(lower)} to {write(upper)})"
