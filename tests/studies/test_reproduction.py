"""The reproduction in small: every item is run once, and everything below looks at that one run.

It ends, continues, says what it is, and the page in docs/ has its words and judges its recorded figures by its rules.
"""

import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from studies.cache import worker_pool
from studies.item import ItemVerdict, Prose, Sample, judged
from studies.lab import TINY, Lab
from studies.readings import MAIN_READING, READINGS, curves, learned, some_customers, true_curves
from studies.report import MOST_PICTURES, picture_name
from studies.report import page as page_of
from studies.reproduce import ITEMS, main, reproduce

from disco.records.errors import StateError
from studies import cache, explanation, paper, policies
from studies import lab as lab_module

ALL_BUT_ONE = tuple(key for key in ITEMS if key != "explanation")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder, JSON and text of one run. The explanation, which has shops of its own, is run apart and once."""
    out = tmp_path_factory.mktemp("paper") / "out"
    result, text = reproduce(TINY, only=ALL_BUT_ONE, out=out, page=None, command="./run reproduce")
    return out, result, text


@pytest.fixture(scope="module")
def lab(run):
    return Lab(settings=TINY, folder=run[0] / "cache", items=ALL_BUT_ONE)


@pytest.fixture(scope="module")
def items(run, lab):
    """Every item by key, as the run made it; the explanation of one retailer."""
    alone = replace(lab, settings=replace(TINY, environments=1))
    return {key: make(alone if key == "explanation" else lab) for key, make in ITEMS.items()}


def test_every_item_has_a_verdict_checks_and_a_reason(run):
    _, result, text = run
    assert [item["key"] for item in result["items"]] == list(ALL_BUT_ONE)
    for item in result["items"]:
        assert item["verdict"] in list(ItemVerdict)
        assert item["checks"]
        assert all(math.isfinite(check["mean"]) for check in item["checks"])
        assert item["reason"]
        assert item["title"] in text


def test_every_item_can_be_shown(items):
    for item in items.values():
        for chart in item.charts:
            assert chart.option()
            assert chart.table().text()
        for table in item.tables:
            assert table.text()


def test_claims_about_the_encoding_are_put_to_every_reading(items):
    for key in ("plays", "uncertainty", "encodings", "demand", "campaigns", "warm", "cold", "ulcc", "ab"):
        checks = items[key].checks
        claims = {name: [check.claim for check in checks if check.reading == name] for name in READINGS}
        assert claims[MAIN_READING]
        assert len({tuple(each) for each in claims.values()}) == 1
    assert set(items["rbf"].verdict_by_reading) == set(READINGS) - {"spline"}


def test_the_report_is_one_file_that_says_simulated(run):
    html = (run[0] / "report.html").read_text()
    before_the_library = html.split("<script>")[0]
    assert not [word for word in ("https://", "http://", "src=") if word in before_the_library]
    for words in ("simulated", "Verdicts", *(item["title"] for item in run[1]["items"])):
        assert words in html
    assert json.loads((run[0] / "result.json").read_text())["items"] == run[1]["items"]


def test_a_second_run_is_equal_and_computes_nothing(run, monkeypatch):
    """What was measured is taken from the folder: a simulation would be noticed."""

    def never(*arguments: object) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(cache, "_make", never)
    again, _ = reproduce(TINY, only=ALL_BUT_ONE, out=run[0], page=None, command="./run reproduce")
    without_time = [[{**item, "seconds": 0} for item in each["items"]] for each in (run[1], again)]
    assert without_time[0] == without_time[1]


def test_another_seed_is_another_shop(run, lab):
    other = ITEMS["elasticity"](replace(lab, settings=replace(TINY, first_seed=31, environments=1)))
    ours = next(item for item in run[1]["items"] if item["key"] == "elasticity")
    assert other.checks[0].ours.mean != ours["checks"][0]["mean"]
    assert other.checks[0].ours.half_width is None


def test_shapes_of_one_environment_are_averaged_before_the_interval_is_taken() -> None:
    measured = {"concave": [{"x": 1.0}, {"x": 2.0}], "threshold": [{"x": 3.0}, {"x": 6.0}]}
    found = explanation._cells(measured, explanation._EVERYWHERE, lambda shop: shop["x"])  # type: ignore[arg-type]
    assert found.values == (2.0, 4.0)
    assert explanation._cells(measured, "concave", lambda shop: shop["x"]).values == (1.0, 2.0)  # type: ignore[arg-type]


def test_the_warm_uplift_is_that_of_the_item_and_nothing_is_played_again(lab, items):
    pieces = lab.folder / "bandits" / "plays"
    before = {path: path.stat().st_mtime_ns for path in pieces.iterdir()}
    found = policies.warm_uplift(lab)
    assert {path: path.stat().st_mtime_ns for path in pieces.iterdir()} == before
    shown = next(check for check in items["warm"].checks if check.claim == "TS-IP beats Random")
    assert found == shown.ours


# ---- figures against what is known about them ----


def test_narrow_bumps_are_what_the_formula_says(lab):
    """exp(−20·0.25²) at the end of the range, and α = 20 to the letter is nearly constant."""
    found = lab.measure(paper.measure_rbf)[0]
    assert found["γ = 20"][0, 0] == pytest.approx(math.exp(-20 * 0.25**2))
    assert np.ptp(found["literal"], axis=0).max() < 0.02


def test_a_depth_played_a_thousand_times_counts_a_thousand_and_one_never_near_counts_little(lab):
    """Three functions alone: V0 is the identity, so N_eff at a played depth is at least its plays."""
    found = lab.measure(paper.measure_plays)[0]
    at = {u: int(np.abs(paper.PLAYS_GRID - u).argmin()) for u in (0.1, 0.4, 0.6, 0.8)}
    for reading in ("γ = 20", "γ = 2", "spline", paper.ALONE):
        assert all(found[reading][at[u]] > 990 for u in paper.PLAYED)
    assert found["γ = 2"][at[0.1]] < 200


def test_uncertainty_uses_deep_purchases_alone_and_shrinks_where_they_are(lab):
    environment = lab.environments()[0]
    assert paper.deep_purchases(environment).depth.min() > 0.3
    for found in lab.measure(paper.measure_uncertainty):
        assert found["volumes"].tolist() == sorted(found["volumes"].tolist())
        for reading in READINGS:
            assert (found[reading][-1, paper.SEEN] < found[reading][0, paper.SEEN]).all()


def test_test_purchases_of_the_encodings_are_kept_out(lab):
    environment = lab.environments()[0]
    training, test = paper.split_purchases(environment)
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


# ---- environments and what is measured in them ---------------------------------------------------------------------


def counted(environment, settings):
    """A measure that leaves a trace of each call, and fails where it is told to."""
    folder = environment.folder.parents[1]  # of the lab
    if (folder / "fail").exists() and environment.seed == 12:
        raise RuntimeError("interrupted")
    calls = folder / f"calls-{environment.seed}"
    calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
    return {"mean": np.array([np.nanmean(environment.campaigns["A"].full_price)])}


def test_an_interrupted_run_continues_and_measures_nothing_twice(lab):
    folder = lab.folder
    (folder / "fail").touch()
    with pytest.raises(RuntimeError, match="interrupted"):
        lab.measure(counted)
    (folder / "fail").unlink()
    first = lab.measure(counted)
    assert lab.measure(counted) == first
    assert [(folder / f"calls-{seed}").read_text() for seed in TINY.seeds] == ["x", "x"]
    assert math.isfinite(first[0]["mean"][0])
    assert first[0]["mean"] != first[1]["mean"]


def test_other_settings_and_other_code_are_other_pieces(lab, monkeypatch):
    here = lab.environment(11).path
    assert Lab(settings=replace(TINY, customers=1501), folder=lab.folder).environment(11).path != here
    more = Lab(settings=replace(TINY, environments=7, processes=2), folder=lab.folder)
    assert more.environment(11).path == here
    assert more.measured(counted, 11).path == lab.measured(counted, 11).path != lab.measured(where, 11).path
    monkeypatch.setattr(lab_module, "source_version", lambda rooms: "tomorrow's")
    assert lab.environment(11).path != here


def test_an_environment_read_again_is_the_one_that_was_made(lab):
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


def test_processes_have_one_thread_each_and_a_dead_one_is_named(lab, monkeypatch):
    """One pool for everything: what was finished before a death is kept."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # processes find the measures of this file there
    settings, before = replace(TINY, processes=2), dict(os.environ)
    with worker_pool(settings.processes) as pool:
        pooled = replace(lab, settings=settings, pool=pool)
        found = pooled.measure(where)
        assert os.getpid() not in {int(each["process"][0]) for each in found}
        assert {int(each["threads"][0]) for each in found} == {1}
        with pytest.raises(StateError, match="finished pieces are kept"):
            pooled.measure(dies)
    assert dict(os.environ) == before
    assert len(list((lab.folder / "measured").glob("*.npz"))) >= 2


# ---- the page of docs/ ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded():
    """By key, the items of docs/reproduction.json, from which docs/reproduction.md is made (tests/test_docs.py)."""
    content = json.loads((DOCS / "reproduction.json").read_text(encoding="utf-8"))
    return {item["key"]: item for item in content["items"]}


def pattern(prose: Prose) -> str:
    """Matches the declared words with any figures in them, and with or without what only some figures say."""
    parts = ""
    for part in prose:
        text = re.sub(r"\\\{\w+\\\}", ".+?", re.escape(part if isinstance(part, str) else part[1]))
        parts += f"(?:{text}(?: |$)){'' if isinstance(part, str) else '?'}"
    return parts


def without_numbers(text: str) -> str:
    return re.sub(r"\d[\d,.]*", "0", text)


@pytest.mark.parametrize("key", ITEMS)
def test_the_page_in_docs_has_the_words_of_the_source(items, recorded, key):
    """Title, the paper's claims, rules and explanation; whoever changes one of them has to change the page."""
    ours, shown = items[key], recorded[key]
    assert (shown["title"], shown["paper"]) == (ours.title, ours.paper)
    assert re.fullmatch(pattern(ours.prose), shown["why"])
    claims = [(check["claim"], check["reading"], check["paper"], check["rule"]) for check in shown["checks"]]
    assert claims == [(check.claim, check.reading, check.paper, check.rule) for check in ours.checks]
    assert shown["command"] == f"./run reproduce {key}"
    for table, recorded_table in zip(ours.tables, shown["tables"][1:], strict=True):
        assert recorded_table["caption"] == table.caption
        assert recorded_table["columns"] == [column.heading for column in table.typed_columns()]
        assert without_numbers(recorded_table["note"]) == without_numbers(table.note)


@pytest.mark.parametrize("key", ITEMS)
def test_the_verdicts_in_docs_follow_from_the_recorded_figures(items, recorded, key):
    """By the bands of today's source, and by the mean over retailers with its interval."""
    decided = []
    for ours, check in zip(items[key].checks, recorded[key]["checks"], strict=True):
        state = check["holds"], check["open"]
        if ours.band is not None:
            assert state == judged(Sample.of(check["values"]), ours.band), check["claim"]
        if check["reading"] in ("", MAIN_READING):
            decided.append(state)
    assert recorded[key]["verdict"] == ItemVerdict.of(decided)


def test_every_picture_of_the_page_is_there(recorded):
    for item in recorded.values():
        for place in range(1, min(len(item["charts"]), MOST_PICTURES) + 1):
            assert (DOCS / "images" / picture_name(item["key"], place)).is_file()


def test_the_page_of_a_run_names_every_item_its_verdict_and_its_command(run):
    text = page_of(run[1])
    for item in run[1]["items"]:
        assert f"## {item['title']}" in text
        assert f"**Verdict: {item['verdict']}**" in text
        assert item["command"] in text


# ---- the command ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["figure-9"], "found figure-9; expected some of rbf, plays"),
        (["rbf", "calibration"], "Name it first and alone: ./run reproduce calibration."),
        (["--environments=0"], "found 0; expected a whole number from 1 to 100"),
        (["--environments=1000"], "found 1000; expected a whole number from 1 to 100"),
        (["--environments=x"], "found x; expected a whole number"),
        (["--seed=-1"], "found -1; expected a whole number of 0 or more"),
        (["answers", "--seeds=1,b"], "found b; expected a whole number"),
        (["answers", "--shapes=round"], "found round; expected some of concave"),
        (["overspending", "--risks=2"], "found 2; expected numbers between 0 and 1"),
    ],
)
def test_wrong_usage_is_one_sentence_before_any_work(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as ended:  # of the parser
        code = ended.code
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert sentence in shown.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder_is_refused_before_any_work(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["--quick", "-o", str(tmp_path / "file")]) == 1
    assert "expected a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_page_replaces_no_file_of_a_shop(tmp_path, capsys):
    (tmp_path / "disco.yaml").write_text("plans: plans\n")
    assert main(["--quick", "-o", str(tmp_path / "out"), "--page", str(tmp_path / "disco.yaml")]) == 1
    assert "disco.yaml" in capsys.readouterr().err
    assert (tmp_path / "disco.yaml").read_text() == "plans: plans\n"


def test_a_page_without_a_browser_is_refused_before_the_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DISCO_CHROMIUM", str(tmp_path / "no-such-browser"))
    assert main(["--quick", "-o", str(tmp_path / "out"), "--page", str(tmp_path / "page.md")]) == 1
    assert "Chromium" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []
