"""Builds again what the ledger and the plan can give: dispositions, evidence, reserve, indexes. One transaction each.

Nothing is built from damaged rows. What is sealed must fit its seal after the repair, which proves that it is what it
was; what cannot be proved is left as it is, and the health check that follows says so.
"""

from collections.abc import Callable, Iterator

from disco.operations import campaign_evidence
from disco.operations.audit import networks_of, reserve_left
from disco.operations.ledger import misjudged
from disco.records.diagnosis import Diagnosis, Repair, attempted
from disco.records.life import BrokenSeal, Sealed
from disco.store import Store, Transaction


class _NotProved(Exception):  # noqa: N818 - no error: the way out of a transaction whose result is not taken
    pass


def repair_campaigns(store: Store) -> tuple[tuple[Repair, ...], tuple[Diagnosis, ...]]:
    """What was changed, campaign by campaign, and which of them could not be gone through."""
    names: list[str] = []
    repairs: list[Repair] = []

    def list_names() -> Iterator[Diagnosis]:
        with store.reading() as transaction:
            names.extend(transaction.plans.names())
        yield from ()

    problems = list(attempted("repair", "table campaigns", list_names))
    for name in names:

        def work(name: str = name) -> Iterator[Diagnosis]:
            repairs.extend(_repair(store, name))
            yield from ()

        problems += attempted("repair", f"campaign {name}", work)
    return tuple(repairs), tuple(problems)


def _repair(store: Store, name: str) -> tuple[Repair, ...]:
    try:
        return _repaired(store, name, with_reserve=True)
    except _NotProved:  # something else than the reserve was changed: everything but the reserve, then
        return _repaired(store, name, with_reserve=False)


def _repaired(store: Store, name: str, *, with_reserve: bool) -> tuple[Repair, ...]:
    with store.writing(name, action="repair") as transaction:
        done = tuple(_steps(transaction, name, with_reserve=with_reserve))
        transaction.journal.note(changed=[one.changed for one in done])
    return done


def _steps(transaction: Transaction, name: str, *, with_reserve: bool) -> Iterator[Repair]:
    where = f"campaign {name}"
    for index in transaction.decisions.restore_indexes(name):
        yield Repair(where=where, changed=f"The {index} was built again from the decisions.")
    if with_reserve:
        yield from _reserve(transaction, name)
    if count := transaction.ledger.align_reverted(name):
        yield Repair(where=where, changed=f"{count:,} outcomes were marked as their batches are: reverted or in force.")
    if _broken(transaction, name, lambda seal: not _is_evidence(seal)):
        return  # the rows themselves are damaged, and nothing is built from them
    recalled_at = transaction.plans.campaign(name).recalled_at
    wrong = misjudged(transaction.ledger.outcomes(name), recalled_at=recalled_at)
    if wrong.num_rows:
        transaction.ledger.redispose(wrong)
        yield Repair(where=where, changed=f"{wrong.num_rows:,} outcomes were classified again by the rules.")
    if not transaction.plans.damaged(name):
        yield from _evidence(transaction, name)


def _reserve(transaction: Transaction, name: str) -> Iterator[Repair]:
    if _broken(transaction, name, lambda seal: not (_is_evidence(seal) or _is_state(seal) or _is_ledger(seal))):
        return  # plan or late arrivals are damaged, and the reserve follows from them
    done = Repair(
        where=f"campaign {name}", changed="The reserve was set to what the plan held back less the late codes."
    )
    if not _broken(transaction, name, _is_state):
        expected = reserve_left(transaction, name, transaction.plans.campaign(name).solution)
        if transaction.decisions.reserve(name) != expected:
            transaction.decisions.set_reserve(name, expected)
            yield done
        return
    for plan in transaction.plans.of(name):  # the seal tells which of them was launched
        if transaction.decisions.restore_reserve(name, reserve_left(transaction, name, plan.summary.solution)):
            yield done
            return
    raise _NotProved


def _evidence(transaction: Transaction, name: str) -> Iterator[Repair]:
    record = transaction.plans.campaign(name)
    broken = bool(_broken(transaction, name, _is_evidence))
    kept = transaction.beliefs.networks(name)
    for network in networks_of(transaction, record):
        again = campaign_evidence.rebuilt(transaction, record, network)
        if broken or network not in kept or transaction.beliefs.evidence(name, network) != again.to_bytes():
            transaction.beliefs.put_evidence(name, network, again.to_bytes())
            words = f"The evidence under network {network[:12]} was built again from the ledger: "
            counts = f"{again.baskets.total_rows:,} purchases, {int(again.codes.redeemed.sum()):,} codes redeemed."
            yield Repair(where=f"campaign {name}", changed=words + counts)


def _broken(transaction: Transaction, name: str, wanted: Callable[[BrokenSeal], bool]) -> tuple[BrokenSeal, ...]:
    return tuple(seal for seal in transaction.seals.broken_of(name) if wanted(seal))


def _is_evidence(seal: BrokenSeal) -> bool:
    return seal.what is Sealed.EVIDENCE


def _is_ledger(seal: BrokenSeal) -> bool:
    return seal.what in (Sealed.BATCH, Sealed.OUTCOMES)


def _is_state(seal: BrokenSeal) -> bool:
    return seal.what is Sealed.STATE
