"""Learn from some letters, decide about others, and judge what the decisions would have been worth.

Every letter is decided by a belief that never saw its wave. Values are estimated within strata, with intervals.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from letters import Letters
from sklearn.linear_model import LogisticRegression

import disco
from disco.belief.movement import Movement
from disco.errors import InputError
from disco.evaluation.estimates import mean_estimate, ratio_estimate
from disco.evaluation.off_policy import OffPolicy, off_policy, target_probabilities
from disco.operations.replay import decision_propensities
from disco.records.estimate import Estimate
from disco.records.score import ScoreBins

AS_SENT, THOMPSON, GREEDY, MOST_LOANS = "as sent", "Thompson", "greedy", "greedy for loan value"
POLICIES = (GREEDY, THOMPSON, MOST_LOANS)
TAKE_UP, LOAN_VALUE, REVENUE, OBJECTIVE = "take-up", "loan value", "revenue", "objective"
FIGURES = (TAKE_UP, LOAN_VALUE, REVENUE, OBJECTIVE)  # per letter
CONTEXT_LIMIT = 4.0
SCORE_BINS = 16  # the smallest band has a thousand letters or so


# ---- learn and decide ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fold:
    """Which letters are learned from and which are judged."""

    name: str
    learned: np.ndarray  # (n,) flags
    judged: np.ndarray  # (n,) flags


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldBelief:
    """What the learned letters taught: one basket model, and engagement per risk band, in which each person has a rate.

    Take-up differs so much between bands that one curve for all would be a curve of who got the deep offers.
    """

    basket: disco.BasketModel
    engagement: dict[str, disco.Engagement]
    movement: dict[str, Movement | None]  # of take-up between waves, by band; None: the judged letters are of this wave
    context: np.ndarray  # (n, p) of every letter, scaled as the learned ones
    score: np.ndarray  # (n,) of every letter: who takes up a loan, whatever the depth


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """Beliefs and decisions about n letters at K levels."""

    letters: Letters
    revenue_weight: float
    folds: tuple[Fold, ...]
    beliefs: tuple[FoldBelief, ...]
    engagement: np.ndarray  # (n, K) believed take-up of each judged letter at each level
    full_price: np.ndarray  # (n, K) believed loan, given take-up
    targets: dict[str, np.ndarray]  # by policy, the probability (n, K) with which it gives a letter each level

    def observed(self, figure: str) -> np.ndarray:
        """(n,) what each letter brought."""
        letters = self.letters
        return self._figure(figure, letters.took.astype(float), letters.loan, letters.depth)

    def predicted(self, figure: str) -> np.ndarray:
        """(n, K) what each letter was believed to bring at each level."""
        loans = self.engagement * self.full_price
        return self._figure(figure, self.engagement, loans, np.asarray(self.letters.level_depths))

    def _figure(self, figure: str, took: np.ndarray, loan: np.ndarray, depth: np.ndarray) -> np.ndarray:
        revenue, markdown = loan * (1 - depth), loan * depth
        objective = self.revenue_weight * revenue - markdown
        return {TAKE_UP: took, LOAN_VALUE: loan, REVENUE: revenue, OBJECTIVE: objective}[figure]


def run_trial(letters: Letters, *, revenue_weight: float, seed: int) -> Trial:
    """Learn and decide, fold by fold."""
    parts = folds(letters)
    beliefs = tuple(learn(letters, part) for part in parts)
    size = (len(letters), len(letters.level_depths))
    engagement, full_price = np.zeros(size), np.zeros(size)
    targets = {AS_SENT: letters.shares[letters.stratum]}
    for place, name in enumerate(letters.level_names):
        targets[name] = np.tile(np.eye(size[1])[place], (size[0], 1))
    targets |= {name: np.zeros(size) for name in POLICIES}
    for part, belief in zip(parts, beliefs, strict=True):
        for band, rows in _bands(letters, part.judged):
            engagement[rows] = belief.engagement[band].rates_of(belief.score[rows], letters.level_depths)
            full_price[rows] = belief.basket.expected_full_price(belief.context[rows], letters.level_depths)
            for name, chosen in _decided(letters, rows, belief, band, revenue_weight=revenue_weight, seed=seed):
                targets[name][rows] = chosen
    return Trial(
        letters=letters,
        revenue_weight=revenue_weight,
        folds=parts,
        beliefs=beliefs,
        engagement=engagement,
        full_price=full_price,
        targets=targets,
    )


def folds(letters: Letters) -> tuple[Fold, ...]:
    """Each wave judged by what the others taught; a lone wave is cut in two by a hash of the customer's id."""
    if len(letters.waves) > 1:
        return tuple(Fold(f"wave {name}", letters.wave != name, letters.wave == name) for name in letters.waves)
    first = np.array([sha256(str(key).encode()).digest()[0] < 128 for key in letters.ids.tolist()])
    return (Fold("first half", ~first, first), Fold("second half", first, ~first))


def learn(letters: Letters, part: Fold) -> FoldBelief:
    """Loan sizes of the takers go into the basket model, letters and takers per level and score into engagement."""
    takers = part.learned & letters.took
    if takers.sum() < 2:
        found = f"{takers.sum()} takers to learn from for {part.name}"
        raise InputError("column tookup", found=found, expected="at least two")
    context = scaled(letters.features, by=letters.features[part.learned])
    basket = disco.BasketModel(encoding=disco.SmoothSpline())
    sent = np.asarray(letters.level_depths)[letters.level]
    score = take_up_scores(letters, part, context)
    bins = ScoreBins.of(score[part.learned], count=SCORE_BINS)

    def counted(rows: np.ndarray) -> disco.EngagementCounts:
        return disco.EngagementCounts.of(sent[rows], letters.took[rows], score=score[rows], bins=bins)

    engagement = {band: disco.Engagement(counts=counted(rows)) for band, rows in _bands(letters, part.learned)}
    other_waves = not set(letters.wave[part.learned]) & set(letters.wave[part.judged])
    movement = {
        band: Movement.of_engagement(
            engagement[band], [counted(rows[letters.wave[rows] == wave]) for wave in np.unique(letters.wave[rows])]
        )
        if other_waves
        else None
        for band, rows in _bands(letters, part.learned)
    }
    return FoldBelief(
        basket=basket.update(context[takers], letters.depth[takers], letters.loan[takers]),
        engagement=engagement,
        movement=movement,
        context=context,
        score=score,
    )


def take_up_scores(letters: Letters, part: Fold, context: np.ndarray) -> np.ndarray:
    """(n,) log odds of take-up by what is known of the person, up to a constant: logistic regression.

    A learned letter is scored by a regression on the other four fifths of them. Its own outcome has no part in its
    score, else the scores would seem to tell more than they do. Scores are centred in every stratum: what is known of
    people changes from wave to wave (incomes are unknown in the first), which does not make them other people.
    """
    inputs = np.column_stack([context, letters.depth])
    fifth = fifths(letters)

    def fitted(rows: np.ndarray) -> np.ndarray:
        if letters.took[rows].all() or not letters.took[rows].any():
            return np.zeros(len(letters))
        model = LogisticRegression(max_iter=1000).fit(inputs[rows], letters.took[rows])
        return np.asarray(context @ model.coef_[0, :-1])

    score = fitted(part.learned)
    for each in range(5):
        rows = part.learned & (fifth == each)
        score[rows] = fitted(part.learned & (fifth != each))[rows]
    return score - (np.bincount(letters.stratum, weights=score) / np.bincount(letters.stratum))[letters.stratum]


def fifths(letters: Letters) -> np.ndarray:
    """(n,) which fifth a letter is in, by a hash of the customer's id."""
    return np.array([sha256(f"score {key}".encode()).digest()[0] % 5 for key in letters.ids.tolist()])


def scaled(features: np.ndarray, *, by: np.ndarray) -> np.ndarray:
    """Standardised: sign(x)·ln(1 + |x| / median |x|), centred by its median, over its spread in the rows `by`.

    Heavy tails bend to a logarithm, unknown values become 0 (the middle), and everything ends at ±4.
    """
    out = np.zeros_like(features)
    for place, column in enumerate(by.T):
        known = column[~np.isnan(column)]
        unit = 1 / np.median(np.abs(known[known != 0])) if (known != 0).any() else 1.0
        curved = np.sign(known) * np.log1p(np.abs(known) * unit)
        if not curved.size:
            continue
        spread = max(np.subtract(*np.quantile(curved, [0.75, 0.25])) / 1.349, curved.std() / 2)
        if spread > 1e-9:
            values = features[:, place]
            out[:, place] = (np.sign(values) * np.log1p(np.abs(values) * unit) - np.median(curved)) / spread
    return np.nan_to_num(out).clip(-CONTEXT_LIMIT, CONTEXT_LIMIT)


def _bands(letters: Letters, among: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for band in np.unique(letters.risk):
        yield str(band), np.flatnonzero(among & (letters.risk == band))


def _decided(
    letters: Letters, rows: np.ndarray, belief: FoldBelief, band: str, *, revenue_weight: float, seed: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Policies that send the same letters as the experiment, as many per level and band, to other customers."""
    depths = letters.level_depths
    caps = np.bincount(letters.level[rows], minlength=len(depths)).tolist()
    audience = disco.Audience(
        ids=letters.ids[rows],
        context=belief.context[rows],
        known=np.ones(rows.size, bool),
        score=belief.score[rows],
    )
    both = disco.Belief(basket=belief.basket, engagement=belief.engagement[band])
    offer = disco.Offer(depths=depths, caps=tuple(caps), revenue_weight=revenue_weight)
    name = f"loan offers, {band}"
    greedy = disco.decide(audience, belief=both, offer=offer, policy=disco.Greedy(), campaign=name, seed=seed)
    yield GREEDY, _certain(greedy.choice, len(depths))
    law = decision_propensities(
        audience, belief=both, offer=offer, policy=disco.Thompson(), campaign=name, seed=seed, draws=100
    )
    yield THOMPSON, law.frequencies()[:, :-1]  # the last column is "no letter"
    # a goal other than DISCO's objective needs only other values: here expected loans, whatever the price
    take_up = belief.engagement[band].rates_of(belief.score[rows], depths)
    loans = belief.basket.expected_full_price(audience.context, depths) * take_up
    yield MOST_LOANS, _certain(disco.allocate(loans, caps, depths=depths, ids=audience.ids).choice, len(depths))


def _certain(choice: np.ndarray, levels: int) -> np.ndarray:
    """A decision as probabilities: 1 at the level chosen, 0 everywhere for no letter (−1)."""
    return np.vstack([np.eye(levels), np.zeros(levels)])[choice]


# ---- what would a policy have been worth? --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A policy's value per letter."""

    value: OffPolicy  # by three estimators: IPS, SNIPS, DR
    gain: Estimate  # compared with the offers as sent
    predicted_gain: float  # by the policy's own belief


def judge(trial: Trial, target: str, figure: str, *, rows: np.ndarray | None = None) -> Judged:
    """IPS, SNIPS and DR of a policy with the propensities of the strata, on all letters or some."""
    letters = trial.letters
    kept = np.arange(len(letters)) if rows is None else np.flatnonzero(rows)
    plan, sent, level = trial.targets[target][kept], letters.shares[letters.stratum[kept]], letters.level[kept]
    figures, belief = trial.observed(figure)[kept], trial.predicted(figure)[kept]
    at, customers = (np.arange(kept.size), level), np.unique(letters.ids[kept], return_inverse=True)[1]
    value = off_policy(
        figures,
        propensity=sent[at],
        target=target_probabilities(plan, sent, level),
        predicted_logged=belief[at],
        predicted_target=(plan * belief).sum(axis=1),
        customers=customers,
    )
    terms = gain_terms(figures, level, plan=plan, against=sent, sent=sent, belief=belief)
    return Judged(
        value=value,
        gain=mean_estimate(terms, customers=customers),
        predicted_gain=float(((plan - sent) * belief).sum(axis=1).mean()),
    )


def gain_terms(
    figures: np.ndarray,
    level: np.ndarray,
    *,
    plan: np.ndarray,
    against: np.ndarray,
    sent: np.ndarray,
    belief: np.ndarray,
) -> np.ndarray:
    """Doubly robust terms of one plan minus another, row by row, so that what both share cancels."""
    at = (np.arange(level.size), level)
    weight = (plan[at] - against[at]) / sent[at]
    return ((plan - against) * belief).sum(axis=1) + weight * (figures - belief[at])


def between(
    trial: Trial, figure: str, *, high: int, low: int, rows: np.ndarray | None = None
) -> tuple[Estimate, float]:
    """Everybody at one level minus everybody at another: as estimated, and as the beliefs predicted."""
    letters, kept = trial.letters, slice(None) if rows is None else np.flatnonzero(rows)
    belief = trial.predicted(figure)[kept]
    plan, against = (trial.targets[letters.level_names[place]][kept] for place in (high, low))
    terms = gain_terms(
        trial.observed(figure)[kept],
        letters.level[kept],
        plan=plan,
        against=against,
        sent=letters.shares[letters.stratum[kept]],
        belief=belief,
    )
    return mean_estimate(terms), float((belief[:, high] - belief[:, low]).mean())


def steps(trial: Trial, figure: str) -> dict[str, Estimate]:
    """Each level compared with the next shallower one, and the deepest with the shallowest."""
    names, deepest = trial.letters.level_names, len(trial.letters.level_depths) - 1
    pairs = (*((place, place + 1) for place in range(deepest)), (0, deepest))
    return {f"{names[high]} vs {names[low]}": between(trial, figure, high=high, low=low)[0] for low, high in pairs}


def slope(trial: Trial, figure: str, *, pooled: bool = False) -> Estimate:
    """Rise per unit of depth: least squares with one constant per stratum, or one for all letters; errors robust."""
    groups = np.zeros_like(trial.letters.stratum) if pooled else trial.letters.stratum
    rows = np.bincount(groups)
    depth, y = (
        v - (np.bincount(groups, weights=v) / rows)[groups] for v in (trial.letters.depth, trial.observed(figure))
    )
    return ratio_estimate(depth * y, depth**2)


def pooled_curve(trial: Trial, figure: str) -> list[float]:
    """The mean per level over all letters: what one sees who forgets that bands got different depths."""
    figures, level = trial.observed(figure), trial.letters.level
    return [float(figures[level == place].mean()) for place in range(len(trial.letters.level_depths))]
