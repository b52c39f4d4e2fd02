"""The model's own prior after a Gaussian one: against quadrature, in a funnel."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from noisewise.models import build_target, identity_frame
from noisewise.posterior.model_prior import UnderGaussianPrior, under_model_prior

GROUPS, DRAWS = 5, 2000
DIM = GROUPS + 1


def funnel(x=None, ward=None):
    s = numpyro.sample("s", dist.HalfNormal(1))
    a = numpyro.sample("a", dist.Normal(0, s).expand([GROUPS]).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("x", dist.Normal(a[ward], 1), obs=x)


def gaussian(x=None):
    a = numpyro.sample("a", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("x", dist.Normal(a.sum(), 1), obs=x)


def read_with(estimates, variance, prior_sd):
    """What a trace would say under a Gaussian prior of these sds, of five group means known up to
    ``variance``, and nothing of the scale; moved to the model's prior."""
    rows = {"x": np.zeros(4, np.float32), "ward": np.zeros(4, np.int32)}
    prior = np.diag(1 / np.square(prior_sd))
    information = np.diag([0.0, *[1 / variance] * GROUPS])
    covariance = np.linalg.inv(prior + information)
    mean = covariance @ information @ np.array([0.0, *estimates])
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(mean, covariance, DRAWS)
    found = UnderGaussianPrior(mean[None], covariance[None], draws[None])
    target = build_target(funnel, rows)
    return under_model_prior(target, identity_frame(DIM), prior, found, [rng])[0]


@pytest.mark.parametrize("estimates", [(0.9, -1.1, 0.3, 1.6, -0.4), (0.1, -0.05, 0.15, -0.1, 0.02)])
def test_a_group_scale_has_its_own_posterior(estimates):
    """Far from a funnel and inside one. Means and sds of log s and of the first group to 0.15 sds;
    the Monte Carlo error of 2000 draws is about 0.03, and more where moves are small."""
    variance = 0.15**2
    draws = read_with(np.array(estimates), variance, [1.0, *[1.5] * GROUPS])
    log_s = np.linspace(-7, 2, 4001)
    total = np.exp(2 * log_s) + variance
    log = -0.5 * np.exp(2 * log_s) + log_s
    log += sum(-0.5 * np.log(total) - 0.5 * e**2 / total for e in estimates)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = weight @ log_s
    sd = np.sqrt(weight @ log_s**2 - mean**2)
    assert draws[:, 0].mean() == pytest.approx(mean, abs=0.15 * sd)
    assert draws[:, 0].std() == pytest.approx(sd, rel=0.15)
    shrunk = np.exp(2 * log_s) / total * estimates[0]
    group = weight @ shrunk
    spread = np.sqrt(weight @ (variance * np.exp(2 * log_s) / total + shrunk**2) - group**2)
    assert draws[:, 1].mean() == pytest.approx(group, abs=0.15 * spread)
    assert draws[:, 1].std() == pytest.approx(spread, rel=0.15)


def test_a_gaussian_prior_leaves_everything_as_it_is():
    target = build_target(gaussian, {"x": np.zeros(4, np.float32)})
    rng = np.random.default_rng(0)
    found = UnderGaussianPrior(
        np.zeros((1, 3)), np.eye(3)[None] * 0.1, rng.normal(size=(1, 50, 3)) * 0.1**0.5
    )
    moved = under_model_prior(target, identity_frame(3), np.eye(3), found, [rng])
    assert np.array_equal(moved, found.draws)
