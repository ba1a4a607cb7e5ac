"""The store: one database, SQLite or PostgreSQL, with a folder of large tables beside it."""

from disco.store.schema import BELIEF, DRAFTS, EVERYTHING, JOBS, PEOPLE
from disco.store.store import Store, Transaction

__all__ = ["BELIEF", "DRAFTS", "EVERYTHING", "JOBS", "PEOPLE", "Store", "Transaction"]
