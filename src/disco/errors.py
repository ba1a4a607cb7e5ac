"""The errors DISCO raises on purpose, for `except disco.errors.InputError`. See `disco.records.errors` for the tree."""

from disco.records.errors import (
    CertificateError,
    DefectError,
    DiscoError,
    FileFormatError,
    IllConditionedError,
    InfeasibleError,
    InputError,
    LimitError,
    MissingPartError,
    PlanError,
    Problem,
    ReportError,
    SchemaMismatchError,
    StateError,
    TableError,
    UsageError,
)

__all__ = [
    "CertificateError",
    "DefectError",
    "DiscoError",
    "FileFormatError",
    "IllConditionedError",
    "InfeasibleError",
    "InputError",
    "LimitError",
    "MissingPartError",
    "PlanError",
    "Problem",
    "ReportError",
    "SchemaMismatchError",
    "StateError",
    "TableError",
    "UsageError",
]
