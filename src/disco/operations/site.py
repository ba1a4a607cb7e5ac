"""What a use case works on, as one value: the shop's database, its tables and files, and what runs the work."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # questions that need the store alone load neither tables nor models
    from disco.campaign import Belief
    from disco.operations.audience import ShopData
    from disco.operations.contexts import FeatureCache
    from disco.records.ports import Clock, Engine
    from disco.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Site:
    """The first argument of use cases. It is made by `Shop.site`, and lives as long as its store is open."""

    store: "Store"
    """The database and the artefacts of campaigns."""
    data: "ShopData"
    """The retailer's tables, the files that plans name, and the context network."""
    clock: "Clock"
    """The time it is in the shop."""
    prior: "Belief"
    """The belief before any campaign."""
    cache: "FeatureCache"
    """Features and contexts that were made before; it also says whether new ones are kept."""
    engine: "Engine | None" = None
    """What runs chunks of work on this machine; None: one thread."""
