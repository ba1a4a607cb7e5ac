"""The frame of the reproduction: verdicts follow from figures, by one rule for every claim."""

from dataclasses import replace

import numpy as np
import pytest
from studies.ab import Pooled, _answered, _pooled
from studies.calibration import StudySize
from studies.environment import equal_caps
from studies.item import Check, Claim, Item, ItemVerdict, Sample, checks_table, tally
from studies.lab import ReproductionSettings, RunSize, settings_of
from studies.readings import MAIN_READING
from studies.reproduce import ITEMS, chosen

from disco.records.errors import InputError, UsageError
from disco.views.formats import Number

UNIT = Number()


def check(holds: bool, reading: str = "", claim: str = "c", *, is_open: bool = False) -> Check:
    cell = Sample.of([1.0, 2.0])
    return Check(claim=claim, paper="p", ours=cell, unit=UNIT, rule="r", holds=holds, is_open=is_open, reading=reading)


def item(*checks: Check) -> Item:
    return Item(key="k", title="t", paper="p", checks=checks, prose=("w",))


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ((True, True), ItemVerdict.REPRODUCES),
        ((True, False), ItemVerdict.PARTLY),
        ((False, False), ItemVerdict.DOES_NOT),
    ],
)
def test_the_verdict_is_all_some_or_none(holds, verdict):
    assert item(*(check(each) for each in holds)).verdict is verdict


def test_what_intervals_leave_open_is_not_called_refuted():
    """Undecided only where nothing holds and nothing is refuted; an open claim never counts as one that holds."""
    still_open = check(False, is_open=True)
    assert item(still_open, still_open).verdict is ItemVerdict.UNDECIDED
    assert item(still_open, check(False)).verdict is ItemVerdict.DOES_NOT
    assert item(still_open, check(True)).verdict is ItemVerdict.PARTLY
    assert tally(item(still_open, check(True), check(False))) == "1 of 3, 1 open"
    assert checks_table(item(still_open)).text()[0][3].startswith("?")


def test_the_main_reading_decides_and_the_others_stand_beside_it():
    found = item(check(True), check(False, MAIN_READING), check(True, "γ = 2"))
    assert found.verdict is ItemVerdict.PARTLY
    assert found.verdict_by_reading == {MAIN_READING: ItemVerdict.PARTLY, "γ = 2": ItemVerdict.REPRODUCES}
    assert item(check(False, MAIN_READING), check(True, "spline")).verdict is ItemVerdict.DOES_NOT


def test_the_reason_names_what_holds_and_what_does_not():
    found = item(
        check(True, claim="apples fall"), check(False, claim="pigs fly"), check(False, claim="it rains", is_open=True)
    )
    assert found.reason == (
        "Holds: apples fall. Open, because the interval allows both: it rains. Does not hold: pigs fly."
    )


def state(found: Check) -> str:
    return "holds" if found.holds else "open" if found.is_open else "refuted"


RULES = {
    "above": Claim("c", "", above=0.5),
    "below": Claim("c", "", below=3.5),
    "within": Claim("c", 2.0, within=1.5),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("shift", "expected"), [(0.0, "holds"), (1.0, "open"), (2.5, "open"), (4.0, "refuted")])
def test_every_rule_judges_by_the_whole_interval_and_never_by_the_mean(rule, shift, expected):
    """Mean 2, interval 0.76 to 3.24, moved to the end of the band; at 1.0 the mean alone would keep the rule."""
    moved = shift if rule == "below" else -shift
    cell = Sample.of([1.5 + moved, 2.5 + moved, 2.0 + moved])
    assert state(RULES[rule].check(cell)) == expected


def test_a_figure_within_the_papers_band_is_open_while_its_interval_leaves_it():
    """0.475 ± 0.041 against 0.438 ± 0.040: other shops may well lie outside."""
    cell = Sample.of([0.445, 0.460, 0.492, 0.502])
    found = Claim("Spearman of C", 0.438, Number(decimals=3), within=0.04).check(cell)
    assert abs(cell.mean - 0.438) < 0.04
    assert (state(found), found.rule) == ("open", "whole interval within 0.040 of the paper's figure")


def test_figures_without_spread_are_judged_and_one_environment_leaves_everything_open():
    assert state(RULES["above"].check(Sample.of([5.0, 5.0]))) == "holds"
    assert {state(claim.check(Sample.of([value]))) for claim in RULES.values() for value in (-9.0, 2.0, 9.0)} == {
        "open"
    }


def test_pooled_uplifts_are_those_of_the_other_arm_turned_round():
    """Which arm is called the test must not matter: ratios of B to A are one over those of A to B."""
    ratio, error = np.array([1.1, 0.8, 0.95]), np.array([0.2, 0.1, 0.3])

    def shops(ratio, error):
        return [{f"{MAIN_READING}: realised": np.array([r - 1, e])} for r, e in zip(ratio, error, strict=True)]

    there, back = _pooled(shops(ratio, error), MAIN_READING), _pooled(shops(1 / ratio, error / ratio**2), MAIN_READING)
    assert (1 + there.relative) * (1 + back.relative) == pytest.approx(1)
    assert there.p_value == pytest.approx(back.p_value, rel=0.5)
    assert _pooled(shops(ratio[:1], error[:1]), MAIN_READING) == Pooled(pytest.approx(0.1), pytest.approx(0.2))


def test_a_significant_loss_is_no_gain():
    gain, loss, weak = (_answered(Pooled(relative, 0.01), "") for relative in (0.05, -0.05, 0.001))
    assert (gain.holds, loss.holds, weak.holds) == (True, False, False)
    assert (loss.is_open, weak.is_open) == (False, True)


def test_a_single_environment_has_no_interval_and_a_share_ends_at_one():
    assert Sample.of([0.7]).estimate().ends is None
    assert Sample.of([0.5, 0.9]).estimate(share=True).ends == (0.0, 1.0)


def test_the_table_of_checks_has_a_row_per_claim_and_a_column_per_reading():
    table = checks_table(item(check(True), check(False, MAIN_READING, "d"), check(True, "γ = 2", "d")))
    assert [column.heading for column in table.typed_columns()][3:] == [MAIN_READING, "γ = 2"]
    assert [row[0] for row in table.rows] == ["c", "d", "verdict"]
    marks = [[cell[0] if cell else "" for cell in row[3:]] for row in table.rows[:2]]
    assert marks == [["✓", ""], ["✗", "✓"]]


def test_only_keeps_the_papers_order_and_names_what_it_does_not_know():
    assert chosen(("campaigns", "rbf")) == ("rbf", "campaigns")
    assert chosen(()) == tuple(ITEMS)
    with pytest.raises(UsageError, match=r"ITEM: found figure-9; expected some of rbf"):
        chosen(("rbf", "figure-9"))


def test_settings_are_those_of_the_extent_but_for_what_is_asked():
    asked = settings_of(RunSize.QUICK, environments=3, seed=7)
    assert asked == replace(settings_of(RunSize.QUICK), environments=3, first_seed=7)
    assert asked.seeds == (7, 8, 9)
    assert settings_of(RunSize.FULL).environments >= 4
    for wrong in ({"environments": 0}, {"first_seed": -1}):
        with pytest.raises(InputError):
            ReproductionSettings(**wrong)


@pytest.mark.parametrize(("customers", "depths"), [(5000, 3), (7, 4), (2, 3)])
def test_equal_caps_give_everybody_one_code_and_prefer_no_depth(customers, depths):
    caps = equal_caps(customers=customers, depths=depths)
    assert (sum(caps), max(caps) - min(caps) <= 1) == (customers, True)


def test_the_calibration_has_not_seen_these_shops():
    used = {*StudySize().seeds, *StudySize().more_seeds}
    assert used.isdisjoint(settings_of(RunSize.FULL).seeds)
