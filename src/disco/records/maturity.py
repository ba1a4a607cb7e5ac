"""When a code counts as used or unused: on its own expiry and a few days of grace, in learning and in training alike.

A campaign of the shop has an end that everybody knows, so `matures_on` is all that learning asks. The table `codes`,
from which a network is trained, has no expiry. `Maturity` says what to take for it: the same day for codes of the
shop's own campaigns, and a number of days after the sending for codes that other systems sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from disco.records.arguments import read_count

GRACE_DAYS = 2
"""An order of a code's last day may be reported a little later."""
UNKNOWN_EXPIRY_DAYS = 7
"""After its sending a code of unknown expiry is used, or counts as unused."""


def matures_on(end: date) -> date:
    """The day on which the last purchase with a code has been reported. end: the first day without it."""
    return end + timedelta(days=GRACE_DAYS)


@dataclass(frozen=True, slots=True)
class Maturity:
    """When each code of the table `codes` has matured. A code is used if it was used before that day.

    >>> spring = Maturity(own={"spring": date(2027, 3, 24)})
    >>> spring.days, Maturity(35).days
    (7, 35)
    """

    fixed_days: int | None = None
    """So many days after its sending every code has matured, whoever sent it; None: as `own` and `days` say."""
    own: Mapping[str, date | None] = field(default_factory=dict)
    """The day on which the codes of a campaign of the shop mature. None: they never do, because it was recalled: the
    time in which its codes could be used was cut short, so they say nothing about who uses one."""

    def __post_init__(self) -> None:
        if self.fixed_days is not None:
            read_count(self.fixed_days, where="maturity_days")
            object.__setattr__(self, "own", {})

    @property
    def days(self) -> int:
        """After the sending of a code whose expiry is not known."""
        return UNKNOWN_EXPIRY_DAYS if self.fixed_days is None else self.fixed_days


BY_EXPIRY = Maturity()
"""Where no campaign of the shop is known, and nothing was set."""
