"""The journal: one entry per transaction that wrote something, each with the hash of the one before."""

PSEUDONYM_NAME = "pseudonyms"
