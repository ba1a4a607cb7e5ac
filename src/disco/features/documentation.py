"""The page docs/features.md, written from the catalogue so that it cannot say anything else."""

from disco.features.catalogue import FEATURES, GROUPS, schema_hash

_OPENING = """# The features

Written by `./run docs` from `src/disco/features/catalogue.py`: change it there.

{count} features per customer, as of a date, from rows dated strictly before that date (midnight, UTC). Without a number
of days in its name or meaning, a feature covers the 365 days before the date. Counts and totals of nothing are 0; the
days since something that did not happen within the year are 366; the mean or share of nothing is unknown (null). When a
whole table is missing, every feature that needs it is null, with a warning. Money is in currency units; sums are exact,
whatever the order of rows and the number of threads.

Schema hash: `{schema}`. A network keeps the hash of the features it was trained on and refuses others.
"""


def features_page() -> str:
    """The whole page as Markdown."""
    parts = [_OPENING.format(count=len(FEATURES), schema=schema_hash(FEATURES))]
    for group in GROUPS:
        members = [feature for feature in FEATURES if feature.group == group]
        rows = "\n".join(f"| `{f.name}` | {f.meaning} | {f.unit} | `{f.formula}` |" for f in members)
        head = "| Feature | Meaning | Unit | Formula over measures |\n|---|---|---|---|"
        parts.append(f"## {group.capitalize()} ({len(members)})\n\n{head}\n{rows}\n")
    return "\n".join(parts)
