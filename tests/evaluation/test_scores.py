"""z-scores against what the conjugate Gaussian says they are."""

import numpy as np
import pytest

from evaluation.toy import simulate, spoil
from noisewise._validate import NoisewiseError
from noisewise.evaluation import _fits, score


def test_by_hand():
    found = score(np.array([[1.0], [1.0]]), np.array([[[1.0], [3.0]], [[-1.0], [1.0]]]))
    assert found.z_mean[0] == pytest.approx(0)
    assert found.reported[0] == pytest.approx(np.sqrt(2))
    assert found.error[0] == pytest.approx(1)
    assert found.z_sd[0] == pytest.approx(1)


def test_of_the_perfect_posterior():
    """Four standard errors of each of three coordinates: false alarm 0.006% each."""
    toy = simulate(0, fits=1000, dim=3)
    found = score(toy.truth, toy.draws)
    assert (np.abs(found.z_mean) < 4 * found.z_mean_floor).all()
    assert (np.abs(found.z_sd - 1) < 4 * found.z_sd_floor).all()
    # Both are the posterior's sd; an error over 1000 fits is known to 2.2%.
    assert np.allclose(found.error, toy.sd, rtol=0.09)
    assert np.allclose(found.reported, toy.sd, rtol=0.01)
    assert (found.fits, found.failed, found.good) == (1000, 0, 1000)
    assert found.z_mean_floor == pytest.approx(1000**-0.5)
    assert found.z_sd_floor == pytest.approx(2000**-0.5)


def test_of_wrong_posteriors():
    """Within four standard errors (0.006% a coordinate): twice as narrow, then one sd too high."""
    narrow = simulate(1, fits=1000, narrow=2.0)
    found = score(narrow.truth, narrow.draws)
    assert (np.abs(found.z_sd - 2) < 4 * 2 * found.z_sd_floor).all()
    assert np.allclose(found.reported, narrow.sd / 2, rtol=0.01)
    shifted = simulate(2, fits=1000, shift=1.0)
    found = score(shifted.truth, shifted.draws)
    assert (np.abs(found.z_mean - 1) < 4 * found.z_mean_floor).all()
    assert (np.abs(found.z_sd - 1) < 4 * found.z_sd_floor).all()
    assert np.allclose(found.error, np.sqrt(2) * shifted.sd, rtol=0.1)


def test_floors_are_standard_errors():
    """400 sets of 100 z-scores: sds of their figures within 15% (3.5% is one sd: 0.002%)."""
    sets = [score(toy.truth, toy.draws) for toy in (simulate(s, 100, 1, 100) for s in range(400))]
    assert np.std([found.z_mean[0] for found in sets]) == pytest.approx(0.1, rel=0.15)
    assert np.std([found.z_sd[0] for found in sets]) == pytest.approx(200**-0.5, rel=0.15)


def test_failed_fits_are_left_out_and_counted(monkeypatch):
    toy = simulate(3, fits=20)
    monkeypatch.setattr(_fits, "_CHUNK_NUMBERS", 3000)
    good = np.arange(2, 20)
    found = score(toy.truth, spoil(toy.draws, [0, 1]))
    expected = score(toy.truth[good], toy.draws[good])
    assert (found.fits, found.failed) == (20, 2)
    for name in ("z_mean", "z_sd", "error", "reported"):
        assert np.allclose(getattr(found, name), getattr(expected, name))
    assert found.z_sd_floor == pytest.approx(36**-0.5)


def test_without_good_fits_nothing_is_known():
    toy = simulate(4, fits=2)
    found = score(toy.truth, np.full_like(toy.draws, np.inf))
    assert found.failed == 2 and found.z_mean_floor == np.inf and found.z_sd_floor == np.inf
    assert np.isnan([found.z_mean, found.z_sd, found.error, found.reported]).all()
    one = score(toy.truth, spoil(toy.draws, [0]))
    assert np.isfinite(one.z_mean).all() and np.isnan(one.z_sd).all()


def test_a_posterior_without_width_does_not_pass_as_right():
    toy = simulate(5, fits=5)
    assert not np.isfinite(score(toy.truth, np.zeros_like(toy.draws)).z_sd).any()


def test_one_draw_is_refused():
    with pytest.raises(NoisewiseError, match="at least two draws"):
        score(np.zeros((3, 1)), np.zeros((3, 1, 1)))
