"""The OpenAPI document, and the page that shows it without any other server."""

import json
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
