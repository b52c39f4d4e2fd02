"""How many rows there are, for a stated price."""

import secrets

import numpy as np

from noisewise.mechanism.accounting import Release, gaussian_limit
from noisewise.mechanism.budget import Budget

NUMBER_OF_ROWS = "number of rows"
"""How a certificate names this release."""
SHARE = 0.01
"""Share of the budget (in squared signal-to-noise) that a noisy row count takes by default."""


def count_cost(declared_rows: int | None, budget: Budget) -> tuple[Release, ...]:
    """What a fit pays for the number of rows: nothing where that is public anyway.

    Args:
        declared_rows: The number that the schema declares public, or None.
        budget: The fit's whole budget; under replace-one the number is public.
    """
    if declared_rows is not None or budget.adjacency == "replace-one":
        return ()
    return (count_release(budget),)


def count_release(budget: Budget, share: float = SHARE) -> Release:
    """A noisy number of rows, at this share of the budget.

    Args:
        budget: The fit's whole budget.
        share: Of its squared signal-to-noise ratio (`gaussian_limit`).
    """
    mu = gaussian_limit(budget.epsilon, budget.delta)
    return Release(what=NUMBER_OF_ROWS, noise_multiplier=1 / (share**0.5 * mu))


def noisy_count(true_count: int, release: Release, insecure_seed: int | None = None) -> int:
    """The number of rows plus rounded Gaussian noise (sensitivity 1), at least 2.

    The count is an integer, so rounding the noise is rounding the noisy count: post-processing.

    Args:
        true_count: The table's own number of rows.
        release: What was paid for, by `count_release`.
        insecure_seed: Makes the noise repeatable, and therefore not private.
    """
    from randomgen import AESCounter

    if insecure_seed is None:
        bits = AESCounter(key=secrets.randbits(128))
    else:
        # A child of its own: the fit's two generators take the first two.
        bits = AESCounter(np.random.SeedSequence(insecure_seed).spawn(3)[2])
    noise = np.rint(np.random.Generator(bits).standard_normal() * release.noise_multiplier)
    return max(2, true_count + int(noise))
