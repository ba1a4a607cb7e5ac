"""Two numbers of a customer's own habits beside the learned units of the context: codes used, and the usual basket.

A network needs some thousand customers before it knows better than arithmetic. Its features contain the arithmetic,

    r = ln((codes redeemed + 1) / (codes received + 6)),   b = ln of the mean basket, as the network scales it,

so both become units of the context: straight lines through all layers, without anything new in the network's file, its
kernel or its centring. What they are worth is left to the data. The basket model weighs b and r as it weighs every
number of a context. The engagement score becomes a mixture of the learned head h and of r, whose weights are fitted to
codes of the customers kept out of training, with the geometric mean of both as their prior; without a learned head it
is r alone.
"""

from dataclasses import replace

import numpy as np

from disco.features.embedding import Embedding, layers_of
from disco.features.kernel import INPUT_LIMIT
from disco.features.training_rows import CodeRows, RawRows
from disco.records.arrays import Matrix, Vector

RECEIVED, REDEEMED, RATE = "codes_received_365d", "codes_redeemed_365d", "redemption_rate_365d"
BASKET = "basket_mean_365d"
UNITS = 2
FEW_ROWS = 20_000  # training orders; with more, learned units know the habits, and two more numbers only cost time
_USED_BEFORE, _SENT_BEFORE = 1.0, 6.0  # a customer of whom nothing is known has used one of six codes
_PRIOR = (0.5, 0.5)  # of the weights of h and r
_PRIOR_SD = 0.1
_LEAST_SD = 1e-6
_NEWTON_STEPS = 20


def has_habits(names: tuple[str, ...]) -> bool:
    """Whether the features tell both habits.

    >>> has_habits(("orders_365d", "basket_mean_365d"))
    False
    """
    return {RECEIVED, REDEEMED, RATE, BASKET} <= set(names)


def with_habits(
    embedding: Embedding, rows: RawRows, learned: Vector | None, codes: CodeRows | None
) -> tuple[Embedding, Vector | None]:
    """The embedding with two more units, and the weights of its engagement score, constant first.

    rows: of training, by which the units are standardised. learned: the weights of the score h, and codes: those by
    which it is mixed with r; None: there is no h. The weights are None where r is the same for everybody, too.
    """
    wider = _with_lines(embedding, _lines(embedding, rows), rows)
    habitual = np.zeros(1 + wider.dimensions)
    if wider.inverse_sd[-UNITS]:
        habitual[-UNITS] = 1 / wider.inverse_sd[-UNITS]
    if learned is None or codes is None:
        return wider, habitual if habitual.any() else None
    learned = np.concatenate((learned, np.zeros(UNITS)))
    if not habitual.any():  # no codes before: the learned score keeps its scale
        return wider, learned
    held = codes.rows.validation
    context = wider.context(held.features)
    known, usual = mixture(np.column_stack((context @ learned[1:], context @ habitual[1:])), held, codes.constants)
    return wider, known * learned + usual * habitual


def _lines(embedding: Embedding, rows: RawRows) -> Matrix:
    """(UNITS, features) of r and b as straight lines over the scaled inputs; r is fitted to the training rows."""
    names, inputs = embedding.feature_names, embedding.scaling.apply(rows.features)
    received, redeemed = (np.nan_to_num(rows.features[:, names.index(name)]) for name in (RECEIVED, REDEEMED))
    target = np.log((redeemed + _USED_BEFORE) / (received + _SENT_BEFORE))
    places = [names.index(name) for name in (RECEIVED, REDEEMED, RATE)]
    lines = np.zeros((UNITS, len(names)))
    design = np.column_stack((np.ones(len(target)), inputs[:, places]))
    if target.std() > _LEAST_SD:
        lines[0, places] = np.linalg.lstsq(design, target, rcond=None)[0][1:]
    lines[1, names.index(BASKET)] = 1.0 if embedding.scaling.spread[names.index(BASKET)] else 0.0
    return lines


def _with_lines(embedding: Embedding, lines: Matrix, rows: RawRows) -> Embedding:
    """A line is one more unit in every layer, lifted above 0, where the activation is straight."""
    lift = INPUT_LIMIT * np.abs(lines).sum(axis=1) + 1.0
    packed: list[Vector] = []
    layers = list(layers_of(embedding.weights, embedding.sizes))
    for number, (bias, matrix) in enumerate(layers):
        first = number == 0
        more = lines.T if first else np.concatenate((np.zeros((len(matrix), UNITS)), np.eye(UNITS)))
        below = matrix if first else np.concatenate((matrix, np.zeros((UNITS, matrix.shape[1]))))
        packed += [np.concatenate((bias, lift if first else np.zeros(UNITS))), np.hstack((below, more)).ravel()]
    inputs = embedding.scaling.apply(rows.features) @ lines.T + lift
    sd = inputs.std(axis=0)
    alive = sd > _LEAST_SD
    nothing = np.zeros(UNITS)
    return replace(
        embedding,
        sizes=(embedding.sizes[0], *(size + UNITS for size in embedding.sizes[1:])),
        weights=np.concatenate(packed),
        mean=np.concatenate((embedding.mean, inputs.mean(axis=0))),
        inverse_sd=np.concatenate((embedding.inverse_sd, np.where(alive, 1 / np.where(alive, sd, 1.0), 0.0))),
        level=np.concatenate((embedding.level, nothing)),
        slope=np.concatenate((embedding.slope, nothing)),
        habits=UNITS,
    )


def mixture(scores: Matrix, held: RawRows, constants: Vector) -> tuple[float, float]:
    """The weights of both scores: the mode of a logistic model of codes, with a constant per campaign.

    scores: (codes, 2) h and r of those who received them. held: codes of customers who were not trained on, so that
    neither score has seen them. constants: (campaigns,) about where the constants lie.
    """
    if not len(held.target):
        return _PRIOR
    campaigns = np.zeros((len(held.target), constants.size))
    campaigns[np.arange(len(held.target)), held.campaign] = 1.0
    design = np.column_stack((scores, held.depth - held.depth.mean(), campaigns))
    centre = np.concatenate((_PRIOR, [0.0], constants))
    precision = np.concatenate((np.full(2, _PRIOR_SD**-2), [1e-2], np.full(constants.size, 0.25)))
    found = centre.copy()
    for _ in range(_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (held.target - chance) - precision * (found - centre)
        curve = (design * (chance * (1 - chance))[:, None]).T @ design + np.diag(precision)
        step = np.linalg.solve(curve, slope)
        found = found + step
        if np.abs(step).max() < 1e-9:
            break
    return max(float(found[0]), 0.0), max(float(found[1]), 0.0)
