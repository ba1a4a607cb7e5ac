"""`disco power --baseline … --sd … --uplift 1%`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, show
from disco.records.errors import InputError, UsageError

if TYPE_CHECKING:
    from disco.operations.power import PowerResult


def register(app: typer.Typer) -> None:
    app.command("power", epilog="Example: disco power --baseline 4.20 --sd 18 --uplift 1%")(power)


def power(
    baseline: Annotated[float, typer.Option(help="Mean of the figure in control, per customer.")],
    sd: Annotated[float, typer.Option(help="Its standard deviation between customers.")],
    uplift: Annotated[str | None, typer.Option(help="Relative difference to detect, such as 1%.")] = None,
    customers: Annotated[int | None, typer.Option(help="Customers in both groups together, if that is given.")] = None,
    chance: Annotated[str, typer.Option("--power", help="Wanted probability of detecting it.")] = "80%",
    control_share: Annotated[str, typer.Option(help="Control's share of the customers.")] = "50%",
    level: Annotated[str, typer.Option(help="1 − α of the two-sided test.")] = "95%",
    engagement: Annotated[
        str | None, typer.Option(help="Share that buys; baseline and sd are then per purchaser.")
    ] = None,
    explained: Annotated[str, typer.Option(help="Share of variance that pre-period figures explain (CUPED).")] = "0%",
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """How many customers an A/B test needs, or what a given number of customers can detect.

    With --uplift: the customers needed. With --customers: the smallest uplift they detect. With both: the probability.
    """
    from disco.operations.power import power

    if uplift is None and customers is None:
        raise UsageError("power needs --uplift, --customers, or both")
    with _options():
        found = power(
            baseline=baseline,
            sd=sd,
            uplift=None if uplift is None else _share(uplift, "--uplift"),
            customers=customers,
            power=_share(chance, "--power"),
            control_share=_share(control_share, "--control-share"),
            level=_share(level, "--level"),
            engagement=None if engagement is None else _share(engagement, "--engagement"),
            explained=_share(explained, "--explained"),
        )
    show(found, _text(found, asked=uplift is not None and customers is None), as_json=as_json, quiet=quiet)


def _text(found: "PowerResult", *, asked: bool) -> str:
    """`asked`: how many customers are needed was the question."""
    whom = f"{found.customers:,} customers" + (f" ({found.control:,} of them in control)" if asked else "")
    text = f"{whom} detect an uplift of {_percent(found.uplift)} with a probability of {_percent(found.power)}."
    return text if found.purchasers is None else f"{text} About {found.purchasers:,} of them buy."


def _percent(share: float) -> str:
    """Three figures: 80%, 31.8%, 0.125%."""
    return f"{100 * share:.3g}%" if share < 1 else f"{100 * share:,.0f}%"


@contextmanager
def _options() -> Iterator[None]:
    """Every figure comes from an option, so one that cannot be used is wrong usage."""
    try:
        yield
    except UsageError:
        raise
    except InputError as error:
        option = f"--{error.what.replace('_', '-')}"
        raise UsageError(option, found=error.found, expected=error.expected, fix=error.fix) from None


def _share(text: str, option: str) -> float:
    """`1%` or `0.01`."""
    number = text.strip()
    expected = "a share such as 1% or 0.01"
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        raise UsageError(option, found=repr(text), expected=expected) from None
    if share > 1 and not number.endswith("%"):  # 5 is far more often 5% than 500%
        raise UsageError(option, found=repr(text), expected=expected, fix=f"Did you mean {number}%?")
    return share
