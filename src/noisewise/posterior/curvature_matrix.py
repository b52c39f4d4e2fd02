"""The posterior of a curvature matrix A, given the released gradients' regression on the iterates.

A = R0 exp(S) R0 with a Gaussian prior on the symmetric S (mathematics.md eqs. (9) and (10)), so A
is positive definite by construction, whatever the trace can or cannot tell. The posterior is
Gaussian around the mode in that logarithm: Laplace's approximation with a Gauss-Newton precision
(eq. (11)).
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from noisewise._shapes import Float
from noisewise.dpvi import WIDE

_EXACT_HESSIAN_DIM = 64
_LARGEST_LOG = 12.0
_POWER_STEPS, _TAYLOR_REACH = 12, 0.06
"""With four terms of the series, exponentials are right to seven digits."""


class Regression(NamedTuple):
    """The likelihood of A alone, -1/2 tr(W^-1 (kappa A S kappa A - 2 cross kappa A)), and its
    prior."""

    weight: Float[np.ndarray, " dim"]
    """1 / W, per row."""
    spread: Float[np.ndarray, "dim dim"]
    """kappa^2 times the centred second moment of the iterates."""
    cross: Float[np.ndarray, "dim dim"]
    """kappa times the centred gradient-iterate moment."""
    expected_root: Float[np.ndarray, "dim dim"]
    """R0, the symmetric root of the expected A."""
    log_sd: float
    """The prior's width omega_A: sd of the log-eigenvalues of A around the expected one's."""

    @property
    def prior(self) -> float:
        """The density of S is exp(-prior tr(S^2) / 2): off-diagonal entries get a variance that
        gives log-eigenvalues the wanted sd."""
        return (len(self.weight) + 1) / (2 * self.log_sd**2)


class CurvaturePosterior(NamedTuple):
    """A's posterior at one width of its prior: A = root exp(E) root with a Gaussian E."""

    evidence: float
    log_sd: float
    """The prior's width."""
    log: Float[np.ndarray, "dim dim"]
    """S of the most probable A, in the basis of `_mode`."""
    root: Float[np.ndarray, "dim dim"]
    """Symmetric root of the most probable A."""
    factor: Float[np.ndarray, "pairs ..."]
    """Cholesky factor of the precision of E, or the root of its diagonal."""
    basis: Float[np.ndarray, "dim dim"] | None
    """In which entries of E are independent; None where the precision is kept whole."""
    prior_share: float
    """The prior's share of that precision: one where the trace says nothing."""

    def draw(self, count: int, rng: np.random.Generator) -> Float[np.ndarray, "draws dim dim"]:
        """Draws of A."""
        upper = np.triu_indices(len(self.root))
        normal = rng.standard_normal((len(upper[0]), count))
        if self.basis is None:
            deviations = _symmetric(np.linalg.solve(self.factor.T, normal).T, upper)
        else:
            deviations = _symmetric((normal / self.factor[:, None]).T, upper)
            deviations = self.basis @ deviations @ self.basis.T
        return self.root @ _exponential(deviations) @ self.root


class _Mode(NamedTuple):
    """The most probable S and A, and minus the log density there."""

    log: Float[np.ndarray, "dim dim"]
    curvature: Float[np.ndarray, "dim dim"]
    loss: float


def curvature_posterior(
    regression: Regression, start: Float[np.ndarray, "dim dim"]
) -> CurvaturePosterior:
    """Mode and precision of A, and the evidence for this prior, by Laplace's approximation."""
    dim = len(regression.weight)
    mode = _mode(regression, start)
    root = symmetric_root(mode.curvature)
    # To first order A = mode + root E root, so the likelihood's quadratic form in E is
    # tr(E Q1 E Q2) with Q1 = root S root and Q2 = root W^-1 root.
    left = root @ regression.spread @ root
    right = (root * regression.weight) @ root
    upper = np.triu_indices(dim)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    prior = regression.prior * twice
    basis = None
    if dim <= _EXACT_HESSIAN_DIM:
        precision = _quadratic_form(left, right, upper)
        precision[np.diag_indices_from(precision)] += prior
        factor = np.linalg.cholesky(precision)
        share = float(np.mean((np.linalg.inv(factor) ** 2).sum(0) * prior))
        log_determinant = 2 * np.sum(np.log(np.diag(factor)))
    else:
        # Too many pairs for a matrix over them: turn to the basis of Q2 and keep the diagonal.
        basis = np.linalg.eigh(right)[1]
        p, q = np.diag(basis.T @ left @ basis), np.diag(basis.T @ right @ basis)
        pairs = 0.5 * (np.outer(p, q) + np.outer(q, p))[upper] * twice + prior
        factor, share = np.sqrt(pairs), float(np.mean(prior / pairs))
        log_determinant = np.sum(np.log(pairs))
    evidence = -mode.loss + 0.5 * np.sum(np.log(prior)) - 0.5 * log_determinant
    return CurvaturePosterior(
        evidence=float(evidence),
        log_sd=regression.log_sd,
        log=mode.log,
        root=root,
        factor=factor,
        basis=basis,
        prior_share=share,
    )


def _mode(regression: Regression, start: Float[np.ndarray, "dim dim"]) -> _Mode:
    """The most probable S and A, by quasi-Newton steps in S from ``start``."""
    dim = len(regression.weight)
    upper = np.triu_indices(dim)
    both_sides = np.where(upper[0] == upper[1], 1.0, 2.0)
    # In the basis and the units in which the loss is nearly round, a dozen steps suffice.
    left = regression.expected_root @ regression.spread @ regression.expected_root
    power, basis = np.linalg.eigh(left)
    centre = regression.expected_root @ basis
    weight = np.einsum("ki,k,ki->i", centre, regression.weight, centre)
    pairs = 0.5 * (np.outer(power, weight) + np.outer(weight, power))[upper] + regression.prior
    unit = 1 / np.sqrt(pairs * both_sides)
    target = regression.weight[:, None] * regression.cross

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        log = _symmetric(unit * flat, upper)
        values, vectors = np.linalg.eigh(log)
        values = np.clip(values, -_LARGEST_LOG, _LARGEST_LOG)
        exponentials = np.exp(values)
        matrix = centre @ (vectors * exponentials) @ vectors.T @ centre.T
        weighted = regression.weight[:, None] * (matrix @ regression.spread)
        value = 0.5 * np.sum(weighted * matrix) - np.sum(target * matrix)
        # The mean gradient, with a wide prior on the optimum, says 1/|A|: minus the log trace.
        value += 0.5 * regression.prior * np.sum(log * log) + np.trace(log)
        slope = weighted - target
        slope = centre.T @ (0.5 * (slope + slope.T)) @ centre
        # Daleckii and Krein: the derivative of the exponential in its eigenbasis.
        gaps = values[:, None] - values[None, :]
        near = np.abs(gaps) < 1e-8
        ratios = (exponentials[:, None] - exponentials[None, :]) / np.where(near, 1.0, gaps)
        ratios = np.where(near, exponentials[:, None], ratios)
        slope = vectors @ (ratios * (vectors.T @ slope @ vectors)) @ vectors.T
        slope = slope + regression.prior * log + np.eye(dim)
        return float(value), slope[upper] * both_sides * unit

    options = {"ftol": 1e-8, "maxcor": 20}
    found = minimize(loss, start[upper] / unit, jac=True, method="L-BFGS-B", options=options)
    log = _symmetric(unit * found.x, upper)
    return _Mode(log, centre @ _exponential(log[None])[0] @ centre.T, float(found.fun))


def _symmetric(
    flat: Float[np.ndarray, "*many pairs"], upper: tuple[np.ndarray, ...]
) -> Float[np.ndarray, "*many dim dim"]:
    """Symmetric matrices from their upper triangles."""
    dim = int(upper[0][-1]) + 1
    whole = np.zeros((*flat.shape[:-1], dim, dim))
    whole[..., upper[0], upper[1]] = flat
    return whole + np.triu(whole, 1).mT


def _quadratic_form(
    left: Float[np.ndarray, "dim dim"],
    right: Float[np.ndarray, "dim dim"],
    upper: tuple[np.ndarray, ...],
) -> Float[np.ndarray, "pairs pairs"]:
    """The matrix of tr(E Q1 E Q2) over the upper triangle of a symmetric E."""
    dim = len(left)
    whole = 0.5 * (np.kron(left, right) + np.kron(right, left))
    one, other = upper[0] * dim + upper[1], upper[1] * dim + upper[0]
    off = (upper[0] != upper[1]).astype(float)
    form = whole[np.ix_(one, one)] + whole[np.ix_(one, other)] * off
    below = whole[np.ix_(other, one)] + whole[np.ix_(other, other)] * off
    return form + below * off[:, None]


def _exponential(symmetric: Float[np.ndarray, "many dim dim"]) -> Float[np.ndarray, "many dim dim"]:
    """Matrix exponentials of symmetric matrices."""
    if symmetric.shape[-1] > WIDE:
        return np.stack([_exponential_by_squaring(each) for each in symmetric])
    values, vectors = np.linalg.eigh(symmetric)
    scaled = vectors * np.exp(np.clip(values, -_LARGEST_LOG, _LARGEST_LOG))[..., None, :]
    return scaled @ vectors.mT


def _exponential_by_squaring(
    symmetric: Float[np.ndarray, "dim dim"],
) -> Float[np.ndarray, "dim dim"]:
    """exp(X) = exp(X / 2^k)^(2^k), by products alone: of many coordinates a fraction of the work of
    eigenvectors. Positive definite, as it ends with a square."""
    vector = np.ones(len(symmetric))
    for _ in range(_POWER_STEPS):
        vector = symmetric @ (vector / max(float(np.linalg.norm(vector)), 1e-300))
    # Power iteration comes near the largest size from below.
    largest = max(1.5 * float(np.linalg.norm(vector)), 1e-12)
    squarings = max(1, int(np.ceil(np.log2(largest / _TAYLOR_REACH))))
    small = symmetric / 2**squarings
    square, one = small @ small, np.eye(len(symmetric))
    found = one + small + square @ (one / 2 + small / 6 + square / 24)
    for _ in range(squarings):
        found = found @ found
    return found


def symmetric_root(matrix: Float[np.ndarray, "dim dim"]) -> Float[np.ndarray, "dim dim"]:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values)) @ vectors.T
