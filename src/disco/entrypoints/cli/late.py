"""`disco late CAMPAIGN CUSTOMER…`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import DryRunFlag, JsonFlag, QuietFlag, ShopFolder, day_of, figures_text, show, warn
from disco.records.errors import InputError, UsageError

if TYPE_CHECKING:
    from disco.operations.late import LateArrivals

_MOST_SHOWN = 20


def register(app: typer.Typer) -> None:
    app.command("late", epilog="Example: disco late spring-27 c0000017 c0000018")(late)


def late(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    customers: Annotated[
        list[str] | None, typer.Argument(metavar="[CUSTOMER]...", help="Customers who have arrived since the launch.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Text file with one customer per line.")] = None,
    as_of: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The day they arrive; default: today.")
    ] = None,
    dry_run: DryRunFlag = False,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Decide about customers who arrive after the launch, from the codes kept in reserve.

    They are decided at the prices of the launch, with the model that decided it; a cap is never exceeded. A customer
    who was decided before gets the same decision again. Refused while the campaign is paused, closed or over.
    """
    from disco.entrypoints.python import Shop

    wanted = [*(customers or ()), *([] if file is None else _lines(file))]
    if not wanted:
        raise UsageError("late needs customers", fix="Name them as arguments, or use --file FILE.")
    decided = Shop.open(shop).late(campaign, wanted, as_of=day_of(as_of), dry_run=dry_run)
    warn(decided.warnings)
    show(decided, _text(decided), as_json=as_json, quiet=quiet)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a text file with one customer per line")
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeError as error:
        raise InputError(str(path), found=str(error), expected="text in UTF-8, one customer per line") from None


def _text(decided: "LateArrivals") -> str:
    from disco.records.depths import depth_percent
    from disco.reports import Table

    rows = [
        (str(one.customer_id), "no code" if one.depth is None else depth_percent(one.depth), one.code)
        for one in decided.decisions[:_MOST_SHOWN]
    ]
    table = Table(caption="Late arrivals", columns=("Customer", "Depth", "Code"), rows=rows)
    more = len(decided.decisions) - _MOST_SHOWN
    return figures_text(table) + (f"\nand {more:,} more; `disco export` writes all codes." if more > 0 else "")
