"""A unit of work: some repeats of one policy on one stage, kept in one file under a hash of all it depends on."""

import io
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from disco.records.arrays import Floats
from disco.records.files import written_whole
from disco.studies.bandits.recipes import Player, Recipe
from disco.studies.bandits.simulation import Measure, Rules, simulate, starting_belief
from disco.studies.bandits.stage import Stage
from disco.studies.processes import code_version

# what a run's figures follow from; reports, shells and other studies may change without touching them
SOURCES = (
    "belief",
    "policy",
    "allocation",
    "objective.py",
    "campaign.py",
    "records/decisions.py",
    "records/identity.py",
    "evaluation/passes.py",
    "studies/bandits/simulation.py",
    "studies/bandits/stage.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Repeats `first` to `first + repeats − 1`. `stage` is a key; `start` counts past codes (0 cold, None all)."""

    stage: str
    recipe: Recipe
    start: int | None
    player: Player
    rules: Rules
    first: int
    repeats: int

    @property
    def file_name(self) -> str:
        text = "\n".join((code_version(SOURCES), repr(self)))
        return f"{sha256(text.encode()).hexdigest()[:32]}.npy"

    def run(self, stage: Stage) -> Floats:
        """(repeats, batches, measures)."""
        start = starting_belief(stage, self.recipe, codes=self.start)
        return np.stack(
            [
                simulate(stage, self.player, recipe=self.recipe, start=start, rules=self.rules, repeat=repeat)
                for repeat in range(self.first, self.first + self.repeats)
            ]
        )


@dataclass(frozen=True, slots=True)
class Shelf:
    """The folder in which stages and finished units lie."""

    folder: Path

    @property
    def stages(self) -> Path:
        return self.folder / "stages"

    def path(self, unit: Unit) -> Path:
        return self.folder / "units" / unit.file_name

    def missing(self, units: Iterable[Unit]) -> list[Unit]:
        """Those still to do; a file that is not what a finished unit looks like is thrown away and done again."""
        return [unit for unit in units if self._read(unit) is None]

    def read(self, unit: Unit) -> Floats:
        found = self._read(unit)
        if found is None:
            raise FileNotFoundError(self.path(unit))
        return found

    def _read(self, unit: Unit) -> Floats | None:
        path = self.path(unit)
        try:
            figures: Floats = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            return None
        except (ValueError, EOFError):
            path.unlink(missing_ok=True)
            return None
        if figures.shape != (unit.repeats, unit.rules.batches, len(Measure)) or not np.isfinite(figures).all():
            path.unlink(missing_ok=True)
            return None
        return figures

    def do(self, unit: Unit, stage: Stage) -> None:
        """Run a unit and keep it, whole or not at all."""
        content = io.BytesIO()
        np.save(content, unit.run(stage), allow_pickle=False)
        path = self.path(unit)
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as unfinished:
            unfinished.write_bytes(content.getvalue())
