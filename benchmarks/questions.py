"""What short questions cost: `./run bench questions [--shop SHOP] [--repeats N]`.

Processor time (user and system) of `disco campaigns`, `belief`, `explain` and `results` of one campaign, each in a
fresh process with warm caches; the least of several runs, because a busy machine only ever adds. Beside them: what
importing the libraries costs that every answer needs. The aim is 0.7 s.

Without --shop, a simulated shop of 20,000 customers with one random and one decided campaign is made first.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

AIM_S = 0.7
_FLOOR = "import typer, pydantic, yaml, numpy, pyarrow.compute, sqlalchemy"
_PLAN = """campaign: {name}
customers: {{table: customers, eligible: "country = 'GB'", as_of: {day}}}
depths: {{0.10: {{at_most: 25%}}, 0.20: {{at_most: 20%}}, 0.30: {{at_most: 10%}}}}
objective: {{revenue_weight: 3}}
policy: {{name: {policy}}}
control: {{share: {control}}}
valid: {{from: {day}, days: 30}}
seed: 7
"""


def disco(*arguments: object) -> list[str]:
    """The command line of `disco ARGUMENTS`, in the environment of this program."""
    return [str(Path(sys.executable).parent / "disco"), *map(str, arguments)]


def make_shop(shop: Path) -> None:
    """Two campaigns, with their answers."""
    data, codes, outcomes = shop / "data", shop / "codes.parquet", shop / "outcomes.parquet"
    network = shop / "context.safetensors"
    steps: list[tuple[object, ...]] = [
        ("simulate", "--customers", 20_000, "--seed", 7, "-o", data),
        ("train", "context", "--tables", data, "--window-start", "2025-06-01", "-o", network),
    ]
    for name, day, policy, control in (
        ("first", "2025-09-01", "random", 0),
        ("second", "2025-10-01", "thompson", "20%"),
    ):
        plan = shop / f"{name}.yaml"
        plan.write_text(_PLAN.format(name=name, day=day, policy=policy, control=control))
        steps += [
            ("plan", plan, "--shop", shop),
            ("launch", name, "--shop", shop),
            ("export", name, "-o", codes, "--shop", shop),
            ("respond", data, codes, "-o", outcomes),
            ("ingest", name, outcomes, "--shop", shop),
            ("learn", name, "--as-of", "2026-09-01", "--shop", shop),
        ]
    for step in steps:
        subprocess.run(disco(*step, "--quiet"), check=True)


def least_cost_s(asked: list[str], *, repeats: int) -> float:
    """Processor seconds of a process, the least of several."""
    costs = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(asked, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(costs)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench questions", description=__doc__.splitlines()[0])
    parser.add_argument("--shop", type=Path, help="a shop with a decided campaign, instead of a simulated one")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="disco-bench-") as folder:
        shop = asked.shop or Path(folder)
        if asked.shop is None:
            make_shop(shop)
        codes = Path(folder) / "codes-of-all.parquet"
        listed = subprocess.run(
            disco("campaigns", "--json", "--shop", shop), check=True, capture_output=True, text=True
        )
        campaign = json.loads(listed.stdout)["campaigns"][-1]["campaign"]
        subprocess.run(disco("export", campaign, "-o", codes, "--shop", shop, "--quiet"), check=True)
        customer = pq.read_table(codes)["customer_id"][0].as_py()
        questions = (["campaigns"], ["belief"], ["explain", campaign, customer], ["results", campaign])
        floor = least_cost_s([sys.executable, "-c", _FLOOR], repeats=asked.repeats)
        print(f"{'importing the libraries alone':<40}{floor:6.2f} s of processor time")
        for question in questions:
            cost = least_cost_s(disco(*question, "--shop", shop), repeats=asked.repeats)
            print(f"{'disco ' + ' '.join(question):<40}{cost:6.2f} s; aim: {AIM_S:g} s")


if __name__ == "__main__":
    main()
