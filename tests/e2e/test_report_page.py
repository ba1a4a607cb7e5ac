"""A real browser opens a real report from a file: charts are drawn, nothing complains, nothing spills over a phone."""

import os
import re
from pathlib import Path

import pytest

from disco.records.errors import MissingPartError
from disco.reports.gallery import basket_curve, gallery
from disco.reports.page import Facts
from disco.reports.picture import browse, find_browser, save_png
from disco.reports.table import Table


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


@pytest.mark.parametrize("width_px", [390, 1280])
def test_every_chart_is_drawn_and_the_console_is_silent(page: Path, width_px: int) -> None:
    seen = browse(page, f"--window-size={width_px},2000", "--dump-dom")
    charts = [item for section in gallery().sections for item in section.items if not isinstance(item, Table | Facts)]
    drawings = re.findall(r'<div class="canvas".*?<svg.*?</svg>', seen.stdout, re.S)
    assert len(drawings) == len(charts)
    assert all(drawing.count("<path") > 5 for drawing in drawings)
    assert "NaN" not in "".join(drawings)
    assert "CONSOLE" not in seen.stderr


def test_a_complaint_would_be_heard(page: Path) -> None:
    # the silence above means something only if the browser reports errors, and the page's own policy blocks requests
    broken = browse(
        _with_script(page, "fetch('https://example.invalid/').catch(() => {}); undefinedName()"), "--dump-dom"
    )
    assert "undefinedName is not defined" in broken.stderr
    assert "Content Security Policy" in broken.stderr


def test_nothing_spills_over_a_phone(page: Path) -> None:
    script = "document.documentElement.dataset.spill = document.documentElement.scrollWidth - innerWidth"
    seen = browse(_with_script(page, script), "--window-size=390,2000", "--dump-dom").stdout
    found = re.search(r'data-spill="(-?\d+)"', seen)
    assert found is not None
    assert int(found[1]) <= 0


def test_labels_at_line_ends_stay_inside_the_chart(page: Path) -> None:
    script = """
      let worst = 0;
      for (const text of document.querySelectorAll(".canvas text")) {
        const box = text.getBoundingClientRect(), frame = text.closest(".canvas").getBoundingClientRect();
        worst = Math.max(worst, box.right - frame.right, frame.left - box.left, box.bottom - frame.bottom);
      }
      document.documentElement.dataset.worst = Math.ceil(worst);
    """
    for width_px in (390, 720, 1280):
        seen = browse(_with_script(page, script), f"--window-size={width_px},2000", "--dump-dom").stdout
        found = re.search(r'data-worst="(\d+)"', seen)
        assert found is not None
        assert int(found[1]) <= 1, width_px


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
