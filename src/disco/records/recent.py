"""Values that are kept because they may be asked for again: those used last, each of them made once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """By key: the values used last (never None), at most so many (None: all). Threads may share it.

    >>> lengths = Recent[str, int](2)
    >>> [lengths.made(word, lambda word=word: len(word)) for word in ("one", "three", "one", "eleven")]
    [3, 5, 3, 6]
    >>> lengths.find("three"), lengths.find("one")
    (None, 3)
    """

    def __init__(self, most: int | None = None) -> None:
        self._most, self._lock = most, Lock()
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._making: dict[Key, Lock] = {}

    def find(self, key: Key) -> Value | None:
        """The value, where there is one, which counts as a use of it."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def made(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value, made where there is none; where several threads ask for it, one makes it and the others wait."""
        with self._lock:
            making = self._making.setdefault(key, Lock())
        with making:
            try:
                if (there := self.find(key)) is not None:
                    return there
                value = make()
                with self._lock:
                    self._kept[key] = value
                    while self._most is not None and len(self._kept) > self._most:
                        self._kept.popitem(last=False)
                return value
            finally:
                with self._lock:
                    self._making.pop(key, None)

    def drop(self, key: Key) -> None:
        """Forget a value; nothing where there is none."""
        with self._lock:
            self._kept.pop(key, None)

    def values(self) -> list[Value]:
        """The value that was not used for longest first."""
        with self._lock:
            return list(self._kept.values())

    def drop_oldest(self) -> None:
        """Forget the value that was not used for longest."""
        with self._lock:
            if self._kept:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
