"""`disco init SHOP/`."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, show
from disco.records.errors import InputError

TEMPLATES = Path(__file__).parent / "templates"


def register(app: typer.Typer) -> None:
    app.command("init", epilog="Example: disco init shop/")(init)


def init(
    shop: Annotated[Path, typer.Argument(metavar="SHOP", help="The folder to fill; made if it does not exist.")],
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Start a shop: commented settings (disco.yaml), a campaign plan (plan.yaml), an example of every table (data/).

    Nothing is ever overwritten: if one of the three is there already, nothing is written.
    """
    names = sorted(path.name for path in TEMPLATES.iterdir())
    _refuse_to_overwrite(shop, names)
    _write(shop, names)
    files = sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*") if path.is_file())
    then = f"disco validate {quote(str(shop / 'data'))}"
    text = f"Wrote {', '.join(files)} in {shop}. Replace the examples by your tables, then: {then}"
    show({"shop": str(shop), "files": files}, text, as_json=as_json, quiet=quiet)


def _refuse_to_overwrite(shop: Path, names: list[str]) -> None:
    fix = "Name another folder, or move the old files away."
    if shop.exists() and not shop.is_dir():
        raise InputError(str(shop), found="a file", expected="a folder", fix=fix)
    there = [name for name in names if (shop / name).exists()]
    if there:
        raise InputError(str(shop), found=f"{', '.join(there)} there already", expected="none of these", fix=fix)


def _write(shop: Path, names: list[str]) -> None:
    """All or nothing: everything is written aside, then moved into place; what fails undoes what went before."""
    import shutil
    from contextlib import ExitStack
    from tempfile import mkdtemp

    def remove(path: Path) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    try:
        with ExitStack() as undo:
            for folder in reversed([folder for folder in (shop, *shop.parents) if not folder.exists()]):
                folder.mkdir()
                undo.callback(folder.rmdir)
            aside = Path(mkdtemp(prefix=".disco-init-", dir=shop))
            undo.callback(remove, aside)
            for name in names:
                template = TEMPLATES / name
                if template.is_dir():
                    shutil.copytree(template, aside / name, copy_function=shutil.copyfile)
                else:
                    shutil.copyfile(template, aside / name)
            for name in names:
                (aside / name).rename(shop / name)
                undo.callback(remove, shop / name)
            aside.rmdir()
            undo.pop_all()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(str(shop), found=reason, expected="a folder that can be written") from error
