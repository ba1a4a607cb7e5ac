"""Stores of tests: a database of a URL, with its artefacts in a folder that every process finds by that URL."""

from pathlib import Path

import sqlalchemy as sa

from disco.adapters.store import CampaignStore
from disco.records.locale import POUNDS_UTC, Locale


def artefacts_of(url: str) -> Path:
    """Beside an SQLite file; in the folder of the trial server, under the name of the database."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return Path(f"{parsed.database}-artefacts")
    return Path(str(parsed.query["host"])) / f"artefacts-{parsed.database}"


def open_store(url: str, locale: Locale = POUNDS_UTC) -> CampaignStore:
    return CampaignStore(url, artefacts_of(url), locale=locale)
