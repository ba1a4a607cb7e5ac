"""`./run drill damage`: single bytes of a shop's database and artefacts are changed at random, one at a time.

Every change must be found by `disco doctor`, or be refused by the command that reads it, or be harmless: export,
results, explain, campaigns and belief then say exactly what they said before. A changed output that nobody notices, or
an error that is not one of ours, ends the drill.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from whole_shop import make_shop, outputs

from disco.entrypoints.python import doctor
from disco.records.errors import DiscoError
from disco.store import ledger

FOUND, REFUSED, HARMLESS = "found by doctor", "refused by the command that reads it", "harmless: all outputs are equal"


@dataclass(slots=True)
class Flip:
    """One byte of one file, changed in one to eight bits."""

    file: Path  # within the shop
    place: int
    bits: int  # XOR

    def __str__(self) -> str:
        return f"byte {self.place} of {self.file} XOR {self.bits:#04x}"


@dataclass(slots=True)
class DamageDrill:
    """A whole shop, and what became of each change."""

    shop: Path
    dice: random.Random
    said: dict[str, str] = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        found = {one.check for one in doctor(self.shop).failed}
        assert found == {"network"}, found  # the shop has none
        self.said = outputs(self.shop)

    def files(self) -> list[Path]:
        kept = [self.shop / "disco.db", *sorted((self.shop / "artefacts").glob("*.arrow"))]
        return [path.relative_to(self.shop) for path in kept]

    def random_flip(self) -> Flip:
        """Half of them in the database, half in the artefacts, each byte of either equally likely."""
        database, *artefacts = self.files()
        sizes = [(self.shop / file).stat().st_size for file in artefacts]
        file = database if self.dice.random() < 0.5 else self.dice.choices(artefacts, sizes)[0]
        place = self.dice.randrange((self.shop / file).stat().st_size)
        return Flip(file, place, self.dice.randrange(1, 256))

    def strike(self, flip: Flip) -> str:
        """Change the byte, see what notices, and change it back."""
        path = self.shop / flip.file
        content = path.read_bytes()
        flipped = bytearray(content)
        flipped[flip.place] ^= flip.bits
        path.write_bytes(flipped)
        try:
            end = self._look()
        finally:
            path.write_bytes(content)
        self.counts[f"{'database' if flip.file.suffix == '.db' else 'artefacts'}: {end}"] += 1
        return end

    def _look(self) -> str:
        failed = [one for one in doctor(self.shop).failed if one.check != "network"]
        if failed:
            return FOUND
        try:
            now = outputs(self.shop)
        except DiscoError:
            return REFUSED
        changed = sorted(name for name in self.said if self.said[name] != now.get(name))
        assert not changed, f"nobody noticed, and these say something else: {', '.join(changed)}"
        return HARMLESS


def drill(*, flips: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Counter[str]:
    """How the flips ended; AssertionError names the first that nobody noticed."""
    with TemporaryDirectory(prefix="disco-damage-") as folder:
        least = ledger.LEAST_ROWS
        ledger.LEAST_ROWS = 1  # what counts lies in packs, the other rows in the database: both are hit
        try:
            shop = make_shop(Path(folder) / "shop")
        finally:
            ledger.LEAST_ROWS = least
        running = DamageDrill(shop, random.Random(seed))
        for number in range(1, flips + 1):
            flip = running.random_flip()
            try:
                end = running.strike(flip)
            except BaseException as error:
                error.add_note(f"{flip}, after {number - 1} flips with seed {seed}")
                raise
            if number % 50 == 0:
                say(f"{number:>5} flips; last: {flip}: {end}")
    return running.counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run drill damage", description=__doc__)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    started = time.monotonic()
    counts = drill(flips=asked.flips, seed=asked.seed, say=lambda text: print(text, file=sys.stderr, flush=True))
    for end, times in sorted(counts.items()):
        print(f"{times:>5}  {end}")
    print(
        f"{counts.total()} bytes changed one by one; no output changed unnoticed ({time.monotonic() - started:.0f} s)"
    )


if __name__ == "__main__":
    main()
