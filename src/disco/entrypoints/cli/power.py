"""`disco power --baseline … --sd … --uplift 1%`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, show
from disco.records.errors import InputError, UsageError


def register(app: typer.Typer) -> None:
    app.command("power", epilog="Example: disco power --baseline 4.20 --sd 18 --uplift 1%")(power)


def power(
    baseline: Annotated[float, typer.Option(help="Mean of the figure in control, per customer.")],
    sd: Annotated[float, typer.Option(help="Its standard deviation between customers.")],
    uplift: Annotated[str | None, typer.Option(help="Relative difference to find, such as 1%.")] = None,
    customers: Annotated[int | None, typer.Option(help="Customers in both arms together, if that is given.")] = None,
    chance: Annotated[str, typer.Option("--power", help="Wanted chance of finding it.")] = "80%",
    control_share: Annotated[str, typer.Option(help="Control's share of the customers.")] = "50%",
    level: Annotated[str, typer.Option(help="1 − α of the two-sided test.")] = "95%",
    engagement: Annotated[
        str | None, typer.Option(help="Share that buys; baseline and sd are then per purchaser.")
    ] = None,
    explained: Annotated[str, typer.Option(help="Share of variance that pre-period figures explain (CUPED).")] = "0%",
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """How many customers an A/B test needs, or what a given number of customers can show.

    With --uplift: the customers needed. With --customers: the smallest uplift they show. With both: the chance.
    """
    with _options():
        result, text = _answer(
            baseline=baseline,
            sd=sd,
            uplift=uplift,
            customers=customers,
            chance=chance,
            control_share=control_share,
            level=level,
            engagement=engagement,
            explained=explained,
        )
    show(result, text, as_json=as_json, quiet=quiet)


@contextmanager
def _options() -> Iterator[None]:
    """Everything asked for came from an option, so what cannot be answered is wrong usage."""
    try:
        yield
    except UsageError:
        raise
    except InputError as error:
        option = f"--{error.what.replace('_', '-')}"
        raise UsageError(option, found=error.found, expected=error.expected, fix=error.fix) from None


def _answer(
    *,
    baseline: float,
    sd: float,
    uplift: str | None,
    customers: int | None,
    chance: str,
    control_share: str,
    level: str,
    engagement: str | None,
    explained: str,
) -> tuple[dict[str, Any], str]:
    from dataclasses import replace

    from disco.evaluation import Design

    if uplift is None and customers is None:
        raise UsageError("power", found="neither --uplift nor --customers", expected="one of them, or both")
    arm, certainty = _share(control_share, "--control-share"), _share(level, "--level")
    wanted = _share(chance, "--power")
    if engagement is None:
        design = Design(baseline=baseline, sd=sd, control_share=arm, level=certainty)
    else:
        design = Design.of_purchases(
            baseline=baseline, sd=sd, engagement=_share(engagement, "--engagement"), control_share=arm, level=certainty
        )
    design = replace(design, explained=_share(explained, "--explained"))
    result: dict[str, Any] = {"control_share": arm, "level": certainty, "baseline": design.baseline, "sd": design.sd}
    if uplift is not None and customers is not None:
        difference = _share(uplift, "--uplift")
        found = design.power(difference, customers=customers)
        result |= {"uplift": difference, "customers": customers, "power": found}
        text = f"{customers:,} customers find a difference of {difference:.4g} with a chance of {found:.1%}."
    elif uplift is not None:
        difference = _share(uplift, "--uplift")
        needed = design.customers(difference, power=wanted)
        result |= {"uplift": difference, "power": wanted, "customers": needed} | _arms(needed, arm)
        text = (
            f"{needed:,} customers, of whom {result['control']:,} in control, find a difference of {difference:.4g} "
            f"with a chance of {wanted:.0%}."
        )
    else:
        assert customers is not None  # for the type checker: refused above
        least = design.detectable_uplift(customers=customers, power=wanted)
        result |= {"uplift": least, "power": wanted, "customers": customers} | _arms(customers, arm)
        text = f"{customers:,} customers find a difference of {least:.2%} with a chance of {wanted:.0%}."
    if engagement is not None:
        result["purchasers"] = round(result["customers"] * _share(engagement, "--engagement"))
        text += f" About {result['purchasers']:,} of them buy."
    return result, text


def _arms(customers: int, control_share: float) -> dict[str, int]:
    control = round(customers * control_share)
    return {"control": control, "test": customers - control}


def _share(text: str, option: str) -> float:
    """`1%` or `0.01`."""
    number = text.strip()
    try:
        return float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        raise UsageError(option, found=repr(text), expected="a share such as 1% or 0.01") from None
