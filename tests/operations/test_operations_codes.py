"""Codes: readable, unguessable, one per customer and campaign."""

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
