"""A finished run: its items, as one HTML report and as JSON."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disco.records.files import written_whole
from disco.reports import Fact, Facts, Report, Section, Table
from disco.studies.paper.checks import checks_table, tally
from disco.studies.paper.item import Check, Item, Verdict
from disco.studies.paper.settings import Settings

MOST_PICTURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    settings: Settings
    command: str
    seconds: float
    items: tuple[Item, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(item.verdict is verdict for item in self.items)


def report(result: Reproduction) -> Report:
    """One page: the verdicts, then every item with the paper's word, ours, and why."""
    return Report(
        title="The paper, figure by figure",
        lead=_lead(result),
        sections=(_summary(result), *(_section(item) for item in result.items)),
        footer=f"Made by `{result.command}` in {result.seconds:,.0f} s. All data are simulated; no study was tuned to "
        "a result, and the retailer's settings were frozen before any of this was measured.",
    )


def _lead(result: Reproduction) -> str:
    settings, total = result.settings, len(result.items)
    quick = (
        "" if settings.is_full else " This is the quick form: it shows what the report looks like, not what is true."
    )
    return (
        f"{result.count(Verdict.REPRODUCES)} of {total} figures and tables reproduce, {result.count(Verdict.PARTLY)} "
        f"in part, {result.count(Verdict.DOES_NOT)} not, {result.count(Verdict.UNDECIDED)} undecided, on "
        f"{settings.environments} simulated retailers of "
        f"{settings.customers:,} customers each.{quick}"
    )


def _summary(result: Reproduction) -> Section:
    rows = [(item.title, str(item.verdict), tally(item), f"{item.seconds:,.0f} s") for item in result.items]
    facts = Facts([Fact(str(verdict), f"{result.count(verdict)} of {len(result.items)}") for verdict in Verdict])
    table = Table(caption="Verdicts", columns=("Item", "Verdict", "Claims that hold", "Time"), rows=rows)
    return Section(
        "Verdicts",
        "A verdict is computed: an item reproduces when every claim checked holds, and partly when some do. When none "
        "does, it is undecided if the intervals leave room for all of them, and does not reproduce if they speak "
        "against one. Where the depth's encoding matters, the main reading decides (γ = 20) and the others stand "
        "beside it. Time is that of this run; pieces kept from an earlier one cost none.",
        (facts, table),
    )


def _section(item: Item) -> Section:
    text = f"The paper: {item.paper}\n\nVerdict: {item.verdict}. {item.reason}\n\n{item.why}"
    return Section(item.title, text, (*item.charts, checks_table(item), *item.tables))


def as_json(result: Reproduction) -> dict[str, Any]:
    """The run for machines; docs/reproduction.md is made from it."""
    settings = result.settings
    return {
        "simulated": True,
        "extent": str(settings.extent),
        "environments": settings.environments,
        "seeds": list(settings.seeds),
        "customers": settings.customers,
        "command": result.command,
        "seconds": round(result.seconds, 1),
        "lead": _lead(result),
        "items": [_item(item) for item in result.items],
    }


def _item(item: Item) -> dict[str, Any]:
    return {
        "key": item.key,
        "title": item.title,
        "paper": item.paper,
        "verdict": str(item.verdict),
        "claims": tally(item),
        "reason": item.reason,
        "why": item.why,
        "verdict_by_reading": {reading: str(verdict) for reading, verdict in item.verdict_by_reading.items()},
        "command": item.command,
        "seconds": round(item.seconds, 1),
        "checks": [_check(check) for check in item.checks],
        "charts": [{"title": chart.title, "subtitle": chart.subtitle} for chart in item.charts],
        "tables": [_table(table) for table in (checks_table(item), *item.tables)],
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "claim": check.claim,
        "reading": check.reading,
        "paper": check.paper,
        "mean": check.ours.mean,
        "half_width": check.ours.half_width,
        "values": list(check.ours.values),
        "rule": check.rule,
        "holds": check.holds,
        "open": check.is_open,
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "caption": table.caption,
        "columns": [column.heading for column in table.headings()],
        "rows": [list(row) for row in table.text()],
        "note": table.note,
    }


def save(result: Reproduction, out: Path) -> None:
    """report.html and result.json, each whole or not at all."""
    report(result).save(out / "report.html")
    with written_whole(out / "result.json") as unfinished:
        unfinished.write_text(
            json.dumps(as_json(result), indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
