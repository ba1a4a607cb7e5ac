"""How many customers an A/B test needs, and what a given number can show."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from disco.evaluation.estimates import quantile, root_between
from disco.records.arguments import read_number
from disco.records.errors import InputError

_MOST = 1e15  # customers; there are fewer people
_LEAST_SHARE = 1e-9  # of an arm
_SMALLEST_UPLIFT, _LARGEST_UPLIFT = 1e-9, 1e7  # beyond, it is no difference anybody tests for


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A two-sided Welch test of a figure per customer.

    An uplift u multiplies the decided arm's mean by 1 + u. Its sd grows as much where the figure is an amount: every
    basket is larger. Of a rate p it follows from the mean, √(p·(1 − p)), and grows by far less.
    """

    baseline: float  # mean per customer in control
    sd: float  # per customer in control
    control_share: float = 0.5  # control's share of all customers
    explained: float = 0.0  # share of the variance that pre-period figures take away (the R² of CUPED)
    level: float = 0.95  # 1 − α
    is_rate: bool = False  # the figure is 0 or 1; `sd` is then √(p·(1 − p))

    def __post_init__(self) -> None:
        _require_amounts(baseline=self.baseline, sd=self.sd)
        for name, lowest in (("explained", -1e-300), ("level", 0.0)):
            read_number(getattr(self, name), where=name, expected="a share between 0 and 1", above=lowest, below=1)
        expected = "a share between 0 and 1, with at least one in a billion on both sides"
        least, most = _LEAST_SHARE, 1 - _LEAST_SHARE
        read_number(self.control_share, where="control_share", expected=expected, least=least, most=most)

    @classmethod
    def of_purchases(
        cls, *, baseline: float, sd: float, engagement: float, control_share: float = 0.5, level: float = 0.95
    ) -> "Design":
        """Per customer from figures per purchaser: mean e·m, variance e·(s² + m²) − e²·m².

        baseline, sd: m and s, per purchaser. engagement: e, the share of customers who buy.

        >>> design = Design.of_purchases(baseline=40.0, sd=30.0, engagement=0.1)
        >>> round(design.baseline, 9), round(design.sd, 3)
        (4.0, 15.297)
        """
        expected = "a share above 0, at most 1"
        read_number(engagement, where="engagement", expected=expected, above=0, below=np.nextafter(1, 2))
        _require_amounts(baseline=baseline, sd=sd)
        variance = engagement * (sd**2 + baseline**2) - (engagement * baseline) ** 2
        return cls(baseline=engagement * baseline, sd=variance**0.5, control_share=control_share, level=level)

    @classmethod
    def of_rate(cls, rate: float, *, control_share: float = 0.5, level: float = 0.95) -> "Design":
        """Of the share of customers who do something.

        >>> design = Design.of_rate(0.1)
        >>> round(design.sd, 3), design.customers(0.5)
        (0.3, 1366)
        """
        read_number(rate, where="rate", expected="a share above 0 and below 1", above=0, below=1)
        return cls(baseline=rate, sd=(rate * (1 - rate)) ** 0.5, control_share=control_share, level=level, is_rate=True)

    def standard_error(self, customers: float, *, uplift: float = 0.0) -> float:
        """Of the difference of the arms' means, with this many customers in both arms together."""
        read_number(customers, where="customers", expected="a number above 0", above=0)
        share = self.control_share
        parts = 1 / share + self._decided_variance(uplift) / (1 - share)
        return float(self.sd * np.sqrt((1 - self.explained) / customers * parts))

    def _decided_variance(self, uplift: float) -> float:
        """Of the figure in the decided arm, in units of control's."""
        if not self.is_rate:
            return (1 + uplift) ** 2
        rate = self.baseline * (1 + uplift)
        if rate > 1:
            expected = f"at most {100 / self.baseline - 100:.4g}%, with which the rate is 100%"
            raise InputError("uplift", found=f"{100 * uplift:.4g}%", expected=expected)
        return rate * (1 - rate) / self.sd**2

    def power(self, uplift: float, *, customers: float) -> float:
        """P(|z + δ/se| > z_α), δ = uplift·baseline: the chance that the test rejects.

        >>> round(Design(baseline=10.0, sd=20.0).power(0.01, customers=1_268_500), 2)
        0.8
        """
        uplift = _read_uplift(uplift)
        read_number(customers, where="customers", expected="at least 4, two per arm", above=4 - 1e-9)
        shift = abs(uplift) * self.baseline / self.standard_error(customers, uplift=uplift)
        z = quantile(self.level)
        return float(ndtr(shift - z) + ndtr(-shift - z))

    def customers(self, uplift: float, *, power: float = 0.8) -> int:
        """The fewest customers, both arms together, with which the test rejects with this chance."""
        uplift = _read_uplift(uplift)
        if abs(uplift) < _SMALLEST_UPLIFT:
            raise InputError("uplift", found=uplift, expected="a relative difference other than 0, such as 1%")
        self._check_power(power)
        # the other tail only adds chance, so the count of one tail alone is never too small
        one_tail = (quantile(self.level) + max(ndtri(power), 0.0)) / (uplift * self.baseline)
        most = self.standard_error(1.0, uplift=uplift) ** 2 * one_tail**2 + 8
        if not most < _MOST:
            raise InputError("uplift", found=uplift, expected="a difference that some number of customers would show")
        least = int(np.ceil(2 / min(self.control_share, 1 - self.control_share)))  # two in the smaller arm
        if self.power(uplift, customers=least) >= power:
            return least
        fewest = root_between(lambda count: self.power(uplift, customers=count) - power, 4, most, relative=1e-12)
        return int(np.ceil(fewest))

    def detectable_uplift(self, *, customers: int, power: float = 0.8) -> float:
        """The smallest relative difference that this many customers show with this chance."""
        self._check_power(power)
        top = 1 / self.baseline - 1 if self.is_rate else _LARGEST_UPLIFT / 10
        if self.power(top, customers=customers) < power:
            raise InputError(
                "customers",
                found=customers,
                expected=f"enough to find any uplift with a chance of {power:.0%}",
                fix=f"{self.customers(top, power=power):,} are the fewest"
                + (f", for an uplift of {100 * top:,.4g}%." if self.is_rate else "."),
            )
        return root_between(lambda uplift: self.power(uplift, customers=customers) - power, 0.0, top, absolute=1e-15)

    def _check_power(self, power: float) -> None:
        expected = f"a chance between {1 - self.level:g} and 1"
        read_number(power, where="power", expected=expected, above=1 - self.level, below=1)


def _require_amounts(**amounts: float) -> None:
    """Baseline and sd: positive, and of a size whose squares are still numbers."""
    for name, value in amounts.items():
        read_number(value, where=name, expected="a finite number above 0", above=1e-100, below=1e100)


def _read_uplift(uplift: object) -> float:
    expected = "a relative difference above −100%, such as 1%"
    return read_number(uplift, where="uplift", expected=expected, above=-1, below=_LARGEST_UPLIFT)
