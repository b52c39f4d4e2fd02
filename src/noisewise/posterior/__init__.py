"""From a trace to a posterior that knows its noise."""

from noisewise.posterior.burn_in import BurnIn, find_burn_in
from noisewise.posterior.noise_aware import METHODS, Outcome, Reference, infer, infer_many
from noisewise.posterior.status import NoiseAwarePosterior, Status

__all__ = [
    "METHODS",
    "BurnIn",
    "NoiseAwarePosterior",
    "Outcome",
    "Reference",
    "Status",
    "find_burn_in",
    "infer",
    "infer_many",
]
