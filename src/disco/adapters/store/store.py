"""The store: a database with our tables, and its shelves one transaction at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from disco.adapters.store.belief_shelf import BeliefShelf
from disco.adapters.store.campaign_shelf import CampaignShelf
from disco.adapters.store.context_shelf import ContextShelf
from disco.adapters.store.decision_shelf import DecisionShelf
from disco.adapters.store.ledger_shelf import LedgerShelf
from disco.adapters.store.opening import open_database, plain_errors, prepare


class SqlShelves(CampaignShelf, DecisionShelf, ContextShelf, LedgerShelf, BeliefShelf):
    """Implements `records.ports.Shelves`."""


class CampaignStore:
    """Campaigns, decisions, ledger, evidence and belief in one database; implements `records.ports.Store`.

    `url` is `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`. An empty database gets our tables.
    """

    def __init__(self, url: str) -> None:
        self._database = open_database(url)
        prepare(self._database)

    @classmethod
    def embedded(cls, path: Path) -> "CampaignStore":
        """One SQLite file; made when absent."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(f"sqlite:///{path}")

    @contextmanager
    def reading(self) -> Iterator[SqlShelves]:
        with plain_errors(self._database, "reading"), self._database.reading() as connection:
            yield SqlShelves(connection, self._database)

    @contextmanager
    def writing(self, subject: str) -> Iterator[SqlShelves]:
        with plain_errors(self._database, f"writing {subject}"), self._database.writing(subject) as connection:
            yield SqlShelves(connection, self._database)

    def close(self) -> None:
        self._database.engine.dispose()
