"""NumPyro models in, targets out; and the ready-made models."""

from noisewise.models.binding import RowView, bind
from noisewise.models.build import build_target
from noisewise.models.frame import Frame, identity_frame, scaled_frame, whitened_frame
from noisewise.models.glm import Glm, linear, logistic, poisson
from noisewise.models.inspection import ModelError
from noisewise.models.mixture import Mixture, mixture
from noisewise.models.named import model_name, named_model
from noisewise.models.network import Network
from noisewise.models.target import Rows, Target

__all__ = [
    "Frame",
    "Glm",
    "Mixture",
    "ModelError",
    "Network",
    "RowView",
    "Rows",
    "Target",
    "bind",
    "build_target",
    "identity_frame",
    "linear",
    "logistic",
    "mixture",
    "model_name",
    "named_model",
    "poisson",
    "scaled_frame",
    "whitened_frame",
]
