"""An exception as the sentence that a user reads, at the command line and in a reply of the service."""

from disco.records.errors import DefectError, DiscoError

_OUT_OF_MEMORY = ("OutOfMemoryException", "OutOfMemoryError")  # of DuckDB and of torch, which are not imported here


def in_words(error: BaseException) -> DiscoError:
    """The error itself where it is ours; else what the system refused, or a defect."""
    if isinstance(error, DiscoError):
        return error
    if isinstance(error, MemoryError) or type(error).__name__ in _OUT_OF_MEMORY:
        return DiscoError(
            "There is not enough memory for this work",
            fix="Stop other programs, use smaller tables, or use a machine with more memory.",
        )
    if isinstance(error, OSError):  # no permission, no space, a folder in the way: for the user to fix
        return DiscoError(
            str(error.filename or "the operating system"),
            found=error.strerror or str(error),
            expected="a place that can be read and written",
            fix="Check the name, the permissions and the space left.",
        )
    return DefectError.of(error)
