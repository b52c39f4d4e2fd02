"""Are the error bars true? A smoke test; the planning issue's coverage runner does it at scale."""

import numpy as np

import noisewise as nw
from noisewise.models.conjugate import beta_bernoulli
from simulated_fits import simulated_scores


def test_z_scores_of_a_hundred_private_fits():
    """Beta-Bernoulli, epsilon 0.1, N = 5000, K = 100 fits from the prior, fixed seed.

    The sd of 100 z-scores has a standard error of 0.07, so a perfectly calibrated posterior leaves
    [0.8, 1.25] with probability below 0.4%, and their mean leaves 0.35 with probability 0.05%.
    """
    scores = simulated_scores(
        beta_bernoulli,
        nw.Schema((nw.Column(name="x", kind="binary"),)),
        nw.Budget(epsilon=0.1, delta=1e-5),
        rows=5000,
        steps=2000,
        fits=100,
        seed=20,
    )
    assert 0.8 < scores.z.std() < 1.25
    assert abs(scores.z.mean()) < 0.35
    # Sharp, not just calibrated: one optimal release of this budget allows 0.040 (logit scale).
    assert np.sqrt((scores.error**2).mean()) < 1.3 * 0.040
