"""What codes added in a simulated year, as today's read-outs and as a lasting holdout see it, beside the truth.

    ./run study added                     runs what is missing, then prints the table
    ./run study added --seeds 201-205     only these shops
    ./run study added --print             only prints what is there

Twelve campaigns of 28 days, one every 30. A tenth of the customers is held out of all of them. Of the others a tenth is
held out of each campaign anew, as campaigns have it without a lasting holdout, and three quarters of the rest get a
code of 10%, 20% or 30%, all at random. So no network is trained: whom codes go to is not the question. Each law of
`retailer/laws.py` is a world, and each world has the same shops. A run is one JSON file, so an interrupted study
continues where it stopped.

The truth is known per customer (`Retailer.added`): what happened less what would have, with the same random numbers.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.entrypoints.cli.output import show_error
from disco.evaluation.added import added
from disco.evaluation.estimates import Sample, compare_samples, estimate_around
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.errors import DiscoError
from disco.records.estimate import LEVEL, Estimate
from disco.records.files import written_whole
from disco.records.identity import secret_uniforms
from disco.retailer import Retailer, RetailerSettings
from studies.cache import source_version
from studies.worlds import seeds_of

OUT = Path("out/study/added")
LAWS = ("ordinary", "anyway", "waiting", "reference")
FIGURES = ("revenue", "markdown", "margin")
MARGIN = 0.45
DEPTHS = (0.1, 0.2, 0.3)
CAMPAIGNS, EVERY_DAYS, LEAD_DAYS = 12, 30, 2
HELD, HELD_ANEW, CODED = 0.1, 0.1, 0.75
_YEAR, _SEASON = timedelta(days=365), timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one way of reading says about a figure of all customers who were not held out."""

    value: float
    lower: float
    upper: float

    @classmethod
    def of(cls, found: Estimate) -> "Reading":
        lower, upper = found.ends or (-np.inf, np.inf)
        return cls(value=found.value, lower=lower, upper=upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedYear:
    """One shop under one law."""

    law: str
    seed: int
    customers: int
    source: str  # of the package and of this file
    seconds: float
    truth: dict[str, float]
    lasting: dict[str, Reading]
    by_campaign: dict[str, Reading]  # today's read-outs, added up
    held_cost: float  # revenue that the people held out would have brought, at the others' rate

    def to_json(self) -> str:
        return json.dumps(self, default=lambda one: {name: getattr(one, name) for name in one.__dataclass_fields__})

    @classmethod
    def from_json(cls, text: str) -> "AddedYear":
        content: dict[str, Any] = json.loads(text)
        readings = {
            name: {figure: Reading(**one) for figure, one in content[name].items()}
            for name in ("lasting", "by_campaign")
        }
        return cls(**{**content, **readings})


# ---- a year ----


def play(law: str, *, seed: int, customers: int) -> AddedYear:
    """Simulate a year and read it in both ways."""
    started, settings = time.process_time(), RetailerSettings(customers=customers, seed=seed).in_world(law)
    shop, history = Retailer.simulate(settings), _history(settings)
    ids = pa.array([f"c{number:07d}" for number in range(customers)])
    held = secret_uniforms(ids, seed.to_bytes(32, "big"), purpose="holdout") < HELD
    draw, began, readings = np.random.default_rng(seed), settings.calendar.history_end, []
    for number in range(CAMPAIGNS):
        opens, before = shop.today + timedelta(days=LEAD_DAYS), _Orders.of(history, shop)
        anew = ~held & (draw.random(customers) < HELD_ANEW)
        coded = ~held & ~anew & (draw.random(customers) < CODED)
        depth = draw.choice(DEPTHS, customers)
        shop = shop.respond(_codes(ids, coded, depth, opens=opens, number=number)).shop
        now = _Orders.of(history, shop)
        spent = before.sums("revenue", opens - _YEAR, opens)[:, None]
        groups = ~held & ~anew, anew
        readings.append({name: _campaign(now.sums(name, opens, shop.today), groups, spent) for name in FIGURES})
    orders, truth = _Orders.of(history, shop), shop.added()
    known = np.column_stack(
        [
            orders.sums("revenue", began - _YEAR, began),
            orders.sums("orders", began - _YEAR, began),
            orders.sums("revenue", began - _SEASON, began),
        ]
    )
    exact = {"revenue": truth.revenue, "markdown": truth.markdown, "margin": truth.margin(MARGIN)}
    found = {name: added(orders.sums(name, began, shop.today), held, before=known) for name in FIGURES}
    return AddedYear(
        law=law,
        seed=seed,
        customers=customers,
        source=source_version((".", "studies/added.py"))[:12],
        seconds=time.process_time() - started,
        truth={name: float(values[~held].sum()) for name, values in exact.items()},
        lasting={name: Reading.of(one.total) for name, one in found.items()},
        by_campaign={name: _together([one[name] for one in readings]) for name in FIGURES},
        held_cost=float(truth.revenue[~held].mean() * held.sum()),
    )


def _history(settings: RetailerSettings) -> pa.Table:
    """Orders of the history; the same under every law."""
    return Retailer.simulate(settings).tables()["orders"]


@dataclass(frozen=True, slots=True, eq=False)
class _Orders:
    """All orders so far."""

    who: Any
    at: Any  # datetime64[us]
    values: dict[str, Vector]
    customers: int

    @classmethod
    def of(cls, history: pa.Table, shop: Retailer) -> "_Orders":
        orders = pa.concat_tables([history, shop.since_history["orders"]])
        paid, full_price = orders["paid"].to_numpy(), orders["full_price"].to_numpy()
        values = {
            "revenue": paid,
            "markdown": full_price - paid,
            "margin": paid - (1 - MARGIN) * full_price,
            "orders": np.ones(paid.size),
        }
        who = pc.cast(pc.utf8_slice_codeunits(orders["customer_id"], 1), pa.int64()).to_numpy()
        return cls(who, orders["ordered_at"].to_numpy(), values, shop.settings.customers)

    def sums(self, name: str, start: date, end: date) -> Vector:
        rows = (self.at >= np.datetime64(start)) & (self.at < np.datetime64(end))
        return np.bincount(self.who[rows], weights=self.values[name][rows], minlength=self.customers).astype(np.float64)


def _codes(ids: pa.Array, coded: Flags, depth: Vector, *, opens: date, number: int) -> pa.Table:
    rows = pa.array(np.flatnonzero(coded))
    sent = datetime.combine(opens, time_of_day(8))
    ends = datetime.combine(opens + timedelta(days=EVERY_DAYS - LEAD_DAYS), time_of_day())
    names = ids.take(rows)
    return pa.table(
        {
            "code_id": pc.binary_join_element_wise(f"k{number:02d}", names, "-"),
            "customer_id": names,
            "campaign_id": [f"c{number:02d}"] * len(names),
            "depth": depth[coded],
            "sent_at": pa.array([sent] * len(names), pa.timestamp("us")),
            "expires_at": pa.array([ends] * len(names), pa.timestamp("us")),
        }
    )


def _campaign(figures: Vector, groups: tuple[Flags, Flags], spent: Matrix) -> Estimate:
    """As the results of a campaign compare all revenue with its own holdout, for all of the first group."""
    samples = [Sample(figures[rows], before=spent[rows]) for rows in groups]
    plain, adjusted = compare_samples(*samples, level=LEVEL)
    found = (plain if adjusted is None else adjusted.comparison).difference
    people = int(groups[0].sum())
    return estimate_around(people * found.value, people * (found.standard_error or 0.0), level=LEVEL)


def _together(campaigns: Sequence[Estimate]) -> Reading:
    """As the results of all campaigns add them up: as if they were independent."""
    value = sum(one.value for one in campaigns)
    error = float(np.sqrt(sum((one.standard_error or 0.0) ** 2 for one in campaigns)))
    return Reading.of(estimate_around(value, error, level=LEVEL))


# ---- the table ----


def table(years: Sequence[AddedYear]) -> str:
    """By law and figure: the truth, and how either reading stands to it."""
    heads = ("law", "figure", "years", "truth", "holdout: inside", "error", "half width", "campaigns: inside", "error")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for law in LAWS:
        here = [one for one in years if one.law == law]
        for name in FIGURES if here else ():
            truth = np.array([one.truth[name] for one in here])
            lines.append(f"| {' | '.join([law, name, str(len(here)), f'{truth.mean():,.0f}', *_cells(here, name)])} |")
    return "\n".join(lines)


def _cells(years: Sequence[AddedYear], name: str) -> Iterator[str]:
    """Errors are those of the mean over all years, as a share of the true revenue."""
    truth = np.array([one.truth[name] for one in years])
    unit = abs(np.mean([one.truth["revenue"] for one in years]))
    lasting, today = ([getattr(one, way)[name] for one in years] for way in ("lasting", "by_campaign"))
    for stated in (lasting, today):
        inside = sum(one.lower <= exact <= one.upper for one, exact in zip(stated, truth, strict=True))
        yield f"{inside} of {len(years)}"
        off = (np.array([one.value for one in stated]) - truth) / unit
        half = 1.96 * off.std(ddof=1) / np.sqrt(off.size) if off.size > 1 else np.nan
        yield f"{off.mean():+.1%} ± {half:.1%}"
        if stated is lasting:
            yield f"{np.mean([(one.upper - one.lower) / 2 for one in stated]) / unit:.1%}"


# ---- the command ----


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./run study added", description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=seeds_of, default="201-220", help="of the shops (%(default)s)")
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=LAWS, help="only these")
    parser.add_argument("--customers", type=int, default=6000, help="of each shop (%(default)s)")
    parser.add_argument("--print", action="store_true", dest="only_print", help="run nothing")
    parser.add_argument("--out", "-o", type=Path, default=OUT, help="folder of what is kept (%(default)s)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code: 0 done, 1 refused, 130 interrupted."""
    asked = _parser().parse_args(arguments)
    try:
        years = list(_years(asked))
    except DiscoError as error:
        show_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Finished years are kept: the same command continues from there.\n")
        return 130
    spent = sum(one.seconds for one in years)
    sys.stdout.write(f"{len(years):,} years of {asked.customers:,} customers, {spent / 60:.1f} processor minutes.\n\n")
    sys.stdout.write(table(years) + "\n")
    return 0


def _years(asked: argparse.Namespace) -> Iterator[AddedYear]:
    for seed in asked.seeds:
        for law in asked.laws:
            place = asked.out / f"{law}-{asked.customers}-{seed}.json"
            if place.is_file():
                yield AddedYear.from_json(place.read_text(encoding="utf-8"))
            elif not asked.only_print:
                found = play(law, seed=seed, customers=asked.customers)
                asked.out.mkdir(parents=True, exist_ok=True)
                with written_whole(place) as unfinished:
                    unfinished.write_text(found.to_json() + "\n", encoding="utf-8")
                sys.stderr.write(f"{law} {seed}: {found.seconds:.0f} s\n")
                sys.stderr.flush()
                yield found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
