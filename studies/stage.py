"""Where a bandit plays: a population with known truth, and the log of earlier campaigns to start from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from disco.evaluation.log import RandomLog, random_log
from disco.evaluation.passes import generator
from disco.features import ContextNetwork
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.errors import InputError
from disco.retailer import Retailer, RetailerSettings
from studies.cache import load_arrays, save_arrays
from studies.environment import PAST_CAMPAIGNS, PLAYED_CAMPAIGN, CampaignLog, Environment, StudyShop
from studies.readings import DEPTH_SCALE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Law:
    """How customers answer codes: E[ln F] and P(purchase), each (customers, depths); ln F has sd `residual_sd`."""

    depths: tuple[float, ...]
    log_full_price: Matrix
    purchase_probability: Matrix
    residual_sd: float

    def __post_init__(self) -> None:
        expected = (len(self.log_full_price), len(self.depths))
        if not self.log_full_price.shape == self.purchase_probability.shape == expected:
            shapes = f"{self.log_full_price.shape} and {self.purchase_probability.shape} for {len(self.depths)} depths"
            raise InputError("law", found=shapes, expected="two tables of customers × depths")

    @property
    def expected_full_price(self) -> Matrix:
        """E[F | purchase] = exp(E[ln F] + sd²/2), money."""
        return np.asarray(np.exp(self.log_full_price + self.residual_sd**2 / 2))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Past:
    """An earlier campaign, one row per code in random order: full_price is NaN where nothing was bought."""

    context: Matrix
    depth: Vector
    full_price: Vector

    def first(self, codes: int) -> "Past":
        """Its first codes."""
        if codes > self.depth.size:
            raise InputError("start", found=f"{codes:,} codes", expected=f"at most the {self.depth.size:,} of the past")
        return Past(context=self.context[:codes], depth=self.depth[:codes], full_price=self.full_price[:codes])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """A population: context (n, d1) as the system sees it, the law by which it answers, and the past campaign."""

    name: str
    seed: int
    context: Matrix
    law: Law
    past: Past
    depth_scale: float

    def __post_init__(self) -> None:
        if len(self.context) != len(self.law.log_full_price):
            found = f"{len(self.context)} contexts, {len(self.law.log_full_price)} customers in the law"
            raise InputError("stage", found=found, expected="one context per customer")

    @property
    def key(self) -> str:
        """A hash of everything: equal keys mean equal populations."""
        digest = sha256(repr((self.name, self.seed, self.depth_scale, self.law.depths, self.law.residual_sd)).encode())
        for array in self._arrays().values():
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:24]

    def with_past(self, past: Past) -> "Stage":
        return replace(self, past=past)

    def _arrays(self) -> dict[str, Matrix]:
        return {
            "context": self.context,
            "log_full_price": self.law.log_full_price,
            "purchase_probability": self.law.purchase_probability,
            "past_context": self.past.context,
            "past_depth": self.past.depth,
            "past_full_price": self.past.full_price,
        }

    def save(self, folder: Path) -> Path:
        """Write it under its key, once."""
        path = folder / f"{self.key}.npz"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            settings = np.array([self.name, repr(self.seed), repr(self.depth_scale), repr(self.law.residual_sd)])
            save_arrays(path, {"settings": settings, "depths": np.asarray(self.law.depths), **self._arrays()})
        return path

    @classmethod
    def load(cls, path: Path) -> "Stage":
        stored = load_arrays(path)
        name, seed, depth_scale, residual_sd = stored["settings"].tolist()
        stage = cls(
            name=name,
            seed=int(seed),
            context=stored["context"],
            law=Law(
                depths=tuple(stored["depths"].tolist()),
                log_full_price=stored["log_full_price"],
                purchase_probability=stored["purchase_probability"],
                residual_sd=float(residual_sd),
            ),
            past=Past(
                context=stored["past_context"],
                depth=stored["past_depth"],
                full_price=stored["past_full_price"],
            ),
            depth_scale=float(depth_scale),
        )
        if stage.key != path.stem:
            raise InputError(str(path), found="other contents than its name says", expected="the file as written")
        return stage


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """The customers of one batch with their chance numbers, which no decision changes: rows of the population, one
    uniform each for the purchase and one normal for the basket, shared by all depths."""

    rows: Integers
    decision: Vector
    residual: Vector

    @classmethod
    def drawn(cls, stage: Stage, *, size: int, repeat: int, batch: int) -> "Crowd":
        """Independent draws from the population: the same crowd for every policy, encoding and start."""
        draw = generator("bandit crowd", stage.seed, repeat, batch)
        rows = draw.integers(0, len(stage.context), size)
        return cls(rows, draw.random(size), draw.standard_normal(size))

    def answers(self, law: Law, choice: Integers) -> Vector:
        """(n,) full price at the chosen depths, money; NaN where no code was given or nothing bought."""
        full_price = np.full(choice.size, np.nan)
        given = np.flatnonzero(choice >= 0)
        rows, columns = self.rows[given], choice[given]
        buys = self.decision[given] < law.purchase_probability[rows, columns]
        log_full_price = law.log_full_price[rows, columns] + law.residual_sd * self.residual[given]
        full_price[given[buys]] = np.exp(log_full_price[buys])
        return full_price


def random_log_of(stage: Stage, *, rows: int) -> RandomLog:
    """A log of `rows` customers drawn from the population, each at a depth drawn uniformly: what replay needs."""
    draw = generator("bandit log", stage.seed)
    crowd = Crowd.drawn(stage, size=rows, repeat=-1, batch=0)
    choice = draw.integers(0, len(stage.law.depths), rows)
    depth = np.asarray(stage.law.depths)[choice]
    return random_log(stage.context[crowd.rows], depth, crowd.answers(stage.law, choice), check_balance=False)


# ---- from a simulated shop to a stage --------------------------------------------------------------------------------


def stage_of(environment: Environment) -> Stage:
    """Campaigns A and B are the past; campaign C is played, by customers with a purchase in the year before."""
    return _stage(f"environment {environment.seed}", environment.retailer, environment.campaigns)


def stage_of_shop(shop: StudyShop, network: ContextNetwork) -> Stage:
    """A shop after campaigns A, B and C, its customers as this network sees them."""
    settings = shop.retailer.settings
    logs = {run.campaign.name: run.log(network) for run in shop.campaigns}
    return _stage(f"{settings.curves.shape} shop {settings.seed}", settings, logs)


def _stage(name: str, settings: RetailerSettings, logs: Mapping[str, CampaignLog]) -> Stage:
    played = logs[PLAYED_CAMPAIGN]
    campaign, known = played.campaign, played.known
    truth = Retailer.simulate(settings).truth(played.ids[known], campaign.depths, channel=str(campaign.channel))
    residual_sd = settings.baskets.campaign_residual_sd
    law = Law(
        depths=campaign.depths,
        log_full_price=np.log(truth.expected_full_price) - residual_sd**2 / 2,
        purchase_probability=truth.purchase_probability,
        residual_sd=residual_sd,
    )
    past = _past([logs[each] for each in PAST_CAMPAIGNS], seed=settings.seed)
    return Stage(
        name=name, seed=settings.seed, context=played.context[known], law=law, past=past, depth_scale=DEPTH_SCALE
    )


def _past(logs: list[CampaignLog], *, seed: int) -> Past:
    """All codes shuffled together: any first part is a fair sample of both campaigns."""
    context, depth, full_price = (
        np.concatenate([getattr(log, name)[log.known] for log in logs]) for name in ("context", "depth", "full_price")
    )
    order = generator("bandit past", seed).permutation(depth.size)
    return Past(context=context[order], depth=depth[order], full_price=full_price[order])
