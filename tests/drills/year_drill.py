"""`./run drill year`: the tutorial's year with several seeds.

Each seed is a simulated shop of its own, in which the blocks of docs/tutorial.md run as printed, but for the seed and
the number of customers. Four things are counted:

    uplift   what deciding earned over the year, pooled, as `disco results` says it
    forecast how often revenue and markdown of decided codes lay inside the plan's 90% intervals, how wide these were,
             and what codes of each depth brought over what was expected of them
    alarms   diagnoses that fail, or ask to be watched, over all campaigns and the tables after the year: none should
    faults   mistakes planted in the tables that `disco check` fails on, or that reading refuses: all should be found

The seeds were written down before any of them was run. A shop is kept in `--keep FOLDER` and not made again while it
is there.
"""

import argparse
import shutil
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from as_printed import blocks, disco_in, run_blocks

from disco.adapters.tables import open_tables
from disco.entrypoints.python import Shop
from disco.features import ContextNetwork, build_features, check_context
from disco.operations.purchases import bought
from disco.operations.results import AllResults
from disco.records.decisions import Arm
from disco.records.diagnosis import CheckUp, Diagnosis, Outcome
from disco.records.errors import DiscoError
from disco.records.estimate import Estimate

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
RETRAINING = "\n## Train the network again"
SIMULATE = "disco simulate --customers 20000 --seed 7 "
EXPLAIN = "disco explain 2026-08 c0000008"
SEEDS = (101, 102, 103, 104, 105, 106, 107, 108, 109, 110)
AFTER = date(2026, 9, 1)  # the day after the last code of the year
READ_OUT = date(2026, 9, 5)
#: Diagnoses that are no alarm about tables: one forecast in ten is outside its interval by chance, and a plan repeats
#: what it said about its model when it was decided.
BESIDE = frozenset({"prediction", "plan"})

Change = Callable[[pa.Table], pa.Table | None]


def make_year(folder: Path, *, seed: int, customers: int) -> None:
    """Run the tutorial up to its retraining in this folder; the shop is FOLDER/shop."""
    page = PAGE.read_text()
    assert page.count(SIMULATE) == 1
    assert RETRAINING in page
    assert page.count(EXPLAIN) == 1
    page = page.replace(EXPLAIN, EXPLAIN.rpartition(" ")[0])  # that customer need not be eligible in another shop
    year, _, _ = page.replace(SIMULATE, f"disco simulate --customers {customers} --seed {seed} ").partition(RETRAINING)
    folder.mkdir(parents=True)
    with disco_in(folder / "bin"):
        run_blocks(blocks(year), folder=folder, path=folder / "bin")


# ---- forecasts ----


@dataclass(frozen=True, slots=True)
class Forecast:
    """One figure of the decided group of a campaign: what its plan forecast, and what it became."""

    expected: float
    lower: float
    upper: float
    actual: float

    @classmethod
    def of(cls, expected: Estimate, actual: float) -> "Forecast":
        assert expected.ends is not None
        return cls(expected.value, *expected.ends, actual)

    @property
    def is_inside(self) -> bool:
        return self.lower <= self.actual <= self.upper

    @property
    def width(self) -> float:
        """Of the 90% interval, relative to the forecast."""
        return (self.upper - self.lower) / self.expected


@dataclass(slots=True)
class DepthTotal:
    """Full price bought with decided codes of one depth, and what the plans expected of them."""

    expected: float = 0.0
    actual: float = 0.0
    square: float = 0.0  # Σ of the squares of what was bought

    def __iadd__(self, other: "DepthTotal") -> "DepthTotal":
        self.expected += other.expected
        self.actual += other.actual
        self.square += other.square
        return self

    @property
    def ratio(self) -> float:
        return self.actual / self.expected

    @property
    def error(self) -> float:
        """Standard error of the ratio: purchases are independent, and their number is random, too."""
        return float(np.sqrt(self.square)) / self.expected

    @property
    def is_near(self) -> bool:
        """Within 15%, or within two standard errors."""
        return abs(self.ratio - 1) <= max(0.15, 2 * self.error)


@dataclass(slots=True)
class YearForecasts:
    """The forecasts of a year, or of several."""

    revenue: list[Forecast] = field(default_factory=list)
    markdown: list[Forecast] = field(default_factory=list)
    depths: dict[float, DepthTotal] = field(default_factory=lambda: defaultdict(DepthTotal))

    def __iadd__(self, other: "YearForecasts") -> "YearForecasts":
        self.revenue += other.revenue
        self.markdown += other.markdown
        for depth, total in other.depths.items():
            self.depths[depth] += total
        return self

    def row(self, name: str, depths: Sequence[float]) -> str:
        """A row of the drill's second table."""
        cells = []
        for figure in (self.revenue, self.markdown):
            inside, width = sum(one.is_inside for one in figure), float(np.mean([one.width for one in figure]))
            cells += [f"{inside} of {len(figure)}", f"{width:.0%}"]
        by_depth = [f"{self.depths[depth].ratio:.2f} ± {self.depths[depth].error:.2f}" for depth in depths]
        return f"| {' | '.join([name, *cells, *by_depth])} |"


def year_forecasts(shop: Shop, found: AllResults) -> YearForecasts:
    """Of every campaign that had a forecast: the plan's, and what the model expected of the codes of each depth."""
    year = YearForecasts()
    for one in found.campaigns:
        group = one.arms.get(Arm.DECIDED)
        if group is None or group.forecast is None:
            continue
        year.revenue.append(Forecast.of(group.forecast.revenue, group.summary.revenue))
        year.markdown.append(Forecast.of(group.forecast.markdown, group.summary.markdown))
        for depth, total in _by_depth(shop, one.campaign).items():
            year.depths[depth] += total
    return year


def _by_depth(shop: Shop, campaign: str) -> Mapping[float, DepthTotal]:
    with shop.store() as store, store.reading() as transaction:
        decisions = transaction.decisions.of(campaign)
        actual = np.nan_to_num(bought(transaction, campaign, decisions))
    expected = np.nan_to_num(decisions["expected_full_price"].to_numpy() * decisions["expected_engagement"].to_numpy())
    depth = decisions["depth"].to_numpy()
    decided = np.asarray(decisions["arm"].to_pylist(), object) == str(Arm.DECIDED)
    on_time = ~np.asarray(decisions["late"].to_numpy(), np.bool_)
    totals = {}
    for each in np.unique(depth[decided & on_time & ~np.isnan(depth)]).tolist():
        rows = decided & on_time & (depth == each)
        totals[each] = DepthTotal(expected[rows].sum(), actual[rows].sum(), (actual[rows] ** 2).sum())
    return totals


def forecast_table(years: Mapping[int, YearForecasts]) -> str:
    """A row per seed and one of all."""
    pooled = YearForecasts()
    for year in years.values():
        pooled += year
    depths = sorted(pooled.depths)
    heads = ["Seed", "Revenue inside", "width", "Markdown inside", "width", *(f"{depth:.0%} off" for depth in depths)]
    rows = [year.row(str(seed), depths) for seed, year in years.items()]
    far = [
        f"  seed {seed}, {depth:.0%} off: actual over expected {year.depths[depth].ratio:.2f} ± "
        f"{year.depths[depth].error:.2f}\n"
        for seed, year in years.items()
        for depth in depths
        if not year.depths[depth].is_near
    ]
    return (
        f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
        + "\n".join([*rows, pooled.row("all", depths)])
        + "\n\nInside: of the plan's 90% intervals, decided codes. Width: of the interval relative to the forecast,\n"
        "mean over campaigns. By depth: actual over expected ± standard error.\n"
        + f"{len(far)} of {len(years) * len(depths)} seeds and depths beyond 15% and two standard errors.\n"
        + "".join(far)
    )


# ---- alarms ----


def alarms(shop: Shop) -> Iterator[tuple[str, Diagnosis]]:
    """(campaign, what is not in order) over all campaigns of a shop in which nothing is wrong; "today" for the shop."""
    for one in shop.campaigns().campaigns:
        for found in shop.check(one.campaign, as_of=READ_OUT).diagnoses:
            if found.outcome in (Outcome.FAILED, Outcome.WATCH) and found.check not in BESIDE:
                yield one.campaign, found
    yield from (("today", found) for found in _wrong(shop.check(as_of=AFTER).diagnoses))


def _wrong(found: "CheckUp | tuple[Diagnosis, ...]") -> list[Diagnosis]:
    return [one for one in found if one.outcome in (Outcome.FAILED, Outcome.WATCH)]


# ---- faults ----


def times(factor: float, *columns: str) -> Change:
    """These columns, as numbers, times a factor."""

    def change(table: pa.Table) -> pa.Table:
        for name in columns:
            scaled = pc.multiply(table[name].cast(pa.float64()), factor)
            table = table.set_column(table.column_names.index(name), name, scaled)
        return table

    return change


def mixed_up(table: pa.Table) -> pa.Table:
    """Every customer's rows under the id of another customer of this table."""
    ids = table["customer_id"].combine_chunks()
    customers = ids.unique()
    others = customers.take(pa.array(np.random.default_rng(0).permutation(len(customers))))
    renamed = others.take(pc.index_in(ids, customers))
    return table.set_column(table.column_names.index("customer_id"), "customer_id", renamed)


def gone(_: pa.Table) -> None:
    """No such table."""


FAULTS: dict[str, dict[str, Change]] = {
    "no table of codes": {"codes": gone},
    "no table of returns": {"returns": gone},
    "no table of site activity": {"site": gone},
    "views 100 times too large": {"site": times(100, "views")},
    "pounds as pence": {"orders": times(100, "full_price", "paid"), "returns": times(100, "value")},
    "ids of orders mixed up": {"orders": mixed_up},
    "ids of site activity mixed up": {"site": mixed_up},
    "ids of codes mixed up": {"codes": mixed_up},
}


@dataclass(frozen=True, slots=True)
class Planted:
    """What became of a fault."""

    found: bool
    how: str


def plant(data: Path, change: dict[str, Change], network: ContextNetwork, *, scratch: Path) -> Planted:
    """Check the tables with a fault in them, as of the day after the year."""
    place = scratch / "data"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(data, place)
    for table, how in change.items():
        file = place / f"{table}.parquet"
        changed = how(pq.read_table(file))
        file.unlink()
        if changed is not None:
            pq.write_table(changed, file)
    try:
        with open_tables(place) as tables, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a table that is gone: that it fails the check is counted
            features = build_features(tables, as_of=AFTER, features=network.catalogue_)
    except DiscoError as error:
        return Planted(True, f"refused: {error}".splitlines()[0])
    failed = [one for one in check_context(network, features) if one.failed]
    return Planted(bool(failed), f"{failed[0].check}: {failed[0].where}, {failed[0].found}" if failed else "not found")


# ---- the drill ----


def uplift_row(seed: int, customers: int, found: AllResults) -> str:
    """A row of the tutorial's table."""
    pooled = found.against_control
    objective, revenue = pooled["objective"].relative, pooled["revenue"].total
    assert objective is not None
    assert objective.ends is not None
    assert revenue.ends is not None
    tested = [one.ab.deciding.decisive.relative for one in found.campaigns if one.ab is not None]
    above = sum(one is not None and one.ends is not None and one.ends[0] > 0 for one in tested)
    low, high = objective.ends
    least, most = revenue.ends
    return (
        f"| {seed} | {customers:,} | {objective.value:+.0%} ({low:+.0%} to {high:+.0%}) "
        f"| +£{revenue.value / 1e3:.0f}k (£{least / 1e3:.0f}k to £{most / 1e3:.0f}k) | {above} of {len(tested)} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run drill year", description=__doc__.splitlines()[0])
    parser.add_argument("--customers", type=int, default=10_000)
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), help="such as 11,23")
    parser.add_argument("--keep", type=Path, help="keep the shops here, and use those that are there")
    asked = parser.parse_args()
    rows, wrong, checks, found, missed = [], [], 0, 0, []
    years: dict[int, YearForecasts] = {}
    with TemporaryDirectory() as scratch:
        keep = asked.keep or Path(scratch)
        for seed in map(int, asked.seeds.split(",")):
            folder, started = keep / f"seed-{seed}", time.monotonic()
            if not (folder / "shop").is_dir():
                make_year(folder, seed=seed, customers=asked.customers)
            shop = Shop.open(folder / "shop")
            results = shop.results(as_of=READ_OUT)
            rows.append(uplift_row(seed, asked.customers, results))
            years[seed] = year_forecasts(shop, results)
            here = list(alarms(shop))
            checks += len(shop.campaigns().campaigns) + 1
            wrong += [f"{one.outcome}: seed {seed}, {name}: {one.check} {one.where}, {one.found}" for name, one in here]
            for name, change in FAULTS.items():
                planted = plant(shop.folder / "data", change, shop.data.network(), scratch=Path(scratch))
                found += planted.found
                missed += [] if planted.found else [f"seed {seed}: {name}"]
                print(f"seed {seed}, {name}: {planted.how}", file=sys.stderr)
            print(f"seed {seed} took {time.monotonic() - started:.0f} s", file=sys.stderr)
    head = "| Seed | Customers | Objective against control (95%) | Revenue (95%) | Campaigns above zero |\n"
    print(f"{head}|---|---|---|---|---|\n" + "\n".join(rows))
    print(f"\n{forecast_table(years)}")
    failed = sum(line.startswith(Outcome.FAILED) for line in wrong)
    print(f"{checks} checks of sound shops: {failed} failed, {len(wrong) - failed} to be watched.")
    print("".join(f"  {line}\n" for line in wrong), end="")
    print(f"{found + len(missed)} planted faults: {found} found.")
    print("".join(f"  not found: {line}\n" for line in missed), end="")
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
