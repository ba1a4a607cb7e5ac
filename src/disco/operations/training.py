"""Features into a file, the context network from orders, and a basket model from the rows of a log."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from disco.belief import BasketModel
from disco.evaluation.accuracy import Accuracy, accuracy
from disco.features import ContextNetwork, Feature, files
from disco.features.builder import FeatureRequest, missing_tables
from disco.features.catalogue import (
    AS_OF_KEY,
    FEATURES_KEY,
    TABLES_KEY,
    choose,
    feature_names_of,
    from_text,
    with_written,
    written_in,
)
from disco.features.files import read_schema, write_batches
from disco.features.network import WITH_ENGAGEMENT
from disco.features.on_engine import MOST_CUSTOMERS, batches_by, sampled_batches
from disco.features.training_set import (
    OWN_CODES,
    TrainingSet,
    TrainingTables,
    late_codes,
    months_later,
    opened_training,
    unsent_codes,
    with_history,
)
from disco.operations.networks import BETTER, NetworkComparison
from disco.operations.purchases import net_purchases
from disco.operations.replay import read_log
from disco.records.arguments import refuse_protected
from disco.records.errors import DiscoError, InputError, UsageError
from disco.records.files import temporary_folder
from disco.records.identity import places_in
from disco.records.maturity import BY_EXPIRY, Maturity
from disco.records.ports import Engine, TableEngine, Tables
from disco.records.result import Result
from disco.records.tables import END_DAY, FIRST_DAY
from disco.store import Store

OpenTables = Callable[[str], AbstractContextManager[Tables]]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FeaturesResult(Result):
    """Features of every customer, written to a file."""

    file: str
    """The file that was written."""
    as_of: date
    """Only rows dated before this day count."""
    customers: int
    """Number of customers."""
    features: int
    """Columns beside customer_id."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ContextTrained(Result):
    """A trained context network."""

    file: str
    """The file that was written."""
    heads: str
    """What the network predicts: level, level+slope, or level+slope+engagement. Where there are not enough codes it may
    be less than was asked for; a warning says so."""
    dimensions: int
    """Numbers in a customer's context."""
    epochs: int
    """Passes over the rows until training stopped."""
    validation_mse: float | None
    """Smallest mean squared error of ln(full price) on rows kept out of training."""
    codes: int
    """Matured codes that it learned engagement from."""
    validation_log_loss: float | None
    """Smallest mean log loss on codes of customers kept out of training; null without such codes or the head."""
    test: Accuracy | None
    """Accuracy on the month after the window; null where its orders are not there."""
    comparison: NetworkComparison | None
    """With the network in use, on past campaigns; null where there is none, or fewer than two campaigns."""
    written: bool
    """Whether the file was written: with `only_better`, only where the new network would have been better."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BasketTrained(Result):
    """A basket model from rows of a log; the shop's own model stays as it is."""

    file: str
    """The file that was written."""
    purchases: int
    """Rows with a full price."""
    hash: str
    """Names the model: equal models have equal hashes."""


def write_features(
    open_tables: OpenTables,
    place: str,
    *,
    as_of: date,
    out: Path,
    features: Sequence[Feature] | None = None,
    threads: int | None = None,
    memory_limit: str | None = None,
    engine: TableEngine | None = None,
) -> FeaturesResult:
    """Write the features of every customer of the tables at `place` (a folder or a database URL) to a Parquet file.

    engine: computes them bucket by bucket where there are many customers; None: one program does, with these threads
    and this limit of memory. The file has the same bytes.
    """
    request = FeatureRequest(as_of=as_of, features=features, threads=threads, memory_limit=memory_limit)
    with open_tables(place) as source, batches_by(engine, source, request) as (schema, batches):
        notes = missing_tables(request.chosen, source.names())
        if "://" not in place:  # a URL may hold a password
            schema = with_written(schema, TABLES_KEY, str(Path(place).resolve()))
        rows = files.write_features(out, schema, _somebody((batch.cast(schema) for batch in batches), place, as_of))
    return FeaturesResult(file=str(out), as_of=as_of, customers=rows, features=len(schema) - 1, warnings=notes)


def _somebody(batches: Iterator[pa.RecordBatch], place: str, as_of: date) -> Iterator[pa.RecordBatch]:
    """The batches; without a single customer in them nothing is written."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        yield batch
    if not rows:
        raise InputError(
            f"customers in {place}",
            found=f"none who joined before {as_of}",
            expected="at least one",
            fix="Fill the table, or choose a later --as-of.",
        )


def maturity_of(store: Store) -> Maturity:
    """When codes have matured in a shop: those of its own campaigns on the day on which `learn` counts them."""
    with store.reading() as transaction:
        records = transaction.plans.campaigns()
    return Maturity(own={one.campaign: None if one.recalled_at else one.matures_on for one in records})


def own_codes(store: Store, *, today: date) -> pa.Table:
    """The codes that the shop's own campaigns sent at their launch, as `OWN_CODES`.

    Of campaigns that have matured and of which outcomes came; codes of a recalled one had less time than the others.
    """
    parts = [OWN_CODES.empty_table()]
    with store.reading() as transaction:
        for record in transaction.plans.campaigns():
            if record.recalled_at is not None or record.matures_on > today:
                continue
            applied = transaction.ledger.applied(record.campaign)
            if not applied.num_rows:
                continue
            sent = transaction.decisions.of(record.campaign)
            sent = sent.filter(pc.and_(sent["code"].is_valid(), pc.invert(sent["late"])))
            bought = net_purchases(applied)
            codes = sent["code"].combine_chunks()
            used = places_in(codes, among=bought.code.filter(pa.array(bought.full_price_minor > 0))).is_valid()
            day = datetime.combine(record.plan.valid.start, time())
            columns = [codes, sent["customer_id"], pa.repeat(record.campaign, len(codes)), sent["depth"]]
            parts.append(pa.table([*columns, pa.array([day] * len(codes), pa.timestamp("us")), used], schema=OWN_CODES))
    return pa.concat_tables(parts)


def train_context(
    network: ContextNetwork,
    open_tables: OpenTables,
    *,
    out: Path,
    features: Path | None = None,
    tables: str | None = None,
    window_start: date | None = None,
    months: int = 3,
    catalogue: Sequence[Feature] | None = None,
    maturity: Maturity = BY_EXPIRY,
    own: pa.Table | None = None,
    most_customers: int = MOST_CUSTOMERS,
    threads: int | None = None,
    engine: Engine | None = None,
    cluster: TableEngine | None = None,
    check: Callable[[str | None], None] = lambda tables: None,
    compare: Callable[[ContextNetwork, date | None], NetworkComparison | None] = lambda network, until: None,
    only_better: bool = False,
    protected: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> ContextTrained:
    """Fit `network` to the orders and codes of a window and save it; test it on the month after, where that has orders.

    features: a file of `write_features` as of the window's first day, or rows with log_full_price and depth. tables:
    a folder or database URL; needed with `window_start` where no file of features is given. maturity: when a
    code counts. own: codes of the shop's own campaigns (`own_codes`), which need no table of codes. most_customers: of
    a shop with more, about so many are taken by the hashes of their ids. cluster: computes the features. check: called
    before the training with the place of the tables, which a file of features may name. compare: called with the
    trained network and the end of its window. protected: columns that may not be features. only_better: the file is not
    written where the comparison says that the new network is not better.
    """
    with temporary_folder("train") as folder:
        builder = _Builder(open_tables, cluster, most_customers, threads, folder)
        made = _training_rows(builder, features, tables, window_start, months, catalogue, maturity, own)
        check(made.tables)
        names = feature_names_of(read_schema(made.rows))
        refuse_protected(names, protected, where="features", fix="Leave it out of the features.")
        codes = made.codes if network.heads == WITH_ENGAGEMENT else None
        notes = list(made.notes)
        network.fit(made.rows, codes=codes, progress=progress, warn=lambda note: notes.append(str(note)))
        comparison = None
        try:
            comparison = compare(network, made.end)
        except DiscoError as error:
            notes.append(f"The network could not be compared with the one in use: {error}")
        written = not only_better or comparison is None or comparison.verdict == BETTER
        if written:
            network.save(out)
        tested = None if made.tables is None else _test(network, builder, made, engine)
    return ContextTrained(
        file=str(out),
        heads=network.embedding_.heads,
        dimensions=network.embedding_.dimensions,
        epochs=len(network.validation_losses_),
        validation_mse=min(network.validation_losses_, default=None),
        codes=made.code_count if network.head_ is not None else 0,
        validation_log_loss=min(network.validation_log_losses_, default=None),
        test=tested,
        comparison=comparison,
        written=written,
        warnings=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _TrainingRows:
    """Parquet of training rows; where their tables are and the end of their window, unless they came as a file."""

    rows: Path
    codes: Path | None = None
    """Parquet of matured codes; None without any."""
    code_count: int = 0
    tables: str | None = None
    end: date | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Builder:
    """Who builds training rows, and where."""

    open_tables: OpenTables
    cluster: TableEngine | None
    most_customers: int
    threads: int | None
    folder: Path

    def features(self, tables: str, start: date, chosen: Sequence[Feature] | None) -> Any:
        """Of the day on which a window begins, computed by the cluster, as a dataset of one file; None without one.

        The features of those who are trained on are brought here, and nobody else's.
        """
        if self.cluster is None:
            return None
        file, wanted = self.folder / f"features-{start}.parquet", with_history(choose(chosen))
        with (
            self.open_tables(tables) as source,
            sampled_batches(self.cluster, source, as_of=start, features=wanted, most=self.most_customers) as rows,
        ):
            write_batches(file, *rows)
        return ds.dataset(file, format="parquet")

    def opened(
        self, source: Tables, start: date, end: date, chosen: Sequence[Feature] | None, built: Any
    ) -> AbstractContextManager[TrainingTables]:
        """The tables, ready to be asked for a window. built: its features, where they are there already."""
        request = FeatureRequest(as_of=start, features=chosen, threads=self.threads)
        return opened_training(source, request, window_end=end, built=built, most_customers=self.most_customers)


def _training_rows(
    builder: _Builder,
    features: Path | None,
    tables: str | None,
    start: date | None,
    months: int,
    catalogue: Sequence[Feature] | None,
    maturity: Maturity,
    own: pa.Table | None,
) -> _TrainingRows:
    built: Any = None
    chosen = catalogue
    if features is not None:
        schema = read_schema(features)
        if "log_full_price" in schema.names:
            return _TrainingRows(features)
        as_of = written_in(schema, AS_OF_KEY)
        tables = tables or written_in(schema, TABLES_KEY) or None
        chosen = from_text(written_in(schema, FEATURES_KEY))
        if not as_of:
            raise InputError(str(features), found="no as-of date", expected="a file written by `disco features`")
        if start is not None and str(start) != as_of:
            raise UsageError("--window-start", found=start, expected=f"{as_of}, the date of the features")
        built, start = ds.dataset(features, format="parquet"), date.fromisoformat(as_of)
    if tables is None or start is None:
        raise UsageError("train context needs --features FILE, or --tables DIR with --window-start DATE")
    if not FIRST_DAY <= start < END_DAY:
        raise InputError("training window", found=f"a start on {start}", expected=f"one from {FIRST_DAY} on")
    end = months_later(start, months)
    rows, sent = builder.folder / "rows.parquet", builder.folder / "codes.parquet"
    given = built is not None
    built = built if given else builder.features(tables, start, chosen)
    with (
        builder.open_tables(tables) as source,
        builder.opened(source, start, end, chosen, built) as training,
    ):
        coded = _CodedOrders()
        schema, batches = training.orders()
        count = write_batches(rows, schema, coded.watch(batches))
        codes = write_batches(sent, *training.codes(maturity, own=own))
        notes = () if given else missing_tables(choose(chosen), source.names())
        if "codes" in source.names():
            notes += unsent_codes(coded.all, coded.unknown) + late_codes(*training.late_use(maturity), maturity)
    if not count:
        raise InputError(
            "training window",
            found=f"no orders from {start} up to {end} of customers with a purchase in the year before",
            expected="orders to learn from",
            fix="Take features as of an earlier date: the window begins there.",
        )
    return _TrainingRows(rows, sent if codes else None, codes, tables, end, notes)


class _CodedOrders:
    """Counts, while rows of orders pass, those with a code and those whose code the table of codes does not have."""

    def __init__(self) -> None:
        self.all, self.unknown = 0, 0

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            unknown = pc.sum(batch["depth_derived"]).as_py() or 0
            self.unknown += unknown
            with_code = pc.or_(batch["depth_derived"], pc.greater(batch["depth"], 0.0))
            self.all += pc.sum(with_code).as_py() or 0
            yield batch


def _test(network: ContextNetwork, builder: _Builder, made: _TrainingRows, engine: Engine | None) -> Accuracy | None:
    """Accuracy on the month after the window; None where it has no orders."""
    assert made.tables is not None  # for the type checker: rows that came as a file are not tested
    assert made.end is not None
    start, after, chosen = made.end, months_later(made.end, 1), network.catalogue_
    built = builder.features(made.tables, start, chosen)
    with (
        builder.open_tables(made.tables) as source,
        builder.opened(source, start, after, chosen, built) as training,
    ):
        test = TrainingSet.of(*training.orders())
    if len(test) < 2:
        return None
    return accuracy(network.predict(test.X, test.depth, engine=engine), test.log_full_price)


def train_basket_on_log(
    prior: BasketModel, log: Path, *, context: Sequence[str], out: Path, engine: Engine | None = None
) -> BasketTrained:
    """Update the prior with the purchases of a log (Parquet: context columns, depth, full_price) and save the model."""
    rows = read_log(log, context=context, check_balance=False)
    purchases = int(rows.bought.sum())
    if not purchases:
        raise InputError(str(log), found="no row with a full_price", expected="at least one purchase to learn from")
    model = prior.update(
        rows.context[rows.bought],
        rows.depth[rows.bought],
        rows.full_price[rows.bought],
        campaign=log.stem,
        engine=engine,
    )
    model.save(out)
    return BasketTrained(file=str(out), purchases=purchases, hash=model.hash)
