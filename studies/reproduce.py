"""The paper's figures and tables, one after the other, then the report: `./run reproduce [--quick] [ITEM…]`.

./run reproduce                          every item, in hours, into out/reproduction; interrupted, it continues
./run reproduce --quick warm cold        two items in small, in minutes
./run reproduce calibration [--quick]    a study of the product with options of its own; also answers, overspending
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from disco.entrypoints.cli.output import Terminal, show_error
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import DiscoError, InputError, UsageError
from studies import ab, answers, calibration, explanation, overspending, paper, policies, ulcc
from studies.arguments import whole_number
from studies.cache import Progress, worker_pool
from studies.item import Item
from studies.lab import MAX_ENVIRONMENTS, Lab, ReproductionSettings, RunSize, settings_of
from studies.picture import find_browser
from studies.report import Reproduction, as_json, save, write_page

#: In the order of the paper: each key with the function that makes its item.
ITEMS: Mapping[str, Callable[[Lab], Item]] = {
    **{study.key: study for study in paper.STUDIES},
    "warm": policies.run_warm,
    "cold": policies.run_cold,
    "ulcc": ulcc.run,
    "explanation": explanation.run,
    "ab": ab.run,
}
#: Studies of the product beside the paper, each a command of its own.
OTHER_STUDIES: Mapping[str, Callable[[Sequence[str]], int]] = {
    "calibration": calibration.main,
    "answers": answers.main,
    "overspending": overspending.main,
}
CACHE = "cache"
_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code: 0 done, 1 refused, 2 wrong usage, 130 interrupted."""
    if arguments and arguments[0] in OTHER_STUDIES:
        return OTHER_STUDIES[arguments[0]](arguments[1:])
    asked = _parser().parse_args(arguments)
    try:
        _run(asked)
    except DiscoError as error:
        show_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Finished pieces are kept: the same command continues from there.\n")
        return _INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run reproduce",
        description="Compare every figure and table of the paper with simulated retailers, with a verdict for each. "
        "Writes one HTML report and its JSON. An interrupted run continues where it stopped.",
        epilog=f"Studies beside the paper, each with --help: {', '.join(OTHER_STUDIES)}.",
    )
    parser.add_argument("items", metavar="ITEM", nargs="*", help=f"some of {', '.join(ITEMS)} (default: all of them)")
    parser.add_argument("--quick", action="store_true", help="minutes instead of hours, with small retailers")
    parser.add_argument(
        "--out", "-o", type=Path, default=Path("out/reproduction"), help="folder of the report (%(default)s)"
    )
    parser.add_argument(
        "--environments", type=whole_number(1, MAX_ENVIRONMENTS), help="simulated retailers (default: 4)"
    )
    parser.add_argument("--seed", type=whole_number(0), help="of the first retailer (default: 11)")
    parser.add_argument("--page", type=Path, help="also write the page of docs/ there, with its pictures")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser


def _run(asked: argparse.Namespace) -> None:
    keys = chosen(asked.items)
    if asked.out.is_dir():
        check_outputs(asked.out / "report.html", asked.out / "result.json")
    if asked.page is not None and asked.page.parent.is_dir():
        check_outputs(asked.page, asked.page.with_suffix(".json"))
    size = RunSize.QUICK if asked.quick else RunSize.FULL
    terminal, items = Terminal(as_json=asked.json, quiet=asked.quiet), count(1)
    with terminal.progress("starting", total=len(keys)) as report:
        result, text = reproduce(
            settings_of(size, environments=asked.environments, seed=asked.seed),
            only=asked.items,
            out=asked.out,
            page=asked.page,
            command=_command(asked),
            progress=lambda step: report(stage=step),
            item_done=lambda: report(next(items)),
        )
    terminal.show(result, text)


def _command(asked: argparse.Namespace) -> str:
    """The command as a reader would type it to get these figures again, without its items."""
    words = ["./run reproduce"]
    words += ["--quick"] if asked.quick else []
    words += [f"--environments {asked.environments}"] if asked.environments is not None else []
    words += [f"--seed {asked.seed}"] if asked.seed is not None else []
    return " ".join(words)


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The keys asked for, in the paper's order; all where none was named."""
    alone = [key for key in only if key in OTHER_STUDIES]
    if alone:
        raise UsageError(
            f"{alone[0]} is a study with options of its own",
            fix=f"Name it first and alone: ./run reproduce {alone[0]}.",
        )
    unknown = sorted(set(only) - set(ITEMS))
    if unknown:
        raise UsageError("ITEM", found=", ".join(unknown), expected=f"some of {', '.join(ITEMS)}")
    return tuple(key for key in ITEMS if key in only or not only)


def reproduce(
    settings: ReproductionSettings,
    *,
    only: Sequence[str],
    out: Path,
    page: Path | None,
    command: str,
    progress: Progress = lambda step: None,
    item_done: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Any], str]:
    """Run the items asked for (all where none is named); what an earlier run left in `out` is not done again."""
    keys = chosen(only)
    _check_folder(out)
    if page is not None:
        find_browser()  # hours of work should not end at a missing browser
    started = time.monotonic()
    with worker_pool(settings.processes) as pool:
        lab = Lab(settings=settings, folder=out / CACHE, items=keys, pool=pool, progress=progress)
        progress("simulating the retailers")
        lab.make_environments()
        items = [_timed(key, lab, command=command, done=item_done) for key in keys]
    result = Reproduction(
        settings=settings,
        command=" ".join([command, *only]),
        seconds=time.monotonic() - started,
        items=tuple(items),
    )
    save(result, out)
    if page is not None:
        progress("taking pictures")
        write_page(result, page)
    return {**as_json(result), "report": str(out / "report.html")}, _text(result, out)


def _timed(key: str, lab: Lab, *, command: str, done: Callable[[], None]) -> Item:
    lab.progress(f"item {key}")
    since = time.monotonic()
    item = ITEMS[key](lab)
    done()
    return item.timed(command=f"{command} {key}", seconds=time.monotonic() - since)


def _check_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(out), found=error.strerror, expected="a folder that can be written") from None


def _text(result: Reproduction, out: Path) -> str:
    width = max(len(item.title) for item in result.items)
    lines = [f"{item.title:<{width}}  {item.verdict!s:<19} {item.seconds:6.0f} s" for item in result.items]
    return "\n".join([*lines, "", f"{result.seconds:,.0f} s. Report: {out / 'report.html'}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
