"""Policies from a warm start: trained on earlier campaigns, then a hundred batches of five thousand customers."""

from disco.studies.bandits import figures
from disco.studies.bandits.recipes import NARROW, RANDOM, THOMPSON
from disco.studies.bandits.study import WARM
from disco.studies.customers.figures import Cell
from disco.studies.paper.compared import compared_item
from disco.studies.paper.item import Item
from disco.studies.paper.lab import Lab
from disco.studies.paper.replayed import replayed_warm
from disco.studies.paper.simulations import Request, main_rules, play


def run(lab: Lab) -> Item:
    return compared_item(
        lab,
        key="warm",
        start=WARM,
        word="Warm",
        paper="A figure of basket value relative to Random (there without caps) over 100 batches, without "
        "figures in the text: TS-IP rises throughout and ends highest; Greedy-IP and ε-greedy-IP start well and "
        "decline; UCB-IP declines.",
        greedy_declines=True,
        replay=replayed_warm,
    )


def warm_uplift(lab: Lab) -> Cell:
    """TS-IP's basket value over Random's from a warm start, a share, one figure per environment."""
    request = Request(start=WARM, rules=main_rules(lab), policies=(RANDOM, THOMPSON))
    (games,) = play(lab, request, named="warm start")
    return games.over_environments(figures.basket_uplift, THOMPSON, NARROW)
