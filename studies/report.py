"""A finished run: one HTML report, its JSON, and the page docs/reproduction.md, which is made of that JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disco.records.files import written_whole
from disco.views.page import Fact, Facts, Report, Section
from disco.views.table import Table
from studies.item import Check, Item, ItemVerdict, checks_table, tally
from studies.lab import ReproductionSettings, RunSize

MOST_PICTURES = 3  # per item
PICTURES = "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A finished run."""

    settings: ReproductionSettings
    command: str  # as a reader would type it
    seconds: float
    items: tuple[Item, ...]

    def count(self, verdict: ItemVerdict) -> int:
        return sum(item.verdict is verdict for item in self.items)


def report(result: Reproduction) -> Report:
    """One page: the verdicts, then for every item the paper's claim, our figures, and why."""
    return Report(
        title="The paper, figure by figure",
        lead=as_json(result)["lead"],
        sections=(_summary(result), *(_section(item) for item in result.items)),
        footer=f"Made by `{result.command}` in {result.seconds:,.0f} s. All data are simulated; no study was tuned to "
        "a result, and the retailer's settings were frozen before any of this was measured.",
    )


def _lead(verdicts: Sequence[str]) -> str:
    """The finding in one sentence.

    >>> _lead(["reproduces", "partly", "undecided"])
    '1 of 3 figures and tables reproduces, 1 partly; 0 do not, 1 undecided.'
    """
    whole, part, unknown, none = (verdicts.count(str(verdict)) for verdict in ItemVerdict)
    return (
        f"{whole} of {len(verdicts)} figures and tables reproduce{'s' if whole == 1 else ''}, {part} partly; "
        f"{none} do not, {unknown} undecided."
    )


#: The product's own network has heads beyond the paper's, and its belief has a rate of engagement per customer.
ENGAGEMENT_USED = (
    "Networks have the paper's head (`level`) and everybody has one engagement rate per depth, as in the paper, unless "
    "a table names another head."
)


def _extent(*, environments: int, customers: int, is_full: bool) -> str:
    """How much was simulated."""
    found = f"{environments} simulated retailers of {customers:,} customers."
    return found if is_full else f"Quick run: {found} They are too small to judge by."


def _summary(result: Reproduction) -> Section:
    settings = result.settings
    rows = [(item.title, str(item.verdict), tally(item), f"{item.seconds:,.0f} s") for item in result.items]
    facts = Facts([Fact(str(verdict), f"{result.count(verdict)} of {len(result.items)}") for verdict in ItemVerdict])
    table = Table(caption="Verdicts", columns=("Item", "Verdict", "Claims that hold", "Time"), rows=rows)
    return Section(
        "Verdicts",
        _extent(environments=settings.environments, customers=settings.customers, is_full=settings.is_full) + "\n\n"
        "Each verdict is computed. An item reproduces when every claim checked holds, and partly when some do. When "
        "none holds, it is undecided if the intervals allow all of them, and does not reproduce if they rule one out. "
        "Where the depth's encoding matters, the main reading (γ = 20) decides and the others stand beside it. "
        f"{ENGAGEMENT_USED} Time is that of this run; results kept from an earlier run take none.",
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
        "extent": str(settings.size),
        "environments": settings.environments,
        "seeds": list(settings.seeds),
        "customers": settings.customers,
        "command": result.command,
        "seconds": round(result.seconds, 1),
        "lead": _lead([str(item.verdict) for item in result.items]),
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
        "band": None if check.band is None else [end if math.isfinite(end) else None for end in check.band],
        "holds": check.holds,
        "open": check.is_open,
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "caption": table.caption,
        "columns": [column.heading for column in table.typed_columns()],
        "rows": [list(row) for row in table.text()],
        "note": table.note,
    }


def save(result: Reproduction, out: Path) -> None:
    """report.html and result.json, each whole or not at all."""
    report(result).save(out / "report.html")
    _write(out / "result.json", _json_text(result))


def _json_text(result: Reproduction) -> str:
    return json.dumps(as_json(result), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


# ---- docs/reproduction.md ------------------------------------------------------------------------------------------


def picture_name(key: str, place: int) -> str:
    return f"reproduction-{key}-{place}.png"


def page(result: Mapping[str, Any]) -> str:
    """The page of one run."""
    items: Sequence[Mapping[str, Any]] = result["items"]
    parts = [
        "# The paper, figure by figure",
        f"Written by `{result['command']} --page docs/reproduction.md` from the figures in "
        "[reproduction.json](reproduction.json); do not edit. "
        f"This run took {_duration(result['seconds'])}; results kept from an earlier run take no time. "
        "All data are simulated.",
        *([result["note"]] if result.get("note") else []),
        _lead([item["verdict"] for item in items])
        + " "
        + _extent(
            environments=result["environments"],
            customers=result["customers"],
            is_full=result["extent"] == RunSize.FULL,
        ),
        "Each verdict is computed from the claims checked. A claim holds when the whole 95% interval over retailers "
        "keeps its rule, it is open when only a part of the interval does, and it fails when none does. An item "
        "*reproduces* when all of its claims hold, and *partly* when some do. When none holds, it is *undecided* if "
        "all are open, and *does not reproduce* if one fails. Where the depth's encoding matters, γ = 20 decides, the "
        "reading of the paper's α = 20 that looks like its figures; γ = 2, the formula to the letter, the automatic "
        f"choice and the smoothing spline stand beside it. {ENGAGEMENT_USED} Means have 95% intervals over simulated "
        f"retailers (seeds {result['seeds'][0]} to {result['seeds'][-1]}), which the calibration did not use. How it "
        "is done: [decision 080](decisions/080-reproduction.md); the simulations of policies: "
        "[bandits.md](bandits.md).",
        _markdown(
            ["Item", "Verdict", "Claims that hold", "Time, this run"],
            [
                [f"[{item['title']}](#{_anchor(item['title'])})", item["verdict"], item["claims"],
                 _duration(item["seconds"])]
                for item in items
            ],
        ),
        *(_item_text(item) for item in items),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _item_text(item: Mapping[str, Any]) -> str:
    pictures = [
        f"![{chart['title']}]({PICTURES}/{picture_name(item['key'], place)})"
        for place, chart in enumerate(item["charts"][:MOST_PICTURES], start=1)
    ]
    tables = [
        f"**{table['caption']}.** {table['note']}".strip() + "\n\n" + _markdown(table["columns"], table["rows"])
        for table in item["tables"]
    ]
    return "\n\n".join(
        [
            f"## {item['title']}",
            f"**The paper:** {item['paper']}",
            f"**Verdict: {item['verdict']}** (claims that hold: {item['claims']}). {item['reason']}",
            item["why"],
            *pictures,
            *tables,
            f"    {item['command']}",
        ]
    )


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |" for line in lines)


def _anchor(title: str) -> str:
    """As the usual Markdown sites make it: lower case, no punctuation, hyphens for spaces.

    >>> _anchor("The A/B test (section 5)")
    'the-ab-test-section-5'
    """
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _duration(seconds: float) -> str:
    """
    >>> _duration(42.3), _duration(1500)
    ('42 s', '25 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def write_page(result: Reproduction, path: Path) -> None:
    """The page, its JSON beside it and the pictures below it; photographs of the report's own charts."""
    from studies.picture import save_png

    path.parent.mkdir(parents=True, exist_ok=True)
    for item in result.items:
        for place, chart in enumerate(item.charts[:MOST_PICTURES], start=1):
            save_png(chart, path.parent / PICTURES / picture_name(item.key, place))
    _write(path.with_suffix(".json"), _json_text(result))
    _write(path, page(as_json(result)))
