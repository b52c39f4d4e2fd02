"""How much gradients vary over tables, where that was bought because records have weights.

What was bought is noisy, and shrunk to a multiple of what is expected: the multiple is known well,
as all coordinates tell of it, and every entry is then believed as far as its noise lets it.
"""

from __future__ import annotations

import numpy as np

from noisewise._shapes import Float
from noisewise._validate import NoisewiseError
from noisewise.covariates import part_of
from noisewise.dpvi import WIDE, Settings, Variability
from noisewise.mechanism import Budget, Mechanism, Release
from noisewise.models import BoundModel

VARIABILITY_SHARE = 0.05
"""Share of the budget (in squared signal-to-noise) that buys the variability."""
WHAT = "products of gradients"
"""How certificates name the release."""
_OFF = 0.5
"""Prior sd of how far an entry may be from the multiple of the expected one, in its own size."""
_LEAST = 0.05


def variability_mechanism(bound: BoundModel, clip_norm: float, budget: Budget) -> Mechanism | None:
    """The release of the gradients' second moment; None where records have no weights.

    Args:
        bound: The model.
        clip_norm: Of the descent's gradients.
        budget: Of the whole fit.
    """
    if not bound.weighted:
        return None
    plain = Mechanism(clip_norm=clip_norm**2, sampling_rate=1.0, steps=1)
    return plain.calibrate(part_of(budget, VARIABILITY_SHARE))


def variability_cost(bound: BoundModel, budget: Budget) -> tuple[Release, ...]:
    """What that release costs, which does not depend on the clip norm: one, or none.

    Args:
        bound: The model.
        budget: Of the whole fit.
    """
    mechanism = variability_mechanism(bound, 1.0, budget)
    return () if mechanism is None else (mechanism.release(WHAT),)


def refuse_weights_without_matrix(bound: BoundModel, settings: Settings | None) -> None:
    """Weights widen the posterior by matrices, which not every fit has: say so in one line.

    Args:
        bound: The model.
        settings: Of the fit; None where a plan will make them.
    """
    weight = bound.view.schema.weight
    if weight is None:
        return
    bound.require(
        "unique_optimum",
        f"survey weights, which column '{weight.name}' holds,",
        "declare the column real, or leave it out of the schema",
    )
    if bound.target.dim > WIDE:
        raise NoisewiseError(
            f"column '{weight.name}' holds survey weights, and a fit with them takes up to "
            f"{WIDE} coordinates, got {bound.target.dim}: merge categories, or name "
            "fewer features"
        )
    if settings is not None and not (settings.full_curvature and settings.rule == "means_only"):
        raise NoisewiseError(
            f"column '{weight.name}' holds survey weights, which need rule='means_only' and "
            "full_curvature=True: change the settings, or leave plan out"
        )


def shrunk(
    bought: Variability, expected: Float[np.ndarray, "dim dim"]
) -> Float[np.ndarray, "dim dim"]:
    """The variability, given what was bought and what is expected of it up to a factor.

    Args:
        bought: The noisy second moment.
        expected: Positive definite, prior excluded.
    """
    square = float(np.sum(expected**2))
    factor = float(np.sum(bought.total * expected)) / square
    # A priori the factor is one to within one.
    trust = 1 / (1 + bought.noise_sd**2 / square)
    factor = max(1 + trust * (factor - 1), _LEAST)
    values, vectors = np.linalg.eigh(expected)
    values = factor * np.maximum(values, 1e-9 * values[-1])
    # Symmetric noise of independent entries is the same in every basis.
    rest = vectors.T @ bought.total @ vectors - np.diag(values)
    free = (_OFF**2) * np.outer(values, values)
    found = np.diag(values) + rest * free / (free + bought.noise_sd**2)
    # Relative to what is expected no direction may be known to have none.
    root = np.sqrt(values)
    relative, turned = np.linalg.eigh(found / np.outer(root, root))
    basis = vectors @ (root[:, None] * turned)
    return (basis * np.maximum(relative, _LEAST)) @ basis.T
