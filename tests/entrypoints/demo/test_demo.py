"""The demo in small: it ends, tells the truth about its limits, and repeats itself byte for byte."""

import html
import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from console_shop import CUSTOMERS, demo_shop

from disco.entrypoints.demo.command import run_many, run_once
from disco.entrypoints.python import Shop
from disco.office.drafts.use_cases import list_drafts
from disco.records.errors import InputError
from disco.records.plan import read_plan

ARTEFACTS = (
    *(f"allocations/{name}.parquet" for name in "ABCD"),
    *(f"shop/{name}.parquet" for name in ("customers", "orders", "returns", "codes", "site")),
    "report.html",
    "result.json",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The demo with two seeds, and with the first again, in the place of what the second had left. The first may be
    the work of another process: it is the shop that tests of the console use."""
    folder = tmp_path_factory.mktemp("demo")
    demo_shop(folder / "one", seed=7)
    run_once(customers=900, seed=6, out=folder / "other", progress=lambda step: None)
    shutil.copytree(folder / "other", folder / "again")
    (folder / "again" / "seeds.json").write_text("{}")
    run_once(customers=CUSTOMERS, seed=7, out=folder / "again", progress=lambda step: None)
    return folder


@pytest.mark.parametrize("artefact", ARTEFACTS)
def test_one_seed_gives_equal_bytes_and_another_does_not(runs, artefact):
    one, again, other = ((runs / name / artefact).read_bytes() for name in ("one", "again", "other"))
    assert one == again
    assert one != other


def test_caps_hold_in_every_arm_and_the_decided_campaigns_have_a_control_group(runs):
    result = json.loads((runs / "one" / "result.json").read_text())
    assert [campaign["decided_by"] for campaign in result["campaigns"]] == ["at random"] * 2 + ["the system"] * 2
    for campaign in result["campaigns"][2:]:
        table = pq.read_table(runs / "one" / "allocations" / f"{campaign['campaign']}.parquet").to_pylist()
        codes = campaign["decided"]["codes"], campaign["control"]["codes"]
        for depth, share in zip(codes[0], (0.3, 0.2, 0.1), strict=True):
            assert codes[0][depth] + codes[1][depth] <= share * len(table)
        uplift = campaign["revenue_uplift"]["relative"]
        assert uplift["lower"] < uplift["value"] < uplift["upper"]
        assert 0 < campaign["by_truth"]["share_of_possible"] < 1


def test_the_report_says_simulated_and_names_every_campaign(runs):
    page = (runs / "one" / "report.html").read_text()
    for words in ("simulated", *(f"Campaign {name}" for name in "ABCD"), "decided again"):
        assert words in page


def test_the_headline_is_one_short_sentence_with_the_finding(runs):
    """One figure, one comparison, then money: the expected revenue of both decided campaigns against random codes."""
    result = json.loads((runs / "one" / "result.json").read_text())
    judged = [campaign["by_truth"] for campaign in result["campaigns"] if campaign["by_truth"]]
    share = sum(each["revenue"] for each in judged) / sum(each["random_revenue"] for each in judged) - 1
    page = html.unescape((runs / "one" / "report.html").read_text())
    (lead,) = re.findall(r"DISCO's choices earned .*?\(simulated\)\.", page)
    assert len(lead.split()) <= 15
    assert f"{100 * share:.0f}" in lead


def test_the_objective_is_not_shown_as_money(runs):
    page = html.unescape((runs / "one" / "report.html").read_text())
    row = re.search(r"Campaign C decided again.*?</tr>", page, re.DOTALL)[0]
    _, revenue, _, objective, *_ = row.split("</t")
    assert ("£" in revenue, "£" in objective) == (True, False)
    assert "3 × revenue − markdown, which is not money" in page


def test_the_folder_is_a_shop_in_the_middle_of_its_life(runs, tmp_path):
    """A campaign runs on the shop's own day, and the next one is drafted and can be planned and launched."""
    shop = Shop.open(shutil.copytree(runs / "one", tmp_path / "shop"))
    found = {one.campaign: str(one.state) for one in shop.campaigns().campaigns}
    assert found == dict.fromkeys("ABCD", "ended") | {"E": "running"}
    decided = shop.results("E").arms["decided"]
    assert 0 < decided.summary.purchasers < sum(decided.codes.values())
    with shop.store() as store:
        (draft,) = list_drafts(store).items
    planned = shop.plan(draft.plan)
    assert (draft.name, planned.version) == ("F", 4)
    assert planned.total is not None
    assert shop.clock.today() < read_plan(draft.plan).valid.start
    assert shop.validate().clean
    assert shop.doctor().ok, shop.doctor().failed
    assert not shop.launch(planned.plan_id).again


def test_a_run_replaces_the_files_of_an_earlier_one_and_leaves_no_scraps(runs):
    assert not [path for path in runs.iterdir() if path.name.startswith(".")]


def test_the_shop_that_an_operator_has_used_is_replaced_by_another_run(runs):
    """Everything that the console writes lies in files that the demo knows as its own."""
    names = {path.name for path in (runs / "one").iterdir()}
    assert {"disco.yaml", "disco.sqlite", "disco-artefacts", "shop", "context.safetensors"} <= names
    assert "simulated_days_behind" in (runs / "one" / "disco.yaml").read_text()


def test_many_seeds_give_an_interval(tmp_path):
    result, text = run_many(customers=500, first_seed=1, seeds=2, out=tmp_path, progress=lambda step: None)
    mean, low, high = result["summary"]["C: objective by truth"]
    assert low < mean < high
    assert "C: objective by truth" in text
    assert (tmp_path / "seeds.json").exists()


def test_a_second_run_replaces_the_first_but_keeps_the_study_of_many_seeds(runs):
    assert (runs / "again" / "result.json").read_bytes() == (runs / "one" / "result.json").read_bytes()
    assert (runs / "again" / "seeds.json").read_text() == "{}"


@pytest.mark.parametrize("where", ["photos", "photos/holiday.jpg", "."])
def test_what_is_not_the_demos_own_is_never_replaced(tmp_path, monkeypatch, where):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_text("precious")
    monkeypatch.chdir(tmp_path)

    def never(step):
        raise AssertionError("refused only after the work began")

    with pytest.raises(InputError, match="expected a"):
        run_once(customers=2000, seed=5, out=Path(where), progress=never)
    assert (tmp_path / "photos" / "holiday.jpg").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_a_folder_without_an_earlier_result_is_not_the_demos_whatever_its_names(tmp_path):
    (tmp_path / "mine" / "shop").mkdir(parents=True)
    (tmp_path / "mine" / "shop" / "disco.yaml").write_text("precious")

    def never(step):
        raise AssertionError("refused only after the work began")

    with pytest.raises(InputError, match="found shop"):
        run_once(customers=2000, seed=5, out=tmp_path / "mine", progress=never)
    assert (tmp_path / "mine" / "shop" / "disco.yaml").read_text() == "precious"
