"""What `disco reproduce` does: the paper's items one after the other, then the report."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from disco.records.errors import InputError, UsageError
from disco.reports.picture import find_browser
from disco.studies.cache import Progress, worker_pool
from disco.studies.paper import (
    ab,
    campaigns,
    demand,
    elasticity,
    encodings,
    explanation,
    models,
    plays,
    policies,
    rbf,
    ulcc,
    uncertainty,
)
from disco.studies.paper.item import Item
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.paper.report import Reproduction, as_json, save, write_page

#: In the order of the paper: each key with the function that makes its item.
ITEMS: Mapping[str, Callable[[Lab], Item]] = {
    "rbf": rbf.run,
    "plays": plays.run,
    "uncertainty": uncertainty.run,
    "elasticity": elasticity.run,
    "encodings": encodings.run,
    "demand": demand.run,
    "models": models.run,
    "campaigns": campaigns.run,
    "warm": policies.run_warm,
    "cold": policies.run_cold,
    "ulcc": ulcc.run,
    "explanation": explanation.run,
    "ab": ab.run,
}
CACHE = "cache"


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The keys asked for, in the paper's order; all where none was named."""
    unknown = sorted(set(only) - set(ITEMS))
    if unknown:
        raise UsageError("--only", found=", ".join(unknown), expected=f"some of {', '.join(ITEMS)}")
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
        command=" ".join([command, *(f"--only {key}" for key in only)]),
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
    return item.timed(command=f"{command} --only {key}", seconds=time.monotonic() - since)


def _check_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(out), found=error.strerror, expected="a folder that can be written") from None


def _text(result: Reproduction, out: Path) -> str:
    width = max(len(item.title) for item in result.items)
    lines = [f"{item.title:<{width}}  {item.verdict!s:<19} {item.seconds:6.0f} s" for item in result.items]
    return "\n".join([*lines, "", f"{result.seconds:,.0f} s. Report: {out / 'report.html'}"])
