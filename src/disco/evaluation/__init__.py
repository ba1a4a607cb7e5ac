"""Would it have worked? Accuracy, replay and off-policy estimates, A/B read-out, and judgement by a simulated truth."""

from disco.evaluation.accuracy import Accuracy, accuracy
from disco.evaluation.estimate import Estimate, mean_estimate, ratio_estimate
from disco.evaluation.log import RandomisationWarning, RandomLog, random_log
from disco.evaluation.off_policy import OffPolicy, off_policy, target_probabilities
from disco.evaluation.replay import replay
from disco.evaluation.replay_pass import UnconstrainedLearner
from disco.evaluation.replay_result import BatchSeries, PolicyReplay, Replay
from disco.evaluation.truth import Judgement, judge
from disco.evaluation.uplift import Uplift, uplift

__all__ = [
    "Accuracy",
    "BatchSeries",
    "Estimate",
    "Judgement",
    "OffPolicy",
    "PolicyReplay",
    "RandomLog",
    "RandomisationWarning",
    "Replay",
    "UnconstrainedLearner",
    "Uplift",
    "accuracy",
    "judge",
    "mean_estimate",
    "off_policy",
    "random_log",
    "ratio_estimate",
    "replay",
    "target_probabilities",
    "uplift",
]
