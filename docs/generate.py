"""Writes the pages of docs/ that are made from code (`./run docs`).

With --check, fails where one is out of date; with --pictures, also runs the demo and the tutorial's year and takes
pictures of their charts.
"""

import json
import sys
from pathlib import Path

import typer
from json_page import json_page
from pages import features_page, roles_page, tables_page

from disco.entrypoints.cli.app import make_app
from disco.entrypoints.service.documents import document_text

DOCS = Path(__file__).parent
sys.path.append(str(DOCS.parent))  # for the studies, which lie beside the package


def cli_page() -> str:
    """Every command with its help, as a terminal 80 columns wide would say it, without colours or boxes."""
    parts = [
        "# The command line",
        "",
        "Made from the commands themselves by `./run docs`. Every command takes `--json` (one JSON object on standard "
        "output) and `--quiet`.",
        "",
        "| Exit | Meaning |",
        "|---|---|",
        "| 0 | Done. |",
        "| 1 | Refused, or a check failed; nothing was changed unless the output says so. |",
        "| 2 | Wrong usage; nothing was changed. |",
        "| 3 | A defect of disco or a damaged file. With `DISCO_DEBUG=1` the traceback is shown. |",
        "| 4 | Done and kept, but a report of it could not be written; the message names what was done. |",
        "| 130 | Interrupted by Ctrl-C: what was committed before is kept, everything else was undone. |",
        "",
        "An error is a sentence on standard error; with `--json`, an object with `error`, `message` and `problems`. "
        "Characters of ids, codes and file names that would drive a terminal are written out, such as `\\x1b`, and "
        "long values are cut after 200 characters. An output in another encoding than UTF-8 gets plain letters for "
        "what it cannot show. Arguments and settings must be UTF-8.",
        "",
        "An output never replaces an input of the same command, the shop's database, disco.yaml, tables or plans; only "
        "`disco train context` replaces a context network. A device such as `/dev/stdout` is written to, and a "
        "symbolic link stays one: the file it points to is replaced.",
    ]
    group = typer.main.get_command(make_app())
    for name, command in _walk("disco", group):
        parts += ["", f"## `{name}`", "", *_described(command)]
    return "\n".join(parts) + "\n"


def _walk(name, command):
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    for part, child in children.items():
        yield from _walk(f"{name} {part}", child)


def _described(command):
    yield from (line.strip() for line in (command.help or "").strip().splitlines())
    yield ""
    yield "| Option | Meaning | Default |"
    yield "|---|---|---|"
    for parameter in command.params:
        names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.metavar or parameter.name.upper()}`"
        default = parameter.default
        shown = "" if default in (None, False, ...) or callable(default) else f"`{default}`"
        yield f"| {names} | {getattr(parameter, 'help', None) or ''} | {shown} |"
    if command.epilog:
        yield ""
        yield f"    {command.epilog.removeprefix('Example: ')}"


def reproduction_page() -> str:
    """The paper, figure by figure: from the figures that the last full run of `./run reproduce` recorded."""
    from studies.report import page

    return page(json.loads((DOCS / "reproduction.json").read_text(encoding="utf-8")))


PAGES = {
    "cli.md": cli_page,
    "json.md": json_page,
    "features.md": features_page,
    "tables.md": tables_page,
    "roles.md": roles_page,
    "reproduction.md": reproduction_page,
    "openapi.json": document_text,
}


def take_pictures() -> None:
    """The pictures of README and docs: photographs of the demo's own charts. Runs the demo; needs Chromium."""
    import tempfile

    from studies.picture import save_png

    from disco.entrypoints.demo.loop import run_demo
    from disco.entrypoints.demo.report import curve_chart, truth_chart

    with tempfile.TemporaryDirectory() as scratch:
        result = run_demo(customers=50_000, seed=7, folder=None, scratch=Path(scratch), progress=print)
    save_png(truth_chart(result), DOCS / "images" / "demo.png")
    save_png(curve_chart(result), DOCS / "images" / "demand.png")


def take_picture_of_the_year() -> None:
    """The picture of the tutorial: the forecasts of its year, run as printed there. Takes minutes; needs Chromium."""
    import tempfile

    from studies.picture import save_png

    from disco.entrypoints.python import Shop
    from disco.views.campaign_pages import campaigns_report
    from disco.views.charts import CurveChart

    sys.path += [str(DOCS.parent / "tests" / folder) for folder in ("drills", "support")]
    from year_drill import READ_OUT, make_year

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "year"
        make_year(folder, seed=7, customers=20_000)
        report = campaigns_report(Shop.open(folder / "shop").results(as_of=READ_OUT))
    charts = [item for section in report.sections for item in section.items if isinstance(item, CurveChart)]
    save_png(charts[0], DOCS / "images" / "year.png")


def main() -> int:
    if "--pictures" in sys.argv:
        take_pictures()
        take_picture_of_the_year()
    stale = [name for name, page in PAGES.items() if not _is_current(DOCS / name, page())]
    if "--check" in sys.argv:
        for name in stale:
            print(f"docs/{name} is out of date; run ./run docs")
        return 1 if stale else 0
    for name in stale:
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
    print("written: " + ", ".join(f"docs/{name}" for name in stale) if stale else "all pages are up to date")
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
