"""Whole private fits of the mixture and of its rival, small; the network's are the estimator's."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.baselines import dp_em, private_line
from noisewise.dpsep import assemble_phases, fit_simulated, mixture_phases, phase_mechanisms
from noisewise.mechanism import Budget

SD = 0.5
CENTRES = np.array([[1.5, 0, 0], [-1.5, 0, 0], [0, 1.5, 1.0]])


def mixture(seed, rows=1000):
    rng = np.random.default_rng(seed)
    return (CENTRES[rng.integers(0, 3, rows)] + SD * rng.standard_normal((rows, 3))).astype("f4")


def distance(means):
    return min(np.linalg.norm(means[list(order)] - CENTRES) for order in permutations(range(3)))


def em(X, start, budget, **more):
    return dp_em(X, start, sd=SD, budget=budget, public_count=len(X), **more)


@pytest.mark.slow
def test_a_private_mixture_finds_its_clusters_and_beats_em():
    """Epsilon 2, four starts. Fixed seeds. A posterior sd of one mean is 0.03, noise adds about
    0.05 each over nine of them; a component on the wrong cluster is off by more than 1.5."""
    budget = Budget(epsilon=2.0, delta=1e-5)
    phases = mixture_phases(3, 3, SD, epochs=20)
    mechanisms = phase_mechanisms(phases, budget)
    starts = np.random.default_rng(5).standard_normal((4, 9)).astype("f4")
    tables = np.stack([mixture(seed) for seed in range(4)])

    def one(X, start, key):
        runs = assemble_phases(phases, mechanisms, len(X), start)
        return fit_simulated(runs, {"X": X}, key)

    keys = jax.random.split(jax.random.PRNGKey(2), 4)
    fits = jax.jit(jax.vmap(one))(jnp.asarray(tables), jnp.asarray(starts), keys)
    ours = [distance(np.asarray(mean).reshape(3, 3)) for mean in fits.mean]
    assert np.median(ours) < 0.5
    rivals = []
    for X, start in zip(tables, starts, strict=True):
        fit = em(X, start.reshape(3, 3), budget, radius=3.5, insecure_seed=1)
        rivals.append(distance(fit.means))
    assert fit.certificate.verify().reasons == (
        "not private: insecure_seed=1: whoever knows it can undo the noise",
    )
    assert np.median(ours) < np.median(rivals)


def test_em_without_much_noise_is_em():
    budget = Budget(epsilon=30.0, delta=1e-5)
    fit = em(mixture(0), CENTRES + 0.2, budget, radius=6.0, insecure_seed=0)
    assert distance(fit.means) < 0.15
    assert np.all(fit.variances < 2 * SD**2 / (1000 / 3))


def test_the_private_line_without_much_noise_is_least_squares():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    y = 0.3 + X @ np.array([1.0, -0.5, 0.2]) + 0.1 * rng.standard_normal(2000)
    budget = Budget(epsilon=30.0, delta=1e-5)
    found = private_line(X, y, budget, clip_norm=60.0, insecure_seed=0)
    wanted = np.linalg.lstsq(np.column_stack([np.ones(2000), X]), y, rcond=None)[0]
    assert np.allclose(found.coefficients, wanted, atol=0.03)
