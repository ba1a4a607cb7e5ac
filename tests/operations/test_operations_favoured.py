"""Who is favoured, the rule `fairness`, and the sentence that some customers are shown."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.features.eligibility import RefusedConditionError, rows_where
from disco.operations.disclosure import disclosure_words, refuse_disclosure
from disco.operations.export import export
from disco.operations.export_table import ExportKind, rows_of_table
from disco.operations.favoured import fairness_warnings, refuse_fairness, who_is_favoured
from disco.operations.outcomes import ingest
from disco.operations.plan import keep, plan_id
from disco.records.errors import InputError, PlanError, StateError

ROWS = 1200


class Tables:
    """The customers of a shop: every third lives in the North; customer 5 is gone."""

    locale = SimpleNamespace(time_zone="UTC")

    @contextmanager
    def customers(self, table):
        ids = np.setdiff1d(np.arange(ROWS), [5])
        region = np.where(ids % 3 == 0, "North", "South")
        columns = {"region": region, "size": ids % 60, "tags": pa.array([["new"]] * ids.size)}
        yield table, pa.table({"customer_id": ids, **columns})

    @staticmethod
    def meeting(customers, question):
        with rows_where(customers, question) as rows:
            return rows.read_all()


def planned(shop, **more):
    limits = {0.1: {"at_most": "30%"}, 0.3: {"at_most": "10%"}}
    return shop.planned(shop.plan(policy={"name": "random"}, depths=limits, **more), shop.people(ROWS))


def favouring(shop, **more):
    """A plan whose deepest codes all go to the South."""
    segments = {"column": "region", "limits": {"North": {0.3: {"at_most": 0}, 0.1: {"at_most": 0}}}}
    people = shop.people(ROWS)
    people = people.__class__(
        ids=people.ids,
        context=people.context,
        known=people.known,
        segment=np.where(np.arange(ROWS) % 3 == 0, "North", "South").astype(object),
    )
    limits = {0.1: {"at_most": "30%"}, 0.3: {"at_most": "10%"}}
    plan = shop.plan(policy={"name": "random"}, depths=limits, segments=segments, **more)
    return shop.planned(plan, people)


def test_codes_at_random_favour_nobody_and_limits_of_a_segment_do(shop):
    keep(shop.store, fair := planned(shop))
    found = who_is_favoured(shop.store, Tables(), fair.plan_id, by="REGION")
    assert (found.column, [one.value for one in found.groups]) == ("region", ["(empty)", "North", "South"])
    assert found.headline.startswith("No gap is seen between the values of region: the average discount is ")
    assert "Not judged" in found.words[-1]
    reached = fair.decisions.filter(pa.array(np.array(fair.decisions["arm"].to_pylist()) != "holdout"))
    north = [row for row in reached.to_pylist() if row["customer_id"] % 3 == 0]
    by_hand = np.mean([row["depth"] or 0.0 for row in north])
    assert found.groups[1].depth.mean.value == pytest.approx(by_hand)
    assert found.groups[1].customers == len(north)
    assert found.groups[1].actual is None

    keep(shop.store, unfair := favouring(shop, campaign="summer"))
    found = who_is_favoured(shop.store, Tables(), unfair.plan_id, by="region")
    assert found.headline == "The average discount depends on region, by more than chance."
    assert any(words.startswith("region = North: an average discount of 0") for words in found.words)
    table = found.to_arrow().to_pylist()
    assert table[1]["depth_gap_upper"] < 0 < table[2]["depth_gap_lower"]


def test_a_launched_campaign_also_shows_what_purchases_took_off(shop):
    from disco.operations.launch import launch

    launched = launch(shop.store, planned(shop), clock=shop.clock, secret=shop.secret)
    sent = shop.sent(launched)
    bought = sent[:40]
    ingest(shop.store, "spring", shop.outcomes(bought), source="test", clock=shop.clock)
    found = who_is_favoured(shop.store, Tables(), "spring", by="region")
    total = sum(one.actual.mean.value * one.customers for one in found.groups)
    assert total == pytest.approx(sum(50.25 * row["depth"] for row in bought))


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("regoin", "Did you mean region?"),
        ("size", "61 different values in column size"),
        ("tags", "column tags of type list"),
    ],
)
def test_a_column_that_cannot_be_used_is_named(shop, by, words):
    keep(shop.store, fair := planned(shop))
    with pytest.raises(InputError) as refused:
        who_is_favoured(shop.store, Tables(), fair.plan_id, by=by)
    assert words in str(refused.value)


def test_the_rule_warns_or_refuses_beyond_its_limit_and_says_what_it_cannot_see(shop):
    rule = {"column": "region", "at_most": "25%", "then": "warn"}
    (words, *_) = fairness_warnings(Tables(), favouring(shop, fairness=rule))
    assert words.startswith("The average discount differs by region beyond the limit of 25.0% of the average (")
    assert "North 0" in words
    with pytest.raises(StateError, match=r"beyond the limit of 25.*[^.]\. Limit the depths by `segments`"):
        fairness_warnings(Tables(), favouring(shop, fairness={**rule, "then": "refuse"}))
    said = fairness_warnings(Tables(), planned(shop, fairness={**rule, "at_most": "5%", "then": "refuse"}))
    assert not any("differs" in one for one in said)
    assert any(one.startswith("Fairness by region: with these customers only gaps of ") for one in said)
    assert any("cannot judge (empty) (1 customer): 30 are needed." in one for one in said)
    with pytest.raises(InputError, match=r"fairness\.column: found no column city"):
        refuse_fairness(Tables(), shop.plan(fairness={**rule, "column": "city"}))


def test_a_plan_without_these_keys_keeps_its_bytes(shop):
    plain = shop.plan()
    text = plain.model_dump_json(by_alias=True)
    assert "fairness" not in text
    assert "disclosure" not in text
    assert plan_id(plain, {}) != plan_id(shop.plan(disclosure={"text": "x"}), {})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"fairness": {"column": "region", "at_most": "0%", "then": "warn"}}, "a share above 0%, such as 5%"),
        ({"fairness": {"column": "region", "at_most": "5%", "then": "stop"}}, "expected warn or refuse"),
        ({"fairness": {"column": "region", "then": "warn"}}, "fairness.at_most: found nothing"),
        ({"disclosure": {"where": "true"}}, "disclosure.text: found nothing"),
        ({"disclosure": {"text": "  "}}, "the sentence that customers are shown"),
        ({"disclosure": {"text": None}}, "the sentence that customers are shown"),
        ({"disclosure": {"text": "two\nlines"}}, "one line of text"),
    ],
)
def test_keys_that_cannot_be_are_named(shop, more, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(**more)
    assert words in str(refused.value)


SENTENCE = "This offer was chosen by an algorithm that uses your purchases."


def test_the_sentence_is_in_the_export_of_those_whom_it_concerns(shop, tmp_path):
    from disco.operations.launch import launch

    disclosure = {"text": SENTENCE, "where": "region = 'North'"}
    made = planned(shop, disclosure=disclosure)
    refuse_disclosure(Tables(), made.plan)
    sent = shop.sent(launch(shop.store, made, clock=shop.clock, secret=shop.secret))
    concerned = {row["customer_id"] for row in sent if row["customer_id"] % 3 == 0 or row["customer_id"] == 5}
    assert disclosure_words(Tables(), made) == (
        f"{len(concerned)} customers of {len(sent)} with a code are shown: “{SENTENCE}”",
    )
    found = export(shop.store, "spring", file=tmp_path / "codes.parquet", data=Tables())
    rows = pq.read_table(tmp_path / "codes.parquet").to_pylist()
    assert {row["customer_id"] for row in rows if row["disclosure"] == SENTENCE} == concerned
    assert {row["disclosure"] for row in rows} == {SENTENCE, None}
    manifest = json.loads((tmp_path / "codes.parquet.manifest.json").read_text())
    assert found.disclosed == len(concerned) == manifest["disclosed"]
    table = rows_of_table(shop.store, Tables(), "spring", ExportKind.CODES, as_of=shop.after).rows
    assert table["disclosure"].null_count == len(sent) - len(concerned)
    with pytest.raises(InputError, match="no tables of the shop"):
        export(shop.store, "spring")


@pytest.mark.parametrize(("template", "column"), [("klaviyo", "Disclosure"), ("braze", "discount_disclosure")])
def test_a_template_has_its_own_name_for_it(shop, template, column):
    class Emails(Tables):
        @contextmanager
        def customers(self, table):
            with super().customers(table) as (name, rows):
                yield name, rows.append_column("email", pa.array([f"{one}@shop.example" for one in range(len(rows))]))

    section = {"disclosure": {"text": SENTENCE}, "export": {"columns": ["email"], "template": template}}
    shop.launch(shop.plan(policy={"name": "random"}, **section), shop.people(100))
    rows = export(shop.store, "spring", data=Emails()).rows
    assert set(rows[column].to_pylist()) == {SENTENCE}


def test_a_condition_that_cannot_be_read_is_named_as_its_key(shop):
    class Refusing(Tables):
        @staticmethod
        def meeting(customers, question):
            if question.condition == "true":
                return Tables.meeting(customers, question)
            raise RefusedConditionError("no column state")

    with pytest.raises(InputError, match=r"disclosure\.where: found state = 'NY': no column state"):
        refuse_disclosure(Refusing(), shop.plan(disclosure={"text": SENTENCE, "where": "state = 'NY'"}))
