"""The page docs/features.md, written from the catalogue and the checks so that it cannot say anything else."""

from disco.features.catalogue import FEATURES, GROUPS, schema_hash
from disco.features.check import MOST_DEAD
from disco.features.check_rows import EDGE_ALARM, EDGE_WATCH
from disco.features.diagnostics import FEWEST_ROWS, PSI_ALARM, PSI_WATCH
from disco.features.measures import MEASURES

_OPENING = """# The features

Written by `./run docs` from `src/disco/features/catalogue.py`: change it there.

{count} features per customer, as of a date, from rows dated strictly before that date (midnight, UTC). Without a number
of days in its name or meaning, a feature covers the 365 days before the date. Counts and totals of nothing are 0; the
days since something that did not happen within the year are 366; the mean or share of nothing is unknown (null). When a
whole table is missing, every feature that needs it is null, with a warning. Money is in currency units; sums are exact,
whatever the order of rows and the number of threads.

Schema hash: `{schema}`. A network keeps the hash of the features it was trained on and refuses others.
"""

_OWN = """## Your own

`disco features … --catalogue features.yaml` (and `disco train context --tables … --catalogue features.yaml`) drops
features and adds others; both are optional:

    drop: [saves_365d, checkouts_365d]
    add:
      - name: orders_per_item
        group: purchases
        formula: orders_365 / nullif(items_365, 0)
        meaning: orders per item bought
        unit: ratio

A formula is made of the measures below, numbers, the four operations, comparisons, CASE, and a few functions (nullif,
coalesce, greatest, least, sqrt, ln, exp, abs, sign, floor, power). It sees one customer's row and nothing else, so no
feature can look past the as-of date. A result that is not finite is unknown (null). `orders_365d` cannot be dropped: it
tells who has a history. The definitions travel with the feature file and with the network trained on it, and everything
that uses the network builds its features from them.

Measures: {measures}.
"""
_CHECKS = f"""## Checking them

`disco check` looks at features through a trained network and ends with exit 1 when something failed;
`disco.features.check_context(network, table)` is the same in Python. Features are compared over customers with a
purchase in the year, since the network was trained on such customers alone.

| Check | Watched | Failed |
|---|---|---|
| `columns` | | one is missing, doubled, of text, or holds an infinity |
| `schema` | | another catalogue than the network's |
| `history` | fewer than half of the customers bought in the year | nobody did |
| `unit` | | values many times those of training, as pence for pounds |
| `constant` | varies now, did not in training | varied in training, is one value or null for everybody now |
| `drift` (PSI over the deciles of training, and missing) | {PSI_WATCH:g} | {PSI_ALARM:g} |
| `unseen`: nulls where training had none | {EDGE_WATCH:.0%} of customers | {EDGE_ALARM:.0%} |
| `range`: more than a robust sd beyond all values of training | {EDGE_WATCH:.0%} | {EDGE_ALARM:.0%} |
| `clipped`: a unit of the context at its limit of ±4 | {EDGE_WATCH:.0%} | {EDGE_ALARM:.0%}, or the same for all |
| `dead units`: constant in training, so always 0 | any | {MOST_DEAD:.0%} of the units |

With fewer than {FEWEST_ROWS:,} customers only columns, history and constant features are judged: so few differ from
training by chance. All features are numbers, so there are no categories to be unseen; a null that training never saw,
and a value outside its range, are the nearest things. The thresholds of PSI are the customary ones.
Features of codes are watched and never fail by `drift`, `unseen` or `range`: every campaign moves what customers have
received and used, away from what the network was trained on. Train it again once a few campaigns are over.
"""


def features_page() -> str:
    """The whole page as Markdown."""
    parts = [_OPENING.format(count=len(FEATURES), schema=schema_hash(FEATURES))]
    for group in GROUPS:
        members = [feature for feature in FEATURES if feature.group == group]
        rows = "\n".join(f"| `{f.name}` | {f.meaning} | {f.unit} | `{f.formula}` |" for f in members)
        head = "| Feature | Meaning | Unit | Formula over measures |\n|---|---|---|---|"
        parts.append(f"## {group.capitalize()} ({len(members)})\n\n{head}\n{rows}\n")
    return "\n".join([*parts, _OWN.format(measures=", ".join(f"`{name}`" for name in MEASURES)), _CHECKS])
