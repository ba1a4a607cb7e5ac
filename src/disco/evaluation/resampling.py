"""Which rows of a log are presented, and in which order: uniform subsamples of skewed logs, bootstrap by customer."""

from typing import Literal

import numpy as np

from disco.evaluation.log import RandomLog
from disco.records.arrays import Integers
from disco.records.errors import InputError
from disco.records.identity import name_key

Skew = Literal["resample", "weight"]


def generator(*names: object) -> np.random.Generator:
    """Random numbers that belong to these names alone."""
    return np.random.Generator(np.random.Philox(key=name_key(*names)))


def presented_rows(log: RandomLog, *, skew: Skew, seed: int, repeat: int) -> Integers:
    """Rows in time order. "resample": a row is kept with probability min(p)/p, so that every depth is equally likely
    for every customer and the customers stay the same population; "weight": all rows."""
    if skew not in ("resample", "weight"):
        raise InputError("skew", found=repr(skew), expected="'resample' or 'weight'")
    if skew == "weight" or log.is_uniform:
        return np.arange(len(log))
    keep = log.propensity.min() / log.propensity
    return np.flatnonzero(generator("uniform subsample", seed, repeat).random(len(log)) < keep)


def bootstrap_rows(log: RandomLog, rows: Integers, *, seed: int, repeat: int) -> Integers:
    """As many customers as there are, drawn with replacement, each with all its rows; in time order."""
    owner = np.unique(log.customer[rows], return_inverse=True)[1]
    count = int(owner.max()) + 1
    times = np.bincount(generator("bootstrap", seed, repeat).integers(0, count, count), minlength=count)
    return np.repeat(rows, times[owner])
