"""`./run release`: which versions it takes, and how it cuts the changelog."""

from datetime import date
from pathlib import Path

import pytest
from deploy.release import CHANGELOG, NAMED_IN, ROOT, RefusedError, cut, refuse_version

from disco.records import VERSION


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.0", "MAJOR.MINOR.PATCH"),
        ("v1.0.0", "MAJOR"),
        ("01.0.0", "MAJOR"),
        ("0.1.0", "above 0.1.0"),
        ("0.0.9", "above"),
    ],
)
def test_a_version_has_three_parts_and_is_above_the_last(version, words):
    with pytest.raises(RefusedError, match=words):
        refuse_version(version, "0.1.0")
    refuse_version("0.10.0", "0.9.9")


def test_what_was_unreleased_gets_the_version_and_earlier_releases_stay():
    text = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 1.0.0 · 2027-01-01\n\n- Old.\n"
    changed, notes = cut(text, "1.1.0", date(2027, 2, 1))
    assert notes == "- New.\n"
    assert changed == (
        "# Changelog\n\n## Unreleased\n\n## 1.1.0 · 2027-02-01\n\n- New.\n\n## 1.0.0 · 2027-01-01\n\n- Old.\n"
    )
    with pytest.raises(RefusedError, match="nothing below"):
        cut(changed, "1.2.0", date(2027, 3, 1))


def test_the_files_that_a_release_changes_name_the_version():
    assert all(VERSION in (ROOT / name).read_text() for name in NAMED_IN)
    cut((Path(ROOT) / CHANGELOG).read_text(), "99.0.0", date(2027, 1, 1))
