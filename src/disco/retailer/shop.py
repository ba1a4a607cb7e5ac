"""The simulated retailer: its tables so far, its customers' answers to codes, and, for evaluation only, its truth."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Matrix, Vector
from disco.records.depths import read_depths
from disco.records.errors import InputError
from disco.retailer.answers import answer_tables, returns_of
from disco.retailer.curves import response
from disco.retailer.draws import BLOCK
from disco.retailer.life import DAY
from disco.retailer.population import block_of_customers, customers_at, log_basket, purchase_probability
from disco.retailer.season import day_number
from disco.retailer.sent import positions, read_codes
from disco.retailer.settings import ChannelName, RetailerSettings
from disco.retailer.tables import DATED_BY, INSTANT, SCHEMAS, Tables, customers_table, tell


@dataclass(frozen=True, slots=True)
class Truth:
    """What evaluation may know and no decision may: rows are customers, columns depths.

    `expected_full_price` is E[F | purchase] = exp(b + s·g + σ²/2), before rounding to pennies.
    """

    depths: tuple[float, ...]
    expected_full_price: Matrix
    purchase_probability: Matrix
    baseline: Vector
    elasticity: Vector


@dataclass(frozen=True, slots=True)
class Response:
    """What happened from `start` up to, not including, `end`: everybody's rows, and `outcomes` of the codes.

    `shop` is the retailer on the morning of `end`; hand it the next campaign's codes.
    """

    start: date
    end: date
    outcomes: pa.Table
    orders: pa.Table
    returns: pa.Table
    codes: pa.Table
    site: pa.Table
    shop: "Retailer"

    def tables(self) -> Tables:
        """The rows to append to the raw tables."""
        return {"orders": self.orders, "returns": self.returns, "codes": self.codes, "site": self.site}


@dataclass(frozen=True, slots=True)
class Retailer:
    """A shop on the morning of `today`. It never changes: `respond` returns the shop of a later day.

    >>> shop = Retailer.simulate(RetailerSettings(customers=50, seed=7))
    >>> sorted(shop.tables())
    ['codes', 'customers', 'orders', 'returns', 'site']
    >>> codes = pa.table({"code_id": ["x1"], "customer_id": ["c0000017"], "campaign_id": ["A"], "depth": [0.3],
    ...                   "sent_at": pa.array(["2025-09-09T08:00:00"]).cast(pa.timestamp("us"))})
    >>> later = shop.respond(codes).shop
    >>> print(shop.today, later.today)
    2025-09-01 2025-09-12
    """

    settings: RetailerSettings
    today: date
    lived: Tables = field(repr=False)  # rows dated from the end of the history to today

    @classmethod
    def simulate(cls, settings: RetailerSettings) -> "Retailer":
        """The shop at the end of its history; rows are made when they are asked for."""
        none = {name: SCHEMAS[name].empty_table() for name in DATED_BY}
        return cls(settings, settings.calendar.history_end, none)

    @property
    def blocks(self) -> int:
        return -(-self.settings.customers // BLOCK)

    def history(self) -> Iterator[Tables]:
        """The tables up to the end of the history, block by block: bounded memory for any number of customers."""
        calendar = self.settings.calendar
        for block in range(self.blocks):
            customers = block_of_customers(self.settings, block=block)
            yield {
                "customers": customers_table(customers, settings=self.settings),
                **tell(
                    customers,
                    settings=self.settings,
                    block=block,
                    start=calendar.history_start,
                    end=calendar.history_end,
                ),
            }

    def tables(self) -> Tables:
        """All tables up to today, in memory."""
        parts = list(self.history())
        return {
            name: pa.concat_tables(
                [*(part[name] for part in parts), *([self.lived[name]] if name in self.lived else [])]
            ).combine_chunks()
            for name in parts[0]
        }

    def respond(self, codes: pa.Table) -> Response:
        """Customers answer codes (code_id, customer_id, campaign_id, depth, sent_at, optional expires_at, channel).

        Lives from today to the day after the last code expires. Everybody goes on shopping; returns come when they are
        due, also of earlier orders. Codes sent before today are refused, so nothing is ever answered twice.
        """
        sent = read_codes(codes, settings=self.settings, today=self.today)
        end = date(1970, 1, 1) + timedelta(days=-(-int(sent.expires_at.max()) // DAY))
        ordinary = [
            tell(
                block_of_customers(self.settings, block=block),
                settings=self.settings,
                block=block,
                start=self.today,
                end=end,
            )
            for block in range(self.blocks)
        ]
        answered = answer_tables(sent, settings=self.settings)
        rows = {
            name: pa.concat_tables([*(part[name] for part in ordinary), answered[name]]) for name in ("orders", "site")
        }
        due = self._returns_due(answered["orders"], end=end)
        rows["returns"] = pa.concat_tables([*(part["returns"] for part in ordinary), due])
        rows["codes"] = answered["codes"]
        rows["site"] = _one_row_per_day(rows["site"])
        # row order follows from the rows alone, never from the order of the codes handed in
        keys = {"orders": "order_id", "returns": "order_id", "codes": "code_id", "site": "customer_id"}
        rows = {name: rows[name].sort_by([(DATED_BY[name], "ascending"), (keys[name], "ascending")]) for name in keys}
        lived = {name: pa.concat_tables([self.lived[name], rows[name]]) for name in DATED_BY}
        return Response(
            start=self.today,
            end=end,
            outcomes=answered["outcomes"].sort_by([("ordered_at", "ascending"), ("event_id", "ascending")]),
            **rows,
            shop=replace(self, today=end, lived=lived),
        )

    def _returns_due(self, orders: pa.Table, *, end: date) -> pa.Table:
        """Returns, dated in [today, end), of orders with a campaign code: these and those of earlier periods."""
        past = self.lived["orders"]
        coded = pa.concat_tables([past.filter(pc.is_valid(past["code"])), orders]).combine_chunks()
        returns = returns_of(coded, settings=self.settings)
        start, stop = (pa.scalar(day_number(day) * DAY, pa.int64()).cast(INSTANT) for day in (self.today, end))
        when = returns["returned_at"]
        return returns.filter(pc.and_(pc.greater_equal(when, start), pc.less(when, stop)))

    def write(self, folder: str | Path) -> None:
        """One TABLE.parquet each and retailer.json: settings and day, nothing about single customers."""
        from disco.retailer.files import write  # the files know the shop, so the shop asks for them late

        write(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> "Retailer":
        from disco.retailer.files import load

        return load(Path(folder))

    def truth(
        self, customer_ids: object, depths: Sequence[float], *, channel: str = ChannelName.ON_SITE.value
    ) -> Truth:
        """The law from which answers are drawn, for these customers (rows) and depths (columns)."""
        if channel not in list(ChannelName):
            raise InputError("channel", found=repr(channel), expected=" or ".join(ChannelName))
        settings = self.settings
        offered = read_depths(depths)
        customers = customers_at(settings, index=positions(customer_ids, settings=settings))
        full_price = np.empty((customers.index.size, len(offered)))
        probability = np.empty_like(full_price)
        variance = settings.baskets.campaign_residual_sd**2
        for column, depth in enumerate(offered):
            g = response(customers.bend, np.array(depth / settings.curves.depth_scale), curves=settings.curves)
            full_price[:, column] = np.exp(log_basket(customers, g) + variance / 2)
            probability[:, column] = purchase_probability(
                customers, g, settings=settings, channel=ChannelName(channel), lapsed=customers.lapsed
            )
        return Truth(offered, full_price, probability, customers.baseline, customers.elasticity)


def _one_row_per_day(site: pa.Table) -> pa.Table:
    """Visits caused by a code and ordinary ones on the same day become one row."""
    counts = [name for name in site.column_names if name not in ("customer_id", "day")]
    summed = site.group_by(["customer_id", "day"], use_threads=False).aggregate([(name, "sum") for name in counts])
    return summed.rename_columns({f"{name}_sum": name for name in counts}).select(site.column_names)
