"""Sites against brute force: the moments of the tilted distribution on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from noisewise._validate import NoisewiseError
from noisewise.dpsep import (
    Diagonal,
    Gaussian,
    LinearSite,
    LogisticSite,
    MixtureSite,
    NetworkSite,
    ProbitSite,
)
from noisewise.dpsep.network import _relu

LIKELIHOODS = {
    "linear": (LinearSite(1, 1.0, 0.6), lambda w, x, y: stats.norm.pdf(y, x * w, 0.6)),
    "probit": (ProbitSite(1), lambda w, x, y: stats.norm.cdf((2 * y - 1) * x * w)),
    "logistic": (LogisticSite(1), lambda w, x, y: expit((2 * y - 1) * x * w)),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("variance", [0.01, 0.5, 4.0])
@pytest.mark.parametrize(("x", "y"), [(1.3, 1.0), (-0.7, 1.0), (2.0, 0.0)])
def test_a_glm_site_matches_the_tilted_moments(name, variance, x, y):
    site, likelihood = LIKELIHOODS[name]
    mean = 0.4
    w = mean + np.sqrt(variance) * np.linspace(-10, 10, 20_001)
    weight = stats.norm.pdf(w, mean, np.sqrt(variance)) * likelihood(w, x, y)
    weight /= weight.sum()
    new_mean = (weight * w).sum()
    new_variance = (weight * (w - new_mean) ** 2).sum()
    cavity = Gaussian(jnp.array([mean]), jnp.array([1 / variance]), jnp.array([variance]))
    batch = {"X": jnp.array([[x]]), "y": jnp.array([y])}
    found = site.updates(cavity, jnp.zeros(0), 10, batch)
    precision = float(found.precision[0, 0])
    assert precision == pytest.approx(1 / new_variance - 1 / variance, rel=2e-3, abs=2e-4)
    gradient = new_mean / new_variance - mean / variance - precision * mean
    assert float(found.gradient[0, 0]) == pytest.approx(gradient, rel=2e-3, abs=2e-4)


def test_a_mixture_site_matches_the_tilted_moments():
    """Moments of each mean under (1 - r) cavity + r (cavity updated by x), in closed form."""
    site = MixtureSite(2, 3, 0.5)
    rng = np.random.default_rng(3)
    means = rng.standard_normal((2, 3))
    roots = rng.standard_normal((2, 3, 3))
    covariances = 0.2 * np.einsum("kij,klj->kil", roots, roots) + 0.1 * np.eye(3)
    x = rng.standard_normal(3)
    logs = [
        stats.multivariate_normal.logpdf(x, m, v + 0.25 * np.eye(3))
        for m, v in zip(means, covariances, strict=True)
    ]
    shares = np.exp(logs - np.logaddexp.reduce(logs))
    family = site.family
    cavity = Gaussian(
        jnp.asarray(means.ravel(), jnp.float32),
        family.pack(jnp.asarray(np.linalg.inv(covariances), jnp.float32)),
        family.pack(jnp.asarray(covariances, jnp.float32)),
    )
    found = site.updates(cavity, jnp.zeros(0), 10, {"X": jnp.asarray(x, jnp.float32)[None]})
    precision = np.asarray(family.matrices(found.precision[0]), float)
    gradient = np.asarray(found.gradient[0], float).reshape(2, 3)
    for j, (m, v, r) in enumerate(zip(means, covariances, shares, strict=True)):
        gain = v @ np.linalg.inv(v + 0.25 * np.eye(3))
        updated, smaller = m + gain @ (x - m), v - gain @ v
        mean = (1 - r) * m + r * updated
        covariance = (1 - r) * v + r * smaller + r * (1 - r) * np.outer(updated - m, updated - m)
        wanted = np.linalg.inv(covariance) - np.linalg.inv(v)
        assert np.allclose(precision[j], wanted, rtol=5e-3, atol=5e-3)
        eta = np.linalg.solve(covariance, mean) - np.linalg.solve(v, m)
        assert np.allclose(gradient[j], eta - wanted @ m, rtol=5e-3, atol=5e-3)
    assert np.allclose(site.assignments(cavity, jnp.asarray(x[None])), shares, atol=1e-4)


@pytest.mark.parametrize(("mean", "variance"), [(0.5, 1.0), (-2.0, 0.5), (3.0, 0.01), (-9.0, 1.0)])
def test_relu_moments(mean, variance):
    a = mean + np.sqrt(variance) * np.linspace(-12, 12, 400_001)
    weight = stats.norm.pdf(a, mean, np.sqrt(variance))
    weight /= weight.sum()
    first = (weight * np.maximum(a, 0)).sum()
    second = (weight * (np.maximum(a, 0) - first) ** 2).sum()
    found = _relu(jnp.array([mean]), jnp.array([variance]))
    assert float(found.mean[0]) == pytest.approx(first, rel=1e-4, abs=1e-12)
    assert float(found.variance[0]) == pytest.approx(second, rel=1e-3, abs=1e-9)


def test_a_network_predicts_what_its_weights_do():
    """Moments against 40,000 draws of the first-layer-certain network: z below five, fixed seed."""
    site = NetworkSite(2, 4)
    mean = site.start(1)
    variance = np.concatenate([np.full(12, 1e-10), np.full(5, 0.3)]).astype(np.float32)
    x = np.array([0.7, -0.4], np.float32)
    found = site.output(jnp.asarray(mean), jnp.asarray(variance), jnp.asarray(x))
    rng = np.random.default_rng(0)
    hidden = np.maximum(mean[:12].reshape(4, 3) @ np.append(x, 1) / np.sqrt(3), 0)
    last = mean[12:] + np.sqrt(0.3) * rng.standard_normal((40_000, 5))
    outputs = last @ np.append(hidden, 1) / np.sqrt(5)
    assert abs(outputs.mean() - float(found.mean)) < 5 * outputs.std() / 200
    assert float(site.forward(jnp.asarray(mean), x[None])[0]) == pytest.approx(float(found.mean))
    assert float(found.variance) == pytest.approx(outputs.var(), rel=5 * np.sqrt(2 / 40_000))


def test_packing_keeps_norms_and_comes_back():
    family = MixtureSite(3, 4, 1.0).family
    rng = np.random.default_rng(0)
    square = rng.standard_normal((5, 3, 4, 4))
    square = jnp.asarray(square + square.transpose(0, 1, 3, 2), jnp.float32)
    packed = family.pack(square)
    assert packed.shape == (5, family.packed)
    assert np.allclose(family.matrices(packed), square, atol=1e-6)
    norms = np.sqrt((np.asarray(square) ** 2).sum((1, 2, 3)))
    assert np.allclose(np.linalg.norm(packed, axis=1), norms, rtol=1e-6)


def test_a_site_says_what_it_got():
    site = ProbitSite(3)
    prior = site.prior(jnp.zeros(3), jnp.zeros(3))
    cavity = Gaussian(jnp.zeros(3), prior.precision, site.family.inverse(prior.precision))
    with pytest.raises(NoisewiseError, match="3 coefficients, X 2 columns"):
        site.updates(cavity, jnp.zeros(0), 5, {"X": jnp.ones((1, 2)), "y": jnp.ones(1)})
    assert Diagonal(2).packed == 2
    assert jax.tree.leaves(site.units(cavity, jnp.zeros(0), 5))[0].shape == (9,)
