"""`disco launch PLAN_ID`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import DryRunFlag, JsonFlag, QuietFlag, ShopFolder, show
from disco.records.errors import InputError, StateError

if TYPE_CHECKING:
    from disco.adapters.store import CampaignStore
    from disco.entrypoints.shop import Shop
    from disco.records.plan import Plan


def register(app: typer.Typer) -> None:
    app.command("launch", epilog="Example: disco launch 3f9a1c --shop shop/")(launch)


def launch(
    plan_id: Annotated[str, typer.Argument(metavar="PLAN_ID", help="As `disco plan` printed it; or its campaign.")],
    dry_run: DryRunFlag = False,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Make a plan real: decisions and one single-use code per decision are kept, all of them or none.

    Refused when the customers, their features, the context network or the belief are no longer what the plan was
    decided on. Launching the same plan again changes nothing and says so.
    """
    from disco.entrypoints.audience import gather
    from disco.entrypoints.shop import Shop, WallClock, code_secret
    from disco.operations.artefacts import load
    from disco.operations.launching import launch
    from disco.operations.versions import active_belief, belief_hash

    here = Shop.open(shop)
    with here.store() as store:
        planned = load(store, _id_of(store, plan_id), here.plans)
        with store.reading() as shelves:
            is_new = shelves.find_campaign(planned.plan.campaign) is None
        now = {}
        if is_new:
            belief, _ = active_belief(store, prior=here.prior())
            now = gather(here, planned.plan, keep=not dry_run).inputs | {"belief": belief_hash(belief)}
        launched = launch(
            store,
            planned,
            clock=WallClock(),
            inputs=now,
            pool=read_pool(here, planned.plan),
            secret=code_secret(),
            dry_run=dry_run,
        )
    result = {
        "campaign": launched.campaign,
        "plan_id": launched.plan_id,
        "customers": launched.decisions.num_rows,
        "codes": launched.codes,
        "again": launched.again,
        "dry_run": dry_run,
    }
    show(result, _text(result, shop), as_json=as_json, quiet=quiet)


def _text(result: dict[str, object], shop: Path) -> str:
    facts = f"{result['customers']:,} customers, {result['codes']:,} codes"
    if result["again"]:
        return f"{result['campaign']} was launched from this plan before: {facts}. Nothing was changed."
    if result["dry_run"]:
        return f"{result['campaign']} can be launched: {facts}. Nothing was written."
    place = "" if shop == Path() else f" --shop {shop}"
    return f"{result['campaign']} is launched: {facts}. Next: disco export {result['campaign']}{place} -o codes.parquet"


def _id_of(store: "CampaignStore", name: str) -> str:
    """The id itself, its beginning, or the plan of a campaign: the one it was launched with, or its only one."""
    with store.reading() as shelves:
        launched, plans = shelves.find_campaign(name), shelves.plans(name)
    if launched is not None:
        return launched.plan_id
    if len(plans) > 1:
        raise StateError(
            f"campaign {name}",
            found=f"{len(plans)} plans: {', '.join(plan.plan_id for plan in plans)}",
            expected="the id of one of them",
        )
    return plans[0].plan_id if plans else name


def read_pool(shop: "Shop", plan: "Plan") -> list[str] | None:
    """Codes bought elsewhere: a text file with one code per line, seen from the shop's folder."""
    if plan.codes.pool is None:
        return None
    path = shop.folder / plan.codes.pool
    if not path.is_file():
        raise InputError("codes.pool", found=f"no file {path}", expected="a text file with one code per line")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeError as error:
        raise InputError(str(path), found=str(error), expected="text in UTF-8, one code per line") from None
    return [line.strip() for line in lines if line.strip()]
