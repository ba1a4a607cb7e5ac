"""The 76 features: name, group, formula, meaning, unit. Code, documentation and reports all come from this list.

A formula is SQL over the measures of `measures.py`, evaluated once per customer in float64. Counts and totals are 0 and
recencies 366 ("not within the year") for a customer without rows; a mean or a share of nothing is unknown (null).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from disco.features.measures import LOG_GRID, MEASURES
from disco.records.errors import InputError

GROUPS = ("purchases", "returns", "codes", "site")
HISTORY_FEATURE = "orders_365d"  # 0 or missing: no purchase in the year
CODE_USED, CODE_CAMPAIGN = "code_used", "code_campaign"  # columns beside the features in rows of codes sent
NOT_FEATURES = (  # columns of training rows that are no features
    *("customer_id", "order_id", "ordered_at", "log_full_price", "depth", "depth_derived"),
    *("code_id", "sent_at", CODE_USED, CODE_CAMPAIGN),
)
TABLES = ("customers", "orders", "returns", "codes", "site")  # that features are computed from
_DAMPING = 0.1  # depth² added to the spread of depths, so that two nearly equal depths give no huge slope
_WORD = re.compile(r"[a-z_][a-z_0-9]*")
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*|\d+(?:\.\d*)?(?:e[+-]?\d+)?|[-+*/(),<>=])")
# what a formula may say besides measures and numbers: it sees one customer's row and nothing else
_CASES = ("case", "when", "then", "else", "end", "and", "or", "not", "is", "null")
_FUNCTIONS = ("nullif", "coalesce", "greatest", "least", "sqrt", "ln", "exp", "abs", "sign", "floor", "power")


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the feature table: `formula` is SQL over measures, `unit` what one unit of it is.

    >>> Feature("orders_per_visit", "site", "orders_365 / nullif(visits_365, 0)", "orders per visit", "ratio").measures
    ('orders_365', 'visits_365')
    """

    name: str
    group: str
    formula: str
    meaning: str
    unit: str

    def __post_init__(self) -> None:
        if not _WORD.fullmatch(self.name) or self.name in NOT_FEATURES:
            raise InputError(
                "feature name",
                found=repr(self.name),
                expected=f"lower-case letters, digits and underscores, and none of {', '.join(NOT_FEATURES)}",
            )
        if self.group not in GROUPS:
            raise InputError(f"feature {self.name}", found=f"group {self.group!r}", expected=" | ".join(GROUPS))
        if not self.measures:
            raise InputError(
                f"feature {self.name}",
                found=f"the formula {self.formula!r}",
                expected="at least one measure of disco.features.measures.MEASURES",
            )
        unknown = _unknown_word(self.formula)
        if unknown is not None:
            raise InputError(
                f"feature {self.name}",
                found=f"{unknown!r} in its formula",
                expected=f"measures, numbers, + - * / ( ) , < > = and {' '.join((*_CASES, *_FUNCTIONS))}",
            )

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures the formula uses, in order of first use."""
        return tuple(dict.fromkeys(word for word in _WORD.findall(self.formula) if word in MEASURES))


def _unknown_word(formula: str) -> str | None:
    """The first thing in a formula that it may not say.

    >>> _unknown_word("orders_365 / nullif(visits_365, 0)"), _unknown_word("(SELECT max(paid) FROM raw_orders) + 1")
    (None, 'SELECT')
    """
    comment = next((sign for sign in ("--", "/*") if sign in formula), None)
    if comment is not None:
        return comment
    at = 0
    while at < len(formula.rstrip()):
        token = _TOKEN.match(formula, at)
        if token is None:
            return formula[at:].strip()[:20]
        word = token[1]
        if word.isidentifier() and word not in MEASURES and word.lower() not in (*_CASES, *_FUNCTIONS):
            return word
        at = token.end()
    return None


def _per(amount: str, count: str, scale: float = 1) -> str:
    return f"{amount} / nullif({count}, 0)" + (f" / {scale:g}" if scale != 1 else "")


def _money(measure: str) -> str:
    return f"{measure} / 100"


def _purchases() -> Iterable[tuple[str, str, str, str]]:
    for days in (365, 90, 30, 7):
        yield f"orders_{days}d", f"orders_{days}", f"orders in the last {days} days", "orders"
    for days in (365, 90, 30):
        yield f"spend_{days}d", _money(f"full_{days}"), f"full price of all orders, last {days} days", "money"
    yield "paid_365d", _money("paid_365"), "paid for all orders", "money"
    yield "basket_mean_365d", _per("full_365", "orders_365", 100), "mean full price of an order", "money"
    yield "basket_mean_90d", _per("full_90", "orders_90", 100), "mean full price of an order, last 90 days", "money"
    yield "basket_log_mean_365d", _per("log_sum", "logged", LOG_GRID), "mean ln full price of an order", "ln money"
    variance = "(log_square - log_sum * log_sum / nullif(logged, 0)) / nullif(logged - 1, 0)"
    spread = f"sqrt(greatest(CASE WHEN logged > 1 THEN {variance} END, CASE WHEN logged > 1 THEN 0 END)) / {LOG_GRID}"
    yield "basket_log_sd_365d", spread, "sd of ln full price over at least two orders", "ln money"
    yield "basket_max_365d", _money("full_max"), "largest order", "money"
    yield "basket_min_365d", _money("full_min"), "smallest order", "money"
    yield "basket_last", _money("full_last"), "full price of the last order", "money"
    yield "items_365d", "items_365", "items ordered", "items"
    yield "items_90d", "items_90", "items ordered, last 90 days", "items"
    yield "items_per_order_365d", _per("items_365", "orders_365"), "items per order", "items"
    yield "item_price_mean_365d", _per("full_365", "items_365", 100), "mean full price of an item", "money"
    yield "days_since_last_order", "last_order_age", "days since the last order (366: none within the year)", "days"
    yield "days_since_first_order", "first_order_age", "days since the first order of the year (366: none)", "days"
    gap = "(first_order_age - last_order_age) / nullif(orders_365 - 1, 0)"
    yield "days_between_orders", f"CASE WHEN orders_365 > 1 THEN {gap} END", "mean days between orders", "days"
    yield "active_months_365d", "active_months", "30-day periods with an order (of 13)", "periods"
    yield "weekend_order_share_365d", _per("weekend_orders", "orders_365"), "share of orders on a weekend", "share"
    yield "evening_order_share_365d", _per("evening_orders", "orders_365"), "share of orders after 18:00", "share"
    yield "spend_share_90d", _per("full_90", "full_365"), "share of the year's spend in the last 90 days", "share"
    yield "tenure_days", "tenure", "days since the customer joined", "days"


def _returns() -> Iterable[tuple[str, str, str, str]]:
    for days in (365, 90, 30):
        yield f"returns_{days}d", f"returns_{days}", f"returns in the last {days} days", "returns"
    for days in (365, 90):
        yield f"returned_value_{days}d", _money(f"returned_{days}"), f"value returned, last {days} days", "money"
    yield "returned_value_mean_365d", _per("returned_365", "returns_365", 100), "mean value of a return", "money"
    yield "returned_value_max_365d", _money("returned_max"), "largest return", "money"
    yield "returned_order_share_365d", _per("returned_orders", "orders_365"), "share of orders with a return", "share"
    yield (
        "returned_value_share_365d",
        _per("order_returned", "paid_365"),
        "share of what was paid that came back",
        "share",
    )
    full = _per("fully_returned_orders", "orders_365")
    yield "fully_returned_share_365d", full, "share of orders returned completely", "share"
    yield "days_since_last_return", "last_return_age", "days since the last return (366: none within the year)", "days"
    yield "return_delay_mean_days", _per("return_delay", "returns_365"), "mean days from order to return", "days"
    kept = _per("(paid_365 - order_returned)", "orders_365", 100)
    yield "kept_per_order_365d", kept, "paid per order, less what came back", "money"


def _codes() -> Iterable[tuple[str, str, str, str]]:
    for days in (365, 90, 30, 7):
        yield f"codes_received_{days}d", f"codes_{days}", f"codes received in the last {days} days", "codes"
    for days in (365, 90, 30):
        yield f"codes_redeemed_{days}d", f"redeemed_{days}", f"codes redeemed in the last {days} days", "codes"
    yield "redemption_rate_365d", _per("redeemed_365", "codes_365"), "share of received codes redeemed", "share"
    yield "depth_received_mean_365d", _per("received_depth", "codes_365", 10000), "mean depth received", "depth"
    yield "depth_redeemed_mean_365d", _per("redeemed_depth", "redeemed_365", 10000), "mean depth redeemed", "depth"
    yield "depth_redeemed_max_365d", "redeemed_depth_max / 10000", "deepest code redeemed", "depth"
    yield "days_since_last_code", "last_code_age", "days since the last code (366: none within the year)", "days"
    recency = "days since the last redemption (366: none within the year)"
    yield "days_since_last_redemption", "last_redemption_age", recency, "days"
    yield "redemption_delay_mean_days", _per("redemption_delay", "redeemed_365"), "mean days from code to order", "days"
    yield "coded_order_share_365d", _per("coded_orders", "orders_365"), "share of orders with a code", "share"
    yield "markdown_365d", "(full_365 - paid_365) / 100", "full price less paid, all orders", "money"
    yield (
        "coded_basket_mean_365d",
        _per("coded_full", "coded_orders", 100),
        "mean full price of orders with a code",
        "money",
    )
    uncoded = _per("(full_365 - coded_full)", "(orders_365 - coded_orders)", 100)
    yield "uncoded_basket_mean_365d", uncoded, "mean full price of orders without a code", "money"
    plain = "(log_sum - coded_log_sum) / nullif(logged - coded_logged, 0)"
    premium = f"(coded_log_sum / nullif(coded_logged, 0) - {plain}) / {LOG_GRID}"
    yield "coded_basket_premium_365d", premium, "mean ln full price with a code less that without", "ln money"
    cross = "(depth_log_cross - depth_sum * depth_log_sum / nullif(depth_logged, 0))"
    spread = "(depth_square - depth_sum * depth_sum / nullif(depth_logged, 0))"
    slope = f"{cross} / ({spread} + {_DAMPING * 1e8:.0f}) * {10000 / LOG_GRID!r}"
    yield (
        "basket_depth_slope_365d",
        slope,
        "slope of ln full price over depth in the orders, damped",
        "ln money per depth",
    )


def _site() -> Iterable[tuple[str, str, str, str]]:
    for days in (365, 90, 30, 7):
        yield f"visits_{days}d", f"visits_{days}", f"visits in the last {days} days", "visits"
    for days in (365, 30):
        yield f"views_{days}d", f"views_{days}", f"product views, last {days} days", "views"
    for days in (365, 30):
        yield f"add_to_bag_{days}d", f"bagged_{days}", f"items put into the bag, last {days} days", "items"
    yield "saves_365d", "saves", "items saved for later", "items"
    yield "checkouts_365d", "checkouts", "checkouts begun", "checkouts"
    yield "site_days_365d", "site_days", "days with a visit", "days"
    yield "views_per_visit_365d", _per("views_365", "visits_365"), "product views per visit", "ratio"
    yield "bag_rate_365d", _per("bagged_365", "views_365"), "items put into the bag per view", "ratio"
    yield "checkout_rate_365d", _per("checkouts", "bagged_365"), "checkouts per item put into the bag", "ratio"
    yield "days_since_last_visit", "last_visit_age", "days since the last visit (366: none within the year)", "days"
    yield "orders_per_visit_365d", _per("orders_365", "visits_365"), "orders per visit", "ratio"


FEATURES: tuple[Feature, ...] = tuple(
    Feature(name, group, formula, meaning, unit)
    for group, rows in zip(GROUPS, (_purchases(), _returns(), _codes(), _site()), strict=True)
    for name, formula, meaning, unit in rows
)


def choose(features: Sequence[Feature | str] | None) -> tuple[Feature, ...]:
    """The features asked for: names of the catalogue, own `Feature`s, or None for all 76.

    >>> [feature.name for feature in choose(["orders_7d"])]
    ['orders_7d']
    """
    if features is None:
        return FEATURES
    if isinstance(features, str):
        raise InputError("features", found=repr(features), expected="a list of names")
    known = {feature.name: feature for feature in FEATURES}
    chosen = []
    for feature in features:
        own = feature if isinstance(feature, Feature) else known.get(feature)
        if own is None:
            raise InputError("features", found=repr(feature), expected="a name of the catalogue (docs/features.md)")
        chosen.append(own)
    names = [feature.name for feature in chosen]
    if not names or len(set(names)) != len(names):
        raise InputError("features", found=names, expected="at least one feature, each once")
    return tuple(chosen)


def schema_hash(features: Sequence[Feature]) -> str:
    """16 hex digits that change whenever a feature's name, formula or unit does, or the measures under it.

    Their order does not matter.
    """
    text = "\n".join(
        "\x1f".join([f.name, f.formula, f.unit, *(MEASURES[name].aggregate for name in f.measures)])
        for f in sorted(features, key=lambda f: f.name)
    )
    return blake2b(text.encode(), digest_size=8).hexdigest()
