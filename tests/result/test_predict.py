"""`Result.predict`: what a fit expects of new records, against arithmetic by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.special import expit

import noisewise as nw
from people import make_frame, make_schema

NEW = pd.DataFrame({"age": [20.0, 60.0, 85.5], "sex": ["f", "m", "m"]}, index=["a", "b", "c"])


def fitted(model, target, **more):
    """A quick seeded fit of the small table about made-up people."""
    return nw.fit(
        model,
        nw.Table(make_frame(), make_schema()),
        budget=nw.Budget(epsilon=3.0, delta=1e-6),
        target=target,
        features=["age", "sex"],
        steps=300,
        insecure_seed=1,
        **more,
    )


def design(result):
    """The new records as the fit encodes them, by hand."""
    intercept, age, male = result.request.encoding
    assert (intercept["name"], age["column"], male["column"]) == ("intercept", "age", "sex")
    by_age = (NEW["age"] - age["centre"]) / age["scale"]
    by_sex = ((NEW["sex"] == "m") - male["centre"]) / male["scale"]
    return np.column_stack([np.ones(3), by_age, by_sex])


def test_probabilities_of_a_logistic_fit(result):
    found = result.predict(NEW.assign(colour="red"), level=0.9)
    by_hand = expit(design(result) @ result.draws["coefficients"].T)
    assert list(found.index) == ["a", "b", "c"]
    np.testing.assert_allclose(found["mean"], by_hand.mean(1), rtol=1e-4)
    np.testing.assert_allclose(found["lower"], np.quantile(by_hand, 0.05, axis=1), rtol=1e-4)
    np.testing.assert_allclose(found["upper"], np.quantile(by_hand, 0.95, axis=1), rtol=1e-4)


def test_a_loaded_result_predicts_the_same(result, tmp_path):
    loaded = nw.Result.load(result.save(tmp_path / "fit"))
    pd.testing.assert_frame_equal(loaded.predict(NEW), result.predict(NEW))


def test_means_and_outcomes_of_counts():
    result = fitted("poisson", "visits")
    by_hand = np.exp(design(result) @ result.draws["coefficients"].T)
    means = result.predict(NEW)
    np.testing.assert_allclose(means["mean"], by_hand.mean(1), rtol=1e-4)
    outcomes = result.predict(NEW, kind="outcome", seed=3)
    # Means of 4000 Poisson draws with a mean of about one: six standard errors are 0.1.
    np.testing.assert_allclose(outcomes["mean"], by_hand.mean(1), atol=0.12)
    assert ((outcomes["upper"] - outcomes["lower"]) > (means["upper"] - means["lower"])).all()
    assert (outcomes["lower"] % 1 == 0).all()


def test_every_level_gets_a_probability():
    frame = make_frame() | {"state": np.random.default_rng(0).choice(["a", "b", "c"], 3000)}
    columns = (*make_schema(), nw.Column(name="state", kind="category", categories=("a", "b", "c")))
    result = nw.fit(
        "softmax",
        nw.Table(frame, nw.Schema(columns)),
        budget=nw.Budget(epsilon=3.0, delta=1e-6),
        target="state",
        features=["age", "sex"],
        steps=300,
        insecure_seed=1,
    )
    found = result.predict(NEW)
    assert list(found.columns) == [(k, w) for k in "abc" for w in ("mean", "lower", "upper")]
    np.testing.assert_allclose(sum(found[level, "mean"] for level in "abc"), 1, rtol=1e-5)
    with pytest.raises(nw.NoisewiseError, match="kind='mean' gives its probabilities"):
        result.predict(NEW, kind="outcome")


def slope(age, cost=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("records", len(age)):
        numpyro.sample("cost", dist.Normal(100 + 10 * w * (age - 54) / 36, 20.0), obs=cost)


def test_a_model_of_ones_own_is_passed_again():
    result = nw.fit(
        slope,
        nw.Table(make_frame(), make_schema()),
        budget=nw.Budget(epsilon=3.0, delta=1e-6),
        target="cost",
        steps=300,
        insecure_seed=1,
    )
    with pytest.raises(nw.NoisewiseError, match="pass model="):
        result.predict(NEW)
    by_hand = 100 + 10 * np.outer((NEW["age"] - 54) / 36, result.draws["w"])
    np.testing.assert_allclose(
        result.predict(NEW[["age"]], model=slope)["mean"], by_hand.mean(1), rtol=1e-4
    )

    def other(age, cost=None):
        v = numpyro.sample("v", dist.Normal(0, 1))
        with numpyro.plate("records", len(age)):
            numpyro.sample("cost", dist.Normal(v + jnp.asarray(age), 20.0), obs=cost)

    with pytest.raises(nw.NoisewiseError, match="pass the model that was fitted"):
        result.predict(NEW, model=other)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"age": [20.0]}, "sex"),
        ({"age": [200.0], "sex": ["f"]}, "age"),
        ({"age": [20.0], "sex": ["x"]}, "sex"),
        ({"age": [20.0, 30.0], "sex": ["f"]}, "equally long"),
    ],
)
def test_records_that_the_schema_does_not_allow_are_refused(result, data, words):
    with pytest.raises(nw.NoisewiseError, match=words):
        result.predict(data)


def test_wrong_arguments_are_refused(result):
    with pytest.raises(nw.NoisewiseError, match="kind"):
        result.predict(NEW, kind="median")
    with pytest.raises(nw.NoisewiseError, match="level"):
        result.predict(NEW, level=95)
