"""Policies from a cold start: nothing is known of the customers when the first batch is decided."""

from disco.studies.bandits.study import COLD
from disco.studies.paper.compared import compared_item
from disco.studies.paper.item import Item
from disco.studies.paper.lab import Lab
from disco.studies.paper.replayed import replayed_cold


def run(lab: Lab) -> Item:
    return compared_item(
        lab,
        key="cold",
        start=COLD,
        word="Cold",
        paper="A figure of basket value relative to Random (there without caps) over 100 batches, without "
        "figures in the text: TS-IP needs some batches, then passes the greedy policies, goes on rising and ends "
        "highest; UCB-IP declines.",
        greedy_declines=False,
        replay=replayed_cold,
    )
