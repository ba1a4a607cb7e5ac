"""Ids: one key per customer, whatever carries the id; types that cannot be ids are refused."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco.records.errors import InputError
from disco.records.identity import customer_keys, name_key, read_ids

TEXT = ["007", "", "Zoë", "a" * 100, "7"]


def reference_key(text: str) -> int:
    """FNV-1a over the bytes, then splitmix64's finaliser, in Python's own integers."""
    word, mask = 0xCBF29CE484222325, 2**64 - 1
    for byte in text.encode():
        word = ((word ^ byte) * 0x100000001B3) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


@pytest.mark.parametrize(
    "carrier",
    [
        list,
        lambda ids: np.array(ids, object),
        lambda ids: np.array(ids, np.dtypes.StringDType()),
        np.array,
        pa.array,
        lambda ids: pa.array(ids, pa.large_string()),
        lambda ids: pa.array(ids, pa.string_view()),
        lambda ids: pa.array(ids).dictionary_encode(),
        lambda ids: pa.chunked_array([ids[:2], ids[2:]]),
        lambda ids: pa.array(["before", *ids, "after"])[1:-1],
    ],
)
def test_text_has_the_reference_key_in_every_carrier(carrier: Callable[[list[str]], object]) -> None:
    ids = carrier(TEXT)
    assert customer_keys(ids).tolist() == [reference_key(text) for text in TEXT]
    assert read_ids(ids).tolist() == TEXT


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_an_integer_has_the_key_of_its_decimal_text(ids: list[int]) -> None:
    expected = [reference_key(str(number)) for number in ids]
    assert customer_keys(np.array(ids, np.int64)).tolist() == expected
    assert customer_keys(pa.array(ids, pa.int64())).tolist() == expected
    assert customer_keys([str(number) for number in ids]).tolist() == expected


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint16(), pa.uint64()])
def test_narrow_and_unsigned_integers_are_integers(kind: pa.DataType) -> None:
    assert read_ids(pa.array([3, 9], kind)).dtype == np.int64
    assert customer_keys(pa.array([3, 9], kind)).tolist() == customer_keys([3, 9]).tolist()


def test_memory_that_arrow_made_read_only_is_read() -> None:
    column = pa.array(np.arange(3))
    assert not column.to_numpy().flags.writeable
    assert customer_keys(column).size == 3


def test_int64_and_object_arrays_are_handed_back_as_they_are() -> None:
    numbers, texts = np.arange(3), np.array(["a", "b"], object)
    assert read_ids(numbers) is numbers
    assert read_ids(texts) is texts


def test_no_ids_at_all() -> None:
    assert read_ids([]).size == 0
    assert customer_keys(pa.array([], pa.string())).size == 0


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ([1, "a"], "int, str"),
        (np.array([1, "a"], object), "int, str"),
        (["a", None], "found a null"),
        (pa.array([1, None]), "found a null"),
        (pa.array([None, 1, None]), "2 nulls"),
        ([1.5], "double"),
        ([b"a"], "binary"),
        ([True], "bool"),
        (np.array([2**63], np.uint64), "9223372036854775808"),
        ([2**70], "1180591620717411303424; expected integers below"),
        ([[1]], "shape"),
        (5, "shape"),
    ],
)
def test_what_cannot_be_an_id_is_refused_by_name(ids: object, found: str) -> None:
    for function in (read_ids, customer_keys):
        with pytest.raises(InputError, match="buyers") as caught:
            function(ids, where="buyers")
        assert found in str(caught.value)


def test_keys_are_spread_over_all_bits() -> None:
    keys = customer_keys(np.arange(20_000))
    assert np.unique(keys).size == keys.size
    bits = (keys[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    # a fair bit has sd 0.5/√n = 0.0035; six sds over 64 bits
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(keys.size)


def test_names_with_equal_text_and_other_cuts_or_types_differ() -> None:
    assert len({name_key("ab", "c"), name_key("a", "bc"), name_key("abc"), name_key(1), name_key("1")}) == 5
    assert 0 <= name_key("seed", 7) < 2**64


@pytest.mark.parametrize("ids", [[0, -1, 17, 2**63 - 1, -(2**63)], ["007", "", "Zoë", "a" * 100, "-3"]])
def test_a_few_ids_get_the_keys_that_the_kernels_give(ids: list[int] | list[str]) -> None:
    """A short column is hashed without Numba: its keys must be those of the same ids within a long column."""
    long = customer_keys([*ids] * 50)
    assert long.size > 64
    np.testing.assert_array_equal(customer_keys(ids), long[: len(ids)])
    assert customer_keys(ids).dtype == np.uint64


@pytest.mark.parametrize("ids", [[2**70, None], [2**70, "a"]])
def test_a_large_id_among_others_is_refused_in_words(ids: list[object]) -> None:
    with pytest.raises(InputError, match="ids of type"):
        read_ids(ids)
