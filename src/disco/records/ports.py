"""The few things the rooms ask of the outside world. Shells (adapters) implement them; tests use real ones."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from disco.records.locale import POUNDS_UTC, Locale
from disco.records.people import Actor

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.records.arrays import Integers, Matrix
    from disco.records.arrivals import Arrivals
    from disco.records.forgotten import Renaming
    from disco.records.jobs import Draft, Job, JobKind, JobProblem, JobProgress, JobSchedule, JobState, Reply, Webhook
    from disco.records.journal import JournalBreak, JournalEntry
    from disco.records.kept import Told
    from disco.records.life import (
        BatchRecord,
        BrokenSeal,
        CampaignRecord,
        Disposition,
        LedgerMove,
        PlanRecord,
        PlanTables,
        State,
        Traces,
        VersionRecord,
    )
    from disco.records.manifest import TableManifest
    from disco.records.people import ApprovalRecord, InvitationRecord, KeyRecord, PersonRecord, SessionRecord
    from disco.records.table_rows import TableRows

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """The only thing that spreads computation: threads of this machine, or a cluster.

    `function` is a pure function of its chunk. What else it needs (prices, a posterior, depths) is small and frozen and
    travels inside it, so that an engine may send it elsewhere once. The caller lays the results side by side or adds
    them up (`records.chunks`). tests/contracts/test_contract_engines.py holds every engine to this.
    """

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        """The results in the order of the chunks, which are taken as results are used; the first error ends it."""


class ChunkedTable(Protocol):
    """A table that an engine holds in chunks: Parquet files of this machine, or partitions of a cluster.

    Chunk functions are pure, as those of `Engine.map`, and what they need travels inside them. How rows are divided
    into chunks, and in which order chunks come, is the engine's business: no result may depend on it. A table without
    rows is one chunk without rows. The first error of a chunk function reaches the caller.
    """

    @property
    def schema(self) -> "pa.Schema":
        """Of every chunk: types that Parquet and Arrow have in common with Spark (no unsigned ones, for instance)."""

    @property
    def expected_rows(self) -> int | None:
        """About how many rows there are, as far as files or the tables before say so; None: not before a pass.

        Only the time that a pass takes may depend on it. Chunk functions that leave rows out make it too large.
        """

    def transform(self, function: "Callable[[pa.Table], pa.Table]", schema: "pa.Schema") -> "ChunkedTable":
        """The table of the function's results, which have this schema. Nothing is computed before it is asked for."""

    def fold(self, function: "Callable[[pa.Table], Result]", add: Callable[[Result, Result], Result]) -> Result:
        """One pass: the sum of the function's results over all chunks.

        Results are added in pairs and in no particular order, where they arise: `add` must be exact, associative and
        commutative, and may change neither argument.
        """

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """All rows, brought to this process a few at a time, in no particular order."""

    def kept(self) -> "AbstractContextManager[ChunkedTable]":
        """The same rows, computed at most once and read back from then on, until the end of the block."""

    def write(self, folder: Path) -> "TableManifest":
        """Write Parquet files and their manifest (`records.manifest`); the folder is there whole or not at all.

        Where a table was written there before, it is replaced. A task or a job that is repeated doubles nothing.
        """


@runtime_checkable
class TableEngine(Engine, Protocol):
    """An engine that also holds tables."""

    @property
    def in_process(self) -> bool:
        """Whether functions run in this process. The results of buckets then come in the order of their numbers."""

    def table(self, source: Any) -> ChunkedTable:
        """A table: the path of a Parquet file or of a folder of them, a `pyarrow.Table`, or the engine's own kind.

        InputError where files of a folder have different columns.
        """

    def by_bucket(
        self,
        tables: Mapping[str, ChunkedTable],
        function: "Callable[[Mapping[str, pa.Table]], pa.Table]",
        schema: "pa.Schema",
    ) -> AbstractContextManager[ChunkedTable]:
        """The results of a function over the rows of several tables that have the same number in the column `bucket`.

        The column (int32, `records.identity.buckets_of`) is there for this alone: the function sees the tables without
        it, each with all rows of the bucket, in no particular order, or with none. A bucket has to fit into memory.
        The result can be used until the end of the block.
        """


class Tables(Protocol):
    """A retailer's tables by name (customers, orders, returns, codes, site, outcomes)."""

    def names(self) -> tuple[str, ...]:
        """The tables that exist."""

    def scan(self, name: str) -> Any:
        """A `pyarrow.dataset.Dataset` or `pyarrow.Table` that DuckDB can stream from; InputError when absent."""


@runtime_checkable
class Localised(Protocol):
    """Tables that say where they are from."""

    @property
    def locale(self) -> Locale:
        """The currency of their money, and the time zone of times without one, in which days begin."""


def locale_of(tables: Tables) -> Locale:
    """Where tables are from; those that do not say are in pounds and UTC."""
    return tables.locale if isinstance(tables, Localised) else POUNDS_UTC


class Clock(Protocol):
    """Time is an argument: a campaign's clock in production, a fixed instant in simulations and tests."""

    def now(self) -> datetime: ...


class Artefacts(Protocol):
    """Large tables, each written once and named by the SHA-256 of its bytes. A folder, or an object store."""

    def put(self, table: "TableRows", *, compressed: bool = False) -> str:
        """Keep a table; its name. It is whole and on disk before this returns; the same table again changes nothing.

        Compressed tables are smaller and must be read whole; others are mapped, so that one row costs one row.
        """

    def get(self, name: str) -> "pa.Table":
        """The table, mapped. StateError names a missing one, FileFormatError one whose bytes are not those of its name.

        The bytes are compared when a process first asks for them, and again when they have changed since.
        """

    def schema(self, name: str) -> "pa.Schema":
        """Of the table; its bytes are not compared. The errors of `get`."""

    def is_intact(self, name: str) -> bool:
        """Whether the bytes are those that were written; reads all of them. False where the table is missing."""

    def sizes(self) -> "dict[str, int]":
        """Bytes of every table that is there, by name."""

    def remove(self, name: str) -> None:
        """Remove a table for good; for those that no row of the store names."""


class Store(Protocol):
    """The truth of campaigns: plans, decisions with codes, ledger, evidence, versions of belief."""

    @property
    def locale(self) -> Locale:
        """The currency of all its money, and the time zone of its plans' days; the same for all campaigns."""

    @property
    def actor(self) -> Actor:
        """Who writes through this store: the system user, unless `by` said otherwise."""

    def by(self, actor: Actor) -> "Store":
        """The same open store, for what somebody else writes."""

    def reading(self) -> "AbstractContextManager[Transaction]":
        """One consistent view of everything; nothing can be written through it. Keep it short: a writer may wait."""

    def writing(self, subject: str, *, action: str, dry_run: bool = False) -> "AbstractContextManager[Transaction]":
        """One transaction: kept whole at the end of the block, not at all when the block raises.

        `subject` (a campaign, or BELIEF) has one writer at a time: another one waits, and then sees what this one
        wrote. Nothing is acknowledged before it is on disk. Not to be opened within another block of the same store.
        With `dry_run` everything is done and checked, then undone at the end of the block.

        action: what is done, in a word or two of the command line ("launch", "ingest"); a block that wrote something
        has an entry of the journal with it, in the same transaction.
        """

    def bookkeeping(self) -> "AbstractContextManager[Transaction]":
        """A short transaction without the lock of a subject and without an entry of the journal.

        For what says nothing about campaigns and people: heartbeats, leases, the last use of sessions, failed attempts
        to sign in, stored replies. Writers of one row wait for each other.
        """

    def alone(self, *, action: str, dry_run: bool = False) -> "AbstractContextManager[Transaction]":
        """As `writing`, while nobody writes anything else: waits for all others, and they wait for this one."""

    def remove_unnamed(self, *, dry_run: bool = False) -> "dict[str, int]":
        """Remove artefacts that no row names, left by a crash or by what was replaced; their names and bytes."""

    def compact(self) -> None:
        """Write the database anew, so that no byte of deleted or replaced cells is left in its files.

        Nobody else can use the database meanwhile. Not within a transaction.
        """

    def close(self) -> None: ...


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


class Transaction(Protocol):
    """What lies in the store, within one transaction: repositories of campaigns and belief, their seals, what is kept
    about customers, and the people who use the system.

    Tables are Arrow, with the schemas of `records.kept`; text with NUL characters, NaN and infinity are an InputError;
    a missing thing, or one that is there already, a StateError.
    """

    @property
    def locale(self) -> Locale:
        """That of the store."""

    @property
    def plans(self) -> "PlanRepository": ...

    @property
    def decisions(self) -> "DecisionRepository": ...

    @property
    def contexts(self) -> "ContextRepository": ...

    @property
    def arrivals(self) -> "ArrivalRepository": ...

    @property
    def ledger(self) -> "LedgerRepository": ...

    @property
    def beliefs(self) -> "BeliefRepository": ...

    @property
    def seals(self) -> "SealRepository": ...

    @property
    def forgotten(self) -> "ForgottenRepository": ...

    @property
    def personal(self) -> "PersonalRepository": ...

    @property
    def people(self) -> "PeopleRepository": ...

    @property
    def sessions(self) -> "SessionRepository": ...

    @property
    def approvals(self) -> "ApprovalRepository": ...

    @property
    def settings(self) -> "SettingRepository": ...

    @property
    def jobs(self) -> "JobRepository": ...

    @property
    def drafts(self) -> "DraftRepository": ...

    @property
    def replies(self) -> "ReplyRepository": ...

    @property
    def schedules(self) -> "ScheduleRepository": ...

    @property
    def webhooks(self) -> "WebhookRepository": ...

    @property
    def journal(self) -> "JournalRepository": ...


class PlanRepository(Protocol):
    """Plans, and the campaigns that were launched from them. StateError where one is not what was kept (its seal)."""

    def add(self, record: "PlanRecord", tables: "PlanTables", *, renew: bool = False) -> bool:
        """Keep a plan; the same plan again changes nothing. Whether it was written.

        renew: replace one that was not launched and is not what was kept, or has other tables or damaged ones.
        """

    def ids(self) -> tuple[str, ...]:
        """Of all plans, sorted; also where one of them cannot be read."""

    def recent(self, limit: int, *, before: tuple[datetime, str] | None = None) -> "tuple[PlanRecord, ...]":
        """The newest plans, or the newest that are older than this moment and id."""

    def get(self, plan_id: str) -> "PlanRecord":
        """By its id, or by four or more characters of its beginning where these name a single plan."""

    def of(self, campaign: str) -> "tuple[PlanRecord, ...]":
        """The plans of a campaign, by the time they were made."""

    def tables(self, plan_id: str) -> "PlanTables":
        """The plan's tables, each compared with the hash that names it."""

    def launch(self, record: "CampaignRecord") -> None:
        """Make a campaign of a plan that was kept before. StateError when the campaign exists."""

    def campaign(self, campaign: str) -> "CampaignRecord": ...

    def find_campaign(self, campaign: str) -> "CampaignRecord | None": ...

    def standing(self, record: "CampaignRecord") -> "CampaignRecord":
        """A campaign that was read before as it stands now: its state and recall are read and compared with their seal
        again, its plan, which never changes, is not."""

    def campaigns(self) -> "tuple[CampaignRecord, ...]":
        """All, by the first day of validity, then by name."""

    def names(self) -> tuple[str, ...]:
        """Of all campaigns, sorted; also where one of them cannot be read."""

    def set_state(self, campaign: str, state: "State") -> None: ...

    def recall(self, campaign: str, *, at: datetime) -> None:
        """Record that no code of a campaign is valid from this moment on. StateError where it was recalled before."""

    def damaged(self, campaign: str) -> tuple[str, ...]:
        """Artefacts of a campaign that are missing or not as they were written; reads all of them."""


class DecisionRepository(Protocol):
    """Who was decided, with their codes; what is left for customers who arrive after the launch."""

    def add_codes(self, campaign: str, codes: "pa.Array", *, pooled: bool) -> None:
        """The codes of a launch, one per customer of its plan, null where there is none.

        StateError when a customer of the plan or a code is there twice, or a code of a pool is in use elsewhere.
        """

    def add_late(
        self,
        campaign: str,
        decisions: "pa.Table",
        *,
        contexts: "Matrix",
        features: "pa.Table | None",
        pooled: bool,
    ) -> None:
        """Append customers who arrived after the launch, with everything that is kept of them."""

    def of(
        self,
        campaign: str,
        *,
        codes: "pa.Array | None" = None,
        customers: "pa.Array | None" = None,
        only_late: bool = False,
        from_row: int = 0,
    ) -> "pa.Table":
        """As `kept.DECISIONS`, by row; all, or those of these codes or customers, or those after the launch.

        from_row: with `only_late`, those from this row on.
        customer_id has the type it was launched with.
        """

    def told(self, campaign: str, customers: Sequence[str]) -> "dict[str, Told]":
        """What these customers (ids as text, a few) were told, at the launch or later, where they have a decision."""

    def read_ahead(self, campaign: str, customers: Sequence[str], *, deciding: bool) -> None:
        """Read at once what a look-up of these customers (ids as text, a few), or a decision about them, asks for one
        by one: it saves the waits in between, and changes no answer."""

    def late_seal(self, campaign: str) -> str | None:
        """Names all late arrivals of a campaign: while it is the same, they are. None: there are none."""

    def misplaced(self, campaign: str) -> tuple[str, ...]:
        """Which of the indexes by customer and by code are not those of the decisions."""

    def restore_indexes(self, campaign: str) -> tuple[str, ...]:
        """Build indexes again that are missing, damaged or misplaced; which they were. For repairs.

        StateError where decisions or codes are damaged themselves, or where the campaign's seal does not fit then.
        """

    def set_propensities(self, campaign: str, propensities: "pa.Table") -> None:
        """row, propensity, propensity_draws of decisions of the launch; replaces what was set before."""

    def codes_in_use(self, codes: "pa.Array", *, campaign: str | None = None) -> "pa.Array":
        """Which of these are in use, in any campaign or in one; sorted."""

    def set_reserve(self, campaign: str, codes: "Mapping[float, int | None]") -> None:
        """Codes per depth that late arrivals may still take; None: no limit."""

    def reserve(self, campaign: str) -> "dict[float, int | None]": ...

    def restore_reserve(self, campaign: str, codes: "Mapping[float, int | None]") -> bool:
        """Replace a reserve that was changed by another program; whether the campaign's state fits its seal then.

        For repairs: where it does not fit, the transaction must not be kept.
        """

    def take_code(self, campaign: str, depth: float, *, count: int = 1) -> bool:
        """So many less at this depth, by a conditional update; False, and nothing taken, when fewer were left."""

    def secret(self) -> bytes:
        """The key of the codes' HMAC: 32 random bytes, made with the database. StateError where it is not those."""

    def holdout_secret(self) -> bytes:
        """The key that draws lasting holdouts: 32 random bytes, made once. StateError where it is not those."""


class ContextRepository(Protocol):
    """The contexts that decisions were made from, per context network, and the features behind them."""

    def add(self, campaign: str, network: str, contexts: "Matrix") -> None:
        """Contexts of all decisions of a campaign, by row, under a network it has none of yet."""

    def of(self, campaign: str, network: str, rows: "Integers | None" = None) -> "Matrix":
        """Of these decisions, in the order asked for; of all without `rows`."""

    def networks(self, campaign: str) -> tuple[str, ...]:
        """The networks under which this campaign has contexts, sorted."""

    def features(self, campaign: str) -> "pa.Table":
        """The retained features of all decisions, by row; StateError where none were kept."""


class ArrivalRepository(Protocol):
    """What is prepared of customers who may arrive after a launch. It can be made again, so a damaged one is none."""

    def put(self, campaign: str, arrivals: "Arrivals") -> None:
        """Keep it in the place of what was prepared before."""

    def day(self, campaign: str) -> "date | None":
        """Of what is prepared; None where nothing is."""

    def of(self, campaign: str, customers: "pa.Array") -> "Arrivals | None":
        """Those of these customers (ids as text) who are prepared; None where nothing is."""

    def remove(self, campaign: str) -> None: ...


class LedgerRepository(Protocol):
    """Received outcomes, as kept.OUTCOMES: rows in the order received, never deleted."""

    def apply(self, move: "LedgerMove") -> None:
        """Write an ingest or a revert. No two APPLIED rows in force of a campaign share an event id: StateError.

        A reverted batch keeps its dispositions and is no longer in force; StateError when it was reverted before.
        """

    def batch(self, batch_id: str) -> "BatchRecord":
        """By its id, or by four or more characters of its beginning where these name a single batch."""

    def batches(self, campaign: str) -> "tuple[BatchRecord, ...]":
        """In the order they were received."""

    def outcomes(
        self,
        campaign: str,
        *,
        events: "pa.Array | None" = None,
        codes: "pa.Array | None" = None,
        refers_to: "pa.Array | None" = None,
        batch_id: str | None = None,
        dispositions: "Iterable[Disposition] | None" = None,
    ) -> "pa.Table":
        """By batch as received, then row; restrictions given together must all hold.

        Rows of reverted batches are left out, unless their batch is asked for by its id.
        """

    def applied(self, campaign: str, *, before: "datetime | None" = None) -> "pa.Table":
        """Rows that count, by batch as received, then row; kept.APPLIED, which is what net purchases need.

        before: only what was ordered before this moment; the others are not read. None: all of them.
        """

    def sharing(self, campaign: str, *, events: "pa.Array", codes: "pa.Array") -> "pa.Table":
        """Rows in force and outside quarantine whose event or reference is one of these events, or whose code is one
        of these codes: each row once, by batch as received, then row. Few or millions may be asked for."""

    def redispose(self, changes: "pa.Table") -> None:
        """Write batch_id, row, disposition, reason of rows that the rules judge otherwise. For repairs and recalls."""

    def align_reverted(self, campaign: str) -> int:
        """Let rows be reverted where their batch is, and nowhere else; how many were not. For repairs."""

    def counts(self, campaign: str) -> "pa.Table":
        """batch_id, disposition, rows (int64) of the batches in force: counted in the ledger when asked."""


class BeliefRepository(Protocol):
    """Evidence per campaign and context network (opaque here), and versions of belief, of which one is active."""

    def put_evidence(self, campaign: str, network: str, evidence: bytes) -> None: ...

    def evidence(self, campaign: str, network: str) -> bytes | None:
        """None where there is none; StateError where the bytes are not those that were put."""

    def networks(self, campaign: str) -> tuple[str, ...]:
        """The context networks under which this campaign has evidence, sorted: more than one after a retraining."""

    def add_version(self, record: "VersionRecord", *, activate: bool) -> None:
        """Keep a version; with `activate` it becomes the only active one in the same transaction."""

    def version(self, number: int | None = None) -> "VersionRecord | None":
        """That version, or the active one; None where there is none.

        StateError where it is not what was kept, or where there are versions and none of them is active.
        """

    def numbers(self) -> tuple[int, ...]:
        """Of all versions, ascending; also where one of them cannot be read."""

    def versions(self) -> "tuple[VersionRecord, ...]": ...

    def activate(self, number: int) -> None: ...


class SealRepository(Protocol):
    """Hashes beside everything that is kept, by which a change by another program is found. Writing keeps them up."""

    def broken(self) -> "tuple[BrokenSeal, ...]":
        """What is changed or missing of all that belongs to no campaign: plans, secrets, versions; reads all of it."""

    def broken_of(self, campaign: str) -> "tuple[BrokenSeal, ...]":
        """What is changed or missing of a campaign: launch, state, reserve, contexts, late arrivals, evidence, ledger.

        Reads every row. Dispositions are not sealed: the rules give them again. Nor are the bytes of artefacts, whose
        names are sealed here (`plans.damaged`).
        """

    def reseal_plan(self, plan_id: str) -> None:
        """Take a plan as it is now: for those who changed it on purpose, and for repairs."""

    def reseal_campaign(self, campaign: str) -> None:
        """Take launch, late arrivals, state, reserve and contexts as they are now.

        SealError where another program changed the state before this transaction did.
        """

    def reseal_batches(self, campaign: str) -> None:
        """Take the batches of a campaign and their outcomes as they are now."""


class ForgottenRepository(Protocol):
    """Customers who asked to be forgotten. Their ids are not kept, only hashes with a secret."""

    def add(self, customers: "Iterable[str]", *, at: datetime) -> None:
        """Remember that these were forgotten at this moment, perhaps again."""

    def among(self, customers: "Iterable[str]", *, since: datetime | None = None) -> frozenset[str]:
        """Those of these customers who were forgotten, at this moment or after it."""


class PersonalRepository(Protocol):
    """What is kept about single customers and may go. Seals are not kept up: whoever changes something reseals it."""

    def replace(self, campaign: str, names: "Mapping[str, str]") -> "Traces":
        """Put names in the place of these customers' ids, in everything that is kept of a campaign.

        Their contexts become those of the population, zeros, their features unknown; raw rows that mention them go.
        names: id → name, both as text. Evidence, and dispositions of the ledger, are the caller's business.
        """

    def rename_texts(self, names: "Renaming") -> int:
        """Put the names into texts that people wrote: of jobs, schedules, drafts, and sources of batches. How many
        rows had one."""

    def texts_left(self, names: "Renaming") -> "dict[str, tuple[str, ...]]":
        """Table and column → keys of the rows whose text still names one of the customers."""

    def taken(self, ids: "Collection[str]") -> frozenset[str]:
        """Those of these ids that a customer or an outcome of any campaign has."""

    def plans_with(self, customers: "Collection[str]") -> "dict[str, frozenset[str]]":
        """Plans that were not launched, by id, with those of these customers they decide about or name."""

    def plans_before(self, moment: datetime) -> tuple[str, ...]:
        """Ids of plans that were not launched, made before a moment."""

    def remove_plan(self, plan_id: str) -> None:
        """Remove a plan that was not launched."""

    def drop_raw(self, campaign: str) -> int:
        """Empty the raw text of all rows set aside; dispositions and reasons stay. How many had one."""

    def drop_features(self, campaign: str) -> bool:
        """Drop the retained features: no other network can embed its customers then. Whether there were any."""

    def named_artefacts(self) -> frozenset[str]:
        """Every artefact that a row names."""


class PeopleRepository(Protocol):
    """People who can sign in, API keys, and invitations that were not used yet. SealError where one was changed."""

    def put(self, person: "PersonRecord") -> None:
        """Keep a person, new or changed. StateError where another one has this name, in any capitals."""

    def find(self, name: str) -> "PersonRecord | None":
        """By name, in any capitals."""

    def find_external(self, issuer: str, subject: str) -> "PersonRecord | None":
        """By who they are at an identity provider."""

    def all(self) -> "tuple[PersonRecord, ...]":
        """By name."""

    def add_key(self, key: "KeyRecord") -> None: ...

    def find_key(self, key_id: str) -> "KeyRecord | None": ...

    def key(self, beginning: str) -> "KeyRecord":
        """By its id, or by four or more characters of its beginning where these name a single key."""

    def keys(self) -> "tuple[KeyRecord, ...]":
        """By the time they were made, with those that are no longer valid."""

    def revoke_key(self, key_id: str, *, at: datetime) -> None: ...

    def add_invitation(self, invitation: "InvitationRecord") -> None: ...

    def find_invitation(self, token_hash: str) -> "InvitationRecord | None": ...

    def invitations(self) -> "tuple[InvitationRecord, ...]":
        """By the time they were made."""

    def remove_invitation(self, token_hash: str) -> None: ...


class SessionRepository(Protocol):
    """Who is signed in, and failed attempts to; no backup holds them."""

    def add(self, session: "SessionRecord") -> None: ...

    def find(self, token_hash: str) -> "SessionRecord | None": ...

    def used(self, token_hash: str, *, at: datetime) -> None: ...

    def end(self, token_hash: str) -> bool:
        """Whether there was one."""

    def end_of(self, name: str, *, but: str | None = None) -> None:
        """All sessions of a person, but perhaps one."""

    def end_before(self, *, now: datetime, used_before: datetime) -> None:
        """Sessions that have expired, or that nobody has used since a moment."""

    def lock_failures(self, name_hash: str, *, at: datetime) -> tuple[int, datetime]:
        """Failed attempts in a row under a name, and when the last one was; others wait until this transaction ends.

        at: said where there were none.
        """

    def set_failures(self, name_hash: str, failures: int, *, at: datetime) -> None: ...

    def forget_failures(self, *, before: datetime) -> None: ...


class ApprovalRepository(Protocol):
    """Who made a plan, and who approved it. SealError where that was changed."""

    def add(self, approval: "ApprovalRecord") -> bool:
        """Keep an approval; False where this person has approved the plan before."""

    def of(self, plan_id: str) -> "tuple[ApprovalRecord, ...]":
        """By the time they were given."""

    def add_maker(self, plan_id: str, maker: Actor, *, at: datetime) -> None: ...

    def makers(self, plan_id: str) -> tuple[Actor, ...]:
        """Those who wrote the plan; none for a plan that another program wrote."""


class SettingRepository(Protocol):
    """Settings that are kept with the campaigns, as values of JSON."""

    def get(self, name: str) -> Any:
        """None where it was not set."""

    def names(self) -> tuple[str, ...]: ...

    def put(self, name: str, value: Any) -> None:
        """None removes it."""


class JobRepository(Protocol):
    """Jobs. Who holds one is named in it: changes by a worker happen only where worker and attempt are still those."""

    def add(self, job: "Job", *, once: str | None = None) -> "Job":
        """Keep a job; the one that is there already where one was added with the same `once`."""

    def get(self, job_id: str) -> "Job":
        """By its id, or by four or more characters of its beginning where these name a single job."""

    def page(
        self, *, before: int | None, limit: int, state: "JobState | None" = None, kind: "JobKind | None" = None
    ) -> "tuple[Job, ...]":
        """The newest first, without results; before: only those with a smaller number."""

    def is_due(self, *, now: datetime, kinds: "Collection[JobKind]", not_of: "Collection[str]" = ()) -> bool:
        """Whether `claim` would have something to do."""

    def claim(
        self,
        *,
        worker: str,
        now: datetime,
        until: datetime,
        kinds: "Collection[JobKind]",
        most_attempts: int,
        not_of: "Collection[str]" = (),
    ) -> "Job | None":
        """Take the oldest job that is due or whose worker was lost, in the lease of this worker until then.

        not_of: actors whose jobs are left.
        A lost job becomes cancelled where that was asked for, and failed where so many attempts were lost.
        """

    def beat(self, job: "Job", *, until: datetime, progress: "JobProgress | None" = None) -> "Job | None":
        """Prolong the lease; the job as it is now, without body and result. None: it is no longer this worker's."""

    def end(
        self,
        job: "Job",
        *,
        state: "JobState",
        at: datetime,
        result: str | None = None,
        problem: "JobProblem | None" = None,
    ) -> bool:
        """Write the final state; False, and nothing written, where the job is no longer this worker's.

        result: JSON. A long one becomes an artefact, and its transaction must not be one of bookkeeping.
        """

    def give_back(
        self, job: "Job", *, due_at: datetime, problem: "JobProblem | None" = None, counted: bool = True
    ) -> bool:
        """Queue the job again; counted: whether the attempt counts. False where it is no longer this worker's."""

    def request_cancel(self, job_id: str, *, at: datetime) -> "Job":
        """A queued job is cancelled at once, a running one is asked to stop, others stay what they are."""

    def remove_ended(self, before: datetime) -> int:
        """Remove jobs that reached a final state before a moment; how many."""

    def drop_results(self) -> int:
        """Empty results and problems of all jobs that have ended: they may quote rows of tables. How many had one."""


class DraftRepository(Protocol):
    """Plans that are being written."""

    def find(self, name: str) -> "Draft | None": ...

    def revision(self, name: str) -> int:
        """The last revision under this name, also where it was deleted; 0: there was none."""

    def all(self) -> "tuple[Draft, ...]":
        """By name."""

    def put(self, draft: "Draft") -> None:
        """Write a draft; StateError unless its revision is the one after the last."""

    def delete(self, draft: "Draft") -> None:
        """Delete it, with this revision as its last."""


class ReplyRepository(Protocol):
    """Answers to write requests, by who asked and the key they gave."""

    def find(self, actor: str, key: str) -> "Reply | None": ...

    def begin(self, actor: str, key: str, reply: "Reply", *, instead_of: "Reply | None" = None) -> bool:
        """Reserve the key; instead_of: a reply that is too old. False: somebody else was faster."""

    def finish(self, actor: str, key: str, reply: "Reply") -> bool:
        """Keep the answer; False where the reservation is no longer this one."""

    def drop(self, actor: str, key: str, reply: "Reply") -> None:
        """Free the key, unless the reservation is no longer this one."""

    def remove(self, before: datetime | None = None) -> int:
        """Remove what was begun before a moment, or everything; how many."""


class ScheduleRepository(Protocol):
    """Schedules, and what each has asked for."""

    def add(self, schedule: "JobSchedule") -> None: ...

    def get(self, schedule_id: str) -> "JobSchedule":
        """By its id, or by four or more characters of its beginning where these name a single one."""

    def all(self) -> "tuple[JobSchedule, ...]":
        """In the order they were made."""

    def set_next(self, schedule_id: str, next_at: datetime | None) -> None: ...

    def set_paused(self, schedule_id: str, paused: bool, *, next_at: datetime | None) -> None: ...

    def remove(self, schedule_id: str) -> None:
        """With its occurrences; its jobs stay."""

    def occurred(self, schedule_id: str) -> frozenset[str]:
        """What it has asked for."""

    def add_occurrence(self, schedule_id: str, occurrence: str, *, job_id: str) -> None:
        """StateError where it is there already."""


class WebhookRepository(Protocol):
    """Webhooks with their secrets."""

    def add(self, webhook: "Webhook", *, secret: str) -> None: ...

    def get(self, webhook_id: str) -> "Webhook":
        """By its id, or by four or more characters of its beginning where these name a single one."""

    def secret(self, webhook_id: str) -> str: ...

    def all(self) -> "tuple[Webhook, ...]":
        """In the order they were made."""

    def set_active(self, webhook_id: str, active: bool) -> None: ...

    def remove(self, webhook_id: str) -> None: ...


class JournalRepository(Protocol):
    """Who wrote what and when. The store adds one entry to it at the end of a transaction that wrote something."""

    def note(self, **detail: Any) -> None:
        """Say more about what this transaction does: values of JSON, and of customers only their pseudonyms."""

    def pseudonyms(self, customers: "Iterable[str]") -> list[str]:
        """What stands for customers' ids: the same for the same id, and not to be guessed without the database."""

    def entries(self, *, after: int = 0, limit: int) -> "tuple[JournalEntry, ...]":
        """The first entries whose numbers are larger, the newest last."""

    def last(self) -> "tuple[int, str] | None":
        """The number and the hash of the last entry."""

    def contains(self, entry_hash: str) -> bool:
        """Whether there is an entry of this hash."""

    def first_break(self) -> "JournalBreak | None":
        """The first entry that was changed, removed, put elsewhere or cut off; None: all are as written. Reads all."""
