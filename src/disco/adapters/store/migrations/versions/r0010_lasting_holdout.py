"""The secret of lasting holdouts: `opening.upgrade` makes each secret that is not there, and no table changes."""

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Nothing to do: a secret is sealed and random, so it is made where all of them are."""
