"""Every feature against plain Python that reads the same tables row by row."""

import datetime as dt
import math
import statistics

import pyarrow as pa
import pytest

from disco.features import FEATURES, build_features

AS_OF = dt.date(2026, 3, 1)


def rows_before(table: pa.Table, column: str, *, days: int | None = 365) -> list[dict]:
    kept = []
    for row in table.to_pylist():
        when = row[column]
        day = when.date() if isinstance(when, dt.datetime) else when
        age = (AS_OF - day).days
        if age >= 1 and (days is None or age <= days):
            kept.append({**row, "age": age})
    return kept


def reference(tables: dict[str, pa.Table], customer: int) -> dict[str, float | None]:
    """The catalogue's meanings once more, in plain Python and floats, for one customer."""
    orders = [row for row in rows_before(tables["orders"], "ordered_at") if row["customer_id"] == customer]
    every_order = {row["order_id"]: row for row in rows_before(tables["orders"], "ordered_at", days=None)}
    returns = [
        {**row, "delay": every_order[row["order_id"]]["age"] - row["age"]}
        for row in rows_before(tables["returns"], "returned_at")
        if every_order.get(row["order_id"], {}).get("customer_id") == customer
    ]
    back: dict[str, float] = {}
    for row in rows_before(tables["returns"], "returned_at", days=None):
        back[row["order_id"]] = back.get(row["order_id"], 0) + row["value"]
    depth = {row["code_id"]: row["depth"] for row in rows_before(tables["codes"], "sent_at", days=None)}
    codes = [row for row in rows_before(tables["codes"], "sent_at") if row["customer_id"] == customer]
    for row in codes:
        used = row["redeemed_at"]
        row["used_age"] = (AS_OF - used.date()).days if used and used.date() < AS_OF else None
    redeemed = [row for row in codes if row["used_age"] is not None]
    site = [row for row in rows_before(tables["site"], "day") if row["customer_id"] == customer]
    joined = {row["customer_id"]: row["joined_on"] for row in tables["customers"].to_pylist()}

    def near(rows: list[dict], days: int) -> list[dict]:
        return [row for row in rows if row["age"] <= days]

    def total(rows: list[dict], column: str) -> float:
        return sum(row[column] for row in rows)

    def share(part: float, whole: float) -> float | None:
        return part / whole if whole else None

    def mean(values: list[float]) -> float | None:
        return statistics.fmean(values) if values else None

    logs = [math.log(row["full_price"]) for row in orders]
    coded = [row for row in orders if row["code"] is not None]
    plain = [row for row in orders if row["code"] is None]
    depths = [0.0 if row["code"] is None else depth[row["code"]] for row in orders]
    full, paid, returned = (
        total(orders, "full_price"),
        total(orders, "paid"),
        sum(back.get(o["order_id"], 0) for o in orders),
    )
    out: dict[str, float | None] = {}
    for days in (365, 90, 30, 7):
        out[f"orders_{days}d"] = len(near(orders, days))
        out[f"visits_{days}d"] = total(near(site, days), "visits")
        out[f"codes_received_{days}d"] = len(near(codes, days))
    for days in (365, 90, 30):
        out[f"spend_{days}d"] = total(near(orders, days), "full_price")
        out[f"returns_{days}d"] = len(near(returns, days))
        out[f"codes_redeemed_{days}d"] = sum(row["used_age"] <= days for row in redeemed)
    for days in (365, 90):
        out[f"basket_mean_{days}d"] = mean([row["full_price"] for row in near(orders, days)])
        out[f"items_{days}d"] = total(near(orders, days), "items")
        out[f"returned_value_{days}d"] = total(near(returns, days), "value")
    for days in (365, 30):
        out[f"views_{days}d"] = total(near(site, days), "views")
        out[f"add_to_bag_{days}d"] = total(near(site, days), "add_to_bag")
    ages = [row["age"] for row in orders]
    out |= {
        "paid_365d": paid,
        "basket_log_mean_365d": mean(logs),
        "basket_log_sd_365d": statistics.stdev(logs) if len(logs) > 1 else None,
        "basket_max_365d": max((row["full_price"] for row in orders), default=None),
        "basket_min_365d": min((row["full_price"] for row in orders), default=None),
        "basket_last": max(orders, key=lambda row: row["ordered_at"])["full_price"] if orders else None,
        "items_per_order_365d": share(total(orders, "items"), len(orders)),
        "item_price_mean_365d": share(full, total(orders, "items")),
        "days_since_last_order": min(ages, default=366),
        "days_since_first_order": max(ages, default=366),
        "days_between_orders": (max(ages) - min(ages)) / (len(ages) - 1) if len(ages) > 1 else None,
        "active_months_365d": len({(age - 1) // 30 for age in ages}),
        "weekend_order_share_365d": share(sum(o["ordered_at"].weekday() >= 5 for o in orders), len(orders)),
        "evening_order_share_365d": share(sum(o["ordered_at"].hour >= 18 for o in orders), len(orders)),
        "spend_share_90d": share(total(near(orders, 90), "full_price"), full),
        "tenure_days": (AS_OF - joined[customer]).days,
        "returned_value_mean_365d": mean([row["value"] for row in returns]),
        "returned_value_max_365d": max((row["value"] for row in returns), default=0),
        "returned_order_share_365d": share(sum(back.get(o["order_id"], 0) > 0 for o in orders), len(orders)),
        "returned_value_share_365d": share(returned, paid),
        "fully_returned_share_365d": share(sum(back.get(o["order_id"], 0) >= o["paid"] for o in orders), len(orders)),
        "days_since_last_return": min((row["age"] for row in returns), default=366),
        "return_delay_mean_days": mean([row["delay"] for row in returns]),
        "kept_per_order_365d": share(paid - returned, len(orders)),
        "redemption_rate_365d": share(len(redeemed), len(codes)),
        "depth_received_mean_365d": mean([row["depth"] for row in codes]),
        "depth_redeemed_mean_365d": mean([row["depth"] for row in redeemed]),
        "depth_redeemed_max_365d": max((row["depth"] for row in redeemed), default=None),
        "days_since_last_code": min((row["age"] for row in codes), default=366),
        "days_since_last_redemption": min((row["used_age"] for row in redeemed), default=366),
        "redemption_delay_mean_days": mean([row["age"] - row["used_age"] for row in redeemed]),
        "coded_order_share_365d": share(len(coded), len(orders)),
        "markdown_365d": full - paid,
        "coded_basket_mean_365d": mean([row["full_price"] for row in coded]),
        "uncoded_basket_mean_365d": mean([row["full_price"] for row in plain]),
        "coded_basket_premium_365d": (
            mean([math.log(row["full_price"]) for row in coded]) - mean([math.log(row["full_price"]) for row in plain])
            if coded and plain
            else None
        ),
        "saves_365d": total(site, "saves"),
        "checkouts_365d": total(site, "checkouts"),
        "site_days_365d": len(site),
        "views_per_visit_365d": share(total(site, "views"), total(site, "visits")),
        "bag_rate_365d": share(total(site, "add_to_bag"), total(site, "views")),
        "checkout_rate_365d": share(total(site, "checkouts"), total(site, "add_to_bag")),
        "days_since_last_visit": min((row["age"] for row in site), default=366),
        "orders_per_visit_365d": share(len(orders), total(site, "visits")),
    }
    if orders:
        middle, centre = statistics.fmean(depths), statistics.fmean(logs)
        cross = sum((d - middle) * (y - centre) for d, y in zip(depths, logs, strict=True))
        out["basket_depth_slope_365d"] = cross / (sum((d - middle) ** 2 for d in depths) + 0.1)
    else:
        out["basket_depth_slope_365d"] = None
    return out


def test_every_feature_agrees_with_plain_python(make_tables, memory_tables):
    tables = make_tables(customers=40, seed=3, start=dt.date(2025, 1, 1), days=480, orders_each=3)  # beyond AS_OF too
    built = build_features(memory_tables(tables), as_of=AS_OF)
    assert built.column_names == ["customer_id", *(feature.name for feature in FEATURES)]
    for row in built.to_pylist():
        expected = reference(tables, row.pop("customer_id"))
        assert set(expected) == set(row)
        for name, value in expected.items():
            if value is None:
                assert row[name] is None, name
            else:
                assert row[name] == pytest.approx(value, abs=3e-5, rel=1e-9), name
