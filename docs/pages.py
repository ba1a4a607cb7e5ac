"""Pages of docs/ that are written from the catalogue of features, the declaration of tables, and the routes."""

from disco.features.catalogue import FEATURES, GROUPS, MEASURES, schema_hash
from disco.features.check import (
    CLIP_ALARM,
    CLIP_WATCH,
    EARLY_ALARM,
    EARLY_WATCH,
    EDGE_ALARM,
    EDGE_WATCH,
    FEWEST_ROWS,
    LINK_ALARM,
    LINK_WATCH,
    MOST_DEAD,
    PSI_ALARM,
    PSI_WATCH,
)
from disco.features.embedding import FEWEST_CUSTOMERS
from disco.features.habits import FEW_ROWS
from disco.features.snapshot import MOST_MOVED, MOST_MOVED_BY_CAMPAIGNS
from disco.features.training_rows import FEWEST_CODES, FEWEST_OF_A_KIND, FEWEST_PER_CAMPAIGN
from disco.features.training_set import MOST_LATE, MOST_UNSENT
from disco.records.maturity import GRACE_DAYS, UNKNOWN_EXPIRY_DAYS
from disco.records.tables import LINES, SCHEMAS, ColumnSchema, TableSchema

_FEATURES = """# The features

Written by `./run docs` from `src/disco/features/catalogue.py`: change it there.

There are {count} features per customer, as of a date, from rows dated strictly before that day begins in the shop. A
feature covers the 365 days before the date unless its name or meaning gives another number of days. Counts and totals
of nothing are 0. The days since something that did not happen within the year are 366. The mean or share of nothing
is unknown (null). When a whole table is missing, every feature that needs it is null, with a warning. Money is in
currency units. Sums are exact, whatever the order of rows and the number of threads.

Schema hash: `{schema}`. A network stores the hash of the features it was trained on, and other features are refused.
"""

_OWN = """## Your own features

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
coalesce, greatest, least, sqrt, ln, exp, abs, sign, floor, power). It uses one customer's row and nothing else, so no
feature can use rows after the as-of date. A result that is not finite is unknown (null). `orders_365d` cannot be
dropped, because it shows who has a history. The definitions are stored in the feature file and in the network trained
on it, and everything that uses the network builds its features from them.

Measures: {measures}.
"""
_ENGAGEMENT = f"""## Codes that were sent

A network with the heads `level+slope+engagement` (the default) also learns who uses a code. `disco train context`
takes these rows from the table `codes`: every code that was sent in the window to a customer with a purchase in the
year before, used or not, with the customer's features on the first day of the window. A code counts once it has
matured, and it is used when `redeemed_at` is before that. Codes of the shop's own campaigns mature {GRACE_DAYS} days
after their campaign has ended, as they do for `disco learn`; those of a recalled campaign never do. The table has no
expiry of codes that other systems sent: they mature {UNKNOWN_EXPIRY_DAYS} days after `sent_at`. The setting
`maturity_days` (`--maturity-days`) puts so many days after `sent_at` in the place of both rules. Codes that have not
matured by the newest day in `orders` and `codes` are left out. Where more than {MOST_LATE:.0%} of the codes that were
used were used after they had counted as unused, a warning says so
([decision 161](decisions/161-when-codes-mature.md)). Each `campaign_id` with {FEWEST_PER_CAMPAIGN} codes or
more has a constant of its own, and the smaller ones share one. In Python they are `disco.CodesSent(X, depth, used,
campaign)`, which `disco.training_set` returns as `.codes`, for `ContextNetwork.fit(…, codes=…)`.

The engagement score h of a customer is linear in their context, so that nothing more is kept per customer. It lies on
the scale of a logit, and its mean over the codes of training is 0. `ContextNetwork.engagement_score` returns it.
Customers without a purchase in the year have no score (NaN).

At least {FEWEST_CODES} matured codes are needed, {FEWEST_OF_A_KIND} of them used and as many not. With fewer the
network is fitted with `level+slope`, and a warning says so. Where more than {MOST_UNSENT:.0%} of the orders with a
code name one that `codes` does not have, a warning says that too: such codes were used but, by the tables, never
sent.

## Habits

With fewer than {FEW_ROWS:,} training orders, or without enough codes, `disco train context` puts two habits of each
customer beside the learned units: ln((codes redeemed + 1)/(codes received + 6)) and the mean basket, both as straight
lines over scaled features. The context then has two numbers more. The basket model weighs them like all others; the
engagement score becomes a mixture of the learned one and of the first habit, weighed by codes of the customers kept
out of training, or is that habit alone ([decision 168](decisions/168-habits-in-small-shops.md)). `habits: false` in
disco.yaml leaves them out; in Python they are `ContextNetwork(habits=True)`.

## Snapshots: the day's means

Campaigns move the features themselves. After two campaigns within a month everybody has received and used more codes,
and a network that took this for a change of the customers would expect too much of all of them. So contexts are
centred: from each scaled input the day's mean over the shop's customers is subtracted, and the mean on the day of
training is added. Unknown values stay unknown.

The day's `Snapshot` is computed from all customers with a purchase in the year, whoever is in the campaign. It is
kept in the metadata of every feature table, so it stays with the features of a campaign, and its hash is among the
inputs of a plan (`snapshot`). Its sums are exact integers: any order of the customers, in any number of parts, gives
the same bytes. It belongs to no network, so `disco learn --rebuild` uses the one kept with each campaign's features.
Features that an earlier version of the program kept have none: their contexts are not centred, and the command names
these campaigns in a warning.
Late arrivals are centred on the day they arrive. With n customers the correction is multiplied by n / (n + 100), and
with fewer than {FEWEST_CUSTOMERS} there is none. Networks without an engagement head are not centred.

Where the mean of a feature has moved by more than {MOST_MOVED:g} standard deviations of training, `disco plan` warns
and names the feature. A column in another unit, or a table that is only half there, looks like this. Features of
codes and the days since something happened, which every campaign moves, may move by {MOST_MOVED_BY_CAMPAIGNS:g}.
"""
_CHECKS = f"""## Checking features

`disco check` compares features with those that a network was trained on, and ends with exit 1 when a check failed.
`disco.features.check_context(network, table)` is the same in Python. Features are compared over customers with a
purchase in the year, since the network was trained on such customers alone.

| Check | Watched | Failed |
|---|---|---|
| `columns` | | one is missing, doubled, of text, or holds an infinity |
| `schema` | | another catalogue than the network's |
| `history` | fewer than half of the customers bought in the year | no customer did |
| `unit` | | values many times those of training, as pence for pounds |
| `ids`: orders with visits, orders with used codes (rank correlation) | below {LINK_WATCH:g} | below {LINK_ALARM:g} |
| `ids`: customers with an order from before they joined | {EARLY_WATCH:.0%} | {EARLY_ALARM:.0%} |
| `constant` | varies now, did not in training | varied in training, is one value or null for everybody now |
| `drift` (PSI over the deciles of training, and missing) | {PSI_WATCH:g} | {PSI_ALARM:g} |
| `unseen`: nulls where training had none | {EDGE_WATCH:.0%} of customers | {EDGE_ALARM:.0%} |
| `range`: more than a robust sd beyond all values of training | {EDGE_WATCH:.0%} | {EDGE_ALARM:.0%} |
| `clipped`: a unit of the context at its limit of ±4 | {CLIP_WATCH:.0%} | {CLIP_ALARM:.0%}, or the same for all |
| `dead units`: constant in training, so always 0 | any | {MOST_DEAD:.0%} of the units |

With fewer than {FEWEST_ROWS:,} customers only columns, history and constant features are checked, because so few
customers differ from training by chance. All features are numbers, so there are no unseen categories. The nearest
equivalents are a null where training had none, and a value outside the range of training. The thresholds of PSI are
above the customary 0.1 and 0.25, because a shop with a campaign a month moves by up to 0.2 within a year without any
fault. Features of codes, and the days since something happened, are not judged by `drift`, because every campaign
moves them; by `unseen` and `range` they are watched and never fail. `tenure_days` is compared with training among
those who were customers then, and as it was then: customers who age and customers who join are no drift. Where the
orders went back less than a year on the day of training, features that look back over more than half of that time
grow until the year is whole. They are watched and never fail; those of shorter periods are judged as always. `ids`
finds tables whose customer ids do not belong together, which leaves every distribution as it was.
`./run drill year` counts false alarms and planted faults over ten simulated shops.
"""


def features_page() -> str:
    """The whole page as Markdown."""
    parts = [_FEATURES.format(count=len(FEATURES), schema=schema_hash(FEATURES))]
    for group in GROUPS:
        members = [feature for feature in FEATURES if feature.group == group]
        rows = "\n".join(f"| `{f.name}` | {f.meaning} | {f.unit} | `{f.formula}` |" for f in members)
        head = "| Feature | Meaning | Unit | Formula over measures |\n|---|---|---|---|"
        parts.append(f"## {group.capitalize()} ({len(members)})\n\n{head}\n{rows}\n")
    return "\n".join([*parts, _OWN.format(measures=", ".join(f"`{name}`" for name in MEASURES)), _ENGAGEMENT, _CHECKS])


_TABLES = """\
# The tables a retailer brings

Each table is `TABLE.parquet`, `TABLE.csv`, `TABLE.xlsx` (its first sheet), a folder `TABLE/` of Parquet parts, or a SQL
query through a database URL (`data:` and `queries:` in `disco.yaml`). Tables can also be made of other files, such as
order lines, see below. `disco init SHOP/` writes an example of each. `disco validate DIR` names every problem with its
row.

- **Ids** are integers below 2⁶³, or text of at most 1,000 bytes, of one kind in all tables; 17 and "17" are the same
  customer. Ids from CSV and SQL are text, so leading zeros are kept.
- **Money** is decimal or float in currency units (12.34; a whole number is whole units, not pennies), at most 10¹³ (or
  10¹⁵ minor units), in the `currency` of `disco.yaml`. It is rounded to the minor unit of that currency, once. A
  checked table has it in integer minor units, in a column with a name of its own (`full_price_minor`).
- **Names** of columns match whatever their case. `columns` in `disco.yaml` says what yours are called, per table, our
  name first: `columns: {orders: {full_price: Warenwert, ordered_at: Zeit}}`. It holds for CSV, Parquet and SQL, and for
  every command that reads the tables (`validate`, `features`, `train`, `plan`, `check`, `ingest`, `results`).
- **Times** without a zone are those of the `time_zone` of `disco.yaml`, see below. All times of a column have a zone,
  or none has. Some columns may have one and others not where `time_zone` is another than UTC; in UTC that is refused,
  because nothing then says where the others are from. A time at midnight may stand for a date. Dates lie between 1900
  and `--as-of` (default: today).
- **Text** in a column of numbers or dates is read as from CSV, whatever file it comes in: `csv.dates` holds for text in
  Parquet, workbooks, queries and databases, too, and `csv.decimal` for text in Parquet.
- **CSV** has one header line; an empty cell is null. Commas, semicolons, tabs or vertical bars between the columns and
  UTF-8 or UTF-16 (with its byte-order mark) are found in the file, and `disco validate` says what was found. Numbers
  are `12.50`, dates `2026-03-01` or `2026-03-01T14:05:00`; other forms are never guessed, see below.
- **Rows** of CSV and text files are numbered as in a spreadsheet, in every message and in quarantine: the header is row
  1. Rows of Parquet files, queries and data frames have no header: the first is row 1.
- **Sizes** are read before rows: at most 1,000 columns, 2,000,000,000 rows in a table, 5,000,000 outcomes in a file,
  256 MB of text in one column of one row group of a Parquet file, 8 MB in a row of a CSV file, and 10,000 rows of a CSV
  file with too many or too few cells. What is sent to the service has at most 5,000,000 rows, or 500,000 outcomes.
- Further columns are allowed everywhere. Those of `customers` can be used in `eligible:` of a plan (from CSV they
  are text).

## Orders summed from lines

    lines: {table: lines.csv, order_id: InvoiceNo, customer_id: CustomerID, ordered_at: InvoiceDate,
            quantity: Quantity, unit_price: UnitPrice, customer_columns: [Country]}

`lines` sums the lines of orders, or the payments for them, into `orders`; the file lies in the folder of the tables,
and the names are those of its columns. Without a table of customers it also makes one: who ordered, with the day of the
first order as `joined_on` and the `customer_columns` of the last one. A table of customers without `joined_on` gets
that day.

- An order is worth the sum of its lines. Lines without a customer are left out.
- An order whose lines add to less than 0 is a cancellation. It becomes a row of `returns`: of the order that its number
  names (`C1234` or `C-1234` of `1234`), else of the customer's last order before it that was worth as much. One of no
  known order is left out.
- `disco validate` says how many lines, orders, cancellations and guests there were. A column that cannot be meant is
  refused with the setting to write: orders with several customers, totals mostly below 0, two currencies.

LINES_COLUMNS
## Tables by SQL over files

    queries:
      orders: SELECT no AS order_id, buyer AS customer_id, min(day) AS ordered_at, sum(total) AS full_price
              FROM 'sales.xlsx' WHERE total > 0 GROUP BY ALL

`queries` makes a table by one SELECT over CSV, Parquet or Excel files of the folder, which it names in quotes. DuckDB
runs it. In columns of text where every cell is a number or a date (as `csv` says they are written), cells are numbers
or times; ids with zeros in front stay text. A query sees the files that it names and no others, reaches no network,
may take ten minutes, and gives at most 100,000,000 rows.

## Currency and time zone

    currency: EUR                 # a code of ISO 4217; default: GBP
    time_zone: Europe/Berlin      # a name of the IANA database; default: UTC

- `currency` says what all money is in. Amounts are kept in its minor units: cents for EUR, whole yen for JPY,
  thousandths of a dinar for KWD. Every table, plan, page and explanation shows its symbol and its decimals, and every
  JSON form with money names its code (`currency`). A budget finer than the minor unit is refused.
- `time_zone` says where the shop's clock is. Times without a zone are read by that clock; times with a zone are
  converted to it. Days begin at midnight there: `as_of`, the days of features, `joined_on`, `today`, and `valid.from`
  of a plan, which may also have a time of day (`2026-12-04T08:00`). Exported times have the offset of their day.
- The days on which clocks change have 23 or 25 hours. An hour that is shown twice is read as the first of the two;
  write the offset (`+01:00`) to mean the second. A time that no clock shows is read with the offset before the change:
  02:30 in the night of the change is 03:30. A code valid for 14 days from 08:00 ends at 08:00, whatever changed.
- In a zone that changes its clocks, a return may precede its order by up to one hour on the clock, and a redemption
  the sending of its code, without being reported: the repeated hour cannot be told apart.
- Neither can change once a campaign was launched, because amounts and days that are kept would mean something else.
  Before that, a plan that was decided with another one has to be decided again.

## How your CSV files are written

`csv` in `disco.yaml` says how numbers, dates and text are written:

    csv: {delimiter: ";", decimal: ",", dates: "%d.%m.%Y", encoding: cp1252}

| Files from | Setting |
|---|---|
| Excel in Germany, Austria | `csv: {decimal: ",", dates: "%d.%m.%Y", encoding: cp1252}` |
| Excel in France | `csv: {decimal: ",", dates: "%d/%m/%Y", encoding: cp1252}` |
| Excel in the United Kingdom | `csv: {decimal: ".", dates: "%d/%m/%Y", encoding: cp1252}` |
| Excel in the United States | `csv: {decimal: ".", dates: "%m/%d/%Y", encoding: cp1252}` |

- `decimal` is the decimal mark. The other mark, a space or an apostrophe may then group thousands (`1.234,50`).
  Without it a comma in a number is refused, and so is a column such as `1.234` in a file with semicolons, where the
  point may mean either: the message says which setting to write. A number that contradicts the setting is refused, too.
- `dates` is a strftime format of day, month and year (`%d`, `%m`, `%b`, `%Y`, `%y`). A time of day such as `14:05` or
  `14:05:09` may follow. Dates such as `2026-03-01` are always read.
- `encoding` is a name such as `cp1252` ("CSV" of Excel in Western Europe), for text that is not UTF-8.

## Purchases: an export of your orders is enough

`disco ingest CAMPAIGN FILE` needs the code, the customer, the time and the amount of each order; what else the file has
is left alone. Columns may have the names that `columns.orders` gives them. In such a file

- every row is a purchase of the campaign that the command names. Orders without a code, or with the code of another
  campaign, are set aside as unmatched, so the export need not be cut to the campaign;
- the event is `order_id`, where the file has it. Without it the event is made of the campaign, the customer, the code
  and the time (the first 32 hexadecimal digits of SHA-256, with the time in UTC microseconds and U+001F between the
  parts). The same order therefore counts once, however many exports contain it, and two rows that agree in customer,
  code and time are one purchase. Two rows of one order with different amounts are reported: give one row per order;
- refunds and corrections need `event_id`, `kind` and `refers_to`, as the table `outcomes` below has them.

Kinds, codes and campaigns match whatever their case, as long as only one can be meant.

`full_price` is the value of the basket before the discount. Amounts after it are the most common mix-up, so `disco
ingest` warns where most of the purchases that are also in `orders` (by code or order id) have the order's full price
less the discount, or, where they are not in `orders` yet, where the same customers spent clearly more before; `disco
validate` warns where orders with a code have the same `full_price` and `paid`.

## Lists of customers

A list of customers (of people who unsubscribed, say) is a `.txt`, `.csv` or `.parquet` file below `lists/` or `data/`
with one customer id per line, or a table with a column `customer_id` (or what `columns.customers` calls it). A first
line that is no customer's id, while other lines are, is read as a header. Ids that name no customer are counted. Ids
that a spreadsheet has changed, such as `1.0` for 1 or 7 for 007, are refused with the id that was probably meant.
"""


def tables_page() -> str:
    """Markdown; `docs/tables.md` is exactly this text."""
    lines = "\n".join(["| Column of `lines` | Raw type | Meaning |", "|---|---|---|", *map(_line, LINES.columns), ""])
    return "\n".join([_TABLES.replace("LINES_COLUMNS", lines), *(_section(schema) for schema in SCHEMAS.values())])


def _line(column: ColumnSchema) -> str:
    needed = ", may be left out" if column.optional else ""
    return f"| `{column.name}` | {column.kind} | {column.meaning}{needed} |"


def _section(schema: TableSchema) -> str:
    key = " and ".join(f"`{name}`" for name in schema.key)
    lines = [
        f"## {schema.name}",
        "",
        schema.meaning + (f" No two rows share {key}." if key else ""),
        "",
        "| Column | Raw type | May be empty | Refers to | Meaning | Canonical |",
        "|---|---|---|---|---|---|",
        *(_row(column) for column in schema.columns),
        "",
    ]
    return "\n".join(lines)


def _row(column: ColumnSchema) -> str:
    reference = f"`{column.refers_to.table}.{column.refers_to.column}`" if column.refers_to else ""
    meaning = column.meaning + (f": {', '.join(column.choices)}" if column.choices else "")
    canonical = f"`{column.canonical_name}` {column.kind.canonical}"
    empty = "yes" if column.nullable else "no"
    if column.optional:
        empty += ", or absent" if column.nullable else ", but may be absent"
    return f"| `{column.name}` | {column.kind} | {empty} | {reference} | {meaning} | {canonical} |"


_ROLES = """# Routes and roles

Written by `./run docs` from the routes themselves: the least role that may call each of them. Each role may do what
those before it may: viewer, planner, approver, admin. A public route needs neither a key nor a session. Where only some
requests of a route need more, its description says so (`/docs` of the service). What the roles mean is in
[people.md](people.md).
"""


def roles_page() -> str:
    """Who may call what."""
    from disco.entrypoints.service.app import roles

    parts = [_ROLES.rstrip()]
    needed = {(path, method): role for (method, path), role in roles().items()}
    for title, is_api in (("The API", True), ("The console and the service itself", False)):
        parts += ["", f"## {title}", "", "| Route | Role |", "|---|---|"]
        parts += [
            f"| `{method} {path}` | {role} |"
            for (path, method), role in sorted(needed.items())
            if path.startswith("/api/") is is_api
        ]
    return "\n".join(parts) + "\n"
