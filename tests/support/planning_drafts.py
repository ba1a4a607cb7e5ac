"""A draft that pages about plans are tested with."""

from fastapi.testclient import TestClient

PLAN = {
    "campaign": "autumn",
    "customers": {"table": "customers", "eligible": "country = 'GB'", "as_of": "2025-10-01"},
    "depths": {"0.1": {"at_most": "25%"}, "0.2": {"at_most": 60}, "0.3": {"at_most": 40, "at_least": 5}},
    "objective": {"revenue_weight": 3},
    "control": {"share": "20%"},
    "valid": {"from": "2025-10-06", "days": 14},
    "seed": 7,
}


def drafted(client: TestClient, name: str = "autumn", plan: object = PLAN) -> int:
    """A new draft, instead of one of this name that a test before has left."""
    there = client.get(f"/api/v1/drafts/{name}")
    if there.status_code == 200:
        client.delete(f"/api/v1/drafts/{name}", headers={"if-match": there.headers["etag"]})
    reply = client.put(f"/api/v1/drafts/{name}", json=plan)
    assert reply.status_code == 200, reply.text
    return int(reply.json()["revision"])
