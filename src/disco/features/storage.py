"""A trained network on disk: one sealed file (`records.sealed`)."""

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.features.embedding import Embedding
from disco.features.scaling import Scaling
from disco.records.errors import FileFormatError
from disco.records.files import written_whole
from disco.records.sealed import digest_of, read_sealed, sealed_bytes

if TYPE_CHECKING:
    from disco.features.network import ContextNetwork

KIND = "disco context network"
VERSION = 2  # 2: the range of each feature in training, and definitions of own features
_VECTORS = ("weights", "mean", "inverse_sd", "level", "slope")
_SCALES = tuple(part.name for part in fields(Scaling))


def save_network(network: "ContextNetwork", path: Path) -> None:
    """Write the file whole or not at all."""
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
    content = sealed_bytes("network", json.dumps({"content": header, "sha256": digest_of(header, tensors)}), tensors)
    with written_whole(path) as unfinished:
        unfinished.write_bytes(content)


def load_network(path: Path) -> "ContextNetwork":
    """The network in a file; FileFormatError when it is another kind of file, of another version, or damaged."""
    from disco.features.network import ContextNetwork

    if not path.is_file():
        raise FileFormatError(f"context network {path}", found="no such file", expected="a file written by `save`")
    sealed, tensors = read_sealed(path.read_bytes(), entry="network", damaged=_damaged(path))
    try:
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
    if digest != digest_of(header, tensors):
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


def _damaged(path: Path, found: Any = None) -> FileFormatError:
    return FileFormatError(
        f"context network {path}",
        found=found,
        expected="an undamaged file written by `ContextNetwork.save`",
        fix="Copy it again from where it was made, or train again.",
    )
