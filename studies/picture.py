"""PNG of a chart for README and docs: the page itself, photographed by a headless Chromium.

No second drawing library: what the picture shows is what the page shows.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from disco.records.errors import DiscoError, InputError, MissingPartError
from disco.records.files import private_folder, temporary_folder, written_whole
from disco.views.charts import Chart
from disco.views.page import render

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 120
_NARROWEST_PX = 500


def find_browser() -> str:
    """The path of a Chromium; `DISCO_CHROMIUM` names another one."""
    named = os.environ.get("DISCO_CHROMIUM")
    names = (named,) if named else _NAMES
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise MissingPartError(
            "a browser for pictures",
            found="no Chromium",
            expected=f"one of {', '.join(names)}",
            fix="On Debian: apt-get install chromium. Elsewhere set DISCO_CHROMIUM to its path.",
        )
    return found


def browse(page: Path, *flags: str, dark: bool = False) -> subprocess.CompletedProcess[str]:
    """Open a local page headless, with an empty profile and no network use; console messages go to stderr."""
    with temporary_folder("browser") as profile:
        command = [
            find_browser(),
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--user-data-dir={profile}",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # Chromium refuses its sandbox to root
            *flags,
            page.resolve().as_uri(),
        ]
        # the browser that was found on the PATH, with flags of our own and no shell
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise DiscoError("the browser failed", found=f"exit {done.returncode}: {done.stderr[-500:]}")
    return done


def save_png(chart: Chart, path: Path, *, width_px: int = 900, dark: bool = False) -> Path:
    """The chart with its title and key, twice as fine as a screen, as high as it needs."""
    if width_px < _NARROWEST_PX:
        raise InputError(
            "width_px", found=width_px, expected=f"{_NARROWEST_PX} or more", fix="Chromium opens no narrower window."
        )
    with temporary_folder("picture") as folder:
        page, shot = folder / "picture.html", folder / "picture.png"
        page.write_text(render("picture.html", draws=True, chart=chart), encoding="utf-8")
        window = f"--window-size={width_px},2000"
        measured = re.search(r'data-height="(\d+)"', browse(page, window, "--dump-dom").stdout)
        if measured is None:
            raise DiscoError(f"picture of '{chart.title}'", found="a page that did not draw", expected="a chart")
        window = f"--window-size={width_px},{measured[1]}"
        browse(page, window, "--force-device-scale-factor=2", f"--screenshot={shot}", dark=dark)
        private_folder(path.parent)
        with written_whole(path) as unfinished:
            shutil.copyfile(shot, unfinished)
    return path
