"""Every parameter of the simulated retailer. Two retailers with equal settings have equal tables, byte for byte.

Symbols: u = depth / `depth_scale` is the depth on the scale of the response curve; b is a customer's baseline (mean ln
of the full-price basket without a code), s the elasticity (rise of that mean from u = 0 to u = 1), g(u) the curve
between. A field that ends in `_spread` or `_sd` is a standard deviation over customers unless its comment says
otherwise.

Field names and their order are part of retailer.json, which older simulations have on disk: do not rename or move them.
"""

import math
from dataclasses import dataclass, field, fields, replace
from datetime import date
from enum import StrEnum

from pydantic import TypeAdapter, ValidationError

from disco.records.depths import read_depths
from disco.records.errors import FileFormatError, InputError

MOST_CUSTOMERS = 10_000_000  # ids have seven digits
FORMAT = 1  # of retailer.json


class Shape(StrEnum):
    """How a customer's basket and chance to buy rise with depth; all three are non-decreasing."""

    CONCAVE = "concave"
    S_SHAPED = "s-shaped"
    THRESHOLD = "threshold"


class ChannelName(StrEnum):
    """How a code reaches its customer."""

    ON_SITE = "on-site"
    EMAIL = "e-mail"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaleEvent:
    """Days of every year on which orders are more or less frequent."""

    month: int
    day: int  # of the month, the first day of the event
    days: int  # how long it lasts
    lift: float  # factor on the frequency of orders


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The simulated time. The history covers [history_start, history_end); campaigns come after it."""

    history_start: date = date(2024, 1, 1)
    history_end: date = date(2025, 9, 1)
    year_amplitude: float = 0.12  # ln of the yearly wave in order frequency
    year_peak: int = 335  # day of the year on which the wave is highest
    weekend_lift: float = 1.2  # factor on the frequency of orders
    events: tuple[SaleEvent, ...] = (
        SaleEvent(month=11, day=21, days=11, lift=1.6),
        SaleEvent(month=12, day=5, days=14, lift=1.25),
        SaleEvent(month=12, day=24, days=3, lift=0.45),
        SaleEvent(month=12, day=27, days=14, lift=1.2),
    )
    basket_share: float = 0.15  # a day with twice the orders has baskets 2**basket_share times as large


@dataclass(frozen=True, slots=True, kw_only=True)
class ShoppingHabits:
    """Eight latent habits per customer and the behaviours they drive.

    A behaviour is a direction in habit space plus noise of its own. Medians are those of the typical customer; spreads
    are standard deviations of the logarithm (of the logit for `return_spread`).
    """

    mixing: float = 0.35  # how strongly habits correlate
    cross_loading: float = 0.1  # how strongly a behaviour follows habits other than its first
    habit_noise: float = 0.03  # a behaviour's own variance share: how well the tables can reveal the habits
    missions_per_month: float = 0.18  # median; a mission is a month with at least one order without a code
    missions_spread: float = 0.3
    orders_per_mission: float = 3.05  # mean
    item_price: float = 21.0  # median, currency units
    item_price_spread: float = 0.30
    return_logit: float = -1.3  # logit of the share of orders that are returned
    return_spread: float = 0.9
    return_days: float = 9.0  # median days from order to return
    return_days_spread: float = 0.35
    most_return_days: int = 45  # no return comes later
    browse_days_per_month: float = 1.15  # median days with a visit but no order
    browse_spread: float = 0.65
    views_per_visit: float = 10.0  # median
    views_spread: float = 0.45
    joined_during_history: float = 0.3  # share of customers; the rest joined in the five years before
    lapsed: float = 0.1  # share of customers who stop ordering at some day of the history
    lapsed_logit: float = -1.5  # added to the logit of their chance to use a code


@dataclass(frozen=True, slots=True, kw_only=True)
class Baskets:
    """ln(full price) = b + s·g(u) + residual; b = mean + linear_sd·lin(habits) + nonlinear_sd·nonlin(habits)."""

    mean: float = 3.8  # of b over customers
    linear_sd: float = 0.06  # the part of b that a line through the habits explains
    nonlinear_sd: float = 0.39  # the part that no line explains
    residual_sd: float = 0.685  # ordinary orders
    campaign_residual_sd: float = 0.72  # orders with a campaign's code
    # The part of residual_sd that all ordinary orders of one mission share. With few missions a year, it decides how
    # much a customer's past average basket reveals about the baseline.
    mission_sd: float = 0.67


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """s = elasticity·exp(spread·ζ − spread²/2) with corr(ζ, b) = with_baseline; g runs from g(0) = 0 to g(1) = 1."""

    shape: Shape = Shape.CONCAVE
    depth_scale: float = 0.5  # the depth at which u = 1
    elasticity: float = 0.7  # mean of s
    elasticity_spread: float = 0.35  # sd of ln s
    elasticity_with_baseline: float = 0.35  # corr(ζ, b)
    elasticity_from_habits: float = 0.8  # variance share of the rest of ζ that habits explain
    concave_rate: float = 2.0  # median κ of g = (1 − e^{−κu}) / (1 − e^{−κ})
    concave_rate_spread: float = 0.25  # sd of ln κ
    steepness: float = 9.0  # of the S, in units of 1/u
    midpoint: float = 0.55  # of the S and of the threshold's ramp, in u
    midpoint_spread: float = 0.12
    ramp: float = 0.1  # width of the threshold's rise, in u


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseChance:
    """logit P(purchase | code) = level + channel + spread·η + gain·g(u); corr(η, b) = with_spend."""

    level: float = -2.5
    spread: float = 0.6
    with_spend: float = 0.2
    from_habits: float = 0.8  # variance share of the rest of η that habits explain
    gain: float = 1.5  # mean over customers
    gain_spread: float = 0.3  # sd of its ln


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way to hand out codes."""

    logit: float  # added to the logit of the chance to purchase
    valid_days: int  # validity of a code that comes without its own
    delay_days: float  # mean delay from code to order, before the validity cuts it


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdinaryCodes:
    """Monthly codes of the history. They give the training orders their variation of depth."""

    sent_logit: float = 0.2  # logit of the median customer's chance to get one in a month
    sent_spread: float = 0.8
    depths: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
    confounding: float = 0.2  # correlation of the depth's rank with baseline spend: 0 = random, 1 = spend alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One of the paper's campaigns."""

    name: str
    starts_on: date
    depths: tuple[float, ...]  # shares of the price
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


class Tails(StrEnum):
    """The law of the residual of ln(full price); all have the same mean and sd."""

    NORMAL = "normal"
    T5 = "t5"
    RIGHT = "right-skewed"
    LEFT = "left-skewed"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What moves, what is not normal, and what codes do to other orders; the defaults are a world without any of it.

    `world.py` has the laws of what moves, `laws.py` those of other orders. Trend, fading and rotation are per 30 days
    since the end of the history.
    """

    trend: float = 0.0  # relative change of the chance to answer a code: -0.07 is 7% less every 30 days
    season_low: float = 1.0  # least factor of the year on the chance to order and to use a code
    season_high: float = 1.0  # largest factor; on the day calendar.year_peak
    fading: float = 0.0  # share of the response to depth that is lost
    rotation: float = 0.0  # degrees by which the direction of elasticity and of engagement turns
    tails: Tails = Tails.NORMAL
    anyway: float = 0.0  # share of a buyer's ordinary orders in the weeks of a code they use that the code replaces
    waiting: float = 0.0  # share of ordinary orders that somebody who regularly gets codes keeps back
    reference: float = 0.0  # how much a remembered depth takes from ordinary orders and from shallower codes


#: Worlds by the name that `disco simulate --world` and the studies use.
WORLDS = {
    "ordinary": World(),
    "trend": World(trend=-0.07),
    "season": World(season_low=0.7, season_high=1.5),
    "fading": World(fading=0.08),
    "rotating": World(rotation=15.0),
    **{str(tails): World(tails=tails) for tails in Tails if tails is not Tails.NORMAL},
    "anyway": World(anyway=0.8),
    "waiting": World(waiting=0.3),
    "reference": World(reference=1.5),
}
SEASON_HISTORY_YEARS = 2  # a season can be told from a trend after two of them


@dataclass(frozen=True, slots=True, kw_only=True)
class RetailerSettings:
    """All parameters of one simulated retailer.

    >>> settings = RetailerSettings(customers=1000, seed=7)
    >>> RetailerSettings.from_json(settings.to_json()) == settings
    True
    """

    customers: int  # how many
    seed: int = 0  # 0 to 2⁶³ − 1
    countries: tuple[tuple[str, float], ...] = (  # with their shares of customers, which add up to 1
        ("GB", 0.6),
        ("US", 0.2),
        ("DE", 0.12),
        ("FR", 0.08),
    )
    calendar: Calendar = field(default_factory=Calendar)
    habits: ShoppingHabits = field(default_factory=ShoppingHabits)
    baskets: Baskets = field(default_factory=Baskets)
    curves: Curves = field(default_factory=Curves)
    engagement: PurchaseChance = field(default_factory=PurchaseChance)
    on_site: Channel = field(default_factory=lambda: Channel(logit=0.0, valid_days=2, delay_days=0.5))
    email: Channel = field(default_factory=lambda: Channel(logit=-0.3, valid_days=30, delay_days=8.0))
    ordinary_codes: OrdinaryCodes = field(default_factory=OrdinaryCodes)
    campaigns: tuple[Campaign, ...] = PAPER_CAMPAIGNS
    world: World = field(default_factory=World)

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
        _check_ranges(self)

    def in_world(self, name: str) -> "RetailerSettings":
        """The same retailer in one of the WORLDS; where there are seasons, with a history of two years at least.

        >>> RetailerSettings(customers=10).in_world("trend").world.trend
        -0.07
        """
        if name not in WORLDS:
            raise InputError("world", found=repr(name), expected=f"one of {', '.join(WORLDS)}")
        world, calendar = WORLDS[name], self.calendar
        if world.season_low < world.season_high:
            end = calendar.history_end
            start = min(calendar.history_start, end.replace(year=end.year - SEASON_HISTORY_YEARS))
            calendar = replace(calendar, history_start=start)
        return replace(self, world=world, calendar=calendar)

    def channel(self, name: ChannelName) -> Channel:
        """The settings of a channel by its name."""
        return self.on_site if name is ChannelName.ON_SITE else self.email

    def campaign(self, name: str) -> Campaign:
        """One of the paper's campaigns by its letter."""
        for campaign in self.campaigns:
            if campaign.name == name:
                return campaign
        raise InputError("campaign", found=repr(name), expected=f"one of {', '.join(c.name for c in self.campaigns)}")

    def to_json(self) -> str:
        """Every field, indented, as retailer.json holds it."""
        return _ADAPTER.dump_json(self, indent=2).decode()

    @classmethod
    def from_json(cls, text: str) -> "RetailerSettings":
        """The inverse of `to_json`; an unknown field or a wrong type is refused by name."""
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

_SHARES = {  # by group: values that are shares in [0, 1]
    "habits": ("habit_noise", "joined_during_history", "lapsed"),
    "curves": ("elasticity_from_habits",),
    "engagement": ("from_habits",),
    "world": ("fading", "anyway", "waiting"),
}
_CORRELATIONS = {  # values in [−1, 1]
    "curves": ("elasticity_with_baseline",),
    "engagement": ("with_spend",),
    "ordinary_codes": ("confounding",),
}
_POSITIVE = {
    "calendar": ("weekend_lift",),
    "habits": ("missions_per_month", "item_price", "return_days", "most_return_days", "browse_days_per_month"),
    "baskets": ("residual_sd", "campaign_residual_sd"),
    "curves": ("depth_scale", "concave_rate", "steepness", "ramp"),
    "on_site": ("valid_days", "delay_days"),
    "email": ("valid_days", "delay_days"),
    "world": ("season_low", "season_high"),
}


def _check_ranges(settings: RetailerSettings) -> None:
    """Every number finite, and inside the range its meaning allows."""
    for group in (
        "calendar",
        "habits",
        "baskets",
        "curves",
        "engagement",
        "on_site",
        "email",
        "ordinary_codes",
        "world",
    ):
        part = getattr(settings, group)
        for each in fields(part):
            value, where = getattr(part, each.name), f"{group}.{each.name}"
            if not isinstance(value, int | float):
                continue
            if not math.isfinite(value):
                raise InputError(where, found=value, expected="a finite number")
            low = -1.0 if each.name in _CORRELATIONS.get(group, ()) else 0.0
            if each.name in _SHARES.get(group, ()) + _CORRELATIONS.get(group, ()) and not low <= value <= 1:
                raise InputError(where, found=value, expected=f"a number from {low:g} to 1")
            if each.name in _POSITIVE.get(group, ()) and value <= 0:
                raise InputError(where, found=value, expected="a positive number")
            if each.name.endswith(("_sd", "spread")) and value < 0:
                raise InputError(where, found=value, expected="a spread of 0 or more")
    world = settings.world
    if world.trend <= -1:
        raise InputError("world.trend", found=world.trend, expected="a number above -1, such as -0.07 for 7% less")
    if world.reference < 0:
        raise InputError("world.reference", found=world.reference, expected="a number of 0 or more")
    if world.season_low > world.season_high:
        raise InputError("world.season_low", found=world.season_low, expected="at most season_high")
    curves = settings.curves
    reach = curves.midpoint_spread + curves.ramp / 2
    if not reach <= curves.midpoint <= 1 - reach:
        raise InputError(
            "curves.midpoint",
            found=curves.midpoint,
            expected="every rise inside [0, 1]: midpoint ± (midpoint_spread + ramp / 2)",
        )
    if abs(sum(share for _, share in settings.countries) - 1) > 1e-9:
        raise InputError("countries", found=settings.countries, expected="shares that add up to 1")
    if not settings.habits.orders_per_mission >= 1:
        raise InputError("habits.orders_per_mission", found=settings.habits.orders_per_mission, expected="at least 1")
    if settings.baskets.mission_sd > settings.baskets.residual_sd:
        raise InputError(
            "baskets.mission_sd", found=settings.baskets.mission_sd, expected="at most residual_sd, which it is part of"
        )
