"""What `--json` prints is described: every command has a result type, and every field of ours a meaning beside it."""

import typer
from json_page import forms

from disco.entrypoints.cli.app import make_app
from disco.records.result import Result, adapter

# what these hold is described by comments beside their fields, or in their docstrings
OTHER_ROOMS = {"Accuracy", "Adjusted", "ArmSummary", "Comparison", "Conflict", "Estimate", "Finding", "Problem"} | {
    "SampleRatio"
}
REPORTS = {"demo"}  # prints the figures of its report


def commands(group: typer.core.TyperGroup, before: str = "") -> set[str]:
    found = set()
    for name, command in group.commands.items():
        full = f"{before} {name}".strip()
        group = hasattr(command, "commands")
        found |= commands(command, full) if group else {full}
        if group and command.invoke_without_command:
            found.add(full)
    return found


def test_every_command_has_a_described_result() -> None:
    assert commands(typer.main.get_command(make_app())) == {*forms(), *REPORTS}


def test_every_result_is_one_type_with_a_meaning_beside_each_field() -> None:
    bare = set()
    for kinds in forms().values():
        for kind in kinds:
            assert issubclass(kind, Result)
            schema = adapter(kind).json_schema(mode="serialization")
            assert schema["description"], kind
            ours = {name: part for name, part in schema.get("$defs", {}).items() if name not in OTHER_ROOMS}
            for name, part in {kind.__name__: schema, **ours}.items():
                fields = part.get("properties", {}).items()
                bare |= {f"{name}.{key}" for key, field in fields if "description" not in field}
    assert bare == set()
