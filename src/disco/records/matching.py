"""Where texts stand among others: joins of columns with millions of codes or ids, by their 64-bit keys."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.identity import customer_keys

_FEW = 10_000  # texts that Arrow finds sooner than Numba is imported, which makes their keys


def places_in(texts: pa.Array, *, among: pa.Array) -> pa.Array:
    """(n,) the first place of each text in another column, null where there is none: `pyarrow.compute.index_in`.

    >>> places_in(pa.array(["b", None, "z"]), among=pa.array(["a", "b", None, "b"])).to_pylist()
    [1, None, None]
    """
    if len(texts) + len(among) <= _FEW:
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
