"""Customer ids as 64-bit keys: the root of every random draw and every tie-break.

The key of an id is a hash of its decimal or UTF-8 text, so the integer 17 and the text "17" are one customer, whether
the table came as Parquet or CSV, and no key depends on the row, the chunk or who else is present.
"""

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from disco.records.arrays import Ids, Integers, Keys, Vector
from disco.records.chunks import stack_rows
from disco.records.compiled import njit
from disco.records.errors import InputError
from disco.records.ports import Engine

IdColumn: TypeAlias = pa.Array | pa.ChunkedArray | ArrayLike  # all integers, or all text

_WORD = 2**64 - 1
_FEW = 64  # ids that are hashed sooner in Python than Numba is imported


def read_ids(ids: IdColumn, *, where: str = "customer_id") -> Ids:
    """Ids as a one-dimensional int64 array or an object array of text; anything else is refused by name.

    >>> read_ids([17, 4]).dtype, read_ids(["007"]).tolist()
    (dtype('int64'), ['007'])
    """
    column = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else _column_of_objects(ids, where=where)
    if column.null_count:  # a whole table, so that its rows have numbers
        row = pc.index(pc.is_null(column), True).as_py() + 1
        found = f"a null in row {row}" if column.null_count == 1 else f"{column.null_count:,} nulls, first in row {row}"
        raise InputError(where, found=found, expected="an id in every row")
    column = id_column(column, where=where)
    if isinstance(ids, np.ndarray) and ids.dtype == (np.int64 if pa.types.is_int64(column.type) else object):
        return ids
    return np.asarray(column.to_numpy(zero_copy_only=False))


def customer_keys(ids: IdColumn, *, where: str = "customer_id", engine: Engine | None = None) -> Keys:
    """One 64-bit key per id; Arrow columns never become Python objects on the way.

    >>> bool((customer_keys([17, -3]) == customer_keys(["17", "-3"])).all())
    True
    """
    column = id_column(ids, where=where)
    if not len(column):
        return np.empty(0, np.uint64)
    if len(column) <= _FEW:
        return np.array([_key_of(str(value).encode()) for value in column.to_pylist()], np.uint64)
    if pa.types.is_int64(column.type):
        integers = np.ascontiguousarray(column.to_numpy(zero_copy_only=False))

        def hashed(rows: slice) -> Keys:
            keys = np.empty(rows.stop - rows.start, np.uint64)
            keys_of_integers(integers[rows], keys)
            return keys

        return stack_rows(hashed, len(column), engine=engine)
    _, offsets, data = column.buffers()
    start = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)

    def hashed_text(rows: slice) -> Keys:
        keys = np.empty(rows.stop - rows.start, np.uint64)
        keys_of_texts(start[rows.start : rows.stop + 1], text, keys)
        return keys

    return stack_rows(hashed_text, len(column), engine=engine)


def row_keys(rows: Integers) -> Keys:
    """`customer_keys` of row numbers, which need no check.

    >>> bool((row_keys(np.array([17, 3])) == customer_keys([17, 3])).all())
    True
    """
    keys = np.empty(rows.size, np.uint64)
    keys_of_integers(rows, keys)
    return keys


def buckets_of(ids: IdColumn, buckets: int, *, where: str = "customer_id") -> pa.Array:
    """One number from 0 to buckets - 1 per id (int32), the same for equal ids in any table, integers or text.

    >>> buckets_of([17, 4], 8).equals(buckets_of(["17", "4"], 8))
    True
    """
    return pa.array((customer_keys(ids, where=where) % np.uint64(buckets)).astype(np.int32))


def _key_of(text: bytes) -> int:
    """What the kernels compute: FNV-1a over the bytes, then splitmix64's finaliser."""
    key = 0xCBF29CE484222325
    for byte in text:
        key = (key ^ byte) * 0x100000001B3 & _WORD
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    key = (key ^ key >> 27) * 0x94D049BB133111EB & _WORD
    return key ^ key >> 31


def id_column(ids: IdColumn, *, where: str) -> pa.Array:
    """Ids as one Arrow array, int64 or large_string, without nulls."""
    column = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else _column_of_objects(ids, where=where)
    if column.null_count:
        found = "a null" if column.null_count == 1 else f"{column.null_count:,} nulls"
        raise InputError(where, found=found, expected="an id in every row")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_integer(kind):
        target = pa.int64()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        target = pa.large_string()
    elif pa.types.is_null(kind):  # no rows at all
        target = pa.int64()
    else:
        raise InputError(where, found=f"ids of type {kind}", expected="integers or text")
    try:
        column = column.cast(target)
    except pa.ArrowInvalid:
        raise _too_large(where, pc.max(column).as_py()) from None
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _too_large(where: str, largest: int) -> InputError:
    expected, fix = "integers below 2⁶³, or text", "Store these ids as text."
    return InputError(where, found=largest, expected=expected, fix=fix)


def _column_of_objects(ids: ArrayLike, *, where: str) -> pa.Array:
    array = np.asarray(ids)
    if array.ndim != 1:
        raise InputError(where, found=f"an array of shape {array.shape}", expected="one id per customer")
    if not array.size:
        return pa.nulls(0)
    if array.dtype.kind == "T":
        array = array.astype(object)
    if array.dtype.kind == "U" and isinstance(ids, list | tuple):
        array = np.array(ids, object)  # np.asarray turns [1, "a"] into text; the kinds must stay visible
    try:
        return pa.array(array)
    except (OverflowError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        if all(type(value) is int for value in array.tolist()):
            raise _too_large(where, max(array.tolist(), key=abs)) from None
        names = ", ".join(sorted({type(value).__name__ for value in array.tolist()}))
        raise InputError(where, found=f"ids of type {names}", expected="all integers or all text") from None


def name_key(*names: object) -> int:
    """A 64-bit key for a tuple of names and numbers, such as (seed, campaign, purpose).

    >>> name_key("ab", "c") != name_key("a", "bc")
    True
    """
    from hashlib import blake2b

    text = "\x1f".join(f"{type(name).__name__}:{name}" for name in names)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def uniforms(keys: Keys, *names: object) -> Vector:
    """(n,) numbers in [0, 1), one per key: a function of the key and the names (seed, campaign, purpose) alone.

    >>> keys = customer_keys([17, 18])
    >>> bool((uniforms(keys, 1, "spring", "arm")[:1] == uniforms(keys[:1], 1, "spring", "arm")).all())
    True
    """
    out = np.empty(keys.size)
    uniforms_of(np.ascontiguousarray(keys), np.uint64(name_key(*names)), out)
    return out


def secret_uniforms(ids: IdColumn, secret: bytes, *, purpose: str) -> Vector:
    """(n,) numbers in [0, 1), one per id: a function of the secret, the purpose and the id's text alone.

    BLAKE2b under the secret as its key, so that nobody without it can tell one number from others that they know.

    >>> bool((secret_uniforms([17], b"k" * 32, purpose="x") == secret_uniforms(["17"], b"k" * 32, purpose="x")).all())
    True
    """
    from hashlib import blake2b

    texts = id_column(ids, where="customer_id").cast(pa.large_string()).cast(pa.large_binary())
    person = purpose.encode()

    def drawn(rows: slice) -> Vector:
        some = texts.slice(rows.start, rows.stop - rows.start).to_pylist()
        digests = b"".join([blake2b(text, digest_size=8, key=secret, person=person).digest() for text in some])
        return np.asarray((np.frombuffer(digests, "<u8") >> np.uint64(11)) * 2.0**-53, np.float64)

    return stack_rows(drawn, len(texts)) if len(texts) else np.empty(0)


# ---- kernels: hashes of whole columns, and numbers drawn from keys
#
# Short commands hash at most a handful of ids, in Python: importing Numba would take longer than their answer.


_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
# Arrow hands out read-only memory; a kernel declared for it takes writable arrays too
_READ_INTEGERS = "Array(int64, 1, 'C', True)"
_READ_BYTES = "Array(uint8, 1, 'C', True)"
_READ_KEYS = "Array(uint64, 1, 'C', True)"
_KEYS = "Array(uint64, 1, 'C')"


@njit("uint64(uint64)", inline="always", cache=True)
def mix(word: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every input bit reaches every output bit (splitmix64's finaliser)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(f"void({_READ_INTEGERS}, {_KEYS})", nogil=True, cache=True, patient=True)
def keys_of_integers(ids: Integers, out: Keys) -> None:
    digits = np.empty(20, np.uint8)
    for row in range(ids.size):
        left = ids[row]
        key = _FNV_OFFSET
        magnitude = np.uint64(left)
        if left < 0:
            key = (key ^ np.uint64(45)) * _FNV_PRIME  # '-'
            magnitude = ~magnitude + np.uint64(1)
        count = 0
        while True:
            digits[count] = np.uint8(magnitude % np.uint64(10) + np.uint64(48))
            magnitude //= np.uint64(10)
            count += 1
            if magnitude == 0:
                break
        for place in range(count - 1, -1, -1):
            key = (key ^ np.uint64(digits[place])) * _FNV_PRIME
        out[row] = mix(key)


@njit(f"void({_READ_INTEGERS}, {_READ_BYTES}, {_KEYS})", nogil=True, cache=True, patient=True)
def keys_of_texts(offsets: Integers, text: "np.ndarray[tuple[int], np.dtype[np.uint8]]", out: Keys) -> None:
    for row in range(out.size):
        key = _FNV_OFFSET
        for place in range(offsets[row], offsets[row + 1]):
            key = (key ^ np.uint64(text[place])) * _FNV_PRIME
        out[row] = mix(key)


@njit(f"void({_READ_KEYS}, uint64, float64[::1])", nogil=True, cache=True, patient=True)
def uniforms_of(keys: Keys, stream: np.uint64, out: Vector) -> None:
    for row in range(keys.size):
        out[row] = (mix(mix(keys[row] ^ stream)) >> np.uint64(11)) * 2.0**-53


# ---- where texts stand among others: joins of columns with millions of codes or ids, by their 64-bit keys


_FEW_TEXTS = 10_000  # texts that Arrow finds sooner than Numba is imported, which makes their keys


def places_in(texts: pa.Array, *, among: pa.Array) -> pa.Array:
    """(n,) the first place of each text in another column, null where there is none: `pyarrow.compute.index_in`.

    >>> places_in(pa.array(["b", None, "z"]), among=pa.array(["a", "b", None, "b"])).to_pylist()
    [1, None, None]
    """
    if len(texts) + len(among) <= _FEW_TEXTS:
        return _exactly(texts, among)
    return places_by_key(texts, among)


def places_by_key(texts: pa.Array, among: pa.Array) -> pa.Array:
    """`places_in` by sorted keys, which reads memory in order; a hash table of a million texts waits for every one."""
    given, there = (np.flatnonzero(each.is_valid().to_numpy(zero_copy_only=False)) for each in (texts, among))
    if not given.size or not there.size:
        return pa.nulls(len(texts), pa.int64())
    asked, known = (customer_keys(pc.drop_null(each)) for each in (texts, among))
    order = np.argsort(known, kind="stable")
    ascending = np.argsort(asked)
    place = np.empty(asked.size, np.int64)
    place[ascending] = np.searchsorted(known[order], asked[ascending], side="left")
    near = order[np.minimum(place, known.size - 1)]
    found = known[near] == asked
    rows = np.full(len(texts), -1, np.int64)
    rows[given[found]] = there[near[found]]
    places = pa.array(rows, mask=rows < 0)
    same = pc.equal(among.take(places), texts)
    return _exactly(texts, among) if pc.all(same).as_py() is False else places  # two texts of one key: mostly never


def _exactly(texts: pa.Array, among: pa.Array) -> pa.Array:
    place = pc.index_in(texts, value_set=among).cast(pa.int64())
    return pc.if_else(texts.is_valid(), place, pa.scalar(None, pa.int64()))
