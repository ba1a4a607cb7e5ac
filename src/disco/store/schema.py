"""The tables of a store. They change only with a migration beside them (`migrations/versions`).

Moments are microseconds since 1970 UTC and depths are doubles, so that SQLite and PostgreSQL hold the same numbers.
Campaigns and batches have a number for short, so that millions of rows do not repeat their names. The two tables that
may have millions of rows do not declare what these refer to: PostgreSQL would look it up for every row, and the numbers
come from rows read in the same transaction, which nobody ever deletes.

Decisions, contexts and features of a plan, and the codes of a launch, are artefacts (`artefacts.py`); their names are
here, and the columns of large tables as Arrow schemas. Columns named `seal` hold a hash of the row (`rows.py`).
"""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from disco.records.campaign_records import Disposition
from disco.records.errors import InputError, StateError

BASELINE = "0012"  # revision of the first release; databases of before have lower ones and are not upgraded
REVISION = BASELINE  # the last of migrations/versions
REVISIONS = "alembic_version"  # the table that alembic keeps the revision in
BELIEF = "main"
"""The subject of those who write versions of belief."""
PEOPLE = "disco: people"
"""The subject of those who write people, keys, invitations and settings."""
JOBS = "disco: jobs"
"""The subject of those who submit and cancel jobs, and of who writes schedules and webhooks."""
DRAFTS = "disco: drafts"
"""The subject of those who write drafts of plans."""
EVERYTHING = "disco: everything"
"""The subject of those who write alone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Since 1970 UTC."""
    if moment.tzinfo is None:
        raise InputError("moment", found=f"{moment} without a time zone", expected="one with a time zone")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(microseconds_since_1970: Any) -> datetime:
    """The moment of a cell."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds_since_1970)
    except (TypeError, OverflowError):
        fix = "Run `disco doctor`: something other than disco has changed it."
        found = repr(str(microseconds_since_1970)[:40])
        raise StateError(f"A moment in the database cannot be read ({found})", fix=fix) from None


class Moment(sa.TypeDecorator[datetime]):
    """A datetime with a time zone, kept as whole microseconds since 1970 UTC."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> int | None:
        return None if value is None else microseconds(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else moment_of(value)


def _of_campaign(*, key: bool = False) -> sa.Column[int]:
    return sa.Column("campaign_number", sa.ForeignKey("campaigns.number"), primary_key=key, nullable=False)


def _seal(name: str = "seal") -> sa.Column[str]:
    """Nullable, so that a row whose seal was removed is read and reported as changed, by the health check and by every
    command that reads it, and the database does not refuse it first."""
    return sa.Column(name, sa.Text)


UNSEALED = {"unsealed": True}
"""In the `info` of a column of a sealed table that its seal leaves out: what stands there follows from other rows."""
PERSONAL = {"personal": "text"}
"""In the `info` of a column in which people type, and may type a customer's id, whoever owns its table: `forget` puts
another name there and `access` shows what stands there. Other personal columns are those of the tables of customers."""
PERSONAL_JSON = {"personal": "json"}
"""The same of a column of JSON."""

metadata = sa.MetaData(
    naming_convention={
        "ix": "%(table_name)s_by_%(column_0_N_name)s",
        "uq": "%(table_name)s_one_%(column_0_N_name)s",
        "fk": "%(table_name)s_%(column_0_name)s_of_%(referred_table_name)s",
        "pk": "%(table_name)s_key",
    }
)

secrets = sa.Table(
    "secrets",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
    _seal(),
)

# customers who asked to be forgotten, as hashes of their ids with a secret: they get no second code
forgotten = sa.Table(
    "forgotten",
    metadata,
    sa.Column("hash", sa.Text, primary_key=True),
    sa.Column("forgotten_at", Moment, nullable=False),
    _seal(),
)

plans = sa.Table(
    "plans",
    metadata,
    sa.Column("plan_id", sa.Text, primary_key=True),
    sa.Column("campaign", sa.Text, nullable=False, index=True),
    sa.Column("plan", sa.Text, nullable=False),  # JSON, as are inputs and summary
    sa.Column("inputs", sa.Text, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("planned_at", Moment, nullable=False),
    sa.Column("decisions", sa.Text, nullable=False),  # artefacts, as are the following
    sa.Column("contexts", sa.Text, nullable=False),
    sa.Column("features", sa.Text),  # null: none were retained
    _seal(),
)

campaigns = sa.Table(
    "campaigns",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("campaign", sa.Text, nullable=False, unique=True),
    sa.Column("plan_id", sa.ForeignKey("plans.plan_id"), nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("integer_ids", sa.Boolean, nullable=False),
    sa.Column("context_size", sa.Integer, nullable=False),
    sa.Column("network", sa.Text, nullable=False),
    sa.Column("version", sa.Integer),
    sa.Column("launched_at", Moment, nullable=False),
    sa.Column("recalled_at", Moment),  # null: it was not recalled
    sa.Column("codes", sa.Text),  # artefacts, as are the following; set by the launch
    sa.Column("customer_index", sa.Text),
    sa.Column("code_index", sa.Text),
    sa.Column("propensities", sa.Text),  # null until they are estimated
    _seal(),
)

late_decisions = sa.Table(
    "late_decisions",
    metadata,
    _of_campaign(key=True),
    sa.Column("row", sa.BigInteger, primary_key=True, autoincrement=False),  # goes on from the launch's
    sa.Column("customer_id", sa.Text, nullable=False),
    sa.Column("arm", sa.Text, nullable=False),
    sa.Column("depth", sa.Double),
    sa.Column("code", sa.Text, unique=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("known", sa.Boolean, nullable=False),
    sa.Column("expected_full_price", sa.Double),
    sa.Column("expected_engagement", sa.Double),
    sa.Column("context", sa.LargeBinary, nullable=False),  # float64, little-endian, under the network of the launch
    sa.Column("features", sa.Text),  # JSON: name → number or null
    sa.Column("segment", sa.Text),
    sa.Column("channel", sa.Text),
    _seal(),
    sa.UniqueConstraint("campaign_number", "customer_id"),
)

# codes bought elsewhere: no two campaigns may hand out one of them; made codes cannot meet (80 bits each)
pool_codes = sa.Table(
    "pool_codes",
    metadata,
    sa.Column("code", sa.Text, primary_key=True),
    sa.Column("campaign_number", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

contexts = sa.Table(
    "contexts",
    metadata,
    _of_campaign(key=True),
    sa.Column("network", sa.Text, primary_key=True),
    sa.Column("artefact", sa.Text, nullable=False),
    _seal(),
)

reserves = sa.Table(
    "reserves",
    metadata,
    _of_campaign(key=True),
    sa.Column("depth", sa.Double, primary_key=True),
    sa.Column("codes", sa.BigInteger),  # null: no limit
    _seal(),
    sa.CheckConstraint("codes >= 0", name="reserves_never_overdrawn"),
)

batches = sa.Table(
    "batches",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("batch_id", sa.Text, nullable=False, unique=True),
    _of_campaign(),
    sa.Column("source", sa.Text, nullable=False, info=PERSONAL),
    sa.Column("content_hash", sa.Text, nullable=False),
    sa.Column("received_at", Moment, nullable=False),
    sa.Column("reverted_at", Moment),
    _seal("rows_seal"),  # of what never changes in its outcomes
    _seal(),
    # artefacts of a large batch (`ledger.py`), null without a pack; their rows are sealed, and indexes follow from them
    sa.Column("pack", sa.Text, info=UNSEALED),
    sa.Column("event_index", sa.Text, info=UNSEALED),
    sa.Column("code_index", sa.Text, info=UNSEALED),
    sa.Index("batches_by_campaign", "campaign_number", "number"),
)

outcomes = sa.Table(
    "outcomes",
    metadata,
    sa.Column("batch_number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("row", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("campaign_number", sa.Integer, nullable=False),
    sa.Column("event_id", sa.Text),
    sa.Column("customer_id", sa.Text),
    sa.Column("code", sa.Text),
    sa.Column("kind", sa.Text),
    sa.Column("refers_to", sa.Text),
    sa.Column("ordered_at", sa.BigInteger),  # microseconds since 1970 UTC
    sa.Column("full_price_minor", sa.BigInteger),
    sa.Column("disposition", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("raw", sa.Text),
    sa.Column("reverted", sa.Boolean, nullable=False),  # repeats the batch's, where the unique index can see it
    sa.Index("outcomes_by_event", "campaign_number", "event_id"),
    sa.Index("outcomes_by_code", "campaign_number", "code"),
    sqlite_with_rowid=False,
)
# `postgresql.py` gives them the same conditions there: named here, it would be imported for SQLite, too
PARTIAL_INDEXES = (
    sa.Index(
        "outcomes_one_event_in_force",
        outcomes.c.campaign_number,
        outcomes.c.event_id,
        unique=True,
        sqlite_where=sa.text(f"disposition = '{Disposition.APPLIED}' AND NOT reverted"),
    ),
    sa.Index(
        "outcomes_by_refers_to",
        outcomes.c.campaign_number,
        outcomes.c.refers_to,
        sqlite_where=outcomes.c.refers_to.is_not(None),
    ),
)

evidence = sa.Table(
    "evidence",
    metadata,
    _of_campaign(key=True),
    sa.Column("network", sa.Text, primary_key=True),
    sa.Column("evidence", sa.LargeBinary, nullable=False),
    _seal(),
)

versions = sa.Table(
    "versions",
    metadata,
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("basket", sa.LargeBinary, nullable=False),
    sa.Column("engagement", sa.Text, nullable=False),
    sa.Column("network", sa.Text, nullable=False),
    sa.Column("campaigns", sa.Text, nullable=False),  # JSON
    sa.Column("made_at", Moment, nullable=False),
    _seal(),
)

active_versions = sa.Table(
    "active_versions",
    metadata,
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    _seal(),
    sa.ForeignKeyConstraint(["model", "number"], ["versions.model", "versions.number"]),
)

# ---- people, keys and the journal ----

people = sa.Table(
    "people",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("folded", sa.Text, nullable=False, unique=True),  # the name as it is compared
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("email", sa.Text),
    sa.Column("password", sa.Text),  # an argon2 hash; null: they sign in through an identity provider
    sa.Column("issuer", sa.Text),
    sa.Column("subject", sa.Text),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("created_at", Moment, nullable=False),
    _seal(),
    sa.UniqueConstraint("issuer", "subject"),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("key_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("secret_hash", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("expires_at", Moment),
    sa.Column("revoked_at", Moment),
    _seal(),
)

# links that were not used yet
invitations = sa.Table(
    "invitations",
    metadata,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("name", sa.Text),  # null: the first administrator
    sa.Column("email", sa.Text),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("invited_by", sa.Text, nullable=False),
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("expires_at", Moment, nullable=False),
    _seal(),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, index=True),
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("used_at", Moment, nullable=False),
    sa.Column("expires_at", Moment, nullable=False),
)

# failed attempts to sign in, by a hash of the name that was given: people type passwords into the wrong field
attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("name_hash", sa.Text, primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("failed_at", Moment, nullable=False),
)

# a plan may be written again after damage, by somebody else: none of its makers can approve it
plan_makers = sa.Table(
    "plan_makers",
    metadata,
    sa.Column("plan_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("made_at", Moment, nullable=False),
    _seal(),
)

approvals = sa.Table(
    "approvals",
    metadata,
    sa.Column("plan_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("approved_at", Moment, nullable=False),
    _seal(),
)

shop_settings = sa.Table(
    "shop_settings",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),  # JSON
    _seal(),
)

# append-only, by triggers (`migrations/__init__.py`)
journal = sa.Table(
    "journal",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", Moment, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
    sa.Column("detail", sa.Text, nullable=False),  # JSON
    sa.Column("previous", sa.Text),
    sa.Column("hash", sa.Text, nullable=False),
)

# the sums of the seals of an owner's rows, by table (`rows.py`)
tallies = sa.Table(
    "tallies",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),  # of the table
    sa.Column("tally", sa.Text, nullable=False),
)

# work that is done later or elsewhere; a job belongs to the worker that is named until its lease is over
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),  # in the order they were asked for
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column(
        "once", sa.Text, unique=True, info=PERSONAL
    ),  # the same piece of work is not asked for twice; null: it may be
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False, info=PERSONAL_JSON),  # JSON, as are progress, result and problem
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("actor_kind", sa.Text, nullable=False),
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("due_at", Moment, nullable=False),
    sa.Column("started_at", Moment),
    sa.Column("finished_at", Moment),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("worker", sa.Text),
    sa.Column("lease_until", Moment),
    sa.Column("progress", sa.Text),
    sa.Column("result", sa.Text),
    sa.Column("result_artefact", sa.Text),  # in the place of a long result
    sa.Column("problem", sa.Text),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("schedule_id", sa.Text),
    sa.Index("jobs_by_state_due", "state", "due_at"),
)

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False, info=PERSONAL_JSON),  # JSON
    sa.Column("rule", sa.Text, nullable=False),
    sa.Column("time_zone", sa.Text, nullable=False),
    sa.Column("next_at", Moment),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("actor_kind", sa.Text, nullable=False),
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("seal", sa.Text),
)

# what a schedule has asked for: a time, or the campaign whose codes have matured
occurrences = sa.Table(
    "occurrences",
    metadata,
    sa.Column("schedule_id", sa.Text, primary_key=True),
    sa.Column("occurrence", sa.Text, primary_key=True),
    sa.Column("job_id", sa.Text, nullable=False),
)

drafts = sa.Table(
    "drafts",
    metadata,
    sa.Column("name", sa.Text, primary_key=True, info=PERSONAL),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("plan", sa.Text, info=PERSONAL_JSON),  # JSON; null: it was deleted, and its revisions are not used again
    sa.Column("changed_at", Moment, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("actor_kind", sa.Text, nullable=False),
)

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("events", sa.Text, nullable=False),  # JSON
    sa.Column("secret", sa.Text, nullable=False),  # of the signatures; receivers have it, too
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("created_at", Moment, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("actor_kind", sa.Text, nullable=False),
    sa.Column("seal", sa.Text),
)

# answers to write requests, for a day: a repeated request gets the same one
replies = sa.Table(
    "replies",
    metadata,
    sa.Column("actor", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("body_hash", sa.Text, nullable=False),
    sa.Column("begun_at", Moment, nullable=False),
    sa.Column("status", sa.Integer),  # null: the answer is not known yet
    sa.Column("headers", sa.Text),  # JSON
    sa.Column("body", sa.LargeBinary),
    sa.Index("replies_by_begun_at", "begun_at"),
)

# what is prepared of customers who may arrive after a launch; made again from the shop's tables
arrivals = sa.Table(
    "arrivals",
    metadata,
    _of_campaign(key=True),
    sa.Column("day", sa.Text, nullable=False),  # of the features, as YYYY-MM-DD
    sa.Column("network", sa.Text, nullable=False),
    sa.Column("only_listed", sa.Boolean, nullable=False),  # whether the plan names who may get a code
    sa.Column("customers", sa.Text, nullable=False),  # artefacts, as are the following
    sa.Column("customer_index", sa.Text, nullable=False),
    sa.Column("contexts", sa.Text, nullable=False),
    sa.Column("features", sa.Text, nullable=False),
    _seal(),
)

# who is signed in, who guesses passwords, what was answered, who may arrive: of this moment, so no backup holds them
PASSING = (sessions, attempts, replies, arrivals)

# every column that names an artefact
ARTEFACT_COLUMNS = (
    *(plans.c[name] for name in ("decisions", "contexts", "features")),
    *(campaigns.c[name] for name in ("codes", "customer_index", "code_index", "propensities")),
    contexts.c.artefact,
    *(batches.c[name] for name in ("pack", "event_index", "code_index")),
    jobs.c.result_artefact,
    *(arrivals.c[name] for name in ("customers", "customer_index", "contexts", "features")),
)


# What a plan decides about each customer. `depth` is null where there is no code.
PLANNED = pa.schema(
    [
        pa.field("customer_id", pa.string(), nullable=False),
        pa.field("arm", pa.string(), nullable=False),
        pa.field("depth", pa.float64()),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("known", pa.bool_(), nullable=False),
        pa.field("expected_full_price", pa.float64()),
        pa.field("expected_engagement", pa.float64()),
    ]
)

# Of plans that need them, after the other columns of both tables: the part of the customers with limits of its own, and
# how a code is sent.
LABELS = pa.schema([pa.field("segment", pa.string()), pa.field("channel", pa.string())])

# `row` numbers the decisions of a campaign from 0; `code` and `depth` are null together: no code.
# `customer_id` comes back with the type the campaign was launched with, int64 or text.
# `propensity` is the probability of the depth played, estimated from `propensity_draws` draws; added after the launch.
DECISIONS = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("customer_id", pa.string(), nullable=False),
        pa.field("arm", pa.string(), nullable=False),
        pa.field("depth", pa.float64()),
        pa.field("code", pa.string()),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("known", pa.bool_(), nullable=False),
        pa.field("late", pa.bool_(), nullable=False),  # decided after the launch, from the reserve
        pa.field("expected_full_price", pa.float64()),
        pa.field("expected_engagement", pa.float64()),
        pa.field("propensity", pa.float64()),
        pa.field("propensity_draws", pa.int64()),
    ]
)

# `row` is the place in the batch as received, from 0. What cannot be read is null, and `raw` holds the row as JSON.
# `customer_id` is text as received: an outcome may name somebody who is not in the campaign.
OUTCOMES = pa.schema(
    [
        pa.field("batch_id", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("event_id", pa.string()),
        pa.field("customer_id", pa.string()),
        pa.field("code", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("refers_to", pa.string()),
        pa.field("ordered_at", pa.timestamp("us", tz="UTC")),
        pa.field("full_price_minor", pa.int64()),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("raw", pa.string()),
    ]
)

# What the net purchases of codes are made of, of rows that count.
APPLIED = pa.schema(
    [OUTCOMES.field(name) for name in ("event_id", "code", "kind", "refers_to", "ordered_at", "full_price_minor")]
)

COUNTS = pa.schema([("batch_id", pa.string()), ("disposition", pa.string()), ("rows", pa.int64())])


class Told(NamedTuple):
    """What one customer of a campaign was told: the part of a decision that a checkout asks for."""

    depth: float | None
    """None: no code."""
    code: str | None
    """Their own, as it is kept."""
    known: bool
    """Whether the context was the customer's own."""
