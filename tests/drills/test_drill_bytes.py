"""The drill that compares fingerprints fails when one differs, is missing, or nothing was compared."""

from bytes_drill import BASELINE, compare


def test_only_equal_and_complete_fingerprints_pass(capsys):
    baseline = {"decisions": "a", "evidence": "b"}
    assert compare(dict(baseline), baseline) == 0
    assert compare({**baseline, "new": "c"}, baseline) == 0
    assert compare({"decisions": "a", "evidence": "x"}, baseline) == 1
    assert compare({"decisions": "a"}, baseline) == 1
    assert compare({}, {}) == 1
    assert "DIFFERENT evidence" in capsys.readouterr().out


def test_the_baseline_covers_decisions_evidence_and_money():
    import json

    names = json.loads(BASELINE.read_text(encoding="utf-8"))
    for part in ("demo C depth", "2026-08 code_id", "2026-08 input evidence", "2026-08 value", "2026-08 prices"):
        assert part in names
