"""Learning that needs the shop's files: contexts of past campaigns under a network that was trained anew."""

from datetime import date
from typing import TYPE_CHECKING

from disco.entrypoints.audience import network_name
from disco.entrypoints.shop import Shop, WallClock

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.operations.learning import Learned
    from disco.records.arrays import Matrix
    from disco.records.life import CampaignRecord
    from disco.records.ports import Store


def rebuild_belief(shop: Shop, store: "Store", *, as_of: date, dry_run: bool = False) -> "Learned":
    """A version of belief under the shop's present network, from the features kept with every learned campaign."""
    from disco.operations.artefacts import retained_features
    from disco.operations.learning import rebuild

    network = shop.network()

    def contexts_of(record: "CampaignRecord", decisions: "pa.Table") -> "Matrix":
        customers = decisions["customer_id"].combine_chunks()
        return network.transform(retained_features(shop.plans, record.plan_id, customers), engine=shop.engine)

    return rebuild(
        store,
        network=network_name(shop),
        contexts_of=contexts_of,
        prior=shop.prior(),
        as_of=as_of,
        clock=WallClock(),
        dry_run=dry_run,
    )
