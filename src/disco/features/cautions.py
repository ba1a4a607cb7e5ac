"""Warnings of this room: something is usable but weaker than it should be, and the message says what to do."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class FeatureWarning(UserWarning):
    """Base of all warnings of `disco.features`."""


class MissingTableWarning(FeatureWarning):
    """A table is absent; the features that need it are unknown (null) for everybody."""


class DepthVariationWarning(FeatureWarning):
    """The training orders cannot tell elasticity from spend: too little variation of depth, or depth follows spend."""


class NetworkWarning(FeatureWarning):
    """The trained network wastes part of its context layer."""


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect the texts of this room's warnings instead of printing them; other warnings go their usual way.

    >>> with collected() as notes:
    ...     warnings.warn("too few depths", DepthVariationWarning)
    >>> notes
    ['too few depths']
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for warning in caught:
        if issubclass(warning.category, FeatureWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
