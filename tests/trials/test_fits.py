"""Many fits of one table: alone or side by side, cut off or not, they are the same fits."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.dpvi import Settings
from noisewise.mechanism import Budget, Mechanism
from noisewise.models.glm import logistic
from noisewise.trials import Fit, fit_function, fit_table, noise_multipliers, target_for

SETTINGS = Settings(
    rule="aligned",
    clip_norm=1.0,
    sampling_rate=0.1,
    steps=20,
    guide_draws=1,
    learning_rate=0.05,
    full_curvature=False,
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(300, 3)).astype(np.float32)
    return {"X": design, "y": (rng.random(300) < 0.4).astype(np.float32)}


def fit(seed=5, noise=1.0, start=None, **changes):
    return Fit(replace(SETTINGS, **changes), noise, jax.random.PRNGKey(seed), start)


def on_a_gpu(monkeypatch, floats=2**30):
    monkeypatch.setattr("noisewise.trials.fits.jax.default_backend", lambda: "gpu")
    monkeypatch.setattr("noisewise.trials.fits._GROUP_FLOATS", floats)


def test_side_by_side_as_alone(rows, monkeypatch):
    """In groups of the device's memory too; fits differ in all that may differ."""
    target = target_for(logistic(), rows)
    fits = [
        fit(),
        fit(seed=6),
        fit(noise=3.0),
        fit(start=np.ones(3)),
        fit(clip_norm=0.1),
        fit(steps=10),
        fit(steps=10, seed=6),
    ]
    alone = fit_table(target, rows, fits, block_steps=5)
    on_a_gpu(monkeypatch)
    together = fit_table(target, rows, fits, block_steps=5)
    on_a_gpu(monkeypatch, floats=1)
    one_by_one = fit_table(target, rows, fits, block_steps=5)
    for one, two, three in zip(alone, together, one_by_one, strict=True):
        assert one.trace.block_count == two.trace.block_count == three.trace.block_count
        np.testing.assert_allclose(one.trace.last, two.trace.last, atol=1e-5)
        np.testing.assert_allclose(one.trace.last, three.trace.last, atol=1e-5)
    ends = np.array([fitted.trace.last for fitted in alone])
    apart = np.abs(ends[:, None] - ends).max(-1) + np.eye(len(ends))
    assert apart.min() > 1e-3


def test_a_fit_that_is_cut_off_is_the_beginning_of_a_longer_one(rows, monkeypatch):
    """As on a GPU, where fits of about a length run to the end of the longest."""
    on_a_gpu(monkeypatch)
    target = target_for(logistic(), rows)
    short, long = fit_table(target, rows, [fit(steps=10), fit(steps=20)], block_steps=5)
    assert short.trace.block_count == 2
    assert long.trace.block_count == 4
    assert np.allclose(short.trace.last, long.trace.blocks.start[2])
    assert np.abs(np.asarray(long.trace.last) - short.trace.last).max() > 1e-5


def test_the_mapped_function_is_the_same_fit(rows):
    target = target_for(logistic(), rows)
    one = fit()
    (fitted,) = fit_table(target, rows, [one])
    mapped = fit_function(target, one.settings, one.noise_multiplier, 300)
    blocks = jax.jit(mapped)(rows, np.asarray(fitted.run.start, np.float32), one.key)
    np.testing.assert_allclose(blocks.start, fitted.trace.blocks.start, atol=1e-5)


def test_fits_that_need_two_programs_are_refused(rows):
    target = target_for(logistic(), rows)
    with pytest.raises(NoisewiseError, match="the same rule, guide, optimiser"):
        fit_table(target, rows, [fit(), fit(rule="vanilla")])


def test_noise_is_the_mechanisms_own():
    found = noise_multipliers(0.1, [(2.0, 100), (1.0, 100), (2.0, 100)], 1e-5)
    assert list(found) == [(1.0, 100), (2.0, 100)]
    mechanism = Mechanism(clip_norm=1.0, sampling_rate=0.1, steps=100)
    for (epsilon, _), noise in found.items():
        assert noise == mechanism.calibrate(Budget(epsilon=epsilon, delta=1e-5)).multiplier
