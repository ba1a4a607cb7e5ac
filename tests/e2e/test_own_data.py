"""docs/own-data.md, run as it is printed, on the export that it describes; and the two other exports without Python."""

import json
import re
from pathlib import Path

import pytest
from as_printed import blocks, disco_in, run_blocks
from raw_exports import PAYMENTS, SHEET, order_lines, payments, workbook, write_settings

PAGE = Path(__file__).parents[2] / "docs" / "own-data.md"


def test_the_page_leads_from_an_export_to_a_first_plan(tmp_path: Path) -> None:
    (tmp_path / "shop" / "data").mkdir(parents=True)
    order_lines(tmp_path / "shop" / "data")
    page = blocks(PAGE.read_text(encoding="utf-8"))
    with disco_in(tmp_path / "bin"):
        printed = run_blocks(page, folder=tmp_path, path=tmp_path / "bin")
    for block, got in zip(page, printed, strict=True):
        if block.shown:
            assert got == block.shown
    assert re.search(r"launch", printed[3])
    assert (tmp_path / "shop" / "disco.db").is_file()


@pytest.mark.parametrize(("export", "settings"), [(payments, PAYMENTS), (workbook, SHEET)])
def test_other_exports_reach_a_first_plan_without_a_line_of_python(tmp_path: Path, export, settings) -> None:
    shop = tmp_path / "shop"
    (shop / "data").mkdir(parents=True)
    export(shop / "data", customers=250)
    write_settings(shop, settings)
    plan = {
        "campaign": "first",
        "customers": {"table": "customers", "as_of": "2026-03-01"},
        "depths": {"0.1": {"at_most": "30%"}},
        "objective": {"revenue_weight": 2},
        "policy": {"name": "random"},
        "valid": {"from": "2026-03-02", "days": 14},
        "seed": 1,
    }
    (shop / "plan.json").write_text(json.dumps(plan))
    trained = "disco train context --tables shop/data --window-start 2025-11-01 --heads level --max-epochs 1"
    commands = f"""```bash
disco validate shop/data --quiet
{trained} -o shop/context.safetensors --shop shop
disco plan shop/plan.json --shop shop --json
```
"""
    with disco_in(tmp_path / "bin"):
        (printed,) = run_blocks(blocks(commands), folder=tmp_path, path=tmp_path / "bin")
    assert json.loads(printed[printed.index("{") :])["customers"] == 250
