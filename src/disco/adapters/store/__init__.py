"""Stores: where launched campaigns live."""

from disco.adapters.store.sql import SqlStore

__all__ = ["SqlStore"]
