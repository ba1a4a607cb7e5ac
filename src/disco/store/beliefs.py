"""Evidence per campaign, and versions of belief, of which one is active."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from disco.records.errors import NotFoundError, StateError
from disco.store import schema
from disco.store.rows import Session, from_row, to_row
from disco.store.schema import BELIEF

_EVIDENCE, _VERSIONS, _ACTIVE = schema.evidence, schema.versions, schema.active_versions
_OURS = _VERSIONS.c.model == BELIEF


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """A version of belief: a cache of prior and evidence, and what it was made of. Numbers rise from 1."""

    number: int
    basket: bytes  # a model file
    engagement: str  # JSON
    network: str
    campaigns: Mapping[str, str]  # campaign → hash of the evidence and engagement counts that went in
    made_at: datetime


class SqlBeliefs:
    """Evidence per campaign and context network (opaque here), and versions of belief, of which one is active."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def put_evidence(self, campaign: str, network: str, evidence: bytes) -> None:
        number = self._session.number(campaign)
        found = next((row for row in self._evidence(campaign) if row["network"] == network), None)
        if found is None:
            self._session.add(_EVIDENCE, {"campaign_number": number, "network": network, "evidence": evidence})
        else:
            self._session.set(_EVIDENCE, found, evidence=evidence)

    def restore_evidence(self, campaign: str, network: str, evidence: bytes) -> None:
        """Bring back evidence that another program has changed or removed. It fits the tally where it is what was kept,
        and only then is the damage repaired."""
        number = self._session.number(campaign)
        row = {"campaign_number": number, "network": network, "evidence": evidence}
        for found in self._evidence(campaign):
            if found["network"] == network:
                self._session.remove(_EVIDENCE, found, recorded=False)
        self._session.add(_EVIDENCE, row, recorded=False)

    def evidence(self, campaign: str, network: str) -> bytes | None:
        """None where there is none; StateError where the bytes are not those that were put."""
        found = next((row for row in self._evidence(campaign) if row["network"] == network), None)
        if found is None:
            return None
        self._session.refuse_changed(_EVIDENCE, found)
        return bytes(found["evidence"])

    def networks(self, campaign: str) -> tuple[str, ...]:
        """The context networks under which this campaign has evidence, sorted: more than one after a retraining."""
        return tuple(sorted(row["network"] for row in self._evidence(campaign)))

    def _evidence(self, campaign: str) -> list[dict[str, Any]]:
        """Of all networks; mostly there is one."""
        return self._session.raw(_EVIDENCE, "campaign_number", self._session.number(campaign))

    def add_version(self, record: VersionRecord, *, activate: bool) -> None:
        """Keep a version; with `activate` it becomes the only active one in the same transaction."""
        last = sa.select(sa.func.max(_VERSIONS.c.number)).where(_OURS)
        expected = (self._connection.execute(last).scalar() or 0) + 1
        if record.number != expected:
            raise StateError(f"The next version of belief is {expected}, not {record.number}")
        self._session.add(_VERSIONS, {"model": BELIEF, **to_row(record)})
        if activate:
            self.activate(record.number)

    def version(self, number: int | None = None) -> VersionRecord | None:
        """That version, or the active one; None where there is none.

        StateError where it is not what was kept, or where there are versions and none of them is active.
        """
        if number is None:
            active = self._connection.execute(sa.select(_ACTIVE.c.number).where(_ACTIVE.c.model == BELIEF)).scalar()
            numbers = self.numbers()
            if numbers and active not in numbers:
                raise StateError(
                    f"The active version of the model ({'none' if active is None else active}) is missing",
                    fix=f"`disco learn --activate {numbers[-1]}` makes the last one active.",
                )
            number = active
        if number not in self.numbers():
            return None
        return self._record(
            self._connection.execute(sa.select(_VERSIONS).where(_OURS, _VERSIONS.c.number == number)).one()
        )

    def numbers(self) -> tuple[int, ...]:
        """Of all versions, ascending; also where one of them cannot be read."""
        return tuple(self._connection.execute(sa.select(_VERSIONS.c.number).where(_OURS).order_by("number")).scalars())

    def versions(self) -> tuple[VersionRecord, ...]:
        rows = sa.select(_VERSIONS).where(_OURS).order_by(_VERSIONS.c.number)
        return tuple(self._record(row) for row in self._connection.execute(rows))

    def activate(self, number: int) -> None:
        if self.version(number) is None:
            raise NotFoundError(f"There is no version {number} of belief", fix="`disco belief` lists the versions.")
        before = self._session.raw(_ACTIVE, "model", BELIEF)
        self._session.replace_all(_ACTIVE, BELIEF, before, {"model": BELIEF, "number": number})

    def _record(self, row: sa.Row[Any]) -> VersionRecord:
        self._session.refuse_changed(_VERSIONS, row._mapping)
        return from_row(VersionRecord, row._mapping)
