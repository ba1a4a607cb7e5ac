"""The work that is interrupted: launch a campaign, then ingest batches one by one, and say so after each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from small_life import CAMPAIGN, NETWORK, ingest_small, launch_small, outcomes_of
from stores import open_store

from disco.operations.learn import rebuilt_evidence
from disco.records.campaign_records import Disposition
from disco.records.errors import DiscoError
from disco.store import Store, ledger

CUSTOMERS = 1_500
_BATCHES = 8
_MANY = ledger.LEAST_ROWS


def batches(store: Store) -> list[pa.Table]:
    """The outcomes in files that overlap by a third."""
    outcomes = outcomes_of(store)
    part = outcomes.num_rows // _BATCHES
    return [outcomes.slice(max(0, place * part - part // 3), part + part // 3) for place in range(_BATCHES)]


def work(url: str, files: Sequence[pa.Table], first: int, messages: Any) -> None:
    """Go on from file `first`; -1: from the launch. What was said in `messages` is acknowledged."""
    try:
        store = open_store(url)
        messages.send(("ready", None))
        messages.recv()
        if first < 0:
            launch_small(store, customers=CUSTOMERS)
            messages.send(("launched", None))
        for place in range(max(first, 0), len(files)):
            ledger.LEAST_ROWS = 1 if place % 2 else _MANY  # large and small batches in turn, each kept in its own way
            messages.send((place, ingest_small(store, files[place], source=f"file {place}")))
        messages.send(("done", None))
    except DiscoError as error:  # a server that died: said in plain words, and nothing more was acknowledged
        messages.send(("refused", str(error)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What must be the same after any number of crashes."""

    decisions: pa.Table
    applied: list[tuple[str, int]]
    evidence: bytes

    @classmethod
    def of(cls, store: Store) -> "Outcome":
        with store.reading() as transaction:
            rows = transaction.ledger.outcomes(CAMPAIGN, dispositions=[Disposition.APPLIED])
            evidence = transaction.beliefs.evidence(CAMPAIGN, NETWORK)
            assert evidence is not None
            applied = sorted(zip(rows["event_id"].to_pylist(), rows["full_price_minor"].to_pylist(), strict=True))
            return cls(transaction.decisions.of(CAMPAIGN), applied, evidence)

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Outcome)
        same = self.applied == other.applied and self.evidence == other.evidence
        return same and bool(self.decisions.equals(other.decisions))


def check_after_crash(
    store: Store, files: Sequence[pa.Table], codes: pa.Array, *, launched: bool, acknowledged: dict[int, str]
) -> None:
    """Nothing acknowledged is lost, nothing is there by halves, nothing counts twice, evidence is the ledger's."""
    with store.reading() as transaction:
        record = transaction.plans.find_campaign(CAMPAIGN)
        if record is None:
            assert not launched, "an acknowledged launch is lost"
            assert len(transaction.decisions.codes_in_use(codes)) == 0, "codes without their campaign"
            assert transaction.plans.of(CAMPAIGN) == (), "a plan without its campaign"
            return
        assert transaction.decisions.of(CAMPAIGN).num_rows == CUSTOMERS, "a launch by halves"
        assert transaction.contexts.of(CAMPAIGN, NETWORK).shape[0] == CUSTOMERS, "a launch without all contexts"
        assert transaction.decisions.reserve(CAMPAIGN), "a launch without its reserve"
        kept = {record.batch_id: int(record.source.split()[1]) for record in transaction.ledger.batches(CAMPAIGN)}
        for place, batch_id in acknowledged.items():
            assert kept.get(batch_id) == place, f"acknowledged batch {batch_id} is lost"
        received = dict.fromkeys(kept, 0)
        for row in transaction.ledger.counts(CAMPAIGN).to_pylist():
            received[row["batch_id"]] += row["rows"]
        for batch_id, place in kept.items():
            assert received[batch_id] == files[place].num_rows, f"batch {batch_id} is there by halves"
        applied = transaction.ledger.outcomes(CAMPAIGN, dispositions=[Disposition.APPLIED])["event_id"].to_pylist()
        assert len(applied) == len(set(applied)), "an event counts twice"
        rebuilt = rebuilt_evidence(transaction, record, NETWORK).to_bytes()
        assert transaction.beliefs.evidence(CAMPAIGN, NETWORK) == rebuilt, "evidence is not the ledger's"
