"""Frozen values that pass between rooms, and what this program is called where it is installed."""

#: The name for pip. The import package and the command are `disco`; on package indexes that is another program.
DISTRIBUTION = "disco-codes"
VERSION = "0.1.0"
