"""TARP on a posterior known in closed form, and against the `tarp` package."""

import numpy as np
import pytest
from scipy.stats import norm

from evaluation.toy import simulate, spoil
from noisewise._validate import NoisewiseError
from noisewise.evaluation import (
    LEVELS,
    _fits,
    coverage_curve,
    coverage_rmse,
    curve_band,
    draw_references,
    marginal_shares,
    rmse_floor,
    sbc_ranks,
    tarp_shares,
    uniformity,
)

# Above 2.55 floors with probability 0.1% for a perfect posterior: see test_verdict.
RARE = 2.55


def test_levels_are_the_papers():
    assert len(LEVELS) == 21
    assert LEVELS[[0, 1, 2, -2, -1]].tolist() == [0.001, 0.05, 0.1, 0.95, 0.999]


def test_references_are_uniform_within_four_sds_of_their_centre():
    """Mean within 0.2 sds of the centre: 0.016 is its standard error, so never by chance."""
    centre = np.random.default_rng(0).normal(size=(20_000, 2))
    away = draw_references(centre, np.array([1.0, 10.0]), np.random.default_rng(1)) - centre
    assert (np.abs(away) <= [4, 40]).all()
    assert (np.abs(away).max(0) > [3.99, 39.9]).all()
    assert (np.abs(away.mean(0)) < [0.2, 2]).all()


def test_by_hand():
    """One draw of four is closer to the origin than the truth; equally far is not closer."""
    truth, reference = np.array([[3.0, 4.0]]), np.zeros((1, 2))
    draws = np.array([[[3.0, 3.9], [4.0, 3.0], [-5.0, 0.0], [9.0, 0.0]]])
    assert tarp_shares(truth, draws, reference, np.ones(2)).tolist() == [0.25]
    assert marginal_shares(truth, draws, reference).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("seed", range(3))
def test_the_perfect_posterior_covers(seed):
    """False alarms: 0.1% for the joint curve, the same for each of two marginals."""
    toy = simulate(seed)
    references = toy.references(np.random.default_rng(seed))
    limit = RARE * rmse_floor(400)
    assert coverage_rmse(tarp_shares(toy.truth, toy.draws, references)) < limit
    assert (coverage_rmse(marginal_shares(toy.truth, toy.draws, references)) < limit).all()


@pytest.mark.parametrize("wrong", [{"narrow": 2.0}, {"narrow": 0.5}, {"shift": 1.0}])
def test_wrong_posteriors_do_not(wrong):
    """Beyond a limit of 0.1%, by six sds or more of their own: a miss is below 1e-6.

    References lie on both sides, so a shift shows least.
    """
    toy = simulate(0, fits=1000, **wrong)
    shares = tarp_shares(toy.truth, toy.draws, toy.references(np.random.default_rng(0)))
    assert coverage_rmse(shares) > RARE * rmse_floor(1000)


def test_only_references_from_the_data_expose_a_prior_passed_off_as_posterior():
    """Central intervals, ranks and fixed references find nothing: false alarms 0.1% each.

    References near what the data say do, beyond the same limit by five sds or more of their own.
    """
    toy = simulate(5, prior=True)
    rng = np.random.default_rng(5)
    limit = RARE * rmse_floor(400)

    tails = (toy.draws < toy.truth[:, None]).mean(1)
    central = np.abs(2 * tails - 1)
    assert (coverage_rmse(central) < limit).all()
    assert (uniformity(sbc_ranks(toy.truth, toy.draws), 400) > 0.001).all()
    fixed = draw_references(np.zeros_like(toy.truth), 1.0, rng)
    assert coverage_rmse(tarp_shares(toy.truth, toy.draws, fixed)) < limit

    near = toy.references(rng)
    assert coverage_rmse(tarp_shares(toy.truth, toy.draws, near)) > 2 * limit
    assert (coverage_rmse(marginal_shares(toy.truth, toy.draws, near)) > limit).all()


def test_marginal_shares_are_the_balls_probability():
    """Against the normal distribution: 100 shares within 4.5 standard errors (0.1% in all)."""
    toy = simulate(3, fits=50, draws=4000)
    references = toy.references(np.random.default_rng(3))
    radius = np.abs(toy.truth - references)
    upper, lower = ((references + sign * radius - toy.centre) / toy.sd for sign in (1, -1))
    expected = norm.cdf(upper) - norm.cdf(lower)
    error = np.sqrt(expected * (1 - expected) / 4000)
    shares = marginal_shares(toy.truth, toy.draws, references)
    assert (np.abs(shares - expected) <= 4.5 * error + 1 / 4000).all()


def test_in_one_dimension_the_joint_share_is_the_marginal_one():
    toy = simulate(4, fits=50, dim=1)
    references = toy.references(np.random.default_rng(4))
    joint = tarp_shares(toy.truth, toy.draws, references)
    assert np.array_equal(joint[:, None], marginal_shares(toy.truth, toy.draws, references))


def test_units_do_not_matter_and_equal_truths_are_no_trouble():
    toy = simulate(6, fits=50)
    references = toy.references(np.random.default_rng(6))
    units = np.array([1e-3, 1e4])
    plain = tarp_shares(toy.truth, toy.draws, references)
    assert np.array_equal(
        plain, tarp_shares(toy.truth * units, toy.draws * units, references * units)
    )
    same = np.full_like(toy.truth, 0.1)
    unscaled = tarp_shares(same, toy.draws, references, np.ones(2))
    assert np.array_equal(tarp_shares(same, toy.draws, references), unscaled)


@pytest.mark.parametrize("function", [tarp_shares, marginal_shares])
def test_chunks_change_nothing(function, monkeypatch):
    toy = simulate(7, fits=11, draws=20)
    draws = spoil(toy.draws, [0, 4, 10]).astype(np.float32)
    references = toy.references(np.random.default_rng(7))
    whole = function(toy.truth, draws, references)
    for size in (1, 90, 200):
        monkeypatch.setattr(_fits, "_CHUNK_NUMBERS", size)
        assert np.array_equal(function(toy.truth, draws, references), whole)


def test_failed_fits_are_never_covered_and_never_dropped():
    toy = simulate(8, fits=10)
    references = toy.references(np.random.default_rng(8))
    clean = tarp_shares(toy.truth, toy.draws, references)
    failed = [2, 7]
    references[failed] = np.nan  # their centres are likely to be lost as well
    draws = spoil(toy.draws, failed)
    shares = tarp_shares(toy.truth, draws, references)
    good = np.delete(np.arange(10), failed)
    assert (shares[failed] == 1).all()
    assert np.array_equal(shares[good], clean[good])
    assert np.allclose(coverage_curve(shares), 0.8 * coverage_curve(clean[good]))
    assert (marginal_shares(toy.truth, draws, references)[failed] == 1).all()
    assert (coverage_curve(np.ones(10)) == 0).all()
    assert (coverage_curve(np.full((10, 3), np.nan)) == np.zeros((21, 3))).all()


def test_draws_beyond_the_floats_count_as_failed():
    toy = simulate(9, fits=3)
    references = np.full_like(toy.truth, 1e200)
    assert (tarp_shares(toy.truth, 1e200 + toy.draws, references) == 1).all()


def test_a_missing_reference_is_refused():
    toy = simulate(10, fits=3)
    references = toy.centre.copy()
    references[1, 0] = np.nan
    for function in (tarp_shares, marginal_shares):
        with pytest.raises(NoisewiseError, match="references must be finite"):
            function(toy.truth, toy.draws, references)


@pytest.mark.parametrize(
    ("truth", "draws", "references", "scale", "message"),
    [
        (np.zeros((3, 2)), np.zeros((3, 5)), np.zeros((3, 2)), None, "truth must be fits x"),
        (np.zeros((3, 2)), np.zeros((2, 5, 2)), np.zeros((3, 2)), None, "truth must be fits x"),
        (np.zeros((3, 2)), np.zeros((3, 0, 2)), np.zeros((3, 2)), None, "not be empty"),
        (np.full((3, 2), np.nan), np.zeros((3, 5, 2)), np.zeros((3, 2)), None, "must be finite"),
        (np.zeros((3, 2)), np.zeros((3, 5, 2)), np.zeros(2), None, "shape of truth"),
        (np.zeros((3, 2)), np.zeros((3, 5, 2)), np.zeros((3, 2)), [1, np.nan], "scale must be"),
    ],
)
def test_what_does_not_fit_is_refused(truth, draws, references, scale, message):
    with pytest.raises(NoisewiseError, match=message):
        tarp_shares(truth, draws, references, scale)


def test_curves_and_their_band():
    """The curve of evenly spread shares is the diagonal; a band of 4.5 sds holds 2000 curves.

    False alarm: 21 levels x 2000 sets at 7e-6 would be 28%, so allow three points outside (0.04%).
    """
    even = (np.arange(1000) + 0.5) / 1000
    assert np.allclose(coverage_curve(even), LEVELS)
    assert coverage_rmse(even) == pytest.approx(0, abs=1e-12)
    assert coverage_curve(np.stack([even, even], 1)).shape == (21, 2)
    sets = np.random.default_rng(11).random((500, 2000))
    outside = np.abs(coverage_curve(sets).T - LEVELS) > curve_band(500, width=4.5)
    # At the outermost levels half a fit is expected, which is nothing like a normal.
    assert outside[:, 1:-1].sum() <= 3
    assert np.allclose(curve_band(400, np.array([0.5])), 0.05)


@pytest.mark.parametrize("fits", [50, 500])
def test_the_floor_is_what_perfect_shares_show(fits):
    """Over 2000 sets: mean RMSE 0.90 of the floor, root mean square 0.975 of it.

    The RMSE's own sd is 0.37 floors, so the mean is known to 0.008, the other to 0.010:
    four of them are 0.006% each.
    """
    sets = np.random.default_rng(12).random((fits, 2000))
    relative = coverage_rmse(sets) / rmse_floor(fits)
    assert relative.mean() == pytest.approx(0.90, abs=0.035)
    assert np.sqrt((relative**2).mean()) == pytest.approx(0.975, abs=0.04)


@pytest.mark.parametrize("normalised", [False, True])
def test_the_tarp_package_agrees(normalised):
    """The same coverage at its levels; its last level is the largest share, which it includes."""
    tarp = pytest.importorskip("tarp")
    toy = simulate(13, fits=300, dim=3, draws=500, narrow=1.5)
    truth = toy.truth * [1.0, 5.0, 0.1] + 2
    draws = toy.draws * [1.0, 5.0, 0.1] + 2
    low, high = (truth.min(0), truth.max(0)) if normalised else (np.zeros(3), np.ones(3))
    references = np.random.default_rng(13).random((300, 3))
    theirs, levels = tarp.get_tarp_coverage(
        np.swapaxes(draws, 0, 1), truth, references=references, norm=normalised
    )
    shares = tarp_shares(truth, draws, references * (high - low) + low, high - low)
    assert len(levels) == 31
    assert np.allclose(coverage_curve(shares, levels)[:-1], theirs[:-1], atol=1e-9)
    assert levels[-1] == shares.max() and theirs[-1] == pytest.approx(1)
