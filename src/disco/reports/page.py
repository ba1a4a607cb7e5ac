"""A report as a value, and its one self-contained HTML file: no request leaves it, it opens from any folder."""

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import jinja2
from markupsafe import Markup

from disco.records.files import written_whole
from disco.reports.charts import BarChart, CurveChart, IntervalChart
from disco.reports.formats import keep_figures_together
from disco.reports.table import Table


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure worth reading first, as text ("£1.24 m"), with its interval or what it is a share of as the note."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """A row of figures."""

    facts: Sequence[Fact]


Item: TypeAlias = CurveChart | BarChart | IntervalChart | Table | Facts


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what it means in words (blank lines part paragraphs), and the pictures and tables that show it.

    `side_by_side` puts charts in two columns where the page is wide enough; give them the same `extent`.
    """

    heading: str
    text: str = ""
    items: Sequence[Item] = ()
    side_by_side: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`lead` is the answer in one sentence; everything below it is why.

    >>> page = Report(title="Campaign C", lead="It paid.", sections=[Section("Money", "Revenue rose.")]).html()
    >>> "<h1>Campaign C</h1>" in page
    True
    """

    title: str
    lead: str
    sections: Sequence[Section]
    footer: str = ""

    def html(self) -> str:
        """The whole file as text; the same report always gives the same bytes."""
        draws = any(not isinstance(item, Table | Facts) for section in self.sections for item in section.items)
        return render("report.html", draws=draws, report=self)

    def save(self, path: Path) -> Path:
        """Written whole or not at all; folders on the way are made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as unfinished:
            unfinished.write_text(self.html(), encoding="utf-8", newline="\n")
        return path


def render(template: str, *, draws: bool, **values: object) -> str:
    """A page of this folder with its stylesheet and, where it draws, ECharts and the script that calls it."""
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(_part("templates", "report.css")),
            echarts=Markup(_part("vendor", "echarts.common.min.js")) if draws else "",
            draw=Markup(_part("templates", "charts.js")) if draws else "",
            **values,
        )
    )


def json_for_script(value: Any) -> Markup:
    """JSON that cannot end the <script> it stands in, whatever a label says. NaN never gets this far.

    >>> print(json_for_script({"name": "</script>"}))
    {"name":"\\u003c/script\\u003e"}
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def figures(text: str) -> str:
    """A figure in a table breaks at most before its interval, where the column is narrow.

    >>> figures("+1.4 % (+0.6 % to +2.2 %)")
    '+1.4\\xa0% (+0.6\\xa0%\\xa0to\\xa0+2.2\\xa0%)'
    """
    return text.replace(" ", "\u00a0").replace("\u00a0(", " (")


def paragraphs(text: str) -> list[str]:
    """
    >>> paragraphs("One.\\n\\nTwo,\\nstill two.")
    ['One.', 'Two,\\nstill two.']
    """
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def csv_address(table: Table) -> str:
    """The table's figures in full as an address the browser saves as a file, without any server."""
    encoded = base64.b64encode(table.csv().encode("utf-8")).decode("ascii")
    return f"data:text/csv;charset=utf-8;base64,{encoded}"


@cache
def _part(folder: str, name: str) -> str:
    return resources.files("disco.reports").joinpath(folder, name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _part("templates", name)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        json_for_script=json_for_script,
        words=keep_figures_together,
        figures=figures,
        paragraphs=paragraphs,
        csv_address=csv_address,
    )
    environment.tests.update(
        table=lambda item: isinstance(item, Table),
        facts=lambda item: isinstance(item, Facts),
    )
    return environment
