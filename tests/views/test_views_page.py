"""One file, nothing from outside, nothing a label can break, readable by everybody."""

import base64
import csv
import io
import itertools
import json
import os
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from gallery import gallery

from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.money import Currency
from disco.views.charts import Axis, BarChart, Bars
from disco.views.charts.parts import CHART, NARROW_PX
from disco.views.formats import Count, Money, Percent
from disco.views.page import Fact, Facts, Report, Section, paragraphs
from disco.views.table import Column, FigureCell, Table

HOSTILE = "</script><script>alert(1)</script> & \"quotes\" 'single' <b>\u2028{c}"


class Page(HTMLParser):
    """Tags with their attributes, JSON blocks, and the tables' texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.json: list[str] = []
        self.tables: list[list[list[str]]] = []
        self._in_json = self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._in_json = ("type", "application/json") in attrs
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._in_cell = True
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._in_json = False
        elif tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_json:
            self.json.append(data)
        elif self._in_cell:
            self.tables[-1][-1][-1] += data


def hostile_report() -> Report:
    chart = BarChart(
        title=HOSTILE,
        subtitle=HOSTILE,
        categories=[HOSTILE],
        y=Axis(HOSTILE, Money(currency=Currency("XXX", 2, HOSTILE))),
        bars=[Bars(HOSTILE, [1.0]), Bars("b", [2.0])],
    )
    table = Table(caption=HOSTILE, note=HOSTILE, columns=[HOSTILE], rows=[[HOSTILE]])
    facts = Facts([Fact(HOSTILE, HOSTILE, HOSTILE)])
    section = Section(HOSTILE, HOSTILE, [chart, table, facts])
    return Report(title=HOSTILE, lead=HOSTILE, sections=[section], footer=HOSTILE)


def test_the_file_asks_nothing_of_any_network() -> None:
    text = gallery().html()
    page = Page(text)
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#")), (tag, attributes)
    style = resources.files("disco.views").joinpath("templates", "report.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_the_same_report_gives_the_same_bytes() -> None:
    assert gallery().html() == gallery().html()


def test_a_page_without_charts_carries_no_chart_library() -> None:
    page = Report(title="t", lead="l", sections=[Section("h", "x", [Facts([Fact("a", "b")])])]).html()
    assert "<script" not in page
    assert len(page) < 20_000


def test_no_label_can_break_out_of_its_place() -> None:
    page = Page(hostile_report().html())
    assert [tag for tag, _ in page.tags].count("script") == 3  # the JSON, ECharts, and ours
    assert "b" not in [tag for tag, _ in page.tags]
    option = json.loads(page.json[0])
    assert option["xAxis"][0]["data"] == [HOSTILE]
    assert "</script" not in page.json[0]
    assert page.tables[-1] == [[HOSTILE], [HOSTILE]]


def test_every_chart_has_its_table_and_its_file() -> None:
    report = gallery()
    page = Page(report.html())
    charts = [item for section in report.sections for item in section.items if item.template == CHART]
    assert len(page.json) == len(charts)
    shown = [[[cell.replace("\u00a0", " ") for cell in row] for row in table] for table in page.tables]
    files = [a["href"] for tag, a in page.tags if tag == "a" and "download" in a]
    assert len(files) == len(charts)
    for chart, address in zip(charts, files, strict=True):
        table = chart.table()
        assert [[column.heading for column in table.typed_columns()], *map(list, table.text())] in shown
        assert address is not None
        content = base64.b64decode(address.partition("base64,")[2]).decode("utf-8")
        assert content == table.csv()


def test_csv_is_in_full_and_splits_intervals() -> None:
    table = Table(
        caption="Revenue",
        columns=["Campaign", Column("Revenue", Money()), Column("Codes", Count())],
        rows=[['C, "spring"', Estimate(1.0 / 3, 0.25, 0.5), 1000], ["D", None, None], ["E", Estimate(2.0), 5]],
    )
    rows = list(csv.reader(io.StringIO(table.csv())))
    assert rows[0] == ["Campaign", "Revenue", "Revenue, lower", "Revenue, upper", "Codes"]
    assert rows[1] == ['C, "spring"', repr(1.0 / 3), "0.25", "0.5", "1000"]
    assert rows[2] == ["D", "", "", "", ""]
    assert rows[3] == ["E", "2.0", "", "", "5"]
    assert Table(caption="Empty", columns=["a", "b"], rows=[]).csv() == "a,b\n"


def test_tables_refuse_by_name() -> None:
    with pytest.raises(InputError, match="row 2: found 1 cells"):
        Table(caption="t", columns=["a", "b"], rows=[["x", "y"], ["x"]])
    with pytest.raises(InputError, match="row 1, column 'b': found nan"):
        Table(caption="t", columns=["a", Column("b", Money())], rows=[["x", float("nan")]])
    with pytest.raises(InputError, match="Give the column a unit"):
        Table(caption="t", columns=["a"], rows=[[1.5]])


def test_dates_and_signed_money_are_not_broken_apart() -> None:
    page = Report(title="t", lead="+£1.24m of 20% by 8 Mar, a − b", sections=[]).html()
    assert "+\u2060£1.24m of 20% by 8\u00a0Mar, a − b" in page


def test_an_interval_in_a_table_stays_on_one_line() -> None:
    column = Column("<b>", Money(signed=True))
    table = Table(caption="t", columns=["a", column], rows=[["x", Estimate(2.1, -0.5, 4.7, 0.95)]])
    page = Report(title="t", lead="l", sections=[Section("h", "", [table])]).html()
    cell = '<td data-label="&lt;b&gt;" class="figure"><span>+£2.10 <span>(−£0.50 to +£4.70)</span></span></td>'
    assert cell in page


def test_a_long_page_begins_with_a_list_of_its_parts() -> None:
    parts = [Section(f"Part {number} & more", "Words.") for number in range(1, 6)]
    page = Report(title="t", lead="l", sections=parts).html()
    assert re.findall(r'<a href="#(part-\d)">', page) == re.findall(r'<section id="(part-\d)">', page)
    assert '<li><a href="#part-5">Part 5 &amp; more</a></li>' in page
    assert '<nav class="contents"' not in Report(title="t", lead="l", sections=parts[:3]).html()


def test_e_mail_is_not_broken_apart() -> None:
    assert "by e\u2011mail" in Report(title="t", lead="Codes by e-mail", sections=[]).html()


def test_a_column_may_hold_figures_of_several_units() -> None:
    rows = [["Revenue", FigureCell(12.4, Money())], ["Engagement", FigureCell(Estimate(0.08, 0.07, 0.09), Percent())]]
    table = Table(caption="t", columns=["Figure", "Decided"], rows=rows)
    assert table.text() == (("Revenue", "£12.40"), ("Engagement", "8.0% (7.0% to 9.0%)"))
    assert table.holds_figures() == (False, True)
    assert (
        table.csv() == 'Figure,Decided,"Decided, lower","Decided, upper"\nRevenue,12.4,,\nEngagement,0.08,0.07,0.09\n'
    )
    with pytest.raises(InputError, match="column 'Decided': found inf"):
        Table(caption="t", columns=["Decided"], rows=[[FigureCell(float("inf"), Money())]])


def test_a_table_that_scrolls_shows_that_it_does() -> None:
    style = resources.files("disco.views").joinpath("templates", "report.css").read_text(encoding="utf-8")
    assert re.search(r"\.scroll \{[^}]*background:[^}]*local[^}]*scroll", style)


def test_blank_lines_part_paragraphs() -> None:
    assert paragraphs("\n\n a \n \n b\nc \n\n") == ["a", "b\nc"]


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out" / "report.html"
    report = Report(title="t", lead="l", sections=[])
    assert report.save(target).read_text(encoding="utf-8") == report.html()
    before = target.read_bytes()

    def full_disk(source: object, destination: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="disk full"):
        Report(title="other", lead="l", sections=[]).save(target)
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def _themes() -> dict[str, dict[str, str]]:
    style = resources.files("disco.views").joinpath("templates", "report.css").read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.S)
    )
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


def _luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_is_aa(theme: str) -> None:
    colours = _themes()[theme]
    texts = ["ink", "muted", "accent", "warning", *(f"series-{place}" for place in range(1, 7))]
    for name in texts:
        assert _contrast(colours[name], colours["page"]) >= 4.5, name
    for name in ("ink", "muted"):
        assert _contrast(colours[name], colours["surface"]) >= 4.5, name
    for place in range(1, 11):  # bars and lines, not text
        assert _contrast(colours[f"depth-{place}"], colours["page"]) >= 3 - 0.005, place


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_deeper_is_darker_in_both_themes(theme: str) -> None:
    # luminance alone orders the depths, so the sequence survives every kind of colour blindness and a grey printer
    luminances = [_luminance(_themes()[theme][f"depth-{place}"]) for place in range(1, 11)]
    assert all(deeper < 0.93 * shallower for shallower, deeper in itertools.pairwise(luminances))


def _oklab(colour: str) -> np.ndarray:
    """Coordinates in which equal distances look equally different (Ottosson 2020)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = np.array([part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts])
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    opponents = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.asarray(opponents @ np.cbrt(cones @ linear))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_depths_two_and_a_half_points_apart_look_different(theme: str) -> None:
    # halfway between two steps both are mixed in OKLab, so half of their distance is that of such depths
    steps = [_oklab(_themes()[theme][f"depth-{place}"]) for place in range(1, 11)]
    nearest = min(float(np.linalg.norm(deeper - shallower)) for shallower, deeper in itertools.pairwise(steps))
    assert nearest / 2 >= 0.04  # 0.02 is just noticeable side by side


def test_the_page_and_the_charts_agree_on_what_is_narrow() -> None:
    style = resources.files("disco.views").joinpath("templates", "report.css").read_text(encoding="utf-8")
    assert f"@container (min-width: {NARROW_PX + 1}px)" in style


def test_the_library_is_the_one_its_readme_names() -> None:
    folder = resources.files("disco.views").joinpath("vendor")
    readme = folder.joinpath("README.md").read_text(encoding="utf-8")
    version = re.search(r"ECharts (\d+\.\d+\.\d+)", readme)
    assert version is not None
    assert f'version="{version[1]}"' in folder.joinpath("echarts.common.min.js").read_text(encoding="utf-8")
    assert "Apache License" in folder.joinpath("LICENSE").read_text(encoding="utf-8")
    assert "Apache Software Foundation" in folder.joinpath("NOTICE").read_text(encoding="utf-8")
