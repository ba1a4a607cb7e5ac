"""Model files: bitwise round trips, and no changed byte goes unnoticed."""

import json
import pickle
import zipfile

import numpy as np
import pytest
from safetensors import numpy as safetensors
from tests.support.forgery import MODELS as FORGED
from tests.support.forgery import forge_model

from disco.belief import BasketModel, DistanceToDepth, LinearDepth, OneHotDepth, Prior, RadialBasis, SmoothSpline
from disco.belief.model_file import to_bytes
from disco.records.errors import FileFormatError, InputError

ROWS = np.array([[0.3, -1.2], [2.0, 0.1], [0.0, 3.3]]), np.array([0.1, 0.3, 0.1]), np.array([12.5, 40.0, 33.3])

MODELS = {
    "plain": BasketModel().update(*ROWS),
    "campaigns": BasketModel(forgetting=0.9, context_schema="é").update(*ROWS, campaign="spring £").update(*ROWS),
    "literal": BasketModel(encoding=RadialBasis((0.25, 0.5), alpha=(20.0, 0.1)), constant_precision=None).update(*ROWS),
    "spline": BasketModel(encoding=SmoothSpline(), noise_sd=0.1 + 0.2, monotone=True).update(*ROWS),
    "prior": BasketModel(encoding=LinearDepth(), prior_precision=Prior(depth=(1 / 3,), context=0.1)).update(*ROWS),
    "one-hot": BasketModel(encoding=OneHotDepth((0.1, 0.3)), prior_precision=1e-9).update(*ROWS),
    "distance": BasketModel(encoding=DistanceToDepth(reference=1 / 7), depth_scale=1 / 3).update(*ROWS),
    "tuned": BasketModel().update(*ROWS).tuned(),
    "empty": BasketModel(),
}


@pytest.mark.parametrize("name", MODELS)
def test_load_of_save_is_bitwise_the_model(name, tmp_path):
    model = MODELS[name]
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = BasketModel.load(path)
    assert loaded == model
    assert loaded.hash == model.hash
    assert to_bytes(loaded) == path.read_bytes()
    assert list(loaded.campaigns) == list(model.campaigns)
    if model.campaigns:
        assert (loaded.posterior.mean == model.posterior.mean).all()
        assert (loaded.posterior.root == model.posterior.root).all()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("name", ["plain", "campaigns"])
def test_any_flipped_byte_is_detected(name):
    content = to_bytes(MODELS[name])
    generator = np.random.default_rng(5)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= int(generator.integers(1, 256))
        with pytest.raises(FileFormatError):
            BasketModel.from_bytes(bytes(changed))


def test_any_cut_or_added_byte_is_detected():
    content = to_bytes(MODELS["plain"])
    for length in (*range(0, len(content), 13), len(content) - 1):
        with pytest.raises(FileFormatError):
            BasketModel.from_bytes(content[:length])
    with pytest.raises(FileFormatError):
        BasketModel.from_bytes(content + b"\0")


def test_other_files_are_refused_by_name(tmp_path):
    other = tmp_path / "other.npz"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(FileFormatError, match=r"other\.npz"):
        BasketModel.load(other)
    with pytest.raises(FileFormatError, match="absent"):
        BasketModel.load(tmp_path / "absent")
    pickled = tmp_path / "pickled"
    pickled.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FileFormatError):
        BasketModel.load(pickled)


@pytest.mark.parametrize("settings", ["[]", "3", "{}", '{"format":"disco basket model","version":1}', "[" * 10_000])
def test_headers_that_make_no_model_are_refused(settings):
    header = json.dumps({"hash": "x", "settings": settings})
    with pytest.raises(FileFormatError):
        BasketModel.from_bytes(bytes(safetensors.save({"000000.depths": np.zeros(1)}, metadata={"disco": header})))


def test_evidence_of_another_shape_is_refused():
    content = to_bytes(MODELS["plain"])
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    flat = {name: array.reshape(-1) for name, array in safetensors.load(content).items()}
    with pytest.raises(FileFormatError):
        BasketModel.from_bytes(bytes(safetensors.save(flat, metadata=header)))


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_file_with_a_right_hash_is_refused_by_name(kind, tmp_path):
    path = tmp_path / "forged.safetensors"
    path.write_bytes(forge_model(to_bytes(MODELS["plain"]), FORGED[kind]))
    with pytest.raises(FileFormatError, match=r"forged\.safetensors") as refused:
        BasketModel.load(path)
    assert len(str(refused.value)) < 500 + len(str(path))


@pytest.mark.parametrize("name", MODELS)
def test_the_forger_of_these_tests_can_forge(name):
    """Nothing changed, hashed again: the very same bytes, which are accepted; and another reason makes a model."""
    content = to_bytes(MODELS[name])
    assert forge_model(content, lambda settings, tensors: None) == content
    other = forge_model(content, lambda settings, tensors: settings.update(reason="forged"))
    assert BasketModel.from_bytes(other).reason == "forged"


def test_a_file_too_large_for_a_model_is_refused_unread(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(FileFormatError, match="8,589,934,592 bytes"):
        BasketModel.load(path)


def test_a_model_too_large_to_be_fitted_is_refused_before_memory_is_taken():
    wide = BasketModel(encoding=RadialBasis(centres=tuple(np.linspace(0, 1, 5000))))
    with pytest.raises(InputError, match="10,002 parameters; expected at most 8,192"):
        wide.predict([[0.5]], [0.1])


def test_an_encoding_that_no_file_knows_is_refused_before_it_is_written(tmp_path):
    class Private(LinearDepth):
        kind = "private"

    with pytest.raises(InputError, match="one that files know"):
        BasketModel(encoding=Private()).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model"
    MODELS["plain"].save(path)
    before = path.read_bytes()

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space"):
        MODELS["campaigns"].save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_models_travel_between_processes_unchanged():
    for model in MODELS.values():
        again = pickle.loads(pickle.dumps(model))
        assert again == model
        assert again.hash == model.hash


def test_the_hash_names_settings_and_evidence():
    hashes = {model.hash for model in MODELS.values()}
    assert len(hashes) == len(MODELS)
