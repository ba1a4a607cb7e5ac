"""Every parameter of the simulated retailer, in one place. Two shops with equal settings are equal, byte for byte.

Symbols: u = depth / `depth_scale` is the depth as the response curve sees it; b is a customer's baseline (mean ln of
the full-price basket without a code), s the elasticity (rise of that mean from u = 0 to u = 1), g(u) the curve between.
"""

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from pydantic import TypeAdapter, ValidationError

from disco.records.depths import read_depths
from disco.records.errors import FileFormatError, InputError
from disco.retailer.ranges import check_ranges

MOST_CUSTOMERS = 10_000_000  # ids have seven digits
FORMAT = 1


class Shape(StrEnum):
    """How a customer's basket and readiness to buy rise with depth; all are non-decreasing."""

    CONCAVE = "concave"
    S_SHAPED = "s-shaped"
    THRESHOLD = "threshold"


class ChannelName(StrEnum):
    ON_SITE = "on-site"
    EMAIL = "e-mail"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaleEvent:
    """Days of every year on which orders are `lift` times as frequent."""

    month: int
    day: int
    days: int
    lift: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The simulated time. The history covers [history_start, history_end); campaigns come after it."""

    history_start: date = date(2024, 1, 1)
    history_end: date = date(2025, 9, 1)
    year_amplitude: float = 0.12  # ln of the yearly wave in order frequency
    year_peak: int = 335  # day of the year on which the wave is highest
    weekend_lift: float = 1.2
    events: tuple[SaleEvent, ...] = (
        SaleEvent(month=11, day=21, days=11, lift=1.6),
        SaleEvent(month=12, day=5, days=14, lift=1.25),
        SaleEvent(month=12, day=24, days=3, lift=0.45),
        SaleEvent(month=12, day=27, days=14, lift=1.2),
    )
    basket_share: float = 0.15  # a day with twice the orders has baskets 2**basket_share times as large


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Eight latent habits per customer and the behaviours they drive.

    A behaviour is a direction in habit space plus own noise; `habit_noise` is the variance share of the noise, so it
    sets how well aggregates of the tables can reveal the habits, and with them baseline and elasticity.
    """

    mixing: float = 0.35  # how strongly habits hang together
    cross_loading: float = 0.1  # how strongly a behaviour follows habits other than its first
    habit_noise: float = 0.03
    missions_per_month: float = 0.18  # median customer; a mission is a month with at least one order without a code
    missions_spread: float = 0.3  # sd of its ln
    orders_per_mission: float = 3.05
    item_price: float = 21.0
    item_price_spread: float = 0.30
    return_logit: float = -1.3
    return_spread: float = 0.9
    return_days: float = 9.0
    return_days_spread: float = 0.35
    most_return_days: int = 45
    browse_days_per_month: float = 1.15
    browse_spread: float = 0.65
    views_per_visit: float = 10.0
    views_spread: float = 0.45
    joined_during_history: float = 0.3  # share of customers; the rest joined in the five years before
    lapsed: float = 0.1  # share of customers who stop ordering at some day of the history
    lapsed_logit: float = -1.5  # what that does to their readiness to use a code


@dataclass(frozen=True, slots=True, kw_only=True)
class Baskets:
    """ln(full price) = b + s·g(u) + residual; b = mean + linear·lin(habits) + nonlinear·nonlin(habits)."""

    mean: float = 3.8
    linear_sd: float = 0.06
    nonlinear_sd: float = 0.39
    residual_sd: float = 0.685  # ordinary orders
    campaign_residual_sd: float = 0.72
    # The part of residual_sd that all ordinary orders of one mission share. With few missions a year, it decides how
    # much a customer's past average basket gives the baseline away.
    mission_sd: float = 0.67


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """s = elasticity·exp(spread·ζ − spread²/2) with corr(ζ, b) = with_baseline; g runs from g(0) = 0 to g(1) = 1."""

    shape: Shape = Shape.CONCAVE
    depth_scale: float = 0.5
    elasticity: float = 0.7
    elasticity_spread: float = 0.35
    elasticity_with_baseline: float = 0.35
    elasticity_from_habits: float = 0.8  # variance share of the rest of ζ that habits explain
    concave_rate: float = 2.0
    concave_rate_spread: float = 0.25  # sd of its ln over customers
    steepness: float = 9.0  # of the S, in units of 1/u
    midpoint: float = 0.55  # of the S and of the threshold's ramp
    midpoint_spread: float = 0.12
    ramp: float = 0.1  # width of the threshold's rise


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement:
    """logit P(purchase | code) = level + channel + spread·η + gain·g(u); corr(η, b) = with_spend."""

    level: float = -2.5
    spread: float = 0.6
    with_spend: float = 0.2
    from_habits: float = 0.8  # variance share of the rest of η that habits explain
    gain: float = 1.5
    gain_spread: float = 0.3  # sd of its ln over customers


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way to hand out codes: its effect on readiness to buy, default validity, and mean delay of redemptions."""

    logit: float
    valid_days: int
    delay_days: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdinaryCodes:
    """Monthly codes of the history. They give the training orders their variation of depth."""

    sent_logit: float = 0.2  # of a customer's chance to get one in a month
    sent_spread: float = 0.8
    depths: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
    confounding: float = 0.2  # correlation of the depth's rank with baseline spend: 0 = random, 1 = spend alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One of the paper's campaigns, as money depths."""

    name: str
    starts_on: date
    depths: tuple[float, ...]
    channel: ChannelName
    valid_days: int


PAPER_CAMPAIGNS = (
    Campaign(
        name="A",
        starts_on=date(2025, 9, 9),
        depths=(0.325, 0.375, 0.425, 0.475),
        channel=ChannelName.ON_SITE,
        valid_days=2,
    ),
    Campaign(
        name="B", starts_on=date(2025, 9, 23), depths=(0.35, 0.4, 0.45), channel=ChannelName.ON_SITE, valid_days=1
    ),
    Campaign(
        name="C", starts_on=date(2025, 10, 7), depths=(0.325, 0.375, 0.425), channel=ChannelName.ON_SITE, valid_days=2
    ),
    Campaign(
        name="D", starts_on=date(2025, 10, 21), depths=(0.15, 0.2, 0.25), channel=ChannelName.EMAIL, valid_days=30
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetailerSettings:
    """A whole shop.

    >>> settings = RetailerSettings(customers=1000, seed=7)
    >>> RetailerSettings.from_json(settings.to_json()) == settings
    True
    """

    customers: int
    seed: int = 0
    countries: tuple[tuple[str, float], ...] = (
        ("GB", 0.6),
        ("US", 0.2),
        ("DE", 0.12),
        ("FR", 0.08),
    )  # with their shares
    calendar: Calendar = field(default_factory=Calendar)
    habits: Habits = field(default_factory=Habits)
    baskets: Baskets = field(default_factory=Baskets)
    curves: Curves = field(default_factory=Curves)
    engagement: Engagement = field(default_factory=Engagement)
    on_site: Channel = field(default_factory=lambda: Channel(logit=0.0, valid_days=2, delay_days=0.5))
    email: Channel = field(default_factory=lambda: Channel(logit=-0.3, valid_days=30, delay_days=8.0))
    ordinary_codes: OrdinaryCodes = field(default_factory=OrdinaryCodes)
    campaigns: tuple[Campaign, ...] = PAPER_CAMPAIGNS

    def __post_init__(self) -> None:
        if not 1 <= self.customers <= MOST_CUSTOMERS:
            raise InputError("customers", found=self.customers, expected=f"1 to {MOST_CUSTOMERS:,}")
        if not 0 <= self.seed < 2**63:
            raise InputError("seed", found=self.seed, expected="an integer from 0 to 2⁶³ − 1")
        start, end = self.calendar.history_start, self.calendar.history_end
        if start.day != 1 or end.day != 1 or start >= end:
            raise InputError(
                "calendar",
                found=f"{start} to {end}",
                expected="a history from the first of a month to that of a later one",
            )
        for campaign in self.campaigns:
            read_depths(campaign.depths, where=f"campaign {campaign.name}")
            if campaign.starts_on < end:
                raise InputError(
                    f"campaign {campaign.name}", found=f"a start on {campaign.starts_on}", expected=f"{end} or later"
                )
        read_depths(self.ordinary_codes.depths, where="ordinary_codes")
        check_ranges(self)

    def channel(self, name: ChannelName) -> Channel:
        return self.on_site if name is ChannelName.ON_SITE else self.email

    def campaign(self, name: str) -> Campaign:
        for campaign in self.campaigns:
            if campaign.name == name:
                return campaign
        raise InputError("campaign", found=repr(name), expected=f"one of {', '.join(c.name for c in self.campaigns)}")

    def to_json(self) -> str:
        return _ADAPTER.dump_json(self, indent=2).decode()

    @classmethod
    def from_json(cls, text: str) -> "RetailerSettings":
        try:
            return _ADAPTER.validate_json(text, extra="forbid")
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise FileFormatError(
                "retailer settings",
                found=f"{where or 'the file'}: {first['msg']}",
                expected="settings as written by simulate",
            ) from None


_ADAPTER = TypeAdapter(RetailerSettings)
