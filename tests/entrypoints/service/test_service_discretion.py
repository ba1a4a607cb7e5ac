"""Only a planner sees customers: every place that shows texts of people or cells of tables, for every role."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
import yaml
from fastapi.testclient import TestClient

from disco.entrypoints.client import Client
from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app
from disco.entrypoints.worker import run_worker
from disco.office.drafts.use_cases import put_draft
from disco.office.jobs import use_cases as jobs
from disco.office.keys.use_cases import create_key
from disco.office.schedules.use_cases import add_schedule
from disco.records.errors import DiscoError, InputError
from disco.records.jobs import JobKind
from disco.records.people import Role

API = "/api/v1"
CUSTOMER = "c0000007"
SECRET = "TOPSECRET-of-the-provider"
LEAK = "error((SELECT string_agg(customer_id, ',') FROM customers))"


class Place(NamedTuple):
    """Where a text about a customer is shown, and whether viewers may ask at all."""

    address: str
    for_viewers: bool = True


class Told(NamedTuple):
    client: TestClient
    keys: dict[Role, str]
    shop: Path
    plan: dict[str, Any]
    jobs: dict[str, str]

    def get(self, address: str, role: Role) -> Any:
        return self.client.get(address.format(**self.jobs), headers={"authorization": f"Bearer {self.keys[role]}"})


@pytest.fixture(scope="module")
def told(learned_shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """A shop in which a customer is named by everything that keeps a text."""
    folder = Path(shutil.copytree(learned_shop, tmp_path_factory.mktemp("told") / "shop"))
    (folder / "oidc-client-secret").write_text(SECRET + "\n")
    (folder / "disco.yaml").write_text(
        "oidc: {issuer: 'https://id.example.com', client_id: disco, client_secret_file: oidc-client-secret, "
        "default_role: viewer}\n"
    )
    plan = json.loads(json.dumps(yaml.safe_load((folder / "second.yaml").read_text()), default=str))
    plan["customers"]["eligible"] = f"customer_id <> '{CUSTOMER}'"
    plan["disclosure"] = {"text": "Chosen for you.", "where": f"customer_id = '{CUSTOMER}'"}
    shop = Shop.open(folder)
    with shop.store() as store:
        keys = {
            role: create_key(store, name=f"of a {role}", role=role, expires=None, clock=shop.clock).key for role in Role
        }
        failed = jobs.submit(store, "validate", {"plan": plan}, clock=shop.clock)
        jobs.fail(
            store, jobs.claim(store, worker="w", clock=shop.clock), InputError(f"row {CUSTOMER}"), clock=shop.clock
        )
        done = jobs.submit(store, "validate", {}, clock=shop.clock)
        problem = {"file": "customers.csv", "column": "country", "row": 3, "rows": 1, "found": CUSTOMER}
        found = {"problems": [{**problem, "expected": CUSTOMER, "fix": CUSTOMER}], "notes": [CUSTOMER], "rows": 7}
        jobs.finish(store, jobs.claim(store, worker="w", clock=shop.clock), json.dumps(found), clock=shop.clock)
        put_draft(store, f"without-{CUSTOMER}", plan, clock=shop.clock)
        body = {"plan": {**plan, "campaign": "at-{date}"}}
        add_schedule(store, kind=JobKind.PLAN, body=body, rule="daily at 06:00", clock=shop.clock)
        names = {"failed": failed.id, "done": done.id}
    row = {"event_id": ["e1"], "campaign_id": ["first"], "customer_id": ["x"], "code": ["NONE"]}
    shop.ingest("first", pa.table({**row, "ordered_at": ["2025-09-10"], "full_price": ["3"]}), source=f"{CUSTOMER}.csv")
    names["plan"] = shop.plan(plan).plan_id
    everybody = {**plan, "customers": {**plan["customers"], "eligible": "true"}}
    names["other"] = shop.plan({**everybody, "disclosure": {"text": "Chosen for you."}}).plan_id
    with TestClient(create_app(Shop.open(folder)), base_url="http://localhost") as client:
        yield Told(client, keys, folder, plan, names)


PLACES = [
    Place(f"{API}/jobs"),
    Place(f"{API}/jobs/{{failed}}"),
    Place(f"{API}/jobs/{{done}}"),
    Place(f"{API}/jobs/{{failed}}/events"),
    Place(f"{API}/schedules"),
    Place(f"{API}/drafts", for_viewers=False),
    Place(f"{API}/drafts/without-{CUSTOMER}", for_viewers=False),
    Place(f"{API}/campaigns"),
    Place(f"{API}/campaigns/first"),
    Place(f"{API}/plans/{{plan}}/diff/{{other}}"),
    Place(f"{API}/plans/{{plan}}/copy", for_viewers=False),
    Place("/jobs"),
    Place("/jobs/{failed}"),
    Place("/jobs/{done}"),
    Place("/jobs/{done}?table=problems"),
    Place("/data/customers"),
    Place("/campaigns"),
    Place("/campaigns/first"),
    Place("/campaigns/first?table=batches"),
    Place("/plan"),
    Place(f"/plan/without-{CUSTOMER}", for_viewers=False),
    Place(f"/plan/without-{CUSTOMER}/launch", for_viewers=False),
    Place("/plans/{plan}/launch"),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.address)
def test_every_place_names_the_customer_to_planners_and_to_no_viewer(told: Told, place: Place) -> None:
    answers = {role: told.get(place.address, role) for role in Role}
    for role in (Role.PLANNER, Role.APPROVER, Role.ADMIN):
        assert answers[role].status_code in (200, 303), answers[role].text
        assert CUSTOMER in answers[role].text + answers[role].headers.get("location", ""), role
    seen = answers[Role.VIEWER]
    assert seen.status_code == (200 if place.for_viewers else 403)
    assert CUSTOMER not in seen.text.replace(place.address, ""), seen.text


@pytest.mark.parametrize("address", [f"{API}/favoured/first?by=country", "/campaigns/first/favoured?by=country"])
def test_a_column_of_the_customers_is_for_planners(told: Told, address: str) -> None:
    assert {role: told.get(address, role).status_code for role in (Role.VIEWER, Role.PLANNER)} == {
        Role.VIEWER: 403,
        Role.PLANNER: 200,
    }


def test_the_clients_of_a_viewer_and_of_a_planner_read_what_they_may(told: Told) -> None:
    for role, names in ((Role.VIEWER, False), (Role.PLANNER, True)):
        with Client("http://localhost", key=told.keys[role], transport=told.client._transport) as client:
            job = client.job(told.jobs["failed"])
            texts = json.dumps([job.as_dict(), client.job(told.jobs["done"]).as_dict()])
            assert (CUSTOMER in texts, job.state, job.kind) == (names, "failed", "validate")


def test_a_viewer_still_sees_that_there_are_problems_and_where(told: Told) -> None:
    found = told.get(f"{API}/jobs/{{done}}", Role.VIEWER).json()["result"]
    assert (found["rows"], found["problems"][0]["file"], found["problems"][0]["row"]) == (7, "customers.csv", 3)
    page = told.get("/jobs/{failed}", Role.VIEWER).text
    assert "is shown from the role planner upwards" in page


def test_columns_of_customers_are_for_planners(told: Told) -> None:
    by_country = f"{API}/plans/{{plan}}?by=country"
    assert told.get(by_country, Role.VIEWER).status_code == 403
    assert told.get(by_country, Role.PLANNER).status_code == 200


def _validated(told: Told, plan: dict[str, Any]) -> str:
    shop = Shop.open(told.shop)
    with shop.store() as store:
        job = jobs.submit(store, "validate", {"plan": plan}, clock=shop.clock)
    run_worker(shop, until_idle=True)
    return told.get(f"{API}/jobs/{job.id}", Role.PLANNER).text


def _planned(told: Told, plan: dict[str, Any]) -> str:
    return _refusal(lambda: Shop.open(told.shop).plan(plan))


def _refusal(do: Callable[[], object]) -> str:
    try:
        return repr(do())
    except DiscoError as error:
        return str(error)


@pytest.mark.parametrize("door", [_validated, _planned])
@pytest.mark.parametrize(
    "keys",
    [
        {"exclude": "oidc-client-secret"},
        {"include": "oidc-client-secret"},
        {"include": "disco.yaml"},
        {"exclude": "disco.db"},
        {"codes": {"pool": "oidc-client-secret"}},
        {"customers": {"table": "oidc-client-secret", "as_of": "2025-10-01"}},
    ],
    ids=str,
)
def test_no_plan_reads_a_secret_of_the_shop(told: Told, door: Callable[..., str], keys: dict[str, Any]) -> None:
    plan = {**told.plan, "customers": {**told.plan["customers"], "eligible": "true"}, **keys}
    words = door(told, plan)
    assert "found no file" in words
    assert SECRET not in words
    assert "id.example.com" not in words


def test_an_error_that_quotes_customers_is_read_by_planners_alone(told: Told) -> None:
    shop = Shop.open(told.shop)
    plan = {**told.plan, "customers": {**told.plan["customers"], "eligible": LEAK}}
    with shop.store() as store:
        job = jobs.submit(store, "validate", {"plan": plan}, clock=shop.clock)
    run_worker(shop, until_idle=True)
    for address in (f"{API}/jobs/{job.id}", f"{API}/jobs/{job.id}/events", f"/jobs/{job.id}", "/jobs"):
        assert CUSTOMER in told.get(address, Role.PLANNER).text, address
        assert "c00000" not in told.get(address, Role.VIEWER).text, address
