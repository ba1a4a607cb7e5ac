"""Single-use codes: unguessable, readable, the same for the same (campaign, customer) under one secret."""

import hmac
from collections.abc import Iterable
from hashlib import sha256

from disco.records.errors import StateError

ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # 32 characters; no 0/O, 1/I: nobody mistypes a look-alike
LENGTH = 16  # 80 bits


def make_codes(ids: Iterable[object], *, campaign: str, secret: bytes) -> list[str]:
    """One code per customer: the first 80 bits of HMAC-SHA256(secret, campaign, customer), in groups of four.

    >>> make_codes([17], campaign="spring", secret=b"k" * 32)[0].count("-")
    3
    """
    codes = [_code(secret, f"{campaign}\x1f{customer}") for customer in ids]
    if len(set(codes)) != len(codes):
        raise StateError(
            "codes", found="two customers with one code", expected="a code each", fix="Use another secret."
        )
    return codes


def _code(secret: bytes, message: str) -> str:
    bits = int.from_bytes(hmac.digest(secret, message.encode(), sha256)[:10], "big")
    text = "".join(ALPHABET[bits >> shift & 31] for shift in range(75, -1, -5))
    return "-".join(text[place : place + 4] for place in range(0, LENGTH, 4))
