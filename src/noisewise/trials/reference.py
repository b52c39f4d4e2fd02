"""Simulated rows that a posterior is corrected with: the same for every fit of a model."""

from functools import partial

import jax.numpy as jnp
import numpy as np

from noisewise.data import Rows, record_count
from noisewise.dpvi import WIDE
from noisewise.models import BoundModel
from noisewise.posterior import Reference

_LEAST, _LOT = 4096, 16_384
_A_COORDINATE = 32
"""Rows for each of many coordinates: the simulated moments are matrices."""
_NUMBERS = 2**27
"""Most numbers in all of the rows: what bounds the time."""


def reference_rows(bound: BoundModel, public_count: int) -> Reference:
    """Rows for `infer` to simulate from: as many as a table's own within limits, for the simulated
    bias must be known better than the fit.

    Args:
        bound: The model.
        public_count: The number of rows as everybody may know it.
    """
    dim, width = bound.target.dim, max(1, bound.width)
    wanted = max(public_count, _A_COORDINATE * dim) if dim > WIDE else public_count
    count = int(np.clip(wanted, _LEAST, _LOT))
    lots = 1 if wanted <= _LOT else -(-min(wanted, _NUMBERS // width) // _LOT)

    def rows(*seed: int) -> Rows:
        found = bound.view.simulate(np.random.default_rng(seed), count)
        return {name: jnp.asarray(column) for name, column in found.items()}

    sample = bound.view.sample
    return Reference(
        rows=rows(1),
        covariates_representative=bound.simulable,
        share_noise=bound.share_noise,
        covariate_rows=np.inf if sample is None else record_count(sample),
        lots=max(1, lots),
        more=partial(rows, 1),
    )
