"""Customers who arrive after a launch, from an audience in memory, as a shop's tables would give them."""

from collections.abc import Sequence
from datetime import date

import pyarrow as pa

from disco.campaign import Belief
from disco.operations.audience import label_columns
from disco.operations.late import decide_arrivals
from disco.records.decisions import Audience
from disco.records.ports import Clock
from disco.store import Store
from disco.store.contexts import Arrivals


def decide_late_arrivals(
    store: Store,
    campaign: str,
    audience: Audience,
    *,
    network: str,
    prior: Belief,
    clock: Clock,
    features: pa.Table | None = None,
    pool: Sequence[str] | None = None,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> pa.Table:
    """The decisions about these customers, in their order."""
    ids, count = pa.array(audience.ids), len(audience)
    labels = label_columns(audience)
    prepared = Arrivals(
        day=date(2027, 3, 8),
        network=network,
        customers=pa.table(
            {
                "customer_id": ids,
                "left_out": pa.nulls(count, pa.string()),
                "known": audience.known,
                "segment": labels.get("segment", pa.nulls(count, pa.string())),
                "channel": labels.get("channel", pa.nulls(count, pa.string())),
                "own_codes": pa.array([0] * count, pa.int32()),
            }
        ),
        contexts=audience.context,
        features=pa.table({"customer_id": ids}) if features is None else features,
        only_listed=False,
    )
    return decide_arrivals(
        store,
        campaign,
        ids.cast(pa.string()).to_pylist(),
        prepared,
        prior=prior,
        clock=clock,
        pool=pool,
        secret=secret,
        dry_run=dry_run,
    )
