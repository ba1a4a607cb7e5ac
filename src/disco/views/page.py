"""A report as a value, and its one self-contained HTML file: no request leaves it, it opens from any folder."""

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from markupsafe import Markup, escape

from disco.records.files import private_folder, written_whole
from disco.views.charts.parts import CHART
from disco.views.formats import MONTHS
from disco.views.table import Table

if TYPE_CHECKING:
    import jinja2


class PageItem(Protocol):
    """What a section shows: a chart, a table, a row of facts."""

    @property
    def template(self) -> str:
        """The macro of items.html that shows it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure worth reading first."""

    label: str
    value: str  # as text, such as "£1.24m"
    note: str = ""  # its interval, or what it is a share of


@dataclass(frozen=True, slots=True)
class Facts:
    """A row of figures."""

    template: ClassVar[str] = "facts"

    facts: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what it means in words, and the pictures and tables that show it."""

    heading: str
    text: str = ""  # blank lines part paragraphs
    items: Sequence[PageItem] = ()
    folded: bool = False  # a page of the console opens it on demand; a file shows it
    side_by_side: bool = False  # charts in two columns where the page is wide enough; give them the same `extent`


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One page.

    >>> page = Report(title="Campaign C", lead="It paid.", sections=[Section("Money", "Revenue rose.")]).html()
    >>> "<h1>Campaign C</h1>" in page
    True
    """

    title: str
    lead: str  # the answer in one sentence; everything below it is why
    sections: Sequence[Section]
    footer: str = ""

    def html(self) -> str:
        """The whole file as text; the same report always gives the same bytes."""
        draws = any(item.template == CHART for section in self.sections for item in section.items)
        return render("report.html", draws=draws, report=self)

    def save(self, path: Path) -> Path:
        """Written whole or not at all; missing folders are made."""
        private_folder(path.parent)
        with written_whole(path) as unfinished:
            unfinished.write_text(self.html(), encoding="utf-8", newline="\n")
        return path


def render(template: str, *, draws: bool, **values: object) -> str:
    """A page of this folder with its stylesheet and, where it draws, ECharts and the script that calls it."""
    # files that we ship; values of others go through autoescape or json_for_script
    style = Markup(_part("templates", "report.css"))
    echarts = Markup(_part("vendor", "echarts.common.min.js")) if draws else ""
    draw = Markup(_part("templates", "charts.js")) if draws else ""
    return _environment().get_template(template).render(style=style, echarts=echarts, draw=draw, **values)


_FILTERS: dict[str, Callable[..., object]] = {}
_Filter = TypeVar("_Filter", bound=Callable[..., object])


def _filter(function: _Filter) -> _Filter:
    """Make a function a filter of the templates, under its own name."""
    _FILTERS[function.__name__] = function
    return function


@_filter
def json_for_script(value: Any) -> Markup:
    """JSON that cannot end the <script> it stands in, whatever a label says. NaN is refused.

    >>> print(json_for_script({"name": "</script>"}))
    {"name":"\\u003c/script\\u003e"}
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # nosec B704


@_filter
def words(text: str) -> str:
    """No line break inside a date ("8 Mar") or "e-mail", or between a sign and its currency ("+£2.73").

    >>> words("until 8 Mar")
    'until 8\\xa0Mar'
    """
    text = re.sub(r"\b([Ee])-(?=mail)", "\\1\u2011", text)
    text = re.sub(rf"(?<=\d) (?=(?:{'|'.join(MONTHS)})\b)", "\u00a0", text)
    return re.sub(r"(?<=[+−])(?=[^\w\s.,;:!?()/+−-]\d)", "\u2060", text)


@_filter
def figures(text: str) -> Markup:
    """A figure in a table breaks at most before its interval, where the column is narrow.

    >>> print(figures("+1.4% (+0.6% to +2.2%)"))
    +1.4% <span>(+0.6% to +2.2%)</span>
    """
    value, bracket, interval = text.partition(" (")
    if not bracket:
        return escape(text)
    return Markup("{} <span>({}</span>").format(value, interval)


@_filter
def paragraphs(text: str) -> list[str]:
    """Parts between blank lines.

    >>> paragraphs("One.\\n\\nTwo,\\nstill two.")
    ['One.', 'Two,\\nstill two.']
    """
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


@_filter
def csv_address(table: Table) -> str:
    """The table's figures in full as an address the browser saves as a file, without any server."""
    encoded = base64.b64encode(table.csv().encode("utf-8")).decode("ascii")
    return f"data:text/csv;charset=utf-8;base64,{encoded}"


@cache
def _part(folder: str, name: str) -> str:
    return resources.files("disco.views").joinpath(folder, name).read_text(encoding="utf-8")


@cache
def _environment() -> "jinja2.Environment":
    return environment("disco.views")


def environment(*packages: str) -> "jinja2.Environment":
    """Templates that lie in packages or in their folders `templates`, and those of views, with their filters."""
    import jinja2  # only a page needs it; the same tables are shown on a terminal

    folders = [str(resources.files(name)) for name in dict.fromkeys((*packages, "disco.views"))]
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([place for folder in folders for place in (folder, f"{folder}/templates")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters.update(_FILTERS)
    return made
