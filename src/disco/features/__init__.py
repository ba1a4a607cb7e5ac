"""Retailer tables → 76 features per customer → context vector ψ1. The only room that imports torch, only to train."""

from disco.features.builder import build_features
from disco.features.catalogue import FEATURES, Feature, schema_hash
from disco.features.check import check_context
from disco.features.network import ContextNetwork
from disco.features.rows import has_history
from disco.features.snapshot import Snapshot
from disco.features.training_rows import CodesSent
from disco.features.training_set import TrainingSet, training_set

__all__ = [
    "FEATURES",
    "CodesSent",
    "ContextNetwork",
    "Feature",
    "Snapshot",
    "TrainingSet",
    "build_features",
    "check_context",
    "has_history",
    "schema_hash",
    "training_set",
]
