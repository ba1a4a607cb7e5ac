"""Warnings of this room: something is usable but weaker than it should be, and the message says what to do."""


class FeatureWarning(UserWarning):
    """Base of all warnings of `disco.features`."""


class MissingTableWarning(FeatureWarning):
    """A table is absent; the features that need it are unknown (null) for everybody."""


class DepthVariationWarning(FeatureWarning):
    """The training orders cannot tell elasticity from spend: too little variation of depth, or depth follows spend."""


class NetworkWarning(FeatureWarning):
    """The trained network wastes part of its context layer."""
