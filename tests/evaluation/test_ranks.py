"""Ranks of the truth among draws: uniform if the posterior is right."""

import numpy as np
import pytest

from evaluation.toy import simulate, spoil
from noisewise._validate import NoisewiseError
from noisewise.evaluation import rank_histogram, sbc_ranks, uniformity


def test_ranks_count_the_draws_below():
    truth = np.array([[0.5, -1.0], [9.0, 1.5]])
    draws = np.array([[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]] * 2)
    assert sbc_ranks(truth, draws).tolist() == [[1, 0], [3, 2]]


def test_the_perfect_posterior_is_uniform():
    """False alarm: 0.1% for each of six p-values. 99 draws fill 20 bins evenly, 64 do not."""
    for seed, draws in enumerate((99, 64, 400)):
        toy = simulate(seed, draws=draws)
        assert (uniformity(sbc_ranks(toy.truth, toy.draws), draws) > 0.001).all()


def test_p_values_are_uniform_even_with_uneven_bins():
    """2000 exact rank sets, 31 possible ranks in 7 bins: 5% of p-values below 0.05.

    Their share has a standard error of 0.5%, so 3% to 7% is four of them (0.006%).
    """
    ranks = np.random.default_rng(0).integers(0, 31, (300, 2000))
    assert 0.03 < (uniformity(ranks, 30, 7) < 0.05).mean() < 0.07


@pytest.mark.parametrize("wrong", [{"narrow": 2.0}, {"narrow": 0.5}, {"shift": 1.0}])
def test_wrong_posteriors_are_not(wrong):
    """The p-value would be this small by chance once in a million."""
    toy = simulate(0, **wrong)
    assert (uniformity(sbc_ranks(toy.truth, toy.draws), 400) < 1e-6).all()


def test_failed_fits_are_marked_and_left_out_of_counts():
    toy = simulate(1, fits=100, draws=59)
    ranks = sbc_ranks(toy.truth, spoil(toy.draws, [3, 50]))
    assert (ranks[[3, 50]] == -1).all()
    assert (ranks == -1).sum() == 4
    counts = rank_histogram(ranks, 59, 10)
    assert counts.shape == (10, 2)
    assert (counts.sum(0) == 98).all()
    failed = np.full((5, 2), -1)
    assert np.isnan(uniformity(failed, 59)).all()
    assert (rank_histogram(failed, 59) == 0).all()


def test_a_histogram_has_every_rank_in_its_place():
    ranks = np.array([[0], [4], [5], [9], [9]])
    assert rank_histogram(ranks, 9, 2).ravel().tolist() == [2, 3]


def test_what_does_not_fit_is_refused():
    with pytest.raises(NoisewiseError, match="from 0 to draws = 9"):
        rank_histogram(np.array([[10]]), 9, 5)
    with pytest.raises(NoisewiseError, match="10 possible ranks, got 11"):
        uniformity(np.array([[1]]), 9, 11)
