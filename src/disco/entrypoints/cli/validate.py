"""`disco validate DIR`."""

import typer


def register(app: typer.Typer) -> None:
    app.command("validate")(validate)


def validate() -> None:
    """placeholder"""
