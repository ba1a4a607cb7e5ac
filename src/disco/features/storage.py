"""A trained network on disk: one sealed file (`records.sealed`)."""

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.features.embedding import Embedding, check_sizes
from disco.features.scaling import Scaling
from disco.features.selection import from_text
from disco.records.errors import FileFormatError, InputError
from disco.records.files import written_whole
from disco.records.score import EngagementHead, ScoreBins
from disco.records.sealed import digest_of, read_as, read_sealed, refused, sealed_bytes, shortened

if TYPE_CHECKING:
    from disco.features.network import ContextNetwork

KIND = "disco context network"
VERSION = 2  # 2: the range of each feature in training, and definitions of own features
ENGAGEMENT_VERSION = 3  # 3: an engagement head; networks without one are written as before
_MOST_BYTES = 2**28  # the largest network that `check_sizes` allows takes less
_VECTORS = ("weights", "mean", "inverse_sd", "level", "slope")
_SCALES = tuple(part.name for part in fields(Scaling))
_HEAD = ("engagement.weights", "engagement.edges", "engagement.centres")
_MEANS = "trained_means"  # absent where the day of training is not known


def save_network(network: "ContextNetwork", path: Path) -> None:
    """Write the file whole or not at all."""
    embedding = network.embedding_
    tensors = {name: getattr(embedding, name) for name in _VECTORS}
    tensors |= {f"scaling.{name}": getattr(embedding.scaling, name) for name in _SCALES}
    if embedding.engagement is not None:
        head = embedding.engagement
        tensors |= dict(zip(_HEAD, (head.weights, head.bins.edges, head.bins.centres), strict=True))
        if embedding.trained_means is not None:
            tensors[_MEANS] = embedding.trained_means
    header = _header(network)
    content = sealed_bytes("network", json.dumps({"content": header, "sha256": digest_of(header, tensors)}), tensors)
    with written_whole(path) as unfinished:
        unfinished.write_bytes(content)


def load_network(path: Path) -> "ContextNetwork":
    """The network in a file; FileFormatError when it is another kind of file, of another version, damaged or forged."""
    if not path.is_file():
        raise FileFormatError(f"context network {path}", found="no such file", expected="a file written by `save`")
    damaged = FileFormatError(
        f"context network {path}",
        expected="an undamaged file written by `ContextNetwork.save`",
        fix="Copy it again from where it was made, or train again.",
    )
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise FileFormatError(damaged.what, found=f"{size:,} bytes", expected=f"at most {_MOST_BYTES:,}")
    sealed, tensors = read_sealed(path.read_bytes(), entry="network", damaged=damaged)
    return read_as(damaged, lambda: _network(sealed, tensors, damaged))


def _network(sealed: dict[str, Any], tensors: dict[str, Any], damaged: FileFormatError) -> "ContextNetwork":
    from disco.features.network import ContextNetwork

    header, digest = sealed["content"], sealed["sha256"]
    content = json.loads(header)
    kind, version = content["kind"], content["version"]
    if kind != KIND or version not in (VERSION, ENGAGEMENT_VERSION):
        raise FileFormatError(
            damaged.what,
            found=shortened(f"{kind}, version {version}"),
            expected=f"{KIND}, version {VERSION} or {ENGAGEMENT_VERSION}",
            fix="Train the network again.",
        )
    has_head = version == ENGAGEMENT_VERSION
    parts = {*_VECTORS, *(f"scaling.{name}" for name in _SCALES), *(_HEAD if has_head else ())}
    if set(tensors) - ({_MEANS} if has_head else set()) != parts:
        raise refused(damaged, f"the parts {shortened(', '.join(sorted(tensors)), 200)}")
    if digest != digest_of(header, tensors):
        raise refused(damaged, "content that does not match its digest")
    parameters = {**content["parameters"], "hidden": tuple(content["parameters"]["hidden"])}
    network = ContextNetwork(**parameters)
    network.check_parameters()
    for name in ("schema", "own_features"):
        if not isinstance(content[name], str):
            raise InputError(name, found=repr(content[name]), expected="text")
    from_text(content["own_features"])  # definitions that are no features are refused now, not when they are used
    losses, log_losses = tuple(content["validation_losses"]), tuple(content.get("validation_log_losses", ()))
    if not all(isinstance(loss, float) for loss in (*losses, *log_losses)):
        raise InputError("validation_losses", found="something else", expected="numbers")
    sizes = check_sizes(content["sizes"])  # before any of them is multiplied or allocated
    if sizes[1:] != (*parameters["hidden"], parameters["dimensions"]):
        raise InputError("sizes", found=sizes, expected="features, the units of `hidden`, and `dimensions`")
    embedding = Embedding(
        feature_names=tuple(content["feature_names"]),
        schema=content["schema"],
        own_features=content["own_features"],
        heads=parameters["heads"],
        scaling=Scaling(**{name: tensors[f"scaling.{name}"] for name in _SCALES}),
        sizes=sizes,
        leak=parameters["leak"],
        mean_depth=content["mean_depth"],
        engagement=_head(tensors) if has_head else None,
        trained_means=tensors.get(_MEANS),
        **{name: tensors[name] for name in _VECTORS},
    )
    network.restore(embedding, validation_losses=losses, validation_log_losses=log_losses)
    if _header(network) != header:
        raise refused(damaged, "a header with other entries, or in another order, than `save` writes")
    return network


def _head(tensors: dict[str, Any]) -> EngagementHead:
    weights, edges, centres = (tensors[name] for name in _HEAD)
    return EngagementHead(weights, ScoreBins(edges, centres))


def _header(network: "ContextNetwork") -> str:
    """Everything but the tensors. What was trained counts, also where parameters were set again afterwards."""
    embedding = network.embedding_
    trained = {
        "heads": embedding.heads,
        "hidden": embedding.sizes[1:-1],
        "dimensions": embedding.dimensions,
        "leak": embedding.leak,
    }
    has_head = embedding.engagement is not None
    more = {"validation_log_losses": network.validation_log_losses_} if has_head else {}
    return json.dumps(
        {
            "kind": KIND,
            "version": ENGAGEMENT_VERSION if has_head else VERSION,
            "schema": embedding.schema,
            "own_features": embedding.own_features,
            "feature_names": embedding.feature_names,
            "sizes": embedding.sizes,
            "mean_depth": embedding.mean_depth,
            "parameters": network.get_params() | trained,
            "validation_losses": network.validation_losses_,
            **more,
        },
        sort_keys=True,
    )
