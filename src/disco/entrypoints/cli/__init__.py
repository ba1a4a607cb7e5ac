"""The `disco` command. Nothing heavy is imported until a command needs it."""

import sys


def main() -> None:
    """Run the command line; errors of the user's input end in one clear message and exit 1 (2 for wrong usage)."""
    from disco.entrypoints.cli.app import app
    from disco.entrypoints.cli.output import show_error
    from disco.records.errors import DiscoError, UsageError

    try:
        app()
    except DiscoError as error:
        show_error(error)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except OSError as error:  # no permission, no space, a folder in the way: for the user to fix, no defect of ours
        show_error(
            DiscoError(
                str(error.filename or "the operating system"),
                found=error.strerror or str(error),
                expected="a place that can be read and written",
                fix="Check the name, the permissions and the space left.",
            )
        )
        sys.exit(1)
