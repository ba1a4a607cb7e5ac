"""Small shops, and codes for their customers."""

from collections.abc import Callable, Sequence
from datetime import datetime, time, timedelta

import numpy as np
import pyarrow as pa
import pytest

from disco.retailer import Retailer, RetailerSettings
from disco.retailer.settings import Campaign


def campaign_codes(campaign: Campaign, customers: Sequence[int], depths: Sequence[float] | None = None) -> pa.Table:
    """One code per customer; depths in turn unless given one by one."""
    count = len(customers)
    start = datetime.combine(campaign.starts_on, time(8))
    return pa.table(
        {
            "code_id": [f"{campaign.name}{customer:07d}" for customer in customers],
            "customer_id": [f"c{customer:07d}" for customer in customers],
            "campaign_id": [campaign.name] * count,
            "depth": np.resize(campaign.depths, count) if depths is None else np.array(depths, float),
            "sent_at": pa.array([start] * count, pa.timestamp("us")),
            "expires_at": pa.array([start + timedelta(days=campaign.valid_days)] * count, pa.timestamp("us")),
            "channel": [str(campaign.channel)] * count,
        }
    )


@pytest.fixture(scope="session")
def codes_for() -> Callable[..., pa.Table]:
    return campaign_codes


@pytest.fixture(scope="session")
def shop() -> Retailer:
    """12,000 customers: more than one block, the last one not full."""
    return Retailer.simulate(RetailerSettings(customers=12_000, seed=3))


@pytest.fixture(scope="session")
def tables(shop: Retailer) -> dict[str, pa.Table]:
    return shop.tables()
