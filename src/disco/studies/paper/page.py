"""docs/reproduction.md, made from a run's JSON, so that it says what was measured and nothing else."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from disco.records.files import written_whole
from disco.studies.paper.result import MOST_PICTURES, Reproduction, as_json

PICTURES = "images"


def picture_name(key: str, place: int) -> str:
    return f"reproduction-{key}-{place}.png"


def page(result: Mapping[str, Any]) -> str:
    """The page of one run."""
    items: Sequence[Mapping[str, Any]] = result["items"]
    quick = result["extent"] != "full"
    parts = [
        "# The paper, figure by figure",
        f"Written by `{result['command']} --page docs/reproduction.md` from the figures in "
        "[reproduction.json](reproduction.json); do not edit. "
        f"This run took {_duration(result['seconds'])}; pieces kept from an earlier one cost no time. "
        "All data are simulated.",
        *(["**This is a quick run: small shops, and too few of them to judge by.**"] if quick else []),
        result["lead"],
        "A verdict is computed from the claims checked: an item *reproduces* when all of them hold, and *partly* when "
        "some do. When none does, it is *undecided* if the intervals leave room for all of them, and *does not "
        "reproduce* if they speak against one. Where the depth's encoding matters, γ = 20 decides, the reading of the "
        "paper's α = 20 that looks like its figures; γ = 2, the formula to the letter, the automatic choice and the "
        "smoothing spline stand beside it. Means have 95 % intervals over simulated retailers (seeds "
        f"{result['seeds'][0]} to {result['seeds'][-1]}), which the calibration has never seen. How it is done: "
        "[decision 080](decisions/080-reproduction.md); the simulations of policies: [bandits.md](bandits.md).",
        _markdown(
            ["Item", "Verdict", "Claims that hold", "Time, this run"],
            [
                [f"[{item['title']}](#{_anchor(item['title'])})", item["verdict"], item["claims"],
                 _duration(item["seconds"])]
                for item in items
            ],
        ),
        *(_item(item) for item in items),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _item(item: Mapping[str, Any]) -> str:
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
    from disco.reports.picture import save_png

    path.parent.mkdir(parents=True, exist_ok=True)
    for item in result.items:
        for place, chart in enumerate(item.charts[:MOST_PICTURES], start=1):
            save_png(chart, path.parent / PICTURES / picture_name(item.key, place))
    content = as_json(result)
    with written_whole(path.with_suffix(".json")) as unfinished:
        unfinished.write_text(
            json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
    with written_whole(path) as unfinished:
        unfinished.write_text(page(content), encoding="utf-8")
