"""A trained network on disk: one safetensors file, a JSON header, a digest over both. No pickle."""

import json
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from disco.features.embedding import Embedding
from disco.features.scaling import Scaling
from disco.records.errors import FileFormatError
from disco.records.files import written_whole

if TYPE_CHECKING:
    from disco.features.network import ContextNetwork

KIND = "disco context network"
VERSION = 2  # 2: the range of each feature in training, and definitions of own features
_VECTORS = ("weights", "mean", "inverse_sd", "level", "slope")
_SCALES = tuple(part.name for part in fields(Scaling))


def save_network(network: "ContextNetwork", path: Path) -> None:
    """Write the file whole or not at all."""
    from safetensors.numpy import save

    embedding = network.embedding_
    tensors = {name: getattr(embedding, name) for name in _VECTORS}
    tensors |= {f"scaling.{name}": getattr(embedding.scaling, name) for name in _SCALES}
    header = json.dumps(
        {
            "kind": KIND,
            "version": VERSION,
            "schema": embedding.schema,
            "own_features": embedding.own_features,
            "feature_names": embedding.feature_names,
            "sizes": embedding.sizes,
            "mean_depth": embedding.mean_depth,
            "parameters": network.get_params(),
            "validation_losses": network.validation_losses_,
        },
        sort_keys=True,
    )
    # one entry: the library writes several in any order, and equal networks should be equal files
    sealed = json.dumps({"content": header, "sha256": _digest(header, tensors)})
    content = save(tensors, metadata={"network": sealed})
    with written_whole(path) as unfinished:
        unfinished.write_bytes(content)


def load_network(path: Path) -> "ContextNetwork":
    """The network in a file; FileFormatError when it is another kind of file, of another version, or damaged."""
    from safetensors import SafetensorError, safe_open

    from disco.features.network import ContextNetwork

    if not path.is_file():
        raise FileFormatError(f"context network {path}", found="no such file", expected="a file written by `save`")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, ValueError, TypeError) as error:
        raise _damaged(path, str(error)) from error
    if "network" not in metadata:
        raise _damaged(path, f"the parts {', '.join(sorted(tensors))}")
    try:
        sealed = json.loads(metadata["network"])
        header, digest = sealed["content"], sealed["sha256"]
        content = json.loads(header)
        kind, version = content["kind"], content["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(path, "a header that cannot be read") from error
    if kind != KIND or version != VERSION:
        raise FileFormatError(
            f"context network {path}",
            found=f"{kind}, version {version}",
            expected=f"{KIND}, version {VERSION}",
            fix="Train the network again.",
        )
    if set(tensors) != {*_VECTORS, *(f"scaling.{name}" for name in _SCALES)}:
        raise _damaged(path, f"the parts {', '.join(sorted(tensors))}")
    if digest != _digest(header, tensors):
        raise _damaged(path, "content that does not match its digest")
    parameters = {**content["parameters"], "hidden": tuple(content["parameters"]["hidden"])}
    network = ContextNetwork(**parameters)
    embedding = Embedding(
        feature_names=tuple(content["feature_names"]),
        schema=content["schema"],
        own_features=content["own_features"],
        heads=parameters["heads"],
        scaling=Scaling(**{name: tensors[f"scaling.{name}"] for name in _SCALES}),
        sizes=tuple(content["sizes"]),
        leak=parameters["leak"],
        mean_depth=content["mean_depth"],
        **{name: tensors[name] for name in _VECTORS},
    )
    network.restore(embedding, validation_losses=tuple(content["validation_losses"]))
    return network


def _digest(header: str, tensors: dict[str, Any]) -> str:
    digest = sha256(header.encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"{name}:{tensor.dtype.str}:{tensor.shape}".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def _damaged(path: Path, found: str) -> FileFormatError:
    return FileFormatError(
        f"context network {path}",
        found=found,
        expected="an undamaged file written by `ContextNetwork.save`",
        fix="Copy it again from where it was made, or train again.",
    )
