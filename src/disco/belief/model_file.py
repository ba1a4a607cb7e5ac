"""Model files: sealed files (`records.sealed`), every byte accounted for.

The header names format version, settings, encoding, prior, context schema and the campaigns in order; the tensors are
the evidence. A file is accepted only when the model read from it would be written as exactly the same bytes, the hash
of its contents among them, so any changed byte is detected. Whoever forges a file can compute that hash too, so every
length and value is checked as well, by the values that are made from it.

Byte-critical: the hash of a model and the versions a shop has stored rest on `settings_text`. Names of context columns
stand beside the settings, and only where there are any: they are no part of the hash, and files without them are as
they always were.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.belief.encodings import KINDS, Encoding, Prior
from disco.belief.evidence import Evidence
from disco.belief.posterior import require_size
from disco.records.errors import FileFormatError, InputError
from disco.records.files import written_whole
from disco.records.sealed import read_as, read_sealed, refused, sealed_bytes, shortened

if TYPE_CHECKING:
    from disco.belief.model import BasketModel

FORMAT = "disco basket model"
VERSION = 1
_ENTRY = "disco"
_MOST_BYTES = 2**30
#: Settings that are kept as they are.
_PLAIN = ("constant_precision", "noise_sd", "depth_scale", "forgetting", "monotone", "context_schema", "reason")
#: Settings that came later: where they are off, a model keeps its bytes and so its hash.
_ADDED = ("smearing",)
_SUMS = ("depths", "high", "low")  # the arrays of a campaign's evidence
_PAID = "paid"  # only of models with smearing, where it is known


def settings_text(model: BasketModel) -> str:
    """Everything about a model but its evidence, as canonical JSON; floats round-trip exactly."""
    prior = model.prior_precision
    return _canonical(
        {
            "format": FORMAT,
            "version": VERSION,
            "encoding": {"kind": model.encoding.kind, **model.encoding.settings()},
            "prior_precision": asdict(prior) if isinstance(prior, Prior) else prior,
            "campaigns": list(model.campaigns),
            **{name: getattr(model, name) for name in _PLAIN},
            **{name: True for name in _ADDED if getattr(model, name)},
        }
    )


def to_bytes(model: BasketModel) -> bytes:
    """The file's content: equal models give equal bytes."""
    tensors = {}
    for number, evidence in enumerate(model.campaigns.values()):
        for name in _SUMS:
            tensors[f"{number:06d}.{name}"] = getattr(evidence, name)
        if model.smearing and evidence.paid is not None:
            tensors[f"{number:06d}.{_PAID}"] = evidence.paid
    if type(model.encoding) is not KINDS.get(model.encoding.kind):
        found, kinds = f"the encoding {model.encoding!r}", ", ".join(KINDS)
        raise InputError("model file", found=found, expected=f"one that files know: {kinds}")
    header: dict[str, Any] = {"hash": model.hash, "settings": settings_text(model)}
    if model.context_names is not None:
        header["context_names"] = list(model.context_names)
    return sealed_bytes(_ENTRY, _canonical(header), tensors)


def from_bytes(content: bytes, *, make: type[BasketModel], name: str = "model file") -> BasketModel:
    """The model in a file's content, or a FileFormatError; `make` is the class (a model is read by its own class)."""
    damaged = FileFormatError(
        name, expected="a model file as it was written", fix="Restore it from a copy, or learn it again."
    )
    header, tensors = read_sealed(content, entry=_ENTRY, damaged=damaged)

    def read() -> BasketModel:
        settings = json.loads(header["settings"])
        kind, version = settings["format"], settings["version"]
        if kind != FORMAT:
            raise FileFormatError(name, found=shortened(kind), expected=f"a {FORMAT}")
        if version != VERSION:
            raise FileFormatError(name, found=shortened(f"format version {version}"), expected=f"version {VERSION}")
        model = make(**_arguments(settings, tensors), context_names=_tuple(header.get("context_names")))
        _check(model)
        if to_bytes(model) != content:
            raise refused(damaged, "bytes that differ from those written")
        return model

    return read_as(damaged, read)


def save(model: BasketModel, path: Path) -> None:
    """Whole or not at all: a reader sees the old file or the new one, never half of one."""
    content = to_bytes(model)
    with written_whole(path) as unfinished:
        unfinished.write_bytes(content)


def load(path: Path, *, make: type[BasketModel]) -> BasketModel:
    """The model in a file, or a FileFormatError."""
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= _MOST_BYTES else b""
    except OSError as error:
        raise FileFormatError(str(path), found=error.strerror, expected="a readable model file") from error
    if size > _MOST_BYTES:
        raise FileFormatError(str(path), found=f"{size:,} bytes", expected=f"at most {_MOST_BYTES:,}")
    return from_bytes(content, make=make, name=str(path))


def _arguments(settings: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a model's constructor."""
    campaigns = {}
    for number, campaign in enumerate(settings["campaigns"]):
        depths, high, low = (tensors[f"{number:06d}.{name}"] for name in _SUMS)
        campaigns[campaign] = Evidence.from_arrays(depths, high, low, tensors.get(f"{number:06d}.{_PAID}"))
    given = dict(settings["encoding"])
    encoding: Encoding = KINDS[given.pop("kind")](**{key: _tuple(value) for key, value in given.items()})
    prior = settings["prior_precision"]
    if isinstance(prior, dict):
        prior = Prior(**{key: _tuple(value) for key, value in prior.items()})
    read = {"encoding": encoding, "prior_precision": prior, "campaigns": campaigns}
    added = {name: settings[name] for name in _ADDED if name in settings}
    return {**read, **{name: settings[name] for name in _PLAIN}, **added}


def _check(model: BasketModel) -> None:
    """Refuse parts that do not fit together, before anything is computed from them."""
    depth_features = require_size(model.context_size or 0, model.encoding)
    model.prior.precision(model.context_size or 0, depth_features, constant=1.0)
    model.prior.mean(model.context_size or 0, depth_features)
    model.encoded(model.evidence.depths)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
