"""Pausing, resuming and closing a campaign."""

from dataclasses import dataclass

from disco.records.errors import StateError
from disco.records.life import State
from disco.records.ports import Store
from disco.records.result import Result


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CampaignState(Result):
    """A campaign and the state it is in now."""

    campaign: str
    """The name of the campaign."""
    state: State
    """launched, paused or closed."""


def pause(store: Store, campaign: str) -> CampaignState:
    """No codes for anybody who arrives now; outcomes of codes that are out still count."""
    return _move(store, campaign, State.PAUSED, allowed=(State.LAUNCHED,))


def resume(store: Store, campaign: str) -> CampaignState:
    """Codes again after a pause."""
    return _move(store, campaign, State.LAUNCHED, allowed=(State.PAUSED,))


def close(store: Store, campaign: str) -> CampaignState:
    """For good: no codes, and every outcome that comes from now on is expired."""
    return _move(store, campaign, State.CLOSED, allowed=(State.LAUNCHED, State.PAUSED))


def _move(store: Store, campaign: str, state: State, *, allowed: tuple[State, ...]) -> CampaignState:
    with store.writing(campaign) as transaction:
        record = transaction.plans.campaign(campaign)
        if record.state is state:
            return CampaignState(campaign=campaign, state=state)
        if record.state not in allowed:
            raise StateError(f"campaign {campaign}", found=str(record.state), expected=" or ".join(allowed))
        transaction.plans.set_state(campaign, state)
        return CampaignState(campaign=campaign, state=state)
