"""Would it have worked? Accuracy, replay and off-policy estimates, A/B read-out, and judgement by a simulated truth."""

from disco.evaluation.ab_test import AbTest, Finding, Verdict, ab_test
from disco.evaluation.accuracy import Accuracy, Monotonicity, accuracy, monotonicity
from disco.evaluation.arms import ArmOutcomes, ArmSummary, SampleRatio
from disco.evaluation.estimates import (
    Comparison,
    Mean,
    Uplift,
    always_valid_quantile,
    compare,
    compare_adjusted,
    estimate_around,
    mean_estimate,
    ratio_estimate,
    to_date,
    uplift,
)
from disco.evaluation.log import RandomisationWarning, RandomLog, random_log, read_log
from disco.evaluation.off_policy import OffPolicy, decision_propensities, off_policy, target_probabilities
from disco.evaluation.passes import BatchLimits, Skew, UnconstrainedLearner
from disco.evaluation.pooling import PooledUplift, pool
from disco.evaluation.power import Design
from disco.evaluation.replay import BatchSeries, Player, PolicyReplay, Replay, replay
from disco.evaluation.truth import Judgement, judge
from disco.records.estimate import Estimate

__all__ = [
    "AbTest",
    "Accuracy",
    "ArmOutcomes",
    "ArmSummary",
    "BatchLimits",
    "BatchSeries",
    "Comparison",
    "Design",
    "Estimate",
    "Finding",
    "Judgement",
    "Mean",
    "Monotonicity",
    "OffPolicy",
    "Player",
    "PolicyReplay",
    "PooledUplift",
    "RandomLog",
    "RandomisationWarning",
    "Replay",
    "SampleRatio",
    "Skew",
    "UnconstrainedLearner",
    "Uplift",
    "Verdict",
    "ab_test",
    "accuracy",
    "always_valid_quantile",
    "compare",
    "compare_adjusted",
    "decision_propensities",
    "estimate_around",
    "judge",
    "mean_estimate",
    "monotonicity",
    "off_policy",
    "pool",
    "random_log",
    "ratio_estimate",
    "read_log",
    "replay",
    "target_probabilities",
    "to_date",
    "uplift",
]
