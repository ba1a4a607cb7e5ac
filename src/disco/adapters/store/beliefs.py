"""Evidence per campaign, and versions of belief, of which one is active."""

import json
from typing import Any

import sqlalchemy as sa

from disco.adapters.store import schema
from disco.adapters.store.session import Session
from disco.records.errors import StateError
from disco.records.life import VersionRecord
from disco.records.ports import BELIEF

_EVIDENCE, _VERSIONS, _ACTIVE = schema.evidence, schema.versions, schema.active_versions
_OURS = _VERSIONS.c.model == BELIEF


class SqlBeliefs:
    """Implements `records.ports.BeliefRepository`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def put_evidence(self, campaign: str, network: str, evidence: bytes) -> None:
        place = {"campaign_number": self._session.number(campaign), "network": network}
        self._connection.execute(_EVIDENCE.delete().where(*(_EVIDENCE.c[name] == key for name, key in place.items())))
        self._connection.execute(_EVIDENCE.insert(), {**place, "evidence": evidence})

    def evidence(self, campaign: str, network: str) -> bytes | None:
        found = self._connection.execute(
            sa.select(_EVIDENCE.c.evidence).where(
                _EVIDENCE.c.campaign_number == self._session.number(campaign), _EVIDENCE.c.network == network
            )
        ).scalar()
        return None if found is None else bytes(found)

    def networks(self, campaign: str) -> tuple[str, ...]:
        names = sa.select(_EVIDENCE.c.network).where(_EVIDENCE.c.campaign_number == self._session.number(campaign))
        return tuple(sorted(self._connection.execute(names).scalars()))

    def add_version(self, record: VersionRecord, *, activate: bool) -> None:
        last = sa.select(sa.func.max(_VERSIONS.c.number)).where(_OURS)
        expected = (self._connection.execute(last).scalar() or 0) + 1
        if record.number != expected:
            raise StateError(f"The next version of belief is {expected}, not {record.number}")
        self._connection.execute(
            _VERSIONS.insert(),
            {
                "model": BELIEF,
                "number": record.number,
                "basket": record.basket,
                "engagement": record.engagement,
                "network": record.network,
                "campaigns": json.dumps(dict(record.campaigns)),
                "made_at": record.made_at,
            },
        )
        if activate:
            self.activate(record.number)

    def version(self, number: int | None = None) -> VersionRecord | None:
        rows = sa.select(_VERSIONS).where(_OURS)
        if number is None:
            rows = rows.join(
                _ACTIVE, sa.and_(_ACTIVE.c.model == _VERSIONS.c.model, _ACTIVE.c.number == _VERSIONS.c.number)
            )
        else:
            rows = rows.where(_VERSIONS.c.number == number)
        found = self._connection.execute(rows).one_or_none()
        return None if found is None else _record(found)

    def versions(self) -> tuple[VersionRecord, ...]:
        rows = sa.select(_VERSIONS).where(_OURS).order_by(_VERSIONS.c.number)
        return tuple(_record(row) for row in self._connection.execute(rows))

    def activate(self, number: int) -> None:
        if self.version(number) is None:
            raise StateError(f"There is no version {number} of belief", fix="`disco belief` lists the versions.")
        self._connection.execute(_ACTIVE.delete().where(_ACTIVE.c.model == BELIEF))
        self._connection.execute(_ACTIVE.insert(), {"model": BELIEF, "number": number})


def _record(row: sa.Row[Any]) -> VersionRecord:
    return VersionRecord(
        number=row.number,
        basket=bytes(row.basket),
        engagement=row.engagement,
        network=row.network,
        campaigns=json.loads(row.campaigns),
        made_at=row.made_at,
    )
