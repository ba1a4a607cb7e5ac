"""`python -m disco.studies.customers [--quick] [--page FILE] [--figures FILE]`: run the study and print its page."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from disco.records.files import written_whole
from disco.studies.customers.page import page
from disco.studies.customers.study import QUICK, Extent, run_study


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m disco.studies.customers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small shop: does it run, not what it says")
    parser.add_argument("--page", type=Path, help="write the page there as well")
    parser.add_argument("--figures", type=Path, help="write every figure of every shop there, as JSON")
    options = parser.parse_args(arguments)
    extent = QUICK if options.quick else Extent()
    figures = run_study(extent, progress=_tell)
    text = page(figures, customers=extent.customers)
    if options.page:
        _write(options.page, text)
    if options.figures:
        _write(options.figures, json.dumps([asdict(figure) for figure in figures], indent=1))
    sys.stdout.write(text)


def _tell(step: str) -> None:
    sys.stderr.write(f"{step}\n")


def _write(path: Path, text: str) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
