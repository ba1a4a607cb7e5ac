"""The two items that compare policies, from a warm and from a cold start: one page, told twice."""

from collections.abc import Callable
from dataclasses import replace

from disco.studies.bandits import figures
from disco.studies.bandits.recipes import GREEDY, NARROW, RECIPES, THOMPSON, UCB
from disco.studies.paper.cache import Arrays
from disco.studies.paper.environment import Environment
from disco.studies.paper.item import Item
from disco.studies.paper.lab import Lab
from disco.studies.paper.policies import (
    checks_of,
    difference,
    policies_table,
    readings_table,
    repeats_table,
    replay_table,
    series_chart,
    uplift_chart,
    words,
)
from disco.studies.paper.replayed import replayed
from disco.studies.paper.settings import REVENUE_WEIGHT, Settings
from disco.studies.paper.simulations import Games, Request, main_rules, play


def compared_item(
    lab: Lab,
    *,
    key: str,
    start: int | None,
    word: str,
    paper: str,
    greedy_declines: bool,
    replay: Callable[[Environment, Settings], Arrays],
) -> Item:
    """`word` is "Warm" or "Cold"; `replay` measures the same start by replay."""
    rules = main_rules(lab)
    games, alone = play(
        lab,
        Request(start=start, rules=rules, recipes=RECIPES),
        Request(start=start, rules=replace(rules, revenue_weight=None)),
        named=f"{key} start",
    )
    logs = replayed(lab, replay)
    return Item(
        key=key,
        title=f"Policies from a {key} start",
        paper=paper,
        checks=tuple(
            check for recipe in RECIPES for check in checks_of(games, recipe=recipe, greedy_declines=greedy_declines)
        ),
        why=_why(games, alone),
        charts=(series_chart(games, start=word), uplift_chart(games, start=word)),
        tables=(
            policies_table(
                games, caption=f"{word} start, {REVENUE_WEIGHT:g} pounds of revenue against one of markdown",
                objective="objective",
            ),
            repeats_table(games, caption=f"{word} start in one environment"),
            policies_table(alone, caption=f"{word} start, revenue alone", objective="revenue"),
            readings_table(games, caption=f"{word} start by encoding of the depths"),
            replay_table(logs, caption=f"{word} start by replay"),
        ),
    )  # fmt: skip


def _why(games: Games, alone: Games) -> str:
    """In words that follow from the figures."""
    basket = games.over_environments(figures.basket_uplift, THOMPSON, NARROW)
    objective = games.over_environments(figures.objective_uplift, THOMPSON, NARROW)
    revenue = alone.over_environments(figures.basket_uplift, THOMPSON, NARROW)
    greedy = difference(games, figures.last_half, THOMPSON, GREEDY, NARROW)
    bound = games.over_environments(figures.trend, UCB, NARROW)
    unsure = greedy.half_width is None or abs(greedy.mean) <= greedy.half_width
    return (
        f"The policies maximise the objective, {REVENUE_WEIGHT:g} times revenue less markdown, counted per customer; "
        f"the basket value is revenue per purchaser. TS-IP's objective is {words(objective)} against Random's, its "
        f"basket value {words(basket)}; where revenue alone is sought, its basket value is {words(revenue)}. "
        "With everybody getting a code and every depth used equally often, all that is left to gain is who gets which "
        "depth, and the three depths lie close together. "
        f"TS-IP minus Greedy-IP in the last half: {words(greedy)}"
        + (
            ": no difference that environments agree on. We think that is because full caps make every policy play "
            "every depth in every batch: a greedy one goes on learning about all of them, and exploring on purpose has "
            "little left to find. "
            if unsure
            else ". "
        )
        + f"UCB-IP's last half minus its first: {words(bound)}."
    )
