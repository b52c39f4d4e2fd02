"""Optimisers from settings."""

import jax
import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.dpvi import Settings, assemble
from noisewise.dpvi.optimiser import build_optimiser
from noisewise.mechanism import Mechanism
from noisewise.models import build_target, logistic
from tracing import traced

N = 300


def ready(**more):
    rng = np.random.default_rng(0)
    rows = {
        "X": rng.normal(size=(N, 2)).astype(np.float32),
        "y": rng.integers(0, 2, N).astype(np.float32),
    }
    target = build_target(logistic(), {name: column[:4] for name, column in rows.items()})
    settings = Settings(clip_norm=0.5, rule="aligned", steps=100, **more)
    mechanism = Mechanism(clip_norm=0.5, sampling_rate=0.1, steps=100, noise_multiplier=2.0)
    found = assemble(settings, target, mechanism, N)
    return found, target.prepare(rows, found.numbers.constants.frame)


@pytest.mark.parametrize("name", ["adam", "sgd", "adagrad", "rmsprop"])
def test_settings_name_the_optimiser(name):
    run, rows = ready(learning_rate=1e-3, optimiser=name)
    trace = traced(run, rows, insecure_seed=0)
    assert np.isfinite(trace.last).all()
    assert (trace.last != run.start).all()


def test_equal_settings_make_equal_programs():
    first, second = ready(learning_rate=1e-3)[0], ready(learning_rate=1e-3)[0]
    assert jax.tree.structure(first) == jax.tree.structure(second)
    assert first.algorithm == second.algorithm
    assert hash(first.algorithm) == hash(second.algorithm)
    assert first.algorithm != ready(learning_rate=2e-3)[0].algorithm
    assert ready(step_factor=1.0)[0].algorithm.optimiser is None
    assert build_optimiser("adam", 1e-3) is build_optimiser("adam", 1e-3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learning_rate": 1e-3, "contraction_rate": 0.1}, "exactly one of contraction_rate"),
        ({"learning_rate": 1e-3, "step_factor": 1.0}, "exactly one of contraction_rate"),
        ({}, "exactly one of contraction_rate"),
        ({"learning_rate": -1.0}, "learning_rate must be"),
        ({"learning_rate": 1e-3, "optimiser": "adma"}, "such as 'adam'.*got 'adma'"),
        ({"learning_rate": 1e-3, "optimiser": "polyak_sgd"}, "such as 'adam'"),  # wants the loss
        ({"learning_rate": 1e-3, "optimiser": "clip"}, "such as 'adam'"),  # goes uphill
        ({"contraction_rate": 0.1, "optimiser": "sgd"}, "needs a learning_rate"),
        ({"contraction_rate": 0.1, "slope_threshold": 0.0}, "slope_threshold must be"),
    ],
)
def test_wrong_optimisers_get_one_line(wrong, message):
    with pytest.raises(NoisewiseError, match=message) as caught:
        Settings(clip_norm=1.0, rule="vanilla", **wrong)
    assert "\n" not in str(caught.value)


def test_they_survive_plain_data():
    settings = Settings(
        clip_norm=1.0,
        rule="aligned_natural",
        learning_rate=1e-3,
        optimiser="adamax",
        slope_threshold=0.1,
    )
    back = Settings.from_dict(settings.to_dict())
    assert back.to_dict() == settings.to_dict()
    assert (back.learning_rate, back.optimiser, back.slope_threshold) == (1e-3, "adamax", 0.1)
