"""Stores: where launched campaigns live."""

from disco.adapters.store.sql import SqlStore
from disco.adapters.store.store import CampaignStore

__all__ = ["CampaignStore", "SqlStore"]
