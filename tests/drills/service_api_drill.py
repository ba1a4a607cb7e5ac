"""Hostile input to every route: `./run drill service api`. The tests run a part of it.

Two attacks on a service in this process, over a shop that has learned one campaign: requests that schemathesis makes
from the OpenAPI document, and payloads (SQL, HTML, formulas, paths, giant numbers, wrong types, deep nesting) in every
field of every body, path and query. A reply of 500 or more, one that is no problem, or a file outside the shop ends it.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

API = "/api/v1"
CANARY = "disco-was-here"
PAYLOADS: tuple[Any, ...] = (
    "'; DROP TABLE campaigns; --",
    "1 OR 1=1",
    "x' UNION SELECT value FROM secrets --",
    f"$(touch /tmp/{CANARY})",
    f"`touch /tmp/{CANARY}`",
    f"|touch /tmp/{CANARY}",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "{{7*7}}",
    "${jndi:ldap://localhost/a}",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "file:///etc/passwd",
    "C:\\Windows\\win.ini",
    "http://169.254.169.254/latest/meta-data",
    "read_csv('/etc/passwd')",
    f"COPY (SELECT 1) TO '/tmp/{CANARY}'",
    "\u202egnp.exe",
    "a\r\nSet-Cookie: x=1",
    "%00",
    "%s%s%s%n",
    "\x7f\x1b[2J",
    "ﷺ" * 50,
    "😀" * 100,
    "a" * 100_000,
    "",
    " ",
    "null",
    "NaN",
    "Infinity",
    "-1",
    "1e999",
    "9" * 400,
    "2025-02-30",
    "0000-00-00",
    "9999-12-31",
    0,
    -1,
    1.5,
    1e308,
    -1e308,
    5e-324,
    10**30,
    2**63,
    -(2**63) - 1,
    True,
    None,
    [],
    {},
    [None],
    [[[[]]]],
    {"$gt": ""},
    {"__proto__": {"admin": True}},
    {"a": {"b": {"c": {"d": {}}}}},
    list(range(2000)),
    {str(number): number for number in range(500)},
)
RAW = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"NaN",
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b'{"a": 1, "a": 2}',
    b"[" * 100_000,
    b'{"a":' * 5_000,
    b"\xff\xfe\x00",
    b'"\\ud800"',
    b'{"a": "\\u0000"}',
    b"9" * 10_000,
    b"PAR1" + b"\x00" * 100 + b"PAR1",
)
"""Whole bodies that are no requests."""


@dataclass(frozen=True)
class Attack:
    """One request."""

    method: str
    path: str
    field: str
    body: Any = None
    raw: bytes | None = None
    kind: str = "application/json"


def attacks(document: dict[str, Any], *, per_field: int | None = None) -> Iterator[Attack]:
    """Payloads in every field of every route; per_field: so many of them, others in each field; None: all."""
    turn = 0
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            parameters = [one for one in operation.get("parameters", ()) if one["in"] in ("path", "query")]
            plain = {
                one["name"]: "first" if one["name"] == "name" else "none" for one in parameters if one["in"] == "path"
            }
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            fields = _fields(schema, document)
            example = {name: _example(part) for name, part in fields.items()}
            for one in parameters:
                for payload in _chosen(turn, per_field):
                    turn += 1
                    text = payload if isinstance(payload, str) else json.dumps(payload)
                    filled = plain | ({one["name"]: text[:3000]} if one["in"] == "path" else {})
                    query = f"?{quote(one['name'])}={quote(text[:3000])}" if one["in"] == "query" else ""
                    yield Attack(method.upper(), _filled(path, filled) + query, one["name"], example or None)
            for name in fields:
                for payload in _chosen(turn, per_field):
                    turn += 1
                    yield Attack(method.upper(), _filled(path, plain), name, {**example, name: payload})
            if schema is not None:
                for raw in RAW:
                    yield Attack(method.upper(), _filled(path, plain), "body", raw=raw)
                for payload in _chosen(turn, per_field):
                    turn += 1
                    yield Attack(method.upper(), _filled(path, plain), "body", payload)


def _chosen(turn: int, per_field: int | None) -> Iterator[Any]:
    count = len(PAYLOADS) if per_field is None else per_field
    for number in range(count):
        yield PAYLOADS[(turn * 7 + number * 11) % len(PAYLOADS)] if per_field is not None else PAYLOADS[number]


def _filled(path: str, names: dict[str, str]) -> str:
    for name, text in names.items():
        path = path.replace(f"{{{name}}}", quote(text, safe="") or "%20")
    return path


def _fields(schema: dict[str, Any] | None, document: dict[str, Any]) -> dict[str, Any]:
    while schema is not None and "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    found: dict[str, Any] = (schema or {}).get("properties", {})
    return found


def _example(schema: dict[str, Any]) -> Any:
    kind = schema.get("type") or next((one.get("type") for one in schema.get("anyOf", ()) if "type" in one), "string")
    return {"string": "x", "integer": 1, "number": 1.0, "boolean": False, "array": [], "object": {}}.get(kind)


def refused(answer: Any) -> str | None:
    """What is wrong with a reply; None: nothing."""
    if answer.status_code >= 500:
        return f"{answer.status_code}: {answer.text[:300]}"
    if answer.status_code >= 400 and answer.headers.get("content-type") != "application/problem+json":
        return f"{answer.status_code} and no problem: {answer.text[:300]}"
    if "alert(1)" in answer.text and "json" not in answer.headers.get("content-type", ""):
        return "a reply that a browser would run"
    return None


def attack(client: Any, one: Attack) -> str | None:
    """Send it; what is wrong with the reply."""
    headers = {"content-type": one.kind}
    content = one.raw if one.raw is not None else None if one.body is None else json.dumps(one.body).encode()
    answer = client.request(one.method, one.path, content=content, headers=headers if content is not None else {})
    wrong = refused(answer)
    return None if wrong is None else f"{one.method} {one.path[:200]} ({one.field}): {wrong}"


def generated(client: Any, document: dict[str, Any], *, examples: int, seed: int = 7) -> Iterator[str]:
    """What is wrong with replies to requests that schemathesis makes of the document."""
    import schemathesis

    schema = schemathesis.openapi.from_dict(document)
    for found in schema.get_all_operations():
        yield from _generated(client, found.ok(), examples=examples, seed=seed)


def _generated(client: Any, operation: Any, *, examples: int, seed: int) -> list[str]:
    import hypothesis

    wrong: list[str] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(case=operation.as_strategy())
    def send(case: Any) -> None:
        made = case.as_transport_kwargs(base_url="http://localhost")
        ours = ("authorization", "cookie", "user-agent", "idempotency-key")
        given = dict(made.get("headers") or {})
        made["headers"] = {name: value for name, value in given.items() if name.lower() not in ours}
        made.pop("cookies", None)
        content = made.pop("data", None)
        if content is not None:
            made["content"] = content if isinstance(content, bytes | str) else json.dumps(content)
        answer = client.request(**made)
        if (said := refused(answer)) is not None:
            wrong.append(f"{made['method']} {str(made['url'])[:200]}: {said}")

    send()
    return wrong


def main(examples: int = 100) -> int:
    """Both attacks; examples: generated requests per route."""
    from fastapi.testclient import TestClient
    from service_shop import learned

    from disco.entrypoints.python import Shop
    from disco.entrypoints.service.app import create_app
    from disco.entrypoints.service.documents import document
    from disco.office.keys.use_cases import create_key
    from disco.web import logs

    with tempfile.TemporaryDirectory() as folder, Path("/dev/null").open("w") as nowhere:
        logs.stream = nowhere  # a line per request would hide what was found
        shop = learned(Path(folder) / "shop")
        here = Shop.open(shop)
        with here.store() as store:
            key = create_key(store, name="drill", role="admin", expires=None, clock=here.clock).key
        with TestClient(create_app(here), base_url="http://localhost", raise_server_exceptions=False) as client:
            client.headers["authorization"] = f"Bearer {key}"
            sent, wrong = 0, []
            for one in attacks(document()):
                sent += 1
                if (said := attack(client, one)) is not None:
                    wrong.append(said)
            print(f"{sent:,} payloads: {len(wrong)} wrong replies")
            made = list(generated(client, document(), examples=examples))
            print(f"{examples} generated requests per route: {len(made)} wrong replies")
    for said in [*wrong, *made][:50]:
        print(said)
    return 1 if wrong or made or Path(f"/tmp/{CANARY}").exists() else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
