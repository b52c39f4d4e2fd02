"""DPVIm's full-rank experiment: its data, its measure, and a small run of it. Seeds are fixed."""

import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.models import build_target
from noisewise.models.glm import GlmTarget
from noisewise.studies.core.study import Column, Options, Part
from noisewise.studies.dpvim import full_rank
from noisewise.studies.dpvim.full_rank import (
    FULL_RANK,
    GammaNoiseRegression,
    correlation_matrix,
    laplace_guide,
    predictive_log_likelihood,
    regression_tables,
    variant_tables,
)


@pytest.mark.parametrize("dim", [100, 200])
@pytest.mark.parametrize("density", [0.2, 0.8])
def test_the_matrix_is_a_correlation_matrix_of_the_asked_density(dim, density):
    found = correlation_matrix(dim, density, np.random.default_rng(dim))
    eigenvalues = np.linalg.eigvalsh(found)
    assert eigenvalues[0] == pytest.approx(0.05, abs=1e-9)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 1)
    off = found[np.tril_indices(dim, -1)]
    assert (off != 0).mean() == pytest.approx(density, abs=1 / len(off))
    # Half are negative: a share five standard errors off is one in a million.
    assert abs((off[off != 0] > 0).mean() - 0.5) < 5 * 0.5 / (off != 0).sum() ** 0.5


def test_strengths_keep_their_ratios_and_few_of_them_their_size():
    """Beta(8, 10) has mean 0.444 and sd 0.114; one pair of two columns needs no shrinking."""
    pairs = [correlation_matrix(2, 1.0, np.random.default_rng(seed))[0, 1] for seed in range(400)]
    strengths = np.abs(pairs)
    assert strengths.mean() == pytest.approx(8 / 18, abs=5 * 0.114 / 20)
    many = correlation_matrix(60, 0.9, np.random.default_rng(0))
    shrunk = np.abs(many[np.tril_indices(60, -1)])
    ratio = shrunk[shrunk > 0].std() / shrunk.mean() * (shrunk > 0).mean()
    assert ratio == pytest.approx(strengths.std() / strengths.mean(), rel=0.15)
    assert shrunk.max() < 0.3
    with pytest.raises(NoisewiseError, match=r"density must be in \[0, 1\], got 1.2"):
        correlation_matrix(3, 1.2, np.random.default_rng(0))


def test_tables_follow_the_model():
    rows = 4000
    tables = regression_tables(5, 0.5, rows, np.random.default_rng(3))
    for table in tables[:2]:
        residual = table["y"] - table["X"] @ tables.weights
        assert residual.std() == pytest.approx(1, abs=5 / (2 * rows) ** 0.5)
    assert not np.array_equal(tables.train["X"], tables.test["X"])


def test_the_predictive_is_the_average_over_draws_of_the_guide():
    """Against 40,000 draws of (w, log sigma): the mean over rows is known to about 0.001."""
    rng = np.random.default_rng(0)
    dim = 3
    root = np.tril(0.2 * rng.normal(size=(dim + 1, dim + 1)), -1) + 0.3 * np.eye(dim + 1)
    mean = np.array([0.5, -1.0, 0.2, 0.1])
    test = {"X": rng.normal(size=(40, dim)), "y": rng.normal(size=40)}
    theta = mean + rng.standard_normal((40_000, dim + 1)) @ root.T
    sigma = np.exp(theta[:, -1])
    away = (test["y"][:, None] - test["X"] @ theta[:, :-1].T) / sigma
    density = np.exp(-0.5 * away**2) / (sigma * (2 * np.pi) ** 0.5)
    expected = np.log(density.mean(1)).mean()
    found = predictive_log_likelihood(mean, root @ root.T, test)
    assert found == pytest.approx(expected, abs=0.01)
    assert np.isnan(predictive_log_likelihood(mean * np.nan, root @ root.T, test))


def test_the_reference_predicts_as_well_as_the_truth():
    """The truth's mean log-density is -1.419 with a standard error of 0.007 over 10,000 rows."""
    tables = regression_tables(5, 0.5, 10_000, np.random.default_rng(3))
    found = predictive_log_likelihood(*laplace_guide(tables.train), tables.test)
    assert found == pytest.approx(-0.5 * (1 + np.log(2 * np.pi)), abs=0.035)


def test_gradients_of_the_papers_model_are_in_closed_form():
    target = build_target(GammaNoiseRegression(), {"X": np.ones((4, 3)), "y": np.ones(4)})
    assert isinstance(target, GlmTarget)
    assert (target.dim, target.width) == (4, 3)
    theta = np.array([0.1, 0.2, 0.3, 0.5], np.float32)
    # log Gamma(0.1, 0.1) at e^0.5, with the logarithm's Jacobian, and three standard normals.
    gamma = 0.1 * np.log(0.1) - 2.252712651734206 - 0.9 * 0.5 - 0.1 * np.exp(0.5) + 0.5
    normal = -0.5 * (theta[:3] ** 2).sum() - 1.5 * np.log(2 * np.pi)
    assert float(target.log_prior(theta)) == pytest.approx(gamma + normal, abs=1e-4)


def test_a_small_run_learns(monkeypatch):
    """Three weights, 2000 steps, noise that hardly counts: from scores of a random start to near
    the reference, less what a clip norm of 0.2 does to the noise's estimate."""
    monkeypatch.setitem(full_rank._VARIANTS, "d3-density0.5", (3, 0.5))
    options = Options(methods=("aligned",), columns=(Column(1.0),), fits=2, epochs=20)
    part, noise = Part("aligned", "d3-density0.5"), {(1.0, 2000): 0.3}
    fitted, reference = FULL_RANK.run(part, options, noise)
    assert fitted.values.shape == (1, 2)
    assert (reference.name, reference.dashed) == ("non-private", True)
    assert (fitted.values < reference.values + 0.01).all()
    assert (fitted.values > reference.values - 0.7).all()
    starts = np.random.default_rng([1, 2]).uniform(-2, 2, (2, 4))
    test = variant_tables("d3-density0.5", 1).test
    scores = [predictive_log_likelihood(start, 0.01 * np.eye(4), test) for start in starts]
    assert (fitted.values[0] > np.array(scores) + 0.5).all()


def test_the_papers_four_panels():
    options = Options(methods=("vanilla", "aligned"), columns=(Column(1.0),), fits=2, epochs=20)
    parts = FULL_RANK.parts(options)
    assert len(parts) == 8
    assert {part.variant for part in parts} == {panel.name for panel in FULL_RANK.panels}
