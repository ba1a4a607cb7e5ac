"""Who got which depth: counts by group and by a property of the customers, summed up in the columns that are kept."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from disco.records.decisions import Arm
from disco.records.errors import InputError
from disco.records.plan import Plan
from disco.store import Store

Division = Literal["segment", "channel", "history"]
"""What customers are divided by: the plan's segments, their channels, or whether they bought in the past year."""
KNOWN, NEW = "Bought in the past year", "No purchase in the past year"
_EMPTY = "(empty)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCell:
    """Customers of one part and one group who got the same depth."""

    part: str
    """The value of the segment or channel, or the history."""
    arm: Arm
    """decided, control or holdout."""
    late: bool
    """Whether they arrived after the launch."""
    depth: float | None
    """None: no code."""
    customers: int
    """Number of customers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts:
    """The decisions of a campaign in counts."""

    campaign: str
    """The name of the campaign."""
    by: Division
    """What customers are divided by."""
    divisions: tuple[Division, ...]
    """What they can be divided by."""
    depths: tuple[float, ...]
    """Those offered, ascending."""
    segment_column: str | None = None
    """The column of the customers table whose values are the plan's segments; None: the plan has none."""
    cells: tuple[DecisionCell, ...]
    """Every combination that occurs; those of one part follow each other, the largest part first."""

    @property
    def customers(self) -> int:
        """Everybody who was decided about."""
        return sum(cell.customers for cell in self.cells)

    @property
    def codes(self) -> int:
        """Those who got a code."""
        return sum(cell.customers for cell in self.cells if cell.depth is not None)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the customers, the largest first."""
        return tuple(dict.fromkeys(cell.part for cell in self.cells))

    def count(
        self, *, part: str | None = None, arm: Arm | None = None, depths: Sequence[float | None] | None = None
    ) -> int:
        """Customers of a part, of a group, with one of these depths (None: no code); whatever is not said is any."""
        return sum(
            cell.customers
            for cell in self.cells
            if (part is None or cell.part == part)
            and (arm is None or cell.arm is arm)
            and (depths is None or cell.depth in depths)
        )


def decision_counts(store: Store, campaign: str, *, by: str | None = None) -> DecisionCounts:
    """Count the decisions of a campaign, late arrivals included. by: a `Division`; None: the first there is."""
    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
    divisions = divisions_of(record.plan)
    chosen = divisions[0] if by is None else next((one for one in divisions if one == by), None)
    if chosen is None:
        raise InputError("by", found=repr(str(by)[:40]), expected=" or ".join(divisions))
    columns = pa.table(
        {
            "part": parts_of(decisions, chosen),
            "arm": decisions["arm"],
            "late": decisions["late"],
            "depth": decisions["depth"],
        }
    )
    counted = columns.group_by(["part", "arm", "late", "depth"]).aggregate([([], "count_all")]).to_pylist()
    sizes: Counter[str] = Counter()
    for row in counted:
        sizes[row["part"]] += row["count_all"]
    cells = [
        DecisionCell(
            part=row["part"], arm=Arm(row["arm"]), late=row["late"], depth=row["depth"], customers=row["count_all"]
        )
        for row in counted
    ]
    cells.sort(key=lambda one: (-sizes[one.part], one.part, one.arm, one.late, one.depth is None, one.depth or 0.0))
    return DecisionCounts(
        campaign=campaign,
        by=chosen,
        divisions=divisions,
        depths=tuple(record.plan.offered),
        segment_column=None if record.plan.segments is None else record.plan.segments.column,
        cells=tuple(cells),
    )


def divisions_of(plan: Plan) -> tuple[Division, ...]:
    """What the customers of a plan can be divided by, from what is kept with their decisions."""
    found: list[Division] = []
    if plan.segments is not None:
        found.append("segment")
    if plan.channel_column is not None:
        found.append("channel")
    return (*found, "history")


def parts_of(decisions: pa.Table, by: Division) -> pa.ChunkedArray:
    """(n,) the part that each customer belongs to."""
    if by == "history":
        return pc.if_else(decisions["known"], KNOWN, NEW)
    return pc.fill_null(decisions[by], _EMPTY)
