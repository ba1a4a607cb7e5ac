"""What is kept about a customer, counted by place."""

from collections import Counter

from disco.operations.forget import PersonalData
from disco.records.wording import counted
from disco.views.formats import Count
from disco.views.table import Column, Table


def kept_answer(kept: PersonalData) -> str:
    """How much is kept, in one sentence."""
    return f"{counted(len(kept.records), 'record')} about customer {kept.customer}."


def kept_table(kept: PersonalData) -> Table:
    """Records by campaign, plan or table, and by what they are."""
    counts = Counter((record.where.split(" ")[0], record.place) for record in kept.records)
    return Table(
        caption="What is kept",
        columns=["Where", "What", Column("Records", Count())],
        rows=[[where, place, count] for (where, place), count in counts.items()],
    )
