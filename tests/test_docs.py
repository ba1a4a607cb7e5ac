"""What the documentation says is true: generated pages are current, README code runs, named files exist."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import typer
from as_printed import Block, blocks, disco_in, run_blocks

ROOT = Path(__file__).parent.parent
PROSE = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
RECORDS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def test_generated_pages_are_current():
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_readmes_python_runs_and_prints_what_it_says(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    said = re.search(r"print\(.*?\)\s+# (.*)", program)
    assert said is not None
    assert capsys.readouterr().out.strip() == said[1]


def test_the_readmes_first_campaign_runs_as_printed(tmp_path, monkeypatch):
    """Both blocks of "Use it" in one shell: the first in a clone that is set up, the second in an empty folder.

    Only the number of customers is smaller. The clone is made of links, and its `disco` is answered by this process.
    """
    _, _, text = (ROOT / "README.md").read_text().partition("\n## Use it\n")
    setup, campaign = blocks(text.partition("\n## ")[0])
    assert campaign.commands.count("--customers 50000") == 1
    clone, empty = tmp_path / "clone", tmp_path / "empty"
    for folder in (clone / ".venv" / "bin", empty):
        folder.mkdir(parents=True)
    for name in ("run", "pyproject.toml", "constraints.txt", "src"):
        (clone / name).symlink_to(ROOT / name)
    (clone / ".venv" / "bin" / "python").symlink_to(sys.executable)
    installed = (
        "cat pyproject.toml constraints.txt | cksum | tr -d '\\n' > .venv/.installed-core"  # as after a first run
    )
    subprocess.run(["sh", "-c", installed], cwd=clone, check=True)
    monkeypatch.setenv("PYTHON", sys.executable)  # `./run` looks for one that is new enough
    small = campaign.commands.replace("--customers 50000", "--customers 1000")
    page = [setup, Block(f'cd "{empty}"\n', ""), Block(small, "")]
    with disco_in(clone / ".venv" / "bin"):
        *_, printed = run_blocks(page, folder=clone)
    assert "Customer c0000008 got" in printed
    assert (empty / "shop" / "disco.db").is_file()


def test_links_lead_to_files():
    broken = [
        f"{page.relative_to(ROOT)} → {target}"
        for page in PROSE
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_command_in_the_readme_exists():
    from disco.entrypoints.cli.app import make_app

    used = set(re.findall(r"^(?:    )?disco (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert used
    assert used <= set(typer.main.get_command(make_app()).commands)


def test_runs_own_help_names_what_the_readme_promises():
    usage = subprocess.run([ROOT / "run", "help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"`?\./run (\w+)", (ROOT / "README.md").read_text()):
        assert re.search(rf"^  {command}\b", usage, re.MULTILINE), command


def test_decisions_are_numbered_once():
    numbers = [path.name[:3] for path in RECORDS]
    assert len(numbers) == len(set(numbers))


def test_every_decision_has_a_date_and_a_status_and_is_in_the_table():
    table = (ROOT / "docs" / "decisions" / "README.md").read_text()
    numbers = {path.name[:3] for path in RECORDS}
    for path in RECORDS:
        heading = re.match(
            r"# (?P<number>\d{3}) · (?P<title>.*)\n\n"
            r"Date: (?P<date>\d{4}-\d{2}-\d{2}) · "
            r"Status: (?P<status>accepted|in progress|superseded by (?P<by>\d{3}))\n",
            path.read_text(),
        )
        assert heading is not None, path.name
        assert heading["number"] == path.name[:3]
        assert heading["by"] is None or heading["by"] in numbers
        row = f"| [{heading['number']}]({path.name}) | {heading['title']} | {heading['date']} | {heading['status']} |"
        assert row in table.splitlines(), row


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    listed = set(re.findall(r"\]\(([^)]+)\)", index))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= listed


def test_source_files_named_on_the_pages_exist():
    """`room/file.py` is a path from src/disco, tests or the root; a bare `file.py` is the name of a file."""
    files = {
        path.name
        for folder in ("src", "studies", "tests", "docs", "examples", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    }
    places = (ROOT, ROOT / "src" / "disco", ROOT / "tests")
    missing = [
        f"{page.relative_to(ROOT)} → {name}"
        for page in PROSE
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text())
        if not (any((place / name).is_file() for place in places) if "/" in name else name in files)
    ]
    assert missing == []


def test_names_beside_source_files_on_the_pages_are_in_them():
    """`room/file.py` `name`, or `file.py` (`name`): the file has a definition or argument of that (last) name."""
    pair = re.compile(r"`((?:\w+/)*\w+\.py)`\s*[:→(]?\s*`([A-Za-z_][\w.]*)(?:\(\))?`")
    sources = [path for folder in ("src/disco", "studies", "tests") for path in (ROOT / folder).rglob("*.py")]
    gone = []
    for page in PROSE:
        for file, name in pair.findall(page.read_text()):
            named = [path for path in sources if path.as_posix().endswith(f"/{file}")]
            if not any(name.rpartition(".")[2] in _defined(path) for path in named):
                gone.append(f"{page.relative_to(ROOT)} → {file} {name}")
    assert gone == []


@cache
def _defined(source: Path) -> frozenset[str]:
    """Functions, classes, arguments and variables of a file."""
    found = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)
