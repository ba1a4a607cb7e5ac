"""Settings of a shop: `disco.yaml`, overridden by the environment (DISCO_…), overridden by flags."""

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from difflib import get_close_matches
from ipaddress import ip_network
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from disco.adapters.files import read_yaml
from disco.records.arguments import MAIL_ADDRESS, read_number, refuse_protected
from disco.records.chunks import read_threads
from disco.records.errors import InputError, MissingPartError, PlanError, Problem, UsageError, as_given, expected_of
from disco.records.forecasting import CalendarEntry, ForecastRules, Level, SeasonSource, check_calendar
from disco.records.locale import Locale, read_time_zone
from disco.records.money import read_currency
from disco.records.people import ApprovalRule, Role
from disco.records.tables import (
    LINES,
    CsvFormat,
    LinesFormat,
    TableFormat,
    read_columns,
    read_dates,
    read_decimal,
    read_delimiter,
    read_encoding,
)

if TYPE_CHECKING:
    from disco.belief import Encoding
    from disco.campaign import Belief

FILE = "disco.yaml"
_PREFIX = "DISCO_"
OIDC_SECRET = "DISCO_OIDC_CLIENT_SECRET"  # nosec B105 - a name
SMTP_PASSWORD = "DISCO_SMTP_PASSWORD"  # nosec B105 - a name
_SQLITE = "sqlite:///"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LEAST_SECRET_BYTES = 32
EXPLORATION = 0.1  # chosen on simulated shops (docs/decisions/165-how-much-to-explore.md)
_LEAST_SECRET_BITS = 64  # by `_entropy_bits`; 32 random digits have at least 75


class _Section(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EncodingSettings(_Section):
    """How a depth becomes a few numbers; what is not given is the encoding's own default."""

    kind: Literal["smooth_spline", "radial_basis", "linear", "distance", "one_hot"] = "smooth_spline"
    centres: tuple[float, ...] | None = None  # radial_basis
    gamma: float | tuple[float, ...] | None = None  # radial_basis
    alpha: float | tuple[float, ...] | None = None  # radial_basis
    reference: float | None = None  # distance
    depths: tuple[float, ...] | None = None  # one_hot


class ModelSettings(_Section):
    """The model before any campaign. A change makes a new version at the next `disco learn`; the evidence stays."""

    encoding: EncodingSettings = EncodingSettings()
    depth_scale: float = Field(default=0.5, gt=0, description="the depth that the encoding sees as 1")
    forgetting: Literal["learned"] | float = Field(
        default=1.0,
        description="weight of a campaign's baskets and codes, per campaign since: above 0, at most 1, or learned",
    )
    monotone: bool = Field(default=False, description="make every predicted curve non-decreasing in depth")
    smearing: bool = Field(
        default=True, description="correct money by what purchases brought over what a normal law of ln(basket) says"
    )

    @field_validator("forgetting", mode="before")
    @classmethod
    def _usable_forgetting(cls, value: object) -> object:
        if value == "learned":
            return value
        expected = "learned, or a number above 0, at most 1"
        return read_number(value, where="forgetting", expected=expected, above=0.0, most=1.0)


class EngagementSettings(_Section):
    """The share of receivers who buy, before any code has expired; `override` fixes it for a depth."""

    prior_rate: float = Field(default=0.1, gt=0, lt=1)
    prior_codes: float = Field(default=20.0, gt=0)
    override: dict[float, float] = {}


class LinesSettings(_Section):
    """Lines of orders (or payments) in a file of the folder of the tables, which are summed into orders."""

    table: str = Field(description="the file, such as lines.csv")
    order_id: str = Field(description="your column with the number of the order")
    customer_id: str = Field(description="your column with the customer; lines without one are left out")
    ordered_at: str = Field(description="your column with the time of the order")
    quantity: str | None = Field(None, description="your column with the number of articles; below 0: sent back")
    unit_price: str | None = Field(None, description="your column with the price of one article")
    amount: str | None = Field(None, description="your column with the amount of the line, in place of unit_price")
    paid: str | None = Field(None, description="your column with what was paid for the line")
    code: str | None = Field(None, description="your column with the discount code")
    currency: str | None = Field(None, description="your column with the currency, of which there may be one")
    customer_columns: tuple[str, ...] = Field((), description="further columns that customers get, such as a country")

    @model_validator(mode="after")
    def _has_one_amount(self) -> "LinesSettings":
        given = " and ".join(name for name in ("amount", "quantity", "unit_price") if getattr(self, name)) or "none"
        if (self.amount is None) == (self.unit_price is None) or (self.unit_price and not self.quantity):
            expected = "either amount (and quantity, where it is known), or quantity and unit_price"
            raise InputError("lines", found=given, expected=expected)
        used: dict[str, str] = {}
        for ours, theirs in self.columns.items():
            if theirs in used:
                found, expected = f"the column {theirs} for both {used[theirs]} and {ours}", "one column for each"
                fix = f"Let `lines.{ours}` name another column, or remove it where it may be left out."
                raise InputError("lines", found=found, expected=expected, fix=fix)
            used[theirs] = ours
        return self

    @property
    def columns(self) -> dict[str, str]:
        """Our name of a column → theirs."""
        named = {column.name: getattr(self, column.name) for column in LINES.columns}
        return {ours: theirs for ours, theirs in named.items() if theirs is not None}

    @property
    def format(self) -> LinesFormat:
        """As the readers of tables take it."""
        return LinesFormat(self.table, self.columns, self.customer_columns)


class CsvSettings(_Section):
    """How CSV files are written; delimiter and encoding are found in the file where they are not given."""

    delimiter: str | None = Field(default=None, description='between the columns: "," ";" "|" or "\\t"')
    decimal: str | None = Field(default=None, description='the decimal mark, "." or ","')
    dates: str | None = Field(default=None, description="strftime of dates, such as %d.%m.%Y")
    encoding: str | None = Field(default=None, description="such as cp1252")

    @field_validator("delimiter", "decimal", "dates", "encoding")
    @classmethod
    def _usable(cls, value: str | None, info: ValidationInfo) -> str | None:
        return None if value is None else _CSV_READERS[str(info.field_name)](value)


_CSV_READERS = {
    "delimiter": read_delimiter,
    "decimal": read_decimal,
    "dates": read_dates,
    "encoding": read_encoding,
}


class ServiceSettings(_Section):
    """Of `disco serve`."""

    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[A-Za-z0-9.\-\[\]:]+/?$",
        description="what browsers call it, such as https://disco.example.com; with https, cookies are secure",
    )
    hosts: tuple[str, ...] = Field(default=(), description="names under which it answers, beside loopback")
    trusted_proxies: tuple[str, ...] = Field(
        default=(), description="addresses of proxies whose X-Forwarded headers are believed, such as 10.0.0.7"
    )
    upload_megabytes: int = Field(default=64, ge=1, le=100_000, description="the largest table or file of outcomes")
    planner_megabytes: int = Field(
        default=1024, ge=16, le=1_000_000, description="memory of the customers whom planners have open"
    )
    requests_per_second: float = Field(default=1000.0, gt=0, le=1e6, description="of one caller, in the long run")
    most_in_progress: int = Field(default=256, ge=1, le=100_000, description="requests answered at once; then 503")
    most_connections: int = Field(default=1000, ge=1, le=100_000, description="open connections; then 503")
    connections_per_address: int = Field(
        default=100, ge=1, le=100_000, description="open connections of one address; behind a proxy, requests; then 429"
    )
    threads: int = Field(default=12, ge=1, le=200, description="use cases that run at once")

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        """Addresses alone: whoever may say from where a request comes must not be everybody."""
        for one in proxies:
            try:
                wide = ip_network(one).prefixlen == 0
            except ValueError:
                wide = True
            if wide:
                expected = "addresses or networks, such as 10.0.0.7 or 10.0.0.0/24"
                raise InputError("trusted_proxies", found=repr(list(proxies)), expected=expected)
        return proxies


def is_safe_url(url: str) -> bool:
    """Whether nobody on the way can read or change what is sent there: https, or this machine itself.

    >>> [is_safe_url(one) for one in ("https://id.example.com", "http://127.0.0.1:9", "http://id.example.com", "x")]
    [True, True, False, False]
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK))


class OidcSettings(_Section):
    """People sign in at an identity provider (OpenID Connect), beside those who have a password here."""

    issuer: str = Field(max_length=500, description="the provider, exactly as it names itself, with https")
    client_id: str = Field(min_length=1, max_length=200, description="of this service, as the provider knows it")
    client_secret_file: str | None = Field(
        default=None, description="file with the client secret, from here; DISCO_OIDC_CLIENT_SECRET overrides it"
    )
    name: str = Field(default="OpenID Connect", min_length=1, max_length=60, description="of the provider, for people")
    scopes: tuple[str, ...] = Field(default=("openid", "profile", "email"), description="what we ask it for")
    role_claim: str = Field(
        default="groups", min_length=1, description="the claim that gives the role: its name, or a path such as a.b"
    )
    roles: dict[str, Role] = Field(default={}, description="the role of each value of that claim; the highest counts")
    default_role: Literal["viewer", "planner", "approver"] | None = Field(
        default=None, description="of whoever has none of these values; empty: they are refused"
    )
    email_domains: tuple[str, ...] = Field(
        default=(), description="only people with a confirmed address of these domains; empty: all"
    )

    @field_validator("issuer")
    @classmethod
    def _safe_issuer(cls, issuer: str) -> str:
        if not is_safe_url(issuer) or "?" in issuer or "#" in issuer:
            raise InputError("issuer", found=repr(issuer), expected="an https URL (http on this machine alone)")
        return issuer

    @field_validator("scopes")
    @classmethod
    def _with_openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes or not all(one.isascii() and one.isprintable() and " " not in one for one in scopes):
            raise InputError("scopes", found=repr(list(scopes)), expected="openid and others, without spaces")
        return scopes

    @field_validator("email_domains")
    @classmethod
    def _lower_domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        if not all(one and "@" not in one and " " not in one for one in domains):
            raise InputError("email_domains", found=repr(list(domains)), expected="domains such as example.com")
        return tuple(one.lower() for one in domains)

    @model_validator(mode="after")
    def _lets_somebody_in(self) -> "OidcSettings":
        if not self.roles and self.default_role is None:
            raise InputError("oidc", found="neither roles nor default_role", expected="one of them")
        return self

    def client_secret(self, shop: Path, environment: Mapping[str, str] | None = None) -> str:
        """The secret by which the provider knows this service."""
        secret = (os.environ if environment is None else environment).get(OIDC_SECRET, "").strip()
        if not secret and self.client_secret_file is not None:
            try:
                secret = (shop / self.client_secret_file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise MissingPartError(
                    "The file of oidc.client_secret_file cannot be read", fix="Check its path and who may read it."
                ) from error
        if not secret:
            raise MissingPartError(
                "The client secret for OpenID Connect is missing",
                fix=f"Set {OIDC_SECRET}, or oidc.client_secret_file in disco.yaml.",
            )
        return secret


class SmtpSettings(_Section):
    """The server through which people are told of events (docs/jobs.md)."""

    host: str = Field(min_length=1, max_length=253, description="its name")
    port: int = Field(587, ge=1, le=65535)
    sender: str = Field(max_length=254, description="from whom mails are, such as disco@shop.example")
    security: Literal["starttls", "tls", "none"] = Field("starttls", description="none: on a trusted machine alone")
    user: str | None = Field(None, description="its password is DISCO_SMTP_PASSWORD, or in the file that _FILE names")

    @field_validator("sender")
    @classmethod
    def _one_address(cls, sender: str) -> str:
        if MAIL_ADDRESS.fullmatch(sender) is None:
            expected = "one address without a name beside it, such as disco@shop.example"
            raise InputError("smtp.sender", found=repr(sender), expected=expected)
        return sender


def smtp_password(environment: Mapping[str, str]) -> str | None:
    """Of the user of the mail server."""
    return from_environment(SMTP_PASSWORD, environment)


class ForecastSettings(_Section):
    """How forecasts follow a world that moves."""

    level: Level = Field(
        default=Level.MOVING,
        description="moving: what campaigns bring against their forecasts may drift; fixed: one number for all of them",
    )

    season: SeasonSource = Field(
        default=SeasonSource.ORDERS,
        description="orders: that of the shop's orders, as far as its codes followed it; none: the calendar alone",
    )


class CalendarSettings(_Section):
    """Days that the operator names."""

    name: str = Field(min_length=1, max_length=60)
    first: date = Field(alias="from")
    last: date = Field(alias="to")
    factor: float | None = Field(default=None, gt=0, description="on the share who use a code sent for these days")

    @property
    def entry(self) -> CalendarEntry:
        return CalendarEntry(name=self.name, first=self.first, last=self.last, factor=self.factor)


class HoldoutSettings(_Section):
    """What a plan's `holdout` means where the plan does not say."""

    lasting: bool = Field(default=False, description="the same people in every campaign")


def read_margin(value: object) -> float | str:
    """`45%` or 0.45 as a share of the full price; other text names a column of the orders.

    >>> read_margin("45%"), read_margin("margin_gbp")
    (0.45, 'margin_gbp')
    """
    text = str(value).strip()
    try:
        share = math.nan if isinstance(value, bool) else float(text.removesuffix("%")) / (100 if "%" in text else 1)
    except ValueError:
        if isinstance(value, str) and text:
            return text
        share = math.nan
    if not 0 < share <= 1:
        raise InputError(
            "margin",
            found=f"{share:.0%}" if math.isfinite(share) else repr(value),
            expected="a share of the full price above 0% and at most 100%, such as 45%, or a column of the orders",
        )
    return share


class ShopSettings(_Section):
    """What every command may need to know about a shop. Unknown keys are refused."""

    data: str = Field("data", description="folder of the tables, from here, or a database URL")
    queries: dict[str, str] | None = Field(
        None, description="one SELECT per table: of the database, or of files in the folder, FROM 'lines.csv'"
    )
    lines: LinesSettings | None = Field(
        None, description="order lines that are summed into orders: their file, and what its columns are called"
    )
    columns: dict[str, dict[str, str]] = Field(
        {}, description="per table, our name of a column and yours: {orders: {full_price: Warenwert}}"
    )
    csv: CsvSettings = Field(
        CsvSettings(), description="how CSV files are written: delimiter, decimal, dates, encoding"
    )
    currency: str = Field("GBP", description="of all money: a code of ISO 4217, such as EUR")
    time_zone: str = Field(
        "UTC", description="where days begin and times without a zone are from, such as Europe/Berlin"
    )
    database_url: str = Field("sqlite:///disco.db", description="where campaigns, decisions and outcomes are kept")
    context: str = Field("context.safetensors", description="file of the context network, from here")
    artefacts: str = Field(
        "artefacts",
        description="folder of decisions, contexts and features, from here; one for all who share a database",
    )
    model: ModelSettings = Field(ModelSettings(), description="the model before any campaign")
    engagement: EngagementSettings = Field(
        EngagementSettings(), description="the share of receivers who buy, before any campaign"
    )
    holdout: HoldoutSettings = Field(
        HoldoutSettings(), description="of plans that do not say `lasting` themselves; `disco init` sets lasting: true"
    )
    margin: float | str | None = Field(
        None,
        description="what is left of the full price after the cost of goods, such as 45%, or the column of the orders "
        "that has an order's margin in money, after its discount",
    )
    protected: tuple[str, ...] = Field(
        (),
        max_length=200,
        description="columns that may not decide who gets which code, such as [gender]; refused as features "
        "and as segments",
    )
    guardrails: Any = Field(
        None, description="what watches over campaigns, of plans without `guardrails` of their own (docs/plan.md)"
    )
    habits: bool = Field(
        True,
        description="in small shops, training puts customers' habits beside what it learns: codes used, usual basket",
    )
    exploration: float = Field(
        EXPLORATION,
        ge=0,
        description="of Thompson sampling, in plans that do not say: 1 draws from the posterior, 0 takes its mean",
    )
    forecast: ForecastSettings = Field(
        ForecastSettings(),
        description="how forecasts follow a world that moves: level (moving or fixed), season (orders or none)",
    )
    calendar: tuple[CalendarSettings, ...] = Field(
        (),
        max_length=500,
        description="days on which codes are used more or less often: [{name: Christmas, from: 2026-12-01, to: "
        "2026-12-24, factor: 1.4}]; without a factor, as orders say of the same days of earlier years",
    )
    maturity_days: int | None = Field(
        None,
        ge=1,
        le=366,
        description="in training a code counts as unused so many days after its sending; empty: grace days after its "
        "campaign has ended, or 7 days after its sending where no campaign of this shop sent it",
    )
    approval: ApprovalRule = Field(
        ApprovalRule.NONE,
        description="what a launch needs: none, or second_person (disco approve, by somebody else than the planner)",
    )
    webhooks_private: bool = Field(
        False, description="let webhooks lead to private addresses, such as those of the local network"
    )
    smtp: SmtpSettings | None = Field(
        None, description="the mail server through which people are told of events; empty: none are mailed"
    )
    engine: str = Field("local", description="what runs features, train, plan, learn and allocate: local or spark")
    master: str | None = Field(
        None, max_length=500, description="of the engine spark: local[2], spark://HOST:7077, …; empty: local[*]"
    )
    service: ServiceSettings = Field(ServiceSettings(), description="of `disco serve`: names, proxies, limits")
    oidc: OidcSettings | None = Field(
        None, description="sign-in at an identity provider (OpenID Connect); empty: with passwords alone"
    )
    simulated_days_behind: int | None = Field(
        None,
        ge=0,
        le=36_500,
        description="of a simulated shop: by how many days its own time is behind; empty: the shop is real",
    )
    threads: int | None = Field(
        None, description="threads of the engine and of DuckDB; empty: one per processor, at most four per processor"
    )

    @field_validator("calendar")
    @classmethod
    def _possible_calendar(cls, calendar: tuple[CalendarSettings, ...]) -> tuple[CalendarSettings, ...]:
        check_calendar([one.entry for one in calendar])
        return calendar

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, columns: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        return {table: dict(names) for table, names in read_columns(columns).items()}

    @field_validator("guardrails", mode="before")
    @classmethod
    def _usable_guardrails(cls, value: object) -> object:
        from disco.records.plan import read_guardrails  # takes as long to import as everything else here

        return None if value is None else read_guardrails(value)

    @field_validator("protected")
    @classmethod
    def _reads_no_protected_column(cls, protected: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        fix = "Name another column of yours, or remove it from `protected`."
        for table, columns in info.data.get("columns", {}).items():
            refuse_protected(columns.values(), protected, where=f"columns.{table}", fix=fix)
        return protected

    @field_validator("margin", mode="before")
    @classmethod
    def _usable_margin(cls, value: object) -> object:
        return None if value is None else read_margin(value)

    @field_validator("currency")
    @classmethod
    def _known_currency(cls, code: str) -> str:
        return read_currency(code).code

    @field_validator("time_zone")
    @classmethod
    def _known_time_zone(cls, name: str) -> str:
        return read_time_zone(name)

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, name: str) -> str:
        if name not in ("local", "spark"):
            raise InputError("engine", found=repr(name), expected="'local' or 'spark'")
        return name

    @field_validator("threads")
    @classmethod
    def _usable_threads(cls, threads: int | None) -> int | None:
        return None if threads is None else read_threads(threads)

    def prior(self) -> "Belief":
        """The belief before any campaign; InputError where these settings make none."""
        from disco.belief import BasketModel, Engagement
        from disco.campaign import Belief

        model, engagement = self.model, self.engagement
        forgetting = 1.0 if model.forgetting == "learned" else model.forgetting
        return Belief(
            basket=BasketModel(
                encoding=_encoding(model),
                depth_scale=model.depth_scale,
                forgetting=forgetting,
                monotone=model.monotone,
                smearing=model.smearing,
                reason="the settings of the shop",
            ),
            engagement=Engagement(
                prior_rate=engagement.prior_rate,
                prior_codes=engagement.prior_codes,
                override=engagement.override,
                forgetting=forgetting,
            ),
            learns_forgetting=model.forgetting == "learned",
        )

    @property
    def rules(self) -> ForecastRules:
        """By which forecasts are made."""
        calendar = tuple(one.entry for one in self.calendar)
        return ForecastRules(level=self.forecast.level, season=self.forecast.season, calendar=calendar)

    @property
    def written(self) -> TableFormat:
        """How the tables are written."""
        plain = TableFormat(columns=self.columns, csv=CsvFormat(**self.csv.model_dump()), locale=self.locale)
        if "://" in self.data:
            return plain
        return replace(plain, lines=None if self.lines is None else self.lines.format, queries=self.queries)

    @property
    def locale(self) -> Locale:
        """The currency and the time zone of the shop."""
        return Locale(read_currency(self.currency), self.time_zone)

    def data_place(self, shop: Path) -> str:
        """The folder or URL of the tables, seen from the current folder."""
        return self.data if "://" in self.data else str(shop / self.data)

    def database_place(self, shop: Path) -> str:
        """The URL of the database; a SQLite file is named from the shop's folder."""
        file = self.database_url.removeprefix(_SQLITE)
        if file == self.database_url or file in ("", ":memory:") or Path(file).is_absolute():
            return self.database_url
        return f"{_SQLITE}{(shop / file).absolute()}"


def load_settings(
    shop: Path, *, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> ShopSettings:
    """The settings of the shop in that folder; a folder without disco.yaml has the defaults.

    `flags` that are None were not given. Every problem at once in a PlanError; if all are of flags, in a UsageError.
    """
    environment = os.environ if environment is None else environment
    values = _read_file(shop / FILE)
    strict = values.get("approval") == ApprovalRule.SECOND_PERSON
    origin = dict.fromkeys(values, str(shop / FILE))
    for name in ShopSettings.model_fields:
        variable = _PREFIX + name.upper()
        if given := from_environment(variable, environment):
            values[name], origin[name] = given, variable
    for name, value in (flags or {}).items():
        if value is not None:
            values[name], origin[name] = value, f"--{name.replace('_', '-')}"
    if strict:  # whoever launches must not be able to waive it from their own shell
        values["approval"] = ApprovalRule.SECOND_PERSON
    try:
        settings = ShopSettings.model_validate(values)
        _refuse_unusable_model(settings, origin)
        return settings
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems = [_problem(detail, origin) for detail in details]
        options = [origin[str(detail["loc"][0])] for detail in details]
    if not all(option.startswith("--") for option in options):
        raise PlanError("The settings cannot be used:", problems)
    wrong = [
        UsageError(option, found=one.found, expected=one.expected, fix=one.fix or None)
        for option, one in zip(options, problems, strict=True)
    ]
    raise wrong[0] if len(wrong) == 1 else UsageError("\n".join(str(one) for one in wrong))


def _refuse_unusable_model(settings: ShopSettings, origin: Mapping[str, str]) -> None:
    """Refuse a model that every plan would refuse. The usual one is not looked at: most commands need no model."""
    if (settings.model, settings.engagement) == (ModelSettings(), EngagementSettings()):
        return
    try:
        settings.prior()
    except InputError as error:
        section = "engagement" if "engagement" in error.what else "model"
        place = f"{origin.get(section, FILE)}, {section}"
        found = f"{error.found} ({error.what})"
        problem = Problem("setting", place, "", found, str(error.expected), error.fix or "Correct the value.")
        raise PlanError("The settings cannot be used:", [problem]) from None


def _encoding(model: ModelSettings) -> "Encoding":
    from dataclasses import fields

    from disco.belief import DistanceToDepth, LinearDepth, OneHotDepth, RadialBasis, SmoothSpline

    settings = model.encoding
    kinds: dict[str, Any] = {
        kind.kind: kind for kind in (SmoothSpline, RadialBasis, LinearDepth, DistanceToDepth, OneHotDepth)
    }
    kind = kinds[settings.kind]
    given = settings.model_dump(exclude={"kind"}, exclude_none=True)
    known = [field.name for field in fields(kind) if field.init]
    for name in given:
        if name not in known:
            raise InputError(
                f"setting model.encoding.{name}",
                found=f"kind: {settings.kind}",
                expected=f"only {', '.join(known)}" if known else "nothing but the kind",
            )
    if settings.kind == "one_hot" and not all(0 <= one * model.depth_scale < 1 for one in settings.depths or (-1.0,)):
        raise InputError(
            "setting model.encoding.depths",
            found="nothing" if not settings.depths else ", ".join(f"{one:g}" for one in settings.depths),
            expected="the depths a one-hot model knows, each divided by model.depth_scale",
        )
    encoding: Encoding = kind(**given)
    return encoding


def settings_of_tables(place: str, *, shop: Path) -> ShopSettings:
    """The settings by which the tables at this place are read: of the shop that they lie in, else of `shop`."""
    around = Path(place).parent
    if shop == Path() and "://" not in place and (around / FILE).is_file():
        settings = load_settings(around)
        if Path(settings.data_place(around)).resolve() == Path(place).resolve():
            return settings
    return load_settings(shop)


def from_environment(variable: str, environment: Mapping[str, str]) -> str | None:
    """What the variable holds, or else the file that VARIABLE_FILE names, without the white space around it.

    Secrets of containers are files, which neither the environment of a process nor its arguments show.
    """
    file = environment.get(f"{variable}_FILE")
    if environment.get(variable) or not file:
        return environment.get(variable)
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        fix = "Check its path and who may read it."
        raise MissingPartError(f"The file of {variable}_FILE cannot be read", found=file, fix=fix) from error


def check_code_secret(secret: str) -> None:
    """Refuse a key of the codes that is short, or of which a part tells the rest: whoever guesses it can make codes."""
    problem = None
    if (length := len(secret.encode())) < _LEAST_SECRET_BYTES:
        problem = f"{length} bytes"
    elif _entropy_bits(secret) < _LEAST_SECRET_BITS:
        problem = "characters that repeat or follow a pattern"
    if problem is not None:
        expected = f"at least {_LEAST_SECRET_BYTES} bytes, made at random"
        raise InputError("DISCO_CODE_SECRET", found=problem, expected=expected, fix="Try `openssl rand -hex 32`.")


def _entropy_bits(text: str) -> float:
    """How surprising a text is at most, in bits: by its characters and by the steps between them, without repetition.

    >>> round(_entropy_bits("a" * 32)), round(_entropy_bits("password" * 4)), round(_entropy_bits("0123456789" * 5))
    (0, 20, 0)
    """
    period = next(size for size in range(1, len(text) + 1) if text == (text[:size] * len(text))[: len(text)])
    points = [ord(character) for character in text[:period]]
    steps = [after - before for before, after in pairwise(points)]
    return min(_shannon_bits(points), _shannon_bits(steps))


def _shannon_bits(values: Sequence[int]) -> float:
    """n times the entropy of the values' frequencies."""
    return sum(-count * log2(count / len(values)) for count in Counter(values).values())


def _read_file(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = read_yaml(path, expected="YAML in UTF-8")
    except InputError as error:
        fix = error.fix or "Correct the file; `disco init` writes an example."
        problem = Problem("format", str(path), "", str(error.found), str(error.expected), fix)
        raise PlanError("The settings cannot be read:", [problem]) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        problem = Problem(
            "format", str(path), "", f"a {type(content).__name__}", "lines of `name: value`", "See `disco init`."
        )
        raise PlanError("The settings cannot be read:", [problem])
    return content


def _problem(detail: Any, origin: Mapping[str, str]) -> Problem:
    name = str(detail["loc"][0])
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        known = _keys_beside(detail["loc"])
        near = get_close_matches(str(detail["loc"][-1]), known, n=1)
        fix = f"Did you mean {near[0]}?" if near else "Remove it."
        return Problem("unknown_setting", origin[name], "", f"the setting {key}", f"one of {', '.join(known)}", fix)
    if detail["type"] == "missing":
        return Problem("setting", f"{origin[name]}, {key}", "", "nothing", "a value", f"Add `{key}`.")
    refused = detail.get("ctx", {}).get("error")
    if isinstance(refused, InputError):
        found = as_given(detail["input"]) if isinstance(detail["input"], str | int) else str(refused.found)
        place, expected = f"{origin[name]}, {key}", str(refused.expected)
        return Problem("setting", place, "", found, expected, refused.fix or "")
    found, expected = as_given(detail["input"]), expected_of(detail)
    return Problem("setting", f"{origin[name]}, {key}", "", found, expected, "Correct the value.")


def _keys_beside(place: tuple[str | int, ...]) -> list[str]:
    """The keys that are known where an unknown one was found."""
    section: Any = ShopSettings
    for part in place[:-1]:
        kinds = get_args(section.model_fields[part].annotation) or (section.model_fields[part].annotation,)
        section = next(kind for kind in kinds if hasattr(kind, "model_fields"))  # a section may be absent: X | None
    return list(section.model_fields)
