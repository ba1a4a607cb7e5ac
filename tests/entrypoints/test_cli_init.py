"""`disco init`: a shop that works at once, never overwrites, and leaves nothing behind when it fails."""

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from disco.adapters.config import HoldoutSettings, ShopSettings, load_settings
from disco.records.plan import Plan, read_plan
from disco.records.tables import SCHEMAS

Run = Callable[..., tuple[int, str, str]]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_new_shop_has_everything_and_validates(disco: Run, tmp_path: Path) -> None:
    shop = tmp_path / "deep" / "shop"
    code, out, _ = disco("init", shop)
    assert code == 0
    assert "disco validate" in out
    assert files(shop) == {"disco.yaml", "plan.yaml", "data", "lists", "lists/unsubscribed.csv"} | {
        f"data/{name}.csv" for name in SCHEMAS
    }
    code, out, _ = disco("validate", "--shop", shop)
    assert code == 0
    for name in SCHEMAS:
        assert f"{name} (2 rows)" in out


def test_templates_show_every_column_and_every_setting_at_its_default(disco: Run, tmp_path: Path) -> None:
    disco("init", tmp_path / "shop", "--quiet")
    for name, schema in SCHEMAS.items():
        header = (tmp_path / "shop" / "data" / f"{name}.csv").read_text().splitlines()[0].split(",")
        assert header[: len(schema.columns)] == [column.name for column in schema.columns]
    text = (tmp_path / "shop" / "disco.yaml").read_text()
    new = HoldoutSettings(lasting=True)  # of new shops alone; a shop without the line keeps the draw of before
    assert load_settings(tmp_path / "shop", environment={}) == ShopSettings(holdout=new)
    for name in ShopSettings.model_fields:
        assert f"\n{name}:" in text or f"\n# {name}:" in text


def test_the_plan_template_is_a_plan(disco: Run, tmp_path: Path) -> None:
    disco("init", tmp_path / "shop")
    text = (tmp_path / "shop" / "plan.yaml").read_text()
    plan = read_plan(yaml.safe_load(text), file="plan.yaml")
    assert plan.offered == (0.1, 0.2, 0.3)
    assert plan.holdout.share == 0.05
    decides = text.replace("# budget", "budget").replace("# control", "control").replace("policy: {name: random}", "")
    later = read_plan(yaml.safe_load(decides), file="plan.yaml")
    assert (later.overspend_risk, later.control.share) == (0.2, 0.1), "what it says of later campaigns is a plan, too"
    assert (tmp_path / "shop" / "data" / f"{plan.customers.table}.csv").is_file()


def test_json_lists_the_files(disco: Run, tmp_path: Path) -> None:
    code, out, _ = disco("init", tmp_path / "shop", "--json")
    assert code == 0
    assert set(json.loads(out)["files"]) == {name for name in files(tmp_path / "shop") if name not in ("data", "lists")}


@pytest.mark.parametrize("there", ["disco.yaml", "plan.yaml", "data/orders.parquet"])
def test_nothing_is_overwritten_and_nothing_is_added(disco: Run, tmp_path: Path, there: str) -> None:
    path = tmp_path / there
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    before = files(tmp_path)
    code, _, err = disco("init", tmp_path)
    assert code == 1
    assert there.split("/")[0] in err
    assert files(tmp_path) == before
    assert path.read_text() == "mine"


def test_a_folder_with_other_things_is_filled_beside_them(disco: Run, tmp_path: Path) -> None:
    (tmp_path / "README").write_text("mine")
    assert disco("init", tmp_path)[0] == 0
    assert {"README", "plan.yaml"} <= files(tmp_path)


def test_a_file_in_the_way_is_refused(disco: Run, tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("mine")
    code, _, err = disco("init", tmp_path / "shop")
    assert code == 1
    assert "found a file" in err


@pytest.mark.parametrize("failing", ["copyfile", "copytree", "rename"])
def test_a_failure_on_the_way_leaves_nothing(
    disco: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    fired = []

    def fail(*arguments: object, **_: object) -> NoReturn:
        fired.append(arguments)
        raise OSError(28, "No space left on device")

    if failing == "rename":
        genuine = Path.rename

        def rename_data_only(self: Path, target: Path) -> Path:
            return genuine(self, target) if target.name == "data" else fail(self)

        monkeypatch.setattr(Path, "rename", rename_data_only)
    else:
        monkeypatch.setattr(shutil, failing, fail)
    code, _, err = disco("init", tmp_path / "deep" / "shop")
    assert fired
    assert code == 1
    assert "No space left on device" in err
    assert files(tmp_path) == set()


def test_the_next_command_can_be_pasted_whatever_the_folder_is_called(disco: Run, tmp_path: Path) -> None:
    _, out, _ = disco("init", tmp_path / "my shop")
    command, _, place = shlex.split(out[out.index("disco validate") :])
    assert (command, Path(place)) == ("disco", tmp_path / "my shop" / "data")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections that a key may hold, also where it may hold something else or nothing."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in () if get_origin(annotation) is dict else get_args(annotation):  # depths have names of their own
        yield from models_in(part)


def test_the_page_about_plans_names_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()
    for name, field in Plan.model_fields.items():
        sections = list(models_in(field.annotation))
        keys = [inner.alias or key for section in sections for key, inner in section.model_fields.items()]
        for key in [f"{name}.{key}" for key in keys] or [name]:
            assert f"`{key}`" in page, key
