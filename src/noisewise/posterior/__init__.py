"""From a trace to a posterior that knows its noise."""

from noisewise.posterior.averaging import Averaged, Pull, average, group_pulls
from noisewise.posterior.burn_in import BurnIn, find_burn_in
from noisewise.posterior.methods import METHODS, check_method
from noisewise.posterior.noise_aware import Outcome, Reference, infer, infer_many
from noisewise.posterior.status import NoiseAwarePosterior, Status

__all__ = [
    "METHODS",
    "Averaged",
    "BurnIn",
    "NoiseAwarePosterior",
    "Outcome",
    "Pull",
    "Reference",
    "Status",
    "average",
    "check_method",
    "find_burn_in",
    "group_pulls",
    "infer",
    "infer_many",
]
