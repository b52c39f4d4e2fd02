"""Distributions of per-record gradient norms, of means and of scales (DPVIm Fig. L.1).

Of public and simulated tables only: these norms are not noised.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from noisewise.dpvi import Constants, Settings
from noisewise.dpvi.assemble import build_rule
from noisewise.models import Rows, Target, identity_frame
from noisewise.studies.rules import Line

__all__ = ["NORM_RULES", "norm_lines"]

NORM_RULES = ("vanilla", "natural", "preconditioned")
_ROWS = 5000
_BINS = np.linspace(-5, 3, 49)


def norm_lines(target: Target, rows: Rows, settings: Settings, start: np.ndarray) -> list[Line]:
    """Histograms of log10 norms for rules that release both parts; none for the others.

    Gradients as they are clipped, of the first rows, at the start's means and the settings'
    initial scale, for one guide draw.
    """
    if settings.rule not in NORM_RULES:
        return []
    rule = build_rule(settings, target)
    free = np.full(target.dim, settings.initial_free_scale)
    parameters = jnp.asarray(np.concatenate([start, free]), jnp.float32)
    constants = Constants(
        identity_frame(target.dim), jnp.ones(rule.parameters), jnp.ones(target.dim)
    )
    noise = jnp.asarray(np.random.default_rng(0).standard_normal((1, target.dim)), jnp.float32)
    some = {name: column[:_ROWS] for name, column in rows.items()}
    batch = target.prepare(some, constants.frame)
    gradients = np.asarray(rule.record_gradients(constants, parameters, noise, batch))
    middles = tuple(((_BINS[1:] + _BINS[:-1]) / 2).tolist())
    lines = []
    for name, part in zip(("means", "scales"), np.split(gradients, 2, axis=1), strict=True):
        norms = np.log10(np.maximum(np.linalg.norm(part, axis=1), 1e-30))
        share = np.histogram(np.clip(norms, _BINS[0], _BINS[-1]), _BINS)[0] / len(norms)
        lines.append(Line(f"norms {settings.rule}", name, middles, share[:, None]))
    return lines
