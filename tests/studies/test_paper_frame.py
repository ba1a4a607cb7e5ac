"""The frame of the reproduction: verdicts follow from figures, pieces are made once, interrupted runs continue."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from disco.records.errors import FileFormatError, InputError, StateError, UsageError
from disco.reports import Number
from disco.studies.customers.figures import Cell
from disco.studies.paper import lab as lab_module
from disco.studies.paper.ab_page import Pooled, _answered, _pooled
from disco.studies.paper.cache import folder_written_whole, key_of, load_arrays, save_arrays
from disco.studies.paper.checks import checks_table, tally
from disco.studies.paper.item import MAIN_READING, Check, Item, Verdict, above, below, estimate_of, near
from disco.studies.paper.lab import Lab
from disco.studies.paper.registry import ITEMS, chosen, module_of
from disco.studies.paper.settings import TINY, Extent, Settings, equal_caps, settings_of

UNIT = Number()


def check(holds: bool, reading: str = "", claim: str = "c", *, is_open: bool = False) -> Check:
    cell = Cell.of([1.0, 2.0])
    return Check(claim=claim, paper="p", ours=cell, unit=UNIT, rule="r", holds=holds, is_open=is_open, reading=reading)


def item(*checks: Check) -> Item:
    return Item(key="k", title="t", paper="p", checks=checks, why="w")


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [((True, True), Verdict.REPRODUCES), ((True, False), Verdict.PARTLY), ((False, False), Verdict.DOES_NOT)],
)
def test_the_verdict_is_all_some_or_none(holds, verdict):
    assert item(*(check(each) for each in holds)).verdict is verdict


def test_what_intervals_leave_open_is_not_called_refuted():
    """Undecided only where nothing holds and nothing is refuted; an open claim never counts as one that holds."""
    still_open = check(False, is_open=True)
    assert item(still_open, still_open).verdict is Verdict.UNDECIDED
    assert item(still_open, check(False)).verdict is Verdict.DOES_NOT
    assert item(still_open, check(True)).verdict is Verdict.PARTLY
    assert tally(item(still_open, check(True), check(False))) == "1 of 3, 1 open"
    assert checks_table(item(still_open)).text()[0][3].startswith("?")


def test_the_main_reading_decides_and_the_others_stand_beside_it():
    found = item(check(True), check(False, MAIN_READING), check(True, "γ = 2"))
    assert found.verdict is Verdict.PARTLY
    assert found.verdict_by_reading == {MAIN_READING: Verdict.PARTLY, "γ = 2": Verdict.REPRODUCES}
    assert item(check(False, MAIN_READING), check(True, "spline")).verdict is Verdict.DOES_NOT


def test_the_reason_names_what_holds_and_what_does_not():
    found = item(
        check(True, claim="apples fall"), check(False, claim="pigs fly"), check(False, claim="it rains", is_open=True)
    )
    assert found.reason == (
        "Holds: apples fall. Open, as intervals leave room for both: it rains. Does not hold: pigs fly."
    )


def test_rules_look_at_the_interval_or_at_the_mean():
    """1 and 3: mean 2, half of the 95 % interval is t(0.975; 1) = 12.706."""
    cell = Cell.of([1.0, 3.0])
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
    up, down = Cell.of([1.5 - shift, 2.5 - shift, 2.0 - shift]), Cell.of([shift - 1.5, shift - 2.5, shift - 2.0])
    at_least = above("c", up, than=0.5, paper="", unit=UNIT)
    at_most = below("c", down, than=-0.5, paper="", unit=UNIT)
    close = near("c", up, paper=2.0, within=1.0, unit=UNIT)
    for found in (at_least, at_most, close):
        assert (found.holds, found.is_open) == (state == "holds", state == "open")


def test_one_environment_proves_nothing_clearly():
    one = Cell.of([5.0])
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
    assert estimate_of(Cell.of([0.7])).ends is None
    assert estimate_of(Cell.of([0.5, 0.9]), share=True).ends == (0.0, 1.0)


def test_the_table_of_checks_has_a_row_per_claim_and_a_column_per_reading():
    table = checks_table(item(check(True), check(False, MAIN_READING, "d"), check(True, "γ = 2", "d")))
    assert [column.heading for column in table.headings()][3:] == [MAIN_READING, "γ = 2"]
    assert [row[0] for row in table.rows] == ["c", "d", "verdict"]
    marks = [[cell[0] if cell else "" for cell in row[3:]] for row in table.rows[:2]]
    assert marks == [["✓", ""], ["✗", "✓"]]


def test_every_key_is_a_module_with_a_run():
    assert len(set(ITEMS)) == len(ITEMS)
    for key in ITEMS:
        assert callable(module_of(key).run)


def test_only_keeps_the_papers_order_and_names_what_it_does_not_know():
    assert chosen(("campaigns", "rbf")) == ("rbf", "campaigns")
    assert chosen(()) == ITEMS
    with pytest.raises(UsageError, match=r"found figure-9; expected some of rbf"):
        chosen(("rbf", "figure-9"))


def test_settings_are_those_of_the_extent_but_for_what_is_asked():
    asked = settings_of(Extent.QUICK, environments=3, seed=7)
    assert asked == replace(settings_of(Extent.QUICK), environments=3, first_seed=7)
    assert asked.seeds == (7, 8, 9)
    assert settings_of(Extent.FULL).environments >= 4
    for wrong in ({"environments": 0}, {"first_seed": -1}):
        with pytest.raises(InputError):
            Settings(**wrong)


@pytest.mark.parametrize(("customers", "depths"), [(5000, 3), (7, 4), (2, 3)])
def test_equal_caps_give_everybody_one_code_and_prefer_no_depth(customers, depths):
    caps = equal_caps(customers=customers, depths=depths)
    assert (sum(caps), max(caps) - min(caps) <= 1) == (customers, True)


def test_the_calibration_has_not_seen_these_shops():
    from disco.studies.customers.study import Extent as Calibrated

    used = {*Calibrated().seeds, *Calibrated().more_seeds}
    assert used.isdisjoint(settings_of(Extent.FULL).seeds)


# ---- pieces that are kept -----------------------------------------------------------------------------------------


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def interrupted():
        with folder_written_whole(tmp_path / "made") as unfinished:
            (unfinished / "half").write_text("x")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_piece_is_named(tmp_path):
    save_arrays(tmp_path / "piece.npz", {"a": np.arange(3)})
    assert load_arrays(tmp_path / "piece.npz")["a"].tolist() == [0, 1, 2]
    (tmp_path / "piece.npz").write_bytes(b"PK\x03\x04 not all of it")
    with pytest.raises(FileFormatError, match=r"piece\.npz.*Delete it"):
        load_arrays(tmp_path / "piece.npz")


def counted(environment, settings):
    """A measure that leaves a trace of each call, and fails where it is told to."""
    folder = environment.folder.parents[1]
    if (folder / "fail").exists() and environment.seed == 12:
        raise RuntimeError("interrupted")
    calls = folder / f"calls-{environment.seed}"
    calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
    return {"mean": np.array([np.nanmean(environment.campaigns["A"].full_price)])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("reproduction")


def test_an_interrupted_run_continues_and_measures_nothing_twice(folder):
    lab = Lab(settings=TINY, folder=folder)
    (folder / "fail").touch()
    with pytest.raises(RuntimeError, match="interrupted"):
        lab.measure(counted)
    (folder / "fail").unlink()
    first = lab.measure(counted)
    assert lab.measure(counted) == first
    assert [(folder / f"calls-{seed}").read_text() for seed in TINY.seeds] == ["x", "x"]
    assert math.isfinite(first[0]["mean"][0])
    assert first[0]["mean"] != first[1]["mean"]


def test_other_settings_and_other_code_are_other_pieces(folder, monkeypatch):
    lab = Lab(settings=TINY, folder=folder)
    here = lab.environment_folder(11)
    assert Lab(settings=replace(TINY, customers=1501), folder=folder).environment_folder(11) != here
    more = Lab(settings=replace(TINY, environments=7, processes=2), folder=folder)
    assert more.environment_folder(11) == here
    assert more._measured(counted, 11) == lab._measured(counted, 11) != lab._measured(where, 11)
    monkeypatch.setattr(lab_module, "code_version", lambda rooms: "tomorrow's")
    assert lab.environment_folder(11) != here
    with pytest.raises(StateError, match="source that changed while it ran"):
        lab_module.require_same_source(("belief",), "today's")


def test_an_environment_read_again_is_the_one_that_was_made(folder):
    lab = Lab(settings=TINY, folder=folder)
    one, again = lab.environments()[0], lab.environments()[0]
    log, same = one.campaigns["D"], again.campaigns["D"]
    assert (log.campaign.channel, log.campaign.valid_days) == ("e-mail", 30)
    for name in ("ids", "context", "known", "depth", "full_price"):
        np.testing.assert_array_equal(getattr(log, name), getattr(same, name))
    features = one.features("D")
    assert features["customer_id"].to_numpy().tolist() == log.ids.tolist()
    np.testing.assert_array_equal(one.network.transform(features, check_scale=False), log.context)
    training = one.orders("training")
    assert training.X.num_columns == 76
    assert len(training) == training.X.num_rows == len(training.ids)
    assert len(log.purchases) == int((log.bought & log.known).sum())
    assert one.truth(log.ids[:3], (0.2,)).expected_full_price.shape == (3, 1)


def test_keys_depend_on_every_part():
    assert len({key_of("a", 1), key_of("a", 2), key_of("b", 1), key_of("a", "1", "")}) == 4


def dies(environment, settings):
    """A measure whose process is killed."""
    os._exit(9)


def where(environment, settings):
    """A measure that says in which process it was made."""
    return {"process": np.array([os.getpid()])}


def test_processes_do_the_same_and_a_dead_one_is_named(folder):
    """One pool for everything: figures are those of a single process, and what was finished before a death is kept."""
    settings = replace(TINY, processes=2)
    with lab_module.worker_pool(settings) as pool:
        lab = Lab(settings=settings, folder=folder, pool=pool)
        assert os.getpid() not in {int(each["process"][0]) for each in lab.measure(where)}
        with pytest.raises(StateError, match="finished pieces are kept"):
            lab.measure(dies)
    assert len(list((folder / "measured").glob("*.npz"))) >= 2
