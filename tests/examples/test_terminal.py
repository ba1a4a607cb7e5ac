"""What the scripts print: a report's table, aligned."""

import runpy
from pathlib import Path

import pytest

from disco.views.formats import Count
from disco.views.table import Column, Table

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("example", ["loan_offers", "complete_journey"])
def test_a_table_is_printed_with_its_headings_and_aligned(example, capsys):
    script = runpy.run_path(str(EXAMPLES / example / "run.py"))
    rows = [["as sent", 12_345], ["greedy", 7]]
    script["print_table"](Table(caption="Letters", columns=("Policy", Column("Letters", Count())), rows=rows))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == ["Policy   Letters", "as sent  12,345", "greedy   7"]
