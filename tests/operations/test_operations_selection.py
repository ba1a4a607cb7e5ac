"""Who a plan leaves out: lists of customer ids, and how many codes somebody may get within some days."""

from collections import Counter
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals

from disco.operations.audience import Selection, contacted, refusal
from disco.operations.contexts import FeatureCache
from disco.operations.forget import forget
from disco.operations.launch import launch
from disco.records.errors import InputError, PlanError, StateError
from disco.records.id_list import IdList
from disco.records.locale import Locale


class Data:
    """The shop's tables and lists, as far as a selection asks for them."""

    def __init__(self, lists=None, codes=None, customers=400, time_zone="UTC"):
        self.lists, self.codes, self.customers = lists or {}, codes, customers
        self.locale = Locale(time_zone=time_zone)

    @contextmanager
    def tables(self):
        yield self

    def names(self):
        return ("customers",) if self.codes is None else ("customers", "codes")

    def scan(self, name):
        return pa.table({"customer_id": np.arange(self.customers)}) if name == "customers" else self.codes

    def id_list(self, name, *, setting):
        ids = self.lists[name]
        return IdList(name, pa.array(ids, pa.large_string()), pa.array(range(1, len(ids) + 1)), may_have_header=False)


def text(numbers):
    return pa.array([str(number) for number in numbers], pa.large_string())


def test_lists_narrow_the_eligible_and_everybody_is_counted_once(shop):
    data = Data({"vip.csv": ["1", "2", "3", "9", "nobody"], "out.csv": ["2", "7", "9", "9"]})
    selection = Selection.of(data, shop.plan(include="vip.csv", exclude="out.csv"), contacted=None)
    stay, left_out = selection.apply(text(range(8)))  # 9 does not meet the condition, and no list brings them in
    assert stay.to_pylist() == ["1", "3"]
    assert left_out == {"include": 5, "exclude": 1}
    assert set(selection.inputs) == {"include", "exclude"}
    assert any("1 of 5 ids name no customer, the first in row 5" in note for note in selection.notes)


def test_a_list_that_names_other_customers_has_another_hash(shop):
    plan = shop.plan(exclude="out.csv")
    first, same, other = (
        Selection.of(Data({"out.csv": ids}), plan, contacted=None).inputs["exclude"]
        for ids in (["2", "7"], ["2", "7", "7", "nobody"], ["2"])
    )
    assert first == same != other


def test_late_arrivals_who_are_left_out_are_refused_with_the_reason(shop):
    data = Data({"out.csv": ["2", "7"]})
    plan = shop.plan(exclude="out.csv", contact={"at_most": 1, "days": 30})
    selection = Selection.of(data, plan, contacted=text([5]))
    stays = {step.key: step.stay(text([1, 5, 7])).to_pylist() for step in selection.steps}
    assert stays == {"exclude": [True, True, False], "contact": [True, False, True]}
    assert "customer 7: found somebody who is on the list out.csv" in str(refusal(plan, "exclude", ["7"]))
    assert "customer 5: found somebody who is at the limit of one code in 30 days" in str(
        refusal(plan, "contact", ["5"])
    )


def campaign(shop, name, start, *, days=7, seed=1, rows=400):
    plan = shop.plan(
        campaign=name,
        customers={"as_of": start - timedelta(days=1)},
        valid={"from": start, "days": days},
        holdout={"share": 0},
        seed=seed,
    )
    launched = shop.launch(plan, shop.people(rows))
    return [row["customer_id"] for row in shop.sent(launched)]


def test_codes_of_the_days_before_are_counted_and_this_one_included(shop):
    first = date(2027, 3, 8)
    plan = shop.plan(contact={"at_most": 2, "days": 60})
    too_early = campaign(shop, "early", first - timedelta(days=61))
    at_the_edge = campaign(shop, "edge", first - timedelta(days=60), seed=2)
    lately = campaign(shop, "lately", first - timedelta(days=5), seed=3)
    campaign(shop, "later", first + timedelta(days=1), seed=4)
    counts = Counter(at_the_edge) + Counter(lately)
    expected = {str(customer) for customer, codes in counts.items() if codes >= 2}
    assert set(contacted(shop.store, Data(), plan).to_pylist()) == expected
    assert expected, "some got both"
    assert set(too_early) - set(counts), "an older code does not count"
    strict = shop.plan(contact={"at_most": 1, "days": 60})
    assert set(contacted(shop.store, Data(), strict).to_pylist()) == set(map(str, counts))
    assert contacted(shop.store, Data(), shop.plan()) is None


def test_the_shops_own_codes_count_once(shop):
    """Its table holds codes of campaigns, which count already, and codes of other systems."""
    first = date(2027, 3, 8)
    sent = campaign(shop, "lately", first - timedelta(days=5))
    with shop.store.reading() as transaction:
        ours = transaction.decisions.of("lately")
    ours = ours.filter(ours["code"].is_valid())
    moment = datetime(2027, 3, 8, 23, 59)
    others = [str(customer) for customer in range(400) if customer not in sent][:3]
    codes = pa.table(
        {
            "code_id": pa.concat_arrays([ours["code"].combine_chunks(), pa.array(["x1", "x2", "x3", "x4"])]),
            "customer_id": [*map(str, ours["customer_id"].to_pylist()), str(sent[0]), *others],
            "sent_at": pa.array(
                [datetime(2027, 3, 3)] * len(ours) + [moment, moment, moment - timedelta(61), moment + timedelta(1)]
            ),
        }
    )
    at_limit = set(contacted(shop.store, Data(codes=codes), shop.plan(contact={"at_most": 2, "days": 60})).to_pylist())
    assert at_limit == {str(sent[0])}, "one code of the campaign and one of another system"
    one = set(contacted(shop.store, Data(codes=codes), shop.plan(contact={"at_most": 1, "days": 60})).to_pylist())
    assert one == {*map(str, sent), others[0]}, "neither before the 60 days nor after the first day"


def test_days_are_those_of_the_shop(shop):
    """23:30 UTC on the first day is the next day in Berlin, and 23:30 UTC before the 60 days begin is within them."""
    moments = [datetime(2027, 3, 8, 23, 30, tzinfo=UTC), datetime(2027, 1, 6, 23, 30, tzinfo=UTC)]
    codes = pa.table({"code_id": ["a", "b"], "customer_id": ["1", "2"], "sent_at": pa.array(moments)})
    plan = shop.plan(contact={"at_most": 1, "days": 60})
    found = {
        zone: contacted(shop.store, Data(codes=codes, time_zone=zone), plan).to_pylist()
        for zone in ("UTC", "Europe/Berlin")
    }
    assert found == {"UTC": ["1"], "Europe/Berlin": ["2"]}


def test_codes_of_late_arrivals_count_until_their_campaign_ends(shop):
    """Nobody keeps the day on which they got one."""
    first = date(2027, 3, 8)
    plan = shop.plan(reserve={"share": "50%"}, holdout={"share": 0}, valid={"from": first, "days": 50})
    shop.launch(plan)
    late = decide_late_arrivals(
        shop.store,
        "spring",
        shop.people(40, ids=np.arange(1000, 1040)),
        network=shop.network,
        prior=shop.knowledge(),
        clock=shop.clock,
        secret=shop.secret,
    )
    theirs = {str(row["customer_id"]) for row in late.to_pylist() if row["code"] is not None}
    assert theirs
    after = shop.plan(
        campaign="next",
        contact={"at_most": 1, "days": 10},
        customers={"as_of": date(2027, 4, 20)},
        valid={"from": date(2027, 4, 20), "days": 7},
    )
    assert set(contacted(shop.store, Data(customers=2000), after).to_pylist()) == theirs


def test_a_code_given_between_plan_and_launch_stops_the_launch(shop):
    plan = shop.plan(contact={"at_most": 1, "days": 60})
    planned = shop.planned(plan, shop.people(400))
    campaign(shop, "sudden", date(2027, 3, 7), seed=9)
    with pytest.raises(StateError, match="codes of other campaigns"):
        launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    again = shop.planned(plan, shop.people(100, ids=np.arange(5000, 5100)))
    campaign(shop, "elsewhere", date(2027, 3, 6), seed=5)
    assert launch(shop.store, again, clock=shop.clock, secret=shop.secret).codes, "they concern other customers"


def test_a_late_arrival_whom_another_campaign_reached_meanwhile_is_refused(shop):
    shop.launch(shop.plan(contact={"at_most": 1, "days": 30}, reserve={"share": "50%"}, holdout={"share": 0}))
    others = campaign(shop, "others", date(2027, 3, 7), rows=400)
    reached, free = next(one for one in others if one >= 200), np.array([900])

    def decide(ids):
        return decide_late_arrivals(
            shop.store,
            "spring",
            shop.people(len(ids), ids=ids),
            network=shop.network,
            prior=shop.knowledge(),
            clock=shop.clock,
            secret=shop.secret,
        )

    with pytest.raises(InputError, match=f"customer {reached}: found somebody who is at the limit of one code in 30"):
        decide(np.array([900, reached]))
    assert decide(free)["customer_id"].to_pylist() == [900]
    at_launch = next(one for one in others if one < 200)
    assert decide(np.array([at_launch])).num_rows == 1, "decided at the launch, before the other campaign"


def test_forgetting_names_the_lists_where_somebody_may_still_stand(shop, tmp_path):
    launched = shop.launch(shop.plan(include="vip.csv", exclude="out.csv"))
    someone = str(launched.decisions["customer_id"][0])
    cache = FeatureCache(folder=tmp_path / "features")
    done = forget(shop.store, [someone], clock=shop.clock, cache=cache, folders=[tmp_path], tables="data")
    assert "Lists of customers that plans name: out.csv, vip.csv." in done.elsewhere


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"contact": {"at_most": 0, "days": 60}}, "contact.at_most: found 0"),
        ({"contact": {"at_most": 2}}, "Add `contact.days:` to the plan."),
        ({"contact": {"at_most": 2, "days": 60, "weeks": 1}}, "unknown key weeks; expected one of at_most, days"),
        ({"contact": 2}, "contact: found 2"),
        ({"include": ["c1", "c2"]}, "a file with one customer id per line, such as lists/vip.csv"),
        ({"exclude": " "}, "a file with one customer id per line"),
    ],
)
def test_keys_that_cannot_be_read_are_named(shop, keys, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(**keys)
    assert words in str(refused.value)
