"""Evidence per campaign, and versions of belief of which one is active per model."""

import json
from typing import Any

import sqlalchemy as sa

from disco.adapters.store import schema
from disco.adapters.store.shelf import Shelf
from disco.records.errors import StateError
from disco.records.life import VersionRecord

_EVIDENCE, _VERSIONS, _ACTIVE = schema.evidence, schema.versions, schema.active_versions


class BeliefShelf(Shelf):
    def put_evidence(self, campaign: str, network: str, evidence: bytes) -> None:
        place = {"campaign_number": self._number(campaign), "network": network}
        self._connection.execute(_EVIDENCE.delete().where(*(_EVIDENCE.c[name] == key for name, key in place.items())))
        self._connection.execute(_EVIDENCE.insert(), {**place, "evidence": evidence})

    def evidence(self, campaign: str, network: str) -> bytes | None:
        found = self._connection.execute(
            sa.select(_EVIDENCE.c.evidence).where(
                _EVIDENCE.c.campaign_number == self._number(campaign), _EVIDENCE.c.network == network
            )
        ).scalar()
        return None if found is None else bytes(found)

    def networks(self, campaign: str) -> tuple[str, ...]:
        names = sa.select(_EVIDENCE.c.network).where(_EVIDENCE.c.campaign_number == self._number(campaign))
        return tuple(sorted(self._connection.execute(names).scalars()))

    def add_version(self, record: VersionRecord, *, activate: bool) -> None:
        last = sa.select(sa.func.max(_VERSIONS.c.number)).where(_VERSIONS.c.model == record.model)
        expected = (self._connection.execute(last).scalar() or 0) + 1
        if record.number != expected:
            raise StateError(f"model {record.model}", found=f"version {record.number}", expected=f"version {expected}")
        self._connection.execute(
            _VERSIONS.insert(),
            {
                "model": record.model,
                "number": record.number,
                "basket": record.basket,
                "engagement": record.engagement,
                "network": record.network,
                "campaigns": json.dumps(dict(record.campaigns)),
                "made_at": record.made_at,
            },
        )
        if activate:
            self.activate(record.model, record.number)

    def version(self, model: str, number: int | None = None) -> VersionRecord | None:
        rows = sa.select(_VERSIONS).where(_VERSIONS.c.model == model)
        if number is None:
            rows = rows.join(
                _ACTIVE, sa.and_(_ACTIVE.c.model == _VERSIONS.c.model, _ACTIVE.c.number == _VERSIONS.c.number)
            )
        else:
            rows = rows.where(_VERSIONS.c.number == number)
        found = self._connection.execute(rows).one_or_none()
        return None if found is None else _record(found)

    def versions(self, model: str) -> tuple[VersionRecord, ...]:
        rows = sa.select(_VERSIONS).where(_VERSIONS.c.model == model).order_by(_VERSIONS.c.number)
        return tuple(_record(row) for row in self._connection.execute(rows))

    def activate(self, model: str, number: int) -> None:
        if self.version(model, number) is None:
            raise StateError(f"model {model}", found=f"no version {number}", expected="a version that was learned")
        self._connection.execute(_ACTIVE.delete().where(_ACTIVE.c.model == model))
        self._connection.execute(_ACTIVE.insert(), {"model": model, "number": number})


def _record(row: sa.Row[Any]) -> VersionRecord:
    return VersionRecord(
        model=row.model,
        number=row.number,
        basket=bytes(row.basket),
        engagement=row.engagement,
        network=row.network,
        campaigns=json.loads(row.campaigns),
        made_at=row.made_at,
    )
