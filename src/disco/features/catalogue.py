"""The 76 features: name, group, formula, meaning, unit. Code, documentation and reports all come from this list.

A measure is what is counted, per customer, in one pass over a table: an aggregate of integers (minor units of money,
basis points of depth, 2⁻¹⁶ of ln money, days), so that its value does not depend on the order in which rows are read or
on the number of threads. The rows that it sees are those of `Sources.joined`: dated in the year before the as-of date,
with `age` = days before it (1 = the day before).

A formula is SQL over measures, evaluated once per customer in float64. It sees money in hundredths of the currency
unit, whatever its minor unit is, so that one formula is right in every currency. Counts and totals are 0 and recencies
366 ("not within the year") for a customer without rows; a mean or a share of nothing is unknown (null).

A shop uses the catalogue, less what it drops, plus what it defines itself. The choice travels as text with feature
tables and networks, so a network knows how its own features are made.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from disco.records.errors import FileFormatError, InputError
from disco.records.exact_sums import GRID

if TYPE_CHECKING:
    import pyarrow as pa

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
YEAR_DAYS = 365
WINDOWS_DAYS = (YEAR_DAYS, 90, 30, 7)
LOG_GRID = int(GRID)  # ln money is rounded to 2⁻¹⁶ before it is summed
_MONEY = re.compile(r"(sum|max|min|arg_max)\(\w+_minor\b")
NEVER_DAYS = YEAR_DAYS + 1  # "not within the year" for recencies: further away than anything seen


@dataclass(frozen=True, slots=True)
class Measure:
    """An integer aggregate over one source; `empty` is its value for a customer without rows (None: unknown).

    `also` names a second table the rows of the source are joined with; without it the measure is unknown.
    """

    name: str
    source: str
    aggregate: str
    empty: int | None = 0
    also: str | None = None

    @property
    def is_money(self) -> bool:
        """
        >>> MEASURES["full_last"].is_money, MEASURES["returned_orders"].is_money, MEASURES["log_sum"].is_money
        (True, False, False)
        """
        return bool(_MONEY.match(self.aggregate))

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.source,) if self.also is None else (self.source, self.also)


def _windowed(source: str, name: str, aggregate: str, windows: tuple[int, ...] = WINDOWS_DAYS) -> Iterator[Measure]:
    for days in windows:
        where = "" if days == YEAR_DAYS else f" FILTER (WHERE age <= {days})"
        yield Measure(f"{name}_{days}", source, aggregate + where)


def _order_measures() -> Iterator[Measure]:
    def one(name: str, aggregate: str, empty: int | None = 0, also: str | None = None) -> Measure:
        return Measure(name, "orders", aggregate, empty, also)

    yield from _windowed("orders", "orders", "count(*)")
    yield from _windowed("orders", "full", "sum(full_minor)", (YEAR_DAYS, 90, 30))
    yield one("paid_365", "sum(paid_minor)")
    yield from _windowed("orders", "items", "sum(items)", (YEAR_DAYS, 90))
    yield one("log_sum", "sum(log_full)")
    yield one("log_square", "sum(log_full::HUGEINT * log_full)")
    yield one("logged", "count(log_full)")
    yield one("full_max", "max(full_minor)", None)
    yield one("full_min", "min(full_minor)", None)
    # the amount is part of the key, so that two orders of one instant give the same answer in any row order
    yield one("full_last", "arg_max(full_minor, instant_us::HUGEINT * 4611686018427387904 + full_minor)", None)
    yield one("last_order_age", "min(age)", NEVER_DAYS)
    yield one("first_order_age", "max(age)", NEVER_DAYS)
    yield one("active_months", "bit_count(bit_or(1::BIGINT << ((age - 1) // 30)))")
    yield one("weekend_orders", "count(*) FILTER (WHERE weekend)")
    yield one("evening_orders", "count(*) FILTER (WHERE evening)")
    yield one("returned_orders", "count(*) FILTER (WHERE returned_minor > 0)", also="returns")
    fully = "count(*) FILTER (WHERE returned_minor > 0 AND returned_minor >= paid_minor)"
    yield one("fully_returned_orders", fully, also="returns")
    yield one("order_returned", "sum(returned_minor)", also="returns")
    yield one("coded_orders", "count(*) FILTER (WHERE coded)")
    yield one("coded_full", "sum(full_minor) FILTER (WHERE coded)")
    yield one("coded_log_sum", "sum(log_full) FILTER (WHERE coded)")
    yield one("coded_logged", "count(log_full) FILTER (WHERE coded)")
    yield one("depth_logged", "count(log_full) FILTER (WHERE depth_bp IS NOT NULL)", also="codes")
    yield one("depth_sum", "sum(depth_bp) FILTER (WHERE log_full IS NOT NULL)", also="codes")
    yield one("depth_square", "sum(depth_bp::HUGEINT * depth_bp) FILTER (WHERE log_full IS NOT NULL)", also="codes")
    yield one("depth_log_sum", "sum(log_full) FILTER (WHERE depth_bp IS NOT NULL)", also="codes")
    yield one("depth_log_cross", "sum(depth_bp::HUGEINT * log_full)", also="codes")


def _return_measures() -> Iterator[Measure]:
    def one(name: str, aggregate: str, empty: int = 0) -> Measure:
        return Measure(name, "returns", aggregate, empty, also="orders")  # only the order knows whose return it is

    for days in (YEAR_DAYS, 90, 30):
        yield one(f"returns_{days}", f"count(*) FILTER (WHERE age <= {days})")
    for days in (YEAR_DAYS, 90):
        yield one(f"returned_{days}", f"sum(value_minor) FILTER (WHERE age <= {days})")
    yield one("returned_max", "max(value_minor)")
    yield one("last_return_age", "min(age)", NEVER_DAYS)
    yield one("return_delay", "sum(delay_days)")


def _code_measures() -> Iterator[Measure]:
    yield from _windowed("codes", "codes", "count(*)")
    for days in (YEAR_DAYS, 90, 30):
        yield Measure(f"redeemed_{days}", "codes", f"count(*) FILTER (WHERE redeemed_age <= {days})")
    yield Measure("received_depth", "codes", "sum(depth_bp)")
    yield Measure("redeemed_depth", "codes", "sum(depth_bp) FILTER (WHERE redeemed_age IS NOT NULL)")
    yield Measure("redeemed_depth_max", "codes", "max(depth_bp) FILTER (WHERE redeemed_age IS NOT NULL)", None)
    yield Measure("last_code_age", "codes", "min(age)", NEVER_DAYS)
    yield Measure("last_redemption_age", "codes", "min(redeemed_age)", NEVER_DAYS)
    yield Measure("redemption_delay", "codes", "sum(age - redeemed_age)")


def _site_measures() -> Iterator[Measure]:
    yield from _windowed("site", "visits", "sum(visits)")
    yield from _windowed("site", "views", "sum(views)", (YEAR_DAYS, 30))
    yield from _windowed("site", "bagged", "sum(add_to_bag)", (YEAR_DAYS, 30))
    yield Measure("saves", "site", "sum(saves)")
    yield Measure("checkouts", "site", "sum(checkouts)")
    yield Measure("site_days", "site", "count(*)")
    yield Measure("last_visit_age", "site", "min(age)", NEVER_DAYS)


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("tenure", "customers", "tenure", None),
        *_order_measures(),
        *_return_measures(),
        *_code_measures(),
        *_site_measures(),
    )
}


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
                expected="at least one measure of disco.features.catalogue.MEASURES",
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


def _by_days(
    name: str, formula: str, meaning: str, unit: str, windows: tuple[int, ...]
) -> Iterable[tuple[str, str, str, str]]:
    """One feature per window; {} stands for its days."""
    for days in windows:
        yield f"{name}_{days}d", formula.format(days), meaning.format(days), unit


def _purchases() -> Iterable[tuple[str, str, str, str]]:
    yield from _by_days("orders", "orders_{}", "orders in the last {} days", "orders", (365, 90, 30, 7))
    yield from _by_days("spend", _money("full_{}"), "full price of all orders, last {} days", "money", (365, 90, 30))
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
    yield from _by_days("returns", "returns_{}", "returns in the last {} days", "returns", (365, 90, 30))
    yield from _by_days("returned_value", _money("returned_{}"), "value returned, last {} days", "money", (365, 90))
    yield "returned_value_mean_365d", _per("returned_365", "returns_365", 100), "mean value of a return", "money"
    yield "returned_value_max_365d", _money("returned_max"), "largest return", "money"
    yield "returned_order_share_365d", _per("returned_orders", "orders_365"), "share of orders with a return", "share"
    back = _per("order_returned", "paid_365")
    yield "returned_value_share_365d", back, "share of what was paid that came back", "share"
    full = _per("fully_returned_orders", "orders_365")
    yield "fully_returned_share_365d", full, "share of orders returned completely", "share"
    yield "days_since_last_return", "last_return_age", "days since the last return (366: none within the year)", "days"
    yield "return_delay_mean_days", _per("return_delay", "returns_365"), "mean days from order to return", "days"
    kept = _per("(paid_365 - order_returned)", "orders_365", 100)
    yield "kept_per_order_365d", kept, "paid per order, less what came back", "money"


def _codes() -> Iterable[tuple[str, str, str, str]]:
    yield from _by_days("codes_received", "codes_{}", "codes received in the last {} days", "codes", (365, 90, 30, 7))
    yield from _by_days("codes_redeemed", "redeemed_{}", "codes redeemed in the last {} days", "codes", (365, 90, 30))
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
    coded = _per("coded_full", "coded_orders", 100)
    yield "coded_basket_mean_365d", coded, "mean full price of orders with a code", "money"
    uncoded = _per("(full_365 - coded_full)", "(orders_365 - coded_orders)", 100)
    yield "uncoded_basket_mean_365d", uncoded, "mean full price of orders without a code", "money"
    plain = "(log_sum - coded_log_sum) / nullif(logged - coded_logged, 0)"
    premium = f"(coded_log_sum / nullif(coded_logged, 0) - {plain}) / {LOG_GRID}"
    yield "coded_basket_premium_365d", premium, "mean ln full price with a code less that without", "ln money"
    cross = "(depth_log_cross - depth_sum * depth_log_sum / nullif(depth_logged, 0))"
    spread = "(depth_square - depth_sum * depth_sum / nullif(depth_logged, 0))"
    slope = f"{cross} / ({spread} + {_DAMPING * 1e8:.0f}) * {10000 / LOG_GRID!r}"
    meaning = "slope of ln full price over depth in the orders, damped"
    yield "basket_depth_slope_365d", slope, meaning, "ln money per depth"


def _site() -> Iterable[tuple[str, str, str, str]]:
    yield from _by_days("visits", "visits_{}", "visits in the last {} days", "visits", (365, 90, 30, 7))
    yield from _by_days("views", "views_{}", "product views, last {} days", "views", (365, 30))
    yield from _by_days("add_to_bag", "bagged_{}", "items put into the bag, last {} days", "items", (365, 30))
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


# ---- what a table of features says about itself, in its metadata -----------------------------------------------------

SCHEMA_KEY = b"disco.schema"  # which catalogue its columns come from
AS_OF_KEY = b"disco.as_of"  # the day before which its rows are dated
FEATURES_KEY = b"disco.features"  # definitions, where it is not made from the whole catalogue alone
TABLES_KEY = b"disco.tables"  # the folder the rows were computed from
SAMPLED_KEY = b"disco.sampled"  # how many customers there were before some were taken


def metadata_of(features: Sequence[Feature], as_of: date) -> dict[bytes, bytes]:
    """The metadata of a table with these features."""
    own = to_text(features)
    written = {SCHEMA_KEY: schema_hash(features).encode(), AS_OF_KEY: as_of.isoformat().encode()}
    return written | ({FEATURES_KEY: own.encode()} if own else {})


def written_in(schema: "pa.Schema", key: bytes) -> str:
    """What a table says under a key; empty where it does not."""
    metadata: Mapping[bytes, bytes] = schema.metadata or {}
    return metadata.get(key, b"").decode()


def with_written(schema: "pa.Schema", key: bytes, text: str) -> "pa.Schema":
    """The schema of a table that also says this."""
    return schema.with_metadata({**(schema.metadata or {}), key: text.encode()})


def feature_names_of(schema: "pa.Schema") -> tuple[str, ...]:
    """The columns of a table that are features: all but ids, targets and what else training rows have."""
    return tuple(name for name in schema.names if name not in NOT_FEATURES)


# ---- the features of a shop ------------------------------------------------------------------------------------------


def select(*, drop: Sequence[str] = (), add: Sequence[Feature] = ()) -> tuple[Feature, ...]:
    """The catalogue without the features named in `drop`, then those of `add`.

    >>> own = Feature("orders_per_item", "purchases", "orders_365 / items_365", "orders per item", "ratio")
    >>> len(select(drop=["saves_365d", "returns_30d"], add=[own]))
    75
    """
    choose(drop or None)  # every name known, none twice
    if HISTORY_FEATURE in drop:
        raise InputError("features", found=f"{HISTORY_FEATURE} dropped", expected="it kept: it tells who has a history")
    left = tuple(feature for feature in FEATURES if feature.name not in drop)
    return choose((*left, *add))


def read_selection(content: object, *, where: str) -> tuple[Feature, ...]:
    """A settings file's content, `{drop: [names], add: [{name, group, formula, meaning, unit}]}`, as features."""
    given = {} if content is None else content
    if not isinstance(given, Mapping) or not set(given) <= {"drop", "add"}:
        raise InputError(
            where, found=f"{given!r:.80}", expected="`drop`, a list of names, and `add`, a list of features"
        )
    drop, add = given.get("drop") or [], given.get("add") or []
    if not isinstance(drop, list) or not isinstance(add, list):
        raise InputError(where, found=f"{given!r:.80}", expected="a list under `drop` and a list under `add`")
    return select(drop=drop, add=[_feature(entry, where) for entry in add])


def to_text(features: Sequence[Feature]) -> str:
    """The features as JSON; empty for the catalogue as it is."""
    if tuple(features) == FEATURES:
        return ""
    return json.dumps([asdict(feature) for feature in features], ensure_ascii=False)


def from_text(text: str) -> tuple[Feature, ...]:
    """What `to_text` wrote."""
    if not text:
        return FEATURES
    try:
        entries = json.loads(text)
        return choose([_feature(entry, "features of a file") for entry in entries])
    except (ValueError, TypeError) as error:
        raise FileFormatError("features of a file", found=str(error), expected="a list of features") from error


def _feature(entry: Any, where: str) -> Feature:
    parts = tuple(part.name for part in fields(Feature))
    if not isinstance(entry, Mapping) or set(entry) != set(parts) or not all(type(v) is str for v in entry.values()):
        raise InputError(where, found=f"{entry!r:.80}", expected=f"a feature with {', '.join(parts)}, all text")
    return Feature(**entry)
