"""How a posterior came out: a status inside the result, not a silent NaN."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from noisewise._shapes import Float, Int
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
            Status.OK: (
                "the fit's noisy steps settled, and they, rather than the prior, decide the "
                "intervals"
            ),
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
    curvature: Float[np.ndarray, "many dim ..."]
    """A, the diagonal of every draw, or matrices; where moments were simulated, the sensitivity M
    beside it."""
    identified: bool
    """Whether the trace, not the prior, decides the curvature."""
    expected: ExpectedMoments | None = None
    """What was simulated and trusted: its bias is taken off. None is nothing."""
    given: OptimumGiven | None = None
    """The optimum for every curvature matrix that was drawn."""
    variability: Float[np.ndarray, "dim dim"] | None = None
    """B as it was bought, prior included; None is what was simulated."""
    which: Int[np.ndarray, " draws"] | None = None
    """Of the matrices, the one behind every draw; None is one each."""

    def mean_curvature(self) -> Float[np.ndarray, "*dim"]:
        """Over the draws."""
        if self.which is None:
            return np.asarray(self.curvature.mean(0))
        weights = np.bincount(self.which, minlength=len(self.curvature)) / len(self.which)
        return np.tensordot(weights, self.curvature, 1)

    def draw_theta(self, rng: np.random.Generator) -> Float[np.ndarray, "draws dim"]:
        """theta given each optimum: N(optimum, A^-1), or the sandwich covariance and the mean shift
        of mathematics.md eq. (21)."""
        shock = rng.standard_normal(self.optimum.shape)
        if self.curvature.ndim == 2:
            return self.optimum + shock * self.curvature**-0.5
        which = np.arange(len(shock)) if self.which is None else self.which
        if self.variability is not None:
            pull = shock @ np.linalg.cholesky(self.variability).T
            if self.expected is not None:
                pull = pull + self.expected.mean_shift
            inverses = np.linalg.inv(self.curvature)
            return self.optimum + products_by_matrix(inverses, which, pull)
        inverse_roots = np.linalg.inv(np.linalg.cholesky(self.curvature).mT)
        if self.expected is not None:
            shift = (inverse_roots.mT @ self.expected.mean_shift)[which]
            shock = shock @ self._sandwich_root().T + shift
        return self.optimum + products_by_matrix(inverse_roots, which, shock)

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
        inverses = np.linalg.inv(self.given.sensitivity)
        if self.variability is None:
            inverse_roots = np.linalg.inv(np.linalg.cholesky(self.given.sensitivity)).mT
            spread = inverse_roots @ self._sandwich_root()
        else:
            spread = inverses @ np.linalg.cholesky(self.variability)
        means = self.given.mean
        if self.expected is not None:
            means = means + inverses @ self.expected.mean_shift
        covariance = (np.linalg.inv(self.given.precision) + spread @ spread.mT).mean(0)
        return Moments(means.mean(0), covariance + np.cov(means, rowvar=False, ddof=0))


def products_by_matrix(
    matrices: Float[np.ndarray, "many dim dim"],
    which: Int[np.ndarray, " draws"],
    vectors: Float[np.ndarray, "draws dim"],
) -> Float[np.ndarray, "draws dim"]:
    """Each vector times its own of the matrices, those of one matrix together: there is no copy of
    a matrix for every draw.

    Args:
        matrices: Of which one may serve many draws.
        which: Of them serves each draw.
        vectors: One a draw.
    """
    order, counts = np.argsort(which, kind="stable"), np.bincount(which, minlength=len(matrices))
    starts = (np.cumsum(counts) - counts)[:, None]
    # Groups are filled up with copies of their last: the same product, written twice.
    turns = np.minimum(np.arange(counts.max()), np.maximum(counts[:, None] - 1, 0))
    places = order[np.minimum(starts + turns, len(order) - 1)]
    found = np.empty_like(vectors)
    used = counts > 0
    found[places[used]] = vectors[places[used]] @ matrices[used].mT
    return found


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
