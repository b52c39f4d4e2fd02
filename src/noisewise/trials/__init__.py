"""Whole private fits of tables that may be looked at: simulated ones, and public ones."""

from noisewise.trials.fits import (
    Fit,
    Fitted,
    fit_function,
    fit_table,
    fit_with_steps,
    noise_multipliers,
    target_for,
)

__all__ = [
    "Fit",
    "Fitted",
    "fit_function",
    "fit_table",
    "fit_with_steps",
    "noise_multipliers",
    "target_for",
]
