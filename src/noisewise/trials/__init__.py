"""Whole private fits on simulated tables: what plans, coverage and studies are made of."""

from noisewise.trials.designs import sep_trial
from noisewise.trials.fits import (
    Fit,
    Fitted,
    fit_function,
    fit_table,
    fit_with_steps,
    noise_multipliers,
    target_for,
)
from noisewise.trials.reference import reference_rows
from noisewise.trials.rehearsal import refuse_if_it_diverges, stressed_rows
from noisewise.trials.simulator import SimulatedFits, Simulator, simulator

__all__ = [
    "Fit",
    "Fitted",
    "SimulatedFits",
    "Simulator",
    "fit_function",
    "fit_table",
    "fit_with_steps",
    "noise_multipliers",
    "reference_rows",
    "refuse_if_it_diverges",
    "sep_trial",
    "simulator",
    "stressed_rows",
    "target_for",
]
