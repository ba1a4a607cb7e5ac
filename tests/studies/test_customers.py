"""The customers study in small, and the calibration page against the settings it speaks of."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from disco.features.baselines import LEAST_SQUARES, LIGHT_GBM, NETWORK, RANDOM_FOREST
from disco.retailer import RetailerSettings
from disco.studies.customers import (
    CONFOUNDED,
    MAIN,
    MODELS,
    OTHER_DIMENSIONS,
    SIZES,
    TARGETS,
    Figure,
    contexts_table,
    difference,
    main,
    misses,
    parameters,
    probe,
    tabulate,
)
from disco.studies.environment import open_shop
from disco.studies.sample import Sample

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


def test_random_campaigns_reach_everybody_at_every_depth():
    """Depths have equal shares, purchases belong to the code that was sent, and the deeper the more of them."""
    shop = open_shop(RetailerSettings(customers=6_000, seed=4))
    assert [past.campaign.name for past in shop.campaigns] == ["A", "B"]
    for past in shop.campaigns:
        depths, counts = np.unique(past.depth, return_counts=True)
        assert depths.tolist() == list(past.campaign.depths)
        assert counts.max() - counts.min() <= len(depths)
        bought = ~np.isnan(past.full_price)
        assert 0.05 < bought.mean() < 0.5
    assert shop.known.mean() > 0.7
    assert len(shop.training) > 2 * len(shop.test) > 0


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
