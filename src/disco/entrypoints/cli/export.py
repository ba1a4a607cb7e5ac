"""`disco export CAMPAIGN -o codes.parquet`."""

from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, show
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError
from disco.records.files import written_whole


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

    Customers without a code are not in it. In a CSV, cells that a spreadsheet would run as a formula begin with an
    apostrophe; Parquet keeps every id as it is.
    """
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    from disco.entrypoints.shop import Shop
    from disco.operations.exporting import csv_safe, export_codes

    kind = out.suffix.lower()
    if kind not in (".parquet", ".csv"):
        raise UsageError("--out", found=out, expected="a name that ends in .parquet or .csv")
    check_outputs(out, shop=shop)
    with Shop.open(shop).store() as store:
        codes = export_codes(store, campaign)
    with written_whole(out) as unfinished:
        if kind == ".csv":
            pacsv.write_csv(csv_safe(codes), unfinished)
        else:
            pq.write_table(codes, unfinished)
    result = {"campaign": campaign, "file": str(out), "codes": codes.num_rows}
    show(result, f"{codes.num_rows:,} codes of {campaign} in {out}.", as_json=as_json, quiet=quiet)
