"""Model files as a forger makes them: wrong in one place, and with a digest that is right again."""

import json
import math
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from disco.records.sealed import digest_of, sealed_bytes

Header = dict[str, Any]
Tensors = dict[str, Any]
Forgery = Callable[[Header, Tensors], None]


def parts_of(content: bytes, entry: str) -> tuple[Header, Tensors]:
    """The JSON under `entry` and the tensors, unchecked."""
    from safetensors.numpy import load

    length = int.from_bytes(content[:8], "little")
    tensors = {name: array.copy() for name, array in load(content).items()}
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"][entry]), tensors


def forge_network(path: Path, target: Path, forgery: Forgery) -> None:
    """Write the network of `path` to `target`, forged."""
    sealed, tensors = parts_of(path.read_bytes(), "network")
    content = json.loads(sealed["content"])
    forgery(content, tensors)
    text = content.pop("text", None) or json.dumps(content, sort_keys=True)
    header = json.dumps({"content": text, "sha256": digest_of(text, tensors)})
    target.write_bytes(sealed_bytes("network", header, tensors))


def _header(**changes: Any) -> Forgery:
    return lambda header, _: header.update(changes)


def _parameter(**changes: Any) -> Forgery:
    return lambda header, _: header["parameters"].update(changes)


def _without(name: str) -> Forgery:
    def forgery(header: Header, tensors: Tensors) -> None:
        del (header if name in header else tensors)[name]

    return forgery


def _tensor(name: str, change: Callable[[Any], Any]) -> Forgery:
    return lambda _, tensors: tensors.update({name: change(tensors[name])})


def _filled(name: str, value: float, place: Any = 0) -> Forgery:
    def forgery(_: Header, tensors: Tensors) -> None:
        tensors[name][place] = value

    return forgery


def _sizes(change: Callable[[list[Any]], list[Any]], *, parameters: bool = True) -> Forgery:
    """Other layers; `parameters` says so there as well."""

    def forgery(header: Header, _: Tensors) -> None:
        header["sizes"] = sizes = change(header["sizes"])
        if parameters and len(sizes) > 1:
            header["parameters"].update(hidden=sizes[1:-1], dimensions=sizes[-1])

    return forgery


def _renamed(header: Header, _: Tensors) -> None:
    header["feature_names"] = [header["feature_names"][0]] * len(header["feature_names"])


def _one_name_less(header: Header, _: Tensors) -> None:
    header["feature_names"].pop()


def _a_feature_less(header: Header, _: Tensors) -> None:
    header["feature_names"].pop()
    header["sizes"][0] -= 1


def _overflowing(header: Header, tensors: Tensors) -> None:
    tensors["weights"][:] = 1e200


def _twice(header: Header, _: Tensors) -> None:
    header["text"] = json.dumps(header, sort_keys=True).replace('"sizes":', '"sizes": [1, 1], "sizes":')


NETWORKS: dict[str, Forgery] = {
    # lengths that the kernel would follow out of its arrays
    "weights of length 1": _tensor("weights", lambda array: array[:1]),
    "one weight less": _tensor("weights", lambda array: array[:-1]),
    "one weight more": _tensor("weights", lambda array: np.append(array, 0.0)),
    "no weights": _tensor("weights", lambda array: array[:0]),
    "weights of two axes": _tensor("weights", lambda array: array[None, :]),
    "a mean of length 1": _tensor("mean", lambda array: array[:1] if array.size > 1 else array[:0]),
    "an inverse_sd too short": _tensor("inverse_sd", lambda array: array[:-1]),
    "a level too short": _tensor("level", lambda array: array[:-1]),
    "a slope too long": _tensor("slope", lambda array: np.append(array, 0.0)),
    "a unit of length 1": _tensor("scaling.unit", lambda array: array[:1]),
    "a centre too short": _tensor("scaling.centre", lambda array: array[:-1]),
    "no spread": _tensor("scaling.spread", lambda array: array[:0]),
    "edges of one decile": _tensor("scaling.edges", lambda array: np.ascontiguousarray(array[:, :1])),
    "shares of fewer features": _tensor("scaling.shares", lambda array: array[:-1]),
    "limits of one axis": _tensor("scaling.limits", lambda array: array[:, 0].copy()),
    "fewer names": _one_name_less,
    "a feature less everywhere but in the arrays": _a_feature_less,
    # sizes
    "a huge layer": _sizes(lambda sizes: [sizes[0], 200_000, sizes[-1]]),
    "a huge layer, parameters as before": _sizes(lambda sizes: [sizes[0], 200_000, sizes[-1]], parameters=False),
    "weights beyond any memory": _sizes(lambda sizes: [sizes[0], 65_536, 65_536, sizes[-1]]),
    "a size beyond 64 bits": _sizes(lambda sizes: [sizes[0], 10**30, sizes[-1]]),
    "a negative size": _sizes(lambda sizes: [sizes[0], -2, sizes[-1]]),
    "a size of zero": _sizes(lambda sizes: [sizes[0], 0, sizes[-1]]),
    "no context": _sizes(lambda sizes: [*sizes[:-1], 0]),
    "a broken size": _sizes(lambda sizes: [sizes[0], 2.5, sizes[-1]]),
    "a size that is true": _sizes(lambda sizes: [sizes[0], True, sizes[-1]]),
    "a size in words": _sizes(lambda sizes: [sizes[0], "2", sizes[-1]]),
    "one layer": _sizes(lambda sizes: sizes[:1]),
    "no layers": _sizes(lambda sizes: []),
    "a thousand layers": _sizes(lambda sizes: [sizes[0], *[1] * 1000, sizes[-1]]),
    "sizes that are no list": _header(sizes=7),
    # values
    "a weight that is NaN": _filled("weights", np.nan),
    "an infinite weight": _filled("weights", np.inf, -1),
    "weights that overflow": _overflowing,
    "a mean that is NaN": _filled("mean", np.nan),
    "a negative inverse_sd": _filled("inverse_sd", -1.0),
    "an infinite level": _filled("level", -np.inf),
    "a unit of zero": _filled("scaling.unit", 0.0),
    "a negative spread": _filled("scaling.spread", -1.0),
    "a centre that is NaN": _filled("scaling.centre", np.nan),
    "edges that fall": _filled("scaling.edges", 1e300, (0, 0)),
    "a share of three": _filled("scaling.shares", 3.0, (0, 0)),
    "infinite limits": _filled("scaling.limits", np.inf, (0, 1)),
    "weights of single precision": _tensor("weights", lambda array: array.astype(np.float32)),
    "weights that are integers": _tensor("weights", lambda array: array.astype(np.int64)),
    "a mean depth of 2": _header(mean_depth=2.0),
    "a mean depth that is NaN": _header(mean_depth=float("nan")),
    "a mean depth in words": _header(mean_depth="0.2"),
    "a leak of 1e9": _parameter(leak=1e9),
    "a leak that is NaN": _parameter(leak=float("nan")),
    "heads of another kind": _parameter(heads="tails"),
    "a hidden layer in words": _parameter(hidden=["2"]),
    "hidden that is no list": _parameter(hidden=3),
    "a seed of 10^400": _parameter(seed=10**400),
    "losses in words": _header(validation_losses=["0.1"]),
    "losses that are no list": _header(validation_losses=0.1),
    "a schema that is a number": _header(schema=5),
    "own features that are a list": _header(own_features=[]),
    "own features that are no features": _header(own_features='[{"name": "x"}]'),
    "own features with SQL": _header(
        own_features=json.dumps(
            [{"name": "x", "group": "site", "formula": "(SELECT 1)", "meaning": "", "unit": "share"}]
        )
    ),
    "names that are numbers": lambda header, _: header.update(feature_names=list(range(header["sizes"][0]))),
    "the same name for all": _renamed,
    "names that are no list": _header(feature_names=None),
    # keys
    "no sizes": _without("sizes"),
    "no parameters": _without("parameters"),
    "no mean": _without("mean"),
    "no shares": _without("scaling.shares"),
    "a part too many": lambda _, tensors: tensors.update(more=np.ones(2)),
    "a key too many": _header(more=1),
    "a parameter too many": _parameter(more=1),
    "a parameter too few": lambda header, _: header["parameters"].pop("patience") and None,
    "a key twice": _twice,
    "a header that is a list": lambda header, _: header.update(text="[]"),
    "a header without end": lambda header, _: header.update(text="[" * 100_000),
    "a header that is no JSON": lambda header, _: header.update(text="{"),
    "another kind": _header(kind="disco basket model"),
    "another version": _header(version=99),
}


# ---- basket models ---------------------------------------------------------------------------------------------------


def forge_model(content: bytes, forgery: Forgery) -> bytes:
    """The content of a basket model's file, forged; names of context columns stand under `context_names`."""
    header, tensors = parts_of(content, "disco")
    settings = json.loads(header["settings"])
    settings["context_names"] = header.get("context_names")
    forgery(settings, tensors)
    names = settings.pop("context_names", None)
    text = settings.pop("text", None) or _canonical(settings)
    header = {"hash": _model_hash(text, tensors), "settings": text} | ({"context_names": names} if names else {})
    return sealed_bytes("disco", _canonical(header), tensors)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _model_hash(settings: str, tensors: Tensors) -> str:
    digest = sha256(settings.encode())
    for number in sorted({name.split(".")[0] for name in tensors}):
        parts = [tensors.get(f"{number}.{name}", np.zeros(0)) for name in ("depths", "high", "low")]
        entries = parts[1].shape[-1] if parts[1].ndim else 1
        context_size = (math.isqrt(8 * entries + 1) - 1) // 2 - 2
        one = sha256(f"evidence {context_size} {parts[0].size}\n".encode())
        for array in parts:
            one.update(np.ascontiguousarray(array).tobytes())
        digest.update(one.hexdigest().encode())
    return digest.hexdigest()


def _encoding(**encoding: Any) -> Forgery:
    return _header(encoding=encoding)


def _prior(**changes: Any) -> Forgery:
    plain = {"context": 1.0, "depth": 1.0, "interaction": 1.0, "depth_mean": 0.0, "absolute": False}
    return _header(prior_precision=plain | changes)


_DEPTHS, _HIGH, _LOW = (f"000000.{name}" for name in ("depths", "high", "low"))

MODELS: dict[str, Forgery] = {
    # evidence
    "depths too few": _tensor(_DEPTHS, lambda array: array[:-1]),
    "depths of two axes": _tensor(_DEPTHS, lambda array: array[None, :]),
    "depths of single precision": _tensor(_DEPTHS, lambda array: array.astype(np.float32)),
    "depths that fall": _tensor(_DEPTHS, lambda array: array[::-1]),
    "a depth that is NaN": _filled(_DEPTHS, np.nan),
    "a depth above 1": _filled(_DEPTHS, 1.5, -1),
    "a depth below 0": _filled(_DEPTHS, -0.1),
    "a depth of minus zero": _filled(_DEPTHS, -0.0),
    "sums of no triangle": _tensor(_HIGH, lambda array: array[:, :-1]),
    "sums of no triangle, twice": lambda _, tensors: tensors.update(
        {name: np.ascontiguousarray(tensors[name][:, :-1]) for name in (_HIGH, _LOW)}
    ),
    "sums of fewer depths": _tensor(_LOW, lambda array: array[:-1]),
    "sums of one axis": lambda _, tensors: tensors.update({name: tensors[name].ravel() for name in (_HIGH, _LOW)}),
    "sums that are floats": _tensor(_HIGH, lambda array: array.astype(np.float64)),
    "sums of 32 bits": _tensor(_LOW, lambda array: array.astype(np.int32)),
    "no columns": lambda _, tensors: tensors.update({name: tensors[name][:, :0].copy() for name in (_HIGH, _LOW)}),
    "a low part beyond 2^40": _filled(_LOW, 2**40, (0, 1)),
    "a negative low part": _filled(_LOW, -1, (0, 1)),
    "a high part beyond 2^62": _filled(_HIGH, 2**62, (0, 1)),
    "the lowest of all integers": _filled(_HIGH, -(2**63), (0, 1)),
    "no rows": _filled(_LOW, 0, (0, 0)),
    "negative rows": _filled(_HIGH, -1, (0, 0)),
    "rows beyond 2^60": _filled(_HIGH, 2**21, (0, 0)),
    "a sum beyond that of its rows": _filled(_HIGH, 2**30, (0, 1)),
    "a negative square": _filled(_HIGH, -5, (0, -1)),
    "a correlation beyond 1": _filled(_LOW, 0, (0, -1)),
    "no depths at all": _without(_DEPTHS),
    "evidence that no campaign names": lambda _, tensors: tensors.update({"000009.depths": np.zeros(1)}),
    # settings
    "another campaign": _header(campaigns=["", "more"]),
    "no campaigns": _header(campaigns=[]),
    "campaigns that are numbers": _header(campaigns=[7]),
    "a campaign that is a list": _header(campaigns=[["a"]]),
    "campaigns that are no list": _header(campaigns=3),
    "noise that is NaN": _header(noise_sd=float("nan")),
    "infinite noise": _header(noise_sd=float("inf")),
    "negative noise": _header(noise_sd=-1.0),
    "noise in words": _header(noise_sd="1"),
    "noise of 10^400": _header(noise_sd=10**400),
    "a depth scale of 0": _header(depth_scale=0.0),
    "a depth scale of 10^-320": _header(depth_scale=1e-320),
    "a depth scale that is an integer": _header(depth_scale=1),
    "forgetting more than everything": _header(forgetting=2.0),
    "forgetting that is true": _header(forgetting=True),
    "monotone as a number": _header(monotone=1),
    "a constant of minus 1": _header(constant_precision=-1.0),
    "a schema that is a number": _header(context_schema=5),
    "a reason that is a list": _header(reason=["because"]),
    "names that are numbers": _header(context_names=[1, 2]),
    "more names than columns": _header(context_names=["a", "b", "c"]),
    "names that are one text": _header(context_names="ab"),
    "an unknown encoding": _encoding(kind="magic"),
    "an encoding without a kind": _encoding(centres=[0.5]),
    "an encoding that is text": _header(encoding="radial_basis"),
    "an encoding with more": _encoding(kind="linear", more=1),
    "no centres": _encoding(kind="radial_basis", centres=[], gamma=20.0, alpha=None),
    "a hundred thousand centres": _encoding(kind="radial_basis", centres=[0.5] * 100_000, gamma=20.0, alpha=None),
    "a centre that is NaN": _encoding(kind="radial_basis", centres=[float("nan")], gamma=20.0, alpha=None),
    "a width of 0": _encoding(kind="radial_basis", centres=[0.5], gamma=0.0, alpha=None),
    "both widths": _encoding(kind="radial_basis", centres=[0.5], gamma=1.0, alpha=1.0),
    "a one-hot that knows no played depth": _encoding(kind="one_hot", depths=[0.77]),
    "a distance without end": _encoding(kind="distance", reference=float("inf")),
    "a prior of minus 1": _header(prior_precision=-1.0),
    "a prior in words": _header(prior_precision="1"),
    "a prior for other features": _prior(depth=[1.0, 2.0]),
    "a prior mean for other features": _prior(depth_mean=[1.0, 2.0, 3.0, 4.0]),
    "a prior that is NaN": _prior(context=float("nan")),
    "an absolute that is text": _prior(absolute="no"),
    "a prior with more": _prior(more=1.0),
    # keys
    "no noise": _without("noise_sd"),
    "no encoding": _without("encoding"),
    "a key too many": _header(more=1),
    "settings that are a list": lambda header, _: header.update(text="[]"),
    "settings without end": lambda header, _: header.update(text="[" * 100_000),
    "another format": _header(format="disco context network"),
    "another version": _header(version=[9] * 1000),
}
