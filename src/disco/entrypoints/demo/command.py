"""What `disco demo` does: one run with its files, or many seeds with intervals over them."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from disco.entrypoints.demo.loop import DemoResult, Progress, code_secret, run_demo
from disco.entrypoints.demo.report import campaign_table, demo_json, demo_report, headline, learning_words
from disco.entrypoints.demo.shop import ARTEFACTS, DATABASE, NETWORK, SETTINGS, TABLES, complete_shop
from disco.records.errors import InputError
from disco.records.files import private_folder, temporary_folder, unfinished_folder, written_whole
from disco.views.formats import percent
from disco.views.table import Table

DEMO = Path("out/demo")
"""Where the demo writes, unless it is told otherwise."""
_OURS = frozenset(
    {"allocations", "report.html", "result.json", "seeds.json", TABLES, DATABASE, ARTEFACTS, NETWORK, SETTINGS}
)
_MARKS = frozenset({"result.json", "seeds.json"})  # every earlier run left one of them


def run_once(*, customers: int, seed: int, out: Path, progress: Progress) -> tuple[dict[str, Any], str]:
    """One run; report, allocations and raw tables replace those of an earlier run once everything is written."""
    _refuse_to_replace(out)
    shown, out = out, out.resolve()  # a link to a folder stays a link
    private_folder(out.parent)
    with unfinished_folder(out.parent) as fresh:
        result = run_demo(
            customers=customers, seed=seed, folder=fresh / "allocations", scratch=fresh, progress=progress
        )
        demo_report(result).save(fresh / "report.html")
        (fresh / "result.json").write_text(json.dumps(demo_json(result), indent=2) + "\n", encoding="utf-8")
        progress("launching one more campaign, to look around in")
        complete_shop(fresh, seed=seed, secret=code_secret(seed))
        if (out / "seeds.json").exists():  # of a run over many seeds, which took much longer
            shutil.copy(out / "seeds.json", fresh)
        if out.exists():
            shutil.rmtree(out)
        fresh.rename(out)
    table = campaign_table(result, codes_per_depth=True)
    parts = [table_text(table, columns=columns) for columns in (range(4), (0, *range(4, len(table.columns))))]
    parts += [_notes(result, table), _truth_words(result), f"Report: {shown / 'report.html'}"]
    text = "\n\n".join(parts)
    text += f"\nLook around in the simulated shop: disco serve --demo{'' if shown == DEMO else f' --shop {shown}'}"
    return demo_json(result) | {"report": str(shown / "report.html")}, text


def _notes(result: DemoResult, table: Table) -> str:
    """What the table rests on, and which campaigns missed their forecast."""
    missed = [
        campaign.name
        for campaign in result.campaigns
        if (forecast := campaign.decided.predicted_revenue) and not forecast.covers(campaign.decided.revenue)
    ]
    if not missed:
        return table.note
    names = " and ".join(missed)
    return f"{table.note} Actual revenue of {names} was outside its range; the report says what ranges do not cover."


def _refuse_to_replace(out: Path) -> None:
    """The folder of a run is replaced as a whole: it must not hold, or be, anything else."""
    if out.exists() and not out.is_dir():
        raise InputError(str(out), found="a file", expected="a folder for the report")
    there = sorted(path.name for path in out.iterdir()) if out.exists() else []
    foreign = [name for name in there if name not in _OURS] if _MARKS & set(there) else there
    if foreign or out.resolve() == Path.cwd():
        found = ", ".join(foreign[:4]) or "the current folder"
        fix = "Name another: an earlier run's files are replaced."
        raise InputError(str(out), found=found, expected="a new folder, or that of an earlier demo", fix=fix)


def _truth_words(result: DemoResult) -> str:
    head = "Expected value of the decisions (simulated), compared with the same codes assigned at random:"
    lines = [
        f"  campaign {campaign.name}: revenue {percent(judged.revenue_uplift, signed=True)}, "
        f"objective {percent(judged.objective_uplift, signed=True)} "
        f"({percent(judged.share_of_possible, decimals=0)} of the best possible gain)"
        for campaign in result.campaigns
        if (judged := campaign.judgement)
    ]
    return "\n".join([headline(result), "", head, *lines, f"  {learning_words(result)}"])


def run_many(
    *, customers: int, first_seed: int, seeds: int, out: Path, progress: Progress
) -> tuple[dict[str, Any], str]:
    """Several retailers, one seed each; uplift by truth with a 95% interval (Student's t) over them."""
    private_folder(out)  # a name that cannot be a folder is refused before the long work
    figures: dict[str, list[float]] = {}
    for seed in range(first_seed, first_seed + seeds):
        with temporary_folder("demo") as scratch:
            result = run_demo(customers=customers, seed=seed, folder=None, scratch=scratch, progress=progress)
        for campaign in result.campaigns:
            if judged := campaign.judgement:
                for name, figure in (
                    ("revenue by truth", judged.revenue_uplift),
                    ("objective by truth", judged.objective_uplift),
                    ("objective by truth, from whom", judged.uplift_by_whom),
                    ("objective by truth, from depth", judged.uplift_by_depth),
                    ("share of the oracle's gain", judged.share_of_possible),
                ):
                    figures.setdefault(f"{campaign.name}: {name}", []).append(figure)
            if campaign.revenue_uplift is not None:
                figures.setdefault(f"{campaign.name}: revenue realised vs control", []).append(
                    campaign.revenue_uplift.relative.value
                )
        first = result.campaigns[2].judgement
        if first is not None:
            gain = result.again.objective / first.objective - 1
            figures.setdefault("C decided again with later belief: objective", []).append(gain)
    summary = {name: _mean_and_ends(values) for name, values in figures.items()}
    with written_whole(out / "seeds.json") as unfinished:
        content = {"values": figures, "summary": summary}
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    width = max(map(len, summary))
    lines = [
        f"{seeds} simulated retailers of {customers:,} customers: mean and 95% interval over seeds.",
        "Uplifts compare with the same codes assigned at random, unless stated otherwise.",
        "",
    ]
    for name, (mean, low, high) in summary.items():
        ends = f"{percent(low, signed=True, decimals=2)} to {percent(high, signed=True, decimals=2)}"
        lines.append(f"{name:<{width}}  {percent(mean, signed=True, decimals=2):>9}  ({ends})")
    return {"simulated": True, "values": figures, "summary": summary}, "\n".join(lines)


def _mean_and_ends(values: list[float]) -> tuple[float, float, float]:
    """The mean of two figures or more, and the ends of its 95% interval (Student's t).

    >>> [round(figure, 3) for figure in _mean_and_ends([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / np.sqrt(len(values))
    half = float(t.ppf(0.975, len(values) - 1)) * float(error)
    return mean, mean - half, mean + half


def table_text(table: Table, *, columns: Iterable[int]) -> str:
    """Some columns of a table as plain text, figures to the right: all ten are wider than a terminal."""
    shown = list(columns)
    headings = [table.typed_columns()[place] for place in shown]
    rows = [[column.heading.strip() for column in headings], *([row[place] for place in shown] for row in table.text())]
    widths = [max(len(row[place]) for row in rows) for place in range(len(shown))]
    right = [column.unit is not None for column in headings]
    lines = [
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
