"""How many rows there are, for a stated price."""

from __future__ import annotations

import secrets

import numpy as np

from noisewise.mechanism.accounting import Release, gaussian_limit
from noisewise.mechanism.budget import Budget

__all__ = ["SHARE", "count_cost", "count_release", "noisy_count"]

SHARE = 0.01
"""Share of the budget (in squared signal-to-noise) that a noisy row count takes by default."""


def count_release(budget: Budget, share: float = SHARE) -> Release:
    """The ledger line for a noisy number of rows at this share of the budget."""
    mu = gaussian_limit(budget.epsilon, budget.delta)
    return Release(what="number of rows", noise_multiplier=1 / (share**0.5 * mu))


def count_cost(declared_rows: int | None, budget: Budget) -> tuple[Release, ...]:
    """What a fit will pay for its number of rows: nothing where it is public already."""
    if declared_rows is not None or budget.adjacency == "replace-one":
        return ()
    return (count_release(budget),)


def noisy_count(rows: int, release: Release, insecure_seed: int | None = None) -> int:
    """The number of rows plus rounded Gaussian noise (sensitivity 1), at least 2.

    The count is an integer, so rounding the noise is rounding the noisy count: post-processing.
    """
    from randomgen import AESCounter

    if insecure_seed is None:
        bits = AESCounter(key=secrets.randbits(128))
    else:
        # A child of its own: the fit's two generators take the first two.
        bits = AESCounter(np.random.SeedSequence(insecure_seed).spawn(3)[2])
    noise = np.rint(np.random.Generator(bits).standard_normal() * release.noise_multiplier)
    return max(2, rows + int(noise))
