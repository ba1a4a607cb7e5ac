"""Evidence per campaign, and versions of belief, of which one is active."""

import json
from typing import Any

import sqlalchemy as sa

from disco.records.errors import NotFoundError, StateError
from disco.records.life import VersionRecord
from disco.store import schema
from disco.store.database import add_rows, change_later
from disco.store.schema import BELIEF
from disco.store.seals import changed, row_seal, seal_active, sealed
from disco.store.session import Session

_EVIDENCE, _VERSIONS, _ACTIVE = schema.evidence, schema.versions, schema.active_versions
_SET_EVIDENCE = "UPDATE evidence SET evidence = ?, seal = ? WHERE campaign_number = ? AND network = ?"
_OURS = _VERSIONS.c.model == BELIEF


class SqlBeliefs:
    """Evidence per campaign and context network (opaque here), and versions of belief, of which one is active."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def put_evidence(self, campaign: str, network: str, evidence: bytes) -> None:
        number = self._session.number(campaign)
        row = sealed("evidence", {"campaign_number": number, "network": network, "evidence": evidence})
        if any(one["network"] == network for one in self._evidence(campaign)):
            change_later(self._connection, _SET_EVIDENCE, (evidence, row["seal"], number, network))
        else:
            add_rows(self._connection, _EVIDENCE, [row])

    def evidence(self, campaign: str, network: str) -> bytes | None:
        """None where there is none; StateError where the bytes are not those that were put."""
        found = next((row for row in self._evidence(campaign) if row["network"] == network), None)
        if found is None:
            return None
        if found["seal"] != row_seal("evidence", found):
            raise changed(f"The evidence of campaign {campaign}")
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
        self._connection.execute(
            _VERSIONS.insert(),
            sealed(
                "version",
                {
                    "model": BELIEF,
                    "number": record.number,
                    "basket": record.basket,
                    "engagement": record.engagement,
                    "network": record.network,
                    "campaigns": json.dumps(dict(record.campaigns)),
                    "made_at": record.made_at,
                },
            ),
        )
        if activate:
            self.activate(record.number)
        else:
            seal_active(self._connection)  # it also seals the last version

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
        return _record(self._connection.execute(sa.select(_VERSIONS).where(_OURS, _VERSIONS.c.number == number)).one())

    def numbers(self) -> tuple[int, ...]:
        """Of all versions, ascending; also where one of them cannot be read."""
        return tuple(self._connection.execute(sa.select(_VERSIONS.c.number).where(_OURS).order_by("number")).scalars())

    def versions(self) -> tuple[VersionRecord, ...]:
        rows = sa.select(_VERSIONS).where(_OURS).order_by(_VERSIONS.c.number)
        return tuple(_record(row) for row in self._connection.execute(rows))

    def activate(self, number: int) -> None:
        if self.version(number) is None:
            raise NotFoundError(f"There is no version {number} of belief", fix="`disco belief` lists the versions.")
        self._connection.execute(_ACTIVE.delete().where(_ACTIVE.c.model == BELIEF))
        self._connection.execute(_ACTIVE.insert(), {"model": BELIEF, "number": number})
        seal_active(self._connection)


def _record(row: sa.Row[Any]) -> VersionRecord:
    if row.seal != row_seal("version", row._mapping):
        raise changed(f"Version {row.number} of the model")
    return VersionRecord(
        number=row.number,
        basket=bytes(row.basket),
        engagement=row.engagement,
        network=row.network,
        campaigns=json.loads(row.campaigns),
        made_at=row.made_at,
    )
