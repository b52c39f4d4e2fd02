import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.dpsep import expected_kl, gaussian_kl, paper_expression


def test_kl_of_gaussians():
    assert gaussian_kl(np.zeros(2), np.eye(2), np.zeros(2), np.eye(2)) == pytest.approx(0)
    # One dimension by hand: log(s_p/s_q) + (s_q^2 + d^2)/(2 s_p^2) - 1/2.
    by_hand = np.log(2 / 0.5) + (0.25 + 1) / 8 - 0.5
    found = gaussian_kl(np.array([1.0]), np.array([[4.0]]), np.array([0.0]), np.array([[0.25]]))
    assert found == pytest.approx(by_hand)


def test_noise_on_eta_alone_has_a_closed_form():
    """E KL = noise^2 tr(Sigma)/2. Five standard errors, fixed seed: one false alarm in 10^6."""
    precision = np.array([[4.0, 1.0], [1.0, 2.0]])
    found = expected_kl(np.array([1.0, -2.0]), precision, 0.3, 0.0, ridge=1.0, draws=4000)
    wanted = 0.5 * 0.09 * np.trace(np.linalg.inv(precision))
    assert abs(found.mean - wanted) < 5 * found.standard_error
    assert found.standard_error < 0.1 * wanted


def test_the_papers_expression_stands_beside_the_truth_where_it_applies():
    eta, precision = np.full(3, 2.0), 50.0 * np.eye(3)
    truth = expected_kl(eta, precision, 0.1, 0.05, ridge=50.0, draws=2000)
    paper = paper_expression(eta, precision, 0.1, 0.05, ridge=50.0)
    assert paper > truth.mean  # a bound, here
    assert np.isnan(paper_expression(eta, precision, 0.1, 30.0, ridge=50.0))
    with pytest.raises(NoisewiseError, match="proportional to the identity"):
        paper_expression(eta, np.diag([1.0, 2.0, 3.0]), 0.1, 0.1, ridge=1.0)
