"""How a posterior came out: a status inside the result, not a silent NaN."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from noisewise._shapes import Float
from noisewise.posterior.averaging import Averaged, Stationarity
from noisewise.posterior.burn_in import BurnIn
from noisewise.posterior.expected import ExpectedMoments


class Status(Enum):
    """What the released trace says about the fit."""

    OK = "ok"
    NOT_CONVERGED = "not_converged"
    CURVATURE_UNIDENTIFIED = "curvature_unidentified"
    MODEL_MISFIT = "model_misfit"
    DIVERGED = "diverged"

    @property
    def words(self) -> str:
        """The status for people, with what to do."""
        return {
            Status.OK: "the trace settled as its model says it should, and decides the posterior",
            Status.NOT_CONVERGED: (
                "the trace still drifts, or gradients are not linear along it, or the optimum "
                "lies outside where it went: the intervals rest on extrapolation; allow more "
                "steps, or plan again"
            ),
            Status.CURVATURE_UNIDENTIFIED: (
                "the trace says little about the curvature, or not what simulated covariates "
                "expect, so the intervals rest on its prior; pass a public_sample, merge rare "
                "categories, or allow a larger covariate_share or epsilon"
            ),
            Status.MODEL_MISFIT: (
                "outcomes scatter more than the model says, and clipping what it does not expect "
                "moves the estimates: choose a model with more scatter (negative-binomial in place "
                "of poisson, student in place of linear), or Settings with a larger clip_norm"
            ),
            Status.DIVERGED: (
                "the iterates ran away: this posterior is not usable; make a plan first, and give "
                "latents priors of order one (scales in a non-centred form)"
            ),
        }[self]


def is_usable(theta: Float[np.ndarray, "draws dim"]) -> bool:
    """Whether draws are numbers, and differ: anything else must not be called error bars."""
    return bool(np.isfinite(theta).all() and (theta.std(0) > 0).all())


class OptimumGiven(NamedTuple):
    """Gaussians of the optimum, one for each sensitivity."""

    mean: Float[np.ndarray, "many dim"]
    precision: Float[np.ndarray, "many dim dim"]
    sensitivity: Float[np.ndarray, "many dim dim"]


class Moments(NamedTuple):
    """Mean and covariance of theta."""

    mean: Float[np.ndarray, " dim"]
    covariance: Float[np.ndarray, "dim dim"]


class NoiseAwarePosterior(NamedTuple):
    """Draws of the trace model's unknowns."""

    optimum: Float[np.ndarray, "draws dim"]
    """The variational optimum phi*."""
    curvature: Float[np.ndarray, "draws dim ..."]
    """A, diagonal or a matrix; where moments were simulated, the sensitivity M beside it."""
    identified: bool
    """Whether the trace, not the prior, decides the curvature."""
    expected: ExpectedMoments | None = None
    """What was simulated and trusted: its bias is taken off. None is nothing."""
    given: OptimumGiven | None = None
    """The optimum for every curvature matrix that was drawn."""
    variability: Float[np.ndarray, "dim dim"] | None = None
    """B as it was bought, prior included; None is what was simulated."""

    def draw_theta(self, rng: np.random.Generator) -> Float[np.ndarray, "draws dim"]:
        """theta given each optimum: N(optimum, A^-1), or the sandwich covariance and the mean shift
        of mathematics.md eq. (21)."""
        shock = rng.standard_normal(self.optimum.shape)
        if self.curvature.ndim == 2:
            return self.optimum + shock * self.curvature**-0.5
        if self.variability is not None:
            pull = shock @ np.linalg.cholesky(self.variability).T
            if self.expected is not None:
                pull = pull + self.expected.mean_shift
            return self.optimum + np.linalg.solve(self.curvature, pull[..., None])[..., 0]
        roots = np.linalg.cholesky(self.curvature)
        if self.expected is not None:
            shock = shock @ self._sandwich_root().T
            shift = np.broadcast_to(self.expected.mean_shift, shock.shape)[..., None]
            shock = shock + np.linalg.solve(roots, shift)[..., 0]
        return self.optimum + np.linalg.solve(roots.mT, shock[..., None])[..., 0]

    def _sandwich_root(self) -> Float[np.ndarray, "dim dim"]:
        """The identity where variability and sensitivity are the same."""
        if self.expected is None:
            return np.eye(self.optimum.shape[1])
        inverse = np.linalg.inv(np.linalg.cholesky(self.expected.sensitivity))
        return np.linalg.cholesky(inverse @ self.expected.variability @ inverse.T)

    def theta_moments(self) -> Moments:
        """Of what `draw_theta` draws, without its chance."""
        if self.given is None:
            theta = self.draw_theta(np.random.default_rng(0))
            return Moments(theta.mean(0), np.atleast_2d(np.cov(theta, rowvar=False)))
        inverse_roots = np.linalg.inv(np.linalg.cholesky(self.given.sensitivity)).mT
        if self.variability is None:
            spread = inverse_roots @ self._sandwich_root()
        else:
            root = np.linalg.cholesky(self.variability)
            spread = inverse_roots @ inverse_roots.mT @ root
        means = self.given.mean
        if self.expected is not None:
            means = means + inverse_roots @ inverse_roots.mT @ self.expected.mean_shift
        covariance = (np.linalg.inv(self.given.precision) + spread @ spread.mT).mean(0)
        return Moments(means.mean(0), covariance + np.cov(means, rowvar=False, ddof=0))


class Outcome(NamedTuple):
    """Draws of theta in the model's unconstrained space, and how it went."""

    draws: Float[np.ndarray, "draws dim"]
    noise_unaware: Float[np.ndarray, "draws dim"]
    """Plain DPVI's draws: around the last iterate as if it were the optimum."""
    status: Status
    burn_in: BurnIn
    curvature: Float[np.ndarray, "*dim"]
    """Mean curvature over draws; not a number where none was inferred."""
    tail_mean: Float[np.ndarray, " dim"] | None = None
    """Mean iterate behind the burn-in, in the model's unconstrained space; None if it diverged."""
    moments: Moments | None = None
    """Of theta in the frame's coordinates, under the prior that the trace was made with."""
    averaged: Averaged | None = None
    """Every parameter's tail and its tests, where a posterior rests on them."""
    stationarity: dict[str, Stationarity] | None = None
    """Of a mixture, which is judged by it: one test for each group of parameters."""
