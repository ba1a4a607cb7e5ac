"""A check-up of data against a trained network: may decisions be built on these features with this network?

Features are compared over customers with a purchase in the year, as the network was trained on such customers alone.
All inputs are numbers, so the nearest thing to a category never seen is a null where training had none, or a value
beyond the smallest and largest of training.
"""

from collections.abc import Iterator

import pyarrow as pa

from disco.features.catalogue import HISTORY_FEATURE
from disco.features.check_rows import check_rows, say
from disco.features.diagnostics import dead_units
from disco.features.embedding import Embedding
from disco.features.history import known_rows
from disco.features.network import ContextNetwork
from disco.features.rows import is_numeric, near_column, schema_of, table_matrix
from disco.records.diagnosis import CheckUp, Diagnosis, Outcome
from disco.records.errors import InputError

MOST_DEAD = 0.5  # share of context units that may be dead before the context fails


def check_context(network: ContextNetwork, features: pa.Table) -> CheckUp:
    """Look at a feature table (as `build_features` gives it) through a trained network.

    Nothing is raised for what is wrong with the features: every problem is a diagnosis, and `.failed` says whether
    there is one that decisions should not be built on.
    """
    embedding = network.embedding_
    unusable = tuple(_unusable_columns(embedding, features))
    found: list[Diagnosis] = [*_dead(embedding), *_schema(embedding, features), *unusable]
    if unusable:
        found.append(
            say(
                "drift, range and context",
                Outcome.SKIPPED,
                "",
                "columns that cannot be used",
                "every column the network was trained on",
            )
        )
        return CheckUp(tuple(found))
    try:
        matrix = table_matrix(features, embedding.feature_names)
    except InputError as error:
        found.append(
            say("columns", Outcome.FAILED, error.what, str(error.found), str(error.expected), "Mend the value.")
        )
        return CheckUp(tuple(found))
    rows = matrix[known_rows(matrix, embedding.feature_names)]
    if HISTORY_FEATURE in embedding.feature_names:
        found.extend(_history(len(rows), len(matrix)))
    if len(rows):
        found.extend(check_rows(embedding, rows))
    return CheckUp(tuple(found))


def _unusable_columns(embedding: Embedding, features: pa.Table) -> Iterator[Diagnosis]:
    for name in embedding.feature_names:
        times = features.column_names.count(name)
        if times != 1:
            close = near_column(name, features, embedding.feature_names)
            fix = f"Is it the column {close}?" if close and not times else "Build the features with the same catalogue."
            yield say(
                "columns",
                Outcome.FAILED,
                name,
                f"it {times} times" if times else "no such column",
                "the column once",
                fix,
            )
        elif not is_numeric(features.schema.field(name).type):
            kind = features.schema.field(name).type
            yield say(
                "columns", Outcome.FAILED, name, f"the type {kind}", "numbers", "Convert the column back to numbers."
            )


def _schema(embedding: Embedding, features: pa.Table) -> Iterator[Diagnosis]:
    here, trained = schema_of(features), embedding.schema
    if not here or not trained:
        yield say("schema", Outcome.SKIPPED, "", "a table or a network without a schema hash", "the same hash on both")
    elif here != trained:
        fix = "Build the features with the catalogue of the training, or train the network again."
        yield say("schema", Outcome.FAILED, "", f"features of schema {here}", f"schema {trained}", fix)
    else:
        yield say("schema", Outcome.OK, "", f"schema {here}", "the network's")


def _dead(embedding: Embedding) -> Iterator[Diagnosis]:
    dead, share = dead_units(embedding), len(dead_units(embedding)) / embedding.dimensions
    outcome = Outcome.OK if not dead else Outcome.WATCH if share < MOST_DEAD else Outcome.FAILED
    yield Diagnosis(
        check="dead units",
        where=", ".join(f"unit {unit + 1}" for unit in dead),
        outcome=outcome,
        found=f"{len(dead)} of {embedding.dimensions} context units constant in training",
        expected="none",
        fix="Train again with a larger `leak`, another seed or fewer dimensions." if dead else "",
        figure=share,
    )


def _history(known: int, rows: int) -> Iterator[Diagnosis]:
    share = known / rows if rows else 0.0
    yield Diagnosis(
        check="history",
        where=HISTORY_FEATURE,
        outcome=Outcome.OK if share >= 0.5 else Outcome.WATCH if known else Outcome.FAILED,
        found=f"{known:,} of {rows:,} customers with a purchase in the year",
        expected="at least half of them",
        fix="" if share >= 0.5 else "The others all get the population's context; is the table of orders complete?",
        figure=share,
    )
