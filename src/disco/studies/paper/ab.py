"""Section 5: an A/B test of decided codes against the same codes at random, and against one depth for everybody."""

from dataclasses import astuple, dataclass

import numpy as np

from disco import objective
from disco.belief import Engagement
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation import Design, accuracy, judge, uplift
from disco.operations.arms import assign_at_random, split
from disco.policy import Thompson
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.decisions import Arm, Offer
from disco.studies.customers.figures import Cell
from disco.studies.paper.ab_page import PAPER_REVENUE, told
from disco.studies.paper.cache import Arrays
from disco.studies.paper.environment import CampaignLog, Environment
from disco.studies.paper.item import Item
from disco.studies.paper.lab import Lab
from disco.studies.paper.readings import READINGS, TRAINED_ON, empty_model, settled
from disco.studies.paper.settings import REVENUE_WEIGHT, Settings, equal_caps

KEY = "ab"
CAMPAIGN = "C"
_P_VALUE = 0.001  # the paper's
REVENUE_ALONE = 1e6  # so large a weight that markdown does not count
Depths = tuple[float, ...]


def measure(environment: Environment, settings: Settings) -> Arrays:
    """Per reading: uplifts expected by the truth, uplifts as answered, and the accuracy of predictions made before."""
    log = environment.campaigns[CAMPAIGN]
    arms = split(log.ids, control=0.5, holdout=0.0, seed=environment.seed, campaign=CAMPAIGN)
    answers = Answers.of(environment, log)
    depths = log.campaign.depths
    control = _dealt(log, arms[Arm.CONTROL], environment.seed)
    out = {"needed": np.array([_customers_needed(answers, control, depths)])}
    for reading in READINGS:
        belief = _belief(environment, reading)
        test = _decided(log, arms[Arm.TEST], belief, environment.seed, revenue_weight=REVENUE_WEIGHT)
        alone = _decided(log, arms[Arm.TEST], belief, environment.seed, revenue_weight=REVENUE_ALONE)
        out[f"{reading}: expected"] = _expected(answers, test, depths)
        out[f"{reading}: revenue alone"] = _expected(answers, alone, depths)
        out[f"{reading}: realised"] = _realised(answers, test, control, depths)
        out[f"{reading}: accuracy"] = _online_accuracy(answers, test, belief, log)
    return out


def run(lab: Lab) -> Item:
    measured = lab.measure(measure)
    warm: Cell | None = None
    if "warm" in lab.items:  # alone, this item does not start the simulations
        from disco.studies.paper.warm import warm_uplift

        warm = warm_uplift(lab)
    return told(measured, warm=warm, key=KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What every customer would do at each depth of the campaign; one draw per customer, shared by depths and rules."""

    expected: Matrix  # E[F | purchase]
    probability: Matrix
    bought: Flags
    full_price: Matrix

    @classmethod
    def of(cls, environment: Environment, log: CampaignLog) -> "Answers":
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
    belief = Belief(basket=empty_model(reading), engagement=Engagement())
    for name in TRAINED_ON:
        past = environment.campaigns[name]
        belief = learn(belief, [Lesson.of(name, past.purchases, past.codes)])
    return Belief(basket=settled(reading, belief.basket), engagement=belief.engagement)


def _offer(log: CampaignLog, customers: int, *, revenue_weight: float = REVENUE_WEIGHT) -> Offer:
    depths = log.campaign.depths
    caps = equal_caps(customers=customers, depths=len(depths))
    return Offer(depths=depths, caps=caps, revenue_weight=revenue_weight)


def _dealt(log: CampaignLog, rows: Flags, seed: int) -> Integers:
    """(customers,) depth at random under the arm's caps; -1 outside the arm."""
    choice = np.full(len(log.ids), -1, np.int64)
    offer = _offer(log, int(rows.sum()))
    choice[rows] = assign_at_random(
        log.ids[rows], offer, costs=np.zeros(len(offer.depths)), seed=seed, campaign=CAMPAIGN
    )
    return choice


def _decided(log: CampaignLog, rows: Flags, belief: Belief, seed: int, *, revenue_weight: float) -> Integers:
    """(customers,) depth by the system under the arm's caps; -1 outside the arm."""
    choice = np.full(len(log.ids), -1, np.int64)
    audience, offer = log.audience.take(rows), _offer(log, int(rows.sum()), revenue_weight=revenue_weight)
    choice[rows] = decide(audience, belief=belief, offer=offer, policy=Thompson(), campaign=CAMPAIGN, seed=seed).choice
    return choice


def _expected(answers: Answers, test: Integers, offered: Depths) -> Vector:
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


def _realised(answers: Answers, test: Integers, control: Integers, offered: Depths) -> Vector:
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
            found = uplift(decided, others)
            lower, upper = found.relative.ends or (-np.inf, np.inf)
            figures += [found.relative.value, (upper - lower) / 2 / 1.959964]
    buyers = [float((answers.spent(choice)[choice >= 0] > 0).sum()) for choice in (test, control)]
    return np.array([*figures, *buyers])


def _online_accuracy(answers: Answers, test: Integers, belief: Belief, log: CampaignLog) -> Vector:
    """WAPE, Spearman, MAE, MSE, R² of the test arm's purchases, as predicted before the campaign."""
    spent = answers.spent(test)
    rows = np.flatnonzero((test >= 0) & (np.nan_to_num(spent) > 0) & log.known)
    predicted = belief.basket.predict(log.context[rows], np.asarray(log.campaign.depths)[test[rows]])[0]
    return np.array(astuple(accuracy(predicted, np.log(spent[rows])))[1:])


def _customers_needed(answers: Answers, control: Integers, offered: Depths) -> float:
    """Customers in both arms together with which +1.12 % of revenue has p < 0.001 in eight tests of ten."""
    rows = control >= 0
    revenue = objective.revenue(answers.spent(control)[rows], np.asarray(offered)[control[rows]])
    return float(Design(baseline=revenue.mean(), sd=revenue.std(), level=1 - _P_VALUE).customers(PAPER_REVENUE))
