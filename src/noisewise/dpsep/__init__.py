"""Expectation propagation, stochastic and differentially private."""

from noisewise.dpsep.batched import adf_in_batches, ep_in_batches
from noisewise.dpsep.divergence import (
    ExpectedDivergence,
    expected_kl,
    gaussian_kl,
    mean_kl,
    paper_expression,
)
from noisewise.dpsep.family import Blocks, Diagonal, Family
from noisewise.dpsep.glm import GlmSite, LinearSite, LogisticSite, ProbitSite, RegressionSite
from noisewise.dpsep.inputs import Whitening, buy_whitening, scale_by_bounds
from noisewise.dpsep.mixture import MixtureSite
from noisewise.dpsep.network import NetworkSite, Prediction
from noisewise.dpsep.noise_aware import linear_interval, noise_aware, plain
from noisewise.dpsep.phases import (
    Phase,
    certificate,
    fit_phases_secure,
    fit_phases_simulated,
    phase_mechanisms,
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
from noisewise.dpsep.refit import understatement
from noisewise.dpsep.run import Assembly, SepFit, assemble, fit_secure, fit_simulated, fit_unsafe
from noisewise.dpsep.sequential import (
    adf,
    ep,
    literal_certificate,
    literal_noise,
    one_at_a_time,
    random_passes,
)
from noisewise.dpsep.settings import Bounds, Rates, SepSettings
from noisewise.dpsep.site import Gaussian, Natural, Site, SiteUpdates, kept_share, line_site

__all__ = [
    "EPOCH_STEPS",
    "NETWORK_TARGET_SD",
    "Assembly",
    "Blocks",
    "Bounds",
    "Diagonal",
    "ExpectedDivergence",
    "Family",
    "Gaussian",
    "GlmSite",
    "LinearSite",
    "LogisticSite",
    "MixtureSite",
    "Natural",
    "NetworkSite",
    "Phase",
    "Prediction",
    "ProbitSite",
    "Rates",
    "RegressionSite",
    "SepFit",
    "SepSettings",
    "Site",
    "SiteUpdates",
    "Whitening",
    "adf",
    "adf_in_batches",
    "assemble",
    "buy_whitening",
    "certificate",
    "ep",
    "ep_in_batches",
    "expected_kl",
    "fit_phases_secure",
    "fit_phases_simulated",
    "fit_secure",
    "fit_simulated",
    "fit_unsafe",
    "gaussian_kl",
    "glm_phases",
    "kept_share",
    "line_site",
    "linear_interval",
    "literal_certificate",
    "literal_noise",
    "mean_kl",
    "mixture_phases",
    "network_phases",
    "network_reference",
    "network_units",
    "noise_aware",
    "one_at_a_time",
    "paper_expression",
    "phase_mechanisms",
    "plain",
    "random_passes",
    "scale_by_bounds",
    "understatement",
]
