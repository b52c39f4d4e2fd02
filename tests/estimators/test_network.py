"""The private neural network as a scikit-learn regressor."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import noisewise as nw
from noisewise.estimators import DPBayesianNeuralNetwork


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (4000, 2))
    y = 100 + 8 * np.abs(X[:, 0]) + rng.normal(0, 1.5, len(X))
    declared = DPBayesianNeuralNetwork(
        epsilon=2.0,
        bounds=(-2, 2),
        target_bounds=(50, 150),
        hidden=15,
        epochs=20,
        draws=200,
        insecure_seed=1,
    )
    return declared.fit(X, y)


@pytest.mark.slow
def test_it_bends_where_a_line_cannot(model):
    """|x| has no linear part: a line's residual sd is 4.6, its R^2 zero. One fixed seed; trials at
    other seeds stay below a third of that."""
    X = np.random.default_rng(1).uniform(-2, 2, (1000, 2))
    truth = 100 + 8 * np.abs(X[:, 0])
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 2.3
    assert model.score(X, truth) > 0.7


@pytest.mark.slow
def test_predictive_intervals_hold_what_they_say(model):
    """90% intervals of 1000 new targets: at least 85%, so that one-sided failure is a real one (the
    binomial's sd is 1%); they err on the wide side, and a width above four sds would be useless."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (1000, 2))
    y = 100 + 8 * np.abs(X[:, 0]) + rng.normal(0, 1.5, len(X))
    low, high = model.predict_interval(X, 0.9, noise=True).T
    assert np.mean((low < y) & (y < high)) > 0.85
    assert np.mean(high - low) < 4 * 4.6
    narrow_low, narrow_high = model.predict_interval(X, 0.9).T
    assert (narrow_high - narrow_low < high - low).all()
    mean, sd = model.predict(X, return_std=True)
    assert np.allclose(mean, model.predict(X))
    assert ((mean > low) & (mean < high)).all()
    assert np.allclose(sd * 2 * 1.645, high - low, rtol=0.3)


@pytest.mark.slow
def test_it_keeps_to_scikit_learns_conventions(model):
    (reason,) = model.privacy_.verify().reasons
    assert "insecure_seed=1" in reason
    again = clone(model)
    assert again.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        again.predict([[0.0, 0.0]])
    assert model.n_iter_ == 160


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"target_bounds": None}, "target_bounds must be declared"),
        ({"bounds": None}, "bounds must be declared"),
        ({"hidden": 0}, "hidden"),
        ({"epochs": 1}, "epochs"),
    ],
)
def test_wrong_parameters_are_one_line(wrong, words):
    given = {"bounds": (-2, 2), "target_bounds": (50, 150)} | wrong
    with pytest.raises(nw.NoisewiseError, match=words):
        DPBayesianNeuralNetwork(**given).fit([[0.0], [1.0], [0.5]], [100.0, 101.0, 100.5])
