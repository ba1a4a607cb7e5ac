"""A campaign plan as an operator writes it: depths with limits, objective, policy, arms, dates. Frozen once read."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationError,
    model_serializer,
    model_validator,
)

from disco.records.arguments import read_percent
from disco.records.arrays import Labels, Vector
from disco.records.decisions import SegmentLimits
from disco.records.depths import depth_label, read_depth
from disco.records.errors import InputError, PlanError, Problem, as_given, did_you_mean, expected_of
from disco.records.locale import FIRST_YEAR, LAST_YEAR
from disco.records.money import Currency

_MOST_CUSTOMERS = 10**12  # more than there are people, and no sum of limits overflows
_MOST_DAYS = 3660
_LEAST_DEPTH = 0.001
_MOST_DEPTHS = 64  # each costs time and memory per customer
_MOST_SEGMENTS = 1000
_MOST_CONTACTS = 1000
_MOST_CONTACT_COST = 1e6  # of a code
_MOST_SEED = 10**20 - 1  # with every 64-bit number
# keys that came later: where they are absent, a plan keeps its bytes and so its id
_ADDED = (
    *("segments", "include", "exclude", "contact", "contact_cost", "conditions", "guardrails"),
    *("customer_limit", "disclosure", "fairness"),
)


class _Section(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


def _text(fits: Callable[[str], object], expected: str, *, optional: bool = False) -> PlainValidator:
    """Takes text that fits, and null where it is optional."""

    def read(value: object) -> object:
        if (optional and value is None) or (isinstance(value, str) and fits(value)):
            return value
        raise ValueError(expected)

    return PlainValidator(read)


def _fraction(fits: Callable[[float], bool], expected: str) -> PlainValidator:
    """Takes `10%`, `-10%` or 0.1 as a fraction of one."""

    def read(value: object) -> float:
        is_negative = isinstance(value, str) and value.lstrip().startswith("-")
        fraction = read_percent(value.lstrip()[1:] if is_negative and isinstance(value, str) else value)
        if is_negative and isinstance(fraction, float):
            fraction = -fraction
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not fits(fraction):
            raise ValueError(expected)
        return float(fraction)

    return PlainValidator(read)


def _read_limit(value: object) -> int | float | None:
    """A whole number is a count of customers; `40%`, or 0.4, is a share of the eligible ones."""
    limit = read_percent(value)
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and 0 <= limit <= _MOST_CUSTOMERS):
        return limit
    if isinstance(limit, float) and 0 <= limit <= 1:
        return limit
    raise ValueError("a whole number of customers, such as 20000, or a share, such as 40%")


# A key that is written as one value or as a section: which of the two it is, is no part of a key that people read.
_VALUE, _SECTION = "~value", "~section"


def _value_or_section(value: object) -> str:
    return _SECTION if isinstance(value, Mapping | BaseModel) else _VALUE


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
Name = Annotated[str, _text(_NAME.fullmatch, "a name of letters, digits, '-', '_' and '.', such as spring-27")]
Share = Annotated[float, _fraction(lambda share: 0 <= share < 1, "a share from 0% to below 100%, such as 10% or 0.1")]
Limit = Annotated[int | float | None, PlainValidator(_read_limit)]
ListFile = Annotated[str, _text(str.strip, "a file with one customer id per line, such as lists/vip.csv")]
Risk = Annotated[float, _fraction(lambda risk: 0 < risk < 1, "a chance above 0% and below 100%, such as 10%")]
# neither `true` nor a quoted '3' is a number
Number = Annotated[float, Field(strict=True)]
WholeNumber = Annotated[int, Field(strict=True)]


def limit_count(limit: Limit, *, eligible: int) -> int | None:
    """The limit in customers; a share is rounded down, so that shares that add to 100 % never exceed everybody.

    >>> limit_count(0.4, eligible=1_001), limit_count(7, eligible=5), limit_count(None, eligible=5)
    (400, 7, None)
    """
    return int(limit * eligible + 1e-9) if isinstance(limit, float) else limit


class CustomersSection(_Section):
    table: str = "data/customers.parquet"
    eligible: str = "true"  # an SQL condition on the customers table
    as_of: date


class DepthSection(_Section):
    at_most: Limit = None
    at_least: Limit = 0


def segment_label(value: object) -> str:
    """A value of a column of the customers table as text, as DuckDB writes it.

    >>> segment_label("North"), segment_label(3), segment_label(True)
    ('North', '3', 'true')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_segment_keys(value: object) -> object:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("limits for each value of the column, such as `North: {0.30: {at_most: 500}}`")
    if len(value) > _MOST_SEGMENTS:
        raise ValueError(f"at most {_MOST_SEGMENTS:,} values with limits of their own")
    if any(key is None or not segment_label(key).strip() for key in value):
        raise ValueError("values of the column: customers without a value have no limits of their own")
    labels = {segment_label(key): limits for key, limits in value.items()}
    if len(labels) < len(value):
        raise ValueError("each value once")
    return dict(sorted(labels.items()))


class ObjectiveSection(_Section):
    revenue_weight: Annotated[Number, Field(gt=0)]


class BudgetSection(_Section):
    """A ceiling of the expected markdown, and a bound on the chance that the codes cost more than it."""

    amount: Annotated[Number, Field(ge=0)]
    overspend_risk: Risk | None = None


Budget = Annotated[
    Annotated[Number, Field(ge=0), Tag(_VALUE)] | Annotated[BudgetSection, Tag(_SECTION)],
    Discriminator(_value_or_section),
]


class ContactSection(_Section):
    """How many codes a customer may get within some days, this one included."""

    at_most: Annotated[WholeNumber, Field(ge=1, le=_MOST_CONTACTS)]
    days: Annotated[WholeNumber, Field(ge=1, le=_MOST_DAYS)]

    @property
    def words(self) -> str:
        codes = "one code" if self.at_most == 1 else f"{self.at_most:,} codes"
        return f"{codes} in {self.days:,} days"


class CustomerLimitSection(_Section):
    """The most markdown that a customer is expected to get within some days, this campaign included."""

    markdown: Annotated[Number, Field(gt=0)]
    days: Annotated[WholeNumber, Field(ge=1, le=_MOST_DAYS)]


class PolicySection(_Section):
    name: Literal["thompson", "ucb", "epsilon_greedy", "greedy", "random"] = "thompson"
    exploration: Annotated[Number, Field(ge=0)] = 1.0
    scope: Literal["customer", "round"] = "customer"

    @property
    def assigns_at_random(self) -> bool:
        """Whether depths are assigned at random, in proportion to their caps, without any model.

        Not the same as the policy `disco.Random`, which gives random values to the solver: that one is a baseline of
        replays, where every policy has to pass through the same caps. A plan never uses it.
        """
        return self.name == "random"


class ArmSection(_Section):
    share: Share = 0.0


def _is_false(value: object) -> bool:
    return value is False


class HoldoutSection(ArmSection):
    """Customers who get no code, drawn anew for every campaign, or the same people in every one (`lasting`)."""

    # absent from the JSON of a plan without it, as `export` is
    lasting: Annotated[bool, Field(strict=True)] = Field(default=False, exclude_if=_is_false)


def _read_start(value: object) -> date | datetime:
    """A day, or a day and a time of day; midnight is the day."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            value = None
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            raise ValueError("a time without a zone: the setting `time_zone` says which one it is")
        return value.date() if value.time() == time() else value.replace(microsecond=0)
    if not isinstance(value, date):
        raise ValueError("a day such as 2026-12-04, or a day and a time such as 2026-12-04T08:00")
    return value


Start = Annotated[
    date | datetime,
    PlainValidator(_read_start),
    PlainSerializer(lambda start: start.isoformat(), return_type=str, when_used="json"),
]


class ValiditySection(_Section):
    """When codes can be used, by the clock of the shop (the setting `time_zone`)."""

    opens: Start = Field(alias="from")
    """A day, from its beginning; or a day and a time of day, without a zone."""
    days: Annotated[WholeNumber, Field(ge=1, le=_MOST_DAYS)]

    @model_validator(mode="after")
    def _ends_in_the_calendar(self) -> "ValiditySection":
        if (date.max - self.start).days < self.days:
            raise ValueError(f"a last day before {date.max}")
        return self

    @property
    def closes(self) -> date | datetime:
        """When they expire: so many days later, at the same time of day."""
        return self.opens + timedelta(days=self.days)

    @property
    def start(self) -> date:
        """The first day on which a code can be used."""
        return self.opens.date() if isinstance(self.opens, datetime) else self.opens

    @property
    def end(self) -> date:
        """The day after the last: all codes have expired when it begins."""
        part_of_a_day = isinstance(self.opens, datetime)
        return self.start + timedelta(days=self.days + part_of_a_day)

    @property
    def last(self) -> date:
        """The last day on which a code can be used."""
        return self.end - timedelta(days=1)

    def overlaps(self, other: "ValiditySection") -> bool:
        """Whether codes of both can be used on some day."""
        return self.start < other.end and other.start < self.end


_PREFIX = _text(
    re.compile(r"[A-Z0-9]{1,16}").fullmatch, "up to 16 capital letters and digits, such as SPRING", optional=True
)
_LONGEST_CHANNEL = 64


def is_channel(value: object) -> bool:
    """Whether this can be the name of a channel: printable text of up to 64 characters.

    >>> is_channel("sms"), is_channel("push (app)"), is_channel(" "), is_channel(None), is_channel("a" * 65)
    (True, True, False, False, False)
    """
    return (
        isinstance(value, str) and 0 < len(value) <= _LONGEST_CHANNEL and value.isprintable() and value == value.strip()
    )


_CHANNEL = _text(
    is_channel, "the name of a channel, such as sms, or `{column: channel}` for a column with each customer's"
)


class ChannelSection(_Section):
    """The column of the customers table that names each customer's channel."""

    column: Annotated[str, Field(min_length=1, strict=True)]


Channel = Annotated[
    Annotated[str, _CHANNEL, Tag(_VALUE)] | Annotated[ChannelSection, Tag(_SECTION)],
    Discriminator(_value_or_section),
]


def _read_contact_cost(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value or not all(is_channel(name) for name in value):
        raise ValueError("what a code costs by the name of its channel, such as `{email: 0.002, sms: 0.04}`")
    return dict(sorted(value.items()))


def _is_absent(value: object) -> bool:
    return value is None


def _read_shared(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        raise ValueError("a code for each depth, such as `{0.10: SPRING10}`")
    shared = _by_depth(value)
    for code in shared.values():
        if not isinstance(code, str) or not _NAME.fullmatch(code):
            raise ValueError("codes of up to 64 letters, digits, '-', '_' and '.', such as SPRING10")
    if len({str(code).upper() for code in shared.values()}) < len(shared):
        raise ValueError("another code for each depth: a shop gives one discount for a code")
    return shared


class CodesSection(_Section):
    """How codes look (`prefix`), or the file of codes bought elsewhere that are handed out as they are (`pool`). Depths
    in `shared` have one code for all who get that depth."""

    prefix: Annotated[str | None, _PREFIX] = None
    pool: str | None = None
    # absent from the JSON of a plan without it, as `export` is
    shared: Annotated[dict[float, str] | None, BeforeValidator(_read_shared)] = Field(
        default=None, exclude_if=_is_absent
    )


_LONGEST_TEXT = 500


_CONDITION_TEXT = _text(
    lambda text: 0 < len(text) <= _LONGEST_TEXT and text.isprintable(),
    f"one line of text of up to {_LONGEST_TEXT} characters, such as 'Not on gift cards'",
    optional=True,
)


class ConditionsSection(_Section):
    """What the shop asks of a purchase with a code. It travels with the codes and changes neither decisions nor what
    counts: a shop that does not keep to it is believed."""

    minimum_basket: Annotated[Number, Field(gt=0)] | None = None  # before the discount, currency units
    text: Annotated[str | None, _CONDITION_TEXT] = None

    @model_validator(mode="after")
    def _something(self) -> "ConditionsSection":
        if self.minimum_basket is None and self.text is None:
            raise ValueError("`minimum_basket: 30`, `text: …`, or both")
        return self


class DisclosureSection(_Section):
    """A sentence that some customers have to be shown with their code. It travels with plan, approval and export."""

    text: Annotated[str, _CONDITION_TEXT]
    where: Annotated[str, Field(min_length=1, strict=True)] = "true"  # an SQL condition, as `customers.eligible`

    @model_validator(mode="after")
    def _says_something(self) -> "DisclosureSection":
        if not (self.text or "").strip():  # `text:` with nothing behind it is null
            raise ValueError("the sentence that customers are shown, such as `text: 'This offer was …'`")
        return self


class FairnessSection(_Section):
    """How far the average discount of customers with one value of a column may be from that of all others."""

    column: Annotated[str, Field(min_length=1, strict=True)]
    at_most: Annotated[float, _fraction(lambda share: 0 < share <= 10, "a share above 0%, such as 5%")]  # of all's
    then: Annotated[Literal["warn", "refuse"], _text(lambda text: text in ("warn", "refuse"), "warn or refuse")]


_THEN = ("tell", "pause")


class GuardrailSection(_Section):
    """A limit on one figure of the running campaign, and what happens when it is left."""

    above: Annotated[float, _fraction(lambda share: 0 < share <= 10, "a share above 0%, such as 20%")] | None = None
    below: (
        Annotated[float, _fraction(lambda share: -1 < share < 0, "a share between -100% and 0%, such as -15%")] | None
    ) = None
    then: Annotated[Literal["tell", "pause"], _text(lambda text: text in _THEN, "tell or pause")]


class GuardrailsSection(_Section):
    """What watches over the campaign while its outcomes arrive (`operations/guardrails.py`)."""

    spend: GuardrailSection | None = None  # markdown against what its forecast has due by now
    budget_used: GuardrailSection | None = None  # markdown as a share of the budget
    average_basket: GuardrailSection | None = None  # against what was expected of those who bought
    refunds: GuardrailSection | None = None  # money given back as a share of what was bought
    sample_ratio: GuardrailSection | None = None  # groups of other sizes than planned; it has no limit

    @model_validator(mode="after")
    def _limits(self) -> "GuardrailsSection":
        given = {name: getattr(self, name) for name in type(self).model_fields if getattr(self, name) is not None}
        if not given:
            raise ValueError(f"one of {', '.join(type(self).model_fields)}")
        for name, rail in given.items():
            if name == "sample_ratio" and (rail.above, rail.below) != (None, None):
                raise ValueError("sample_ratio without a limit: `sample_ratio: {then: pause}`")
            if name != "sample_ratio" and rail.above is None and rail.below is None:
                example = "below: -15%" if name == "average_basket" else "above: 20%"
                raise ValueError(f"a limit for {name}, such as `{name}: {{{example}, then: {rail.then}}}`")
            if name in ("budget_used", "refunds") and rail.below is not None:
                raise ValueError(f"a limit `above` for {name}, which cannot be below 0%")
        return self

    def without_budget(self, has_none: bool) -> "GuardrailsSection | None":
        """For a plan without a budget: the same without the guardrail on it; None where no other is left."""
        if not has_none or self.budget_used is None:
            return self
        left = self.model_copy(update={"budget_used": None})
        return left if any(getattr(left, name) is not None for name in type(left).model_fields) else None


class ExportSection(_Section):
    """What `disco export` writes beside the codes: columns of the customers table, and for which tool."""

    columns: tuple[str, ...] = ()
    template: Literal["klaviyo", "braze", "mailchimp", "shopify"] | None = None


def _read_depth_keys(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("a depth for each line, such as `0.20: {at_most: 10000}`")
    depths = _by_depth(value)
    if not depths:
        raise ValueError("at least one depth, such as `0.20: {at_most: 10000}`")
    return {depth: {} if section is None else section for depth, section in depths.items()}


def _by_depth(value: Mapping[Any, object]) -> dict[float, object]:
    """The content by depth, ascending; every key that is no depth is named."""
    depths: dict[float, object] = {}
    wrong: list[InputError] = []
    for key, section in value.items():
        try:
            depths[read_depth(key)] = section
        except InputError as error:
            wrong.append(error)
    if wrong:
        found = ", ".join(str(error.found) for error in wrong)
        fix = " ".join(error.fix for error in wrong if error.fix)
        raise InputError("depths", found=found, expected=wrong[0].expected, fix=fix or None)
    if len(depths) < len(value):
        raise ValueError("each depth once (0.1 and 0.10 are one depth)")
    return dict(sorted(depths.items()))


class SegmentsSection(_Section):
    """Limits for parts of the customers, by the values of one column of the customers table."""

    column: Annotated[str, Field(min_length=1, strict=True)]
    limits: Annotated[
        dict[str, Annotated[dict[float, DepthSection], BeforeValidator(_read_depth_keys)]],
        BeforeValidator(_read_segment_keys),
    ]


class Plan(_Section):
    """One campaign, immutable. Depths ascend; shares are of the eligible customers (reserve: of each cap)."""

    campaign: Name
    customers: CustomersSection
    depths: Annotated[dict[float, DepthSection], BeforeValidator(_read_depth_keys)]
    objective: ObjectiveSection
    budget: Budget | None = None  # expected markdown, currency units
    segments: SegmentsSection | None = None
    include: ListFile | None = None
    exclude: ListFile | None = None
    contact: ContactSection | None = None
    customer_limit: CustomerLimitSection | None = None  # of expected markdown, currency units
    policy: PolicySection = PolicySection()
    control: ArmSection = ArmSection()
    holdout: HoldoutSection = HoldoutSection()
    reserve: ArmSection = ArmSection()
    valid: ValiditySection
    codes: CodesSection = CodesSection()
    conditions: ConditionsSection | None = None
    channel: Channel = "on-site"
    # money per code sent through a channel, in currency units; a channel that is not named costs nothing
    contact_cost: Annotated[
        dict[str, Annotated[Number, Field(ge=0, le=_MOST_CONTACT_COST)]] | None, BeforeValidator(_read_contact_cost)
    ] = None
    guardrails: GuardrailsSection | None = None
    disclosure: DisclosureSection | None = None
    fairness: FairnessSection | None = None
    # absent from the JSON of a plan without it, so that plan ids from before there was such a key stay what they are
    export: ExportSection | None = Field(default=None, exclude_if=_is_absent)
    seed: WholeNumber = 0

    @model_validator(mode="after")
    def _arms_leave_customers(self) -> "Plan":
        if self.control.share + self.holdout.share >= 1:
            raise ValueError("control and holdout shares that leave customers for the campaign itself")
        if self.customers.as_of > self.valid.start:
            raise ValueError("customers.as_of on or before valid.from: a decision cannot look into the future")
        return self

    @model_validator(mode="after")
    def _segments_limit_what_is_offered(self) -> "Plan":
        for label, limits in {} if self.segments is None else self.segments.limits.items():
            others = [depth_label(depth) for depth in limits if depth not in self.depths]
            if others:
                known = ", ".join(depth_label(depth) for depth in self.depths)
                raise ValueError(f"limits of {label} for depths on offer ({known}), not for {', '.join(others)}")
        return self

    @model_validator(mode="after")
    def _shared_codes_are_of_depths_on_offer(self) -> "Plan":
        others = [depth_label(depth) for depth in self.shared_codes if depth not in self.depths]
        if others:
            known = ", ".join(depth_label(depth) for depth in self.depths)
            raise ValueError(f"shared codes of depths on offer ({known}), not of {', '.join(others)}")
        return self

    @model_validator(mode="after")
    def _budget_that_a_guardrail_watches(self) -> "Plan":
        if self.guardrails is not None and self.guardrails.budget_used is not None and self.budget is None:
            raise ValueError("a budget, where guardrails.budget_used watches how much of it is used")
        return self

    @model_validator(mode="after")
    def _contact_costs_are_of_the_channel(self) -> "Plan":
        others = [name for name in self.contact_cost or {} if self.channel_name not in (None, name)]
        if others:
            raise ValueError(
                f"a contact_cost of the plan's channel, {self.channel_name}, and not of {', '.join(others)}; with "
                "`channel: {column: …}` each customer has a channel"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_absent_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None or key not in _ADDED}

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """A plan that was checked before it was kept."""
        return cls.model_validate_json(text)

    @property
    def budget_amount(self) -> float | None:
        """The ceiling of expected markdown, in currency units; None: no budget."""
        return self.budget.amount if isinstance(self.budget, BudgetSection) else self.budget

    @property
    def overspend_risk(self) -> float | None:
        """The largest chance that the codes cost more than the budget; None: not bounded."""
        return self.budget.overspend_risk if isinstance(self.budget, BudgetSection) else None

    @property
    def channel_name(self) -> str | None:
        """The channel of all codes; None: a column names one per customer."""
        return None if isinstance(self.channel, ChannelSection) else self.channel

    @property
    def channel_column(self) -> str | None:
        """The column of the customers table that names each customer's channel; None: all have the same."""
        return self.channel.column if isinstance(self.channel, ChannelSection) else None

    def contact_costs(self, channel: Labels | None, *, customers: int) -> Vector | None:
        """(customers,) what sending each of them a code costs; None: the plan names no cost.

        channel: of each customer, where a column names it.
        """
        if self.contact_cost is None:
            return None
        if channel is None:
            return np.full(customers, self.contact_cost.get(self.channel_name or "", 0.0))
        costs = np.zeros(customers)
        for name, cost in self.contact_cost.items():
            costs[channel == name] = cost
        return costs

    @property
    def shared_codes(self) -> dict[float, str]:
        """By depth: the code that all who get it share; other depths have a code per customer."""
        return self.codes.shared or {}

    @property
    def lists(self) -> dict[str, str]:
        """The files of customer ids, by key."""
        return {key: file for key, file in (("include", self.include), ("exclude", self.exclude)) if file is not None}

    @property
    def sql(self) -> tuple[str, ...]:
        """The conditions on the customers table, which may name customers."""
        return (self.customers.eligible, *(() if self.disclosure is None else (self.disclosure.where,)))

    @property
    def offered(self) -> tuple[float, ...]:
        return tuple(self.depths)

    def caps(self, eligible: int) -> tuple[int | None, ...]:
        return tuple(limit_count(section.at_most, eligible=eligible) for section in self.depths.values())

    def floors(self, eligible: int) -> tuple[int, ...]:
        return tuple(limit_count(section.at_least, eligible=eligible) or 0 for section in self.depths.values())

    def segment_limits(self, sizes: Mapping[str, int]) -> dict[str, SegmentLimits] | None:
        """Limits by label, in customers; shares are of the segment's own eligible customers (`sizes`, by label)."""
        if self.segments is None:
            return None
        found = {}
        for label, limits in self.segments.limits.items():
            sections = [limits.get(depth, DepthSection()) for depth in self.depths]
            eligible = sizes.get(label, 0)
            found[label] = SegmentLimits(
                caps=tuple(limit_count(section.at_most, eligible=eligible) for section in sections),
                floors=tuple(limit_count(section.at_least, eligible=eligible) or 0 for section in sections),
            )
        return found


def read_plan(
    content: object,
    *,
    file: str = "plan",
    currency: Currency | None = None,
    lasting_holdout: bool = False,
    exploration: float = 1.0,
    guardrails: GuardrailsSection | None = None,
    protected: Sequence[str] = (),
) -> Plan:
    """A plan from parsed YAML or JSON; every problem at once in a PlanError.

    currency: of the shop; amounts must not be finer than its minor unit. None: any amount. lasting_holdout: whether a
    holdout is lasting where the plan does not say; the setting `holdout` of the shop. exploration: the scale of
    Thompson sampling where the plan does not say; the setting `exploration` of the shop. guardrails: of plans without
    their own; the setting of that name. protected: columns that may not be segments; the setting of that name.

    >>> read_plan({"campaign": "x", "depths": {20: {}}}, file="plan.yaml")
    Traceback (most recent call last):
    ...
    disco.records.errors.PlanError: plan.yaml cannot be used as a campaign plan:
      plan.yaml, customers: found nothing; expected a value. ...
    """
    try:
        plan = Plan.model_validate(content)
        if lasting_holdout and plan.holdout.share and "lasting" not in plan.holdout.model_fields_set:
            plan = plan.model_copy(update={"holdout": HoldoutSection(share=plan.holdout.share, lasting=True)})
        if plan.policy.name == "thompson" and "exploration" not in plan.policy.model_fields_set:
            policy = plan.policy.model_copy(update={"exploration": exploration})
            plan = plan.model_copy(update={"policy": policy})
        if guardrails is not None and "guardrails" not in plan.model_fields_set:
            plan = plan.model_copy(update={"guardrails": guardrails.without_budget(plan.budget is None)})
        problems = [*_impractical(plan, file, currency), *_protected_segments(plan, file, protected)]
        if not problems:
            return plan
    except ValidationError as error:
        problems = [_problem(detail, file) for detail in error.errors(include_url=False)]
    raise PlanError(f"{file} cannot be used as a campaign plan:", problems)


def _impractical(plan: Plan, file: str, currency: Currency | None) -> list[Problem]:
    """Depths, amounts, days and seeds that must be mistakes. Refused in new plans only: kept ones stay readable."""
    found: list[Problem] = []

    def refuse(key: str, given: str, expected: str, fix: str) -> None:
        found.append(Problem("value", f"{file}, {key}", "", given, expected, fix))

    for depth in plan.offered:
        if depth < _LEAST_DEPTH:
            expected = f"a depth of at least {depth_label(_LEAST_DEPTH)}, which is 0.1% off"
            refuse("depths", depth_label(depth), expected, "For customers without a discount, use `holdout`.")
    amounts = {
        "budget": plan.budget_amount,
        "conditions.minimum_basket": None if plan.conditions is None else plan.conditions.minimum_basket,
        "customer_limit.markdown": None if plan.customer_limit is None else plan.customer_limit.markdown,
    }
    for key, amount in amounts.items():
        if currency is not None and amount is not None and round(amount, currency.digits) != amount:
            expected = f"an amount in {currency.code}, whose smallest is {currency.smallest}"
            refuse(key, f"{amount}", expected, "Round the amount.")
    for key, day in {"customers.as_of": plan.customers.as_of, "valid.from": plan.valid.start}.items():
        if not FIRST_YEAR <= day.year <= LAST_YEAR:
            refuse(key, str(day), f"a day from {FIRST_YEAR} to {LAST_YEAR}", "Correct the plan.")
    if abs(plan.seed) > _MOST_SEED:
        refuse("seed", as_given(plan.seed), "a whole number of at most 20 digits", "Choose a shorter one.")
    if len(plan.offered) > _MOST_DEPTHS:
        given, fix = f"{len(plan.offered):,} depths", "Offer depths that customers can tell apart."
        refuse("depths", given, f"at most {_MOST_DEPTHS}", fix)
    return found


def _protected_segments(plan: Plan, file: str, protected: Sequence[str]) -> list[Problem]:
    if plan.segments is None or plan.segments.column.lower() not in {name.lower() for name in protected}:
        return []
    given, place = f"the protected column {plan.segments.column}", f"{file}, segments.column"
    expected = "a column that the setting `protected` does not name: limits by it would decide who gets which code"
    fix = "Choose another column. `disco favoured` shows who gets what by this one."
    return [Problem("value", place, "", given, expected, fix)]


def read_guardrails(content: object) -> GuardrailsSection:
    """Those of the settings, for plans without their own; the first problem as an InputError."""
    try:
        return GuardrailsSection.model_validate(content)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        key = ".".join(("guardrails", *map(str, detail["loc"])))
        problem = _problem({**detail, "loc": ("guardrails", *detail["loc"])}, "settings")
        found = problem.found if key == "guardrails" else f"{problem.found} for {key}"
        fix = problem.fix.replace("the plan", "the setting")
        raise InputError("guardrails", found=found, expected=problem.expected, fix=fix) from None


def _problem(detail: Any, file: str) -> Problem:
    keys = tuple(part for part in detail["loc"] if part not in (_VALUE, _SECTION))
    key = ".".join(str(part) for part in keys)
    place = f"{file}, {key}" if key else file
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "missing":
        return Problem("missing", place, "", "nothing", "a value", f"Add `{key}:` to the plan.")
    if detail["type"] == "extra_forbidden":
        known = _keys_beside(keys)
        fix = did_you_mean(str(keys[-1]), known) or "Remove it."
        return Problem("unknown", place, "", f"the unknown key {keys[-1]}", f"one of {', '.join(known)}", fix)
    if not key and not isinstance(detail["input"], Mapping):
        return Problem(
            "format", place, "", as_given(detail["input"]), "keys and values", "See the template of `disco init`."
        )
    if "; expected " in message:  # our own errors bring found / expected / fix along
        found, rest = message.split("found ", 1)[1].split("; expected ", 1)
        expected, _, fix = rest.partition(". ")
        return Problem("value", place, "", found, expected, fix)
    expected = expected_of(detail)
    given = detail["input"]
    found = (str(given) if isinstance(given, date) else as_given(given)) if key else "a contradiction"
    return Problem("value", place, "", found, expected, "Correct the plan.")


_OPTIONAL_SECTIONS: dict[str | int, type[_Section]] = {
    "budget": BudgetSection,
    "channel": ChannelSection,
    "contact": ContactSection,
    "customer_limit": CustomerLimitSection,
    "conditions": ConditionsSection,
    "guardrails": GuardrailsSection,
    "disclosure": DisclosureSection,
    "fairness": FairnessSection,
    "segments": SegmentsSection,
    "export": ExportSection,
}


def _keys_beside(place: tuple[str | int, ...]) -> list[str]:
    """The keys that are known where an unknown one was found, as an operator writes them."""
    section: Any = Plan
    if place[0] == "depths" or place[:2] == ("segments", "limits"):  # by depth
        section = DepthSection
    elif place[0] in _OPTIONAL_SECTIONS and len(place) > 1:
        section = _OPTIONAL_SECTIONS[place[0]]
    elif len(place) > 1:
        section = Plan.model_fields[str(place[0])].annotation
    return [field.alias or name for name, field in section.model_fields.items()]
