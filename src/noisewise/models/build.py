"""Wrap a model for inference, or say in one line why it cannot be done."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise.data import Rows
from noisewise.models.inspection import ModelError, inspect_model
from noisewise.models.mixture import Mixture
from noisewise.models.mixture_target import MixtureTarget
from noisewise.models.target import Target, arguments_of

_CLOSED_FORMS: dict[type, type[Target]] = {Mixture: MixtureTarget}
_Sample = tuple[tuple[str, tuple[int, ...], str, bytes], ...]
"""Columns by name, shape, type and content: rows that can be compared."""


def build_target(model: Callable[..., Any], rows: Rows) -> Target:
    """Inspect a model on a few simulated rows and wrap it; refuse it with a reason if need be.

    Ready-made regressions and mixtures come back with closed-form gradients. A model that was
    looked at before with the same rows is not looked at again: plan, fit and coverage of one model
    and schema share what is found.

    Args:
        model: A NumPyro model, ready-made or the user's own.
        rows: At least four simulated records, as its arguments.
    """
    sample = tuple(
        (name, column.shape, column.dtype.str, column.tobytes())
        for name, column in ((n, np.asarray(c)) for n, c in arguments_of(rows).items())
    )
    with _on_the_host():
        return _build(model, sample, str(jnp.result_type(float)))


def _on_the_host() -> AbstractContextManager[Any]:
    """Looking at a model is many tiny operations: an accelerator only compiles them longer."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # JAX was set up without a CPU
        return nullcontext()


@lru_cache(maxsize=32)
def _build(model: Callable[..., Any], sample: _Sample, precision: str) -> Target:
    """``precision`` is what JAX makes of a float now: it decides the types of what is found."""
    rows = {name: np.ndarray(shape, kind, content) for name, shape, kind, content in sample}
    layout = inspect_model(model, rows)
    example = {name: jnp.asarray(np.asarray(column)[:1]) for name, column in rows.items()}
    # A model may name a `Target` of its own, with closed forms; regressions do.
    known = (_CLOSED_FORMS[kind] for kind in type(model).__mro__ if kind in _CLOSED_FORMS)
    kind = next(known, getattr(model, "target_type", Target))
    target = kind(model, layout, example)
    # One compilation instead of one for every operation.
    prior = jax.jit(lambda key: target.log_prior(target.sample_prior(key, 1)[0]))
    if not math.isfinite(float(prior(jax.random.PRNGKey(0)))):
        raise ModelError(
            "the model's log prior is not finite at a draw from its own prior: check its priors"
        )
    return target
