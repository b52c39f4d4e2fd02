"""Gradients by linear parts of a record are those through the model, clipped or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.models import build_target, whitened_frame
from noisewise.models.families import FAMILIES
from noisewise.models.glm import Glm
from noisewise.models.target import WEIGHT
from noisewise.posterior.record_gradients import _ByParts, _OneByOne, record_gradients

RECORDS, WIDTH, ITERATES = 40, 3, 5
LEVELS = ("a", "b", "c", "d")


def outcomes(name, rng):
    if name in ("weibull", "piecewise-exponential"):
        happened = rng.integers(0, 2, RECORDS)
        return np.stack([rng.uniform(0.2, 4.0, RECORDS), happened], axis=1)
    if name in ("softmax", "ordinal"):
        return rng.integers(0, len(LEVELS), RECORDS)
    if name in ("logistic", "probit"):
        return rng.integers(0, 2, RECORDS)
    if name in ("poisson", "negative-binomial"):
        return rng.poisson(2.0, RECORDS)
    return rng.uniform(0.3, 3.0, RECORDS)


def family(name):
    from noisewise.data import Column

    column = Column(name="y", kind="category", categories=LEVELS)
    if name in ("softmax", "ordinal"):
        return FAMILIES[name].of(column)
    if name == "piecewise-exponential":
        time = Column(name="t", kind="real", bounds=(0, 5))
        return FAMILIES[name].of(time, Column(name="e", kind="binary"))
    return FAMILIES[name]


def both_ways(name, weights):
    rng = np.random.default_rng(0)
    X = np.concatenate([np.ones((RECORDS, 1)), rng.normal(size=(RECORDS, WIDTH - 1))], axis=1)
    y = outcomes(name, rng)
    kind = np.int32 if name in ("softmax", "ordinal") else np.float32
    rows = {"X": X.astype(np.float32), "y": y.astype(kind)}
    example = {key: column[:4] for key, column in rows.items()}
    target = build_target(Glm(name, form=family(name)), example)
    if weights:
        rows[WEIGHT] = rng.uniform(0, 2, RECORDS).astype(np.float32) * rng.integers(0, 2, RECORDS)
    rows = {key: jnp.asarray(column) for key, column in rows.items()}
    curvature = 2 * np.eye(target.dim) + 0.3
    frame = whitened_frame(0.2 * rng.normal(size=target.dim), curvature, target.block_sizes())
    quick = record_gradients(target, frame, rows)
    assert isinstance(quick, _ByParts)
    return quick, _OneByOne(target, frame, rows), target.dim, rng


QUICK = [("logistic", False), ("linear", True), ("softmax", False)]
SLOW = [(name, weights) for name in FAMILIES for weights in (False, True)]
SLOW = [pytest.param(*each, marks=pytest.mark.slow) for each in SLOW if each not in QUICK]


@pytest.mark.parametrize(("name", "weights"), [*QUICK, *SLOW])
def test_linear_parts_agree_with_the_model(name, weights):
    quick, plain, dim, rng = both_ways(name, weights)
    points = jnp.asarray(0.3 * rng.normal(size=(RECORDS, dim)), jnp.float32)
    directions = jnp.asarray(rng.normal(size=(RECORDS, dim)), jnp.float32)
    matrix = jnp.asarray(rng.normal(size=(dim, dim)), jnp.float32)
    norms = np.linalg.norm(plain.at(points)[:30], axis=1)
    norms = np.sort(norms[norms > 0])
    middle = len(norms) // 2
    # About half of the records are clipped, and none is just at the norm.
    clip = jnp.float32(norms[middle - 1 : middle + 1].mean())

    def everything(way):
        slopes = way.clipped_jacobians(points[:30], clip, matrix)
        return {
            "gradient": way.at(points),
            "slope": way.along(points, directions),
            "clipped": way.clipped_mean(points[:ITERATES], clip),
            "jacobian": slopes.mean,
            "traces": slopes.traces,
        }

    ours, theirs = jax.jit(lambda: everything(quick))(), jax.jit(lambda: everything(plain))()
    for what, expected in theirs.items():
        size = np.abs(expected).max()
        assert size > 0, what
        np.testing.assert_allclose(ours[what], expected, atol=3e-5 * size, rtol=1e-3, err_msg=what)


def test_gradients_that_are_no_numbers_count_as_nothing():
    """An exponential that overflows, in one record of 40."""
    quick, plain, dim, _ = both_ways("poisson", False)
    far = jnp.zeros((RECORDS, dim)).at[0, 0].set(1e4)
    assert not np.isfinite(plain._gradient(far[0], jax.tree.map(lambda c: c[0], plain.rows))).all()
    for way in (quick, plain):
        assert np.isfinite(way.at(far)).all()
        assert np.isfinite(way.clipped_mean(far[:1], jnp.float32(1.0))).all()
        found = way.clipped_jacobians(far[:5], jnp.float32(1.0), jnp.eye(dim))
        assert np.isfinite(found.mean).all()
