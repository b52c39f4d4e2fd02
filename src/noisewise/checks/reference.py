"""What a bought table looks like if the model is right, given all that the fit released.

The table is compared with what the model says at the posterior mean, a public number. Four things
make the two differ when the model is right, and all of them are in here (docs/mathematics.md,
(42)):

- people's outcomes are random;
- the posterior mean is not the truth, but as far off as the posterior says;
- the same people were fitted: what their outcomes tell of the parameters is in the posterior mean
  already, as far as the fit's own privacy noise lets it through;
- the noise of this release.

Covariates enter by their reference alone, rows that are simulated like the fit's, reweighted to the
counts of cells that were bought. At the posterior mean a residual's expectation is zero whatever
the covariates, so what the reference gets wrong is of second order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float, Int
from noisewise.checks.contributions import Question
from noisewise.data import WEIGHT, Rows
from noisewise.mechanism import in_blocks
from noisewise.models import BoundModel, Target

_ROWS = 16_384
_REPEATS = 2
"""Times that outcomes are simulated for the reference's rows."""


@dataclass(frozen=True, eq=False)
class Covariates:
    """Simulated rows: as columns, and as the model takes them."""

    columns: Rows
    arguments: Rows


def simulated_covariates(bound: BoundModel) -> Covariates:
    """Rows from the schema's declarations or a public sample, many times over for each repeat.

    Args:
        bound: The model.
    """
    columns = bound.view.simulate_columns(np.random.default_rng(5), _ROWS)
    columns = {name: np.concatenate([column] * _REPEATS) for name, column in columns.items()}
    return Covariates(columns, bound.view.encode(columns))


@dataclass(frozen=True, eq=False)
class Reference:
    """Simulated records under the model at the posterior mean."""

    cell: Int[np.ndarray, " count"]
    expected: Float[np.ndarray, " count"]
    values: Float[np.ndarray, "count width"]
    """Centred: their expectation given the covariates is zero."""
    scores: Float[np.ndarray, "count dim"]
    """Gradients of the records' log-likelihoods."""
    prior_precision: Float[np.ndarray, "dim dim"]

    def cell_means(self, cells: int) -> Float[np.ndarray, " cells"]:
        """What the model predicts in each cell, on average; NaN where the reference has nobody."""
        counts = np.bincount(self.cell, minlength=cells)
        sums = np.bincount(self.cell, self.expected, minlength=cells)
        return np.divide(sums, counts, out=np.full(cells, np.nan), where=counts > 0)

    def expectation(
        self, counts: Float[np.ndarray, " cells"], draws: Float[np.ndarray, "draws dim"]
    ) -> Expectation:
        """Of the sums of values in every cell, if it holds so many people.

        Args:
            counts: As they were bought.
            draws: The posterior's, unconstrained.
        """
        cells, width = len(counts), self.values.shape[1]
        present = np.bincount(self.cell, minlength=cells)
        weight = (np.maximum(counts, 0.0) / np.maximum(present, 1))[self.cell]
        information = (weight[:, None] * self.scores).T @ self.scores
        response = np.zeros((cells, width, self.scores.shape[1]))
        within = np.zeros((cells, width, cells, width))
        for k in range(cells):
            here = self.cell == k
            if here.any():
                weighed = weight[here, None] * self.values[here]
                response[k] = weighed.T @ self.scores[here]
                within[k, :, k] = weighed.T @ self.values[here]
        size = cells * width
        return _expectation(
            response.reshape(size, -1),
            within.reshape(size, size),
            information,
            self.prior_precision,
            draws,
        )


@dataclass(frozen=True, eq=False)
class Expectation:
    """Sums of values under the model, the release's noise aside: zero in expectation."""

    sampling: Float[np.ndarray, "size size"]
    """Covariance by people's outcomes, without what they told the fit."""
    response: Float[np.ndarray, "size dim"]
    """Of the sums to the parameters."""
    moves: Float[np.ndarray, "draws dim"]
    """Where the parameters may be that the data would have given without privacy noise, from the
    posterior mean: the posterior's draws, without what sampling adds to them."""

    @property
    def by_parameters(self) -> Float[np.ndarray, "size size"]:
        """Covariance by what the posterior leaves open."""
        shifts = self.moves @ self.response.T
        return np.atleast_2d(shifts.T @ shifts / len(shifts))


def _expectation(
    response: np.ndarray,
    within: np.ndarray,
    information: np.ndarray,
    prior_precision: np.ndarray,
    draws: np.ndarray,
) -> Expectation:
    precision = information + prior_precision
    told = np.linalg.pinv(precision, hermitian=True)
    slope = response @ told
    sampling = within - slope @ response.T - response @ slope.T + slope @ information @ slope.T
    centred = draws - draws.mean(0)
    # The share of every direction's variance that is not sampling's: between 0 and 1.
    factor = _root(np.atleast_2d(np.cov(centred, rowvar=False)))
    inverse = np.linalg.pinv(factor, hermitian=True)
    shares, axes = np.linalg.eigh(inverse @ told @ inverse)
    kept = np.sqrt(np.clip(1 - shares, 0.0, 1.0))
    change = inverse @ (axes * kept) @ axes.T @ factor
    return Expectation(_symmetric(sampling), response, centred @ change)


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2


def simulate_reference(bound: BoundModel, question: Question, covariates: Covariates) -> Reference:
    """Outcomes simulated at the posterior mean, and everything that is asked of them.

    Args:
        bound: The model.
        question: What is asked.
        covariates: The rows that get outcomes.
    """
    theta, target = jnp.asarray(question.theta, jnp.float32), bound.target.rows
    given = {n: jnp.asarray(c) for n, c in covariates.arguments.items() if n != WEIGHT}
    drawn = target.simulate(jax.random.PRNGKey(5), theta, given)
    rows = {name: np.asarray(column) for name, column in drawn.items()}
    weights = {n: c for n, c in covariates.arguments.items() if n == WEIGHT}
    judged = question.judge(covariates.columns, rows | weights)
    found = in_blocks(lambda block: {"scores": _scores(target, theta, block)}, rows)
    # A record whose gradient is no number contributes nothing to the fit either.
    scores = np.where(judged.known[:, None], np.nan_to_num(found["scores"].astype(float)), 0.0)
    known = judged.known[:, None]
    centre = 1 / question.bins if question.bins else 0.0
    return Reference(
        cell=judged.cell,
        expected=judged.expected,
        values=np.where(known, judged.values - centre, 0.0),
        scores=scores,
        prior_precision=_prior_precision(target, theta),
    )


@partial(jax.jit, static_argnums=0)
def _scores(target: Target, theta: Array, rows: Rows) -> Array:
    return jax.vmap(jax.grad(target.log_likelihood), (None, 0))(theta, rows)


def _prior_precision(target: Target, theta: Array) -> np.ndarray:
    """Minus the Hessian of the log-prior, without directions in which the prior is not concave."""
    hessian = np.asarray(jax.hessian(target.log_prior)(theta), float)
    values, vectors = np.linalg.eigh(-_symmetric(np.nan_to_num(hessian)))
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
