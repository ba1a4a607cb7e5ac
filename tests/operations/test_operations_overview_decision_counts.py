"""Who got which depth, in counts: every customer is counted once, by group and by part."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from disco.operations.overview import KNOWN, NEW, decision_counts
from disco.records.decisions import Arm
from disco.records.errors import InputError, NotFoundError


def test_every_customer_is_counted_once(shop):
    rows = shop.launch().decisions.to_pylist()
    found = decision_counts(shop.store, "spring")
    assert (found.customers, found.depths, found.by) == (200, (0.1, 0.3), "history")
    assert found.codes == sum(row["depth"] is not None for row in rows)
    by_hand = Counter((row["known"], row["arm"], row["depth"]) for row in rows)
    assert {(one.part == KNOWN, str(one.arm), one.depth): one.customers for one in found.cells} == by_hand


def test_counts_of_a_part_a_group_and_depths(shop):
    rows = shop.launch().decisions.to_pylist()
    found = decision_counts(shop.store, "spring")
    assert found.parts == (KNOWN, NEW)  # nine of ten are known
    assert found.count(part=NEW) == sum(not row["known"] for row in rows)
    assert found.count(arm=Arm.HOLDOUT, depths=[None]) == sum(row["arm"] == "holdout" for row in rows)
    assert found.count(arm=Arm.HOLDOUT, depths=[0.1, 0.3]) == 0
    deep = [row for row in rows if row["arm"] == "decided" and row["depth"] == 0.3]
    assert found.count(arm=Arm.DECIDED, depths=[0.3]) == len(deep)


def test_what_customers_can_be_divided_by_is_what_the_plan_names(shop):
    shop.launch()
    with pytest.raises(InputError, match="history"):
        decision_counts(shop.store, "spring", by="segment")
    with pytest.raises(NotFoundError):
        decision_counts(shop.store, "winter")


def test_a_plan_with_segments_is_divided_by_them(shop):
    regions = np.array([("North", "South", "")[row % 7 % 3] for row in range(200)], object)
    plan = shop.plan(segments={"column": "region", "limits": {"North": {0.3: {"at_most": 9}}}})
    rows = shop.launch(plan, replace(shop.people(), segment=regions)).decisions.to_pylist()
    found = decision_counts(shop.store, "spring")
    assert (found.by, found.divisions) == ("segment", ("segment", "history"))
    by_hand = Counter((row["segment"] or "(empty)", row["depth"]) for row in rows)
    assert found.parts == ("North", "(empty)", "South")  # the largest first, 57 customers each by name
    for (region, depth), customers in by_hand.items():
        assert found.count(part=region, depths=[depth]) == customers
    assert decision_counts(shop.store, "spring", by="history").parts == (KNOWN, NEW)
