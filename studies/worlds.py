"""How the product fares where the world moves, where shops are small, and how much exploration pays.

    ./run study                                       the parts, and what each would run
    ./run study years --seeds 1-4 --label old         run what is missing, then print the tables
    ./run study years --seeds 1-4 --against old       also the paired differences from the runs of another label
    ./run study years --seeds 1-4 --print             only print what is there
    ./run study added                                 what codes added, by the lasting holdout (`studies/added.py`)

Each part is a list of runs (`studies/year.py`). A run is one JSON file below --out, named by its label and by what
decides it, so an interrupted study continues where it stopped, and parts share the runs that they have in common. A
label names a version of the product; without one it is a hash of the package's source. Seeds 1 to 10 are for choosing,
121 to 128 for judging what was chosen.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from disco.entrypoints.cli.output import show_error
from disco.records.errors import DiscoError
from disco.records.files import written_whole
from disco.retailer.settings import WORLDS, Shape, Tails
from studies.arguments import whole_number, whole_numbers
from studies.cache import source_version
from studies.year import FILLED, SCARCE, CampaignOutcome, Forecast, Outcome, Run, play

OUT = Path("out/study")
SHAPES = (Shape.CONCAVE, Shape.S_SHAPED)
CONTROL = 0.1  # of the customers, in the parts about forecasts
MOVING = ("trend", "season", "fading")
FOUR_YEARS = 48  # campaigns of thirty days
EXPLORATIONS = (0.0, 0.1, 0.3, 1.0)
FORGETTINGS = (1.0, 0.8, None)  # None: as the shop's settings say
_INTERRUPTED = 130

Figures = Callable[[Outcome], float]


@dataclass(frozen=True, slots=True)
class Part:
    """Runs that belong to one question, for a seed and a number of customers (None: those of the part)."""

    about: str
    runs: Callable[[int], Iterable[Run]]
    show: tuple[str, ...]  # names of FIGURES


def _years(seed: int) -> Iterator[Run]:
    for shape in SHAPES:
        yield Run(seed=seed, shape=shape, control=CONTROL)
    for world in MOVING:
        yield Run(seed=seed, world=world, control=CONTROL)


def _whom(seed: int) -> Iterator[Run]:
    for shape, caps in product(SHAPES, (FILLED, SCARCE)):
        yield Run(seed=seed, shape=shape, caps=caps, customers=50_000, decided=1)


def _tails(seed: int) -> Iterator[Run]:
    for tails in Tails:
        yield Run(seed=seed, world="ordinary" if tails is Tails.NORMAL else str(tails), decided=1)


def _small(seed: int) -> Iterator[Run]:
    for customers in (500, 2_000, 8_000):
        yield Run(seed=seed, customers=customers, decided=3)


def _retraining(seed: int) -> Iterator[Run]:
    for every in (0, 3):
        yield Run(seed=seed, decided=FOUR_YEARS, control=CONTROL, retrain_every=every)


def _forgetting(seed: int) -> Iterator[Run]:
    for world in ("ordinary", "fading", "rotating"):
        for forgetting in FORGETTINGS:
            yield Run(seed=seed, world=world, control=CONTROL, forgetting=forgetting)


def _exploration(seed: int) -> Iterator[Run]:
    for customers in (500, 2_000, 8_000, 20_000, 50_000):
        places = product(SHAPES, (FILLED, SCARCE), (2, 0), ("ordinary", "rotating"), EXPLORATIONS)
        for shape, caps, at_random, world, exploration in places:
            yield Run(
                seed=seed,
                shape=shape,
                caps=caps,
                at_random=at_random,
                world=world,
                customers=customers,
                decided=6,
                exploration=exploration,
            )


PARTS: Mapping[str, Part] = {
    "years": Part(
        "forecasts and gains over a year: ordinary, trend, season, fading response",
        _years,
        (
            "gain",
            "revenue inside",
            "revenue |error|",
            "revenue error",
            "revenue width",
            "markdown inside",
            "markdown |error|",
            "markdown error",
            "markdown width",
        ),
    ),
    "whom": Part("one decision after two random campaigns, 50,000 customers", _whom, ("gain", "possible")),
    "tails": Part(
        "the first forecast under four laws of the residual",
        _tails,
        ("markdown error", "markdown inside", "revenue error", "revenue inside"),
    ),
    "small": Part("small shops against a rule of thumb", _small, ("gain", "rule", "gain - rule", "possible")),
    "retraining": Part(
        "four years, with and without a network trained anew after every third campaign",
        _retraining,
        ("gain", "revenue |error|", "revenue error", "revenue inside"),
    ),
    "forgetting": Part(
        "a year in which older campaigns count as much, less, or as was learned",
        _forgetting,
        ("gain", "revenue |error|", "revenue error", "revenue width"),
    ),
    "exploration": Part("the scale of exploration over sizes, shapes, caps and starts", _exploration, ("gain",)),
}


# ---- figures of a run ----


def _mean(figure: Callable[[CampaignOutcome], float]) -> Figures:
    return lambda outcome: float(np.mean([figure(campaign) for campaign in outcome.campaigns]))


def _of_forecasts(name: str, figure: Callable[[Forecast], float]) -> Figures:
    def mean(outcome: Outcome) -> float:
        stated = [getattr(campaign, name) for campaign in outcome.campaigns]
        return float(np.mean([figure(forecast) for forecast in stated if forecast is not None]))

    return mean


#: Each is a mean over the decided campaigns of a run.
FIGURES: Mapping[str, Figures] = {
    "gain": _mean(lambda campaign: campaign.gain),
    "possible": _mean(lambda campaign: campaign.possible),
    "rule": _mean(lambda campaign: campaign.rule),
    "gain - rule": _mean(lambda campaign: campaign.gain - campaign.rule),
    **{
        f"{money} {name}": _of_forecasts(money, figure)
        for money in ("revenue", "markdown")
        for name, figure in (
            ("inside", lambda forecast: float(forecast.is_inside)),
            ("|error|", lambda forecast: abs(forecast.error)),
            ("error", lambda forecast: forecast.error),
            ("width", lambda forecast: forecast.width),
        )
    },
}


@dataclass(frozen=True, slots=True)
class MeanOverSeeds:
    """A mean with its 95% interval over seeds, in per cent."""

    value: float
    half: float  # of the interval; NaN for one seed
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "MeanOverSeeds":
        """
        >>> str(MeanOverSeeds.of([0.1, 0.12, 0.14]))
        '12.0 ± 5.0'
        """
        sample = 100 * np.asarray(values, np.float64)
        count = sample.size
        half = float(student.ppf(0.975, count - 1) * sample.std(ddof=1) / np.sqrt(count)) if count > 1 else np.nan
        return cls(float(sample.mean()), half, count)

    def __str__(self) -> str:
        return f"{self.value:.1f}" + ("" if np.isnan(self.half) else f" ± {self.half:.1f}")


def by_case(outcomes: Iterable[Outcome]) -> dict[Run, dict[int, Outcome]]:
    """Outcomes by case and seed."""
    found: dict[Run, dict[int, Outcome]] = defaultdict(dict)
    for outcome in outcomes:
        found[replace(outcome.run, seed=0)][outcome.run.seed] = outcome
    return found


def table(outcomes: Iterable[Outcome], figures: Sequence[str]) -> str:
    """A row per case: the mean over seeds of each figure, in per cent."""
    rows = [["case", "seeds", *figures]]
    for case, seeds in by_case(outcomes).items():
        means = [MeanOverSeeds.of([FIGURES[name](outcome) for outcome in seeds.values()]) for name in figures]
        rows.append([case.case, str(len(seeds)), *map(str, means)])
    return _markdown(rows)


def paired(outcomes: Iterable[Outcome], others: Iterable[Outcome], figures: Sequence[str]) -> str:
    """A row per case: figures of `outcomes` minus those of `others`, over the seeds that both have, in points."""
    rows, before = [["case", "seeds", *figures]], by_case(others)
    for case, seeds in by_case(outcomes).items():
        both = [(seeds[seed], before[case][seed]) for seed in seeds if seed in before.get(case, {})]
        if both:
            means = [MeanOverSeeds.of([FIGURES[name](a) - FIGURES[name](b) for a, b in both]) for name in figures]
            rows.append([case.case, str(len(both)), *map(str, means)])
    return _markdown(rows)


def exploration_table(outcomes: Iterable[Outcome]) -> str:
    """A row per case: gain of each scale minus that of the greedy one (0), over the seeds that both have, in points."""
    scales: dict[Run, dict[float, dict[int, Outcome]]] = defaultdict(dict)
    for case, seeds in by_case(outcomes).items():
        if case.exploration is not None:
            scales[replace(case, exploration=None)][case.exploration] = seeds
    rows = [["case", "gain of 0", *(f"{scale:g} − 0" for scale in EXPLORATIONS[1:])]]
    gain = FIGURES["gain"]
    for case, found in scales.items():
        greedy = found.get(0.0, {})
        if not greedy:
            continue
        cells = [case.case, str(MeanOverSeeds.of([gain(outcome) for outcome in greedy.values()]))]
        for scale in EXPLORATIONS[1:]:
            both = [
                gain(outcome) - gain(greedy[seed]) for seed, outcome in found.get(scale, {}).items() if seed in greedy
            ]
            cells.append(str(MeanOverSeeds.of(both)) if both else "–")
        rows.append(cells)
    return _markdown(rows)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


# ---- runs on disk ----


@dataclass(frozen=True, slots=True)
class Archive:
    """The folder of a study: outcomes by label and run, and histories and networks to begin from."""

    folder: Path

    def place(self, run: Run, label: str) -> Path:
        return self.folder / "runs" / label / f"{run.name}.json"

    def read(self, run: Run, label: str) -> Outcome | None:
        """None: not run yet."""
        place = self.place(run, label)
        return Outcome.from_json(place.read_text(encoding="utf-8")) if place.is_file() else None

    def make(self, run: Run, label: str) -> Outcome:
        """The outcome, kept when it is whole."""
        started, source = time.monotonic(), package_version()
        campaigns = play(run, cache=self.folder / "cache")
        outcome = Outcome(run=run, label=label, source=source, seconds=time.monotonic() - started, campaigns=campaigns)
        place = self.place(run, label)
        place.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(place) as unfinished:
            unfinished.write_text(outcome.to_json() + "\n", encoding="utf-8")
        return outcome


def package_version() -> str:
    """Names the source of the package, and of how a run goes."""
    return source_version((".", "studies/year.py"))[:12]


def seeds_of(text: str) -> tuple[int, ...]:
    """
    >>> seeds_of("1-3,8")
    (1, 2, 3, 8)
    """
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = whole_number(0)(first), whole_number(0)(last or first)
        found += range(begin, end + 1)
    return tuple(found)


def chosen_runs(
    part: Part, *, seeds: Sequence[int], worlds: Sequence[str], customers: Sequence[int], scales: Sequence[float]
) -> list[Run]:
    """Seed by seed, so that an interrupted study has whole seeds. Empty lists leave everything in."""
    return [
        run
        for seed in seeds
        for run in part.runs(seed)
        if (not worlds or run.world in worlds)
        and (not customers or run.customers in customers)
        and (not scales or run.exploration in scales)
    ]


# ---- the command ----


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run study",
        description="Studies of the product in simulated worlds. Finished runs are kept; the same command continues.",
        epilog="Parts: "
        + "; ".join(f"{name}: {part.about}" for name, part in PARTS.items())
        + "; added: what codes added, by the lasting holdout, under four laws (options of its own).",
    )
    parser.add_argument("part", choices=tuple(PARTS), help="what to study")
    parser.add_argument("--seeds", type=seeds_of, default="1-4", help="of the shops, such as 1-4,121 (%(default)s)")
    parser.add_argument("--label", help="names the version of the product (default: a hash of its source)")
    parser.add_argument("--against", help="a label to compare with, run by run")
    parser.add_argument("--worlds", type=_names, default="", help=f"only these of {', '.join(WORLDS)}")
    parser.add_argument("--customers", type=_counts, default="", help="only runs with these numbers of customers")
    parser.add_argument("--scales", type=_scales, default="", help="only these scales of exploration")
    parser.add_argument("--print", action="store_true", dest="only_print", help="run nothing")
    parser.add_argument("--out", "-o", type=Path, default=OUT, help="folder of what is kept (%(default)s)")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(",")) if text else ()
    unknown = [name for name in names if name not in WORLDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"found {', '.join(unknown)}; expected some of {', '.join(WORLDS)}")
    return names


def _counts(text: str) -> tuple[int, ...]:
    return whole_numbers(text) if text else ()


def _scales(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(",")) if text else ()


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code: 0 done, 1 refused, 2 wrong usage, 130 interrupted."""
    if arguments[:1] == ["added"]:
        from studies.added import main as what_codes_added

        return what_codes_added(arguments[1:])
    asked = _parser().parse_args(arguments)
    try:
        _run(asked)
    except DiscoError as error:
        show_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Finished runs are kept: the same command continues from there.\n")
        return _INTERRUPTED
    return 0


def _run(asked: argparse.Namespace) -> None:
    part, archive, label = PARTS[asked.part], Archive(asked.out), asked.label or package_version()
    runs = chosen_runs(part, seeds=asked.seeds, worlds=asked.worlds, customers=asked.customers, scales=asked.scales)
    outcomes = []
    for count, run in enumerate(runs, start=1):
        outcome = archive.read(run, label)
        if outcome is None and not asked.only_print:
            outcome = archive.make(run, label)
            sys.stderr.write(f"{count:,} of {len(runs):,}: {run.name}: {outcome.seconds:.0f} s\n")
            sys.stderr.flush()
        if outcome is not None:
            outcomes.append(outcome)
    sys.stdout.write(report(part, outcomes, label=label, runs=len(runs)))
    if asked.against:
        others = [found for run in runs if (found := archive.read(run, asked.against)) is not None]
        sys.stdout.write(f"\n{label} minus {asked.against}, paired by seed, in points.\n\n")
        sys.stdout.write(paired(outcomes, others, part.show) + "\n")


def report(part: Part, outcomes: Sequence[Outcome], *, label: str, runs: int) -> str:
    """What the command prints of one label; runs: how many the part has."""
    sources = ", ".join(sorted({outcome.source for outcome in outcomes})) or "–"
    shown = exploration_table(outcomes) if part is PARTS["exploration"] else table(outcomes, part.show)
    return (
        f"{part.about}. Label {label}, source {sources}; {len(outcomes):,} of {runs:,} runs.\n"
        f"Means over decided campaigns and seeds in per cent, ± half a 95% interval over seeds.\n\n{shown}\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
