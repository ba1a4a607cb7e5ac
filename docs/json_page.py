"""docs/json.md from the types of the results: every field with its type, and the text that stands beside it."""

import inspect
import re
import sys

import typer

from disco.entrypoints.cli.app import make_app
from disco.entrypoints.use_cases import USE_CASES, loaded
from disco.records.result import adapter

OTHERS = {  # commands that are no use case of a shop
    "init": ["entrypoints.new_shop:NewShop"],
    "simulate": ["retailer.folder:SimulatedRetailer"],
    "respond": ["retailer.folder:SimulatedResponse"],
    "features": ["operations.training:FeaturesResult"],
    "train basket": ["operations.learn:Learned", "operations.training:BasketTrained"],
    "serve": ["entrypoints.service.serving:Serving"],
    "worker": ["office.jobs.use_cases:WorkDone"],
    "schedule list": ["office.schedules.use_cases:ScheduleList"],
    "schedule add": ["records.jobs:JobSchedule"],
    "schedule remove": ["office.schedules.use_cases:RemovedSchedule"],
    "allocate": ["operations.offline:AllocationSummary"],
    "power": ["operations.experiment:PowerResult"],
    "ab": ["operations.experiment:ExperimentResult"],
}

HEAD = """# JSON

Made from the types of the results by `./run docs`. `--json` prints one object on standard output: the object described
here, and nothing else. From Python, `result.as_dict()` gives the same object (`disco.Shop` returns the results).

- Money is in currency units. Shares and rates are numbers from 0 to 1.
- A depth is a number where it is a value (`0.1`) and a label where it is a key (`"0.1"`).
- A date is `YYYY-MM-DD`, an instant is ISO 8601 with its offset from UTC.
- What is unknown or does not apply is `null`. There is never a NaN or an infinity.
- New keys may be added. The keys below are not removed or given another meaning without a line in the CHANGELOG.

An error is printed on standard error, as `{"error": …, "message": …, "problems": […]}`, and the exit code says which
kind it is (docs/cli.md). `disco demo` prints the figures of its report, which describes them.
"""


def forms() -> dict[str, list[type]]:
    """Which results each command prints with `--json`, in the order of the commands."""
    named = {command: list(results) for command, results in OTHERS.items()}
    for case in USE_CASES:
        if case.command and case.result not in named.setdefault(case.command, []):
            named[case.command].append(case.result)
    return {name: [loaded(result) for result in named[name]] for name in _commands() if name in named}


def _commands(command=None, name="") -> list[str]:
    command = command or typer.main.get_command(make_app())
    children = getattr(command, "commands", {}).items()
    return [name, *(full for part, child in children for full in _commands(child, f"{name} {part}".strip()))]


def json_page() -> str:
    parts, shared, owners = [HEAD.rstrip()], {}, {}
    described: dict[type, str] = {}
    for command, kinds in forms().items():
        parts += ["", f"## `disco {command}`"]
        for kind in kinds:
            if kind in described:
                parts += ["", f"The object of [`disco {described[kind]}`](#disco-{described[kind].replace(' ', '-')})."]
                continue
            described[kind] = command
            schema = adapter(kind).json_schema(mode="serialization")
            for name, definition in schema.pop("$defs", {}).items():
                if shared.setdefault(name, definition) != definition:
                    raise SystemExit(f"two types are called {name}")
            owners.update(_classes(kind))
            parts += ["", _text(schema), "", *_fields(schema, kind)]
    parts += ["", "## Types used in several places"]
    for name in sorted(shared):
        definition = shared[name]
        if "properties" in definition:
            parts += ["", f"### {name}", "", _text(definition) or _first_paragraph(owners.get(name)), ""]
            parts += _fields(definition, owners.get(name))
    return "\n".join(parts) + "\n"


def _fields(schema, kind):
    yield "| Key | Type | Meaning |"
    yield "|---|---|---|"
    described = all("description" in field for field in schema["properties"].values())
    beside = {} if described else _comments(kind)  # to read the source of a class takes long
    for key, field in schema["properties"].items():
        meaning = field.get("description") or beside.get(key, "")
        yield f"| `{key}` | {_type(field)} | {' '.join(meaning.split())} |"


def _type(field) -> str:
    if isinstance(field, bool):  # a mapping of anything
        return "any"
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})" if not _is_enum(name) else "text"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(part) for part in field["anyOf"]))
    if "prefixItems" in field:
        return "[" + ", ".join(_type(part) for part in field["prefixItems"]) + "]"
    kind = field.get("type")
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if kind == "object" and "additionalProperties" in field:
        return f"object: {_type(field['additionalProperties'])} by key"
    if kind == "string":
        return {"date": "date", "date-time": "instant"}.get(field.get("format"), "text")
    return {"integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}.get(kind, "any")


_ENUMS: set[str] = set()


def _is_enum(name: str) -> bool:
    return name in _ENUMS


def _text(schema) -> str:
    return " ".join(schema.get("description", "").split("\n\n")[0].split())


def _first_paragraph(kind) -> str:
    doc = inspect.getdoc(kind) or "" if kind is not None else ""
    return " ".join(doc.split("\n\n")[0].split())


def _classes(kind, found=None):
    """Every dataclass that a type's fields lead to, by name."""
    from dataclasses import is_dataclass
    from enum import Enum
    from typing import get_args, get_type_hints

    found = {} if found is None else found
    if isinstance(kind, type) and issubclass(kind, Enum):
        _ENUMS.add(kind.__name__)
    if isinstance(kind, type) and is_dataclass(kind) and kind.__name__ not in found:
        found[kind.__name__] = kind
        for hint in get_type_hints(kind, vars(sys.modules[kind.__module__])).values():
            _classes(hint, found)
    for part in get_args(kind):
        _classes(part, found)
    return found


def _comments(kind) -> dict[str, str]:
    """The comments beside the fields of a class, for types of rooms that write them so."""
    if kind is None:
        return {}
    lines = inspect.getsource(kind).splitlines()
    matches = (re.match(r"    (\w+): [^#]*#\s*(.*)$", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}
