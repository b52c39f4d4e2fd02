"""Hyper-parameters from simulation, before a single row is touched."""

from noisewise.planning.first_guess import STEPS, first_guess, sketch
from noisewise.planning.forecast import Forecast, PlanError
from noisewise.planning.mixture_guess import mixture_guess
from noisewise.planning.plan import SIMULATED, Plan, plan, row_view
from noisewise.planning.trials import SimulatedFits, Simulator, reference_rows, simulator

__all__ = [
    "SIMULATED",
    "STEPS",
    "Forecast",
    "Plan",
    "PlanError",
    "SimulatedFits",
    "Simulator",
    "first_guess",
    "mixture_guess",
    "plan",
    "reference_rows",
    "row_view",
    "simulator",
    "sketch",
]
