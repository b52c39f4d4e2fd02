"""From an attack's scores to what epsilon must at least be: arrays in, numbers out.

An attacker looks at a release and guesses whether a record was in it, by whether a score lies above
a threshold. Clopper-Pearson bounds say, of every threshold at once, how often such guesses can at
most be wrong either way; a claim of privacy says how often they must at least be.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from noisewise.mechanism.accounting import gaussian_epsilon

_CENTRAL = (-1.0, 0.0, 1.0)
_TAIL = (2.0, 3.0)
THRESHOLDS = np.array([*_CENTRAL, *_TAIL])
"""In sds of the score, chosen beforehand. The law of the score is known if the claim is true, so
nothing is gained by choosing among more, or by setting trials aside to choose with."""


class Bounds(NamedTuple):
    """Least epsilons that an attack has shown, together with the confidence that was asked for."""

    gaussian: float
    """By the central thresholds, with the errors at all others those of a Gaussian mechanism."""
    threshold: float
    """By one threshold alone: no assumption on the mechanism, and hardly ever tight."""

    @property
    def epsilon(self) -> float:
        """What has been shown."""
        return max(self)


def most_likely_rate(count: int, trials: int, alpha: float) -> float:
    """Clopper and Pearson's upper bound of a rate, wrong with probability ``alpha`` at most.

    >>> round(most_likely_rate(0, 100, 0.05), 4), most_likely_rate(100, 100, 0.05)
    (0.0295, 1.0)
    """
    if count == trials:
        return 1.0
    return float(stats.beta.isf(alpha, count + 1, trials - count))


def lower_bounds(
    absent: np.ndarray, present: np.ndarray, scale: float, delta: float, alpha: float
) -> Bounds:
    """What epsilon at ``delta`` must at least be, wrong with probability ``alpha`` at most.

    Args:
        absent: Scores of releases without the record (or with the one, under replace-one).
        present: Scores with it (or with the other); as large as the likelihood ratio says.
        scale: Sd of the scores, if the claim is true.
        delta: Of the claim.
        alpha: Shared out over all thresholds and both kinds of error (Bonferroni).
    """
    each = alpha / (2 * len(THRESHOLDS))
    errors = []
    for threshold in scale * THRESHOLDS:
        alarms = most_likely_rate(int(np.sum(absent > threshold)), len(absent), each)
        misses = most_likely_rate(int(np.sum(present <= threshold)), len(present), each)
        errors.append((alarms, misses))
    central = errors[: len(_CENTRAL)]
    mu = max(float(stats.norm.isf(alarms) + stats.norm.isf(misses)) for alarms, misses in central)
    found = [_epsilon(*pair, delta) for pair in errors] + [
        _epsilon(*p[::-1], delta) for p in errors
    ]
    return Bounds(gaussian_epsilon(mu, delta), max(found))


def _epsilon(alarms: float, misses: float, delta: float) -> float:
    """The least epsilon for which 1 - misses <= e^epsilon alarms + delta."""
    hits = 1 - delta - misses
    return math.log(hits / alarms) if hits > alarms else 0.0
