"""What `disco reproduce` does: items one after the other, then the report."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from disco.records.errors import InputError
from disco.reports.picture import find_browser
from disco.studies.paper.item import Item
from disco.studies.paper.lab import Lab, Progress, worker_pool
from disco.studies.paper.page import write_page
from disco.studies.paper.registry import chosen, module_of
from disco.studies.paper.result import Reproduction, as_json, save
from disco.studies.paper.settings import Settings

CACHE = "cache"


def reproduce(
    settings: Settings,
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
    with worker_pool(settings) as pool:
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
    item = module_of(key).run(lab)
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
