"""Every number that a fit needs besides the data and the budget."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from noisewise._validate import (
    NoisewiseError,
    finite_array,
    integer_at_least,
    known_fields,
    one_of,
    positive,
    shown,
    true_or_false,
)
from noisewise.dpvi.optimiser import build_optimiser
from noisewise.mechanism import Mechanism
from noisewise.mechanism.accounting import check_sampling_rate

RULES = ("means_only", "preconditioned", "vanilla", "natural", "aligned", "aligned_natural")
_FULL_RANK = ("vanilla", "preconditioned", "aligned")
_MATRIX = ("means_only", "aligned")
_ARRAYS = ("location", "curvature", "frame_scale", "prior_precision", "start", "shift", "stretch")
_SCALES = ("frame_scale", "stretch")


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """Hyper-parameters, none of which may come from the data.

    Either planned by simulation, or written by hand, as for the papers' experiments.
    """

    clip_norm: float
    sampling_rate: float = 0.1
    steps: int = 10_000
    rule: str = "means_only"
    """Which gradients are released, and how the others follow: one of `RULES`."""
    guide_draws: int = 1
    """Monte Carlo draws a step; aligned rules take exactly one."""
    burn_in: float = 0.2
    """Least share of the run that is dropped; more is dropped while gradients are not linear."""
    contraction_rate: float | None = None
    """rho: the share of the distance to the optimum that a step removes, as simulated."""
    initial_step_multiplier: float = 1.0
    """Factor on the first steps' size, falling to 1 by the end of ``burn_in``."""
    step_factor: float | np.ndarray | None = None
    """lambda_c: use the step size of NA-DPVI eq. A58 instead of ``contraction_rate``; one, or one
    per parameter."""
    learning_rate: float | None = None
    """Move by an ``optimiser`` with this learning rate instead, as DPVIm does (1e-3)."""
    optimiser: str = "adam"
    """Any optimiser of optax by its name; it sees gradients as if all records were drawn."""
    precondition: float | str = 1.0
    """beta of the scales (preconditioned rule), or ``"slope"``: 1 / T'(u) of the moment."""
    clip_prior: bool = False
    """Each record carries its N-th part of prior and entropy inside the clip, as in the papers;
    where scales are not released, the entropy stays outside all the same."""
    scale_step: float = 1.0
    """Share of their steps that the scales make: small, and their noise averages out."""
    full_curvature: bool = True
    """Infer the curvature as a matrix (rules means_only and aligned), from the means' gradients;
    other rules need False, or the posterior ``averaged``."""
    curvature_sd: float = 1.0
    """Prior sd of the curvature's logarithm (of its eigenvalues') around the simulated one."""
    paper_priors: bool = False
    """Use NA-DPVI App. H.3's priors, built from the trace, instead of simulated ones."""
    slope_threshold: float = 0.05
    """Most that a parameter may drift along a tail to be averaged (posterior ``averaged``)."""
    guide: str = "diagonal"
    """``diagonal``, or ``full_rank`` with a Cholesky factor (not for natural rules)."""
    scale_map: str = "softplus"
    scale_of: str = "sd"
    initial_free_scale: float = -4.0
    location: np.ndarray | None = None
    """Origin of the frame in the unconstrained space; None is zero."""
    curvature: np.ndarray | None = None
    """Simulated curvature (dim x dim) that whitens the frame; None is no whitening."""
    frame_scale: np.ndarray | None = None
    """Factors of the frame's first coordinates; ``curvature`` is then of the others alone."""
    prior_precision: np.ndarray | None = None
    """Inverse covariance of the model's prior in the unconstrained space."""
    gaussian_prior: bool = False
    """Descend along a Gaussian prior around ``location`` with that precision, and bring in the
    model's own afterwards: for priors that are not Gaussian in the unconstrained space."""
    start: np.ndarray | None = None
    """Initial means in the unconstrained space; None is ``location``."""
    shift: np.ndarray | None = None
    """What simulated fits were off by on average, in reported sds per coordinate; taken off."""
    stretch: np.ndarray | None = None
    """Sd of simulated fits' errors in reported sds: factor on the error bars."""

    def __post_init__(self) -> None:
        positive("clip_norm", self.clip_norm)
        integer_at_least("steps", self.steps, 10)
        integer_at_least("guide_draws", self.guide_draws, 1)
        one_of("rule", self.rule, RULES)
        one_of("scale_map", self.scale_map, ("softplus", "exp"))
        one_of("scale_of", self.scale_of, ("sd", "variance"))
        check_sampling_rate(self.sampling_rate)
        for name in ("curvature_sd", "initial_step_multiplier", "slope_threshold", "scale_step"):
            positive(name, getattr(self, name), finite=True)
        for name in ("clip_prior", "full_curvature", "paper_priors"):
            true_or_false(name, getattr(self, name))
        for name in _ARRAYS:
            finite_array(name, getattr(self, name), above_zero=name in _SCALES)
        finite_array("initial_free_scale", self.initial_free_scale)
        if not self.by_slope:
            positive("precondition", self.precondition, finite=True)
        elif self.rule != "preconditioned":
            raise NoisewiseError(
                f"precondition='slope' is for rule preconditioned, not {self.rule}"
            )
        if self.rule.startswith("aligned") and self.guide_draws != 1:
            raise NoisewiseError(
                f"rule {self.rule} takes the scales' gradient from one draw's: guide_draws must be "
                f"1, got {shown(self.guide_draws)}"
            )
        self._check_steps()
        self._check_guide()
        if self.rule == "means_only" and self.curvature is None:
            raise NoisewiseError(
                "rule means_only needs curvature, the simulated one: take settings from a plan"
            )
        if not (isinstance(self.burn_in, int | float) and 0 <= self.burn_in < 1):
            raise NoisewiseError(f"burn_in must be in [0, 1), got {shown(self.burn_in)}")

    def _check_guide(self) -> None:
        """A full-rank guide only where a rule knows its chain rule, and its scales are sds."""
        one_of("guide", self.guide, ("diagonal", "full_rank"))
        if self.guide == "diagonal":
            return
        if self.rule not in _FULL_RANK:
            raise NoisewiseError(
                f"rule {self.rule} has no full-rank guide: use one of {', '.join(_FULL_RANK)}, or "
                "guide='diagonal'"
            )
        if self.scale_of != "sd":
            raise NoisewiseError("a full-rank guide maps to a Cholesky factor: scale_of is 'sd'")

    @property
    def along_gaussian_prior(self) -> bool:
        """Whether descent is along a Gaussian prior: of the rules only means_only can."""
        known = self.prior_precision is not None
        return self.gaussian_prior and known and self.rule == "means_only"

    @property
    def keeps_matrix(self) -> bool:
        """Whether a trace keeps what a curvature matrix is inferred from."""
        return self.full_curvature and self.rule in _MATRIX

    @property
    def by_slope(self) -> bool:
        """Whether the preconditioned rule takes 1 / T' (DPVIm eq. 17)."""
        return self.precondition == "slope"

    def _check_steps(self) -> None:
        """Exactly one way to choose the steps' size."""
        ways = (self.contraction_rate, self.step_factor, self.learning_rate)
        if sum(way is not None for way in ways) != 1:
            raise NoisewiseError(
                "settings need exactly one of contraction_rate (ours), step_factor (the paper's "
                "lambda_c) and learning_rate (an optimiser's)"
            )
        if self.contraction_rate is not None:
            positive("contraction_rate", self.contraction_rate, finite=True)
        finite_array("step_factor", self.step_factor, above_zero=True)
        if self.learning_rate is not None:
            rate = positive("learning_rate", self.learning_rate, finite=True)
            build_optimiser(self.optimiser, rate)
        elif self.optimiser != "adam":
            raise NoisewiseError(f"optimiser {shown(self.optimiser)} needs a learning_rate")

    def mechanism(self, noise_multiplier: float | None = None) -> Mechanism:
        """What accounts for such a fit, once it is calibrated or given its noise.

        Args:
            noise_multiplier: If it is known already.
        """
        return Mechanism(
            clip_norm=self.clip_norm,
            sampling_rate=self.sampling_rate,
            steps=self.steps,
            noise_multiplier=noise_multiplier,
        )

    def check_dimension(self, dim: int) -> None:
        """Refuse settings whose arrays are for another number of unconstrained coordinates.

        Args:
            dim: The model's number of unconstrained coordinates.
        """
        one, square = (dim,), (dim, dim)
        scaled = 0 if self.frame_scale is None else len(self.frame_scale)
        shapes = {
            "location": one,
            "curvature": (dim - scaled, dim - scaled),
            "frame_scale": one if self.curvature is None else (dim - len(self.curvature),),
            "prior_precision": square,
            "start": one,
            "shift": one,
            "stretch": one,
        }
        for name, expected in shapes.items():
            value = getattr(self, name)
            if value is not None and np.shape(value) != expected:
                found = " x ".join(map(str, np.shape(value))) or "no"
                raise NoisewiseError(
                    f"the plan's {name} is for {found} unconstrained coordinates, this model has "
                    f"{dim}: plan again for this model and these features"
                )

    def with_recalibration(self, shift: np.ndarray, stretch: np.ndarray) -> Settings:
        """A copy that moves and stretches posteriors by this much.

        Args:
            shift: In posterior sds, per coordinate; taken off.
            stretch: Factor on the sds, per coordinate.
        """
        return replace(self, shift=shift, stretch=stretch)

    @property
    def recalibrates(self) -> bool:
        """Whether posteriors are moved or stretched at all."""
        if self.shift is None or self.stretch is None:
            return False
        return bool(np.any(self.shift != 0) or np.any(self.stretch != 1))

    def recalibrated(self, theta: np.ndarray) -> np.ndarray:
        """Draws (draws x coordinates) moved and stretched as simulated fits have taught.

        Args:
            theta: Posterior draws, draws x coordinates.
        """
        if self.shift is None or self.stretch is None:
            return theta
        mean = theta.mean(0)
        return mean - self.shift * theta.std(0) + self.stretch * (theta - mean)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in ((f.name, getattr(self, f.name)) for f in fields(self))
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Settings:
        """Back from `to_dict`.

        Args:
            plain: As read from a file; unknown names are refused.
        """
        arrays = (*_ARRAYS, "step_factor")
        given = {n: finite_array(n, v) if n in arrays else v for n, v in plain.items()}
        return cls(**known_fields(cls, given))
