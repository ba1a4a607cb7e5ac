"""An export has the columns its reader names, the customers' own columns, and a manifest that fits the file."""

import csv
import json
from contextlib import contextmanager
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.operations.export import export
from disco.operations.outcomes import ingest
from disco.operations.plan import plan_id
from disco.records.errors import InputError, PlanError
from disco.records.locale import Locale
from disco.records.plan import read_plan
from disco.store import Store

COLUMNS = ["code_id", "customer_id", "campaign_id", "depth", "sent_at", "expires_at", "channel"]


class Tables:
    """The customers table of a shop; customer 7 has no address, customer 8 is gone."""

    @contextmanager
    def customers(self, table):
        ids = [one for one in range(200) if one != 8]
        emails = [None if one == 7 else f"{one}@shop.example" for one in ids]
        yield table, pa.table({"customer_id": ids[::-1], "email": emails[::-1], "country": ["GB"] * len(ids)})


@pytest.fixture
def berlin(tmp_path, make_shop):
    """A shop whose days begin in Berlin."""
    locale = Locale(time_zone="Europe/Berlin")
    store = Store(f"sqlite:///{tmp_path}/berlin.db", tmp_path / "artefacts", locale=locale)
    yield make_shop(store)
    store.close()


def launched(shop, **section):
    return shop.launch(shop.plan(policy={"name": "random"}, control={}, holdout={}, **section))


def test_without_the_key_the_seven_columns_stay(shop, tmp_path):
    launched(shop)
    found = export(shop.store, "spring", file=tmp_path / "codes.parquet")
    assert list(found.columns) == COLUMNS == pq.read_table(tmp_path / "codes.parquet").column_names
    assert (found.template, found.without_email) == (None, None)


def test_absent_the_key_leaves_plan_ids_alone(shop):
    plain, other = shop.plan(), shop.plan(export={"columns": ["email"]})
    assert "export" not in json.loads(plain.model_dump_json(by_alias=True))
    assert plan_id(plain, {}) != plan_id(other, {})
    assert read_plan(json.loads(other.model_dump_json(by_alias=True))) == other


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("template", "columns"),
    [
        (None, [*COLUMNS, "offer", "valid_from", "valid_until", "email", "country"]),
        (
            "klaviyo",
            ["Email Address", "Coupon Code", "Discount", "Valid From", "Valid Until", "Campaign", "country"],
        ),
        (
            "braze",
            [
                *("external_id", "discount_code", "discount_text", "discount_valid_from", "discount_valid_until"),
                *("discount_campaign", "email", "country"),
            ],
        ),
        ("mailchimp", ["Email Address", "CODE", "OFFER", "VALIDFROM", "VALIDUNTIL", "CAMPAIGN", "country"]),
        (
            "shopify",
            [
                *("Title", "Command", "Method", "Code", "Type", "Value", "Value Type", "Limit Total Times"),
                *("Starts At", "Ends At"),
            ],
        ),
    ],
)
def test_a_template_has_the_columns_its_reader_names(berlin, tmp_path, template, columns, kind):
    shop = berlin
    section = {"columns": ["email", "country"], **({} if template is None else {"template": template})}
    sent = {row["code"]: row for row in shop.sent(launched(shop, export=section))}
    file = tmp_path / f"codes.{kind}"
    found = export(shop.store, "spring", file=file, data=Tables())
    if kind == "csv":
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
    else:
        rows = pq.read_table(file).to_pylist()
    assert list(rows[0]) == columns == list(found.columns)
    assert len(rows) == len(sent) == found.codes
    code = {None: "code_id", "klaviyo": "Coupon Code", "braze": "discount_code", "mailchimp": "CODE"}.get(
        template, "Code"
    )
    offer = {None: "offer", "klaviyo": "Discount", "braze": "discount_text", "mailchimp": "OFFER"}.get(template)
    for row in rows:
        decision = sent[row[code]]
        customer = decision["customer_id"]
        if offer is not None:
            assert row[offer] == ("10% off" if decision["depth"] == 0.1 else "30% off")
            address = row.get("Email Address", row.get("email"))
            assert (address or None) == (None if customer in (7, 8) else f"{customer}@shop.example")
        else:
            assert (row["Value"], row["Command"]) == ("10" if decision["depth"] == 0.1 else "30", "NEW")
    without = sum(row["customer_id"] in (7, 8) for row in sent.values())
    assert found.without_email == without
    first = next(row[name] for row in rows for name in columns if name.lower().endswith(("from", "starts at")))
    assert first == "2027-03-08 00:00:00+01:00"


def test_the_manifest_fits_the_file(shop, tmp_path):
    sent = shop.sent(launched(shop))
    file = tmp_path / "codes.csv"
    found = export(shop.store, "spring", file=file)
    manifest = json.loads((tmp_path / "codes.csv.manifest.json").read_text())
    assert (found.manifest, manifest["file"]) == (str(tmp_path / "codes.csv.manifest.json"), "codes.csv")
    assert manifest["sha256"] == sha256(file.read_bytes()).hexdigest()
    assert manifest["bytes"] == file.stat().st_size
    assert manifest["codes"] == len(sent) == sum(manifest["codes_by_depth"].values())


def test_a_day_begins_where_the_shop_is(shop, berlin):
    for where, offset in ((shop, "+00:00"), (berlin, "+02:00")):
        valid = {"from": "2027-07-01", "days": 14}
        launched(where, valid=valid, export={"columns": ["email"]})
        times = export(where.store, "spring", data=Tables()).rows.select(["valid_from", "valid_until"]).to_pylist()[0]
        assert times == {
            "valid_from": f"2027-07-01 00:00:00{offset}",
            "valid_until": f"2027-07-15 00:00:00{offset}",
        }


def test_a_missing_column_or_address_is_named(shop):
    launched(shop, export={"columns": ["mobile"]})
    with pytest.raises(InputError, match="no column mobile"):
        export(shop.store, "spring", data=Tables())


def test_an_email_tool_needs_addresses(shop):
    launched(shop, export={"columns": ["country"], "template": "klaviyo"})
    with pytest.raises(InputError, match="needs a column of e-mail addresses"):
        export(shop.store, "spring", data=Tables())


@pytest.mark.parametrize("section", [{"template": "sendgrid"}, {"colums": ["email"]}, {"columns": "email"}])
def test_a_wrong_section_is_refused_by_name(shop, section):
    with pytest.raises(PlanError, match=r"export"):
        shop.plan(export=section)


CONDITIONS = {"minimum_basket": 30, "text": "Not on gift cards"}


@pytest.mark.parametrize(
    ("template", "names"),
    [
        (None, ["minimum_basket", "conditions"]),
        ("klaviyo", ["Minimum Basket", "Conditions"]),
        ("braze", ["discount_minimum_basket", "discount_conditions"]),
        ("mailchimp", ["MINBASKET", "CONDITIONS"]),
        ("shopify", ["Minimum Basket", "Conditions"]),
    ],
)
def test_conditions_travel_with_the_codes_and_their_manifest(shop, tmp_path, template, names):
    launched(shop, conditions=CONDITIONS, export={"columns": ["email"], "template": template})
    export(shop.store, "spring", file=tmp_path / "codes.parquet", data=Tables())
    rows = pq.read_table(tmp_path / "codes.parquet")
    assert rows.num_rows
    assert [set(rows[name].to_pylist()) for name in names] == [{30.0}, {"Not on gift cards"}]
    manifest = json.loads((tmp_path / "codes.parquet.manifest.json").read_text())
    assert (manifest["minimum_basket"], manifest["conditions"]) == (30.0, "Not on gift cards")


def test_conditions_change_no_decision_and_refuse_no_purchase(shop):
    plain = shop.planned()
    asked = shop.planned(shop.plan(conditions=CONDITIONS))
    assert asked.decisions.equals(plain.decisions)
    sent = shop.sent(launched(shop, conditions={"minimum_basket": 1000}))
    found = ingest(shop.store, "spring", shop.outcomes(sent[:5]), source="x", clock=shop.clock)
    assert (found.received, found.applied) == (5, 5), "baskets of 50.25 count"
    assert export(shop.store, "spring").columns[7:] == ("minimum_basket",)


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({}, "`minimum_basket: 30`, `text: …`, or both"),
        ({"minimum_basket": 0}, "conditions.minimum_basket: found 0; expected greater than 0"),
        ({"minimum_basket": "30"}, "conditions.minimum_basket"),
        ({"text": "two\nlines"}, "one line of text"),
        ({"minimum_baskets": 30}, "Did you mean minimum_basket?"),
    ],
)
def test_conditions_that_cannot_be_read_are_named(shop, conditions, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(conditions=conditions)
    assert words in str(refused.value)
