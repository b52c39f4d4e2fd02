"""Many coordinates: what is done with fewer matrices is what would be done with all of them."""

from functools import lru_cache

import numpy as np
import pytest

import noisewise as nw
from noisewise.dpvi import WIDE, Dpvi, TraceStatistics
from noisewise.models import bind_model
from noisewise.models.glm import logistic
from noisewise.posterior import analytic
from noisewise.posterior.curvature_matrix import _exponential, _exponential_by_squaring
from noisewise.posterior.expected import RecordMoments, joined, optimum_prior
from noisewise.posterior.status import products_by_matrix
from noisewise.trials import reference_rows

DIM, KAPPA, STEPS = WIDE + 20, 0.1, 3000


def random_curvature(dim, spread, rng):
    """Its logarithm as the prior of eq. (10) draws it."""
    log = rng.normal(size=(dim, dim)) * spread / np.sqrt(2 * (dim + 1))
    return _exponential((log + log.T)[None])[0]


def test_a_matrix_that_serves_many_draws():
    rng = np.random.default_rng(0)
    matrices, which = rng.normal(size=(5, 3, 3)), rng.permutation(np.arange(23) % 5)
    vectors = rng.normal(size=(23, 3))
    expected = (matrices[which] @ vectors[..., None])[..., 0]
    np.testing.assert_allclose(products_by_matrix(matrices, which, vectors), expected)


def test_matrices_that_serve_no_draw():
    matrices = np.stack([np.eye(2) * k for k in range(4)])
    vectors, which = np.ones((3, 2)), np.array([3, 1, 3])
    found = products_by_matrix(matrices, which, vectors)
    np.testing.assert_allclose(found, [[3, 3], [1, 1], [3, 3]])


@pytest.mark.parametrize("size", [0.0, 0.01, 1.0, 8.0])
def test_exponentials_by_squaring(size):
    rng = np.random.default_rng(1)
    log = rng.normal(size=(12, 12))
    log = size * (log + log.T) / np.linalg.norm(log + log.T, 2)
    expected = _exponential(log[None])[0]
    found = _exponential_by_squaring(log)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("least", [2.0, 0.5])
def test_the_optimums_prior_of_many_coordinates(least):
    """By factors, or where something has to be raised by eigenvectors: P^-1 less M^-1."""
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    prior = (turn * np.linspace(0.5, 1.5, DIM)) @ turn.T
    root = np.linalg.cholesky(prior)
    gains = np.linspace(least, 50, DIM)
    curvature = root @ (turn.T * gains) @ turn @ root.T
    found = optimum_prior(curvature[None], prior)
    raised = root @ (turn.T * np.maximum(gains, 1.001)) @ turn @ root.T
    np.testing.assert_allclose(found.curvature[0], raised, rtol=1e-6, atol=1e-8)
    covariance = np.linalg.inv(prior) - np.linalg.inv(raised)
    size = np.abs(covariance).max()
    np.testing.assert_allclose(np.linalg.inv(found.precision[0]), covariance, atol=1e-6 * size)


def record_moments(psi, u, jacobians, traces):
    """Of records whose numbers are given."""
    one = np.ones(1)
    return RecordMoments(
        psi_mean=psi.mean(0)[None],
        u_mean=u.mean(0)[None],
        psi_u=(psi.T @ u / len(u))[None],
        psi_covariance=np.cov(psi, rowvar=False, ddof=0)[None],
        u_covariance=np.cov(u, rowvar=False, ddof=0)[None],
        jacobian=jacobians.mean(0)[None],
        log_sensitivity_gradient=psi.mean(0)[None],
        shared_log_sensitivity_gradient=u.mean(0)[None],
        log_curvature_gradient=traces.mean(0)[None],
        variability_gradient=psi.mean(0)[None],
        records=one * len(u),
        jacobian_records=one * len(jacobians),
    )


def test_lots_of_records_together_are_all_records():
    rng = np.random.default_rng(3)
    psi, u = rng.normal([1, -2], 1, size=(90, 2)), rng.normal(size=(90, 2))
    jacobians, traces = rng.normal(size=(30, 2, 2)), rng.normal(size=(30, 2))
    parts = [
        record_moments(psi[a:b], u[a:b], jacobians[c:d], traces[c:d])
        for a, b, c, d in ((0, 40, 0, 10), (40, 60, 10, 25), (60, 90, 25, 30))
    ]
    found = joined(joined(parts[0], parts[1]), parts[2])
    for name, expected in record_moments(psi, u, jacobians, traces)._asdict().items():
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12, err_msg=name)


def test_traces_of_many_coordinates_have_fewer_blocks():
    assert Dpvi(rule=None, draws=1, matrix=WIDE).blocks == 100
    assert Dpvi(rule=None, draws=1, matrix=WIDE + 1).blocks == 20
    assert Dpvi(rule=None, draws=1, matrix=0).blocks == 100


@lru_cache
def regression(features):
    columns = [nw.Column(name=f"x{k}", kind="real", bounds=(-3, 3)) for k in range(features)]
    schema = nw.Schema((*columns, nw.Column(name="ill", kind="binary")))
    return bind_model(logistic(), schema, "ill")


@pytest.mark.parametrize(
    ("features", "rows", "first", "lots"),
    [
        (3, 5000, 5000, 1),
        (3, 100, 4096, 1),
        (3, 16_384, 16_384, 1),
        (3, 10**6, 16_384, 62),
        (WIDE, 1000, 32 * (WIDE + 1), 1),
        (WIDE, 50_000, 16_384, 4),
        (WIDE, 10**9, 16_384, 41),
    ],
)
def test_as_many_rows_are_simulated_as_there_are(features, rows, first, lots):
    """Up to a number of cells, and of many coordinates at least so many for each."""
    reference = reference_rows(regression(features), rows)
    assert (len(reference.rows["X"]), reference.lots) == (first, lots)
    if lots > 1:
        one, other = reference.lot(1)["X"], reference.lot(2)["X"]
        assert one.shape == other.shape == reference.rows["X"].shape
        assert not np.array_equal(one, reference.rows["X"])
        assert not np.array_equal(one, other)


def wide_trace(curvature, optimum, noise, rate, seed):
    """Statistics of a trace of the linear model of eq. (5)."""
    rng = np.random.default_rng(seed)
    phi, points, gradients = np.zeros(len(optimum)), [], []
    for _ in range(STEPS):
        g = KAPPA * curvature @ (phi - optimum) + noise * rng.standard_normal(len(optimum))
        points.append(phi)
        gradients.append(g)
        phi = phi - rate / KAPPA * g
    kept = STEPS // 5
    phi, g = np.array(points[kept:]), np.array(gradients[kept:])
    off, slope = phi - phi.mean(0), g - g.mean(0)
    return TraceStatistics(
        steps=np.float64(len(phi)),
        parameters=phi.mean(0),
        gradient=g.mean(0),
        spread=off.T @ off,
        cross=slope.T @ off,
        power=(slope**2).sum(0),
    )


def test_calibrated_on_the_linear_model_with_many_coordinates():
    """One trace of 220 coordinates whose curvature is drawn from the prior: z-scores of the optimum
    have sd one within 0.15 (three of its standard errors, were they independent; fixed seed), and
    if the curvature is taken for diagonal it is above 1.5."""
    rng = np.random.default_rng(5)
    curvature, optimum = random_curvature(DIM, 1.0, rng), 3 * rng.normal(size=DIM)
    noise = np.full(DIM, 3.0)
    statistics = wide_trace(curvature, optimum, noise, 0.02, 6)
    model = analytic.MatrixModel(
        statistics=statistics,
        sampling_rate=KAPPA,
        noise_variance=noise**2,
        prior_mean=np.zeros(DIM),
        prior_precision=np.eye(DIM) * 1e-6,
        expected_curvature=np.eye(DIM),
        log_curvature_sds=(1.0,),
    )
    found = analytic.infer(model, 1280, np.random.default_rng(7))
    assert len(found.curvature) == 8
    assert found.optimum.shape == (1280, DIM)
    error = found.optimum.mean(0) - optimum
    assert abs(np.std(error / found.optimum.std(0)) - 1) < 0.15
    slopes = np.diag(statistics.slopes())
    diagonal = statistics.parameters - statistics.gradient / slopes - optimum
    assert np.std(diagonal / (noise / slopes / statistics.steps**0.5)) > 1.5
