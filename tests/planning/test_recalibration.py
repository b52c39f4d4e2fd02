"""What simulated fits teach about error bars: only what is off in two rounds of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from noisewise.planning import search

FITS = 128


@pytest.fixture
def learned(monkeypatch):
    """Learn from z-scores of one's own, the first round's and the second's."""

    def learn(*rounds):
        asked = []

        def fits(context, settings, numbers):
            z = rounds[len(asked)]
            asked.append(numbers)
            return SimpleNamespace(z=z, scores=SimpleNamespace(good=len(z), seen=len(asked)))

        monkeypatch.setattr(search, "_try", fits)
        target = SimpleNamespace(dim=rounds[0].shape[1])
        context = SimpleNamespace(bound=SimpleNamespace(target=target))
        settings = SimpleNamespace(with_recalibration=lambda shift, stretch: (shift, stretch))
        (shift, stretch), scores = search.learn_recalibration(context, settings, FITS)
        assert scores.seen == len(asked)
        return shift, stretch, asked

    return learn


def z_scores(count, seed, shift=(0, 0, 0), stretch=(1, 1, 1)):
    return shift + stretch * np.random.default_rng(seed).standard_normal((count, 3))


def test_right_error_bars_are_left_alone(learned):
    shift, stretch, asked = learned(z_scores(FITS, 0))
    assert len(asked) == 1
    np.testing.assert_array_equal(shift, 0)
    np.testing.assert_array_equal(stretch, 1)


def test_what_a_second_round_does_not_find_was_chance(learned):
    first = z_scores(FITS, 0, shift=(0, 2, 0), stretch=(0.5, 1, 1))
    shift, stretch, asked = learned(first, z_scores(FITS, 1))
    assert not set(asked[0]) & set(asked[1])
    np.testing.assert_array_equal(shift, 0)
    np.testing.assert_array_equal(stretch, 1)


def test_the_second_round_says_by_how_much(learned):
    """Quantiles of 128 fits know a stretch to 8.5% and a median to 0.11: limits are four of those.
    What is right is left alone but for one seed in 400."""
    first = z_scores(FITS, 0, shift=(0, 2, 0), stretch=(3, 1, 1))
    second = z_scores(FITS, 1, shift=(0, 1, 1), stretch=(2, 1, 1))
    shift, stretch, _ = learned(first, second)
    np.testing.assert_allclose(shift, [0, 1, 0], atol=0.44)
    assert shift[0] == shift[2] == 0  # what the first round did not suspect is not touched
    assert stretch[0] == pytest.approx(2.0, rel=0.34)
    assert stretch[1] == stretch[2] == 1
