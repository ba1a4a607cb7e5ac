"""A campaign's life on the ports: arms, launch, codes, ledger, learning."""

from disco.operations.launch import Launched, launch, offer_of
from disco.operations.plain_learning import learn_campaign, matured_codes, purchases_of
from disco.operations.plain_ledger import ingest

__all__ = ["Launched", "ingest", "launch", "learn_campaign", "matured_codes", "offer_of", "purchases_of"]
