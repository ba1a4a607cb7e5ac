"""What the codes of a plan are expected to bring, with 90% intervals that contain what earlier forecasts got wrong.

Each customer has a chance to buy of their own, at the depth they get. One draw has one θ, one spread per depth and one
draw of engagement for everybody, because errors of these do not average out, and a factor per depth from earlier
campaigns (`calibrate`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
import pyarrow as pa

from disco.belief import draw_full_price_totals
from disco.belief.calibration import Backtest, backtest, calibrate
from disco.belief.level import moving_levels
from disco.campaign import Belief
from disco.operations.learn import assigned_at_random, learned_before
from disco.operations.purchases import bought
from disco.operations.season import Lessons, ShopSeason
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.campaign_records import CampaignRecord
from disco.records.decisions import Arm, Audience
from disco.records.estimate import LEVEL, Estimate
from disco.records.forecasting import USUAL_RULES, ForecastRules, Level
from disco.records.identity import customer_keys, uniforms
from disco.records.plan import Plan
from disco.records.plan_summary import Calibration, MoneyForecast
from disco.records.ports import Engine
from disco.records.wording import date as date_text
from disco.store import Store, Transaction

_DRAWS = 200
_MOST_CUSTOMERS = 50_000  # a sample of this size adds 0.3% to intervals of several per cent


def expected_totals(full_price: Vector, engagement: Vector, choice: Integers, *, depths: int) -> Vector:
    """(depths,) Σ F_i·e_i over the customers who get each depth: the expectation that a budget counts.

    full_price, engagement (n,): of each customer at the depth they get, at the posterior mean; not read where `choice`
    is -1, no code.
    """
    coded = choice >= 0
    bought = full_price[coded] * engagement[coded]
    return np.asarray(np.bincount(choice[coded], weights=bought, minlength=depths), np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Totals:
    """Full price bought per depth with some codes, corrected by earlier campaigns. Totals of one campaign add up."""

    expected: Vector  # (depths,)
    drawn: Matrix | None = None  # (draws, depths), around it; equal rows have equal θ; None: nothing was drawn

    def __add__(self, other: "Totals") -> "Totals":
        drawn = None if self.drawn is None or other.drawn is None else self.drawn + other.drawn
        return Totals(expected=self.expected + other.expected, drawn=drawn)

    def money(self, depths: Vector) -> MoneyForecast:
        """Money is linear in full price, so revenue, markdown and any w·revenue − markdown agree with each other.

        Without draws, the same figures without intervals.
        """
        return MoneyForecast(
            revenue=self._estimate(1 - depths), markdown=self._estimate(depths), reward=self._estimate(1 - 2 * depths)
        )

    def objective(self, depths: Vector, *, revenue_weight: float) -> Estimate:
        """w·revenue − markdown."""
        return self._estimate(revenue_weight * (1 - depths) - depths)

    def drawn_markdown(self, depths: Vector) -> Vector:
        """(draws,)."""
        assert self.drawn is not None  # for the type checker: chances are asked of what was drawn
        return np.asarray(self.drawn @ depths)

    def _estimate(self, weights: Vector) -> Estimate:
        value = float(self.expected @ weights)
        return Estimate(value) if self.drawn is None else Estimate.around(value, self.drawn @ weights, level=LEVEL)


def draw_totals(
    belief: Belief,
    audience: Audience,
    choice: Integers,
    depths: Vector,
    *,
    full_price: Vector,
    engagement: Vector,
    correction: Calibration,
    arm: Arm,
    seed: int,
    campaign: str,
    engine: Engine | None = None,
) -> Totals:
    """What the codes of one arm are expected to bring, with draws around it.

    Arms add up: in equal draws they have the same θ, spread, engagement and effect of the campaign, while what their
    customers happen to buy is independent.

    full_price, engagement (n,): as in `expected_totals`.

    The draws are scaled, depth by depth, to the expectation at the posterior mean. Left alone, their mean would be
    larger by E[exp(ψᵀθ)]/exp(ψᵀE[θ]), and off by the noise of a finite number of draws. But the correction contains
    that ratio already: it was learned from actual ÷ expected, with expected at the posterior mean. They are scaled and
    not shifted because every error but that of single purchases is a factor, and so nothing falls below 0.

    A large campaign is drawn from a random part of its customers and scaled up, depth by depth.
    """
    expected = expected_totals(full_price, engagement, choice, depths=depths.size)
    coded = choice >= 0
    kept, scale = coded, np.ones(depths.size)
    if coded.sum() > _MOST_CUSTOMERS:
        u = uniforms(customer_keys(audience.ids), seed, campaign, "forecast")
        kept = coded & (u < _MOST_CUSTOMERS / coded.sum())
        for column in range(depths.size):
            here = choice == column
            if not here.any():
                continue
            if not (kept & here).any():
                kept = kept | here
            scale[column] = here.sum() / (kept & here).sum()
    drawn = draw_full_price_totals(
        belief.basket,
        audience.context[kept],
        choice[kept],
        depths,
        engagement=belief.engagement,
        score=belief.scores(audience.take(kept)),
        expected=expected / scale,
        draws=_DRAWS,
        seed=seed,
        group=None if arm is Arm.DECIDED else arm.salt,  # none: forecasts of decided codes keep their bytes
        engine=engine,
    )
    factors = correction.factors(depths.tolist())
    error = correction.draws(_DRAWS, depths.tolist(), seed, campaign, arm.salt, campaign=(seed, campaign))
    error *= factors / error.mean(axis=0)
    return Totals(expected=expected * factors, drawn=drawn * scale * error)


# ---- what earlier campaigns brought against their forecasts ----
#
# Which campaigns count, and what each of them says; the correction itself is `belief/level.py`, or
# `belief/calibration.py` where the level is fixed.

_MOST_CAMPAIGNS = 6  # the latest, for a fixed level; older ones say less about the next, and each has to be read
_MOST_OF_A_WALK = 12  # the latest, for a level that moves: how far it moves is seen over many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PastForecasts:
    """What earlier campaigns say about the next forecast, at any depths."""

    decided: tuple[Backtest, ...]
    """Of codes that a policy decided."""
    at_random: tuple[Backtest, ...]
    """Of codes assigned at random."""
    personal: bool
    """Whether these forecasts have engagement per customer."""
    level: Level = Level.FIXED
    """Whether what campaigns bring against their forecasts may drift."""
    season: tuple[float, float] | None = None
    """(mean, variance) of ln of the next campaign's season, relative to those of the campaigns that the model learned
    from. What earlier campaigns were expected to bring contains their own. None: no season is known."""
    season_words: str | None = None
    """Where the season comes from."""
    waiting: tuple[date, ...] = ()
    """When the forecasts of launched campaigns mature that say nothing yet."""

    @property
    def waiting_words(self) -> tuple[str, ...]:
        """A sentence where no earlier forecast counts yet, although there are some."""
        if self.decided or self.at_random or not self.waiting:
            return ()
        until, more = date_text(min(self.waiting)), len(self.waiting) > 1
        if more:
            return (f"{len(self.waiting)} earlier forecasts are not mature yet, the first until {until}.",)
        return (f"1 earlier forecast is not mature until {until}, so it does not correct this one.",)

    def calibrations(self, depths: Sequence[float]) -> Mapping[bool, Calibration]:
        """For codes that a policy decided (True) and for codes assigned at random (False), at these depths."""
        if self.level is Level.MOVING:
            found = moving_levels(self.decided, self.at_random, depths, personal=self.personal)
        else:
            found = {
                decided: calibrate(past, depths, decided=decided, personal=self.personal)
                for decided, past in ((True, self.decided), (False, self.at_random))
            }
        if self.season is None:
            return found
        return {decided: one.in_season(*self.season) for decided, one in found.items()}


def past_forecasts(
    store: Store,
    *,
    learned: Collection[str],
    as_of: date,
    personal: bool,
    rules: ForecastRules = USUAL_RULES,
    belief: Belief | None = None,
    plan: Plan | None = None,
    season: ShopSeason | None = None,
    engine: Engine | None = None,
) -> PastForecasts:
    """From campaigns that have been learned and were over by then (`compared_until`), since their outcomes are taken to
    be complete.

    A recalled one was cut short, so its forecast cannot be compared. Forecasts with engagement per customer
    (`personal`) and with one rate per depth are wrong in other ways, so neither says anything about the other.

    belief: the one that decides now. A level that moves compares campaigns with forecasts of the network in use, made
    anew where a campaign was decided with another one: of two networks, one may see everybody as more generous, and
    that is no change of the world. None: forecasts count as they were made.
    plan, season: the campaign to come, and what is known of the season; None: nothing.
    """
    past: dict[bool, list[Backtest]] = {True: [], False: []}
    most = _MOST_OF_A_WALK if rules.level is Level.MOVING else _MOST_CAMPAIGNS
    with store.reading() as transaction:
        until = compared_until(transaction, as_of, rules)
        launched = transaction.plans.campaigns()
        over = [
            (record, anew)
            for record in launched
            if record.campaign in learned and record.matures_on <= until and record.recalled_at is None
            for anew in [_made_anew_by(record, belief, rules)]
            if anew is not None or (record.solution.head is not None) is personal
        ]
        forgetting = 1.0 if belief is None else belief.engagement.forgetting
        lessons = None if season is None else Lessons(transaction, season, forgetting=forgetting)
        for place, (record, anew) in enumerate(over[-most:]):
            factor = 1.0 if lessons is None else float(np.exp(lessons.before(record)))
            for decided, seen in _backtest(transaction, record, place=place, anew=anew, engine=engine).items():
                past[decided].append(replace(seen, expected=seen.expected * factor))
        following = None if lessons is None or plan is None else lessons.relative(plan, learned, until=until)
    return PastForecasts(
        decided=tuple(past[True]),
        at_random=tuple(past[False]),
        personal=personal,
        level=rules.level,
        season=following,
        season_words=None if season is None else season.words,
        waiting=tuple(
            record.matures_on
            for record in launched
            if record.version is not None and record.matures_on > until and record.recalled_at is None
        ),
    )


def compared_until(transaction: Transaction, as_of: date, rules: ForecastRules) -> date:
    """Campaigns that had matured by this day are compared with their forecasts.

    as_of: of the plan, whose customers are seen as of that day. What the model has learned since is known, too, so a
    level that moves compares all campaigns that had matured when its version was made. A fixed level does not.
    """
    if rules.level is Level.FIXED:
        return as_of
    active = transaction.beliefs.version()
    return as_of if active is None else max(as_of, transaction.locale.day_of(active.made_at))


def _made_anew_by(record: CampaignRecord, belief: Belief | None, rules: ForecastRules) -> Belief | None:
    """The belief whose network forecasts a campaign again, because it was decided with another one; None: its own."""
    if belief is None or rules.level is Level.FIXED:
        return None
    return belief if belief.basket.context_schema not in (None, record.network) else None


def _backtest(
    transaction: Transaction, record: CampaignRecord, *, place: int, anew: Belief | None, engine: Engine | None
) -> dict[bool, Backtest]:
    """What one campaign says; nothing where no revenue was expected, or there was none.

    anew: the belief whose network forecasts it again; None: the forecast of its plan counts.
    """
    decisions = transaction.decisions.of(record.campaign)
    actual = bought(transaction, record.campaign, decisions)
    if anew is None:
        expected = decisions["expected_full_price"].to_numpy() * decisions["expected_engagement"].to_numpy()
    else:
        expected = _expected_anew(transaction, record, decisions, anew, engine=engine)
    random = assigned_at_random(decisions, record.plan)
    by_policy = np.asarray(decisions["arm"].to_pylist(), object) == str(Arm.DECIDED)
    found = {}
    for decided, rows in ((True, by_policy & ~random), (False, random)):
        here = rows & _on_time(decisions) & (np.nan_to_num(expected) > 0)
        seen = backtest(decisions["depth"].to_numpy()[here], expected[here], actual[here], place=place)
        if seen is not None:
            found[decided] = seen
    return found


def _expected_anew(
    transaction: Transaction, record: CampaignRecord, decisions: pa.Table, belief: Belief, *, engine: Engine | None
) -> Vector:
    """(n,) what a plan would have expected of each code with the network in use and what was known then; 0 without."""
    none = np.zeros(decisions.num_rows)
    then = None if record.version is None else transaction.beliefs.version(record.version)
    network = belief.basket.context_schema
    if then is None or network not in transaction.beliefs.networks(record.campaign):
        return none  # there was no forecast, or the campaign was not learned again under the network in use
    assert network is not None  # for the type checker: `_made_anew_by`
    known = learned_before(transaction, belief, then)
    coded = np.flatnonzero(decisions["depth"].is_valid().to_numpy())
    if not known.basket.campaigns or not coded.size:
        return none
    depths, choice = np.unique(decisions["depth"].to_numpy()[coded], return_inverse=True)
    audience = Audience(
        ids=decisions["customer_id"].combine_chunks().take(pa.array(coded)).to_numpy(zero_copy_only=False),
        context=transaction.contexts.of(record.campaign, network, decisions["row"].to_numpy()[coded]),
        known=np.asarray(decisions["known"].to_numpy(), np.bool_)[coded],
    )
    full_price = known.basket.expected_at_choice(audience.context, depths, choice, engine=engine)
    none[coded] = full_price * known.rates_at_choice(audience, depths, choice, engine=engine)
    return none


def _on_time(decisions: pa.Table) -> Flags:
    return ~np.asarray(decisions["late"].to_numpy(), np.bool_)
