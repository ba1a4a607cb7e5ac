"""Pausing, resuming and closing a campaign."""

from dataclasses import replace

from disco.records.errors import StateError
from disco.records.life import CampaignRecord, State
from disco.records.ports import Store


def pause(store: Store, campaign: str) -> CampaignRecord:
    """No codes for anybody who arrives now; outcomes of codes that are out still count."""
    return _move(store, campaign, State.PAUSED, allowed=(State.LAUNCHED,))


def resume(store: Store, campaign: str) -> CampaignRecord:
    """Codes again after a pause."""
    return _move(store, campaign, State.LAUNCHED, allowed=(State.PAUSED,))


def close(store: Store, campaign: str) -> CampaignRecord:
    """For good: no codes, and every outcome that comes from now on is late."""
    return _move(store, campaign, State.CLOSED, allowed=(State.LAUNCHED, State.PAUSED))


def _move(store: Store, campaign: str, state: State, *, allowed: tuple[State, ...]) -> CampaignRecord:
    with store.writing(campaign) as shelves:
        record = shelves.campaign(campaign)
        if record.state is state:
            return record
        if record.state not in allowed:
            raise StateError(f"campaign {campaign}", found=str(record.state), expected=" or ".join(allowed))
        shelves.set_state(campaign, state)
        return replace(record, state=state)
