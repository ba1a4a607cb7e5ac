"""What is kept about single customers and may go: ids, contexts and features of those who are forgotten, raw rows.

A forgotten customer becomes one of whom nothing was known at the launch: another name, no features, and the context of
the population (zeros). Their purchases, codes and arm stay, so that every count, price and comparison stays true.

Customers who asked to be forgotten are known by the HMAC-SHA256 of their id as UTF-8 text, under the secret of the name
`forgotten`, in hexadecimal digits: nobody can read or guess the ids. The name in the place of an id is random,
recognisable, and the same wherever the customer appears: the text `forgotten-` and six hexadecimal digits; where ids
are integers, `_FIRST` plus the same number. Only one in 2⁴⁰ random integers looks like one of these names.
"""

import hmac
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from secrets import randbelow
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from disco.records.arrays import Flags, Integers
from disco.store.artefacts import index_of, rows_of
from disco.store.contexts import SqlArrivals
from disco.store.decisions import EVERYBODY_FORGOTTEN
from disco.store.ledger import packs_of, take_out
from disco.store.plans import matrix_of, table_of
from disco.store.rows import FORGOTTEN, CampaignRow, Session, is_whole
from disco.store.schema import (
    ARTEFACT_COLUMNS,
    EVERYTHING,
    approvals,
    campaigns,
    contexts,
    forgotten,
    jobs,
    late_decisions,
    metadata,
    microseconds,
    outcomes,
    plan_makers,
    plans,
    pool_codes,
    replies,
)

_RAW = pa.schema([("batch_number", pa.int64()), ("row", pa.int64()), ("raw", pa.string())])
_THEIRS = pa.schema(
    [*_RAW.remove(2), *((name, pa.string()) for name in ("customer_id", "event_id", "refers_to", "raw"))]
)
_NOTHING = "{}"  # raw is not null where a row was set aside, whatever is left of it
_IDS_PER_SEARCH = 200


# what people type, and what tells nothing else: another name may stand there without another meaning
_WRITTEN_BY_PEOPLE = {
    table: {column.name: column.info["personal"] for column in table.c if "personal" in column.info}
    for table in metadata.sorted_tables
    if any("personal" in column.info for column in table.c)
}
_OF_CUSTOMERS = (outcomes, late_decisions, pool_codes, forgotten)  # `replace` looks at each of their rows
_OF_PLANS = (plan_makers, approvals, plans)
# results and problems of jobs may quote rows of tables, and replies are what questions about customers were answered:
# whoever is named there, all of them go
_REMOVED_TEXTS = frozenset({jobs.c.result, jobs.c.problem, *replies.c})


_NAMES = 1 << 24
_TEXT = re.compile(r"forgotten-([0-9a-f]{6})")
_FIRST = -(1 << 63) + (0x5D15C0F0 << 24)


def new_name() -> int:
    """The number of a name, drawn at random; whoever uses it looks first whether it is taken."""
    return randbelow(_NAMES)


def as_text(name: int) -> str:
    """
    >>> as_text(255)
    'forgotten-0000ff'
    """
    return f"forgotten-{name:06x}"


def as_integer(name: int) -> int:
    return _FIRST + name


def is_forgotten(ids: "pa.Array | pa.ChunkedArray") -> Flags:
    """(n,) whether the customer of each id, integer or text, was forgotten.

    >>> is_forgotten(pa.array(["C1", as_text(7)])).tolist(), is_forgotten(pa.array([1, as_integer(7)])).tolist()
    ([False, True], [False, True])
    """
    if pa.types.is_integer(ids.type):
        found = pc.and_(pc.greater_equal(ids, _FIRST), pc.less(ids, _FIRST + _NAMES))
    else:
        found = pc.match_substring_regex(ids, f"^{_TEXT.pattern}$")
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.bool_)


def mentions(raw: str, customers: Collection[str]) -> bool:
    """Whether a row that was set aside, kept as JSON of its cells, names one of these customers.

    An id counts where it stands by itself: not within a longer word or number. An id of digits alone counts outside the
    column customer_id only as a whole cell, because prices and dates consist of digits, too.

    >>> mentions('{"customer_id": " C17", "code": "X"}', {"C17"}), mentions('{"code": "see C17!"}', {"C17"})
    (True, True)
    >>> mentions('{"customer_id": "C170"}', {"C17"}), mentions('{"full_price": "17.50"}', {"17"})
    (False, False)
    """
    try:
        cells = dict(json.loads(raw))
    except (ValueError, TypeError):
        return any(customer in raw for customer in customers)
    for customer in customers:
        alone = _alone(customer)
        for column, cell in cells.items():
            text = str(cell)
            if text.strip() == customer:
                return True
            if (column == "customer_id" or not customer.isdigit()) and alone.search(text):
                return True
    return False


class Renaming:
    """Other names in the place of ids, in texts that people wrote: names of drafts, sources, conditions of plans.

    An id counts where it stands by itself, as in `mentions`. An id of digits alone is given another name only as a
    whole text or between quotation marks, because another number may have the same digits.

    >>> names = Renaming({"C17": "forgotten-0000ff", "17": "-5"})
    >>> names.text("customer_id <> 'C17' and age > 17"), names.text("C170, 17.csv")
    ("customer_id <> 'forgotten-0000ff' and age > 17", 'C170, 17.csv')
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._by_word: dict[str, list[str]] = {}  # a word of each id: a text without it does not name them
        for customer in names:
            self._by_word.setdefault(next(iter(_WORD.findall(customer)), ""), []).append(customer)
        self.renamed: set[str] = set()
        """The customers whose id stood in one of the texts."""

    @property
    def customers(self) -> Collection[str]:
        """Whose ids are looked for."""
        return self._names.keys()

    def text(self, text: str) -> str:
        """The text with the other names."""
        for customer in self._near(text):
            changed = text
            for written in {customer, customer.replace("'", "''")}:
                if _is_number(customer):
                    changed = self._names[customer] if changed.strip() == written else changed
                    changed = changed.replace(f"'{written}'", f"'{self._names[customer]}'")
                else:
                    changed = _alone(written).sub(self._names[customer], changed)
            if changed != text:
                self.renamed.add(customer)
            text = changed
        return text

    def json(self, text: str) -> str:
        """A JSON text with the other names in all its texts and keys; unchanged, byte by byte, where there is none."""
        try:
            before = json.loads(text)
        except ValueError:
            return self.text(text)
        after = self._value(before)
        return text if after == before else json.dumps(after, allow_nan=False)

    def is_left(self, text: str) -> bool:
        """Whether a text still names one of the customers, as JSON or as it is."""
        return any(
            names_in_condition(text, customer)
            or text.strip() in (customer, json.dumps(customer))
            or (not _is_number(customer) and _alone(customer).search(text) is not None)
            for customer in self._near(text)
        )

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(part) for part in value]
        if isinstance(value, dict):
            return {self.text(key): self._value(part) for key, part in value.items()}
        return value

    def _near(self, text: str) -> Iterator[str]:
        for word in {"", *_WORD.findall(text)}:
            yield from self._by_word.get(word, ())


_WORD = re.compile(r"[0-9A-Za-z]+")


def _is_number(customer: str) -> bool:
    return re.fullmatch(r"-?[0-9]+", customer) is not None


def _alone(customer: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![0-9A-Za-z]){re.escape(customer)}(?![0-9A-Za-z])")


def names_in_condition(condition: str, customer: str) -> bool:
    """Whether a plan's condition has this customer's id, also where it leaves them out.

    An id counts as a text of SQL and, in a condition about customer_id, wherever it stands by itself; a whole number
    may have zeros around it. `customer_id > 10 AND age > 17` also names customer 17: a removed plan can be made again.

    >>> names_in_condition("customer_id <> 17", "17"), names_in_condition("age > 17", "17")
    (True, False)
    >>> names_in_condition("customer_id = 'C170'", "C17")
    False
    """
    if "'{}'".format(customer.replace("'", "''")) in condition:
        return True
    if "customer_id" not in condition.casefold():
        return False
    if re.fullmatch(r"-?[0-9]+", customer):
        alone = rf"(?<![0-9A-Za-z_.])0*{customer.lstrip('-').lstrip('0') or '0'}(?:\.0*)?(?![0-9A-Za-z_.])"
    else:
        alone = rf"(?<![0-9A-Za-z_]){re.escape(customer)}(?![0-9A-Za-z_])"
    return re.search(alone, condition) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What was found of some customers in one campaign, and replaced."""

    customers: frozenset[str]  # those with a decision or an outcome
    decisions: int
    outcomes: int  # rows that were theirs
    raw: int  # rows set aside of others that mentioned them


class SqlPersonal:
    """What is kept about single customers and may go. Whoever changes outcomes seals their batches again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def replace(self, campaign: str, names: Mapping[str, str]) -> Traces:
        """Put names in the place of these customers' ids, in everything that is kept of a campaign.

        Their contexts become those of the population, zeros, their features unknown; raw rows that mention them go.
        names: id → name, both as text. Evidence, and dispositions of the ledger, are the caller's business.
        """
        row = self._session.campaign_row(campaign)
        self._session.refuse_changed_state(row)
        SqlArrivals(self._session).remove_customers(campaign, set(names))
        launched = self._replace_launched(row, names)
        late = self._replace_late(row, names)
        written = self._replace_outcomes(row.number, names)
        raw = self._drop_raw(row.number, set(names))
        return Traces(
            customers=frozenset({*launched, *late, *written}),
            decisions=len(launched) + len(late),
            outcomes=sum(written.values()),
            raw=raw,
        )

    def rename_texts(self, names: Renaming) -> int:
        """Put the names into texts that people wrote: of jobs, schedules, drafts, and sources of batches. How many
        rows had one."""
        changed = 0
        for table, row, values in self._rows_to_rename(names):
            if "seal" in table.c and is_whole(table, row):
                self._session.set(table, row, **values)
            else:  # a damaged one stays so
                key = table.primary_key.columns[0]
                self._connection.execute(table.update().where(key == row[key.name]).values(values))
            changed += 1
        return changed

    def texts_of(self, names: Renaming) -> Iterator[tuple[str, str, str]]:
        """Table and column, key and text: each text that `rename_texts` would change, and each result or problem of a
        job and each kept reply that names one of the customers, all of which are removed when somebody is forgotten."""
        for table, row, values in self._rows_to_rename(names):
            for column in values:
                yield f"{table.name}.{column}", str(row[table.primary_key.columns[0].name]), row[column]
        for place, key, text in self._removed_texts():
            if text is not None and (names.is_left(text) or names.json(text) != text):
                yield place, key, text

    def texts_left(self, names: Renaming, *, removed_plans: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
        """Table and column → keys of the rows whose text names one of the customers also after `rename_texts`.

        removed_plans: plans that are removed with them, so that their rows do not count.
        """
        found: dict[str, list[str]] = {}
        for table in metadata.sorted_tables:
            if table in _OF_CUSTOMERS:
                continue
            texts = [
                column for column in table.columns if isinstance(column.type, sa.Text) and column not in _REMOVED_TEXTS
            ]
            key = table.primary_key.columns[0]
            for row in self._connection.execute(sa.select(key, *texts)).mappings() if texts else ():
                if table in _OF_PLANS and row["plan_id"] in removed_plans:
                    continue
                for column in texts:
                    text = row[column.name]
                    if text is not None and names.is_left(_renamed(column, text, names)):
                        found.setdefault(f"{table.name}.{column.name}", []).append(str(row[key.name]))
        return {place: tuple(keys) for place, keys in found.items()}

    def _rows_to_rename(self, names: Renaming) -> Iterator[tuple[sa.Table, Mapping[str, Any], dict[str, str]]]:
        """Rows in which people wrote an id that can have another name, with the columns that change."""
        for table, columns in _WRITTEN_BY_PEOPLE.items():
            for row in self._connection.execute(sa.select(table)).mappings().all():
                written = {name: row[name] for name in columns if row[name] is not None}
                values = {name: _renamed(table.c[name], text, names) for name, text in written.items()}
                changed = {name: value for name, value in values.items() if value != written[name]}
                if changed:
                    yield table, {**row}, changed

    def _removed_texts(self) -> Iterator[tuple[str, str, str | None]]:
        results = sa.select(jobs.c.number, jobs.c.result, jobs.c.result_artefact, jobs.c.problem)
        for number, result, artefact, problem in self._connection.execute(results):
            long = None if artefact is None else self._session.artefacts.get(artefact)["json"][0].as_py()
            yield "jobs.result", str(number), result if long is None else long
            yield "jobs.problem", str(number), problem
        for key, body in self._connection.execute(sa.select(replies.c.key, replies.c.body)):
            yield "replies.key", key, key
            yield "replies.body", key, None if body is None else bytes(body).decode(errors="replace")

    def plans_with(self, customers: Collection[str]) -> dict[str, frozenset[str]]:
        """Plans that were not launched, by id, with those of these customers they decide about or name."""
        asked = pa.array(sorted(customers), pa.string())
        found = {}
        for row in self._connection.execute(sa.select(plans).where(_not_launched())):
            condition = _condition(row.plan)
            theirs = {customer for customer in customers if names_in_condition(condition, customer)}
            ids = self._session.artefacts.get(row.decisions)["customer_id"].cast(pa.string())
            theirs.update(ids.filter(pc.is_in(ids, value_set=asked)).to_pylist())
            if theirs:
                found[row.plan_id] = frozenset(theirs)
        return found

    def plans_before(self, moment: datetime) -> tuple[str, ...]:
        """Ids of plans that were not launched, made before a moment."""
        old = sa.select(plans.c.plan_id).where(_not_launched(), plans.c.planned_at < moment)
        return tuple(sorted(self._connection.execute(old).scalars()))

    def remove_plan(self, plan_id: str) -> None:
        """Remove a plan that was not launched."""
        waiting = sa.select(plans.c.plan_id).where(plans.c.plan_id == plan_id, _not_launched())
        if self._connection.execute(waiting).all():
            for table in _OF_PLANS:
                for row in self._session.raw(table, "plan_id", plan_id):
                    self._session.remove(table, row)

    def drop_raw(self, campaign: str) -> int:
        """Empty the raw text of all rows set aside; dispositions and reasons stay. How many had one."""
        number = self._session.number(campaign)
        kept = sa.and_(outcomes.c.campaign_number == number, outcomes.c.raw != _NOTHING)
        return int(self._connection.execute(outcomes.update().where(kept).values(raw=_NOTHING)).rowcount)

    def drop_features(self, campaign: str) -> bool:
        """Drop the retained features: no other network can embed its customers then. Whether there were any."""
        row = self._session.campaign_row(campaign)
        self._session.refuse_changed_state(row)
        SqlArrivals(self._session).remove(campaign)
        dropped = False
        # late arrivals may have come since the features of the launch were dropped
        for table, key in ((plans, "plan_id"), (late_decisions, "campaign_number")):
            value = row.plan_id if table is plans else row.number
            for one in self._session.raw(table, key, value):
                if one["features"] is not None:
                    self._session.set(table, one, features=None)
                    dropped = True
        return dropped

    def taken(self, ids: Collection[str]) -> frozenset[str]:
        """Those of these ids that a customer or an outcome of any campaign has."""
        asked = pa.array(sorted(ids), pa.string())
        found: set[str] = set()
        for column in (outcomes.c.customer_id, late_decisions.c.customer_id):
            there = sa.select(column).distinct().where(self._session.database.among(column, asked))
            found.update(self._connection.execute(there).scalars())
        for pack in packs_of(self._session):
            found.update(pack.table["customer_id"].take(pa.array(pack.of_customers(asked))).to_pylist())
        for campaign in self._connection.execute(sa.select(campaigns.c.campaign)).scalars().all():
            row = self._session.campaign_row(campaign)
            rows = pa.array(self._launched_rows(row, asked))
            if len(rows):
                there = self._session.artefacts.get(row.decisions)["customer_id"].take(rows)
                found.update(there.cast(pa.string()).to_pylist())
        return frozenset(found)

    def named_artefacts(self) -> frozenset[str]:
        """Every artefact that a row names."""
        found: set[str] = set()
        for column in ARTEFACT_COLUMNS:
            found.update(self._connection.execute(sa.select(column).where(column.is_not(None))).scalars())
        return frozenset(found)

    def _launched_rows(self, row: CampaignRow, customers: pa.Array) -> Integers:
        artefacts = self._session.artefacts
        if row.customer_index is None:
            return np.zeros(0, np.int64)
        ids = artefacts.get(row.decisions)["customer_id"]
        return rows_of(artefacts.get(row.customer_index), ids, customers)

    def _replace_launched(self, row: CampaignRow, names: Mapping[str, str]) -> list[str]:
        """Customers of the launch among these; their rows of every artefact are replaced."""
        artefacts = self._session.artefacts
        rows = self._launched_rows(row, pa.array(sorted(names), pa.string()))
        late = self._session.raw(late_decisions, "campaign_number", row.number)
        after = np.array([one["row"] for one in late if one["customer_id"] in names], np.int64)
        of_networks = self._zero_contexts(row, np.concatenate([rows, after]))
        if not rows.size:
            return []
        decisions = artefacts.get(row.decisions)
        found: list[str] = decisions["customer_id"].take(pa.array(rows)).cast(pa.string()).to_pylist()
        mask = _mask(rows, decisions.num_rows)
        ids = pa.array([names[customer] for customer in found]).cast(decisions["customer_id"].type)
        renamed = _with(decisions, "customer_id", _replaced(decisions["customer_id"], mask, ids))
        unknown = pa.array(np.zeros(rows.size, np.bool_))
        renamed = _with(renamed, "known", _replaced(decisions["known"], mask, unknown))
        of_plan = {"decisions": artefacts.put(renamed), "contexts": of_networks[row.network]}
        if row.features is not None:
            features = artefacts.get(row.features)
            columns = [
                _replaced(column, mask, ids.cast(column.type))
                if name == "customer_id"
                else _replaced(column, mask, pa.nulls(rows.size, column.type))
                for name, column in zip(features.column_names, features.columns, strict=True)
            ]
            of_plan["features"] = artefacts.put(pa.table(columns, schema=features.schema), compressed=True)
        [plan] = self._session.raw(plans, "plan_id", row.plan_id)
        self._session.set(plans, plan, **of_plan)
        self._session.set(campaigns, row.cells, customer_index=artefacts.put(index_of(renamed["customer_id"])))
        return found

    def _zero_contexts(self, row: CampaignRow, rows: Integers) -> dict[str, str]:
        """In the contexts of every network, network → artefact; under that of the launch, late arrivals have their own
        in their rows."""
        if not rows.size:
            return {}
        made = {}
        for one in self._session.raw(contexts, "campaign_number", row.number):
            table = self._session.artefacts.get(one["artefact"])
            name = self._session.artefacts.put(_without_rows(table, rows[rows < table.num_rows]))
            self._session.set(contexts, one, artefact=name)
            made[one["network"]] = name
        return made

    def _replace_late(self, row: CampaignRow, names: Mapping[str, str]) -> list[str]:
        late = self._session.raw(late_decisions, "campaign_number", row.number)
        theirs = [one for one in late if one["customer_id"] in names]
        customers = [str(one["customer_id"]) for one in theirs]
        for one in theirs:
            self._session.set(
                late_decisions,
                one,
                customer_id=names[one["customer_id"]],
                known=False,
                context=bytes(len(bytes(one["context"]))),
                features=None if one["features"] is None else _NOTHING,
            )
        return customers

    def _replace_outcomes(self, number: int, names: Mapping[str, str]) -> dict[str, int]:
        """Rows replaced, per customer with one."""
        customers = pa.array(sorted(names), pa.string())
        self._unpack(number, customers)
        asked = self._session.database.among(outcomes.c.customer_id, customers)
        columns = [outcomes.c[name] for name in _THEIRS.names]
        theirs = sa.select(*columns).where(outcomes.c.campaign_number == number, asked)
        rows = self._session.database.select(self._connection, theirs, _THEIRS)
        received = rows.to_pylist()
        events = _event_names(received, names)
        for one in received:
            customer = one["customer_id"]
            one["customer_id"] = names[customer]
            one["event_id"], one["refers_to"] = (events.get((customer, one[key])) for key in ("event_id", "refers_to"))
            one["raw"] = None if one["raw"] is None else _NOTHING
        changed = pa.Table.from_pylist(received, schema=_THEIRS)
        self._session.database.update(self._connection, outcomes, changed, key=("batch_number", "row"))
        return Counter(rows["customer_id"].to_pylist())

    def _unpack(self, number: int, customers: pa.Array) -> None:
        """Move rows of these customers from packs to the database; the packs that had any are written anew."""
        for pack in list(packs_of(self._session, campaign=number)):
            places = pack.of_customers(customers)
            if places.size:
                rows = pack.table["row"].to_numpy()[places]
                take_out(self._session, pack, pack.at_rows(rows))
                keep = np.ones(pack.table.num_rows, np.bool_)
                keep[places] = False
                pack.replace(keep)

    def _drop_raw(self, number: int, customers: set[str]) -> int:
        """Empty rows set aside, of anybody, that mention one of these customers; how many."""
        columns = [outcomes.c[name] for name in _RAW.names]
        kept = sa.select(*columns).where(outcomes.c.campaign_number == number, outcomes.c.raw != _NOTHING)
        rows = self._session.database.select(self._connection, kept, _RAW)
        found: set[int] = set()
        ids = sorted(customers)
        for first in range(0, len(ids) if rows.num_rows else 0, _IDS_PER_SEARCH):
            some = ids[first : first + _IDS_PER_SEARCH]
            pattern = "|".join(_quoted(json.dumps(customer)[1:-1]) for customer in some)
            near = np.flatnonzero(pc.match_substring_regex(rows["raw"], pattern).to_numpy())
            found.update(int(place) for place in near if mentions(rows["raw"][int(place)].as_py(), some))
        aside = rows.take(pa.array(sorted(found), pa.int64())).select(["batch_number", "row"])
        for name in ("customer_id", "event_id", "refers_to", "code", "raw"):  # a mention may stand in any of them
            cell = pa.scalar(_NOTHING if name == "raw" else None, pa.string())
            aside = aside.append_column(name, pa.repeat(cell, aside.num_rows))
        self._session.database.update(self._connection, outcomes, aside, key=("batch_number", "row"))
        return int(aside.num_rows)


def _not_launched() -> sa.ColumnElement[bool]:
    return plans.c.plan_id.not_in(sa.select(campaigns.c.plan_id))


def _renamed(column: sa.Column[Any], text: str, names: Renaming) -> str:
    """The text as `rename_texts` writes it: unchanged in a column in which people do not write."""
    match column.info.get("personal"):
        case "json":
            return names.json(text)
        case "text":
            return names.text(text)
    return text


def _condition(plan: str) -> str:
    """The conditions of a plan, kept as JSON; of one that is damaged, all of it."""
    try:
        kept = json.loads(plan)
        shown = (kept.get("disclosure") or {}).get("where", "")
        return f"{kept['customers'].get('eligible', '')}\n{shown}"
    except (ValueError, TypeError, KeyError, AttributeError):
        return plan


def _event_names(rows: list[dict[str, Any]], names: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """(customer, event) → another name. An order's number leads to its customer in the retailer's own systems.

    The names sort as the events did, because the first event counts where two say the same of one moment.
    """
    found: dict[str, set[str]] = {}
    for row in rows:
        theirs = found.setdefault(row["customer_id"], set())
        theirs.update(event for key in ("event_id", "refers_to") if (event := row[key]) is not None)
    return {
        (customer, event): f"{names[customer]}.{place:08}"
        for customer, events in found.items()
        for place, event in enumerate(sorted(events))
    }


def _mask(rows: Integers, count: int) -> pa.Array:
    flags = np.zeros(count, np.bool_)
    flags[rows] = True
    return pa.array(flags)


def _replaced(column: pa.ChunkedArray, mask: pa.Array, values: pa.Array) -> pa.Array:
    """Other values where the mask says so. Nulls are zeros in memory; `if_else` leaves the old number under them."""
    return pc.replace_with_mask(column.combine_chunks(), mask, values)


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), column)


def _without_rows(table: pa.Table, rows: Integers) -> pa.Table:
    """Contexts in which these rows are the population's."""
    matrix = np.array(matrix_of(table))
    matrix[rows] = 0.0
    return table_of(matrix)


def _quoted(text: str) -> str:
    """For a regular expression of RE2, whatever the characters are."""
    return "".join(character if character.isalnum() else f"\\x{{{ord(character):x}}}" for character in text)


class SqlForgotten:
    """Customers who asked to be forgotten. Their ids are not kept, only hashes with a secret."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, customers: Iterable[str], *, at: datetime) -> None:
        """Remember that these were forgotten at this moment, perhaps again."""
        hashes = self._hashes(dict.fromkeys(customers))
        for row in [row for row in self._rows() if row["hash"] in hashes]:
            self._session.remove(forgotten, row)
        self._session.add(forgotten, *({"hash": text, "forgotten_at": at} for text in hashes))

    def among(self, customers: Iterable[str], *, since: datetime | None = None) -> frozenset[str]:
        """Those of these customers who were forgotten, at this moment or after it."""
        rows = self._rows()
        first = None if since is None else microseconds(since)
        found = {row["hash"] for row in rows if first is None or row["forgotten_at"] >= first}
        if not found:  # few were ever forgotten, and millions may be asked about
            return frozenset()
        wanted = list(dict.fromkeys(customers))
        return frozenset(customer for customer, text in zip(wanted, self._hashes(wanted), strict=True) if text in found)

    def _rows(self) -> list[dict[str, Any]]:
        """Everybody who was forgotten. SealError where the list is not what was kept: one who is missing would get a
        second code."""
        self._session.read_ahead(EVERYBODY_FORGOTTEN)
        rows: list[dict[str, Any]] = self._session.read_before(forgotten)["all"]
        self._session.refuse_incomplete(forgotten, EVERYTHING, rows)
        return rows

    def _hashes(self, customers: Iterable[str]) -> list[str]:
        salt = self._session.secret(FORGOTTEN)
        return [hmac.digest(salt, customer.encode(), "sha256").hex() for customer in customers]
