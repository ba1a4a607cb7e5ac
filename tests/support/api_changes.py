"""What a newer OpenAPI document takes from those who were written for an older one."""

from collections.abc import Iterator
from typing import Any


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
