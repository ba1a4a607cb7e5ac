"""`disco late CAMPAIGN CUSTOMER…`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import DryRunFlag, JsonFlag, QuietFlag, ShopFolder, figures_text, show, warn
from disco.records.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_SHOWN = 20


def register(app: typer.Typer) -> None:
    app.command("late", epilog="Example: disco late spring-27 c0000017 c0000018")(late)


def late(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    customers: Annotated[
        list[str] | None, typer.Argument(metavar="[CUSTOMER]...", help="Customers who have arrived since.")
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
    """Decide about customers who arrive after the launch, from what the campaign holds in reserve.

    They are decided at the prices of the launch, with the campaign's own belief; a cap is never exceeded. Who was
    decided before gets the same decision again. Refused while the campaign is paused, closed or over.
    """
    import pyarrow as pa

    from disco.entrypoints.audience import gather
    from disco.entrypoints.cli.launch import read_pool
    from disco.entrypoints.shop import Shop, WallClock, code_secret
    from disco.operations.artefacts import keep_late_features
    from disco.operations.late import decide_late_arrivals

    wanted = list(dict.fromkeys([*(customers or ()), *([] if file is None else _lines(file))]))
    if not wanted:
        raise UsageError("late", found="no customers", expected="customers as arguments, or --file FILE")
    here = Shop.open(shop)
    clock = WallClock(None if as_of is None else as_of.replace(tzinfo=UTC))
    with here.store() as store:
        with store.reading() as shelves:
            record = shelves.campaign(campaign)
        only = pa.array(wanted, pa.large_string())
        gathered = gather(here, record.plan, as_of=clock.now().date(), only=only, keep=not dry_run)
        decided = decide_late_arrivals(
            store,
            campaign,
            gathered.audience,
            network=gathered.inputs["network"],
            prior=here.prior(),
            clock=clock,
            pool=read_pool(here, record.plan),
            secret=code_secret(),
            retain=lambda rows: keep_late_features(here.plans, record.plan_id, gathered.features.take(rows)),
            dry_run=dry_run,
        )
    warn(gathered.notes)
    rows = decided.select(["customer_id", "depth", "code"]).to_pylist()
    result: dict[str, Any] = {"campaign": campaign, "decisions": rows, "dry_run": dry_run}
    show(result, _text(decided), as_json=as_json, quiet=quiet)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a text file with one customer per line")
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeError as error:
        raise InputError(str(path), found=str(error), expected="text in UTF-8, one customer per line") from None


def _text(decided: "pa.Table") -> str:
    from disco.records.depths import depth_percent
    from disco.reports import Table

    rows = [
        (str(row["customer_id"]), "no code" if row["depth"] is None else depth_percent(row["depth"]), row["code"])
        for row in decided.slice(0, _MOST_SHOWN).to_pylist()
    ]
    table = Table(caption="Late arrivals", columns=("Customer", "Depth", "Code"), rows=rows)
    more = decided.num_rows - _MOST_SHOWN
    return figures_text(table) + (f"\nand {more:,} more; `disco export` writes all codes." if more > 0 else "")
