"""What studies keep: pieces are made once, interrupted runs continue, changed source makes results anew."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from disco.records.errors import FileFormatError, StateError
from disco.studies import cache
from disco.studies.bandits.simulation import PLAY_ROOMS
from disco.studies.cache import (
    Piece,
    folder_written_whole,
    key_of,
    load_arrays,
    make_missing,
    require_same_source,
    save_arrays,
    source_hash,
    source_of,
    worker_pool,
)
from disco.studies.environment import ENVIRONMENT_ROOMS
from disco.studies.paper import lab as lab_module
from disco.studies.paper.lab import MEASURE_ROOMS, TINY, Lab

ROOMS = ("studies/sample.py",)


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def interrupted():
        with folder_written_whole(tmp_path / "made") as unfinished:
            (unfinished / "half").write_text("x")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def numbers(path, count):
    save_arrays(path, {"numbers": np.arange(count)})


def piece(path: Path, count: int = 3) -> Piece:
    return Piece(path=path, make=numbers, arguments=(count,), rooms=ROOMS, step=path.stem)


def test_a_damaged_file_is_named_where_it_is_read(tmp_path):
    save_arrays(tmp_path / "piece.npz", {"a": np.arange(3)})
    assert load_arrays(tmp_path / "piece.npz")["a"].tolist() == [0, 1, 2]
    (tmp_path / "piece.npz").write_bytes(b"PK\x03\x04 not all of it")
    with pytest.raises(FileFormatError, match=r"piece\.npz.*Delete it"):
        load_arrays(tmp_path / "piece.npz")


@pytest.mark.parametrize("damage", ["empty", "another kind", "half", "one byte"])
def test_a_damaged_piece_is_made_again(tmp_path, damage):
    wanted = piece(tmp_path / "numbers.npz", count=1000)
    make_missing([wanted])
    sound = wanted.path.read_bytes()
    changed = bytearray(sound)
    changed[len(sound) // 2] ^= 1
    wanted.path.write_bytes(
        {"empty": b"", "another kind": b"not an array", "half": sound[: len(sound) // 2], "one byte": bytes(changed)}[
            damage
        ]
    )
    make_missing([wanted])
    assert wanted.path.read_bytes() == sound


def test_only_what_is_missing_is_made_and_a_piece_wanted_twice_is_made_once(tmp_path):
    first, second = piece(tmp_path / "first.npz"), piece(tmp_path / "second.npz")
    heard: list[str] = []
    make_missing([first], progress=heard.append)
    make_missing([first, second, second], progress=heard.append)
    make_missing([first, second], progress=heard.append)
    assert heard == ["first (1 of 1)", "second (2 of 2)"]


def test_keys_depend_on_every_part():
    assert len({key_of("a", 1), key_of("a", 2), key_of("b", 1), key_of("a", "1", "")}) == 4


# ---- source --------------------------------------------------------------------------------------------------------


def test_every_room_that_pieces_are_named_by_exists():
    root = Path(cache.__file__).parents[1]
    for rooms in (ENVIRONMENT_ROOMS, MEASURE_ROOMS, PLAY_ROOMS):
        assert all((root / room).exists() for room in rooms)


def test_a_changed_file_of_a_room_is_another_version(tmp_path, monkeypatch):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "studies" / "cache.py"))
    before = source_hash(("room",))
    assert source_hash(("room",)) == before
    (tmp_path / "room" / "a.py").write_text("x = 2\n")
    assert source_hash(("room",)) != before
    with pytest.raises(StateError, match="changed while it ran"):
        require_same_source(("room",), before)


MODULE = """
from math import sqrt, pi

FACTOR = 2
WORDS = "a page"

def measure(environment, settings):
    return _helper(environment)

def _helper(x):
    return FACTOR * sqrt(x)

def page():
    return WORDS, pi
"""


@pytest.mark.parametrize(
    ("old", "new", "is_another"),
    [
        ("FACTOR = 2", "FACTOR = 3", True),
        ("return FACTOR * sqrt(x)", "return sqrt(x)", True),
        ("from math import sqrt, pi", "from cmath import sqrt, pi", True),
        ('WORDS = "a page"', 'WORDS = "another page"', False),
        ("return WORDS, pi", "return WORDS", False),
    ],
)
def test_a_measures_source_is_what_it_refers_to(tmp_path, monkeypatch, old, new, is_another):
    """Numbers are made anew when what they follow from changes, and not when a page's words do."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"measured_{key_of(old, new)}"
    file = tmp_path / f"{name}.py"
    file.write_text(MODULE)
    measure = __import__(name).measure
    before = source_of(measure)
    file.write_text(MODULE.replace(old, new))
    assert (source_of(measure) != before) == is_another


# ---- environments and what is measured in them ---------------------------------------------------------------------


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
    here = lab.environment(11).path
    assert Lab(settings=replace(TINY, customers=1501), folder=folder).environment(11).path != here
    more = Lab(settings=replace(TINY, environments=7, processes=2), folder=folder)
    assert more.environment(11).path == here
    assert more.measured(counted, 11).path == lab.measured(counted, 11).path != lab.measured(where, 11).path
    monkeypatch.setattr(lab_module, "source_version", lambda rooms: "tomorrow's")
    assert lab.environment(11).path != here


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


def dies(environment, settings):
    """A measure whose process is killed."""
    os._exit(9)


def where(environment, settings):
    """A measure that says in which process it was made, and with how many threads."""
    import numba

    return {"process": np.array([os.getpid()]), "threads": np.array([numba.get_num_threads()])}


def test_processes_have_one_thread_each_and_a_dead_one_is_named(folder, monkeypatch):
    """One pool for everything: what was finished before a death is kept."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # processes find the measures of this file there
    settings, before = replace(TINY, processes=2), dict(os.environ)
    with worker_pool(settings.processes) as pool:
        lab = Lab(settings=settings, folder=folder, pool=pool)
        found = lab.measure(where)
        assert os.getpid() not in {int(each["process"][0]) for each in found}
        assert {int(each["threads"][0]) for each in found} == {1}
        with pytest.raises(StateError, match="finished pieces are kept"):
            lab.measure(dies)
    assert dict(os.environ) == before
    assert len(list((folder / "measured").glob("*.npz"))) >= 2
