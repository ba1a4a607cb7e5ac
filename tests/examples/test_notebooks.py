"""The notebooks are stripped, import public names alone, run from top to bottom, and show what they say."""

import numpy as np
import pytest
from notebooks import FOLDER, NOTEBOOKS, cells_of, run

IMPORTS = {
    "import numpy as np",
    "import pandas as pd",
    "import disco",
    "from datetime import date",
    "from pathlib import Path",
    "from tempfile import mkdtemp",
}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_are_stripped_and_import_public_names_alone(notebook):
    cells = cells_of(notebook)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all((cell["execution_count"], cell["outputs"]) == (None, []) for cell in code)
    assert cells[0]["cell_type"] == "markdown"
    assert len({cell["id"] for cell in cells}) == len(cells)
    lines = [line.strip() for cell in code for line in cell["source"]]
    assert {line for line in lines if line.startswith(("import ", "from "))} <= IMPORTS
    assert f"(../examples/{notebook.name})" in (FOLDER.parent / "docs" / "examples.md").read_text()


def test_order_lines_reach_a_campaign_and_its_results(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    names = run(FOLDER / "own_data.ipynb")
    assert names["checked"].clean
    assert names["planned"].customers == names["CUSTOMERS"]
    assert any("could show only a difference" in warning for warning in names["planned"].warnings)
    assert (names["received"].applied, names["again"].applied) == (len(names["bought"]), 0)
    learned = sum(names["learned"].campaigns.values())
    assert 0.9 * len(names["bought"]) <= learned <= len(names["bought"])  # not of people without a purchase in the year
    assert names["results"].words


def test_replay_finds_that_deciding_pays_where_customers_differ():
    names = run(FOLDER / "replay_a_log.ipynb")
    assert set(names["replayed"].policies) == {"thompson", "greedy"}
    judged, everybody = names["judged"].snips, names["everybody"].snips
    assert judged.value > everybody.value


def test_a_test_of_your_own_finds_the_arm_that_differs():
    names = run(FOLDER / "ab_of_your_own.ipynb")
    verdicts = {(one.arm, one.metric): one.verdict.value for one in names["found"].differences}
    assert verdicts["green", "orders"] == "higher"
    assert verdicts["blue", "orders"] == "undecided"
    assert names["readout"].verdict.value == "better"


def test_the_allocation_alone_keeps_its_limits():
    names = run(FOLDER / "allocation_alone.ipynb")
    assert names["plain"].gap == 0
    assert (names["plain"].counts <= [2000, 1000, 500]).all()
    assert names["within"].cost <= 5000
    assert not (names["within"].choice[:100] == 2).any()
    assert names["impossible"].conflicts
    assert [point.markdown <= point.budget for point in names["curve"]] == [True] * 3


def test_a_policy_of_your_own_is_a_policy_and_avoids_what_was_hardly_tried():
    names = run(FOLDER / "own_policy.ipynb")
    assert names["decisions"].counts[0] == 1200
    assert np.isfinite(names["replayed"].policies["cautious"].average_basket_value.value)
