"""Why a customer was not part of a campaign: its plan read again, beside the customers table as it is now."""

import re
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from disco.features.eligibility import eligible_ids
from disco.operations.audience import ShopData
from disco.operations.selection import Selection
from disco.records.errors import DiscoError, InputError
from disco.records.life import CampaignRecord
from disco.records.wording import date as day_text

_LONGEST_SHOWN = 80  # characters of a cell


def not_a_member(record: CampaignRecord, customer: object, *, data: ShopData | None) -> InputError:
    """The error about a customer without a decision, with the reason where the shop's tables tell it."""
    said = f"{customer} was not part of campaign {record.campaign}"
    listed = "`disco export` lists the customers who got a code."
    if data is None:
        return InputError(said, fix=listed)
    try:
        reason, fix = _reason(record, str(customer), data)
    except DiscoError as error:  # the tables are gone or cannot be read, which is another question
        unknown = f"The reason is not known, because its customers cannot be read ({error})"
        return InputError(f"{said}. {unknown}", fix=listed)
    return InputError(f"{said}: {reason}", fix=fix)


def _reason(record: CampaignRecord, customer: str, data: ShopData) -> tuple[str, str | None]:
    """Why, and what to do about it."""
    plan = record.plan
    with data.customers(plan.customers.table) as (name, source):
        row = _row_of(source, customer)
        if row is None:
            return f"{name} has no such customer", _did_you_mean(source, customer)
        condition = plan.customers.eligible
        eligible = eligible_ids(source, condition, name=name, evaluate=data.meeting)
        is_eligible = pc.any(pc.equal(eligible, customer)).as_py()
    if not is_eligible:
        cells = _cells_in(condition, row)
        found = f" ({cells})" if cells else ""
        return f"they are not eligible{found}; the plan asks for {condition}", None
    for step in Selection.of(data, plan, contacted=None).steps:
        if not step.stay(pa.array([customer], pa.large_string()))[0].as_py():
            return f"they are {step.words}, which the plan names as `{step.key}`", None
    joined = _day(row.get("joined_on"))
    if joined is not None and joined >= plan.customers.as_of:
        late = f"`disco late {record.campaign} {customer}` decides about them."
        return f"they joined on {day_text(joined)}, and the plan is as of {day_text(plan.customers.as_of)}", late
    contact = "" if plan.contact is None else f", or they had reached the limit of {plan.contact.words}"
    return (
        f"they are eligible now, but were not in the tables when the plan was made{contact}",
        f"`disco late {record.campaign} {customer}` decides about them while the campaign runs.",
    )


def _row_of(source: Any, customer: str) -> dict[str, Any] | None:
    """The customer's row of a table or dataset; None where there is none."""
    ids = _ids(source)
    place = pc.index(ids, pa.scalar(customer, ids.type)).as_py()
    if place < 0:
        return None
    row: dict[str, Any] = source.take(pa.array([place])).to_pylist()[0]
    return row


def _ids(source: Any) -> pa.ChunkedArray:
    column = source if isinstance(source, pa.Table) else source.to_table(columns=["customer_id"])
    return column["customer_id"].cast(pa.large_string())


def _did_you_mean(source: Any, customer: str) -> str | None:
    """Ids that a spreadsheet or a typing hand has changed: blanks, a decimal point, other letters."""
    plain = customer.strip()
    for near in (plain, re.sub(r"\.0+$", "", plain), plain.upper(), plain.lower()):
        if near != customer and _row_of(source, near) is not None:
            return f"Did you mean {near}?"
    return None


def _cells_in(condition: str, row: dict[str, Any]) -> str:
    """The customer's cells of the columns that a condition names, as the condition would write them."""
    names = {word.lower() for word in re.findall(r"\w+", re.sub(r"'[^']*'", "", condition))}
    return ", ".join(f"{name} = {_cell(cell)}" for name, cell in row.items() if name.lower() in names)


def _cell(cell: object) -> str:
    text = "null" if cell is None else f"'{cell}'" if isinstance(cell, str | date) else str(cell)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _day(cell: object) -> date | None:
    if isinstance(cell, datetime):
        return cell.date()
    if isinstance(cell, date):
        return cell
    try:
        return date.fromisoformat(str(cell)[:10])
    except ValueError:
        return None
