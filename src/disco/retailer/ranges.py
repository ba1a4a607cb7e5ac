"""Which numbers the retailer's settings may hold."""

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from disco.records.errors import InputError

if TYPE_CHECKING:
    from disco.retailer.settings import RetailerSettings

_SHARES = {  # by group: values that are shares in [0, 1]
    "habits": ("habit_noise", "joined_during_history", "lapsed"),
    "curves": ("elasticity_from_habits",),
    "engagement": ("from_habits",),
}
_CORRELATIONS = {  # values in [−1, 1]
    "curves": ("elasticity_with_baseline",),
    "engagement": ("with_spend",),
    "ordinary_codes": ("confounding",),
}
_POSITIVE = {
    "calendar": ("weekend_lift",),
    "habits": ("missions_per_month", "item_price", "return_days", "most_return_days", "browse_days_per_month"),
    "baskets": ("residual_sd", "campaign_residual_sd"),
    "curves": ("depth_scale", "concave_rate", "steepness", "ramp"),
    "on_site": ("valid_days", "delay_days"),
    "email": ("valid_days", "delay_days"),
}


def check_ranges(settings: "RetailerSettings") -> None:
    """Every number finite, and inside the range its meaning allows."""
    for group in ("calendar", "habits", "baskets", "curves", "engagement", "on_site", "email", "ordinary_codes"):
        part = getattr(settings, group)
        for each in fields(part):
            value, where = getattr(part, each.name), f"{group}.{each.name}"
            if not isinstance(value, int | float):
                continue
            if not math.isfinite(value):
                raise InputError(where, found=value, expected="a finite number")
            low = -1.0 if each.name in _CORRELATIONS.get(group, ()) else 0.0
            if each.name in _SHARES.get(group, ()) + _CORRELATIONS.get(group, ()) and not low <= value <= 1:
                raise InputError(where, found=value, expected=f"a number from {low:g} to 1")
            if each.name in _POSITIVE.get(group, ()) and value <= 0:
                raise InputError(where, found=value, expected="a positive number")
            if each.name.endswith(("_sd", "spread")) and value < 0:
                raise InputError(where, found=value, expected="a spread of 0 or more")
    curves = settings.curves
    reach = curves.midpoint_spread + curves.ramp / 2
    if not reach <= curves.midpoint <= 1 - reach:
        raise InputError(
            "curves.midpoint",
            found=curves.midpoint,
            expected="every rise inside [0, 1]: midpoint ± (midpoint_spread + ramp / 2)",
        )
    if abs(sum(share for _, share in settings.countries) - 1) > 1e-9:
        raise InputError("countries", found=settings.countries, expected="shares that add up to 1")
    if not settings.habits.orders_per_mission >= 1:
        raise InputError("habits.orders_per_mission", found=settings.habits.orders_per_mission, expected="at least 1")
    if settings.baskets.mission_sd > settings.baskets.residual_sd:
        raise InputError(
            "baskets.mission_sd", found=settings.baskets.mission_sd, expected="at most residual_sd, which it is part of"
        )
