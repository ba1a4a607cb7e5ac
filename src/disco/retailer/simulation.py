"""The simulated retailer: its tables so far, its customers' answers to codes, and, for evaluation only, its truth.

In a folder it is one TABLE.parquet each and retailer.json, which holds the settings and the day reached and is always
replaced last. Rows dated on or after that day are what an interrupted step left behind: every reader here drops them,
so running the same step again gives the same folder.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from disco.records.arrays import Integers, Matrix, Vector
from disco.records.chunks import spread
from disco.records.depths import read_depths
from disco.records.errors import FileFormatError, InputError
from disco.records.files import private_folder, written_whole
from disco.records.ports import Engine
from disco.retailer.answers import answer_tables, positions, read_codes, returns_of
from disco.retailer.draws import BLOCK
from disco.retailer.habits import expected_spending
from disco.retailer.laws import AddedTruth, added, answer_share, follows_laws, placed
from disco.retailer.life import DAY
from disco.retailer.population import block_of_customers, customers_at, log_basket, purchase_probability, response
from disco.retailer.season import day_number
from disco.retailer.settings import FORMAT, ChannelName, RetailerSettings
from disco.retailer.tables import DATED_BY, INSTANT, SCHEMAS, Tables, customers_table, first_order_id, ordinary_rows
from disco.retailer.world import answer_factor, basket_shift, log_mean_factor, moved

STATE = "retailer.json"
TABLES = ("customers", *DATED_BY)
_UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Truth:
    """What evaluation may know and no decision may."""

    depths: tuple[float, ...]
    expected_full_price: Matrix  # (customers, depths): E[F | purchase], exp(b + s·g + σ²/2) in the ordinary world
    purchase_probability: Matrix  # (customers, depths)
    baseline: Vector  # (customers,): b
    elasticity: Vector  # (customers,): s


@dataclass(frozen=True, slots=True)
class Response:
    """What happened from `start` up to, not including, `end`: rows of all customers, and the outcomes of the codes."""

    start: date
    end: date
    outcomes: pa.Table  # purchases with the codes
    orders: pa.Table
    returns: pa.Table
    codes: pa.Table
    site: pa.Table
    shop: "Retailer"  # on the morning of `end`; hand it the next campaign's codes

    def tables(self) -> Tables:
        """The rows to append to the raw tables."""
        return {"orders": self.orders, "returns": self.returns, "codes": self.codes, "site": self.site}

    def append_to(self, folder: str | Path) -> None:
        """Append these rows to the tables of the retailer's folder, and set its day to `end`."""
        folder = Path(folder)
        settings, today = _read_state(folder)
        if (settings, today) != (self.shop.settings, self.start):
            raise InputError(
                str(folder),
                found=f"a simulated retailer on {today}",
                expected=f"the one that answered, on {self.start}",
            )
        with _replacing(folder, tuple(DATED_BY)) as tables:
            for name, rows in self.tables().items():
                column = DATED_BY[name]
                with _whole(folder, name) as path, pq.ParquetFile(path) as old:
                    for place in range(old.num_row_groups):
                        group = old.read_row_group(place)
                        tables.writers[name].write_table(group.filter(pc.less(group[column], _moment(column, today))))
                tables.writers[name].write_table(rows)
        _write_state(self.shop, folder)


@dataclass(frozen=True, slots=True)
class Retailer:
    """A simulated retailer on the morning of `today`. It never changes: `respond` returns the one of a later day.

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
    since_history: Tables = field(repr=False)  # rows dated from the end of the history to today, without customers

    @classmethod
    def simulate(cls, settings: RetailerSettings) -> "Retailer":
        """The retailer at the end of its history. Rows are computed when `tables` or `history` asks for them."""
        none = {name: SCHEMAS[name].empty_table() for name in DATED_BY}
        return cls(settings, settings.calendar.history_end, none)

    @property
    def blocks(self) -> int:
        """How many blocks of customers `history` yields."""
        return -(-self.settings.customers // BLOCK)

    def history(self, *, engine: Engine | None = None) -> Iterator[Tables]:
        """The tables up to the end of the history, block by block: bounded memory for any number of customers.

        engine: what spreads the blocks over threads; None: one thread. The tables are the same.
        """
        return spread(self._block_history, range(self.blocks), engine=engine)

    def _block_history(self, block: int) -> Tables:
        """A pure function of the settings and the block."""
        customers, calendar = block_of_customers(self.settings, block=block), self.settings.calendar
        return {
            "customers": customers_table(customers, settings=self.settings),
            **ordinary_rows(
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
                [*(part[name] for part in parts), *([self.since_history[name]] if name in self.since_history else [])]
            ).combine_chunks()
            for name in parts[0]
        }

    def respond(self, codes: pa.Table) -> Response:
        """Customers answer codes (code_id, customer_id, campaign_id, depth, sent_at, optional expires_at, channel).

        Simulates from today to the day after the last code expires. Customers without a code go on shopping; returns
        come when they are due, also of earlier orders. Codes sent before today are refused, so none is answered twice.
        """
        sent = read_codes(codes, settings=self.settings, today=self.today)
        end = date(1970, 1, 1) + timedelta(days=-(-int(sent.expires_at.max()) // DAY))
        ordinary = [
            ordinary_rows(
                block_of_customers(self.settings, block=block),
                settings=self.settings,
                block=block,
                start=self.today,
                end=end,
            )
            for block in range(self.blocks)
        ]
        answered = answer_tables(sent, settings=self.settings, earlier=self.since_history["codes"])
        if follows_laws(self.settings.world):
            ordinary = self._under_laws(ordinary, answered["codes"])
        rows = {
            name: pa.concat_tables([*(part[name] for part in ordinary), answered[name]]) for name in ("orders", "site")
        }
        due = self._returns_due(answered["orders"], end=end)
        rows["returns"] = pa.concat_tables([*(part["returns"] for part in ordinary), due])
        rows["codes"] = answered["codes"]
        rows["site"] = _one_row_per_day(rows["site"])
        # row order follows from the rows alone, never from the order of the codes handed in
        keys = {
            "orders": ("order_id",),
            "returns": ("order_id",),
            "codes": ("code_id", "customer_id"),  # customers may share a code
            "site": ("customer_id",),
        }
        rows = {
            name: rows[name].sort_by([(column, "ascending") for column in (DATED_BY[name], *key)])
            for name, key in keys.items()
        }
        since_history = {name: pa.concat_tables([self.since_history[name], rows[name]]) for name in DATED_BY}
        return Response(
            start=self.today,
            end=end,
            outcomes=answered["outcomes"].sort_by([("ordered_at", "ascending"), ("event_id", "ascending")]),
            **rows,
            shop=replace(self, today=end, since_history=since_history),
        )

    def _under_laws(self, ordinary: list[Tables], codes: pa.Table) -> list[Tables]:
        """Ordinary rows of a period without the orders that codes keep customers from, and without their returns."""
        sent = pa.concat_tables([self.since_history["codes"], codes])
        kept = []
        for block in ordinary:
            orders = block["orders"].filter(pa.array(placed(block["orders"], sent, settings=self.settings)))
            is_early = pc.less(block["returns"]["order_id"], first_order_id(self.settings.calendar.history_end))
            known = pa.concat_tables([self.since_history["orders"], orders])["order_id"]
            happened = pc.or_(is_early, pc.is_in(block["returns"]["order_id"], value_set=known.combine_chunks()))
            kept.append({**block, "orders": orders, "returns": block["returns"].filter(happened)})
        return kept

    def added(self) -> AddedTruth:
        """What codes have added since the history ended: purchases that happened less those of the same days, with the
        same random numbers, had nobody been sent a code. For evaluation only."""
        without = [
            ordinary_rows(
                block_of_customers(self.settings, block=block),
                settings=self.settings,
                block=block,
                start=self.settings.calendar.history_end,
                end=self.today,
            )["orders"]
            for block in range(self.blocks)
        ]
        orders = self.since_history["orders"]
        return added(orders, pa.concat_tables(without), customers=self.settings.customers)

    def _answer_share(self, index: Integers, offered: tuple[float, ...], day: Integers) -> Matrix:
        """(customers, depths): what remembered codes leave of the chance to answer one that is sent on a day."""
        codes, at = self.since_history["codes"], np.full(index.size, int(day) * DAY)
        return np.column_stack(
            [
                answer_share(
                    codes,
                    customer=index,
                    depth=np.full(index.size, depth),
                    at=at,
                    reference=self.settings.world.reference,
                )
                for depth in offered
            ]
        )

    def _returns_due(self, orders: pa.Table, *, end: date) -> pa.Table:
        """Returns, dated in [today, end), of orders with a campaign code: these and those of earlier periods."""
        past = self.since_history["orders"]
        coded = pa.concat_tables([past.filter(pc.is_valid(past["code"])), orders]).combine_chunks()
        returns = returns_of(coded, settings=self.settings)
        start, stop = (pa.scalar(day_number(day) * DAY, pa.int64()).cast(INSTANT) for day in (self.today, end))
        when = returns["returned_at"]
        return returns.filter(pc.and_(pc.greater_equal(when, start), pc.less(when, stop)))

    def write(
        self,
        folder: str | Path,
        *,
        engine: Engine | None = None,
        after_block: Callable[[], None] = lambda: None,
    ) -> None:
        """All tables up to today and retailer.json. A table appears whole or not at all.

        Rows are streamed, one row group of each table per block, so memory stays bounded. After the first block it is
        known how much the rest will take, and a disk that is too small for it is refused.

        engine: as for `history`; the files are the same. after_block: called once per block of customers written.
        """
        folder = Path(folder)
        try:
            private_folder(folder)
        except OSError as error:
            raise InputError(str(folder), found=error.strerror, expected="a folder that can be written") from None
        with _replacing(folder, TABLES) as tables:
            free = disk_usage(folder).free
            for number, block in enumerate(self.history(engine=engine)):
                for name, rows in block.items():
                    tables.writers[name].write_table(rows)
                if number == 0:
                    _refuse_small_disk(folder, needed=self.blocks * tables.written(), free=free)
                after_block()
            for name, rows in self.since_history.items():
                if rows.num_rows:
                    tables.writers[name].write_table(rows)
            # if the replacing is interrupted, this is no retailer, rather than half of two; and it is known to be ours
            _write_json(folder / STATE, {"format": FORMAT, _UNFINISHED: True})
        _write_state(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> "Retailer":
        """The retailer that a folder holds, on the day it has reached."""
        folder = Path(folder)
        settings, today = _read_state(folder)
        since_history = {}
        for name, column in DATED_BY.items():
            since = pc.field(column) >= _moment(column, settings.calendar.history_end)
            until = pc.field(column) < _moment(column, today)
            with _whole(folder, name) as path:
                if not pq.read_schema(path).equals(SCHEMAS[name]):
                    raise ValueError("columns or types of another table")
                since_history[name] = pq.read_table(path, schema=SCHEMAS[name], filters=since & until)
        return cls(settings, today, since_history)

    def truth(
        self,
        customer_ids: ArrayLike,
        depths: Sequence[float],
        *,
        channel: str = ChannelName.ON_SITE.value,
        on: date | None = None,
    ) -> Truth:
        """The distribution from which answers are drawn, for these customers (rows) and depths (columns).

        on: the day the codes are sent; None: today. It matters only in a world that moves.
        """
        settings, by = self.settings, _channel(channel)
        day = np.array(day_number(self.today if on is None else on))
        offered = read_depths(depths)
        index = positions(customer_ids, settings=settings)
        customers = customers_at(settings, index=index)
        customers = moved(customers, settings=settings, day=day)
        full_price = np.empty((customers.index.size, len(offered)))
        probability = np.empty_like(full_price)
        to_mean = log_mean_factor(settings.baskets.campaign_residual_sd, settings.world.tails)
        for column, depth in enumerate(offered):
            g = response(customers.bend, np.array(depth / settings.curves.depth_scale), curves=settings.curves)
            full_price[:, column] = np.exp(log_basket(customers, g) + basket_shift(settings, day) + to_mean)
            probability[:, column] = purchase_probability(
                customers,
                g,
                settings=settings,
                channel=by,
                lapsed=customers.lapsed,
                factor=answer_factor(settings, day),
            )
        if settings.world.reference:
            probability *= self._answer_share(index, offered, day)
        return Truth(offered, full_price, probability, customers.baseline, customers.elasticity)

    def spending_given_habits(
        self,
        customer_ids: ArrayLike,
        depths: Sequence[float],
        *,
        channel: str = ChannelName.ON_SITE.value,
        on: date | None = None,
    ) -> Matrix:
        """(customers, depths): E[p·F], money per code, for whoever knows a customer's habits and nothing private.

        on: as for `truth`.
        """
        index = positions(customer_ids, settings=self.settings)
        offered, by = read_depths(depths), _channel(channel)
        day = self.today if on is None else on
        expected = expected_spending(self.settings, index=index, depths=offered, channel=by, on=day)
        if self.settings.world.reference:
            expected *= self._answer_share(index, offered, np.array(day_number(day)))
        return expected


def _channel(name: str) -> ChannelName:
    if name not in list(ChannelName):
        raise InputError("channel", found=repr(name), expected=" or ".join(ChannelName))
    return ChannelName(name)


def _one_row_per_day(site: pa.Table) -> pa.Table:
    """Visits caused by a code and ordinary ones on the same day become one row."""
    counts = [name for name in site.column_names if name not in ("customer_id", "day")]
    summed = site.group_by(["customer_id", "day"], use_threads=False).aggregate([(name, "sum") for name in counts])
    return summed.rename_columns({f"{name}_sum": name for name in counts}).select(site.column_names)


def is_simulated(folder: Path) -> bool:
    """Whether the folder's tables were written here, finished or not."""
    state = _read_json(folder / STATE)
    return "format" in state and ("settings" in state or _UNFINISHED in state)


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """Tables that are being written, under temporary names."""

    writers: dict[str, pq.ParquetWriter]
    paths: dict[str, Path]

    def written(self) -> int:
        """Bytes so far, whole row groups."""
        return sum(path.stat().st_size for path in self.paths.values())


@contextmanager
def _replacing(folder: Path, names: tuple[str, ...]) -> Iterator[_Unfinished]:
    """Temporary files, which replace their tables once all of them are complete."""
    tables = _Unfinished({}, {})
    with ExitStack() as files:
        for name in names:
            tables.paths[name] = files.enter_context(written_whole(folder / f"{name}.parquet"))
            tables.writers[name] = files.enter_context(_parquet_writer(tables.paths[name], SCHEMAS[name]))
        yield tables
        for writer in tables.writers.values():
            writer.close()


def _refuse_small_disk(folder: Path, *, needed: int, free: int) -> None:
    """Both in bytes; the tables that they replace are there until the end."""
    if needed > free:
        raise InputError(
            f"The disk of {folder} is too small",
            found=f"{free / 1e9:,.2f} GB free",
            expected=f"about {needed / 1e9:,.2f} GB for the tables",
            fix="Free some space, name a folder on another disk, or simulate fewer customers.",
        )


@contextmanager
def _parquet_writer(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    writer = pq.ParquetWriter(path, schema)
    try:
        yield writer
    finally:
        try:
            writer.close()
        finally:
            writer.is_open = False  # where closing failed (no space), its finalizer would try again and complain


def _write_state(shop: Retailer, folder: Path) -> None:
    state = {"format": FORMAT, "today": shop.today.isoformat(), "settings": json.loads(shop.settings.to_json())}
    _write_json(folder / STATE, state)


def _read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; nothing where there is none, or something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _read_state(folder: Path) -> tuple[RetailerSettings, date]:
    path = folder / STATE
    if not path.is_file():
        raise InputError(
            str(path), found="no such file", expected="a folder made by disco simulate", fix="Run disco simulate first."
        )
    if _UNFINISHED in _read_json(path):
        what = f"The simulation in {folder} was interrupted before all its tables were written"
        raise InputError(what, fix="Run disco simulate again, with --overwrite.")
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        found, today, settings = state["format"], date.fromisoformat(state["today"]), json.dumps(state["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            str(path), found=f"{type(error).__name__}: {error}", expected="format, today and settings"
        ) from None
    if found != FORMAT:
        raise FileFormatError(
            str(path), found=f"format {found}", expected=f"format {FORMAT}", fix="Run `disco simulate` again."
        )
    return RetailerSettings.from_json(settings), today


@contextmanager
def _whole(folder: Path, name: str) -> Iterator[Path]:
    """The file of a table; one that is absent, damaged or of other columns is refused by name."""
    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="the tables beside retailer.json")
    try:
        yield path
    except (pa.ArrowException, ValueError) as error:
        found = str(error).splitlines()[0]
        raise FileFormatError(str(path), found=found, expected="the table as disco simulate wrote it") from None


def _moment(column: str, day: date) -> pa.Scalar:
    """Midnight of a day, or the day itself, as the column's type has it."""
    if column == DATED_BY["site"]:
        return pa.scalar(day, pa.date32())
    return pa.scalar(day_number(day) * DAY, pa.int64()).cast(INSTANT)
