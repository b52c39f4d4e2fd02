"""What a fit returns: request, posterior, certificate, status; and never a row."""

from noisewise.result.fitted import fitted_model, refuse_other_latents
from noisewise.result.prediction import network_outputs
from noisewise.result.request import NetworkScaling, Request
from noisewise.result.result import Result
from noisewise.result.storage import check_free
from noisewise.result.survival import curves, survival_family
