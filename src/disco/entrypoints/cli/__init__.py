"""The `disco` command. Nothing heavy is imported until a command needs it."""

import sys


def main() -> None:
    """Run the command line; errors of the user's input end in one clear message and exit 1 (2 for wrong usage)."""
    from disco.entrypoints.cli.app import app
    from disco.records.errors import DiscoError, UsageError

    try:
        app()
    except DiscoError as error:
        from disco.entrypoints.cli.output import show_error

        show_error(error)
        sys.exit(2 if isinstance(error, UsageError) else 1)
