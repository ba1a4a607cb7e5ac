"""A shop's settings become the belief before any campaign; what does not fit together is refused by name."""

from pathlib import Path

import pytest

from disco.belief import DistanceToDepth, LinearDepth, OneHotDepth, RadialBasis, SmoothSpline
from disco.entrypoints.config import Settings
from disco.entrypoints.shop import Shop
from disco.records.errors import InputError


def shop(folder: Path, **settings: object) -> Shop:
    return Shop(folder, Settings.model_validate(settings))


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ({}, SmoothSpline()),
        ({"kind": "radial_basis"}, RadialBasis()),
        ({"kind": "radial_basis", "centres": [0.1, 0.9], "gamma": [2, 3]}, RadialBasis((0.1, 0.9), gamma=(2.0, 3.0))),
        ({"kind": "linear"}, LinearDepth()),
        ({"kind": "distance", "reference": 0.3}, DistanceToDepth(0.3)),
        ({"kind": "one_hot", "depths": [0.2, 0.4]}, OneHotDepth((0.2, 0.4))),
    ],
)
def test_every_encoding_can_be_chosen(tmp_path: Path, encoding: dict[str, object], expected: object) -> None:
    assert shop(tmp_path, model={"encoding": encoding}).prior().basket.encoding == expected


def test_scale_forgetting_and_engagement_reach_the_belief(tmp_path: Path) -> None:
    belief = shop(
        tmp_path,
        model={"depth_scale": 0.4, "forgetting": 0.9, "monotone": True},
        engagement={"prior_rate": 0.3, "override": {0.2: 0.15}},
    ).prior()
    assert (belief.basket.depth_scale, belief.basket.forgetting, belief.basket.monotone) == (0.4, 0.9, True)
    assert belief.engagement.rates([0.2, 0.3]).tolist() == [0.15, pytest.approx(0.3)]


@pytest.mark.parametrize(
    ("encoding", "named"),
    [({"gamma": 2}, "gamma"), ({"kind": "linear", "reference": 0.1}, "reference"), ({"kind": "one_hot"}, "depths")],
)
def test_an_option_of_another_encoding_is_refused(tmp_path: Path, encoding: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        shop(tmp_path, model={"encoding": encoding}).prior()


def test_a_missing_network_says_how_to_train_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="disco train context"):
        shop(tmp_path).network()


@pytest.mark.parametrize("name", ["absent", "file"])
def test_a_shop_is_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="expected a folder"):
        Shop.open(tmp_path / name)
