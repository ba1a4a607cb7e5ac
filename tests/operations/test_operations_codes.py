"""Codes: readable, unguessable, one per customer and campaign."""

import hmac

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=25, deadline=None)
@given(
    ids=st.lists(st.one_of(st.text(max_size=150), st.sampled_from(["", "ключ", "x" * 119])), max_size=12),
    campaign=st.text(alphabet="abcü-", min_size=1, max_size=80),
    secret=st.binary(min_size=0, max_size=130),
    skipped=st.integers(0, 5),
)
def test_whole_columns_get_the_codes_that_customers_get_one_by_one(ids, campaign, secret, skipped):
    """More customers than `_FEW` are hashed by the compiled half, whatever their ids' lengths and places in memory."""
    column = pa.array([one.replace("\x1f", "") for one in ids] + [f"customer {n}" for n in range(80)])[skipped:]
    made = make_codes(column, campaign=campaign, secret=secret)
    assert made == [make_codes([one], campaign=campaign, secret=secret)[0] for one in column.to_pylist()]


def test_integers_get_the_codes_of_their_digits():
    column = pa.chunked_array([pa.array(range(-50, 50)), pa.array([2**62, -(2**62)])])
    whole = make_codes(column, campaign="c", secret=SECRET, prefix="MAY")
    assert whole == [make_codes([str(one)], campaign="c", secret=SECRET, prefix="MAY")[0] for one in column.to_pylist()]


def test_a_code_that_two_customers_would_share_goes_to_the_first_alone(monkeypatch):
    """Made codes never meet; a secret that repeats itself is simulated by the first attempt."""
    make = codes.make_codes

    def alike(ids, *, attempt=0, **more):
        made = make(ids, attempt=attempt, **more)
        return made if attempt else pa.concat_arrays([made[:1], made[:-1]])

    monkeypatch.setattr(codes, "make_codes", alike)
    found = codes.new_codes(None, list(range(100)), campaign="c", secret=SECRET)
    assert len(set(found.to_pylist())) == 100
    assert found[1] != found[0] == make([0], campaign="c", secret=SECRET)[0]
