"""`decide` for customers whose contexts an engine holds in chunks: more of them than fit into memory, or on a cluster.

Draws and values are a chunk function, so contexts become decisions where they lie. What a plan needs besides (groups,
forecasts, the risk of overspending) is made by `deciding`, for customers in memory.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from disco.allocation.allocate_table import TableAllocation, allocate_table
from disco.allocation.table import COST, ID
from disco.campaign import Belief, expected_costs, values_of
from disco.policy import Policy, require_policy
from disco.records.decisions import Audience, Offer
from disco.records.depths import depth_label
from disco.records.errors import InputError
from disco.records.ports import ChunkedTable

SEGMENT = "segment"


@dataclass(frozen=True, slots=True)
class ValuedChunk:
    """The chunk function: contexts → what each depth is worth to each customer and, with a budget, what it costs."""

    belief: Belief
    offer: Offer
    policy: Policy
    campaign: str
    seed: int
    contexts: tuple[str, ...]
    """Their columns."""
    schema: pa.Schema
    """Of the result."""

    @classmethod
    def of(
        cls, schema: pa.Schema, *, belief: Belief, offer: Offer, policy: Policy, campaign: str, seed: int
    ) -> "ValuedChunk":
        """schema: of the contexts."""
        if ID not in schema.names:
            raise InputError("contexts", found=", ".join(schema.names), expected=f"a column {ID}")
        if offer.segments is not None and SEGMENT not in schema.names:
            found = ", ".join(schema.names)
            raise InputError("contexts", found=found, expected=f"a column {SEGMENT}: the offer has segments")
        names = tuple(name for name in schema.names if name not in (ID, SEGMENT))
        require_policy(policy)
        belief.basket.require_columns(names)
        fields = [schema.field(ID), *([schema.field(SEGMENT)] if SEGMENT in schema.names else [])]
        labels = [depth_label(depth) for depth in offer.depths]
        fields += [pa.field(label, pa.float64()) for label in labels]
        if offer.budget is not None:
            fields += [pa.field(f"{COST}{label}", pa.float64()) for label in labels]
        return cls(belief, offer, policy, campaign, seed, names, pa.schema(fields))

    def __call__(self, chunk: pa.Table) -> pa.Table:
        context = np.empty((chunk.num_rows, len(self.contexts)))
        for place, name in enumerate(self.contexts):
            context[:, place] = chunk[name].to_numpy()
        audience = Audience(ids=chunk[ID], context=context, known=np.ones(chunk.num_rows, np.bool_))
        worth = values_of(
            audience,
            belief=self.belief,
            depths=np.asarray(self.offer.depths, np.float64),
            revenue_weight=self.offer.revenue_weight,
            policy=self.policy,
            seed=self.seed,
            campaign=self.campaign,
        )
        columns = [chunk[name] for name in (ID, SEGMENT) if name in self.schema.names]
        columns += [pa.array(worth[:, place]) for place in range(worth.shape[1])]
        if self.offer.budget is not None:
            costs = expected_costs(audience, belief=self.belief, offer=self.offer)
            columns += [pa.array(costs[:, place]) for place in range(costs.shape[1])]
        return pa.table(columns, schema=self.schema)


def decide_table(
    contexts: ChunkedTable, *, belief: Belief, offer: Offer, policy: Policy, campaign: str, seed: int
) -> AbstractContextManager[TableAllocation]:
    """`decide` for a table of contexts that an engine holds in chunks; its decisions can be used in a `with` block.

    contexts: customer_id, one column per number of the context in the order of the belief and, where the offer has
        segments, one named segment.

    The decisions are those of `decide`, bit for bit, whatever the engine. InfeasibleError where limits contradict each
    other.

    >>> import disco
    >>> table = disco.LocalEngine().table(pa.table({"customer_id": [1, 2, 3], "x": [0.5, -0.25, 0.0]}))
    >>> seen = disco.Purchases(context=[[0.5], [1.0]], depth=[0.1, 0.2], full_price=[20.0, 30.0])
    >>> prior = Belief(basket=disco.BasketModel(), engagement=disco.Engagement())
    >>> belief = disco.learn(prior, [disco.Lesson.of("spring", seen)])
    >>> offer = Offer(depths=(0.1, 0.2), caps=(1, 1), revenue_weight=3.0)
    >>> with decide_table(
    ...     table, belief=belief, offer=offer, policy=disco.Thompson(), campaign="autumn", seed=1
    ... ) as found:
    ...     int(found.proof.counts.sum()), found.proof.gap
    (2, 0.0)
    """
    valued = ValuedChunk.of(contexts.schema, belief=belief, offer=offer, policy=policy, campaign=campaign, seed=seed)
    return _decided(contexts, valued)


@contextmanager
def _decided(contexts: ChunkedTable, valued: ValuedChunk) -> Iterator[TableAllocation]:
    offer, segments = valued.offer, None
    if offer.segments is not None:
        limits = {label: {"caps": one.caps, "floors": one.floors} for label, one in offer.segments.items()}
        segments = {SEGMENT: limits}
    with contexts.transform(valued, valued.schema).kept() as values:  # every pass reads them
        found = allocate_table(values, offer.caps, budget=offer.budget, floors=offer.floors, segments=segments)
        found.proof.require_feasible(where=f"campaign {valued.campaign}")
        yield found
