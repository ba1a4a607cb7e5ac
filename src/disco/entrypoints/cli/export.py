"""`disco export CAMPAIGN -o codes.parquet`."""

from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show


def register(app: typer.Typer) -> None:
    app.command("export", epilog="Example: disco export spring-27 -o codes.csv")(export)


def export(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="FILE.parquet or FILE.csv.")],
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Write the codes to send: code_id, customer_id, campaign_id, depth, sent_at, expires_at, channel.

    Customers without a code are left out. In a CSV file, cells that a spreadsheet would run as a formula begin with an
    apostrophe; Parquet keeps every id unchanged.
    """
    from disco.entrypoints.python import Shop

    done = Shop.open(shop).export(campaign, out)
    show(done, f"{done.codes:,} codes of {campaign} written to {out}.", as_json=as_json, quiet=quiet)
