"""`./run drill bytes`: fingerprints of every decision and all evidence of the demo and of a year of campaigns.

A change of structure must not move a decision. The drill runs the demo and the tutorial's year through the command
line alone, so the same file measures any version of the program, and compares what it finds with
`tests/drills/bytes_baseline.json`. `--write FILE` records a new baseline instead.

The context network is trained by PyTorch, whose last bits depend on the processor: a baseline holds on the kind of
machine that recorded it. Everything after the network has a fixed order of summation; `tests/test_fixed_bytes.py` pins
that part on every machine.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BASELINE = Path(__file__).with_name("bytes_baseline.json")
_SECRET = "a secret of the drill, made for comparing codes"
_DEPTHS = "{0.10: {at_most: 25%}, 0.20: {at_most: 20%}, 0.30: {at_most: 10%}, 0.40: {at_most: 5%}}"
_FIRST = """
campaign: 2025-09
customers: {table: customers, eligible: "country = 'GB'", as_of: 2025-09-01}
depths: {0.10: {at_most: 25%}, 0.20: {at_most: 25%}, 0.30: {at_most: 25%}, 0.40: {at_most: 25%}}
objective: {revenue_weight: 3}
policy: {name: random}
valid: {from: 2025-09-01, days: 30}
seed: 7
"""
_DECIDED = """
campaign: NAME
customers: {table: customers, eligible: "country = 'GB'", as_of: FROM}
depths: DEPTHS
objective: {revenue_weight: 3}
policy: {name: thompson}
control: {share: 20%}
holdout: {share: 5%}
reserve: {share: 2%}
BUDGETvalid: {from: FROM, days: DAYS}
seed: 7
"""
# settings whose defaults have changed since, as they were
_BEFORE = """
data: data
exploration: 1
habits: false
model: {smearing: false}
forecast: {level: fixed, season: none}
"""
# campaign, first day, days, day of learning; the tutorial's calendar
_CALENDAR = [
    ("2025-10", "2025-10-01", 31, "2025-11-03"),
    ("2025-11", "2025-11-01", 30, "2025-12-03"),
    ("2025-12", "2025-12-01", 31, "2026-01-03"),
    ("2026-01", "2026-01-01", 31, "2026-02-03"),
    ("2026-02", "2026-02-01", 28, "2026-03-03"),
    ("2026-03", "2026-03-01", 31, "2026-04-03"),
    ("2026-04", "2026-04-01", 30, "2026-05-03"),
    ("2026-05", "2026-05-01", 31, "2026-06-03"),
    ("2026-06", "2026-06-01", 30, "2026-07-03"),
    ("2026-07", "2026-07-01", 31, "2026-08-03"),
    ("2026-08", "2026-08-01", 31, "2026-09-03"),
]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--write", type=lambda name: Path(name).absolute(), help="record a baseline here instead")
    arguments.add_argument("--customers", type=int, default=3000)
    arguments.add_argument("--campaigns", type=int, default=len(_CALENDAR), help="decided campaigns of the year")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = fingerprints(Path(folder), customers=given.customers, campaigns=given.campaigns)
    if given.write is not None:
        given.write.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{len(found)} fingerprints written to {given.write}")
        return 0
    return compare(found, json.loads(BASELINE.read_text(encoding="utf-8")))


def compare(found: dict[str, str], baseline: dict[str, str]) -> int:
    """Print what differs; 1 when anything does or nothing was compared."""
    common = sorted(found.keys() & baseline.keys())
    different = [name for name in common if found[name] != baseline[name]]
    for name in different:
        print(f"DIFFERENT {name}: {baseline[name]} was {found[name]} is now")
    missing = sorted(baseline.keys() - found.keys())
    for name in missing:
        print(f"MISSING {name}")
    print(f"{len(common) - len(different)} of {len(baseline)} fingerprints are equal.")
    return int(bool(different or missing or not common))


def fingerprints(folder: Path, *, customers: int, campaigns: int) -> dict[str, str]:
    """Name of a result → hash of its content (or the figure itself)."""
    os.environ["DISCO_CODE_SECRET"] = _SECRET
    return {**_demo(folder / "demo", customers), **_year(folder, customers, campaigns)}


def _demo(out: Path, customers: int) -> dict[str, str]:
    disco("demo", "--customers", customers, "--seed", 7, "-o", out, "--quiet")
    found = {}
    for path in sorted(out.glob("allocations/*.parquet")):
        table = pq.read_table(path)
        found[f"demo {path.stem} rows"] = str(table.num_rows)
        for name in ("customer_id", "depth"):
            found[f"demo {path.stem} {name}"] = column_hash(table, name)
    for path in sorted(out.glob("shop/*.parquet")):
        table = pq.read_table(path)
        found[f"demo table {path.stem}"] = sha256(
            "".join(column_hash(table, name) for name in table.column_names).encode()
        ).hexdigest()
    result = json.loads((out / "result.json").read_text())
    for campaign in result["campaigns"]:
        if campaign.get("by_truth"):
            found[f"demo {campaign['campaign']} objective by truth"] = repr(campaign["by_truth"]["objective_uplift"])
    return found


def _year(folder: Path, customers: int, campaigns: int) -> dict[str, str]:
    shop = folder / "shop"
    disco("init", shop)
    os.chdir(shop)
    # a shop of before: a new one would draw a lasting holdout by a secret of its own, which no baseline can know
    Path("disco.yaml").write_text(_BEFORE, encoding="utf-8")
    disco("simulate", "--customers", customers, "--seed", 7, "-o", "data", "--quiet")
    disco("features", "data", "--as-of", "2025-06-01", "-o", "features.parquet", "--quiet")
    disco("train", "context", "--features", "features.parquet", "--heads", "level+slope", "--quiet")
    found = _campaign(_FIRST, "2025-09", "2025-10-03")
    for number, (name, start, days, learned_on) in enumerate(_CALENDAR[:campaigns]):
        plan = _DECIDED.replace("NAME", name).replace("FROM", start).replace("DAYS", str(days))
        plan = plan.replace("DEPTHS", _DEPTHS).replace("BUDGET", "budget: 2500\n" if number % 3 == 2 else "")
        found |= _campaign(plan, name, learned_on)
    return found


def _campaign(plan: str, name: str, learned_on: str) -> dict[str, str]:
    Path("plan.yaml").write_text(plan)
    planned = json.loads(disco("plan", "plan.yaml", "--json"))
    disco("launch", name, "--quiet")
    disco("export", name, "-o", "codes.parquet", "--quiet")
    codes = pq.read_table("codes.parquet").sort_by("customer_id")
    disco("respond", "data", "codes.parquet", "-o", "outcomes.parquet", "--quiet")
    ingested = json.loads(disco("ingest", name, "outcomes.parquet", "--json"))
    disco("learn", name, "--as-of", learned_on, "--quiet")
    found = {f"{name} {column}": column_hash(codes, column) for column in ("customer_id", "depth", "code_id")}
    for what in ("customers", "features", "network", "belief", "evidence"):
        found[f"{name} input {what}"] = planned["inputs"][what]
    for what in ("customers", "prices", "budget_price", "value", "bound", "gap", "reserve"):
        found[f"{name} {what}"] = repr(planned[what])
    found[f"{name} applied"] = str(_counts(ingested)["applied"])
    return found


def _counts(ingested: dict[str, Any]) -> dict[str, int]:
    return ingested.get("counts", ingested)


def column_hash(table: pa.Table, name: str) -> str:
    """Of the values, whatever the type of text and the chunks."""
    return sha256(json.dumps([repr(value) for value in table[name].to_pylist()]).encode()).hexdigest()


def disco(*arguments: object) -> str:
    """Run a command in this process; its standard output. Anything but success ends the drill."""
    from disco.entrypoints import cli

    sys.argv = ["disco", *map(str, arguments)]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            cli.main()
        except SystemExit as ended:
            if ended.code:
                raise SystemExit(f"{' '.join(sys.argv)} ended with {ended.code}") from None
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
