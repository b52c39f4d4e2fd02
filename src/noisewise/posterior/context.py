"""What the fits of one design have in common, gathered at the door of this house."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.dpvi import GradientRule, Settings, noise_variance
from noisewise.engine import Run
from noisewise.models import Frame

_HARDLY_A_PRIOR = 1e-6


class Reference(NamedTuple):
    """Simulated rows of the model's arguments, for simulating the model at the fit."""

    rows: Rows
    covariates_representative: bool
    """Whether the model has no covariates, or they come from a public sample. If not, the rows say
    what curvature to expect, for the trace to correct, and no more."""
    share_noise: float = 0.0
    """Noise of a share of people in the description of covariates that was bought; zero where none
    was."""
    covariate_rows: float = np.inf
    """Of so many people the covariates are: those of a public sample. A model without covariates,
    or with simulated ones, has as many as it likes."""
    lots: int = 1
    """Of as many rows, one after the other: more than memory holds together."""
    more: Callable[[int], Rows] | None = None
    """The rows of a lot, by its number from one on."""

    def lot(self, number: int) -> Rows:
        """Rows of their own for every number; zero has ``rows``."""
        if number == 0:
            return self.rows
        assert self.more is not None  # there are several lots
        return self.more(number)


@dataclass(frozen=True, kw_only=True, eq=False)
class FitContext:
    """The numbers of a run that a posterior needs, all of them public.

    Without a ``reference``, nothing is simulated at the fit.
    """

    settings: Settings
    rule: GradientRule
    frame: Frame
    public_count: float
    sampling_rate: float
    clip_norm: float | Array
    noise_variance: Float[np.ndarray, " observed"]
    """(sigma C / beta)^2: the known part of W in mathematics.md eq. (5)."""
    guide_variance: Float[np.ndarray, " dim"]
    """Of the guide's draws, where the rule fits no scales."""
    reference: Reference | None = None

    @classmethod
    def of(cls, run: Run, settings: Settings, reference: Reference | None = None) -> FitContext:
        """The context of the fits that are run so."""
        numbers = run.numbers
        return cls(
            settings=settings,
            rule=run.algorithm.rule,
            frame=numbers.constants.frame,
            public_count=float(numbers.public_count),
            sampling_rate=run.sampling_rate,
            clip_norm=numbers.grid.clip_norm,
            noise_variance=noise_variance(run),
            guide_variance=np.asarray(numbers.constants.fixed_scale, float) ** 2,
            reference=reference,
        )

    @property
    def dim(self) -> int:
        """Number of the model's unconstrained coordinates."""
        return self.rule.target.dim

    @property
    def prior_precision(self) -> Float[np.ndarray, "dim dim"]:
        """The model's prior in the frame's coordinates: what is known of theta beforehand."""
        if self.settings.prior_precision is None:
            return np.eye(self.dim) * _HARDLY_A_PRIOR
        return self.frame.precision(self.settings.prior_precision)
