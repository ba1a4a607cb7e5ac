"""A forged context network in a new shop: `disco plan` refuses it by name before it decides anything."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.forgery import NETWORKS, forge_network

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    "kind",
    [
        "weights of length 1",
        "a unit of length 1",
        "a mean of length 1",
        "a negative size",
        "a weight that is NaN",
        "a huge layer",
        "a huge layer, parameters as before",
        "weights beyond any memory",
        "a feature less everywhere but in the arrays",
        "own features with SQL",
        "no parameters",
    ],
)
def test_a_forged_network_in_a_new_shop_is_refused_and_nothing_is_planned(
    disco: Run, learned_shop: Path, tmp_path: Path, kind: str
) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "data").symlink_to(learned_shop / "data")
    (shop / "first.yaml").write_bytes((learned_shop / "first.yaml").read_bytes())
    (shop / "disco.yaml").touch()
    forge_network(learned_shop / "context.safetensors", shop / "context.safetensors", NETWORKS[kind])
    for command in (["plan", shop / "first.yaml"], ["check"]):
        code, _, said = disco(*command, "--shop", shop)
        assert code == 1
        assert "context.safetensors" in said
    code, shown, said = disco("doctor", "--shop", shop)
    assert code == 1
    assert "context.safetensors" in shown + said
    assert not any(shop.rglob("*.arrow"))
