"""`ContextNetwork`: the learner around an `Embedding`, with scikit-learn's conventions."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import ArrayLike

from disco.features.catalogue import Feature, from_text
from disco.features.check import rescaled_columns
from disco.features.embedding import Embedding, Scaling, check_sizes
from disco.features.habits import UNITS
from disco.features.rows import (
    FeatureRows,
    array_matrix,
    as_table,
    depth_column,
    schema_of,
    table_matrix,
    table_pieces,
    vector,
)
from disco.features.snapshot import Snapshot, counted, snapshot_of
from disco.features.training import EngagementWarning, FeatureWarning, NetworkFit, Progress, Schedule, fit_embedding
from disco.features.training_rows import (
    DEPTH,
    FEWEST_CODES,
    FEWEST_OF_A_KIND,
    TARGET,
    GivenCodes,
    OrderRows,
    order_rows,
    parquet_dataset,
    parquet_rows,
    read_codes,
)
from disco.features.training_set import TrainingSet
from disco.records.arrays import Matrix, Vector
from disco.records.chunks import row_chunks, stack_rows
from disco.records.errors import FileFormatError, InputError, MissingPartError, SchemaMismatchError, StateError
from disco.records.files import written_whole
from disco.records.ports import Engine
from disco.records.score import EngagementHead, ScoreBins
from disco.records.sealed import digest_of, read_as, read_sealed, refused, sealed_bytes, shortened

HEADS = ("level", "level+slope", "level+slope+engagement")
WITH_ENGAGEMENT = HEADS[-1]
DEVICES = ("auto", "cpu", "cuda")
PIECE_ROWS = 4096  # of 76 columns are 2.5 MB: what is copied from a table is still in the cache when it is read
_ONLY = 'the network was fitted with heads="{}" and does not know who uses a code'
_ONLY_HABITS = "the network knows who uses a code by the codes that each customer used before, and by nothing else"
_MORE_CODES = (
    f"hand in at least {FEWEST_CODES:,} matured codes, of which {FEWEST_OF_A_KIND} were used and as many were not"
)


@dataclass(eq=False)  # no slots: scikit-learn's pipelines and searches put attributes of their own on a step
class ContextNetwork:
    """A network [features → `hidden` → `dimensions` → heads] of ln full price and of who uses a code; its last
    hidden layer is the context ψ1.

    Follows scikit-learn: parameters are the constructor's, `fit` learns, attributes that end in `_` are learned. It
    works as a step of a pipeline or a search.

    >>> rng = np.random.default_rng(1)
    >>> X = rng.lognormal(size=(400, 3))
    >>> network = ContextNetwork(heads="level", max_epochs=3).fit(X, np.log(X[:, 0]) + 3)
    >>> network.transform(X).shape
    (400, 6)
    """

    heads: str = "level+slope+engagement"
    """"level": E[ln F] = b(x), the paper's. "level+slope": E[ln F] = b(x) + s(x)·(depth − mean depth) on the same
    layer, so that the context also carries how a customer responds to depth; `fit` then needs the depth of each order.
    "level+slope+engagement": also whether a code is used at all, logit = h(x) + a constant per campaign + δ·depth;
    `fit` then needs codes that were sent, used or not. Where they are missing it warns and fits what it can.
    """

    hidden: tuple[int, ...] = (64, 16)
    """Units of the hidden layers before the context."""

    dimensions: int = 6
    """Units of the context ψ1."""

    leak: float = 0.3
    """Slope of the activation below 0; 0 is the plain ReLU."""

    dropout: float = 0.2
    """Share of the units left out in each step of training."""

    learning_rate: float = 1e-3
    """Step of Adam."""

    batch_rows: int = 512
    """Orders per step; fewer when there are few."""

    max_epochs: int = 40
    """Passes over the orders at most."""

    patience: int = 4
    """Epochs without a better loss on the customers kept out before training stops."""

    validation_share: float = 0.15
    """Share of the customers kept out of training, whose later orders and whose codes tell when to stop."""

    habits: bool = False
    """Whether two habits of each customer, codes used of those received and the usual basket, join the learned units of
    the context, and the first of them the engagement score (`features.habits`). `transform` then gives `dimensions` + 2
    numbers. Features that do not tell them change nothing."""

    seed: int = 0
    """Of starting weights, dropout and the order of batches; the same seed and rows give the same network."""

    device: str = "auto"
    """"cpu", "cuda", or "auto": a GPU where there is one."""

    _fitted: NetworkFit | None = field(default=None, init=False, repr=False)
    _output: str = field(default="default", init=False, repr=False)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as scikit-learn's `clone` and searches ask for them."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments for the next `fit`, as scikit-learn's searches do; returns the network itself."""
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise InputError("parameter", found=name, expected=" | ".join(_PARAMETERS))
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of a step: a regressor of ln full price that also transforms, and takes nulls.

        `sklearn.base.BaseEstimator` would have it, but costs half a second at every start of the program.
        """
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True),
            transformer_tags=TransformerTags(),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(allow_nan=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def fit(
        self,
        X: FeatureRows | str | Path | ds.Dataset | TrainingSet,
        y: ArrayLike | pa.Array | str | None = None,
        depth: ArrayLike | pa.Array | str | None = None,
        *,
        log_basket: ArrayLike | pa.Array | str | None = None,
        codes: GivenCodes | None = None,
        snapshot: Snapshot | None = None,
        progress: Progress | None = None,
        warn: Callable[[FeatureWarning], None] | None = None,
    ) -> Self:
        """Train on orders in time order. Rows of customers without a purchase in the year are left out.

        X: (orders, features) the buyers' features before their orders, NaN or null = unknown: a table or data frame
            (columns are then known by name), an array, or the path or `pyarrow.dataset` of Parquet rows, which is read
            chunk by chunk; or what `disco.training_set` gives, with its own target, depths and codes.
        y: (orders,) ln of the full price in currency units; with Parquet rows the name of its column, by default
            `log_full_price`. `log_basket` is another name of it.
        depth: (orders,) in [0, 1), 0 without a code, needed by every head but "level"; with Parquet rows the name of
            its column, by default `depth`.
        codes: `CodesSent`, or Parquet rows with the same features and the columns depth, code_used and code_campaign;
            needed by the engagement head and used by no other. Their features are those of the same day.
        snapshot: of all the shop's customers on the day of the features, so that an engagement network can centre
            contexts of another day; by default the one that X carries, as tables of `build_features` do.
        progress: called with (epochs done, epochs at most).
        warn: called with each warning; None: they are Python's (`warnings.warn`).

        Warns (DepthVariationWarning, EngagementWarning, NetworkWarning) where the network is weaker than it should be.
        """
        self.check_parameters()
        y = _one_target(y, log_basket)
        if isinstance(X, TrainingSet):
            if y is not None or depth is not None:
                found, expected = "y or depth beside it", "none: a training set brings its own"
                raise InputError("training set", found=found, expected=expected)
            X, y, depth, codes = X.X, X.log_full_price, X.depth, codes if codes is not None else X.codes
        heads: str = self.heads
        notes: tuple[FeatureWarning, ...] = ()
        if heads == WITH_ENGAGEMENT and depth is None and codes is None and not _has_depths(X):
            heads = "level"
            notes = (EngagementWarning(f"There are no depths and no codes, so {_ONLY.format(heads)}"),)
        rows = self._rows(X, y, depth, needs_depth=heads != "level")
        if snapshot is not None:
            rows = replace(rows, snapshot=snapshot)
        check_sizes((len(rows.names), *self.hidden, self.dimensions))
        sent, few = None, None
        if heads == WITH_ENGAGEMENT:
            if codes is not None:
                sent = read_codes(codes, rows.names, schema=rows.schema, validation_share=self.validation_share)
            if sent is None or sent.too_few:
                few = "There are no codes" if sent is None else f"There are only {sent.too_few}"
                heads, sent = "level+slope", None
        self._fitted = fit_embedding(
            rows,
            hidden=self.hidden,
            dimensions=self.dimensions,
            heads=heads,
            schedule=Schedule(**{part.name: getattr(self, part.name) for part in fields(Schedule)}),
            codes=sent,
            habits=self.habits,
            scores_habits=self.heads == WITH_ENGAGEMENT and heads != "level",
            progress=progress,
        )
        if few is not None:
            known = _ONLY.format(heads) if self.head_ is None else _ONLY_HABITS
            notes = (EngagementWarning(f"{few}, so {known}; {_MORE_CODES}"),)
        for note in notes + self._fitted.notes:
            if warn is None:
                warnings.warn(note, stacklevel=2)
            else:
                warn(note)
        return self

    def snapshot(self, X: FeatureRows) -> Snapshot:
        """Where the features of all the shop's customers stand on a day, for `transform`.

        X: as for `transform`. `build_features` puts the same snapshot into the metadata of its table.
        """
        table, names = as_table(X), self.embedding_.feature_names
        if table is None:
            return Snapshot.of(array_matrix(X, names), names)
        self._check_schema(schema_of(table))
        return counted(table.select([*names]))

    def transform(
        self,
        X: FeatureRows,
        *,
        snapshot: Snapshot | None = None,
        check_scale: bool = True,
        engine: Engine | None = None,
    ) -> Matrix:
        """ψ1 per row: standardised, clipped at ±4, on the 2⁻¹⁶ grid; shape (rows, dimensions). An array, or what
        `set_output` says.

        Customers without a purchase in the year get the population's context, zeros (see `has_history`).

        X: (rows, features), NaN or null = unknown. Columns of a table are found by name, in any order; those of an
            array stand in the order of `feature_names_in_`.
        snapshot: of all the shop's customers on the day of the features; by default the one that X carries. The mean of
            each scaled input is moved from that day's to that of training. A network without an engagement head, or
            trained on rows without a snapshot, leaves the inputs as they are.
        check_scale: refuse a column whose values are, as a whole, many times larger or smaller than in training (pence
            for pounds); judged from a thousand rows on.
        engine: what spreads the rows over threads or machines; None: one thread. The result has the same bits.
        """
        context = self._contexts(X, snapshot=snapshot, check_scale=check_scale, engine=engine)
        if self._output == "default":
            return context
        frame: Any = self._as_frame(context, X)
        return cast(Matrix, frame)

    def _as_frame(self, context: Matrix, X: Any) -> Any:
        names = self.get_feature_names_out().tolist()
        try:
            if self._output == "pandas":
                import pandas

                index = X.index if isinstance(X, pandas.DataFrame) else None
                return pandas.DataFrame(context, columns=names, index=index)
            import polars

            return polars.DataFrame(context, schema=names)
        except ModuleNotFoundError:
            fix = f'Run `pip install {self._output}`, or use `set_output(transform="default")`.'
            raise MissingPartError("set_output", found=f"no {self._output}", expected=self._output, fix=fix) from None

    def _contexts(
        self,
        X: FeatureRows,
        *,
        snapshot: Snapshot | None = None,
        check_scale: bool = True,
        engine: Engine | None = None,
    ) -> Matrix:
        """`transform`, always as an array."""
        names, table = self.embedding_.feature_names, as_table(X)
        if table is None:
            matrix = array_matrix(X, names)
            rows = len(matrix)
        else:
            self._check_schema(schema_of(table))
            rows = table.num_rows
            snapshot = snapshot or snapshot_of(table.schema)

        if check_scale:
            some = row_chunks(rows)[0] if rows else slice(0, 0)
            self._check_scale(matrix[some] if table is None else table_matrix(table.slice(0, some.stop), names))
        embedding, shift = self.embedding_, self.embedding_.shift(snapshot)

        def contexts_of(part: slice) -> Matrix:
            if table is None:
                return embedding.context(matrix[part], shift, first=part.start)
            out, done = np.empty((part.stop - part.start, embedding.dimensions)), 0
            for piece in table_pieces(table.slice(part.start, len(out)), names, size=PIECE_ROWS):
                out[done : done + len(piece)] = embedding.context(piece, shift, first=part.start + done)
                done += len(piece)
            return out

        return stack_rows(contexts_of, rows, engine=engine)

    def check_scale(self, first: pa.Table) -> None:
        """Refuse columns in another unit than in training, as `transform` does with `check_scale`.

        first: the first customers of many who are embedded in parts.
        """
        self._check_schema(schema_of(first))
        self._check_scale(table_matrix(first, self.embedding_.feature_names))

    def fit_transform(
        self,
        X: FeatureRows,
        y: ArrayLike | pa.Array | None = None,
        depth: ArrayLike | pa.Array | None = None,
        *,
        log_basket: ArrayLike | pa.Array | None = None,
        codes: GivenCodes | None = None,
    ) -> Matrix:
        """`fit`, then ψ1 of the same rows; shape (rows, dimensions)."""
        return self.fit(X, y, depth, log_basket=log_basket, codes=codes).transform(X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """What `transform` returns, as scikit-learn's steps have it: "default" (an array), "pandas" or "polars"."""
        if transform not in (None, "default", "pandas", "polars"):
            raise InputError("transform", found=repr(transform), expected='"default", "pandas" or "polars"')
        if transform is not None:
            self._output = transform
        return self

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray[Any, Any]:
        """Names of the context's columns."""
        return np.array([f"context_{number}" for number in range(self.embedding_.dimensions)], dtype=object)

    def engagement_score(
        self, X: FeatureRows, *, snapshot: Snapshot | None = None, engine: Engine | None = None
    ) -> Vector:
        """h(x) per row, on the logit's scale and the 2⁻¹⁶ grid; NaN without a purchase in the year; shape (rows,).

        X, snapshot, engine: as for `transform`.
        """
        if self.head_ is None:
            raise StateError(
                "ContextNetwork",
                found=f'no engagement head (heads="{self.embedding_.heads}")',
                expected=f'heads="{WITH_ENGAGEMENT}"',
                fix="Train the network again, with codes that were sent.",
            )
        return self.head_.scores(self._contexts(X, snapshot=snapshot, engine=engine))

    def predict(
        self,
        X: FeatureRows,
        depth: ArrayLike | float | None = None,
        *,
        snapshot: Snapshot | None = None,
        engine: Engine | None = None,
    ) -> Vector:
        """E[ln full price] per row, shape (rows,): b(x), plus s(x)·(depth − mean depth) where there is a slope head and
        a depth.

        X, snapshot, engine: as for `transform`. depth: (rows,) or one number, in [0, 1).
        """
        context = self._contexts(X, snapshot=snapshot, engine=engine)
        level = self.embedding_.levels(context)
        if depth is None or self.embedding_.heads == "level":
            return level
        depths = depth_column(np.full(len(level), depth) if np.ndim(depth) == 0 else depth, rows=len(level))
        return np.asarray(level + self.embedding_.slopes(context) * (depths - self.embedding_.mean_depth))

    def score(self, X: FeatureRows, y: ArrayLike, depth: ArrayLike | float | None = None) -> float:
        """R² of `predict` on these rows, as scikit-learn's searches ask for it: 1 − Σ(y − ŷ)²/Σ(y − ȳ)²."""
        target = vector(y, rows=np.shape(y)[0], where="y")
        error = target - self.predict(X, depth)
        return float(1 - error @ error / np.sum((target - target.mean()) ** 2))

    def save(self, path: str | Path) -> None:
        """Write the trained network to one safetensors file with a JSON header; replaces the file at once or not at
        all.
        """
        embedding, header = self.embedding_, _header(self)
        tensors = {name: getattr(embedding, name) for name in _VECTORS}
        tensors |= {f"scaling.{name}": getattr(embedding.scaling, name) for name in _SCALES}
        if embedding.engagement is not None:
            head = embedding.engagement
            tensors |= dict(zip(_HEAD, (head.weights, head.bins.edges, head.bins.centres), strict=True))
            if embedding.trained_means is not None:
                tensors[_MEANS] = embedding.trained_means
        sealed = json.dumps({"content": header, "sha256": digest_of(header, tensors)})
        with written_whole(Path(path)) as unfinished:
            unfinished.write_bytes(sealed_bytes("network", sealed, tensors))

    @classmethod
    def load(cls, path: str | Path) -> ContextNetwork:
        """Read a network written by `save`; FileFormatError when it is another kind of file, of another version,
        damaged or forged."""
        file = Path(path)
        if not file.is_file():
            raise FileFormatError(f"context network {file}", found="no such file", expected="a file written by `save`")
        damaged = FileFormatError(
            f"context network {file}",
            expected="an undamaged file written by `ContextNetwork.save`",
            fix="Copy it again from where it was made, or train again.",
        )
        size = file.stat().st_size
        if size > _MOST_BYTES:
            raise FileFormatError(damaged.what, found=f"{size:,} bytes", expected=f"at most {_MOST_BYTES:,}")
        sealed, tensors = read_sealed(file.read_bytes(), entry="network", damaged=damaged)
        return read_as(damaged, lambda: _network(sealed, tensors, damaged))

    @property
    def embedding_(self) -> Embedding:
        """The trained network as a frozen value."""
        if self._fitted is None:
            raise _not_fitted()
        return self._fitted.embedding

    @property
    def head_(self) -> EngagementHead | None:
        """The engagement head: scores from contexts, and the bins in which they are counted. None: it has none."""
        return self.embedding_.engagement

    @property
    def feature_names_in_(self) -> np.ndarray[Any, Any]:
        """Names of the features, in the order in which an array's columns are read."""
        return np.array(self.embedding_.feature_names, dtype=object)

    @property
    def catalogue_(self) -> tuple[Feature, ...]:
        """The definitions of its features, for `build_features`."""
        return from_text(self.embedding_.own_features)

    @property
    def n_features_in_(self) -> int:
        """How many features it was trained on."""
        return len(self.embedding_.feature_names)

    @property
    def validation_losses_(self) -> tuple[float, ...]:
        """Mean squared error of ln full price on the rows kept out, after each epoch."""
        return () if self._fitted is None else self._fitted.losses

    @property
    def validation_log_losses_(self) -> tuple[float, ...]:
        """Mean log loss of the codes of the customers kept out, after each epoch; empty without an engagement head, or
        without such codes."""
        return () if self._fitted is None else self._fitted.log_losses

    def _rows(self, X: Any, y: Any, depth: Any, *, needs_depth: bool) -> OrderRows:
        if isinstance(X, str | Path | ds.Dataset):
            column = DEPTH if needs_depth and depth is None else depth
            return parquet_rows(X, y or TARGET, column, validation_share=self.validation_share)
        if y is None:
            raise InputError(
                "y", found="none", expected="ln full price of each row (`log_full_price` of a training set)"
            )
        if needs_depth and depth is None:
            raise InputError("depth", found="none", expected=f'the depth of each order (heads="{self.heads}")')
        return order_rows(X, y, depth, validation_share=self.validation_share)

    def check_parameters(self) -> None:
        """Refuse a parameter that no network can have."""
        sizes = isinstance(self.hidden, tuple | list) and all(_whole(size) for size in self.hidden)
        for name, right, expected in (
            ("heads", self.heads in HEADS, " | ".join(HEADS)),
            ("hidden", sizes, "layer sizes of at least 1, such as (64, 16)"),
            ("leak", _share(self.leak), "a number in [0, 1)"),
            ("dropout", _share(self.dropout), "a share in [0, 1)"),
            ("learning_rate", _share(self.learning_rate) and self.learning_rate > 0, "a number in (0, 1)"),
            ("validation_share", _share(self.validation_share), "a share in [0, 1)"),
            ("device", self.device in DEVICES, " | ".join(DEVICES)),
            ("habits", isinstance(self.habits, bool), "True or False"),
            ("seed", _whole(self.seed, least=0), "a whole number from 0 to 2⁶³ − 1"),
            *(
                (name, _whole(getattr(self, name)), "a whole number, at least 1")
                for name in ("dimensions", "batch_rows", "max_epochs", "patience")
            ),
        ):
            if not right:
                raise InputError(f"ContextNetwork, {name}", found=repr(getattr(self, name)), expected=expected)

    def _check_schema(self, schema: str) -> None:
        trained = self.embedding_.schema
        if schema and trained and schema != trained:
            raise SchemaMismatchError(
                "feature schema",
                found=schema,
                expected=trained,
                fix="A feature was added, dropped or defined anew: build the features with the catalogue of the "
                "training, or train the network again.",
            )

    def _check_scale(self, rows: Matrix) -> None:
        for name, factor in rescaled_columns(self.embedding_, rows):
            raise SchemaMismatchError(
                f"column {name}",
                found=f"values {factor:.3g} times those of training",
                expected="the unit the network was trained on",
                fix="Convert the column back (money in pounds or euros, not pence or cents; shares, not percent), or "
                "pass check_scale=False if these customers are indeed that different.",
            )


def _not_fitted() -> StateError:
    """scikit-learn asks for its own error too, which is an AttributeError: attributes that end in `_` are not there."""
    from sklearn.exceptions import NotFittedError

    class NetworkNotFittedError(StateError, NotFittedError):  # type: ignore[misc]  # both are exceptions
        """A network that has not learned yet."""

    fix = "Call `fit` first."
    return NetworkNotFittedError("ContextNetwork", found="no weights", expected="a fitted network", fix=fix)


def _one_target(y: Any, log_basket: Any) -> Any:
    if y is not None and log_basket is not None:
        raise InputError("log_basket", found="y as well", expected="one of the two names")
    return log_basket if y is None else y


def _has_depths(X: Any) -> bool:
    """Whether rows on disk have a column of depths."""
    if isinstance(X, str | Path):
        return not Path(X).exists() or DEPTH in parquet_dataset(Path(X)).schema.names
    return isinstance(X, ds.Dataset) and DEPTH in X.schema.names


def _whole(value: object, *, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _share(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and 0 <= float(value) < 1


_PARAMETERS = tuple(parameter.name for parameter in fields(ContextNetwork) if parameter.init)


# ---- on disk: one sealed file (`records.sealed`) ---------------------------------------------------------------------

KIND = "disco context network"
VERSION = 2  # 2: the range of each feature in training, and definitions of own features
ENGAGEMENT_VERSION = 3  # 3: an engagement head; networks without one are written as before
_MOST_BYTES = 2**28  # the largest network that `check_sizes` allows takes less
_VECTORS = ("weights", "mean", "inverse_sd", "level", "slope")
_SCALES = tuple(part.name for part in fields(Scaling))
_HEAD = ("engagement.weights", "engagement.edges", "engagement.centres")
_MEANS = "trained_means"  # absent where the day of training is not known


def _network(sealed: dict[str, Any], tensors: dict[str, Any], damaged: FileFormatError) -> ContextNetwork:
    header, digest = sealed["content"], sealed["sha256"]
    content = json.loads(header)
    kind, version = content["kind"], content["version"]
    if kind != KIND or version not in (VERSION, ENGAGEMENT_VERSION):
        raise FileFormatError(
            damaged.what,
            found=shortened(f"{kind}, version {version}"),
            expected=f"{KIND}, version {VERSION} or {ENGAGEMENT_VERSION}",
            fix="Train the network again.",
        )
    has_head = version == ENGAGEMENT_VERSION
    parts = {*_VECTORS, *(f"scaling.{name}" for name in _SCALES), *(_HEAD if has_head else ())}
    if set(tensors) - ({_MEANS} if has_head else set()) != parts:
        raise refused(damaged, f"the parts {shortened(', '.join(sorted(tensors)), 200)}")
    if digest != digest_of(header, tensors):
        raise refused(damaged, "content that does not match its digest")
    parameters = {**content["parameters"], "hidden": tuple(content["parameters"]["hidden"])}
    network = ContextNetwork(**parameters)
    network.check_parameters()
    for name in ("schema", "own_features"):
        if not isinstance(content[name], str):
            raise InputError(name, found=repr(content[name]), expected="text")
    from_text(content["own_features"])  # definitions that are no features are refused now, not when they are used
    losses, log_losses = tuple(content["validation_losses"]), tuple(content.get("validation_log_losses", ()))
    if not all(isinstance(loss, float) for loss in (*losses, *log_losses)):
        raise InputError("validation_losses", found="something else", expected="numbers")
    sizes = check_sizes(content["sizes"])  # before any of them is multiplied or allocated
    habits = content.get("habit_units", 0)
    if habits not in (0, UNITS) or sizes[1:] != tuple(
        size + habits for size in (*parameters["hidden"], parameters["dimensions"])
    ):
        raise InputError("sizes", found=sizes, expected="features, the units of `hidden`, and `dimensions`")
    embedding = Embedding(
        feature_names=tuple(content["feature_names"]),
        schema=content["schema"],
        own_features=content["own_features"],
        heads=parameters["heads"],
        scaling=Scaling(**{name: tensors[f"scaling.{name}"] for name in _SCALES}),
        sizes=sizes,
        leak=parameters["leak"],
        mean_depth=content["mean_depth"],
        engagement=_head(tensors) if has_head else None,
        trained_means=tensors.get(_MEANS),
        habits=habits,
        **{name: tensors[name] for name in _VECTORS},
    )
    network._fitted = NetworkFit(embedding, losses, log_losses, ())
    if _header(network) != header:
        raise refused(damaged, "a header with other entries, or in another order, than `save` writes")
    return network


def _head(tensors: dict[str, Any]) -> EngagementHead:
    weights, edges, centres = (tensors[name] for name in _HEAD)
    return EngagementHead(weights, ScoreBins(edges, centres))


def _header(network: ContextNetwork) -> str:
    """Everything but the tensors. What was trained counts, also where parameters were set again afterwards."""
    embedding = network.embedding_
    trained = {
        "heads": embedding.heads,
        "hidden": tuple(size - embedding.habits for size in embedding.sizes[1:-1]),
        "dimensions": embedding.dimensions - embedding.habits,
        "leak": embedding.leak,
    }
    has_head = embedding.engagement is not None
    more: dict[str, Any] = {"validation_log_losses": network.validation_log_losses_} if has_head else {}
    parameters = network.get_params() | trained
    if not embedding.habits:  # networks without them are written as before
        del parameters["habits"]
    else:
        more["habit_units"], parameters["habits"] = embedding.habits, True
    return json.dumps(
        {
            "kind": KIND,
            "version": ENGAGEMENT_VERSION if has_head else VERSION,
            "schema": embedding.schema,
            "own_features": embedding.own_features,
            "feature_names": embedding.feature_names,
            "sizes": embedding.sizes,
            "mean_depth": embedding.mean_depth,
            "parameters": parameters,
            "validation_losses": network.validation_losses_,
            **more,
        },
        sort_keys=True,
    )
