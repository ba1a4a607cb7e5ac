"""Settings of a shop: `disco.yaml`, overridden by the environment (DISCO_…), overridden by flags."""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from disco.entrypoints.files import read_yaml
from disco.records.errors import InputError, PlanError, Problem

FILE = "disco.yaml"
_PREFIX = "DISCO_"


class Settings(BaseModel):
    """What every command may need to know about a shop. Unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = Field("data", description="folder of the tables, from here, or a database URL")
    queries: dict[str, str] | None = Field(None, description="with a database URL: one SELECT per table")
    database_url: str = Field("sqlite:///disco.db", description="where campaigns, decisions and outcomes are kept")
    engine: Literal["local"] = Field("local", description="what runs the heavy commands")
    threads: int | None = Field(None, ge=1, description="at most so many; empty: one per processor")

    def data_place(self, shop: Path) -> str:
        """The folder or URL of the tables, seen from the current folder."""
        return self.data if "://" in self.data else str(shop / self.data)


def load_settings(
    shop: Path, *, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings of the shop in that folder; a folder without disco.yaml has the defaults.

    `flags` that are None were not given. Every problem at once in a PlanError.
    """
    environment = os.environ if environment is None else environment
    values = _read_file(shop / FILE)
    origin = dict.fromkeys(values, str(shop / FILE))
    for name in Settings.model_fields:
        variable = _PREFIX + name.upper()
        if environment.get(variable):
            values[name], origin[name] = environment[variable], variable
    for name, value in (flags or {}).items():
        if value is not None:
            values[name], origin[name] = value, f"--{name.replace('_', '-')}"
    problems = []
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problems = [_problem(detail, origin) for detail in error.errors(include_url=False)]
    raise PlanError("The settings cannot be used:", problems)


def _read_file(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = read_yaml(path, expected="YAML in UTF-8")
    except InputError as error:
        fix = error.fix or "Mend the file; `disco init` shows one."
        problem = Problem("format", str(path), "", str(error.found), str(error.expected), fix)
        raise PlanError("The settings cannot be read:", [problem]) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        problem = Problem(
            "format", str(path), "", f"a {type(content).__name__}", "lines of `name: value`", "See `disco init`."
        )
        raise PlanError("The settings cannot be read:", [problem])
    return content


def _problem(detail: Any, origin: Mapping[str, str]) -> Problem:
    name = str(detail["loc"][0])
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        near = get_close_matches(name, Settings.model_fields, n=1)
        fix = f"Did you mean {near[0]}?" if near else "Remove it."
        known = "one of " + ", ".join(Settings.model_fields)
        return Problem("unknown_setting", origin[name], "", f"the setting {name}", known, fix)
    expected = detail["msg"].removeprefix("Input should be ")
    return Problem("setting", f"{origin[name]}, {key}", "", repr(detail["input"]), expected, "Mend the value.")
