"""Engines map pure functions over chunks of customers; they hold no mathematics."""

from disco.adapters.engines.local import LocalEngine

__all__ = ["LocalEngine"]
