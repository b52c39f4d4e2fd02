"""Wrap a model for inference, or say in one line why it cannot be done."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise.models.glm import Glm, GlmTarget
from noisewise.models.inspection import ModelError, inspect_model
from noisewise.models.target import Rows, Target

__all__ = ["build_target"]


def build_target(model: Callable[..., Any], rows: Rows) -> Target:
    """Inspect a model on a few made-up rows and wrap it; refuse it with a reason if need be.

    Ready-made generalised linear models come back with closed-form gradients.
    """
    with _on_the_host():
        return _build(model, rows)


def _on_the_host() -> AbstractContextManager[Any]:
    """Looking at a model is many tiny operations: an accelerator only compiles them longer."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # JAX was told to know no CPU
        return nullcontext()


def _build(model: Callable[..., Any], rows: Rows) -> Target:
    layout = inspect_model(model, rows)
    example = {name: jnp.asarray(np.asarray(column)[:1]) for name, column in rows.items()}
    target = Target(model, layout, example)
    if isinstance(model, Glm):
        target = GlmTarget(model, layout, example)
    theta = target.sample_prior(jax.random.PRNGKey(0), 1)[0]
    if not math.isfinite(float(target.log_prior(theta))):
        raise ModelError(
            "the model's log prior is not finite at a draw from its own prior: check its priors"
        )
    return target
