"""The files of `./run drill faults`: thousands of damaged, odd and oversized files through the commands that read them.

Every case is a copy of a small shop with one file changed by a seeded mutation, and one command on it in a forked warm
process. It passes when the command ends with 0, 1 or 2 (never 3, a traceback or a signal), within its time and memory,
and leaves nothing half-written: no partial file, no temporary file, and after a refusal the shop's files as they were.

    python tests/drills/file_fuzz.py --files 2000 --seed 1
    python tests/drills/file_fuzz.py --seed 1 --only 417        # one case again, with what it printed
"""

import argparse
import io
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

SECONDS = 90.0  # a command on a small shop takes one or two, on a busy machine ten
MEMORY_BYTES = 3 << 30  # address space beyond that of the warm process
CUSTOMERS = 150
PLAN = """campaign: fuzz
customers: {table: data/customers.parquet, eligible: "country = 'GB'", as_of: 2025-09-01}
depths: {0.10: {at_most: 30}, 0.30: {at_most: 20}}
objective: {revenue_weight: 3}
policy: {name: random}
reserve: {share: 5%}
valid: {from: 2025-09-02, days: 28}
seed: 1
"""
CAPS = "caps: {'0.1': 20, '0.3': 10}\n"


# ---- running a command ----


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int  # of the process; negative: the signal that ended it
    said: str  # on both outputs
    seconds: float
    memory: int  # bytes resident at most


@dataclass(slots=True)
class Running:
    """A command at work in a process of its own."""

    pid: int
    said: Path
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def started(cls, words: Sequence[str], *, folder: Path, scratch: Path, said: Path) -> "Running":
        scratch.mkdir(parents=True, exist_ok=True)
        pid = os.fork()
        if pid == 0:
            _child(words, folder=folder, scratch=scratch, said=said)
        return cls(pid, said)

    def poll(self) -> Ended | None:
        """How it ended; None while it works. A command that takes too long is killed."""
        pid, status, used = os.wait4(self.pid, os.WNOHANG)
        if not pid and time.monotonic() - self.began > SECONDS:
            os.kill(self.pid, signal.SIGKILL)
            pid, status, used = os.wait4(self.pid, 0)
        if not pid:
            return None
        said = self.said.read_text(errors="replace") if self.said.exists() else ""
        seconds = time.monotonic() - self.began
        return Ended(os.waitstatus_to_exitcode(status), said, seconds, used.ru_maxrss << 10)

    def wait(self) -> Ended:
        while (ended := self.poll()) is None:
            time.sleep(0.005)
        return ended


def _child(words: Sequence[str], *, folder: Path, scratch: Path, said: Path) -> None:
    code = 3
    try:
        os.chdir(folder)
        out = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for descriptor, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, out)):
            os.dup2(target, descriptor)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, now + MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
        sys.argv = ["disco", *words]
        code = _command()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _command() -> int:
    from disco.entrypoints.cli import main

    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 3
    return 0


def warm() -> None:
    """Import what commands need, so that a forked process begins at once."""
    import duckdb  # noqa: F401
    import torch  # noqa: F401


# ---- the shop ----


def make_shop(folder: Path) -> None:
    """A small shop with a launched campaign, its outcomes, and the inputs of allocate and replay."""
    shop = folder / "shop"
    steps = (
        f"init {shop}",
        f"simulate --customers {CUSTOMERS} --seed 7 -o {shop}/data --overwrite",
        f"train context --tables {shop}/data --window-start 2025-06-01 --max-epochs 1 -o {shop}/context.safetensors",
        f"plan {shop}/fuzz.yaml --shop {shop}",
        f"launch fuzz --shop {shop}",
        f"export fuzz -o {shop}/codes.parquet --shop {shop}",
        f"respond {shop}/data {shop}/codes.parquet -o {shop}/outcomes.parquet",
        f"features {shop}/data --as-of 2025-09-01 -o {shop}/features.parquet",
    )
    for step in steps:
        if shop.exists():
            (shop / "fuzz.yaml").write_text(PLAN)
        ended = Running.started(step.split(), folder=folder, scratch=folder / "tmp", said=folder / "said").wait()
        assert ended.code == 0, f"disco {step}: {ended.said}"
    rng = np.random.default_rng(3)
    ids, rows = [f"c{row:03d}" for row in range(60)], 200
    pq.write_table(
        pa.table({"customer_id": ids, "0.1": rng.random(60), "0.3": rng.random(60)}), shop / "values.parquet"
    )
    (shop / "caps.yaml").write_text(CAPS)
    log = {
        "customer_id": [f"c{row:03d}" for row in range(rows)],
        "x1": rng.normal(size=rows).clip(-3, 3),
        "depth": rng.choice([0.1, 0.3], rows),
        "full_price": pa.array(np.exp(rng.normal(4, 0.5, rows)), mask=rng.random(rows) < 0.5),
    }
    pq.write_table(pa.table(log), shop / "log.parquet")
    (shop / "outcomes.csv").write_bytes(_csv(pq.read_table(shop / "outcomes.parquet")))


def _csv(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pa_csv.write_csv(table, sink)
    return sink.getvalue()


_TABLES = ("customers", "orders", "returns", "codes", "site")
_OUT = "out.parquet"
_READERS: dict[str, tuple[str, ...]] = {
    "outcomes.parquet": ("ingest fuzz outcomes.parquet", "ingest fuzz outcomes.parquet --dry-run --json"),
    "outcomes.csv": ("ingest fuzz outcomes.csv --quarantine aside.csv", "ingest fuzz outcomes.csv"),
    **{
        f"data/{name}.parquet": (
            "validate data --as-of 2025-10-01",
            f"features data --as-of 2025-09-01 -o {_OUT}",
            "plan fuzz.yaml --dry-run",
            "check --as-of 2025-09-01",
        )
        for name in _TABLES
    },
    "fuzz.yaml": ("validate fuzz.yaml", "plan fuzz.yaml --dry-run"),
    "disco.yaml": ("check --as-of 2025-09-01", "plan fuzz.yaml --dry-run"),
    "context.safetensors": ("check --as-of 2025-09-01", "check --features features.parquet"),
    "features.parquet": ("check --features features.parquet",),
    "values.parquet": (f"allocate values.parquet --caps caps.yaml -o {_OUT}",),
    "caps.yaml": (f"allocate values.parquet --caps caps.yaml -o {_OUT}",),
    "log.parquet": ("replay log.parquet --context x1 --policy greedy --caps 0.1=30%,0.3=20% --batch 50",),
    "artefact": ("ingest fuzz outcomes.parquet --dry-run", f"export fuzz -o {_OUT}"),
}
_WEIGHTS = {"outcomes.parquet": 6, "outcomes.csv": 4, "fuzz.yaml": 4, "values.parquet": 2, "log.parquet": 2}


# ---- mutations: each a function of the file and a random number generator ----


def _damage(path: Path, rng: random.Random) -> str:
    """Bytes cut, changed, or another file altogether."""
    content = bytearray(path.read_bytes())
    how = rng.choice(["cut", "flip", "flip", "flip", "zero", "empty", "other", "twice", "random"])
    if how == "cut":
        content = content[: rng.randrange(len(content))]
    elif how == "flip":
        for _ in range(rng.choice([1, 1, 3, 20])):
            content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
    elif how == "zero":
        start = rng.randrange(len(content))
        content[start : start + 64] = bytes(len(content[start : start + 64]))
    elif how == "empty":
        content = bytearray()
    elif how == "other":
        content = bytearray(
            rng.choice([b"PAR1PAR1", b"hello\n", b"\x89PNG\r\n", b"ARROW1\0\0", b"\xff\xfea\0,\0", b"{}"])
        )
    elif how == "twice":
        content = content * 2
    else:
        content = bytearray(rng.randbytes(rng.randrange(1, 3000)))
    path.write_bytes(content)
    return how


_NUMBERS = [
    float("nan"),
    float("inf"),
    float("-inf"),
    1e308,
    -1e308,
    -0.0,
    5e-324,
    -5e-324,
    1e13,
    1.1e13,
    0.0,
    -1.0,
    0.5,
]
_TEXTS = ["", " ", "a\0b", "x" * 1001, "x" * 100_000, "=1+1", "\x1b[31m", "‮", "NaN", "'; DROP", "17", "-1", "é" * 600]


def _column(table: pa.Table, rng: random.Random) -> tuple[str, Callable[[pa.Table], pa.Table]]:
    """One column replaced by something odd."""
    at, rows = rng.randrange(table.num_columns), table.num_rows
    name, now = table.column_names[at], table.column(at)
    row = rng.randrange(max(rows, 1))

    def with_cell(cells: list[object], value: object, of: pa.DataType) -> pa.Array:
        return pa.array([value if place == row else cell for place, cell in enumerate(cells)], of)

    floats, texts = [1.5] * rows, [str(place) for place in range(rows)]
    day, wide = [20_300] * rows, [Decimal("12.345")] * rows
    bytes_ = [b"\xff\xfe" if place == row else b"a" for place in range(rows)]
    odd: dict[str, Callable[[], pa.Array]] = {
        "number": lambda: with_cell(floats, rng.choice(_NUMBERS), pa.float64()),
        "numbers": lambda: pa.array([rng.choice(_NUMBERS)] * rows, pa.float64()),
        "half": lambda: pa.array(np.full(rows, 1.5, np.float16)),
        "decimal256": lambda: with_cell(wide, rng.choice([None, Decimal(10) ** 40]), pa.decimal256(70, 5)),
        "decimal128": lambda: with_cell(wide, rng.choice([None, Decimal(-1), Decimal(10) ** 20]), pa.decimal128(38, 4)),
        "text": lambda: with_cell(texts, rng.choice(_TEXTS), pa.string()),
        "same text": lambda: pa.array([rng.choice(_TEXTS)] * rows, pa.string()),
        "not unicode": lambda: pa.array(bytes_, pa.binary()).view(pa.string()),
        "bytes": lambda: pa.array(bytes_, pa.binary()),
        "nulls": lambda: pa.nulls(rows, rng.choice([pa.null(), pa.string(), pa.int64()])),
        "a null": lambda: with_cell(now.to_pylist(), None, now.type),
        "date32": lambda: with_cell(day, rng.choice([2**31 - 1, -(2**31), 0]), pa.int32()).cast(pa.date32()),
        "time": lambda: with_cell(day, rng.choice([2**62, -(2**62), 0]), pa.int64()).cast(
            pa.timestamp(rng.choice(["ms", "us", "ns"]), rng.choice([None, "UTC", "Europe/Berlin"]))
        ),
        "truth": lambda: pa.array([True] * rows),
        "integers": lambda: with_cell([1] * rows, rng.choice([2**63 - 1, -(2**63), 0]), pa.int64()),
        "uint64": lambda: with_cell([1] * rows, rng.choice([2**64 - 1, 2**63, 0]), pa.uint64()),
        "list": lambda: pa.array([[1]] * rows),
        "struct": lambda: pa.array([{"a": 1}] * rows),
        "dictionary": lambda: now.combine_chunks().dictionary_encode(),
        "view": lambda: pa.array(texts, pa.string_view()),
        "duration": lambda: pa.array([1] * rows, pa.duration("s")),
    }
    how = rng.choice(sorted(odd))
    return f"{name}: {how}", lambda given: given.set_column(at, name, odd[how]())


def _table(path: Path, rng: random.Random) -> str:
    """A complete file whose table is odd."""
    table = pq.read_table(path)
    how = rng.choice(
        ["column"] * 12 + ["columns", "drop", "swap", "double", "none", "no rows", "rows", "dictionary", "order"]
    )
    changes: list[tuple[str, Callable[[pa.Table], pa.Table]]] = []
    if how in ("column", "columns"):
        changes = [_column(table, rng) for _ in range(1 if how == "column" else 3)]
    names = table.column_names
    first, second = rng.randrange(len(names)), rng.randrange(len(names))
    swapped = [
        names[second] if at == first else names[first] if at == second else name for at, name in enumerate(names)
    ]
    many = 5_000_001 if path.name == "outcomes.parquet" else 100_000
    bomb = pa.DictionaryArray.from_arrays(pa.array(np.zeros(table.num_rows, np.int32)), pa.array(["x" * (8 << 20)]))
    whole: dict[str, Callable[[], pa.Table]] = {
        "drop": lambda: table.remove_column(first),
        "swap": lambda: table.rename_columns(swapped),
        "double": lambda: table.append_column(names[first], table.column(first)),
        "none": lambda: pa.table({}),
        "no rows": lambda: table.slice(0, 0),
        "rows": lambda: pa.table({name: pa.repeat(table[name][0], many) for name in names}),
        "dictionary": lambda: table.set_column(first, names[first], bomb),
        "order": lambda: table.select(rng.sample(names, len(names))),
    }
    if how in whole:
        table = whole[how]()
    for _, change in changes:
        table = change(table)
    if path.suffix == ".csv":
        path.write_bytes(_csv(table))
    else:
        pq.write_table(table, path, compression=rng.choice(["none", "snappy", "zstd"]))
    return "; ".join([how, *(words for words, _ in changes)])


def _text(path: Path, rng: random.Random) -> str:
    """Lines of CSV or YAML changed as people and programs do."""
    lines = path.read_text(encoding="utf-8").split("\n")
    at = rng.randrange(max(1, len(lines) - 1))
    separators = ",;\t:{}[]'\"&*!|>%#\0\x1b\xff-"
    how = rng.choice(
        ["mark", "mark", "mark", "cut", "twice", "value", "value", "alias bomb", "deep", "long", "latin", "header"]
    )
    encoding = "utf-8"
    if how == "mark":
        place = rng.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:place] + rng.choice(separators) + lines[at][place:]
    elif how == "cut":
        lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
    elif how == "twice":
        lines.insert(at, lines[at])
    elif how == "value":
        key, colon, _ = lines[at].partition(":")
        value = rng.choice(
            ["1e308", ".nan", "-.inf", "null", "true", "''", "[]", "{}", "-1", "0x1F", "9999-12-31", "1_0"]
        )
        lines[at] = f"{key}{colon} {value}" if colon else lines[at].replace(",", f",{value},", 1)
    elif how == "alias bomb":
        lines += ["a: &a [x, x, x, x, x, x, x, x, x]"]
        lines += [
            f"{name}: &{name} [{', '.join(['*' + last] * 9)}]"
            for last, name in zip("abcdefgh", "bcdefghi", strict=True)
        ]
        lines.append("campaign: *i")
    elif how == "deep":
        lines.append("x: " + "[" * 3000)
    elif how == "long":
        lines[at] += "y" * 2_000_000
    elif how == "latin":
        lines[at] += "ü"
        encoding = "cp1252"
    else:
        lines[0] = lines[0] + "," + lines[0]
    path.write_bytes("\n".join(lines).encode(encoding, errors="replace"))
    return how


# ---- cases ----


@dataclass(frozen=True, slots=True)
class Case:
    """One changed file and one command."""

    number: int
    seed: int
    file: str
    words: str
    mutation: str

    def __str__(self) -> str:
        return f"case {self.number} (seed {self.seed}): {self.file} {self.mutation}; disco {self.words}"


def prepare(shop: Path, number: int, seed: int) -> Case:
    """Change one file of this copy of the shop."""
    rng = random.Random(f"{seed} {number}")
    files = [file for file in _READERS for _ in range(_WEIGHTS.get(file, 2))]
    file = rng.choice(files)
    artefacts = sorted(path for path in (shop / "artefacts").rglob("*") if path.is_file())
    path = rng.choice(artefacts) if file == "artefact" else shop / file
    words = rng.choice(_READERS[file])
    if path.suffix == ".parquet" and file != "artefact":
        mutation = rng.choice([_damage, _table, _table, _table])(path, rng)
    elif path.suffix in (".csv", ".yaml"):
        mutation = rng.choice([_damage, _text, _text])(path, rng)
    else:
        mutation = _damage(path, rng)
    return Case(number, seed, file, words, mutation)


def contents(folder: Path) -> dict[str, str]:
    """Every file and a hash of its bytes. SQLite's own side files, and the database's, may change when it is read."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("disco.db")
    }


def faults(ended: Ended, *, shop: Path, before: dict[str, str], scratch: Path) -> Iterator[str]:
    """What must not happen, and did."""
    if ended.code not in (0, 1, 2):
        yield f"ended with {ended.code} after {ended.seconds:.0f} s"
    if "Traceback (most recent call last)" in ended.said:
        yield "showed a traceback"
    if ended.memory > MEMORY_BYTES:
        yield f"took {ended.memory >> 20:,} MB"
    if ended.code in (1, 2) and not ended.said.strip():
        yield "was refused without a word"
    if left := [path.name for path in scratch.rglob("*") if path.is_file()]:
        yield f"left temporary files: {', '.join(left[:3])}"
    after = contents(shop)
    if half := [name for name in after if name.endswith(".partial")]:
        yield f"left a partial file: {half[0]}"
    if ended.code in (1, 2):
        changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
        # features that were built before the refusal may be kept for the next time
        if changed := [name for name in changed if not name.startswith("artefacts/features/")]:
            yield f"was refused and changed {changed[0]}"


@dataclass(slots=True)
class Drill:
    """What happened so far."""

    ends: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    largest: int = 0

    def note(self, case: Case, ended: Ended, found: Sequence[str]) -> None:
        self.ends[ended.code] += 1
        self.slowest, self.largest = max(self.slowest, ended.seconds), max(self.largest, ended.memory)
        if found:
            last = " | ".join(ended.said.strip().splitlines()[-3:])[-600:]
            self.failures.append(f"{case}\n    {'; '.join(found)}\n    {last}")


def drill(numbers: Sequence[int], *, seed: int, lanes: int = 2, say: Callable[[str], None] | None = None) -> Drill:
    """Run the cases of these numbers, so many at a time."""
    warm()
    done = Drill()
    with tempfile.TemporaryDirectory(prefix="disco-fuzz-") as place:
        make_shop(Path(place))
        waiting = list(reversed(numbers))
        active: list[tuple[Case, Running, Path, dict[str, str]]] = []
        while waiting or active:
            while waiting and len(active) < lanes:
                number = waiting.pop()
                room = Path(place) / f"case-{number}"
                shutil.copytree(Path(place) / "shop", room / "shop")
                case = prepare(room / "shop", number, seed)
                before = contents(room / "shop")
                running = Running.started(
                    case.words.split(), folder=room / "shop", scratch=room / "tmp", said=room / "said"
                )
                active.append((case, running, room, before))
            for entry in list(active):
                case, running, room, before = entry
                if (ended := running.poll()) is not None:
                    active.remove(entry)
                    found = list(faults(ended, shop=room / "shop", before=before, scratch=room / "tmp"))
                    done.note(case, ended, found)
                    if say and (found or len(numbers) == 1):
                        say(done.failures[-1] if found else f"{case}\n{ended.said}")
                    shutil.rmtree(room)
            time.sleep(0.005)
    return done


def main(argv: Sequence[str] | None = None) -> int:
    """0 when every case passed, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000, help="cases to run (default 2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one case, to run it again")
    parser.add_argument("--lanes", type=int, default=2, help="commands at a time (default 2)")
    given = parser.parse_args(argv)
    numbers = list(range(given.files)) if given.only is None else [given.only]
    began = time.monotonic()
    done = drill(numbers, seed=given.seed, lanes=given.lanes, say=lambda text: print(text, flush=True))
    ends = ", ".join(f"{count:,} with {code}" for code, count in sorted(done.ends.items()))
    print(
        f"{len(numbers):,} files in {time.monotonic() - began:.0f} s: {len(done.failures)} failed; ended {ends}; "
        f"slowest {done.slowest:.1f} s, most memory {done.largest >> 20:,} MB."
    )
    return 1 if done.failures else 0


if __name__ == "__main__":
    sys.exit(main())
