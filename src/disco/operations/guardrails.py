"""Guardrails of a running campaign: what its outcomes say about spend, budget, baskets, refunds and groups.

They are looked at after every batch of outcomes and by every job that checks the campaign. What is found depends on the
outcomes alone (`evaluation/guardrails.py`), so looking often changes nothing. A guardrail that is crossed is told once,
with its entry in the audit journal; one that says `pause` pauses the campaign, and a person has to resume it. After
that it pauses no more: whoever resumed has seen it.
"""

from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.evaluation.guardrails import (
    LEAST_EVENTS,
    Due,
    Sequence,
    basket_beyond,
    refunds_above,
    spend_above,
    spend_below,
)
from disco.evaluation.read_out import sample_ratio
from disco.operations.arms import planned_shares
from disco.operations.outbox import tell
from disco.records.arrays import Integers, Vector
from disco.records.campaign_records import CampaignRecord, State
from disco.records.identity import places_in
from disco.records.jobs import Event
from disco.records.locale import Locale
from disco.records.money import from_minor_units
from disco.records.plan import GuardrailSection
from disco.records.ports import Clock
from disco.records.wording import chance, counted, local_text, money, percent
from disco.records.wording import date as day_text
from disco.store import Store, Transaction

ACTION = "guardrail"
"""What the audit journal calls it."""
_EARLIER = 3  # campaigns from which it is known when purchases are due
_PURCHASE, _REFUND = "purchase", "refund"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailReading:
    """How a campaign stands to one of its guardrails."""

    guardrail: str
    """spend, budget_used, average_basket, refunds or sample_ratio."""
    then: str
    """tell or pause."""
    crossed: bool
    """Whether its limit was left, by more than chance."""
    words: str
    """The figure, its limit, and since when."""


def read_guardrails(store: Store, campaign: str) -> tuple[GuardrailReading, ...]:
    """Every guardrail of a campaign, as its outcomes stand; changes nothing."""
    with store.reading() as transaction:
        return _read(transaction, transaction.plans.campaign(campaign))


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailsNow:
    """The guardrails of a campaign, and what they have done."""

    readings: tuple[GuardrailReading, ...]
    """Each with its figure and its limit, as the outcomes stand."""
    last_outcomes: datetime | None
    """When outcomes were received last; null: never. What is found depends on them alone."""
    paused: str
    """Why guardrails have paused the campaign, and what that does; empty where none has, or somebody resumed it."""


def guardrails_now(store: Store, campaign: str) -> GuardrailsNow:
    """What a campaign's page shows of its guardrails; changes nothing."""
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        received = [one.received_at for one in transaction.ledger.batches(campaign) if one.reverted_at is None]
        pauses = [detail for detail in transaction.journal.noted(campaign, ACTION) if detail.get("paused")]
        return GuardrailsNow(
            readings=_read(transaction, record),
            last_outcomes=max(received, default=None),
            paused=str(pauses[-1]["reason"]) if pauses and record.state is State.PAUSED else "",
        )


def watch(store: Store, campaign: str, *, clock: Clock) -> tuple[str, ...]:
    """Look at the guardrails; tell of what was crossed since the last look, and pause where a guardrail says so.

    The sentences say what was crossed, and what was done.
    """
    if not any(one.crossed for one in read_guardrails(store, campaign)):
        return ()
    with store.writing(campaign, action=ACTION) as transaction:
        record = transaction.plans.campaign(campaign)
        told = {name for detail in transaction.journal.noted(campaign, ACTION) for name in detail.get("crossed", ())}
        fresh = [one for one in _read(transaction, record) if one.crossed and one.guardrail not in told]
        if not fresh:
            return ()
        pauses = any(one.then == "pause" for one in fresh) and record.state is State.LAUNCHED
        pauses &= record.recalled_at is None and clock.now() < store.locale.moment(record.plan.valid.closes)
        said = [*(one.words for one in fresh), *([_paused(transaction, record)] if pauses else [])]
        names, now = [one.guardrail for one in fresh], clock.now()
        if pauses:
            transaction.plans.set_state(campaign, State.PAUSED)
            told_of_pause = {"campaign": campaign, "reason": " ".join(said)}
            tell(transaction, Event.CAMPAIGN_PAUSED, told_of_pause, actor=store.actor, now=now)
        for one in fresh:
            event = Event.BUDGET_USED if one.guardrail == "budget_used" else Event.GUARDRAIL_CROSSED
            data = {"campaign": campaign, "guardrail": one.guardrail, "words": one.words, "paused": pauses}
            once = f"guardrail:{campaign}:{one.guardrail}"
            tell(transaction, event, data, actor=store.actor, now=now, once=once)
        transaction.journal.note(crossed=names, paused=pauses, reason=" ".join(said))
        return tuple(said)


def _paused(transaction: Transaction, record: CampaignRecord) -> str:
    decisions = transaction.decisions.of(record.campaign)
    codes = len(decisions) - decisions["code"].null_count
    name, ends = record.campaign, day_text(record.plan.valid.end)
    return (
        f"Campaign {name} is paused: nobody who arrives from now on gets a code. The {counted(codes, 'code')} already "
        f"sent stay valid until {ends}, and purchases with them count; `disco recall {name}` makes them invalid. "
        f"A person ends the pause with `disco resume {name}`."
    )


# ---- one campaign ----


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """What was bought with codes, those of late arrivals included, and given back, in the order of time."""

    at: Integers  # microseconds since 1970-01-01 UTC, of each purchase
    price: Vector
    depth: Vector
    expected: Vector  # basket before the discount; NaN: not known
    refunded_at: Integers
    refund: Vector

    @classmethod
    def of(cls, transaction: Transaction, campaign: str) -> "_Events":
        decisions = transaction.decisions.of(campaign)
        rows = _corrected(transaction.ledger.applied(campaign))
        amount = from_minor_units(rows["full_price_minor"].to_numpy(), transaction.locale.currency)
        place = places_in(rows["code"].combine_chunks(), among=decisions["code"].combine_chunks())
        known = place.is_valid().to_numpy(zero_copy_only=False)
        kind, at = np.asarray(rows["kind"].to_pylist(), object), _instants(rows["ordered_at"])
        bought = np.flatnonzero((kind == _PURCHASE) & known)
        bought = bought[np.argsort(at[bought], kind="stable")]
        back = np.flatnonzero((kind == _REFUND) & known)
        back = back[np.argsort(at[back], kind="stable")]
        of = place.take(pa.array(bought))
        depth, expected = (
            pc.fill_null(decisions[name].take(of), np.nan).to_numpy() for name in ("depth", "expected_full_price")
        )
        return cls(at[bought], amount[bought], depth, expected, at[back], amount[back])


def _corrected(applied: pa.Table) -> pa.Table:
    """Purchases and refunds with the amounts that their last corrections gave them."""
    is_change = pc.equal(applied["kind"], "correction")
    changes = applied.filter(is_change).sort_by([("ordered_at", "ascending"), ("event_id", "ascending")])
    rows = applied.filter(pc.invert(is_change))
    if not changes.num_rows:
        return rows
    amount = np.array(rows["full_price_minor"].to_numpy())
    place = pc.index_in(changes["refers_to"], value_set=rows["event_id"].combine_chunks())
    there = place.is_valid().to_numpy()
    amount[place.drop_null().to_numpy()] = changes["full_price_minor"].to_numpy()[there]  # the last one written holds
    column = rows.schema.get_field_index("full_price_minor")
    return rows.set_column(column, "full_price_minor", pa.array(amount))


def _instants(column: pa.ChunkedArray) -> Integers:
    return np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)


@dataclass(frozen=True, slots=True)
class _Validity:
    """The time in which codes can be used, as microseconds since 1970-01-01 UTC."""

    opens: int
    closes: int

    @classmethod
    def of(cls, record: CampaignRecord, locale: Locale) -> "_Validity":
        opens, closes = (_microseconds(locale, end) for end in (record.plan.valid.opens, record.plan.valid.closes))
        return cls(opens, closes)

    def share(self, at: Integers) -> Vector:
        """(n,) of the time that has passed at these moments."""
        return np.asarray((at - self.opens) / (self.closes - self.opens), np.float64)


def _microseconds(locale: Locale, moment: date | datetime) -> int:
    return round(locale.moment(moment).timestamp() * 1_000_000)


def _earlier(transaction: Transaction, record: CampaignRecord) -> tuple[Due, Due]:
    """When purchases and refunds came in the last campaigns before this one that went through the same channel."""
    before = [
        one
        for one in transaction.plans.campaigns()
        if one.recalled_at is None
        and one.plan.channel == record.plan.channel
        and one.matures_on <= record.plan.valid.start
    ]
    before = sorted(before, key=lambda one: one.plan.valid.start)[-_EARLIER:]
    bought, back = [np.zeros(0)], [np.zeros(0)]
    for one in before:
        events, validity = _Events.of(transaction, one.campaign), _Validity.of(one, transaction.locale)
        bought.append(validity.share(events.at))
        back.append(validity.share(events.refunded_at))
    known = [np.sort(np.concatenate(parts)) for parts in (bought, back)]
    purchases, refunds = (part if part.size >= LEAST_EVENTS else np.zeros(0) for part in known)
    return Due(purchases), Due(refunds)


def _read(transaction: Transaction, record: CampaignRecord) -> tuple[GuardrailReading, ...]:
    rails = record.plan.guardrails
    if rails is None:
        return ()
    look = _Look.of(transaction, record)
    asked = {
        "spend": (rails.spend, look.spend),
        "budget_used": (rails.budget_used, look.budget_used),
        "average_basket": (rails.average_basket, look.average_basket),
        "refunds": (rails.refunds, look.refunds),
        "sample_ratio": (rails.sample_ratio, look.sample_ratio),
    }
    found = []
    for name, (rail, read) in asked.items():
        if rail is not None:
            crossed, words = read(rail)
            found.append(GuardrailReading(guardrail=name, then=rail.then, crossed=crossed, words=words))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """A campaign with its events, as the guardrails read it; each says whether it is crossed, and in words."""

    record: CampaignRecord
    locale: Locale
    events: _Events
    validity: _Validity
    due: Due
    refunds_due: Due
    forecast: float | None  # of the markdown of all codes of the launch
    late: float  # what was expected of the codes of late arrivals when they were decided
    purchases: float  # expected by the end
    groups: dict[str, int]

    @classmethod
    def of(cls, transaction: Transaction, record: CampaignRecord) -> "_Look":
        decisions = transaction.decisions.of(record.campaign)
        total = transaction.plans.get(record.plan_id).summary.total
        coded = decisions.filter(decisions["depth"].is_valid())
        rates = pc.fill_null(coded["expected_engagement"], 0.0)
        markdown = pc.multiply(pc.multiply(coded["depth"], pc.fill_null(coded["expected_full_price"], 0.0)), rates)
        late = pc.sum(markdown.filter(coded["late"])).as_py()
        decisions = decisions.filter(pc.invert(decisions["late"]))
        counts = {one["values"]: one["counts"] for one in pc.value_counts(decisions["arm"]).to_pylist()}
        due, refunds_due = _earlier(transaction, record)
        return cls(
            record,
            transaction.locale,
            _Events.of(transaction, record.campaign),
            _Validity.of(record, transaction.locale),
            due,
            refunds_due,
            None if total is None else total.markdown.value,
            float(late or 0.0),
            float(pc.sum(rates).as_py() or 0.0),
            {str(arm): counts.get(str(arm), 0) for arm in planned_shares(record.plan)},
        )

    @property
    def markdown(self) -> Vector:
        return np.asarray(self.events.price * self.events.depth, np.float64)

    def _money(self, amount: float) -> str:
        return money(amount, currency=self.locale.currency)

    def _since(self, at: Integers, place: int | None) -> str:
        if place is None:
            return ""
        moment = datetime.fromtimestamp(int(at[place]) / 1e6, tz=self.locale.zone)
        return f", crossed with the purchase of {local_text(moment, self.locale)}"

    def spend(self, rail: GuardrailSection) -> tuple[bool, str]:
        if self.forecast is None or self.forecast <= 0:
            return False, "Spend: the plan has no forecast, so it is not watched."
        time, spent = self.validity.share(self.events.at), self.markdown
        paths: list[tuple[float, Sequence]] = []
        whole = self.forecast + self.late  # nobody knows when somebody arrives late, so only `above` counts on them
        if rail.above is not None:
            path = spend_above(spent, time, limit=rail.above, forecast=whole, due=self.due)
            paths.append((rail.above, path))
        if rail.below is not None:
            path = spend_below(spent, time, limit=rail.below, forecast=self.forecast, due=self.due)
            paths.append((rail.below, path))
        share = float(self.due.upper(time[-1:])[0]) if time.size else 0.0
        place, limit = _first(paths)
        when = "" if not self.due.known.size else f", of which {self._money(whole * share)} was due by then"
        return place is not None, (
            f"Spend: markdown of {self._money(float(spent.sum()))} against a forecast of {self._money(whole)}"
            f"{when} (limit {_limits(rail, limit)}){self._since(self.events.at, place)}."
        )

    def budget_used(self, rail: GuardrailSection) -> tuple[bool, str]:
        budget, spent = self.record.plan.budget_amount, np.cumsum(self.markdown)
        if not budget or rail.above is None:
            return bool(spent.size and spent[-1] > 0), "Budget: it is 0."
        beyond = np.flatnonzero(spent > rail.above * budget)
        place = int(beyond[0]) if beyond.size else None
        used = float(spent[-1]) if spent.size else 0.0
        return place is not None, (
            f"Budget: {self._money(used)} of {self._money(budget)} is used, {percent(used / budget)} "
            f"(limit {percent(rail.above)}){self._since(self.events.at, place)}."
        )

    def average_basket(self, rail: GuardrailSection) -> tuple[bool, str]:
        known = self.events.expected > 0
        ratio, at = self.events.price[known] / self.events.expected[known], self.events.at[known]
        limits = [limit for limit in (rail.above, rail.below) if limit is not None]
        paths = [(limit, basket_beyond(ratio, limit=limit, planned=self.purchases)) for limit in limits]
        place, limit = _first(paths)
        mean = "not known yet" if not ratio.size else f"{percent(float(ratio.mean()) - 1, signed=True)}"
        return place is not None, (
            f"Average basket against what was expected of those who bought: {mean} "
            f"(limit {_limits(rail, limit)}){self._since(at, place)}."
        )

    def refunds(self, rail: GuardrailSection) -> tuple[bool, str]:
        one = self.events
        at = np.concatenate([one.at, one.refunded_at])
        order = np.argsort(at, kind="stable")
        bought = np.concatenate([one.price, np.zeros(one.refund.size)])[order]
        back = np.concatenate([np.zeros(one.price.size), one.refund])[order]
        limit = rail.above or 0.0
        path = refunds_above(
            bought,
            back,
            self.validity.share(at[order]),
            limit=limit,
            planned=self.purchases,
            due=self.due,
            refunds_due=self.refunds_due,
        )
        place, share = path.crossing(), float(back.sum() / bought.sum()) if bought.any() else 0.0
        return place is not None, (
            f"Refunds: {percent(share)} of what was bought was given back (limit {percent(limit)})"
            f"{self._since(at[order], place).replace('purchase', 'event')}."
        )

    def sample_ratio(self, _: GuardrailSection) -> tuple[bool, str]:
        shares = {str(arm): share for arm, share in planned_shares(self.record.plan).items() if share > 0}
        found = sample_ratio({name: self.groups[name] for name in shares}, shares)
        sizes = ", ".join(f"{name} {size:,} for {found.expected[name]:,.0f}" for name, size in found.found.items())
        return not found.ok, f"Groups: {sizes} ({chance(found.p_value)})."


def _first(paths: list[tuple[float, Sequence]]) -> tuple[int | None, float | None]:
    """The first crossing of any of these paths, and its limit; None: there is none."""
    crossed = [(place, limit) for limit, path in paths if (place := path.crossing()) is not None]
    return min(crossed, default=(None, None))


def _limits(rail: GuardrailSection, crossed: float | None) -> str:
    given = [limit for limit in (rail.above, rail.below) if limit is not None] if crossed is None else [crossed]
    return " and ".join(percent(limit, decimals=0, signed=True) for limit in given)
