"""Two context networks on the campaigns of a shop: which of them would have foreseen the outcomes better.

Each campaign is predicted by what the campaigns before it teach under one network, with the depths that its customers
got: who uses the code, what they spend, and the money of all codes together. Nothing is written, so that a network can
be judged before anything rests on it. A network that was trained on orders and codes of a campaign has seen it before;
such campaigns say little about the next one, and the comparison names them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from disco.belief import EngagementCounts, Evidence
from disco.campaign import Belief, Lesson, learn
from disco.features import ContextNetwork
from disco.operations.learn import assigned_at_random, under_network
from disco.operations.purchases import bought
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.campaign_records import CampaignRecord
from disco.records.decisions import Audience
from disco.records.ports import Engine
from disco.store import Store, Transaction

MOST_CAMPAIGNS = 6  # the latest ones; the first of them is learned from alone
BETTER = "better"
_CLEAR = 0.005  # of a loss: codes are used by chance, so the best of networks explains a few hundredths of it


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkScore:
    """How a network foresaw past campaigns, each by those before it. Smaller is better in all three."""

    log_loss: float
    """Mean log loss of whether a code was used."""
    squared_error: float | None
    """Mean squared error of ln(full price) of those who bought; null where nobody did."""
    forecast_error: float
    """Mean of |ln(actual / expected)| of the money of a campaign's codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkComparison:
    """The network in use and a new one on the same campaigns."""

    campaigns: tuple[str, ...]
    """The campaigns that were predicted, by their first day."""
    seen: tuple[str, ...]
    """Those of them that the new network was trained on."""
    in_use: NetworkScore
    """The network of the shop."""
    new: NetworkScore
    """The one that was trained now."""
    verdict: str
    """Of the new network: better, worse, or no clear difference."""

    @classmethod
    def of(
        cls, campaigns: Sequence[str], seen: Sequence[str], *, in_use: NetworkScore, new: NetworkScore
    ) -> "NetworkComparison":
        """With the verdict: by how much of their losses the networks differ, codes and baskets together."""
        gain = math.log(in_use.log_loss / new.log_loss)
        if in_use.squared_error and new.squared_error:
            gain += math.log(in_use.squared_error / new.squared_error)
        verdict = BETTER if gain > _CLEAR else "worse" if gain < -_CLEAR else "no clear difference"
        return cls(campaigns=tuple(campaigns), seen=tuple(seen), in_use=in_use, new=new, verdict=verdict)

    @property
    def sentence(self) -> str:
        """The finding for people."""
        said = "There is no clear difference between the networks"
        if self.verdict in (BETTER, "worse"):
            said = f"The new network would have been {self.verdict}"
        text = (
            f"{said} on {', '.join(self.campaigns)}: log loss of codes {self.new.log_loss:.4f} instead of "
            f"{self.in_use.log_loss:.4f}"
        )
        if self.new.squared_error is not None and self.in_use.squared_error is not None:
            text += f", squared error of ln(basket) {self.new.squared_error:.4f} instead of "
            text += f"{self.in_use.squared_error:.4f}"
        text += f", forecasts off by {self.new.forecast_error:.1%} instead of {self.in_use.forecast_error:.1%}."
        if self.seen:
            text += f" It was trained on {', '.join(self.seen)}, which flatters it there."
        return text


def compare_networks(
    store: Store,
    in_use: ContextNetwork,
    new: ContextNetwork,
    *,
    prior: Belief,
    as_of: date,
    trained_until: date | None,
    engine: Engine | None = None,
) -> NetworkComparison | None:
    """Both networks on the matured campaigns that the model has learned; None where there are fewer than two.

    prior: the belief before any campaign. trained_until: the end of the new network's window; None: not known.
    """
    with store.reading() as transaction:
        active = transaction.beliefs.version()
        learned = set() if active is None else set(active.campaigns)
        records = [
            record
            for record in transaction.plans.campaigns()
            if record.campaign in learned and record.matures_on <= as_of and record.recalled_at is None
        ][-MOST_CAMPAIGNS:]
        if len(records) < 2:
            return None
        scores = [
            _score(transaction, network, records, prior=prior, name=str(place), engine=engine)
            for place, network in enumerate((in_use, new))
        ]
    predicted = records[1:]
    seen = [one.campaign for one in predicted if trained_until is not None and one.plan.valid.start < trained_until]
    return NetworkComparison.of([one.campaign for one in predicted], seen, in_use=scores[0], new=scores[1])


@dataclass(frozen=True, slots=True, eq=False)
class _Codes:
    """The codes of a campaign's launch, with contexts of one network."""

    audience: Audience
    depth: Vector
    full_price: Vector  # bought with the code, money; 0: it was not used
    counted: Flags  # that teach engagement (docs/decisions/002)

    @property
    def bought(self) -> Flags:
        """Purchases by customers with a context of their own."""
        return (self.full_price > 0) & self.audience.known


def _score(
    transaction: Transaction,
    network: ContextNetwork,
    records: Sequence[CampaignRecord],
    *,
    prior: Belief,
    name: str,
    engine: Engine | None,
) -> NetworkScore:
    start, lessons = under_network(prior, name, network.head_), list[Lesson]()
    logs, squares, forecasts = list[float](), list[Vector](), list[float]()
    for record in records:
        codes = _codes_of(transaction, network, record, engine=engine)
        if lessons:
            _judge(learn(start, lessons), codes, logs=logs, squares=squares, forecasts=forecasts)
        rows, used = codes.counted, codes.full_price > 0
        score, bins = None, None
        if network.head_ is not None:
            score, bins = network.head_.scores(codes.audience.context[rows]), network.head_.bins
        here = codes.bought
        lesson = Lesson(
            campaign=record.campaign,
            baskets=Evidence.of(codes.audience.context[here], codes.depth[here], codes.full_price[here]),
            codes=EngagementCounts.of(codes.depth[rows], used[rows], score=score, bins=bins),
        )
        lessons.append(lesson)
    errors = np.concatenate(squares)
    return NetworkScore(
        log_loss=float(np.mean(logs)),
        squared_error=float(errors.mean()) if errors.size else None,
        forecast_error=float(np.mean(forecasts)),
    )


def _codes_of(
    transaction: Transaction, network: ContextNetwork, record: CampaignRecord, *, engine: Engine | None
) -> _Codes:
    decisions = transaction.decisions.of(record.campaign)
    full_price = bought(transaction, record.campaign, decisions)
    coded = np.asarray(decisions["code"].is_valid().to_numpy()) & ~np.asarray(decisions["late"].to_numpy(), np.bool_)
    rows = np.flatnonzero(coded)
    contexts: Matrix = network.transform(transaction.contexts.features(record.campaign), engine=engine)
    at_random = assigned_at_random(decisions, record.plan)[rows]
    return _Codes(
        audience=Audience(
            ids=decisions["customer_id"].to_numpy()[rows],
            context=contexts[decisions["row"].to_numpy()[rows]],
            known=np.asarray(decisions["known"].to_numpy(), np.bool_)[rows],
        ),
        depth=decisions["depth"].to_numpy()[rows],
        full_price=full_price[rows],
        counted=at_random if at_random.any() else np.ones(rows.size, np.bool_),
    )


def _judge(belief: Belief, codes: _Codes, *, logs: list[float], squares: list[Vector], forecasts: list[float]) -> None:
    """Add what this belief would have been wrong by."""
    depths, choice = np.unique(codes.depth, return_inverse=True)
    context = codes.audience.context
    rate = np.clip(belief.rates_at_choice(codes.audience, depths, choice), 1e-6, 1 - 1e-6)
    price = belief.basket.expected_at_choice(context, depths, choice)
    used = codes.full_price > 0
    logs.append(float(-np.where(used, np.log(rate), np.log1p(-rate)).mean()))
    here = codes.bought
    squares.append((np.log(codes.full_price[here]) - belief.basket.predict(context[here], codes.depth[here])[0]) ** 2)
    if used.any():
        forecasts.append(abs(math.log(codes.full_price.sum() / float((rate * price).sum()))))
