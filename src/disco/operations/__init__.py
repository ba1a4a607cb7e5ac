"""A campaign's life on the ports: plan, launch, codes, ledger, learning, results."""

from disco.operations.arms import offer_of
from disco.operations.audit import audit
from disco.operations.explaining import Explanation, explain
from disco.operations.exporting import csv_safe, export_codes
from disco.operations.late import decide_late_arrivals
from disco.operations.launching import Launched, close, launch, pause, resume
from disco.operations.learning import Learned, learn_campaigns, rebuild
from disco.operations.ledger import Ingested, Reverted, counts_of, ingest, revert
from disco.operations.planned import Planned, keep, load
from disco.operations.planning import plan_campaign
from disco.operations.propensities import add_propensities
from disco.operations.purchases import purchases_of
from disco.operations.results import CampaignResults, read_out
from disco.operations.versions import activate, active_belief, belief_at, belief_hash

__all__ = [
    "CampaignResults",
    "Explanation",
    "Ingested",
    "Launched",
    "Learned",
    "Planned",
    "Reverted",
    "activate",
    "active_belief",
    "add_propensities",
    "audit",
    "belief_at",
    "belief_hash",
    "close",
    "counts_of",
    "csv_safe",
    "decide_late_arrivals",
    "explain",
    "export_codes",
    "ingest",
    "keep",
    "launch",
    "learn_campaigns",
    "load",
    "offer_of",
    "pause",
    "plan_campaign",
    "purchases_of",
    "read_out",
    "rebuild",
    "resume",
    "revert",
]
