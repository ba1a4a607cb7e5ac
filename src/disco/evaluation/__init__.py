"""Would it have worked? Accuracy, uplift between arms, and judgement by a simulated truth."""

from disco.evaluation.accuracy import Accuracy, accuracy
from disco.evaluation.truth import Judgement, judge
from disco.evaluation.uplift import Uplift, uplift

__all__ = ["Accuracy", "Judgement", "Uplift", "accuracy", "judge", "uplift"]
