"""Which features a shop uses: the catalogue, less what it drops, plus what it defines itself.

The choice travels as text with feature tables and networks, so a network knows how its own features are made.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from disco.features.catalogue import FEATURES, HISTORY_FEATURE, Feature, choose
from disco.records.errors import FileFormatError, InputError

FEATURES_KEY = b"disco.features"  # metadata of a feature table that is not made from the whole catalogue alone
_PARTS = tuple(part.name for part in fields(Feature))


def select(*, drop: Sequence[str] = (), add: Sequence[Feature] = ()) -> tuple[Feature, ...]:
    """The catalogue without the features named in `drop`, then those of `add`.

    >>> own = Feature("orders_per_item", "purchases", "orders_365 / items_365", "orders per item", "ratio")
    >>> len(select(drop=["saves_365d", "returns_30d"], add=[own]))
    75
    """
    choose(drop or None)  # every name known, none twice
    if HISTORY_FEATURE in drop:
        raise InputError("features", found=f"{HISTORY_FEATURE} dropped", expected="it kept: it tells who has a history")
    left = tuple(feature for feature in FEATURES if feature.name not in drop)
    return choose((*left, *add))


def read_selection(content: object, *, where: str) -> tuple[Feature, ...]:
    """A settings file's content, `{drop: [names], add: [{name, group, formula, meaning, unit}]}`, as features."""
    given = {} if content is None else content
    if not isinstance(given, Mapping) or not set(given) <= {"drop", "add"}:
        raise InputError(
            where, found=f"{given!r:.80}", expected="`drop`, a list of names, and `add`, a list of features"
        )
    drop, add = given.get("drop") or [], given.get("add") or []
    if not isinstance(drop, list) or not isinstance(add, list):
        raise InputError(where, found=f"{given!r:.80}", expected="a list under `drop` and a list under `add`")
    return select(drop=drop, add=[_feature(entry, where) for entry in add])


def to_text(features: Sequence[Feature]) -> str:
    """The features as JSON; empty for the catalogue as it is."""
    if tuple(features) == FEATURES:
        return ""
    return json.dumps([asdict(feature) for feature in features], ensure_ascii=False)


def from_text(text: str) -> tuple[Feature, ...]:
    """What `to_text` wrote."""
    if not text:
        return FEATURES
    try:
        entries = json.loads(text)
        return choose([_feature(entry, "features of a file") for entry in entries])
    except (ValueError, TypeError) as error:
        raise FileFormatError("features of a file", found=str(error), expected="a list of features") from error


def _feature(entry: Any, where: str) -> Feature:
    if not isinstance(entry, Mapping) or set(entry) != set(_PARTS) or not all(type(v) is str for v in entry.values()):
        raise InputError(where, found=f"{entry!r:.80}", expected=f"a feature with {', '.join(_PARTS)}, all text")
    return Feature(**entry)
