"""Hyper-parameters from simulation, before a single row is touched."""

from noisewise.planning.first_guess import first_guess, summarise
from noisewise.planning.forecast import Forecast, PlanError
from noisewise.planning.mixture_guess import mixture_guess
from noisewise.planning.plan import SIMULATED, SIMULATED_BOUGHT, Plan, guess_settings, plan
from noisewise.planning.schema_cost import DeclarationCost, declaration_costs
