"""Row weights: a factor on a record's log-likelihood and gradient, which the model never sees."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from noisewise.data import Column, Schema
from noisewise.models import Glm, Target, build_target, identity_frame, mixture
from noisewise.models.target import WEIGHT

N = 12
WEIGHTS = np.array([0, 0.5, 1, 2.5] * 3, np.float32)


def regression_rows(broken=False):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    y = rng.integers(0, 2, N).astype(np.float32)
    if broken:
        X[WEIGHTS == 0], y[WEIGHTS == 0] = np.nan, np.nan
    return {"X": X, "y": y}


def mixture_target():
    schema = Schema(
        (
            Column(name="ward", kind="category", categories=("a", "b", "c")),
            Column(name="visits", kind="count", bounds=(0, 9), mean=2, sd=2),
            Column(name="ill", kind="binary"),
        )
    )
    made = schema.simulate(np.random.default_rng(0), N)
    rows = {n: c.astype(np.int32) for n, c in made.items()}
    return build_target(mixture(2).of(schema, "ill"), rows), rows


def moments(target, rows, draws=2):
    noise = jax.random.normal(jax.random.PRNGKey(0), (draws, target.dim))
    frame = identity_frame(target.dim)
    found = jax.jit(target.record_moments)(frame, 0.3 * noise, noise, target.prepare(rows, frame))
    return [np.asarray(each) for each in found]


PLAIN = ("logistic", "probit", "poisson", "linear", "negative-binomial")
CASES = [*PLAIN, "mixture"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("closed", [True, False])
def test_moments_are_multiplied_by_the_weight(name, closed):
    if name == "mixture":
        target, rows = mixture_target()
    else:
        rows = regression_rows()
        target = build_target(Glm(name), rows)
    if not closed:
        target = Target(target.model, target.layout, target.example)
    plain = moments(target, rows)
    with_weights = moments(target, rows | {WEIGHT: WEIGHTS})
    for without, found in zip(plain, with_weights, strict=True):
        assert np.allclose(found, WEIGHTS[:, None] * without, rtol=1e-5, atol=1e-6)
        assert np.abs(without[WEIGHTS == 0]).max() > 0
        assert not found[WEIGHTS == 0].any()


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("name", ["logistic", "linear"])
def test_rows_of_weight_zero_may_hold_anything(name, closed):
    target = build_target(Glm(name), regression_rows())
    if not closed:
        target = Target(target.model, target.layout, target.example)
    whole = moments(target, regression_rows() | {WEIGHT: WEIGHTS})
    broken = moments(target, regression_rows(broken=True) | {WEIGHT: WEIGHTS})
    for one, other in zip(whole, broken, strict=True):
        assert np.array_equal(one, other)


def test_first_and_second_derivatives_of_a_silent_record_are_zero():
    def model(x, y=None):
        rate = numpyro.sample("rate", dist.LogNormal(0, 1))
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.Exponential(rate * jnp.sqrt(x)), obs=y)

    rows = {"x": np.ones(4, np.float32), "y": np.ones(4, np.float32)}
    target, theta = build_target(model, rows), jnp.zeros(1)
    # 1/0 of an infinite rate: neither value nor derivatives are numbers.
    record = {"x": jnp.float32(jnp.inf), "y": jnp.float32(jnp.nan)}
    value = target.log_likelihood
    assert not np.isfinite(jax.grad(value)(theta, record)).all()
    silent = record | {WEIGHT: jnp.float32(0)}
    assert value(theta, silent) == 0
    assert jax.grad(value)(theta, silent) == 0
    assert jax.hessian(value)(theta, silent) == 0


def test_simulation_keeps_weights_and_does_not_look_at_them():
    target = build_target(Glm("poisson"), regression_rows())
    key, theta = jax.random.PRNGKey(1), jnp.zeros(3)
    plain = target.simulate(key, theta, regression_rows())
    found = target.simulate(key, theta, regression_rows() | {WEIGHT: WEIGHTS})
    assert np.array_equal(found["y"], plain["y"])
    assert np.array_equal(found[WEIGHT], WEIGHTS)


def test_a_model_is_the_same_with_and_without_weights():
    rows = regression_rows()
    assert build_target(Glm("logistic"), rows | {WEIGHT: WEIGHTS}) is build_target(
        Glm("logistic"), rows
    )


@pytest.mark.parametrize("name", ["linear", "mixture"])
def test_prepared_rows_without_weights_have_none(name):
    if name == "mixture":
        target, rows = mixture_target()
    else:
        rows = regression_rows()
        target = build_target(Glm(name), rows)
    assert WEIGHT not in target.prepare(rows, identity_frame(target.dim))
