"""From a trace to a posterior that knows its noise."""

from noisewise.posterior.averaging import average
from noisewise.posterior.context import FitContext, Reference
from noisewise.posterior.dpsep import SepTrace, read_regression, read_sep, sep_status
from noisewise.posterior.gradient_sizes import sizes_cost
from noisewise.posterior.methods import LARGEST_MATRIX, METHODS, check_method, default_method
from noisewise.posterior.noise_aware import infer, infer_many
from noisewise.posterior.pooling import infer_pooled
from noisewise.posterior.status import NoiseAwarePosterior, Outcome, Status
from noisewise.posterior.variability import (
    refuse_weights_without_matrix,
    variability_cost,
    variability_mechanism,
)
