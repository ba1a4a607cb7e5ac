"""The sentence that some customers are shown with their code: whom it concerns, and where it travels.

Whom it concerns is asked of the customers table when the codes are exported, because late arrivals are among them, and
people move. A customer whom the table no longer has is shown the sentence.
"""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from disco.features.eligibility import eligible_customers
from disco.records.errors import InputError
from disco.records.plan import Plan
from disco.records.wording import counted

if TYPE_CHECKING:
    from disco.operations.audience import ShopData
    from disco.operations.plan import Planned

_KEY = "disclosure.where"


def with_disclosure(codes: pa.Table, plan: Plan, data: "ShopData | None") -> pa.Table:
    """Exported codes with the column disclosure: the sentence, or null; as they are where the plan has none."""
    if plan.disclosure is None:
        return codes
    shown = _concerned(codes["customer_id"].cast(pa.large_string()), plan, data)
    return codes.append_column("disclosure", pc.if_else(shown, plan.disclosure.text, pa.scalar(None, pa.string())))


def disclosure_words(data: "ShopData", planned: "Planned") -> tuple[str, ...]:
    """Who is shown which sentence, as it is kept with the plan and shown to whoever approves it."""
    plan = planned.plan
    if plan.disclosure is None:
        return ()
    coded = planned.decisions.filter(planned.decisions["depth"].is_valid())
    shown = _concerned(coded["customer_id"].cast(pa.large_string()), plan, data)
    count = int(pc.sum(shown).as_py() or 0)
    words = f"{counted(count, 'customer')} of {coded.num_rows:,} with a code are shown: “{plan.disclosure.text}”"
    if plan.export is None or plan.export.template != "shopify":
        return (words,)
    return (words, "A file for shopify has no customers and so no disclosure: show the sentence another way.")


def refuse_disclosure(data: "ShopData", plan: Plan) -> None:
    """InputError where the condition cannot be read."""
    if plan.disclosure is not None:
        _meeting(plan, data)


def _concerned(ids: pa.ChunkedArray, plan: Plan, data: "ShopData | None") -> pa.ChunkedArray:
    """(n,) who is shown the sentence; ids as text."""
    assert plan.disclosure is not None
    if data is None:
        raise InputError(_KEY, found="no tables of the shop", expected="the customers table of the plan")
    met, known = _meeting(plan, data)
    return pc.or_(pc.is_in(ids, value_set=met), pc.invert(pc.is_in(ids, value_set=known)))


def _meeting(plan: Plan, data: "ShopData") -> tuple[pa.Array, pa.Array]:
    """Ids, as text, of the customers who meet the condition, and of all."""
    assert plan.disclosure is not None
    with data.customers(plan.customers.table) as (name, source):
        everybody, met = (
            eligible_customers(
                source, condition, name=name, evaluate=data.meeting, time_zone=data.locale.time_zone, key=_KEY
            )["customer_id"].combine_chunks()
            for condition in ("true", plan.disclosure.where)
        )
    return met, everybody
