"""DPVIm's gradient rules: exact without noise, less noisy with it, and bounded (DPVIm 3.1)."""

import itertools
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpvi.gradients import numbers_of, one_gradient
from noisewise._validate import NoisewiseError
from noisewise.dpvi import (
    Aligned,
    AlignedNatural,
    Constants,
    Dpvi,
    MeansOnly,
    Natural,
    Point,
    Preconditioned,
    Settings,
    Vanilla,
    assemble,
    noise_variance,
)
from noisewise.guides import DiagonalGuide
from noisewise.mechanism import Draws, Mechanism, Passes, clipped_sum, make_grid
from noisewise.models import build_target, identity_frame, logistic
from noisewise.models.conjugate import normal_regression

N, DIM = 40, 3
MAPS = list(itertools.product(("softplus", "exp"), ("sd", "variance")))
WITH_SCALES = (Vanilla, Preconditioned, Natural, Aligned, AlignedNatural)
FREE = jnp.array([-1.5, -0.3, 0.8])
MEANS = jnp.array([0.4, -0.7, 0.1])


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, DIM)).astype(np.float32)
    return {"X": X, "y": rng.integers(0, 2, N).astype(np.float32)}


TARGET = build_target(logistic(), {name: column[:4] for name, column in table().items()})
ROWS = TARGET.prepare(table(), identity_frame(DIM))
EVERYONE = Passes(N, 1)


def constants(rule, beta=7.0):
    precondition = jnp.ones(rule.parameters).at[rule.target.dim :].set(beta)
    return Constants(identity_frame(rule.target.dim), precondition, jnp.ones(rule.target.dim))


def numbers_for(rule, clip_norm, noise=1.0):
    grid = make_grid(clip_norm, rule.released, N, noise)
    noise_scale = jnp.full(rule.released, noise * grid.points)
    return numbers_of(constants(rule), grid, noise_scale, public_count=N)


def everyone(noise):
    """The full batch, and this noise in grid units."""
    return Draws(jnp.arange(N), jnp.int32(0), jnp.int32(N), noise)


@partial(jax.jit, static_argnums=0)
def negative_elbo_gradient(guide, parameters, noise):
    """By autodiff alone: nothing of the rules' own algebra."""
    records = {name: jnp.asarray(column) for name, column in table().items()}

    def loss(parameters):
        mean, free = jnp.split(parameters, 2)
        scale = jnp.exp(free) if guide.scale_map == "exp" else jnp.log1p(jnp.exp(free))
        scale = jnp.sqrt(scale) if guide.of == "variance" else scale
        theta = mean + scale * noise[0]
        data = jax.vmap(TARGET.log_likelihood, (None, 0))(theta, records).sum()
        return -data - TARGET.log_prior(theta) - jnp.sum(jnp.log(scale))

    return jax.jit(jax.grad(loss))(parameters)


@cache
def fisher_matrix(guide):
    """E[score score^T] by Gauss-Hermite quadrature, exact for a Gaussian's quadratic score."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()

    def log_density(parameters, theta):
        mean, free = jnp.split(parameters, 2)
        scale = guide.scale(free)
        return jnp.sum(-0.5 * ((theta - mean) / scale) ** 2 - jnp.log(scale))

    picks = np.array(list(itertools.product(range(5), repeat=DIM)))
    thetas = MEANS + guide.scale(FREE) * nodes[picks]
    scores = jax.vmap(jax.grad(log_density), (None, 0))(jnp.concatenate([MEANS, FREE]), thetas)
    scores = np.asarray(scores, float)
    return (scores * weights[picks].prod(1)[:, None]).T @ scores


@pytest.mark.parametrize("rule_class", WITH_SCALES)
@pytest.mark.parametrize(("scale_map", "of"), MAPS)
@pytest.mark.parametrize("clip_prior", [False, True])
def test_noiseless_gradient_is_the_negative_elbos(rule_class, scale_map, of, clip_prior):
    guide = DiagonalGuide(DIM, scale_map, of)
    rule = rule_class(TARGET, guide)
    parameters, key = jnp.concatenate([MEANS, FREE]), jax.random.PRNGKey(4)
    algorithm, numbers = Dpvi(rule, 1, clip_prior=clip_prior), numbers_for(rule, 60.0)
    draws = everyone(jnp.zeros(rule.released, jnp.int32))
    found = one_gradient(algorithm, EVERYONE, numbers, ROWS, parameters, key, draws)
    noise = jax.random.normal(key, (1, DIM))
    expected = np.asarray(negative_elbo_gradient(guide, parameters, noise), float)
    # Every record is rounded to the grid: at most half a step each, times what follows.
    rounding = np.full(2 * DIM, N * 0.5 * 60.0 / 2**16)
    if rule_class in (Natural, AlignedNatural):
        expected = np.linalg.solve(fisher_matrix(guide), expected)
        information = np.asarray(guide.fisher_information(parameters))
        if rule_class is AlignedNatural:
            rounding[DIM:] *= information[:DIM] / information[DIM:]
    if rule_class in (Aligned, AlignedNatural):
        rounding[DIM:] *= np.abs(noise[0]) * guide.scale_slope(FREE)
    assert (np.abs(found - expected) < rounding + 1e-4 * np.abs(expected).max()).all()


@pytest.mark.parametrize(("scale_map", "of"), MAPS)
def test_the_fisher_information_is_the_quadratures(scale_map, of):
    guide = DiagonalGuide(DIM, scale_map, of)
    parameters = jnp.concatenate([MEANS, FREE])
    built = fisher_matrix(guide)
    assert np.allclose(np.diag(guide.fisher_information(parameters)), built, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("scale_map", "of"), MAPS)
def test_proposition_3_1_scales_are_the_means_times_the_draw(scale_map, of):
    """Record by record, also for a model without closed-form gradients."""
    rng = np.random.default_rng(1)
    rows = {
        "X": rng.normal(size=(N, 2)).astype(np.float32),
        "y": rng.normal(size=N).astype(np.float32),
    }
    target = build_target(normal_regression, {name: column[:4] for name, column in rows.items()})
    guide = DiagonalGuide(target.dim, scale_map, of)
    vanilla, aligned = Vanilla(target, guide), Aligned(target, guide)
    parameters = jnp.concatenate([MEANS, FREE])
    noise = jax.random.normal(jax.random.PRNGKey(0), (1, 3))
    batch = target.prepare(rows, identity_frame(target.dim))
    at = Point(constants(aligned), parameters, noise)
    both = vanilla.record_gradients(at, batch)
    means = aligned.record_gradients(at, batch)
    completed = jax.vmap(lambda g: aligned.complete(at, g))(means)
    assert means.shape == (N, target.dim)
    assert np.allclose(completed, both, rtol=1e-5, atol=1e-5 * np.abs(both).max())


@partial(jax.jit, static_argnums=0)
def noisy_scale_gradients(algorithm, numbers, parameters, seed):
    """4000 of them, with draws and noise of their own: one program for each rule and map."""

    def one(key):
        key_guide, key_noise = jax.random.split(key)
        shock = numbers.noise_scale * jax.random.normal(key_noise, numbers.noise_scale.shape)
        draws = everyone(jnp.rint(shock).astype(jnp.int32))
        found = one_gradient(algorithm, EVERYONE, numbers, ROWS, parameters, key_guide, draws)
        return found[DIM:]

    return jax.vmap(one)(jax.random.split(jax.random.PRNGKey(seed), 4000))


@settings(max_examples=12, deadline=None)
@given(
    free=st.lists(st.floats(-5.0, 3.0), min_size=DIM, max_size=DIM),
    wider=st.floats(1.0, 3.0),
    sigma=st.floats(1.0, 20.0),
    scale_map=st.sampled_from(["softplus", "exp"]),
    seed=st.integers(0, 2**30),
)
def test_theorem_3_1_aligned_scales_are_less_noisy(free, wider, sigma, scale_map, seed):
    """Var of the scales' gradients over draws and noise, where T' <= 1 and C_vanilla >= C_aligned.

    The same draws and shocks for both, 4000 of them: the two variances differ by
    sigma^2 (C^2 - (T' C_a)^2), which five standard errors of a sample variance must not hide.
    """
    guide = DiagonalGuide(DIM, scale_map)
    free = jnp.minimum(jnp.asarray(free, jnp.float32), 0.0 if scale_map == "exp" else 3.0)
    slope = np.asarray(guide.scale_slope(free), float)
    assert (slope <= 1).all()
    parameters, narrow = jnp.concatenate([MEANS, free]), 8.0  # no record's gradient is longer
    variances = {}
    for rule, clip in ((Vanilla(TARGET, guide), wider * narrow), (Aligned(TARGET, guide), narrow)):
        numbers = numbers_for(rule, clip, noise=sigma)
        found = noisy_scale_gradients(Dpvi(rule, 1), numbers, parameters, seed)
        variances[type(rule).__name__] = np.asarray(found, float).var(0)
    expected = sigma**2 * ((wider * narrow) ** 2 - (slope * narrow) ** 2)
    found = variances["Vanilla"] - variances["Aligned"]
    # Products of normals have a kurtosis of nine: their sample variance errs by sqrt(8/4000).
    error = (variances["Vanilla"] + variances["Aligned"]) * np.sqrt(8 / 4000)
    assert (np.abs(found - expected) < 5 * error).all()
    clear = expected > 5 * error
    assert (found[clear] > 0).all()


@partial(jax.jit, static_argnums=(0, 1))
def sums_with_and_without_one(rule, clip_prior, numbers, parameters, noise, rows):
    at = Point(numbers.constants, parameters, noise)
    share = rule.public_gradient(at)[: rule.released] / N if clip_prior else 0.0
    gradients = rule.record_gradients(at, rows, share)
    everybody = jnp.ones(N, bool)
    without = clipped_sum(gradients, everybody.at[0].set(False), numbers.grid)
    return clipped_sum(gradients, everybody, numbers.grid), without


@pytest.mark.parametrize("rule_class", [Aligned, AlignedNatural, Natural])
@pytest.mark.parametrize("clip_prior", [False, True])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4, 1e30, np.inf, np.nan])
def test_one_record_moves_what_is_released_by_at_most_the_clip_norm(rule_class, clip_prior, size):
    rule = rule_class(TARGET, DiagonalGuide(DIM))
    assert rule.released == (2 * DIM if rule_class is Natural else DIM)
    numbers = numbers_for(rule, 0.7)
    parameters = jnp.concatenate([MEANS, FREE])
    noise = jax.random.normal(jax.random.PRNGKey(0), (1, 3))
    rows = {**ROWS, "X": ROWS["X"].at[0].multiply(size)}
    with_it, without = sums_with_and_without_one(rule, clip_prior, numbers, parameters, noise, rows)
    moved = np.asarray(with_it - without, float) * 0.7 / numbers.grid.points
    assert moved.shape == (rule.released,)
    assert np.linalg.norm(moved) <= 0.7


def test_several_draws_cannot_be_aligned():
    rule = Aligned(TARGET, DiagonalGuide(DIM))
    at = Point(constants(rule), jnp.zeros(2 * DIM), jnp.zeros((2, DIM)))
    with pytest.raises(NoisewiseError, match="one guide draw"):
        rule.complete(at, jnp.zeros(DIM))
    for name in ("aligned", "aligned_natural"):
        with pytest.raises(NoisewiseError, match="guide_draws must be 1, got 5"):
            Settings(clip_norm=1.0, rule=name, guide_draws=5, learning_rate=1e-3)


@pytest.mark.parametrize("rule", ["natural", "aligned", "aligned_natural", "vanilla"])
@pytest.mark.parametrize(
    "step", [{"step_factor": 2.0}, {"contraction_rate": 0.01}, {"learning_rate": 1e-3}]
)
def test_assembled_shapes_fit_what_is_released(rule, step):
    asked = Settings(
        clip_norm=0.5,
        rule=rule,
        steps=100,
        prior_precision=np.eye(DIM),
        initial_step_multiplier=3.0,
        **step,
    )
    mechanism = Mechanism(clip_norm=0.5, sampling_rate=0.1, steps=100, noise_multiplier=2.0)
    run = assemble(asked, TARGET, mechanism, N)
    released = DIM if rule.startswith("aligned") else 2 * DIM
    assert noise_variance(run).tolist() == [1.0] * released
    assert run.numbers.noise_scale.shape == (released,)
    for part in (run.numbers.step_size, run.numbers.warm_up_exponent, run.numbers.limit):
        assert part.shape == (2 * DIM,)
    assert run.start.shape == (2 * DIM,)
    assert (run.algorithm.optimiser is not None) == ("learning_rate" in step)


def test_means_only_has_nothing_outside_the_clip():
    rule = MeansOnly(TARGET)
    assert rule.unclipped_gradient(Point(constants(rule), MEANS, jnp.zeros((1, len(MEANS))))) == 0.0
