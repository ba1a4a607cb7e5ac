"""Codes: readable, unguessable, one per customer and campaign."""

import hmac

from disco.operations import codes
from disco.operations.codes import ALPHABET

SECRET = b"a secret of thirty-two bytes !!!"


def make_codes(ids, **more):
    return codes.make_codes(ids, **more).to_pylist()


def test_a_code_is_a_function_of_secret_campaign_and_customer():
    first = make_codes(range(1000), campaign="c", secret=SECRET)
    assert first == make_codes(range(1000), campaign="c", secret=SECRET)
    for others in (
        make_codes(range(1000), campaign="d", secret=SECRET),
        make_codes(range(1000), campaign="c", secret=SECRET[::-1]),
    ):
        assert not set(first) & set(others)
    assert len(set(first)) == 1000


def test_codes_have_eighty_bits_in_an_alphabet_without_look_alikes():
    letters = "".join(make_codes(range(2000), campaign="c", secret=SECRET)).replace("-", "")
    assert set(letters) == set(ALPHABET)
    assert len(ALPHABET) ** 16 == 2**80
    assert not set("01OI") & set(ALPHABET)


def test_ids_with_a_separator_are_not_mistaken_for_another_attempt():
    """Codes that were given out keep their bytes; only ids that contain U+001F have another message."""
    plain = [17, "bob", "ключ", "a:b"]
    for attempt in (0, 1):
        ending = f"\x1f{attempt}" if attempt else ""
        messages = [f"c\x1f{customer}{ending}".encode() for customer in plain]
        digests = [hmac.digest(SECRET, message, "sha256") for message in messages]
        bits = ["".join(f"{byte:08b}" for byte in digest[:10]) for digest in digests]
        texts = ["".join(ALPHABET[int(one[place : place + 5], 2)] for place in range(0, 80, 5)) for one in bits]
        made = make_codes(plain, campaign="c", secret=SECRET, attempt=attempt)
        assert [code.replace("-", "") for code in made] == texts
    hostile = ["bob\x1f1", "bob\x1f", "\x1f", "1:c3:bob0", "\x1f1:c3:bob0", "bob\x1f1\x1f1"]
    every = [
        code
        for attempt in range(3)
        for campaign in ("c", "c2")
        for code in make_codes([*plain, *hostile], campaign=campaign, secret=SECRET, attempt=attempt)
    ]
    assert len(set(every)) == len(every)
