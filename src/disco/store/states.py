"""The state of a subject in one hash, for the journal: what was there before a transaction, and what after it.

Stored form: the SHA-256 of a JSON list without blanks, in ASCII. It has a list `[kind, name, seal]` for every row that
belongs to the subject, sorted; a cell that is no text is written as Python writes it. A subject without rows has none.
"""

import json
from functools import cache
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from disco.store import schema
from disco.store.database import Statement, ask
from disco.store.schema import BELIEF, DRAFTS, EVERYTHING, JOBS, PEOPLE
from disco.store.seals import any_text

_HERE = "$subject$"
_SUBJECT: "sa.ColumnElement[str]" = sa.literal_column(_HERE, sa.Text)


def state_hash(connection: sa.Connection, subject: str) -> str | None:
    """The state of a campaign, of the belief, of people and settings, or of everything; None: nothing is kept of it."""
    questions = question_of_state(subject)
    with any_text(connection):
        return hash_of_state([ask(connection, *one) for one in questions])


def question_of_state(subject: str) -> list[Statement]:
    """The question whose answer `hash_of_state` takes. Jobs and drafts have no seals, and so no states: no question."""
    if subject in (JOBS, DRAFTS):  # a query would begin the snapshot, with which heartbeats collide, earlier
        return []
    statement, parameters = _compiled(subject if subject in (BELIEF, EVERYTHING, PEOPLE) else None)
    return [(statement, tuple(subject for _ in range(parameters)))]


def hash_of_state(answers: list[list[Any]]) -> str | None:
    rows = sorted([str(cell) for cell in row] for answer in answers for row in answer)
    return sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest() if rows else None


@cache
def _compiled(subject: str | None) -> tuple[str, int]:
    """The statement in the database's own words, and how often it has the subject: every write asks twice.

    subject: one of those that are no campaign; None: a campaign, by its name.
    """
    if subject is None:
        parts = _of_campaigns(one=True)
    elif subject == BELIEF:
        parts = _of_belief()
    elif subject == PEOPLE:
        parts = _of_people()
    else:
        parts = [*_of_campaigns(one=False), *_of_belief(), *_of_people(), *_of_secrets()]
    # no value but the subject is a parameter, and both drivers take them by position
    text = str(sa.union_all(*parts).compile(compile_kwargs={"literal_binds": True}))
    return text.replace(_HERE, "?"), text.count(_HERE)


def _of_campaigns(*, one: bool) -> list["sa.Select[Any]"]:
    plans, campaigns = schema.plans, schema.campaigns
    of_plan, of_campaign = plans.c.campaign == _SUBJECT, campaigns.c.campaign == _SUBJECT
    parts = [
        (_part("plan", plans.c.plan_id), of_plan),
        (_part("launch", campaigns.c.campaign), of_campaign),
        (_part("state", campaigns.c.campaign, "state_seal"), of_campaign),
        (_part("evidence", schema.evidence.c.network).join(campaigns), of_campaign),
        (_part("batch", schema.batches.c.batch_id).join(campaigns), of_campaign),
    ]
    for table in (schema.plan_makers, schema.approvals):
        joined = _part(table.name, table.c.name).join(plans, plans.c.plan_id == table.c.plan_id)
        parts.append((joined, of_plan))
    return [part.where(condition) if one else part for part, condition in parts]


def _of_belief() -> list["sa.Select[Any]"]:
    return [_part("version", schema.versions.c.model), _part("active", schema.active_versions.c.model)]


def _of_people() -> list["sa.Select[Any]"]:
    return [
        _part("person", schema.people.c.name),
        _part("key", schema.api_keys.c.key_id),
        _part("invitation", schema.invitations.c.token_hash),
        _part("setting", schema.shop_settings.c.name),
    ]


def _of_secrets() -> list["sa.Select[Any]"]:
    """Among them the seal of the list of forgotten customers."""
    return [_part("secret", schema.secrets.c.name)]


def _part(kind: str, name: "sa.Column[Any]", seal: str = "seal") -> "sa.Select[Any]":
    return sa.select(sa.literal(kind, sa.Text).label("kind"), name.label("name"), name.table.c[seal].label("seal"))
