"""Who got which code, and why somebody got theirs."""

import io

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from disco.records.people import Role

HTMX = {"hx-request": "true"}


def answer_of(page: str) -> str:
    return page.split('id="answer">')[1].split("</p>")[0].replace("\u00a0", " ")


def test_the_answer_counts_codes_by_depth(second_reader: TestClient) -> None:
    page = second_reader.get("/campaigns/second/decisions").text
    plan = second_reader.get("/api/v1/campaigns/second").json()
    assert answer_of(page).startswith(f"{plan['codes']:,} of {plan['customers']:,} customers got a code: ")
    assert "at 10% off, " in answer_of(page)
    assert '<script type="application/json">' in page
    assert "var(--depth-" in page
    assert '"name":"No code"' not in page  # codes alone are drawn; the table counts those without
    assert "style=" not in page


def test_its_tables_add_up_and_can_be_saved(second_reader: TestClient) -> None:
    plan = second_reader.get("/api/v1/campaigns/second").json()
    for name in ("parts", "groups"):
        saved = second_reader.get(f"/campaigns/second/decisions?table={name}&format=parquet")
        table = pq.read_table(io.BytesIO(saved.content))
        assert sum(table["Customers"].to_pylist()) == plan["customers"]
        assert plan["customers"] - sum(table["No code"].to_pylist()) == plan["codes"]
    groups = second_reader.get("/campaigns/second/decisions?table=groups&format=csv").text.splitlines()
    assert [row.split(",")[0] for row in groups] == ["Group", "Decided", "Control", "Holdout"]
    assert groups[3].endswith(",0.0")  # nobody in the holdout gets a code


def test_the_counts_alone_are_sent_where_a_choice_changes(second_reader: TestClient) -> None:
    part = second_reader.get("/campaigns/second/decisions?by=history", headers=HTMX).text
    assert "<html" not in part
    assert "Bought in the past year" in part
    wrong = second_reader.get("/campaigns/second/decisions?by=%3Cb%3E")
    assert wrong.status_code == 422
    assert "<b>" not in wrong.text


@pytest.fixture(scope="module")
def explained(second_reader: TestClient) -> dict[str, object]:
    codes = second_reader.get("/campaigns/second/codes?format=csv").text.splitlines()
    for line in codes[1:]:
        customer = line.split(",")[1].strip('"')
        found = second_reader.get(f"/api/v1/campaigns/second/customers/{customer}").json()
        if found["arm"] == "decided":
            return dict(found)
    raise AssertionError("nobody was decided about")


def test_a_customer_is_explained_in_words_with_the_runner_up(
    second_reader: TestClient, explained: dict[str, object]
) -> None:
    page = second_reader.get("/campaigns/second/customers", params={"id": str(explained["customer"])}).text
    assert answer_of(page).startswith(f"Customer {explained['customer']} got ")
    assert f"(code {explained['code']})" in answer_of(page)
    words = explained["words"]
    assert isinstance(words, list)
    said = page.split("<h2>Why</h2>")[1].split("</section>")[0].replace("\u00a0", " ")
    assert "They were in the decided group: the depth was chosen for them" in said
    assert "with somebody else" in said
    for word in ("shadow price", "policy", "w ×"):
        assert word not in page.split('<details class="science">')[0]
        assert word in page
    assert "Their context is" not in said  # that is for scientists, below
    assert "Their context is" in page
    assert "Each depth for this customer" in page


def test_what_each_depth_is_worth_is_in_revenue(second_reader: TestClient, explained: dict[str, object]) -> None:
    params = {"id": str(explained["customer"]), "table": "depths", "format": "parquet"}
    table = pq.read_table(io.BytesIO(second_reader.get("/campaigns/second/customers", params=params).content))
    figures = explained["figures"]
    assert isinstance(figures, list)
    assert table["Worth in revenue"].to_pylist() == [figure["value"] / 3 for figure in figures]  # w = 3
    assert table["Above its price"].to_pylist() == [figure["surplus"] / 3 for figure in figures]


def test_an_unknown_customer_is_answered_beside_the_field(second_reader: TestClient) -> None:
    typed = 'nobody"><script>alert(1)</script>'
    answer = second_reader.get("/campaigns/second/customers", params={"id": typed})
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text
    assert 'value="nobody&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert 'id="id-error"' in answer.text


def test_a_random_decision_has_words_and_no_figures(reader: TestClient) -> None:
    codes = reader.get("/campaigns/first/codes?format=csv").text.splitlines()
    customer = codes[1].split(",")[1].strip('"')
    page = reader.get("/campaigns/first/customers", params={"id": customer}).text
    assert "The campaign was random" in page
    assert "Each depth for this customer" not in page


def test_without_an_id_the_page_asks_for_one(reader: TestClient) -> None:
    page = reader.get("/campaigns/first/customers")
    assert page.status_code == 200
    assert "Type a customer&#39;s id" in page.text
    assert "aria-invalid" not in page.text


def test_customers_are_looked_up_by_planners_alone(reader: TestClient, keys: dict[Role, str]) -> None:
    viewer = {"authorization": f"Bearer {keys[Role.VIEWER]}"}
    page = reader.get("/campaigns/first/decisions", headers=viewer)
    assert page.status_code == 200
    assert "/campaigns/first/customers" not in page.text
    assert "/campaigns/first/codes" not in page.text
    assert reader.get("/campaigns/first/customers?id=1", headers=viewer).status_code == 403


def test_the_parts_with_most_and_fewest_codes_keep_their_names(second_reader: TestClient) -> None:
    page = second_reader.get("/campaigns/second/decisions").text
    table = second_reader.get("/campaigns/second/decisions?table=parts&format=csv").text.splitlines()
    shares = {row.split(",")[0]: float(row.split(",")[-1]) for row in table[1:]}
    most, least = max(shares, key=lambda part: shares[part]), min(shares, key=lambda part: shares[part])
    assert f"{most}: {shares[most]:.0%} got a code, the largest share; {least}: {shares[least]:.0%}" in page


def test_who_is_favoured_by_any_column_on_the_page_and_over_http(second_reader: TestClient) -> None:
    asked = second_reader.get("/campaigns/second/favoured").text
    assert 'href="/campaigns/second/favoured"' in second_reader.get("/campaigns/second/decisions").text
    assert answer_of(asked) == "Choose a column to compare its values."
    assert '<option value="country">' in asked
    assert "joined_on" not in asked
    found = second_reader.get("/api/v1/favoured/second?by=country").json()
    page = second_reader.get("/campaigns/second/favoured?by=country").text
    assert answer_of(page) == found["headline"]
    saved = second_reader.get("/campaigns/second/favoured?by=country&table=favoured&format=csv").text.splitlines()
    assert [row.split(",")[0] for row in saved[1:]] == [one["value"] for one in found["groups"]]
    wrong = second_reader.get("/campaigns/second/favoured?by=size")
    assert wrong.status_code == 200
    assert "no column size" in answer_of(wrong.text)
    assert second_reader.get("/api/v1/favoured/second?by=size").status_code == 422
