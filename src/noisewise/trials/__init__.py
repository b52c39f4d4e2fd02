"""Whole private fits on simulated tables: what plans, coverage and studies are made of."""

from noisewise.trials.designs import Design, DpviTrial, SepTrial, dpvi_trial, sep_trial
from noisewise.trials.reference import reference_rows
from noisewise.trials.simulator import SimulatedFits, Simulator, simulator

__all__ = [
    "Design",
    "DpviTrial",
    "SepTrial",
    "SimulatedFits",
    "Simulator",
    "dpvi_trial",
    "reference_rows",
    "sep_trial",
    "simulator",
]
