"""A real browser opens a real report from a file: charts are drawn, nothing complains, nothing spills over a phone."""

import json
import os
import re
from collections.abc import Callable
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from gallery import basket_curve, gallery
from studies.picture import browse, find_browser, save_png

from disco.records.errors import MissingPartError
from disco.views.charts.parts import CHART


@pytest.fixture(scope="module", autouse=True)
def _browser() -> None:
    try:
        find_browser()
    except MissingPartError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: {missing}")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gallery().save(tmp_path_factory.mktemp("report") / "report.html")


def _with_script(page: Path, script: str) -> Path:
    """A copy of the page that runs one more script at its end."""
    head, _, tail = page.read_text(encoding="utf-8").rpartition("</body>")
    copy = page.with_name("copy.html")
    copy.write_text(f"{head}<script>{script}</script></body>{tail}", encoding="utf-8")
    return copy


def _found_at(page: Path, width_px: int, expression: str) -> tuple[object, str]:
    """What a JavaScript expression finds in the page at this width, and what the browser said on stderr.

    The page stands in a frame, because Chromium opens no window narrower than 500 px.
    """
    outer = page.with_name(f"frame-{width_px}.html")
    outer.write_text(
        f"""<!doctype html>
        <iframe style="width:{width_px}px;height:2000px" srcdoc="{escape(page.read_text(encoding="utf-8"))}"></iframe>
        <script>
        const frame = document.querySelector("iframe");
        frame.onload = () => {{
          const page = frame.contentDocument, width = frame.contentWindow.innerWidth;
          document.documentElement.dataset.found = JSON.stringify({{ width, result: {expression} }});
        }};
        </script>""",
        encoding="utf-8",
    )
    seen = browse(outer, "--window-size=1600,2000", "--dump-dom")
    found = json.loads(unescape(re.search(r'data-found="([^"]*)"', seen.stdout)[1]))
    assert found["width"] == width_px
    return found["result"], seen.stderr


# what tests look at in the page, all of it found by one opening of the browser per width
_DRAWINGS = "[...page.querySelectorAll('.canvas')].map((box) => box.innerHTML)"
_SPILL = "page.documentElement.scrollWidth - width"
# words outside their chart, and words of a chart over each other
_WORDS = """[...page.querySelectorAll(".canvas")].map((box) => {
  const edge = box.getBoundingClientRect();
  const words = [...box.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const sticksOut = (b) => b.left < edge.left - 1 || b.right > edge.right + 1 || b.bottom > edge.bottom + 1;
  const beside = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1;
  const above = (a, b) => a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
  const outside = words.filter(([, b]) => sticksOut(b)).map(([word]) => word);
  const over = words.flatMap(([one, a], place) =>
    words.slice(place + 1).filter(([, b]) => !beside(a, b) && !above(a, b)).map(([two]) => one + " / " + two));
  return [outside, over];
})"""
_CELLS_OUTSIDE = """[...page.querySelectorAll(".table td, .table th[scope=row]")].map((cell) => {
  const box = cell.getBoundingClientRect();
  return [cell.textContent, box.left >= 0 && box.right <= width && box.width > 0];
}).filter(([, fits]) => !fits)"""
_NAME_OF_A_COLUMN = "getComputedStyle(page.querySelector('.wide td'), '::before').content"
_ALL = (_DRAWINGS, _SPILL, _WORDS, _CELLS_OUTSIDE, _NAME_OF_A_COLUMN)

Seen = Callable[[int], tuple[dict[str, Any], str]]


@pytest.fixture(scope="module")
def seen(page: Path) -> Seen:
    """By width: what each expression finds, and what the browser said."""

    @cache
    def at(width_px: int) -> tuple[dict[str, Any], str]:
        found, said = _found_at(page, width_px, f"[{', '.join(_ALL)}]")
        assert isinstance(found, list)
        return dict(zip(_ALL, found, strict=True)), said

    return at


@pytest.mark.parametrize("width_px", [390, 720, 1280])
def test_every_chart_is_drawn_and_the_console_is_silent(seen: Seen, width_px: int) -> None:
    found, said = seen(width_px)
    drawings = found[_DRAWINGS]
    charts = [item for section in gallery().sections for item in section.items if item.template == CHART]
    assert len(drawings) == len(charts)
    assert all("<svg" in drawing and drawing.count("<path") > 5 for drawing in drawings)
    assert "NaN" not in "".join(drawings)
    assert "CONSOLE" not in said


def test_it_opens_from_a_file_as_it_is(page: Path) -> None:
    seen = browse(page, "--dump-dom")
    assert seen.stdout.count('<div class="canvas"') == seen.stdout.count('role="img"') > 0
    assert "CONSOLE" not in seen.stderr


def test_a_complaint_would_be_heard(page: Path) -> None:
    # the silence above means something only if the browser reports errors, and the page's own policy blocks requests
    script = "fetch('https://example.invalid/').catch(() => {}); undefinedName()"
    broken = browse(_with_script(page, script), "--dump-dom")
    assert "undefinedName is not defined" in broken.stderr
    assert "Content Security Policy" in broken.stderr
    _, said = _found_at(_with_script(page, script), 390, "0")
    assert "undefinedName is not defined" in said


@pytest.mark.parametrize("width_px", [390, 720, 1280])
def test_nothing_spills_over(seen: Seen, width_px: int) -> None:
    found, _ = seen(width_px)
    assert found[_SPILL] <= 0
    assert len(found[_WORDS]) == len(found[_DRAWINGS])
    assert found[_WORDS] == [[[], []]] * len(found[_WORDS])


def test_no_column_of_a_table_is_off_the_screen_of_a_phone(seen: Seen) -> None:
    found, _ = seen(390)
    assert found[_CELLS_OUTSIDE] == []
    assert found[_NAME_OF_A_COLUMN] not in ("none", '""'), "each figure stands beside the name of its column"


def test_a_picture_is_a_png_of_the_asked_width(tmp_path: Path) -> None:
    content = save_png(basket_curve(), tmp_path / "curve.png", width_px=700).read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(content[place : place + 4], "big") for place in (16, 20))
    assert width == 1400  # twice as fine as the screen
    assert height > 2 * basket_curve().height_px
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


def test_without_a_browser_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DISCO_CHROMIUM", raising=False)
    with pytest.raises(MissingPartError, match="apt-get install chromium"):
        find_browser()
