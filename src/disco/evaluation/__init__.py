"""Would it have worked? Accuracy, replay and off-policy estimates, A/B read-out, and judgement by a simulated truth."""

from disco.evaluation.ab_test import AbTest, Finding, Verdict, ab_test
from disco.evaluation.accuracy import Accuracy, accuracy
from disco.evaluation.arms import ArmSummary, SampleRatio
from disco.evaluation.comparison import Comparison, Mean, compare, compare_adjusted
from disco.evaluation.estimate import Estimate, mean_estimate, ratio_estimate
from disco.evaluation.log import RandomisationWarning, RandomLog, random_log
from disco.evaluation.monotonicity import Monotonicity, monotonicity
from disco.evaluation.off_policy import OffPolicy, off_policy, target_probabilities
from disco.evaluation.own_log import decision_propensities
from disco.evaluation.power import Design
from disco.evaluation.replay import replay
from disco.evaluation.replay_pass import UnconstrainedLearner
from disco.evaluation.replay_result import BatchSeries, PolicyReplay, Replay
from disco.evaluation.sequential import always_valid_quantile, to_date
from disco.evaluation.truth import Judgement, judge
from disco.evaluation.uplift import Uplift, uplift

__all__ = [
    "AbTest",
    "Accuracy",
    "ArmSummary",
    "BatchSeries",
    "Comparison",
    "Design",
    "Estimate",
    "Finding",
    "Judgement",
    "Mean",
    "Monotonicity",
    "OffPolicy",
    "PolicyReplay",
    "RandomLog",
    "RandomisationWarning",
    "Replay",
    "SampleRatio",
    "UnconstrainedLearner",
    "Uplift",
    "Verdict",
    "ab_test",
    "accuracy",
    "always_valid_quantile",
    "compare",
    "compare_adjusted",
    "decision_propensities",
    "judge",
    "mean_estimate",
    "monotonicity",
    "off_policy",
    "random_log",
    "ratio_estimate",
    "replay",
    "target_probabilities",
    "to_date",
    "uplift",
]
