"""`disco reproduce` at the door: what it refuses, before any work is done."""

import json

import pytest


def test_an_unknown_item_is_wrong_usage_and_the_known_ones_are_named(disco, tmp_path):
    code, out, error = disco("reproduce", "--only", "figure-9", "-o", tmp_path / "new")
    assert (code, out) == (2, "")
    assert "found figure-9; expected some of rbf, plays" in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("option", ["--environments=0", "--environments=1000", "--seed=-1", "--environments=x"])
def test_numbers_out_of_range_are_wrong_usage(disco, tmp_path, option):
    code, out, _ = disco("reproduce", option, "-o", tmp_path / "new")
    assert (code, out) == (2, "")
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(disco, tmp_path):
    (tmp_path / "taken").write_text("mine")
    code, _, error = disco("reproduce", "--quick", "-o", tmp_path / "taken", "--json")
    assert code == 1
    assert "expected a folder" in json.loads(error)["message"]
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_page_without_a_browser_is_refused_before_the_work(disco, tmp_path, monkeypatch):
    monkeypatch.setenv("DISCO_CHROMIUM", str(tmp_path / "no-such-browser"))
    code, _, error = disco("reproduce", "--quick", "-o", tmp_path / "out", "--page", tmp_path / "page.md")
    assert code == 1
    assert "Chromium" in error
    assert list((tmp_path / "out").iterdir()) == []
