"""The customers study in small, and the calibration page against the settings it speaks of."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from studies.baselines import LEAST_SQUARES, LIGHT_GBM, NETWORK, RANDOM_FOREST
from studies.calibration import (
    CONFOUNDED,
    MAIN,
    MODELS,
    OTHER_DIMENSIONS,
    SIZES,
    TARGETS,
    TOLERANCE,
    Figure,
    contexts_table,
    difference,
    main,
    misses,
    parameters,
    probe,
    tabulate,
)
from studies.item import Sample

from disco.retailer import RetailerSettings

PAGE = Path(__file__).parents[2] / "docs" / "calibration.md"


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    main(["--quick", "--page", str(folder / "page.md"), "--figures", str(folder / "figures.json")])
    figures = [Figure(**figure) for figure in json.loads((folder / "figures.json").read_text())]
    return figures, (folder / "page.md").read_text()


def test_every_table_is_there_and_every_figure_finite(quick):
    figures, text = quick
    assert all(math.isfinite(figure.value) for figure in figures)
    tables = tabulate(figures)
    assert set(tables[MODELS]) == {LEAST_SQUARES, LIGHT_GBM, RANDOM_FOREST, NETWORK}
    assert set(tables[SIZES]) == {recipe.name for recipe in OTHER_DIMENSIONS}
    for confounding in (None, CONFOUNDED):
        rows = tables[contexts_table(confounding)]
        assert {recipe.name for recipe in MAIN} < set(rows)
        for recipe in MAIN:
            assert rows[recipe.name]["of possible"].mean < 1
            assert rows[recipe.name]["baseline R²"].mean > 0.1
    for name in (LEAST_SQUARES, *(recipe.name for recipe in MAIN)):
        assert f"| {name} |" in text


def test_the_page_holds_the_parameters_of_today_s_retailer():
    """Whoever moves a parameter has to run the study again: the page says what these very settings reach."""
    customers = 50_000
    assert parameters(customers) in PAGE.read_text(encoding="utf-8")
    assert RetailerSettings.from_json(parameters(customers)) == RetailerSettings(customers=customers, seed=1)


def words_of(text: str) -> list[str]:
    """A page without its figures: sentences and headers with 0 for numbers, rows of tables by their names."""
    shown = []
    for line in text.partition("```json")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        named = cells[1] if len(cells) > 2 and re.search(r"\d", cells[-2]) else line
        if not line.startswith(("All targets are met", "Not met")):
            shown.append(named if named != line else re.sub(r"\d[\d,.]*", "0", line))
    return shown


def test_the_page_in_docs_has_the_words_of_the_source(quick):
    """Sentences, tables and the names of their rows, beside a run in small."""
    assert words_of(PAGE.read_text(encoding="utf-8")) == words_of(quick[1])


def test_the_page_in_docs_says_truly_that_all_targets_are_met():
    text = PAGE.read_text(encoding="utf-8")
    assert "\n\nAll targets are met.\n\n" in text
    for name, target in TARGETS.items():
        (wape, spearman) = re.search(rf"^\| {name} \| [^|]+ \| ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE).groups()
        assert abs(float(wape) - target.wape) <= TOLERANCE.wape
        assert abs(float(spearman) - target.spearman) <= TOLERANCE.spearman


def test_a_probe_is_r_squared_on_rows_it_was_not_fitted_on():
    """Noise of the same variance as the signal leaves half; a target of pure noise leaves nothing, never more."""
    rng = np.random.default_rng(3)
    context = rng.standard_normal((40_000, 3))
    signal = context @ np.array([0.6, 0.0, 0.8])
    assert probe(context, 5 + signal + rng.standard_normal(40_000)) == pytest.approx(0.5, abs=0.02)
    assert -0.2 < probe(rng.standard_normal((600, 12)), rng.standard_normal(600)) < 0.05


def test_an_interval_by_hand_and_differences_shop_by_shop():
    """4 and 8: mean 6, sd 2√2, standard error 2, t(0.975; 1) = 12.706."""
    sample = Sample.of([4.0, 8.0])
    assert (sample.mean, sample.half_width) == (6.0, pytest.approx(2 * 12.7062, rel=1e-4))
    figures = [Figure("t", row, "c", seed, value) for row, seed, value in (("a", 1, 5.0), ("a", 2, 7.0), ("b", 2, 4.0))]
    assert difference(figures, table="t", minus=("a", "b"), column="c", name="d") == [Figure("t", "d", "c", 2, 3.0)]


def test_a_missed_target_is_named():
    def rows(wape_off: float, line_mse: float) -> dict[str, dict[str, Sample]]:
        return {
            name: {
                "WAPE": Sample.of([target.wape + wape_off]),
                "Spearman": Sample.of([target.spearman]),
                "MSE": Sample.of([line_mse if name == LEAST_SQUARES else 0.5]),
            }
            for name, target in TARGETS.items()
        }

    assert misses(rows(0.005, 0.6)) == []
    assert [text.split(":")[0] for text in misses(rows(0.007, 0.6))] == list(TARGETS)
    assert len(misses(rows(0.0, 0.4))) == 3
