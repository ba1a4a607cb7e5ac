"""What studies keep: pieces are made once, interrupted runs continue, changed source makes results anew."""

from pathlib import Path

import numpy as np
import pytest
from studies.cache import (
    Piece,
    folder_written_whole,
    key_of,
    load_arrays,
    make_missing,
    require_same_source,
    save_arrays,
    source_hash,
    source_of,
)
from studies.environment import ENVIRONMENT_ROOMS
from studies.lab import MEASURE_ROOMS
from studies.simulation import PLAY_ROOMS

from disco.records.errors import FileFormatError, StateError
from studies import cache

ROOMS = ("studies/readings.py",)


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
    for rooms in (ENVIRONMENT_ROOMS, MEASURE_ROOMS, PLAY_ROOMS):
        assert all(cache.place_of(room).exists() for room in rooms)


def test_a_changed_file_of_a_room_is_another_version(tmp_path, monkeypatch):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
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
