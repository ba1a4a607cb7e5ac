"""Stores: where launched campaigns live."""

from disco.adapters.store.store import CampaignStore

__all__ = ["CampaignStore"]
