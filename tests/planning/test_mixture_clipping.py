"""Parts of a mixture's gradient are scaled so that clipping takes none for the sake of another."""

import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise.dpvi import Settings, assemble
from noisewise.mechanism import Mechanism
from noisewise.models import bind_model, identity_frame, scaled_frame
from noisewise.planning import mixture_guess
from noisewise.planning.mixture_clipping import _least_clip_norm, _parts
from noisewise.planning.mixture_tables import simulate_table

BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
ROWS = 5000
SCHEMA = nw.Schema(
    (
        nw.Column(name="ward", kind="category", categories=("a", "b", "c", "d")),
        nw.Column(name="smoker", kind="binary"),
        nw.Column(name="days", kind="count", bounds=(0, 100), mean=20, sd=6),
        nw.Column(name="visits", kind="count", bounds=(0, 50), mean=3, sd=3),
    )
)


@pytest.fixture(scope="module")
def ready():
    bound = bind_model("mixture(3)", SCHEMA, "visits", None, None)
    return bound.target, mixture_guess(bound, ROWS, BUDGET)


def gradients(target, frame, table):
    """Of every simulated record at the truth behind it."""
    truth = target.unconstrain({name: jnp.asarray(v) for name, v in table.latents.items()})
    none = jnp.zeros((1, target.dim))
    at = frame.from_model(truth)[None]
    found = target.record_moments(frame, at, none, target.prepare(table.rows, frame))[0]
    return np.asarray(found, float)[table.allowed]


def test_no_part_dominates(ready):
    """A seeded simulation, so not random. As they are, the parts differ by a factor of ten."""
    target, settings = ready
    parts = (*_flat(_parts(target)),)
    table = simulate_table(target.model, SCHEMA, np.random.default_rng(7), 2000)
    before = gradients(target, identity_frame(target.dim), table)
    after = gradients(target, scaled_frame(settings.frame_scale, settings.curvature), table)

    def sizes(found):
        return [np.quantile(np.linalg.norm(found[:, part], axis=1), 0.98) for part in parts]

    assert max(sizes(before)) > 8 * min(sizes(before))
    assert max(sizes(after)) < 3 * min(sizes(after))
    lost = np.linalg.norm(after, axis=1) > settings.clip_norm
    assert lost.mean() < 0.1


def _flat(parts):
    shares, counts, regression = parts
    return shares, *counts, regression


def test_clipping_leaves_shares_unbiased_where_they_go_with_many_visits(ready):
    """The mean clipped gradient of the shares at the truth, in sds of the rows' own luck: within
    1 with the parts scaled. With one clip norm for the whole as it is, at the median norm, it is
    beyond 3. Fixed seed; the Monte Carlo error of both is 0.35 (40,000 records stand for 5000)."""
    target, settings = ready
    table = simulate_table(target.model, SCHEMA, np.random.default_rng(3), 40_000)
    shares = _parts(target)[0]

    def moved(frame, clip_norm):
        found = gradients(target, frame, table)
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        clip_norm = clip_norm or np.median(norms)
        clipped = found * np.minimum(1, clip_norm / norms)
        bias = (clipped - found)[:, shares].mean(0)
        luck = found[:, shares].std(0) / np.sqrt(ROWS)
        return np.abs(bias / np.maximum(luck, luck.max() / 10)).max()

    assert moved(scaled_frame(settings.frame_scale, settings.curvature), settings.clip_norm) < 1
    assert moved(identity_frame(target.dim), None) > 3


def test_the_least_clip_norm_grows_with_the_rows():
    """Heavy tails: with more rows the luck shrinks, so less bias is allowed."""
    rng = np.random.default_rng(0)
    skewed = rng.exponential(size=(20_000, 1)) - 1
    few, many = (_least_clip_norm(skewed, rows, 4.0 / rows) for rows in (200, 200_000))
    assert few < 0.7 * many
    bias = (np.clip(skewed, -many, many) - skewed).mean()
    allowed = 0.3 * np.sqrt((skewed**2).mean() / 200_000 + (4.0 * many / 200_000) ** 2)
    assert abs(bias) <= 1.001 * allowed


def test_settings_survive_a_file_and_fit_their_model(ready):
    target, settings = ready
    again = Settings.from_dict(settings.to_dict())
    assert np.array_equal(again.frame_scale, settings.frame_scale)
    assert np.array_equal(again.curvature, settings.curvature)
    settings.check_dimension(target.dim)
    with pytest.raises(nw.NoisewiseError, match="plan again for this model"):
        settings.check_dimension(target.dim + 1)
    mechanism = Mechanism(
        clip_norm=1.0, sampling_rate=0.1, steps=settings.steps, noise_multiplier=1.0
    )
    made = assemble(settings, target, mechanism, ROWS)
    frame = made.numbers.constants.frame
    assert np.allclose(frame.to_model(made.start[: target.dim]), settings.start, atol=1e-4)


def test_a_scaled_frame_is_its_own_inverse_and_turns_gradients():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(2, 2))
    frame = scaled_frame(np.array([0.5, 2.0, 3.0]), root @ root.T + np.eye(2))
    z = jnp.asarray(rng.normal(size=(4, 5)), jnp.float32)
    theta = frame.to_model(z)
    assert np.allclose(frame.from_model(theta), z, atol=1e-5)
    assert np.allclose(frame.to_model_exactly(np.asarray(z, float)), theta, atol=1e-5)
    # The chain rule for a linear function of theta.
    slope = jnp.asarray(rng.normal(size=5), jnp.float32)
    moved = (frame.to_model(z + 1e-2 * jnp.eye(5)[:, None]) - theta) @ slope / 1e-2
    assert np.allclose(frame.gradient(slope), moved.mean(1), rtol=1e-2, atol=1e-2)
    assert np.allclose(frame.precision(np.eye(5)), frame.precision(np.eye(5)).T)


@pytest.mark.parametrize("bounds", [(0, 20), (1000, 1001)])
def test_counts_alone_without_a_regression(bounds):
    """No category column, no target; the second schema rules out whatever the prior makes."""
    schema = nw.Schema(tuple(nw.Column(name=n, kind="count", bounds=bounds) for n in ("a", "b")))
    bound = bind_model("mixture(2)", schema, None, None, None)
    settings = mixture_guess(bound, ROWS, BUDGET, 100)
    assert settings.curvature is None and len(settings.frame_scale) == bound.target.dim
    assert 0.1 < settings.clip_norm < 100 and np.isfinite(settings.frame_scale).all()
