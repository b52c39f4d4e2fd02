"""NumPyro models in, targets out; and the ready-made models."""

from noisewise.models.binding import bind
from noisewise.models.bound import BoundModel, bind_model
from noisewise.models.build import build_target
from noisewise.models.centring import has_two_forms, standardise, unstandardise
from noisewise.models.derived import derived_values
from noisewise.models.families import FAMILIES, Family, PiecewiseExponential, Survival
from noisewise.models.formulas import Priors, formula_model
from noisewise.models.frame import Frame, identity_frame, scaled_frame, whitened_frame
from noisewise.models.glm import Glm, linear, logistic, poisson
from noisewise.models.inspection import ModelError
from noisewise.models.mixed import MixedGlm, mixed
from noisewise.models.mixture import Mixture, mixture
from noisewise.models.named import family_from_text, glm_for, named_model
from noisewise.models.network import Network
from noisewise.models.ready_made import (
    Capabilities,
    ReadyMade,
    TargetNames,
    listed_targets,
    model_name,
)
from noisewise.models.row_view import RowView
from noisewise.models.target import Target, survey_weights, without_survey_weights
from noisewise.models.units import of_units
