"""Where texts stand among others, by keys as Arrow finds it."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from disco.records import identity
from disco.records.identity import places_by_key, places_in

texts = st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "", "ключ", "ab"]), st.text(max_size=3)), max_size=30)


def plainly(asked, among):
    return [None if one is None or one not in among else among.index(one) for one in asked]


@given(asked=texts, among=texts)
def test_keys_and_arrow_find_the_first_place_of_every_text(asked, among):
    given_, there = pa.array(asked, pa.string()), pa.array(among, pa.string())
    assert places_by_key(given_, there).to_pylist() == plainly(asked, among)
    assert places_in(given_, among=there).to_pylist() == plainly(asked, among)


def test_two_texts_of_one_key_are_not_mistaken(monkeypatch):
    keys = identity.customer_keys
    monkeypatch.setattr(identity, "customer_keys", lambda column: keys(column) % 3)
    asked, among = ([f"{start}{n}" for n in range(20)] for start in ("a", "a1"))
    found = places_by_key(pa.array(asked), pa.array([*among, *asked[5:]]))
    assert found.to_pylist() == plainly(asked, [*among, *asked[5:]])
