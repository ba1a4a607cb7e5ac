"""One unit of work on the store, or a rehearsal of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from disco.records.ports import Shelves, Store


class _NotKept(Exception):  # noqa: N818 - no error: the way out of a rehearsal
    pass


@contextmanager
def transaction(store: Store, subject: str, *, dry_run: bool = False) -> Iterator[Shelves]:
    """`store.writing(subject)`; with `dry_run` everything is done and checked, then left undone."""
    try:
        with store.writing(subject) as shelves:
            yield shelves
            if dry_run:
                raise _NotKept
    except _NotKept:
        pass
