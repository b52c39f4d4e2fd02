import numpy as np
import pytest

from noisewise.evaluation import mpae


def test_one_at_the_start_and_zero_at_the_optimum():
    rng = np.random.default_rng(0)
    start, goal = rng.normal(size=(2, 6))
    assert mpae(start, start, goal) == pytest.approx(1)
    assert mpae(goal, start, goal) == 0
    assert mpae(goal + 0.25 * (start - goal), start, goal) == pytest.approx(0.25)


def test_it_is_a_mean_of_ratios_and_keeps_leading_axes():
    start, goal = np.array([[1.0, 10.0], [2.0, 1.0]]), np.zeros(2)
    iterates = np.array([[0.5, 10.0], [-2.0, 0.5]])
    assert np.allclose(mpae(iterates, start, goal), [0.75, 0.75])
    assert mpae(np.ones((3, 4, 2)), start[0], goal).shape == (3, 4)


def test_a_parameter_that_starts_at_its_optimum_is_refused():
    with pytest.raises(ValueError, match="starts at its optimum"):
        mpae(np.ones(2), np.array([0.0, 1.0]), np.zeros(2))
