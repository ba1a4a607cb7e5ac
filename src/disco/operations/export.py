"""Codes for whoever sends them: as Arrow with their own types, as an e-mail tool reads them, or for a spreadsheet."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from disco.operations.codes import sent_codes
from disco.operations.disclosure import refuse_disclosure, with_disclosure
from disco.records.arrow_tables import columns_of
from disco.records.campaign_records import CampaignRecord
from disco.records.depths import depth_percent
from disco.records.errors import InputError, StateError, UsageError
from disco.records.files import written_whole
from disco.records.locale import Locale
from disco.records.plan import Plan
from disco.records.result import DepthKey, NotInJson, TableResult
from disco.store import Store
from disco.store.personal import is_forgotten

if TYPE_CHECKING:
    from disco.operations.audience import ShopData

_KINDS = (".parquet", ".csv")
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"  # the full-width ones are read as the plain ones by some spreadsheets
_EMAIL = ("email", "e-mail", "e_mail", "mail", "email_address", "email address")
# their column → ours; further columns of the customers table follow. docs/export.md names the pages they come from
_TEMPLATES: dict[str, dict[str, str]] = {
    "klaviyo": {
        "Email Address": "email",
        "Coupon Code": "code_id",
        "Discount": "offer",
        "Valid From": "valid_from",
        "Valid Until": "valid_until",
        "Campaign": "campaign_id",
    },
    "braze": {
        "external_id": "customer_id",
        "discount_code": "code_id",
        "discount_text": "offer",
        "discount_valid_from": "valid_from",
        "discount_valid_until": "valid_until",
        "discount_campaign": "campaign_id",
    },
    "mailchimp": {
        "Email Address": "email",
        "CODE": "code_id",
        "OFFER": "offer",
        "VALIDFROM": "valid_from",
        "VALIDUNTIL": "valid_until",
        "CAMPAIGN": "campaign_id",
    },
    "shopify": {
        "Title": "title",
        "Command": "command",
        "Method": "method",
        "Code": "code_id",
        "Type": "type",
        "Value": "percent",
        "Value Type": "percent_type",
        "Limit Total Times": "uses",
        "Starts At": "valid_from",
        "Ends At": "valid_until",
    },
}
# by template: our column of a plan's conditions and of its disclosure → theirs; discounts of Shopify have no customer
_CONDITIONS: dict[str, dict[str, str]] = {
    "klaviyo": {"minimum_basket": "Minimum Basket", "conditions": "Conditions", "disclosure": "Disclosure"},
    "braze": {
        "minimum_basket": "discount_minimum_basket",
        "conditions": "discount_conditions",
        "disclosure": "discount_disclosure",
    },
    "mailchimp": {"minimum_basket": "MINBASKET", "conditions": "CONDITIONS", "disclosure": "DISCLOSURE"},
    "shopify": {"minimum_basket": "Minimum Basket", "conditions": "Conditions"},
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Exported(TableResult):
    """The codes of a campaign, for whoever sends them. As a table: one row per code."""

    campaign: str
    """The name of the campaign."""
    file: str | None
    """Where they were written."""
    codes: int
    """Number of codes."""
    template: str | None
    """The tool whose columns the file has; null: the columns of `disco`."""
    columns: tuple[str, ...]
    """The columns, in their order."""
    codes_by_depth: Mapping[DepthKey, int]
    """Number of codes per depth."""
    minimum_basket: float | None
    """The smallest basket that the shop accepts a code for, before the discount; null: no such condition."""
    conditions: str | None
    """Further conditions, in words; null: none."""
    disclosed: int | None
    """Codes of customers who have to be shown the sentence of `disclosure`; null: the plan has none."""
    without_email: int | None
    """Codes of customers without an e-mail address; null: no column of addresses was asked for."""
    manifest: str | None
    """The file beside it with these counts, the size and the SHA-256 of the file."""
    rows: NotInJson[pa.Table]

    def to_arrow(self) -> pa.Table:
        return self.rows


def export(store: Store, campaign: str, *, file: Path | None = None, data: "ShopData | None" = None) -> Exported:
    """The codes of a campaign; written to FILE.parquet, or to FILE.csv with cells made safe for a spreadsheet.

    data: the shop's tables, for a plan that exports columns of its customers.
    """
    if file is not None:
        check_kind(file)
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
    plan = record.plan
    refuse_recalled(record)
    codes = with_disclosure(export_codes(store, campaign), plan, data)
    rows, without_email = codes, None
    if plan.export is not None:
        rows, without_email = _for_tool(codes, plan, data, store.locale)
    depths = codes["depth"].to_numpy()
    found = Exported(
        campaign=campaign,
        file=None if file is None else str(file),
        codes=rows.num_rows,
        template=None if plan.export is None else plan.export.template,
        columns=tuple(rows.column_names),
        codes_by_depth={depth: int((depths == depth).sum()) for depth in plan.offered},
        minimum_basket=None if plan.conditions is None else plan.conditions.minimum_basket,
        conditions=None if plan.conditions is None else plan.conditions.text,
        disclosed=None if plan.disclosure is None else codes.num_rows - codes["disclosure"].null_count,
        without_email=without_email,
        manifest=None if file is None else str(_manifest_of(file)),
        rows=rows,
    )
    if file is not None:
        write_rows(rows, file, store.locale)
        _write_manifest(found, file)
    return found


def refuse_recalled(record: CampaignRecord) -> None:
    """StateError for a campaign whose codes must not be sent any more."""
    if record.recalled_at is not None:
        raise StateError(
            f"Campaign {record.campaign} was recalled on {record.recalled_at:%Y-%m-%d}, so its codes must not be sent",
            fix=f"`disco recall {record.campaign} -o FILE` writes the codes that the shop has to make invalid.",
        )


def write_rows(rows: pa.Table, file: Path, locale: Locale) -> None:
    """FILE.csv with cells made safe for a spreadsheet, or else Parquet; the whole file or none."""
    with written_whole(file) as unfinished:
        if file.suffix.lower() == ".csv":
            pacsv.write_csv(csv_safe(_with_offsets(rows, locale)), unfinished)
        else:
            pq.write_table(rows, unfinished)


def check_kind(file: Path) -> None:
    """Refuse a name that says neither Parquet nor CSV."""
    if file.suffix.lower() not in _KINDS:
        raise UsageError("--out", found=file, expected="a name that ends in .parquet or .csv")


def _manifest_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.manifest.json")


def _write_manifest(found: Exported, file: Path) -> None:
    """Counts and hash, so that whoever loads the file can tell that it is whole."""
    with file.open("rb") as content:
        digest = file_digest(content, "sha256").hexdigest()
    said = found.as_dict() | {"file": file.name, "bytes": file.stat().st_size, "sha256": digest}
    del said["manifest"]
    with written_whole(_manifest_of(file)) as unfinished:
        unfinished.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


def export_codes(store: Store, campaign: str) -> pa.Table:
    """One row per code, as `disco respond` reads them: code_id, customer_id, campaign_id, depth, sent_at, expires_at,
    channel, and the plan's conditions where it has some. `sent_at` is the first moment the code is valid, at which
    features count it as received. Both times have the shop's zone, unless that is UTC."""
    with store.reading() as transaction:
        plan, decisions = transaction.plans.campaign(campaign).plan, transaction.decisions.of(campaign)
    sent = decisions.filter(decisions["code"].is_valid())
    sent = sent.filter(pa.array(~is_forgotten(sent["customer_id"])))  # nobody to send the code to
    same = pa.array([0] * sent.num_rows, pa.int64())
    conditions = {
        name: pa.array([value], kind).take(same)
        for name, value, kind in _conditions(plan)
        if value is not None  # what no plan asks for leaves the columns as they were
    }
    return pa.table(
        {
            "code_id": sent_codes(plan, sent),
            "customer_id": sent["customer_id"],
            "campaign_id": pa.array([campaign], pa.string()).take(same),
            "depth": sent["depth"],
            "sent_at": _moment(plan.valid.opens, store.locale).take(same),
            "expires_at": _moment(plan.valid.closes, store.locale).take(same),
            "channel": sent["channel"]
            if plan.channel_name is None
            else pa.array([plan.channel_name], pa.string()).take(same),
            **conditions,
        }
    )


def _conditions(plan: Plan) -> tuple[tuple[str, object, pa.DataType], ...]:
    asked = plan.conditions
    if asked is None:
        return ()
    return ("minimum_basket", asked.minimum_basket, pa.float64()), ("conditions", asked.text, pa.string())


def _moment(local: date | datetime, locale: Locale) -> pa.Array:
    kind = pa.timestamp("us") if locale.is_utc else pa.timestamp("us", locale.time_zone)
    moment = locale.moment(local)
    return pa.array([moment.replace(tzinfo=None) if locale.is_utc else moment], kind)


def _with_offsets(rows: pa.Table, locale: Locale) -> pa.Table:
    """Times as text with the offset of the shop: a CSV file of Arrow would have them in UTC."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            moments = {one: str(locale.local(one)) for one in pc.unique(rows[field.name]).to_pylist()}
            text = pa.array([moments[one] for one in rows[field.name].to_pylist()], pa.string())
            rows = rows.set_column(place, field.name, text)
    return rows


# ---- for an e-mail tool or a shop


def refuse_export(data: "ShopData", plan: Plan) -> None:
    """InputError where a plan asks for an export that could not be written after its launch."""
    refuse_disclosure(data, plan)
    if plan.export is None:
        return
    _refuse_without_address(plan.export.template, _address(plan.export.columns))
    if plan.export.columns:
        with data.customers(plan.customers.table) as (name, source):
            _refuse_missing(plan.export.columns, name, source)


def _address(columns: tuple[str, ...]) -> str | None:
    """The column of e-mail addresses among these."""
    return next((name for name in columns if name.lower() in _EMAIL), None)


def _refuse_without_address(template: str | None, address: str | None) -> None:
    if template is not None and address is None and "email" in _TEMPLATES[template].values():
        raise InputError(
            f"The template {template} needs a column of e-mail addresses",
            fix="Name it in the plan, such as `export: {columns: [email], template: " + template + "}`.",
        )


def _refuse_missing(columns: tuple[str, ...], name: str, source: Any) -> None:
    """source: a table, or a dataset."""
    for column in columns:
        if column not in source.schema.names:
            near = get_close_matches(column, source.schema.names, n=1)
            raise InputError(
                "export.columns",
                found=f"no column {column} in {name}",
                expected=f"one of {', '.join(source.schema.names)}",
                fix=f"Did you mean {near[0]}?" if near else None,
            )


def _for_tool(codes: pa.Table, plan: Plan, data: "ShopData | None", locale: Locale) -> tuple[pa.Table, int | None]:
    """The codes with the customers' columns, under the names of the template; and how many lack an address."""
    assert plan.export is not None
    chosen, template = plan.export.columns, plan.export.template
    theirs = _customer_columns(codes, plan, data, chosen) if chosen else {}
    address = _address(chosen)
    without = None if address is None else int(theirs[address].null_count + _empty(theirs[address]))
    more = _words(codes, plan, locale)
    if template is None:
        table = pa.table({**{name: codes[name] for name in codes.column_names}, **more, **theirs})
        return table, without
    _refuse_without_address(template, address)
    mapping = _TEMPLATES[template]
    ours = {**{name: codes[name] for name in codes.column_names}, **more}
    if address is not None:
        ours["email"] = theirs[address]
    mapping = mapping | {theirs: part for part, theirs in _CONDITIONS[template].items() if part in ours}
    columns = {name: ours[part] for name, part in mapping.items()}
    if template == "shopify":  # a discount has no customer, and a shared code is one discount
        first = np.unique(codes["code_id"].to_numpy(), return_index=True)[1]
        return pa.table(columns).take(pa.array(np.sort(first))), without
    further = [name for name in chosen if name != address or "email" not in mapping.values()]
    columns |= {("email" if name == address else name): theirs[name] for name in further}
    return pa.table(columns), without


def _empty(column: pa.Array) -> int:
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return 0
    return int(pc.sum(pc.equal(pc.utf8_trim_whitespace(column), "")).as_py() or 0)


def _customer_columns(
    codes: pa.Table, plan: Plan, data: "ShopData | None", chosen: tuple[str, ...]
) -> dict[str, pa.Array]:
    """These columns of the plan's customers table as it is now, one cell per code; null for a customer who is gone."""
    if data is None:
        raise InputError("export.columns", found="no tables of the shop", expected="the customers table of the plan")
    with data.customers(plan.customers.table) as (name, source):
        _refuse_missing(chosen, name, source)
        table = columns_of(source, list(dict.fromkeys(["customer_id", *chosen])))
    ids = table["customer_id"].cast(pa.string()).combine_chunks()
    place = pc.index_in(codes["customer_id"].cast(pa.string()).combine_chunks(), value_set=ids)
    return {column: table[column].combine_chunks().take(place) for column in chosen}


def _words(codes: pa.Table, plan: Plan, locale: Locale) -> dict[str, pa.Array]:
    """What people and shops read: the offer in words, and the validity in local time with its zone."""
    same = pa.array([0] * codes.num_rows, pa.int64())
    depths = codes["depth"].to_pylist()
    constant = {
        "valid_from": str(locale.moment(plan.valid.opens)),
        "valid_until": str(locale.moment(plan.valid.closes)),
        "command": "NEW",
        "method": "Code",
        "type": "Amount off Order",
        "percent_type": "Percentage",
    }
    found = {name: pa.array([text], pa.string()).take(same) for name, text in constant.items()}
    return {
        "offer": pa.array([depth_percent(depth) for depth in depths], pa.string()),
        "valid_from": found["valid_from"],
        "valid_until": found["valid_until"],
    } | (
        {}
        if plan.export is None or plan.export.template != "shopify"
        else {
            **{name: found[name] for name in ("command", "method", "type", "percent_type")},
            "uses": pa.array([None if depth in plan.shared_codes else "1" for depth in depths], pa.string()),
            "title": pa.array([f"{plan.campaign} {depth_percent(depth)}" for depth in depths], pa.string()),
            "percent": pa.array([f"{100 * depth:g}" for depth in depths], pa.string()),
        }
    )


def csv_safe(table: pa.Table) -> pa.Table:
    """Text that a spreadsheet would run as a formula gets an apostrophe in front; numbers and times stay as they are.

    >>> csv_safe(pa.table({"id": ["=1+1", "A-1"], "n": [-1, 2]})).to_pydict()
    {'id': ["'=1+1", 'A-1'], 'n': [-1, 2]}
    """
    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            risky = pc.fill_null(pc.match_substring_regex(column, _FORMULA), False)
            column = pc.if_else(risky, pc.binary_join_element_wise("'", column.cast(pa.string()), ""), column)
        columns.append(column)
    return pa.table(columns, names=table.column_names)
