"""Shares of a budget, in squared signal-to-noise: a quarter of it buys half the precision."""

from __future__ import annotations

from dataclasses import replace

from scipy.optimize import brentq

from noisewise._validate import fraction
from noisewise.mechanism import Budget
from noisewise.mechanism.accounting import gaussian_limit


def part_of(budget: Budget, share: float) -> Budget:
    """The budget of one Gaussian release that takes this share of ``budget``.

    Of mu-Gaussian differential privacy, squares of mu add up: a share s gets sqrt(s) mu.

    Args:
        budget: The whole one.
        share: Of it, in squared signal-to-noise.

    >>> part = part_of(Budget(epsilon=1.0, delta=1e-6), 0.25)
    >>> round(gaussian_limit(1.0, 1e-6) / gaussian_limit(part.epsilon, 1e-6), 6)
    2.0
    """
    fraction("share", share)
    wanted = share**0.5 * gaussian_limit(budget.epsilon, budget.delta)
    # Even epsilon 0 allows a mu of about delta: what is wanted below that is not worth buying.
    epsilon = brentq(
        lambda e: gaussian_limit(e, budget.delta) - wanted, 1e-6, budget.epsilon, xtol=1e-12
    )
    return replace(budget, epsilon=float(epsilon))
