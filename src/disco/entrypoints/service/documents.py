"""The OpenAPI document, what breaks its readers, and the page that shows it without any other server."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Response
from fastapi.openapi.utils import get_openapi

from disco.records.errors import NotFoundError
from disco.web import security
from disco.web.route import ROLE, SECRET, UPLOAD
from disco.web.security import POLICY, PUBLIC

_FOLDER, _WEB = Path(__file__).parent, Path(security.__file__).parent  # the latter has what pages share
_FILES = {
    "docs.js": (_WEB / "static" / "docs.js", "text/javascript; charset=utf-8"),
    "swagger-ui-bundle.js": (_WEB / "vendor" / "swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    "swagger-ui.css": (_WEB / "vendor" / "swagger-ui.css", "text/css; charset=utf-8"),
}
_ABOUT = (
    "The use cases of the `disco` command line over HTTP. A caller sends a key (`Authorization: Bearer KEY`) or, in a "
    "browser, the cookie of a session. Errors are problems of RFC 9457, whose `detail` is the sentence that the "
    "command line prints. Writes take `Idempotency-Key`. Long work answers 202 with the id of a job."
)
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "An error (RFC 9457).",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "description": "What kind of error it is; never changes."},
        "title": {"type": "string", "description": "The same in words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "What is wrong and what to do."},
        "instance": {"type": "string", "description": "The id of the request, which also stands in the log."},
        "errors": {
            "type": "array",
            "description": "Each field that is wrong, where they are known.",
            "items": {
                "type": "object",
                "required": ["field", "found", "expected", "fix"],
                "properties": {
                    name: {"type": "string"} for name in ("field", "found", "expected", "fix", "kind", "file", "column")
                }
                | {"row": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "rows": {"type": "integer"}},
            },
        },
        "conflicts": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Limits that contradict each other.",
        },
    },
}
_IDEMPOTENCY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": "The same key with the same body gets the same reply for 24 hours; with another body, 409.",
}


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of the service."""
    from disco.entrypoints.service.app import routed
    from disco.entrypoints.service.routes.campaigns import OutcomeRow
    from disco.entrypoints.service.routes.model import AbRequest
    from disco.entrypoints.service.routes.tables import TablePlace

    app = routed()
    made = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes)
    parts = made.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = _PROBLEM
    for body in (AbRequest, OutcomeRow, TablePlace):  # of routes that read their bodies themselves
        schemas[body.__name__] = body.model_json_schema(ref_template="#/components/schemas/{model}")
    parts["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "disco_session"},
    }
    refused = {
        "description": "A problem.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for methods in made["paths"].values():
        for method, operation in methods.items():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = refused
            needed = operation.pop(ROLE)
            operation["security"] = [] if needed == PUBLIC else [{"key": []}, {"session": []}]
            if needed != PUBLIC:
                operation["description"] = f"{operation.get('description', '')}\n\nRole: {needed}.".strip()
                if method != "get":
                    operation.setdefault("parameters", []).append(_IDEMPOTENCY)
            operation.pop(UPLOAD, None)
            operation.pop(SECRET, None)
    return made


def document_text() -> str:
    """The document as docs/openapi.json holds it."""
    return json.dumps(document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def breaking_changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What a program written for the earlier document would stumble over, in sentences.

    A route, a parameter or a field of a reply that is gone, and what a request needs now that it did not need before.
    """
    found: list[str] = []
    for path, methods in before["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            now = after["paths"].get(path, {}).get(method)
            if now is None:
                found.append(f"{name} is gone.")
                continue
            found += _parameters(name, operation, now)
            bodies = [_schema(one.get("requestBody", {})) for one in (operation, now)]
            needed = now.get("requestBody", {}).get("required", False)
            if needed and not operation.get("requestBody", {}).get("required", False):
                found.append(f"{name} needs a body.")
            found += _compared(f"{name}, body", bodies, (before, after), is_request=True, seen=set())
            for status, response in operation["responses"].items():
                if status not in now["responses"]:
                    found.append(f"{name} no longer answers {status}.")
                    continue
                replies = [_schema(response), _schema(now["responses"][status])]
                found += _compared(f"{name}, reply {status}", replies, (before, after), is_request=False, seen=set())
    return found


def _parameters(name: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    old = {(one["in"], one["name"]): one for one in before.get("parameters", ())}
    new = {(one["in"], one["name"]): one for one in after.get("parameters", ())}
    for key in old.keys() - new.keys():
        yield f"{name} no longer takes {key[1]}."
    for key, one in new.items():
        if one.get("required") and not old.get(key, {}).get("required"):
            yield f"{name} needs {key[1]}."


def _schema(part: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = part.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def _compared(
    where: str,
    schemas: list[dict[str, Any]],
    documents: tuple[dict[str, Any], dict[str, Any]],
    *,
    is_request: bool,
    seen: set[tuple[str, str]],
) -> Iterator[str]:
    names = [str(one.get("$ref", "")) for one in schemas]
    if names[0] and (names[0], names[1]) in seen:
        return
    seen.add((names[0], names[1]))
    old, new = (_resolved(one, document) for one, document in zip(schemas, documents, strict=True))
    if old.get("type") and new.get("type") and old["type"] != new["type"]:
        yield f"{where} was {old['type']} and is {new['type']}."
        return
    fields, now = old.get("properties", {}), new.get("properties", {})
    for field in fields.keys() - now.keys():
        yield f"{where} no longer has {field}."
    if is_request:
        yield from (f"{where} needs {field}." for field in set(new.get("required", ())) - set(old.get("required", ())))
    for field in fields.keys() & now.keys():
        both = [fields[field], now[field]]
        yield from _compared(f"{where}, {field}", both, documents, is_request=is_request, seen=seen)
    if "items" in old and "items" in new:
        both = [old["items"], new["items"]]
        yield from _compared(f"{where}, items", both, documents, is_request=is_request, seen=seen)


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return found
    return schema


def page() -> Response:
    """The page about all routes. Swagger UI sets styles of elements by script, which the policy of all pages allows."""
    content = (_FOLDER / "pages" / "templates" / "docs.html").read_bytes()
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache"}
    return Response(content, 200, headers, media_type="text/html; charset=utf-8")


def file_of_page(name: str) -> Response:
    """A file of that page."""
    if name not in _FILES:
        raise NotFoundError(f"The page has no file {name}", fix=f"It has {', '.join(_FILES)}.")
    path, kind = _FILES[name]
    return Response(path.read_bytes(), 200, {"cache-control": "no-cache"}, media_type=kind)
