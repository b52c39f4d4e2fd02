"""Optimisers by name: any of optax's that needs no more than gradients."""

from functools import lru_cache
from typing import Any

import jax.numpy as jnp

from noisewise._validate import NoisewiseError, shown


@lru_cache(maxsize=64)
def build_optimiser(name: str, learning_rate: float) -> Any:
    """The optax optimiser of this name.

    Cached, because optax's transformations are equal only if they are the same object: equal
    settings must make equal programs, which share their compilation.
    """
    import optax

    try:
        found = getattr(optax, name)(learning_rate)
        # Tried on a simulated gradient: some optimisers need the loss as well, which no private fit
        # may look at, and some names of optax are not optimisers and do not go downhill.
        one = jnp.ones(1)
        works = float(found.update(one, found.init(one), one)[0][0]) <= 0
    except Exception:  # an unknown name, a missing argument, a schedule: all the same to the user
        works = False
    if not works:
        raise NoisewiseError(
            "optimiser must name an optax optimiser that works from gradients and a learning rate "
            f"alone, such as 'adam', 'sgd' or 'adagrad', got {shown(name)}"
        )
    return found
