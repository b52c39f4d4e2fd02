"""The full-rank guide, its chain rule (DPVIm sec. 3.1.2), and preconditioning by 1 / T'."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from noisewise._validate import NoisewiseError
from noisewise.dpvi import (
    Aligned,
    Constants,
    Point,
    Preconditioned,
    Settings,
    Vanilla,
    assemble,
    noise_variance,
)
from noisewise.guides import DiagonalGuide, FullRankGuide
from noisewise.mechanism import Mechanism
from noisewise.models import build_target, identity_frame
from noisewise.posterior import FitContext, infer
from tracing import traced

DIM, N = 3, 400
MAPS = ("softplus", "exp")
MEANS = jnp.array([0.4, -0.7, 0.1])
FREE = jnp.array([-1.5, -0.3, 0.8, 0.5, -0.9, 0.2])
PARAMETERS = jnp.concatenate([MEANS, FREE])
NOISE = jax.random.normal(jax.random.PRNGKey(3), (4, DIM))


def known_noise(X, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("people", X.shape[0]):
        numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=y)


def table():
    """Features with correlations of 0.9 and -0.6, so that the weights' posterior has them too."""
    rng = np.random.default_rng(0)
    covariance = np.array([[1, 0.9, 0], [0.9, 1, -0.2], [0, -0.2, 1]])
    X = rng.multivariate_normal(np.zeros(DIM), covariance, N).clip(-3, 3).astype(np.float32)
    return {"X": X, "y": (X @ [0.5, -0.5, 1.0] + rng.normal(size=N)).astype(np.float32)}


ROWS = table()
TARGET = build_target(known_noise, {name: column[:4] for name, column in ROWS.items()})
CONSTANTS = Constants(identity_frame(DIM), jnp.ones(DIM + 6), jnp.ones(DIM))


def factor(scale_map, free):
    """L written out entry by entry."""
    diagonal = jnp.exp(free[:3]) if scale_map == "exp" else jnp.log1p(jnp.exp(free[:3]))
    return jnp.array(
        [
            [diagonal[0], 0.0, 0.0],
            [free[3], diagonal[1], 0.0],
            [free[4], free[5], diagonal[2]],
        ]
    )


@pytest.mark.parametrize("scale_map", MAPS)
def test_points_entropy_and_chain_rule_are_those_of_the_factor(scale_map):
    guide = FullRankGuide(DIM, scale_map)
    assert guide.free == 6
    assert np.allclose(guide.factor(FREE), factor(scale_map, FREE), rtol=1e-6)
    assert np.allclose(
        guide.points(PARAMETERS, NOISE), MEANS + NOISE @ factor(scale_map, FREE).T, rtol=1e-5
    )
    # Eq. (20), by the vector-Jacobian product that autodiff makes of the draw.
    by_mean = jnp.array([1.3, -0.2, 0.7])
    pull = jax.vjp(lambda free: MEANS + factor(scale_map, free) @ NOISE[0], FREE)[1]
    assert np.allclose(guide.chain_rule(PARAMETERS, NOISE[0], by_mean), pull(by_mean)[0], rtol=1e-5)
    many = jnp.stack([by_mean, 2 * by_mean])
    assert np.allclose(
        guide.chain_rule(PARAMETERS, NOISE[0], many)[1], 2 * pull(by_mean)[0], rtol=1e-5
    )
    entropy = jax.grad(lambda free: -jnp.log(jnp.diag(factor(scale_map, free))).sum())(FREE)
    assert np.allclose(guide.entropy_gradient(PARAMETERS)[:DIM], 0)
    assert np.allclose(guide.entropy_gradient(PARAMETERS)[DIM:], entropy, rtol=1e-5)


def negative_elbo_gradient(scale_map, noise):
    records = {name: jnp.asarray(column) for name, column in ROWS.items()}

    def loss(parameters):
        L = factor(scale_map, parameters[DIM:])
        points = parameters[:DIM] + noise @ L.T
        data = jax.vmap(
            lambda w: (
                jax.vmap(TARGET.log_likelihood, (None, 0))(w, records).sum() + TARGET.log_prior(w)
            )
        )(points).mean()
        return -data - jnp.log(jnp.diag(L)).sum()

    return np.asarray(jax.jit(jax.grad(loss))(PARAMETERS), float)


@pytest.mark.parametrize("scale_map", MAPS)
@pytest.mark.parametrize(
    ("rule", "draws"),
    [
        (Vanilla, 4),
        (lambda *both: Preconditioned(*both, by_slope=True), 1),
        (Aligned, 1),
    ],
)
def test_unclipped_gradients_are_the_negative_elbos(rule, draws, scale_map):
    made = rule(TARGET, FullRankGuide(DIM, scale_map))
    noise = NOISE[:draws]
    batch = {name: jnp.asarray(column) for name, column in ROWS.items()}

    @jax.jit
    def whole(batch):
        at = Point(CONSTANTS, PARAMETERS, noise)
        records = made.record_gradients(at, batch)
        return records, made.complete(at, records.sum(0)) + made.public_gradient(at)

    records, found = whole(batch)
    assert records.shape == (N, made.released)
    assert made.released == (DIM if isinstance(made, Aligned) else DIM + 6)
    expected = negative_elbo_gradient(scale_map, noise)
    assert np.allclose(found, expected, rtol=2e-4, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("guide", [DiagonalGuide(DIM), FullRankGuide(DIM)])
def test_slope_preconditioning_brings_scales_to_the_size_of_means(guide):
    """Eq. (17): a record's scale gradients, up to the draw, are those of its means."""
    rule = Preconditioned(TARGET, guide, by_slope=True)
    parameters = jnp.concatenate([MEANS, jnp.asarray(guide.initial(-4.0), jnp.float32)])
    batch = {name: jnp.asarray(column) for name, column in ROWS.items()}
    at = Point(CONSTANTS, parameters, NOISE[:1])
    found = rule.record_gradients(at, batch)
    means, scales = found[:, :DIM], found[:, DIM : 2 * DIM]
    assert np.allclose(scales, means * NOISE[0], rtol=1e-4, atol=1e-5)
    vanilla = Vanilla(TARGET, guide).record_gradients(at, batch)
    again = rule.complete(at, found)
    assert np.allclose(again, vanilla, rtol=1e-4, atol=1e-6)
    # Noise that changes from step to step is no observation with a known variance.
    assert rule.observed == DIM < rule.released


def fitted(rule, guide, **more):
    asked = Settings(
        clip_norm=8.0,
        rule=rule,
        guide=guide,
        steps=4000,
        sampling_rate=0.2,
        learning_rate=5e-3,
        initial_free_scale=-2.0,
        full_curvature=False,
        **more,
    )
    mechanism = Mechanism(clip_norm=8.0, sampling_rate=0.2, steps=4000, noise_multiplier=0.05)
    run = assemble(asked, TARGET, mechanism, N)
    trace = traced(run, TARGET.prepare(ROWS, run.numbers.constants.frame), insecure_seed=1)
    context = FitContext.of(run, asked)
    return infer("averaged", trace, context, 4000, np.random.default_rng(0)), trace


def test_a_nearly_noiseless_fit_finds_the_correlations():
    """Against the exact posterior of a regression with known noise; fixed seed.

    The guide at the mean of the last fifth of the iterates: sds within 8%, correlations within 0.08
    (one draw a step and a fifth of the rows leave the factor that uncertain). The diagonal guide,
    whose optimum is the inverse of the precision's diagonal, must miss the first sd by half.
    """
    precision = ROWS["X"].T @ ROWS["X"] + np.eye(DIM)
    exact = np.linalg.inv(precision)
    sd = np.sqrt(np.diag(exact))
    for rule in ("aligned", "vanilla"):
        tail = fitted(rule, "full_rank")[1].block_means()[80:].mean(0)
        L = np.asarray(factor("softplus", tail[DIM:]), float)
        found = np.sqrt(np.diag(L @ L.T))
        assert np.allclose(found, sd, rtol=0.08)
        correlations = L @ L.T / np.outer(found, found)
        assert np.allclose(correlations, exact / np.outer(sd, sd), atol=0.08)
        optimum = np.linalg.solve(precision, ROWS["X"].T @ ROWS["y"])
        assert (np.abs(tail[:DIM] - optimum) < sd / 3).all()
    alone = fitted("aligned", "diagonal")[0].draws
    assert alone.std(0)[0] < 0.6 * sd[0]


def test_what_is_released_is_the_means_alone_under_aligned():
    mechanism = Mechanism(clip_norm=1.0, sampling_rate=0.1, steps=100, noise_multiplier=2.0)
    for rule, released in (("aligned", DIM), ("vanilla", DIM + 6)):
        asked = Settings(clip_norm=1.0, rule=rule, guide="full_rank", steps=100, learning_rate=1e-3)
        run = assemble(asked, TARGET, mechanism, N)
        assert run.numbers.noise_scale.shape == (released,)
        assert run.start.shape == (DIM + 6,)
        assert (run.start[2 * DIM :] == 0).all()
        assert noise_variance(run).shape == (released,)


def test_the_noise_aware_posterior_reads_a_slope_preconditioned_trace():
    _, trace = fitted("preconditioned", "diagonal", precondition="slope")
    asked = Settings(
        clip_norm=8.0,
        rule="preconditioned",
        precondition="slope",
        steps=4000,
        sampling_rate=0.2,
        learning_rate=5e-3,
        full_curvature=False,
    )
    mechanism = Mechanism(clip_norm=8.0, sampling_rate=0.2, steps=4000, noise_multiplier=0.05)
    run = assemble(asked, TARGET, mechanism, N)
    outcome = infer("exact", trace, FitContext.of(run, asked), 500, np.random.default_rng(0))
    assert outcome.averaged is not None
    assert np.isfinite(outcome.draws).all()


def test_refusals():
    asked = {"clip_norm": 1.0, "learning_rate": 1e-3, "guide": "full_rank"}
    with pytest.raises(NoisewiseError, match="rule natural has no full-rank guide: use one of"):
        Settings(rule="natural", **asked)
    with pytest.raises(NoisewiseError, match="rule means_only has no full-rank guide"):
        Settings(rule="means_only", curvature=np.eye(2), **asked)
    with pytest.raises(NoisewiseError, match="scale_of is 'sd'"):
        Settings(rule="aligned", scale_of="variance", **asked)
    with pytest.raises(NoisewiseError, match="guide must be one of"):
        Settings(rule="aligned", **{**asked, "guide": "banded"})


def test_draws_have_the_factors_covariance():
    """4e4 draws: entries of the covariance within six standard errors; fixed seed."""
    guide = FullRankGuide(DIM)
    L = np.asarray(factor("softplus", FREE), float)
    rng = np.random.default_rng(5)
    draws = guide.draw(np.tile(np.asarray(MEANS, float), (40_000, 1)), np.asarray(FREE), rng)
    expected = L @ L.T
    error = 6 * np.sqrt(2 / 40_000) * np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(np.cov(draws.T) - expected) < error).all()
    each = guide.draw(
        np.zeros((5, DIM)), np.tile(np.asarray(FREE), (5, 1)), np.random.default_rng(1)
    )
    together = guide.draw(np.zeros((5, DIM)), np.asarray(FREE), np.random.default_rng(1))
    assert np.allclose(each, together, rtol=1e-5)
