"""What the documentation says is true: generated pages are current, README code runs, named files exist."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROSE = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_generated_pages_are_current():
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_readmes_python_runs_and_prints_what_it_says(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    said = re.search(r"print\(.*?\)\s+# (.*)", program)
    assert said is not None
    assert capsys.readouterr().out.strip() == said[1]


def test_links_lead_to_files():
    broken = [
        f"{page.relative_to(ROOT)} → {target}"
        for page in PROSE
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_command_in_the_readme_exists():
    from disco.entrypoints.cli.app import COMMANDS

    used = set(re.findall(r"^    disco (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert used
    assert used <= set(COMMANDS)


def test_runs_own_help_names_what_the_readme_promises():
    usage = subprocess.run([ROOT / "run", "help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"`?\./run (\w+)", (ROOT / "README.md").read_text()):
        assert re.search(rf"^  {command}\b", usage, re.MULTILINE), command


def test_decisions_are_numbered_once():
    numbers = [path.name[:3] for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(numbers) == len(set(numbers))
