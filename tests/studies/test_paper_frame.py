"""The frame of the reproduction: verdicts follow from figures."""

from dataclasses import replace

import numpy as np
import pytest

from disco.records.errors import InputError, UsageError
from disco.reports.formats import Number
from disco.studies.customers import StudySize
from disco.studies.environment import equal_caps
from disco.studies.paper.ab import Pooled, _answered, _pooled
from disco.studies.paper.command import ITEMS, chosen
from disco.studies.paper.item import Check, Item, ItemVerdict, above, below, checks_table, near, tally
from disco.studies.paper.lab import ReproductionSettings, RunSize, settings_of
from disco.studies.readings import MAIN_READING
from disco.studies.sample import Sample

UNIT = Number()


def check(holds: bool, reading: str = "", claim: str = "c", *, is_open: bool = False) -> Check:
    cell = Sample.of([1.0, 2.0])
    return Check(claim=claim, paper="p", ours=cell, unit=UNIT, rule="r", holds=holds, is_open=is_open, reading=reading)


def item(*checks: Check) -> Item:
    return Item(key="k", title="t", paper="p", checks=checks, why="w")


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


def test_rules_look_at_the_interval_or_at_the_mean():
    """1 and 3: mean 2, half of the 95 % interval is t(0.975; 1) = 12.706."""
    cell = Sample.of([1.0, 3.0])
    assert above("c", cell, than=1.9, paper="", unit=UNIT, clearly=False).holds
    assert not above("c", cell, than=1.9, paper="", unit=UNIT).holds
    assert above("c", cell, than=2 - 12.71, paper="", unit=UNIT).holds
    assert below("c", cell, than=2 + 12.71, paper="", unit=UNIT).holds
    assert not below("c", cell, than=2 + 12.69, paper="", unit=UNIT).holds
    assert near("c", cell, paper=1.5, within=0.5, unit=UNIT).holds
    assert not near("c", cell, paper=1.5, within=0.49, unit=UNIT).holds


@pytest.mark.parametrize(("shift", "state"), [(0.0, "holds"), (2.0, "open"), (4.0, "refuted")])
def test_a_claim_holds_is_open_or_is_refuted_by_where_its_interval_lies(shift, state):
    """Mean 2, 95 % interval 0.76 to 3.24, moved by `shift` against the claim."""
    up, down = Sample.of([1.5 - shift, 2.5 - shift, 2.0 - shift]), Sample.of([shift - 1.5, shift - 2.5, shift - 2.0])
    at_least = above("c", up, than=0.5, paper="", unit=UNIT)
    at_most = below("c", down, than=-0.5, paper="", unit=UNIT)
    close = near("c", up, paper=2.0, within=1.0, unit=UNIT)
    for found in (at_least, at_most, close):
        assert (found.holds, found.is_open) == (state == "holds", state == "open")


def test_one_environment_proves_nothing_clearly():
    one = Sample.of([5.0])
    assert above("c", one, than=0.0, paper="", unit=UNIT).is_open
    assert above("c", one, than=9.0, paper="", unit=UNIT, clearly=False).is_open
    assert above("c", one, than=0.0, paper="", unit=UNIT, clearly=False).holds


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
    with pytest.raises(UsageError, match=r"found figure-9; expected some of rbf"):
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
