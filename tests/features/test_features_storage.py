"""A network on disk: the same bits back, and never a damaged one."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from tests.support.forgery import NETWORKS, forge_network

from disco.features import CodesSent, ContextNetwork, Snapshot
from disco.records.errors import FileFormatError, InputError


@pytest.fixture(scope="module", params=["level+slope", "level+slope+engagement"])
def network(request):
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(600, 3))
    depth = rng.choice([0.0, 0.2, 0.4], 600)
    codes = CodesSent(X, depth, rng.random(600) < 0.4, np.full(600, "a"))
    return ContextNetwork(heads=request.param, hidden=(2,), dimensions=1, max_epochs=2).fit(
        X, np.log(X[:, 0]) + 4, depth, codes=codes, snapshot=Snapshot.of(X, ("x0", "x1", "x2"))
    )


@pytest.fixture(scope="module")
def saved(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "context.safetensors"
    network.save(path)
    return path


def test_what_is_loaded_computes_the_same_bits(network, saved):
    X = np.random.default_rng(1).lognormal(size=(50, 3))
    loaded = ContextNetwork.load(saved)
    assert (loaded.transform(X) == network.transform(X)).all()
    assert (loaded.predict(X, 0.3) == network.predict(X, 0.3)).all()
    assert loaded.get_params() == network.get_params()
    assert loaded.feature_names_in_.tolist() == network.feature_names_in_.tolist()
    assert loaded.validation_losses_ == network.validation_losses_
    assert loaded.validation_log_losses_ == network.validation_log_losses_
    assert loaded.head_ == network.head_
    many = np.tile(X, (10, 1)) * 2
    day = loaded.snapshot(many)
    assert loaded.transform(X, snapshot=day).tobytes() == network.transform(X, snapshot=day).tobytes()
    assert (loaded.transform(X, snapshot=day) == loaded.transform(X)).all() == (network.head_ is None)


def test_saving_twice_writes_the_same_bytes(network, saved, tmp_path):
    network.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == saved.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again.safetensors"]


def test_every_flipped_bit_is_noticed(network, saved, tmp_path):
    content = saved.read_bytes()
    path = tmp_path / "damaged.safetensors"
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(content[:8], "little")
    stride = 1 if network.head_ is None else 7  # the two kinds of files differ in a few entries only
    for place in [*range(0, header, stride), *range(header, len(content), 11 * stride)]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError):
            ContextNetwork.load(path)


def test_cut_short_empty_absent_and_foreign_files_are_refused(saved, tmp_path):
    path = tmp_path / "file.safetensors"
    for content in (b"", saved.read_bytes()[:-8], b"\x80\x04pickle", saved.read_bytes() + b"tail"):
        path.write_bytes(content)
        with pytest.raises(FileFormatError):
            ContextNetwork.load(path)
    with pytest.raises(FileFormatError, match="no such file"):
        ContextNetwork.load(tmp_path / "absent.safetensors")
    from safetensors.numpy import save_file

    save_file({"a": np.ones(3)}, path)
    with pytest.raises(FileFormatError, match="the parts a"):
        ContextNetwork.load(path)


def test_a_failed_save_leaves_the_old_file(network, saved, tmp_path, monkeypatch):
    path = tmp_path / "context.safetensors"
    path.write_bytes(b"old")

    def full_disk(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(InputError, match="No space"):
        network.save(path)
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InputError, match="no folder"):
        network.save(tmp_path / "nowhere" / "context.safetensors")


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_forged_file_with_a_right_digest_is_refused_by_name(kind, saved, tmp_path):
    path = tmp_path / "forged.safetensors"
    forge_network(saved, path, NETWORKS[kind])
    with pytest.raises(FileFormatError, match=r"context network .*forged\.safetensors") as refused:
        ContextNetwork.load(path)
    assert len(str(refused.value)) < 500 + len(str(path))


def test_the_forger_of_these_tests_can_forge(saved, tmp_path):
    """Nothing changed, sealed again: the very same file, which is accepted."""
    forge_network(saved, tmp_path / "same.safetensors", lambda header, tensors: None)
    assert (tmp_path / "same.safetensors").read_bytes() == saved.read_bytes()
    forge_network(saved, tmp_path / "other.safetensors", lambda header, tensors: tensors["mean"].fill(0.5))
    assert ContextNetwork.load(tmp_path / "other.safetensors").embedding_.mean.tolist() == [0.5]


def test_a_file_too_large_for_a_network_is_refused_unread(tmp_path):
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(FileFormatError, match="8,589,934,592 bytes"):
        ContextNetwork.load(path)


def test_a_network_too_large_to_be_loaded_is_never_trained():
    X = np.random.default_rng(0).lognormal(size=(300, 3))
    for hidden in ((70_000,), (60_000, 60_000), (1,) * 70):
        with pytest.raises(InputError, match="sizes"):
            ContextNetwork(heads="level", hidden=hidden).fit(X, np.log(X[:, 0]) + 4)


def test_parameters_set_after_training_do_not_change_what_a_file_computes(network, tmp_path):
    X = np.random.default_rng(1).lognormal(size=(50, 3))
    changed = ContextNetwork.load(_saved(network, tmp_path / "a"))
    changed.set_params(leak=0.9, heads="level", hidden=(5, 5), dimensions=4)
    again = ContextNetwork.load(_saved(changed, tmp_path / "b"))
    assert (again.transform(X) == network.transform(X)).all()
    assert (again.predict(X, 0.3) == network.predict(X, 0.3)).all()
    assert again.get_params() == network.get_params()


def _saved(network, path):
    network.save(path)
    return path


def test_a_network_without_an_engagement_head_is_written_as_before_there_was_one(network, saved):
    sealed = json.loads(safe_open(saved, "numpy").metadata()["network"])
    header = json.loads(sealed["content"])
    has_head = network.head_ is not None
    assert header["version"] == (3 if has_head else 2)
    assert ("validation_log_losses" in header) == has_head
    assert sorted(header["parameters"]) == sorted({*ContextNetwork().get_params()} - {"habits"})


def test_a_network_without_the_means_of_training_is_read_and_not_centred(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(600, 3))
    depth = rng.choice([0.0, 0.2, 0.4], 600)
    codes = CodesSent(X, depth, rng.random(600) < 0.4, np.full(600, "a"))
    network = ContextNetwork(hidden=(2,), dimensions=1, max_epochs=1).fit(X, np.log(X[:, 0]) + 4, depth, codes=codes)
    network.save(tmp_path / "network")
    loaded = ContextNetwork.load(tmp_path / "network")
    assert loaded.embedding_.trained_means is None
    assert loaded.head_ == network.head_
    assert (loaded.transform(X, snapshot=loaded.snapshot(X * 3)) == loaded.transform(X)).all()
