"""Passwords hashed with cheap parameters: the real ones take 0.2 s each, as they should."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from argon2 import PasswordHasher

from disco.office.sign_in import use_cases as sign_in


@contextmanager
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Until the end of the context, or until the monkeypatch is undone."""
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    sign_in._dummy.cache_clear()
    monkeypatch.setattr(sign_in, "_hasher", lambda: quick)
    try:
        yield
    finally:
        sign_in._dummy.cache_clear()
