"""What this program is called where it is installed, and its version."""

#: The name for pip. The import package and the command are `disco`; on package indexes that is another program.
DISTRIBUTION = "disco-codes"
VERSION = "0.1.0"
