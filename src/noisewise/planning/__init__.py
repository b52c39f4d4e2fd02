"""Hyper-parameters from simulation, before a single row is touched."""

from noisewise.planning.first_guess import first_guess
from noisewise.planning.plan import SIMULATED, Plan, plan

__all__ = ["SIMULATED", "Plan", "first_guess", "plan"]
