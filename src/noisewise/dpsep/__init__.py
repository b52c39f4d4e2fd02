"""Expectation propagation, stochastic and differentially private."""

from noisewise.dpsep.algorithm import DpSep, SepFit, SepNumbers
from noisewise.dpsep.batched import adf_in_batches, ep_in_batches
from noisewise.dpsep.divergence import expected_kl, gaussian_kl, paper_expression
from noisewise.dpsep.family import Blocks, Diagonal, Family
from noisewise.dpsep.glm import GlmSite, LinearSite, LogisticSite, ProbitSite, RegressionSite
from noisewise.dpsep.inputs import Whitening, buy_whitening, scale_by_bounds, whitening_cost
from noisewise.dpsep.mixture import MixtureSite
from noisewise.dpsep.models import SepDesign, SepRegression, refuse_weights, sep_design
from noisewise.dpsep.network import NetworkSite, Prediction
from noisewise.dpsep.noise_aware import linear_interval, noise_aware, noise_unaware
from noisewise.dpsep.phases import (
    Phase,
    assemble,
    assemble_phases,
    finish,
    fit_secure,
    fit_simulated,
    phase_mechanisms,
    scale_noise,
)
from noisewise.dpsep.presets import (
    EPOCH_STEPS,
    NETWORK_TARGET_SD,
    glm_phases,
    mixture_phases,
    network_phases,
    network_reference,
    network_units,
)
from noisewise.dpsep.refit import variance_inflation
from noisewise.dpsep.sequential import (
    ep,
    literal_certificate,
    literal_noise,
    one_at_a_time,
    random_passes,
)
from noisewise.dpsep.settings import Bounds, SepSettings
from noisewise.dpsep.site import Gaussian, Natural, NoiseSite, Site, SiteUpdates
from noisewise.dpsep.unsafe import fit_unsafe
from noisewise.dpsep.window import Window
