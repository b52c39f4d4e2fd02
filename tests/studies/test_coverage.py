"""Measures against posteriors whose quality is known by construction. Seeds are fixed."""

import numpy as np
import pytest

from noisewise.evaluation import draw_references, tarp_shares
from noisewise.studies.na_dpvi.coverage import (
    REPETITIONS,
    Fits,
    measure_coverage,
    repeated_shares,
)


def made_up(width=1.0, shift=0.0, fits=400, dim=2, seed=0):
    """Truths N(centre, 1) given each fit's centre; posteriors ``width`` times as wide."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(fits, dim))
    truth = centre + rng.normal(size=(fits, dim))
    draws = (centre + shift)[:, None] + width * rng.normal(size=(fits, 500, dim))
    return Fits(truth, draws, centre)


def test_a_right_posterior_is_at_its_floor():
    """The mean RMSE of a right posterior is 0.9 floors; three floors is beyond one in 10^6."""
    found = measure_coverage(made_up())
    assert found.rmse < 3 * found.floor
    assert found.floor == pytest.approx((6 * 400) ** -0.5)
    assert np.abs(found.z_sd - 1).max() < 4 * (2 * 400) ** -0.5
    assert found.curve.shape == found.curve_sd.shape == (21,)


@pytest.mark.parametrize("wrong", [{"width": 0.4}, {"shift": 1.0}])
def test_a_wrong_one_is_far_above(wrong):
    found = measure_coverage(made_up(**wrong))
    assert found.rmse > 3 * found.floor


def test_failed_fits_count_as_not_covered():
    fits = made_up(fits=100)
    fits.draws[:50] = np.nan
    found = measure_coverage(fits)
    assert (found.fits, found.failed) == (100, 50)
    assert found.curve[-1] <= 0.5
    assert np.isfinite(found.rmse)
    assert np.isfinite(found.error).all()


def test_repetitions_redraw_reference_points_only():
    assert REPETITIONS == 20
    one, two = (measure_coverage(made_up(), seed=seed) for seed in (0, 1))
    assert one.rmse != two.rmse
    np.testing.assert_array_equal(one.z_sd, two.z_sd)
    assert 0 < one.rmse_sd < one.floor


def test_all_repetitions_at_once_are_tarp():
    fits = made_up(fits=50, dim=3)
    shares = repeated_shares(fits, seed=4)
    sd = fits.draws.std(1)
    for repetition in (0, 19):
        references = draw_references(fits.centre, sd, np.random.default_rng([4, repetition]))
        expected = tarp_shares(fits.truth, fits.draws, references, np.ones(3))
        np.testing.assert_allclose(shares[:, repetition], expected, atol=1e-9)
