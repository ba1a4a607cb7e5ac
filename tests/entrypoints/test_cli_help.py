"""`disco --help` is instant because nothing heavy is imported; every command's help is complete."""

import json
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from disco import __version__
from disco.entrypoints.cli.app import TOPICS, make_app

HEAVY = {"numpy", "numba", "pyarrow", "duckdb", "torch", "scipy", "sklearn", "lightgbm", "highspy", "matplotlib"} | {
    "sqlalchemy",
    "yaml",
}  # pydantic is Typer's own choice for reading options


def commands() -> list[tuple[str, Any]]:
    """(full name, command) of every command, also inside groups such as `disco train`."""

    def walk(name: str, command: Any) -> list[tuple[str, Any]]:
        if isinstance(command, TyperGroup):
            return [entry for part, child in command.commands.items() for entry in walk(f"{name} {part}", child)]
        return [(name, command)]

    return walk("disco", typer.main.get_command(make_app()))


def test_help_imports_nothing_heavy() -> None:
    """In a fresh interpreter: `disco --help`, then the help of every command."""
    script = """
import contextlib, io, json, sys
from disco.entrypoints.cli import main
loaded = {}
for name in json.loads(sys.argv[1]):
    sys.argv = [*name.split(), "--help"]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main()
    assert "Usage" in shown.getvalue(), name
    loaded[name] = sorted(sys.modules)
print(json.dumps(loaded))
"""
    names = ["disco", *(name for name, _ in commands() if name != "disco")]
    done = subprocess.run([sys.executable, "-c", script, json.dumps(names)], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert list(loaded) == names
    for name, modules in loaded.items():
        assert "typer" in modules
        assert HEAVY.isdisjoint(modules), name


@pytest.mark.parametrize(("name", "command"), commands())
def test_help_says_what_ends_with_an_example_and_offers_json_and_quiet(name: str, command: Any) -> None:
    assert command.help
    closing = (command.epilog or command.help).strip().splitlines()[-1]
    assert name in closing
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--quiet"} <= options


def test_every_command_is_listed_with_its_topic() -> None:
    """`disco NAME` makes the commands of one topic; all of them together are the whole command line, in its order."""
    made = []
    for names in TOPICS.values():
        group = typer.main.get_command(make_app(names[0]))
        assert isinstance(group, TyperGroup)
        assert set(group.commands) == set(names)
        made += list(names)
    whole = typer.main.get_command(make_app())
    assert isinstance(whole, TyperGroup)
    assert sorted(made) == sorted(whole.commands)
    assert typer.main.get_command(make_app("campain")).commands.keys() == whole.commands.keys()  # type: ignore[attr-defined]


def test_the_version_and_a_suggestion_for_a_mistyped_command(disco):
    assert disco("--version")[:2] == (0, f"disco {__version__}\n")
    code, _, said = disco("powr")
    assert code == 2
    assert "Did you mean 'power'" in said
    assert "? See `" in said
