"""Whole private fits on simulated tables: what plans, coverage and studies are made of."""

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
from noisewise.trials.rehearsal import refuse_if_it_diverges
from noisewise.trials.simulator import SimulatedFits, Simulator, sep_simulator, simulator
from noisewise.trials.stressed import STRESSES, stressed_columns
