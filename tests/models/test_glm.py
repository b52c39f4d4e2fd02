import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.models import (
    Frame,
    Glm,
    Target,
    build_target,
    identity_frame,
    whitened_frame,
)
from noisewise.models.glm import GlmTarget

PLAIN = ("logistic", "probit", "poisson", "linear")


def made(family, n=40, width=5):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, width)).astype(np.float32)
    y = rng.integers(0, 2, n).astype(np.float32) if family != "linear" else rng.normal(size=n)
    return {"X": X, "y": np.asarray(y, np.float32)}


def whitening(dim, blocks):
    rng = np.random.default_rng(5)
    root = rng.normal(size=(dim, dim)) * 0.3 + np.eye(dim)
    return whitened_frame(rng.normal(size=dim) * 0.2, root @ root.T, blocks)


@pytest.mark.parametrize("family", PLAIN)
@pytest.mark.parametrize("whitened", [False, True])
@pytest.mark.parametrize("draws", [1, 7])
def test_closed_form_equals_the_generic_path(family, whitened, draws):
    rows = made(family)
    fast = build_target(Glm(family, 0.8, 1.5), rows)
    slow = Target(fast.model, fast.layout, fast.example)
    assert isinstance(fast, GlmTarget)
    frame = identity_frame(fast.dim)
    if whitened:
        frame = whitening(fast.dim, fast.block_sizes())
    key = jax.random.PRNGKey(draws)
    noise = jax.random.normal(key, (draws, fast.dim))
    points = 0.3 * noise + 0.1
    ours, theirs = (
        jax.jit(target.record_moments)(frame, points, noise, target.prepare(rows, frame))
        for target in (fast, slow)
    )
    for closed, generic in zip(ours, theirs, strict=True):
        assert closed.shape == (40, fast.dim)
        scale = float(jnp.abs(generic).max())
        assert np.allclose(closed, generic, atol=2e-5 * scale)


@pytest.mark.parametrize("family", PLAIN)
def test_no_array_has_records_draws_and_coordinates_as_axes(family):
    n, width, draws = 40, 5, 7
    target = build_target(Glm(family), made(family, n, width))
    frame = identity_frame(target.dim)
    noise = jnp.ones((draws, target.dim))
    program = jax.make_jaxpr(lambda rows: target.record_moments(frame, noise, noise, rows))(
        target.prepare(made(family, n, width), frame)
    )
    largest = max((np.prod(v.aval.shape) for e in program.jaxpr.eqns for v in e.outvars), default=0)
    assert largest <= n * max(target.dim, draws)


def test_the_frame_goes_there_and_back():
    frame = whitening(6, (5, 1))
    z = jnp.asarray(np.random.default_rng(0).normal(size=(3, 6)), jnp.float32)
    assert np.allclose(frame.from_model(frame.to_model(z)), z, atol=1e-4)
    plain = Frame(jnp.ones(6), None)
    assert np.allclose(plain.from_model(plain.to_model(z)), z, atol=1e-6)


def test_whitening_makes_the_curvature_the_identity():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(4, 4))
    curvature = root @ root.T + np.eye(4)
    factor = np.asarray(whitened_frame(np.zeros(4), curvature, (4,)).factor, float)
    assert np.allclose(factor.T @ curvature @ factor, np.eye(4), atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"family": "tobit"}, "family must be one of"),
        ({"family": "logistic", "prior_scale": float("nan")}, "prior_scale must be"),
        ({"family": "linear", "noise_scale": 0}, "noise_scale must be"),
    ],
)
def test_wrong_models_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Glm(**wrong)
