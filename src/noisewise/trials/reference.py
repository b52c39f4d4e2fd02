"""Simulated rows that a posterior is corrected with: the same for every fit of a model."""

import jax.numpy as jnp
import numpy as np

from noisewise.models import BoundModel
from noisewise.posterior import Reference

_REFERENCE_ROWS = (4096, 16_384)


def reference_rows(bound: BoundModel, public_count: int) -> Reference:
    """Rows for `infer` to simulate from: of a table's own size within limits, for the simulated
    bias must be known better than the fit.

    Args:
        bound: The model.
        public_count: The number of rows as everybody may know it.
    """
    count = int(np.clip(public_count, *_REFERENCE_ROWS))
    found = bound.view.simulate(np.random.default_rng(1), count)
    rows = {name: jnp.asarray(column) for name, column in found.items()}
    return Reference(rows, bound.simulable, bound.share_noise)
