"""The items in small: `disco reproduce` ends, says what it is, and its page is made of its figures."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from disco.records.errors import InputError
from disco.studies.paper import encodings, plays, rbf, uncertainty
from disco.studies.paper.command import reproduce
from disco.studies.paper.item import ItemVerdict
from disco.studies.paper.lab import TINY, Lab
from disco.studies.paper.report import MOST_PICTURES, page, picture_name
from disco.studies.readings import READINGS, curves, learned, some_customers, true_curves

OURS = ("rbf", "plays", "uncertainty", "elasticity", "encodings", "demand", "models", "campaigns", "ab")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper") / "out"
    result, text = reproduce(TINY, only=OURS, out=out, page=None, command="disco reproduce")
    return out, result, text


@pytest.fixture(scope="module")
def lab(run):
    return Lab(settings=TINY, folder=run[0] / "cache")


def test_every_item_has_a_verdict_checks_and_a_reason(run):
    _, result, text = run
    assert [item["key"] for item in result["items"]] == list(OURS)
    for item in result["items"]:
        assert item["verdict"] in list(ItemVerdict)
        assert item["checks"]
        assert all(math.isfinite(check["mean"]) for check in item["checks"])
        assert item["reason"]
        assert item["why"]
        assert item["paper"]
        assert item["title"] in text


def test_claims_about_the_encoding_are_put_to_every_reading(run):
    by_key = {item["key"]: item for item in run[1]["items"]}
    for key in ("plays", "uncertainty", "encodings", "demand", "campaigns", "ab"):
        assert set(READINGS) <= set(by_key[key]["verdict_by_reading"])
    assert set(by_key["rbf"]["verdict_by_reading"]) == set(READINGS) - {"spline"}


def test_the_report_is_one_file_that_says_simulated(run):
    html = (run[0] / "report.html").read_text()
    before_the_library = html.split("<script>")[0]
    assert not [word for word in ("https://", "http://", "src=") if word in before_the_library]
    for words in ("simulated", "Verdicts", *(item["title"] for item in run[1]["items"])):
        assert words in html
    assert json.loads((run[0] / "result.json").read_text())["items"] == run[1]["items"]


def test_a_second_run_is_equal_and_computes_nothing(run, tmp_path, monkeypatch):
    """What was measured is taken from the folder: a simulation would be noticed."""
    from disco.studies import cache

    def never(*arguments: object) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(cache, "_make", never)
    again, _ = reproduce(TINY, only=OURS, out=run[0], page=None, command="disco reproduce")
    without_time = [[{**item, "seconds": 0} for item in each["items"]] for each in (run[1], again)]
    assert without_time[0] == without_time[1]


def test_another_seed_is_another_shop(run, tmp_path):
    other, _ = reproduce(
        replace(TINY, first_seed=31, environments=1), only=["elasticity"], out=tmp_path, page=None, command="c"
    )
    ours = next(item for item in run[1]["items"] if item["key"] == "elasticity")
    assert other["items"][0]["checks"][0]["mean"] != ours["checks"][0]["mean"]
    assert other["items"][0]["checks"][0]["half_width"] is None


def test_a_file_in_the_place_of_the_folder_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="expected a folder"):
        reproduce(TINY, only=(), out=tmp_path / "file", page=None, command="c")
    assert (tmp_path / "file").read_text() == "mine"


# ---- figures against what is known about them ----


def test_narrow_bumps_are_what_the_formula_says(lab):
    """exp(−20·0.25²) at the end of the range, and α = 20 to the letter is nearly constant."""
    found = lab.measure(rbf.measure)[0]
    assert found["γ = 20"][0, 0] == pytest.approx(math.exp(-20 * 0.25**2))
    assert np.ptp(found["literal"], axis=0).max() < 0.02


def test_a_depth_played_a_thousand_times_counts_a_thousand_and_one_never_near_counts_little(lab):
    """Three functions alone: V0 is the identity, so N_eff at a played depth is at least its plays."""
    found = lab.measure(plays.measure)[0]
    at = {u: int(np.abs(plays.GRID - u).argmin()) for u in (0.1, 0.4, 0.6, 0.8)}
    for reading in ("γ = 20", "γ = 2", "spline", plays.ALONE):
        assert all(found[reading][at[u]] > 990 for u in plays.PLAYED)
    assert found["γ = 2"][at[0.1]] < 200


def test_uncertainty_uses_deep_purchases_alone_and_shrinks_where_they_are(lab):
    environment = lab.environments()[0]
    assert uncertainty._deep_purchases(environment).depth.min() > 0.3
    for found in lab.measure(uncertainty.measure):
        assert found["volumes"].tolist() == sorted(found["volumes"].tolist())
        for reading in READINGS:
            assert (found[reading][-1, uncertainty._SEEN] < found[reading][0, uncertainty._SEEN]).all()


def test_test_purchases_of_the_encodings_are_kept_out(lab):
    environment = lab.environments()[0]
    training, test = encodings._split(environment)
    seen = sum(len(environment.campaigns[name].purchases) for name in ("A", "B"))
    assert len(training) + len(test) == seen
    assert 0.2 < len(test) / seen < 0.5


def test_curves_are_predictions_row_by_row_and_truth_rises(lab):
    environment = lab.environments()[0]
    model, customers = learned(environment, "γ = 2"), some_customers(environment, most=5)
    u = np.array([0.3, 0.7])
    mean, sd = curves(model, customers.context, u)
    for row, column in ((0, 0), (4, 1)):
        one, spread = model.predict(customers.context[row : row + 1], [u[column] * 0.5])
        assert (mean[row, column], sd[row, column]) == (pytest.approx(one[0]), pytest.approx(spread[0]))
    assert (np.diff(true_curves(environment, customers), axis=1) > 0).all()


# ---- the page of docs/ ----


def test_the_page_of_a_run_names_every_item_its_verdict_and_its_command(run):
    text = page(run[1])
    for item in run[1]["items"]:
        assert f"## {item['title']}" in text
        assert f"**Verdict: {item['verdict']}**" in text
        assert item["command"] in text
        for table in item["tables"]:
            assert table["caption"] in text


def test_the_page_in_docs_is_made_of_its_figures():
    """docs/reproduction.md says what docs/reproduction.json says, and every picture it shows is there."""
    content = json.loads((DOCS / "reproduction.json").read_text(encoding="utf-8"))
    assert page(content) == (DOCS / "reproduction.md").read_text(encoding="utf-8")
    for item in content["items"]:
        for place in range(1, min(len(item["charts"]), MOST_PICTURES) + 1):
            assert (DOCS / "images" / picture_name(item["key"], place)).is_file()
