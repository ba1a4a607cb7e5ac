"""Section 5: an A/B test of decided codes against the same codes at random, and against one depth for everybody."""

from dataclasses import astuple, dataclass, replace

import numpy as np
from scipy.stats import norm

from disco import objective
from disco.belief import Engagement
from disco.campaign import Belief, decide, learn
from disco.evaluation.accuracy import accuracy, judge
from disco.evaluation.estimates import uplift
from disco.evaluation.power import Design
from disco.operations.arms import assign_at_random, split
from disco.policy import Thompson
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.decisions import Arm, Offer
from disco.records.estimate import Estimate
from disco.views.charts import Axis, IntervalChart, IntervalRow
from disco.views.formats import Count, Number, Percent, count, estimate_text, percent
from disco.views.table import Column, Table
from studies.cache import Arrays
from studies.environment import (
    PAST_CAMPAIGNS,
    PLAYED_CAMPAIGN,
    REVENUE_WEIGHT,
    CampaignLog,
    Environment,
    equal_caps,
)
from studies.item import Check, Claim, Facts, Item, Prose, Row, Sample
from studies.lab import Lab, ReproductionSettings
from studies.policies import warm_uplift
from studies.readings import MAIN_READING, READINGS

PAPER_REVENUE, PAPER_REWARD = 0.0112, 0.0123
UNDIFFERENTIATED_REVENUE, UNDIFFERENTIATED_REWARD = 0.0356, 0.0410
ONLINE = {
    "WAPE": (0.133, 0.01),
    "Spearman": (0.446, 0.04),
    "MAE": (0.557, 0.04),
    "MSE": (0.496, 0.06),
    "R²": (0.113, 0.1),
}
REVENUE, REWARD, BASKET, OBJECTIVE, ONE_DEPTH_REVENUE, ONE_DEPTH_REWARD = range(6)  # of what is expected by the truth
_UPLIFT = Percent(decimals=2, signed=True)
_WITHIN = 0.01  # a point
_SIGNIFICANT = 0.001  # p, the paper's
DECIDED, FOR_REVENUE = "expected", "revenue alone"  # names of what was measured
MARKDOWN_FREE = 1e6  # so large a weight of revenue that markdown does not count
Depths = tuple[float, ...]


# ---- what is measured ----------------------------------------------------------------------------------------------


def measure_ab(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Per reading: uplifts expected by the truth, uplifts as answered, and the accuracy of predictions made before."""
    log = environment.campaigns[PLAYED_CAMPAIGN]
    arms = split(log.ids, control=0.5, holdout=0.0, seed=environment.seed, campaign=PLAYED_CAMPAIGN)
    answers = PotentialOutcomes.of(environment, log)
    depths = log.campaign.depths
    control = _assigned(log, arms[Arm.CONTROL], environment.seed)
    out = {"needed": np.array([_customers_needed(answers, control, depths)])}
    for reading in READINGS:
        belief = _belief(environment, reading)
        test = _decided(log, arms[Arm.DECIDED], belief, environment.seed, revenue_weight=REVENUE_WEIGHT)
        alone = _decided(log, arms[Arm.DECIDED], belief, environment.seed, revenue_weight=MARKDOWN_FREE)
        out[f"{reading}: {DECIDED}"] = _by_truth(answers, test, depths)
        out[f"{reading}: {FOR_REVENUE}"] = _by_truth(answers, alone, depths)
        out[f"{reading}: realised"] = _compared(answers, test, control, depths)
        out[f"{reading}: accuracy"] = _online_accuracy(answers, test, belief, log)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class PotentialOutcomes:
    """What every customer would do at each depth of the campaign; one draw per customer, shared by depths and rules."""

    expected: Matrix  # E[F | purchase]
    probability: Matrix
    bought: Flags
    full_price: Matrix

    @classmethod
    def of(cls, environment: Environment, log: CampaignLog) -> "PotentialOutcomes":
        truth = environment.truth(log.ids, log.campaign.depths, channel=str(log.campaign.channel))
        draw = np.random.default_rng((environment.seed, 5))
        sd = environment.retailer.baskets.campaign_residual_sd
        chance, residual = draw.random(len(log.ids)), sd * draw.standard_normal(len(log.ids))
        bought = chance[:, None] < truth.purchase_probability
        full_price = truth.expected_full_price * np.exp(residual - sd**2 / 2)[:, None]
        return cls(
            expected=truth.expected_full_price,
            probability=truth.purchase_probability,
            bought=bought,
            full_price=full_price,
        )

    def spent(self, choice: Integers) -> Vector:
        """Full price bought by each customer at its chosen depth; 0 without a purchase, NaN outside the arm."""
        rows = np.flatnonzero(choice >= 0)
        out = np.full(choice.size, np.nan)
        out[rows] = np.where(self.bought[rows, choice[rows]], self.full_price[rows, choice[rows]], 0.0)
        return out


def _belief(environment: Environment, reading: str) -> Belief:
    prior = Belief(basket=READINGS[reading].model(), engagement=Engagement())
    belief = learn(prior, [environment.campaigns[name].lesson for name in PAST_CAMPAIGNS])
    return replace(belief, basket=READINGS[reading].settled(belief.basket))


def _offer(log: CampaignLog, customers: int, *, revenue_weight: float = REVENUE_WEIGHT) -> Offer:
    depths = log.campaign.depths
    caps = equal_caps(customers=customers, depths=len(depths))
    return Offer(depths=depths, caps=caps, revenue_weight=revenue_weight)


def _assigned(log: CampaignLog, rows: Flags, seed: int) -> Integers:
    """(customers,) depth at random under the arm's caps; -1 outside the arm."""
    choice = np.full(len(log.ids), -1, np.int64)
    offer = _offer(log, int(rows.sum()))
    choice[rows] = assign_at_random(log.ids[rows], offer, seed=seed, campaign=PLAYED_CAMPAIGN)
    return choice


def _decided(log: CampaignLog, rows: Flags, belief: Belief, seed: int, *, revenue_weight: float) -> Integers:
    """(customers,) depth by the system under the arm's caps; -1 outside the arm."""
    choice = np.full(len(log.ids), -1, np.int64)
    audience, offer = log.audience.take(rows), _offer(log, int(rows.sum()), revenue_weight=revenue_weight)
    choice[rows] = decide(
        audience, belief=belief, offer=offer, policy=Thompson(exploration=1.0), campaign=PLAYED_CAMPAIGN, seed=seed
    ).choice
    return choice


def _by_truth(answers: PotentialOutcomes, test: Integers, offered: Depths) -> Vector:
    """By the truth, of the test arm: revenue, reward, basket value and objective over random with the same codes;
    revenue and reward over the middle depth for everybody."""
    rows, depths = np.flatnonzero(test >= 0), np.asarray(offered)
    expected, probability = answers.expected[rows], answers.probability[rows]
    judged, weighted = (
        judge(
            test[rows],
            full_price=expected,
            purchase_probability=probability,
            depths=offered,
            revenue_weight=weight,
        )
        for weight in (1.0, REVENUE_WEIGHT)  # R − C, the paper's reward, and w·R − C
    )
    counts = np.bincount(test[rows], minlength=depths.size)
    revenue = objective.revenue(expected * probability, depths)
    buyers = probability[np.arange(rows.size), test[rows]].sum()
    basket = judged.revenue / buyers / (judged.random_revenue / (probability.mean(axis=0) @ counts))
    middle = depths.size // 2
    alone = revenue[:, middle].sum()
    reward_alone = alone - objective.markdown(expected * probability, depths)[:, middle].sum()
    return np.array(
        [
            judged.revenue_uplift,
            judged.objective_uplift,
            basket - 1,
            weighted.objective_uplift,
            judged.revenue / alone - 1,
            judged.objective / reward_alone - 1,
        ]
    )


def _compared(answers: PotentialOutcomes, test: Integers, control: Integers, offered: Depths) -> Vector:
    """Relative uplift and its standard error of revenue and reward per customer, against control and against those of
    control who happened to get the middle depth; then purchasers in both arms."""
    depths = np.append(offered, np.nan)
    middle = np.where(control == len(offered) // 2, control, -1)
    figures = []
    for other in (control, middle):
        for figure in (objective.revenue, objective.reward):
            decided, others = (
                np.asarray(figure(answers.spent(choice)[choice >= 0], depths[choice[choice >= 0]]), np.float64)
                for choice in (test, other)
            )
            found = uplift(decided, others).relative
            figures += [found.value, np.inf if found.standard_error is None else found.standard_error]
    buyers = [float((answers.spent(choice)[choice >= 0] > 0).sum()) for choice in (test, control)]
    return np.array([*figures, *buyers])


def _online_accuracy(answers: PotentialOutcomes, test: Integers, belief: Belief, log: CampaignLog) -> Vector:
    """WAPE, Spearman, MAE, MSE, R² of the test arm's purchases, as predicted before the campaign."""
    spent = answers.spent(test)
    rows = np.flatnonzero((test >= 0) & (np.nan_to_num(spent) > 0) & log.known)
    predicted = belief.basket.predict(log.context[rows], np.asarray(log.campaign.depths)[test[rows]])[0]
    return np.array(astuple(accuracy(predicted, np.log(spent[rows])))[1:])


def _customers_needed(answers: PotentialOutcomes, control: Integers, offered: Depths) -> float:
    """Customers in both arms together with which +1.12% of revenue has p < 0.001 in eight tests of ten."""
    rows = control >= 0
    revenue = objective.revenue(answers.spent(control)[rows], np.asarray(offered)[control[rows]])
    return float(Design(baseline=revenue.mean(), sd=revenue.std(), level=1 - _SIGNIFICANT).customers(PAPER_REVENUE))


# ---- the item ------------------------------------------------------------------------------------------------------


PROSE: Prose = (
    "Half of the customers of campaign C are decided after A and B were learned, the other half get random codes; each "
    f"depth goes to a third of an arm. The system maximises {REVENUE_WEIGHT:g} times revenue less markdown. By the "
    "simulation's truth, without the luck of one campaign, the decided half earns {objective} of that objective, "
    "{revenue} of revenue and {reward} of reward; when only revenue counts, {alone} of revenue. As realised, the "
    "environments together show {pooled} of revenue (p = {p}): an uplift of +1.12% has p < 0.001 in eight tests of ten "
    "only with {needed} customers in both arms together, because baskets vary widely and most customers buy nothing. "
    "The possible gain depends on how much customers differ in their response to depth, and on how much of that six "
    "numbers tell. The paper does not state the weight, caps and depths of its campaign, nor the depth of its "
    "undifferentiated campaign; ours is the middle one, the mean of the caps. The paper's online R² of 0.113 is well "
    "below the square of its rank correlation, 0.2: predictions that rank well but are off in level would explain it.",
)


def run(lab: Lab) -> Item:
    measured = lab.measure(measure_ab)
    warm = warm_uplift(lab) if "warm" in lab.items else None  # alone, this item does not start the simulations
    checks = [check for reading in READINGS for check in _checks(measured, reading)]
    if warm is not None:
        in_line = Claim(
            "the A/B basket value is in line with the warm simulation's (difference)", 0.0, _UPLIFT, within=0.005
        )
        checks.append(in_line.check(_expected(measured, MAIN_READING, BASKET).minus(warm)))
    return Item(
        key="ab",
        title="The A/B test, against random codes and against one depth for all (section 5)",
        paper="Decided codes bring +1.12% of revenue (p < 0.001) and +1.23% of reward (p < 0.01) over random codes "
        "with the same caps, +3.56% and +4.10% over one depth for everybody; online accuracy is WAPE 0.133, Spearman "
        "0.446 (MAE 0.557, MSE 0.496 and R² 0.113 stand in a table that its source has commented out); the uplift is "
        "roughly in line with the warm simulation.",
        checks=tuple(checks),
        prose=PROSE,
        facts=_facts(measured),
        charts=(_chart(measured, warm),),
        tables=(
            _uplifts(measured, kind=DECIDED, caption="Expected uplift by the truth"),
            _uplifts(measured, kind=FOR_REVENUE, caption="The same when only revenue counts"),
            _realised(measured),
            _online(measured),
        ),
    )


def _facts(measured: list[Arrays]) -> Facts:
    pooled = _pooled(measured, MAIN_READING)
    return {
        "objective": _words(_expected(measured, MAIN_READING, OBJECTIVE)),
        "revenue": _words(_expected(measured, MAIN_READING, REVENUE)),
        "reward": _words(_expected(measured, MAIN_READING, REWARD)),
        "alone": _words(_expected(measured, MAIN_READING, REVENUE, kind=FOR_REVENUE)),
        "pooled": estimate_text(pooled.estimate, unit=_UPLIFT),
        "p": f"{pooled.p_value:.2g}",
        "needed": count(int(np.mean([each["needed"][0] for each in measured]))),
    }


@dataclass(frozen=True, slots=True)
class Pooled:
    """One uplift from several shops, each weighted by its precision.

    Shops are weighted as ln(1 + uplift): the error of a ratio grows with the ratio, so that weights of uplifts
    themselves would favour the shops that were unlucky.
    """

    relative: float
    standard_error: float

    @property
    def p_value(self) -> float:
        """Two-sided, that there is no difference."""
        return float(2 * norm.sf(abs(self.relative / self.standard_error)))

    @property
    def estimate(self) -> Estimate:
        half = float(norm.ppf(0.975)) * self.standard_error
        return Estimate(self.relative, self.relative - half, self.relative + half, 0.95)


def _pooled(measured: list[Arrays], reading: str, place: int = 0) -> Pooled:
    relative, error = (
        np.array([each[f"{reading}: realised"][2 * place + part] for each in measured]) for part in (0, 1)
    )
    weight = ((1 + relative) / error) ** 2
    ratio = float(np.exp((np.log1p(relative) * weight).sum() / weight.sum()))
    return Pooled(ratio - 1, ratio * float(weight.sum() ** -0.5))


def _expected(measured: list[Arrays], reading: str, place: int, *, kind: str = DECIDED) -> Sample:
    return Sample.of([float(each[f"{reading}: {kind}"][place]) for each in measured])


def _accuracy(measured: list[Arrays], reading: str, place: int) -> Sample:
    return Sample.of([float(each[f"{reading}: accuracy"][place]) for each in measured])


def _words(cell: Sample) -> str:
    return estimate_text(cell.estimate(), unit=_UPLIFT)


def _checks(measured: list[Arrays], reading: str) -> tuple[Check, ...]:
    claims: dict[Claim, Sample] = {}
    for what, place, paper in (
        ("revenue over random codes", REVENUE, PAPER_REVENUE),
        ("reward over random codes", REWARD, PAPER_REWARD),
        ("revenue over one depth for all", ONE_DEPTH_REVENUE, UNDIFFERENTIATED_REVENUE),
        ("reward over one depth for all", ONE_DEPTH_REWARD, UNDIFFERENTIATED_REWARD),
    ):
        earned = _expected(measured, reading, place)
        claims[Claim(f"{what} is more, by the truth", _UPLIFT.text(paper), _UPLIFT, above=0.0)] = earned
        claims[Claim(f"{what} is the paper's, to a point", paper, _UPLIFT, within=_WITHIN)] = earned
    online = {
        Claim(f"online {name}", target, Number(decimals=3), within=within): _accuracy(measured, reading, place)
        for place, (name, (target, within)) in enumerate(ONLINE.items())
    }
    return (
        *(claim.check(sample, reading=reading) for claim, sample in claims.items()),
        _answered(_pooled(measured, reading), reading),
        *(claim.check(sample, reading=reading) for claim, sample in online.items()),
    )


def _answered(pooled: Pooled, reading: str) -> Check:
    """A loss with a small p is no gain; a gain that the test cannot tell from none leaves the claim open."""
    ends = pooled.estimate.ends
    holds = pooled.relative > 0 and pooled.p_value < _SIGNIFICANT
    return Check(
        claim="revenue as realised, all environments together, is more with p < 0.001",
        paper="p < 0.001",
        ours=Sample.of([pooled.p_value]),
        unit=Number(decimals=4),
        rule=f"p below {_SIGNIFICANT:g}, and the decided half earns more",
        holds=holds,
        is_open=not holds and ends is not None and ends[1] > 0,
        reading=reading,
    )


def _chart(measured: list[Arrays], warm: Sample | None) -> IntervalChart:
    rows = [
        IntervalRow("Objective, A/B", _expected(measured, MAIN_READING, OBJECTIVE).estimate()),
        IntervalRow("Revenue, A/B", _expected(measured, MAIN_READING, REVENUE).estimate()),
        IntervalRow("Reward, A/B", _expected(measured, MAIN_READING, REWARD).estimate()),
        IntervalRow("Basket value, A/B", _expected(measured, MAIN_READING, BASKET).estimate()),
    ]
    if warm is not None:
        rows.append(IntervalRow("Basket value, warm simulation", warm.estimate(), muted=True))
    rows += [
        IntervalRow(
            "Revenue, over the middle depth for all", _expected(measured, MAIN_READING, ONE_DEPTH_REVENUE).estimate()
        ),
        IntervalRow(
            "Reward, over the middle depth for all", _expected(measured, MAIN_READING, ONE_DEPTH_REWARD).estimate()
        ),
    ]
    gain, revenue = (
        percent(_expected(measured, MAIN_READING, place).mean, decimals=2, signed=True)
        for place in (OBJECTIVE, REVENUE)
    )
    return IntervalChart(
        title=f"Deciding who gets which depth changes the objective by {gain} and revenue by {revenue}",
        subtitle=f"Expected uplift by the simulation's truth over random codes with the same caps, {MAIN_READING}",
        x=Axis("Uplift", _UPLIFT),
        interval="95% interval over environments",
        rows=rows,
    )


def _uplifts(measured: list[Arrays], *, kind: str, caption: str) -> Table:
    names = ("Revenue", "Reward", "Basket value", "Objective", "Revenue, over one depth", "Reward, over one depth")
    paper = (PAPER_REVENUE, PAPER_REWARD, None, None, UNDIFFERENTIATED_REVENUE, UNDIFFERENTIATED_REWARD)
    rows: list[Row] = [("the paper", *paper)]
    rows += [
        (reading, *(_expected(measured, reading, place, kind=kind).estimate() for place in range(len(names))))
        for reading in READINGS
    ]
    return Table(
        caption=caption,
        columns=("Reading", *(Column(name, _UPLIFT) for name in names)),
        rows=rows,
        note="Over random codes with the same caps, and over the middle depth for everybody. Reward: revenue less "
        f"markdown; basket value: revenue per purchaser; objective: {REVENUE_WEIGHT:g} times revenue less markdown. "
        "Mean with 95% interval over environments.",
    )


def _realised(measured: list[Arrays]) -> Table:
    """Revenue shop by shop, then every figure of the paper over all shops."""
    shops = {f"revenue, environment {place}": [each] for place, each in enumerate(measured, start=1)}
    kinds = ("revenue", "reward", "revenue, over one depth", "reward, over one depth")
    asked = [
        *((name, some, 0) for name, some in shops.items()),
        *((f"{kind}, all together", measured, place) for place, kind in enumerate(kinds)),
    ]
    rows: list[Row] = []
    for name, some, place in asked:
        found = _pooled(some, MAIN_READING, place)
        buyers: list[float | None] = [
            float(np.sum([each[f"{MAIN_READING}: realised"][arm] for each in some])) for arm in (-2, -1)
        ]
        if "one depth" in name:
            buyers[1] = None  # a part of the random half, whose purchases were not counted by themselves
        rows.append((name, *buyers, found.estimate, found.p_value))
    return Table(
        caption=f"Uplift per customer as realised, {MAIN_READING}",
        columns=(
            "Figure",
            Column("Purchasers, decided", Count()),
            Column("Purchasers, random", Count()),
            Column("Uplift", _UPLIFT),
            Column("p", Number(decimals=4)),
        ),
        rows=rows,
        note="One campaign per environment, ratio of means, normal approximation, 95% intervals; all together: "
        "weighted by precision. Over one depth: against the customers of the random half who happened to get the "
        "middle depth.",
    )


def _online(measured: list[Arrays]) -> Table:
    unit = Number(decimals=3)
    rows: list[Row] = [("the paper", *(target for target, _ in ONLINE.values()))]
    rows += [
        (reading, *(_accuracy(measured, reading, place).estimate() for place in range(len(ONLINE))))
        for reading in READINGS
    ]
    return Table(
        caption="Accuracy online: purchases of the decided half, predicted before the campaign",
        columns=("Reading", *(Column(name, unit) for name in ONLINE)),
        rows=rows,
    )
