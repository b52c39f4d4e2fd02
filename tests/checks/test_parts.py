"""Intervals of outcomes, cells and contributions: what the check's privacy and truth rest on."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noisewise as nw
from noisewise.checks.cells import Everybody, Groups, PredictionBins
from noisewise.checks.contributions import Question, shares
from noisewise.checks.outcomes import outcome_of
from noisewise.checks.reference import _expectation
from noisewise.models import bind_model
from people import make_schema

SURVIVAL = nw.Schema(
    (
        nw.Column(name="age", kind="real", bounds=(18, 90)),
        nw.Column(name="months", kind="real", bounds=(0.01, 60), mean=20, sd=15),
        nw.Column(name="died", kind="binary", share=0.4),
        nw.Column(name="stage", kind="category", categories=("i", "ii", "iii", "iv")),
    )
)


def zero_inflated(age, visits=None):
    rate = numpyro.sample("rate", dist.LogNormal(0, 0.3))
    with numpyro.plate("people", age.shape[0]):
        numpyro.sample(
            "visits", dist.ZeroInflatedPoisson(0.2, rate * jnp.ones(age.shape)), obs=visits
        )


def own_normal(age, cost=None):
    mean = numpyro.sample("mean", dist.Normal(100, 10))
    with numpyro.plate("people", age.shape[0]):
        numpyro.sample("cost", dist.Normal(mean, 20.0), obs=cost)


QUICK = {"logistic", "poisson", "weibull"}
MODELS = [
    ("logistic", make_schema(), "visited"),
    ("probit", make_schema(), "visited"),
    ("poisson", make_schema(), "visits"),
    ("negbin", make_schema(), "visits"),
    ("linear", make_schema(), "cost"),
    ("student", make_schema(), "cost"),
    ("ordinal", SURVIVAL, "stage"),
    ("softmax", SURVIVAL, "stage"),
    ("gamma", SURVIVAL, "months"),
    ("lognormal", SURVIVAL, "months"),
    ("weibull", SURVIVAL, ["months", "died"]),
    (zero_inflated, make_schema(), None),
    (own_normal, make_schema(), None),
]


def question(model, schema, target, bins=0, cells=None):
    bound = bind_model(model, schema, target)
    theta = np.asarray(bound.target.sample_prior(jax.random.PRNGKey(1), 1)[0], float) * 0.5
    return bound, Question(
        view=bound.view,
        outcome=outcome_of(bound),
        theta=theta,
        cells=cells or Everybody(),
        bins=bins,
    )


@pytest.mark.parametrize(
    ("model", "schema", "target"),
    [
        pytest.param(
            *each,
            id=getattr(each[0], "__name__", str(each[0])),
            marks=() if each[0] in (*QUICK, zero_inflated) else pytest.mark.slow,
        )
        for each in MODELS
    ],
)
def test_at_the_parameters_themselves_residuals_have_mean_zero_and_histograms_are_flat(
    model, schema, target
):
    """Sums of 20,000 simulated records lie within 4.5 of their own standard errors: 11 numbers a
    model, so that a false alarm has a chance of 1e-4 each; the seeds are fixed."""
    for bins in (0, 10):
        bound, asked = question(model, schema, target, bins)
        columns = bound.view.simulate_columns(np.random.default_rng(2), 20_000)
        rows = {n: jnp.asarray(c) for n, c in bound.view.encode(columns).items()}
        theta = jnp.asarray(asked.theta, jnp.float32)
        drawn = bound.target.simulate(jax.random.PRNGKey(3), theta, rows)
        judged = asked.judge(columns, {n: np.asarray(c) for n, c in drawn.items()})
        assert judged.known.mean() > 0.99
        values = judged.values[judged.known]
        z = (values.mean(0) - (1 / bins if bins else 0)) / (values.std(0) / len(values) ** 0.5)
        assert np.abs(z).max() < 4.5


def test_the_residual_of_a_yes_or_no_is_what_happened_minus_its_probability():
    bound, asked = question("logistic", make_schema(), "visited")
    columns = make_schema().simulate(np.random.default_rng(0), 50)
    judged = asked.judge(columns, bound.view.encode(columns))
    assert np.allclose(judged.values[:, 0], columns["visited"] - judged.expected, atol=1e-6)


@given(st.floats(-0.5, 1.5, width=32), st.floats(-0.5, 1.5, width=32), st.integers(2, 30))
def test_shares_of_an_interval_sum_to_one(one, other, bins):
    """Whatever floats come in: a record has one person's weight."""
    found = shares(np.array([min(one, other)]), np.array([max(one, other)]), bins)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("bins", [0, 10])
def test_no_record_contributes_more_than_its_sensitivity(bins):
    """Records at the ends of their bounds, and parameters that make them impossible."""
    _, asked = question("poisson", make_schema(), "visits", bins)
    columns = make_schema().simulate(np.random.default_rng(0), 200)
    columns["visits"] = np.tile([0, 40, 1, 39], 50)
    for factor in (1.0, 100.0, -100.0):
        extreme = Question(**{**vars(asked), "theta": asked.theta * factor})
        found = extreme.contributions(columns)["contributions"]
        norms = np.linalg.norm(found[np.isfinite(found).all(1)], axis=1)
        assert (norms <= extreme.sensitivity * (1 + 1e-5)).all()


def test_a_record_contributes_the_same_whoever_else_is_there():
    """The sum is moved by a record's own vector and nothing else, to the last bit."""
    _, asked = question("linear", make_schema(), "cost")
    columns = make_schema().simulate(np.random.default_rng(0), 9000)
    whole = asked.contributions(columns)["contributions"]
    fewer = {name: column[1:] for name, column in columns.items()}
    assert np.array_equal(whole[1:], asked.contributions(fewer)["contributions"])


def test_cells():
    schema = make_schema()
    columns = {
        "age": np.array([20.0, 50, 80]),
        "sex": np.array([0, 1, 1]),
        "visited": np.array([0, 0, 1]),
    }
    simulated = schema.simulate(np.random.default_rng(0), 3000)
    groups = Groups.of(schema, ["sex", "age"], simulated, 2)
    assert len(groups.labels) == 4
    assert groups.place(columns, np.zeros(3)).tolist() == [0, 2, 3]
    assert Groups.of(schema, ["visited"], simulated, 2).labels == ("visited=0", "visited=1")
    bins = PredictionBins.of(np.repeat([0.2, 0.5, 0.9], 10), 5)
    assert bins.place({}, np.array([0.1, 0.2, 0.5, 0.7, 0.95])).tolist() == [0, 0, 1, 1, 2]
    with pytest.raises(nw.NoisewiseError, match="not in the schema"):
        Groups.of(schema, ["height"], simulated, 2)


def test_the_expected_covariance_of_a_linear_model_is_the_exact_one():
    """Sums of residuals of a Gaussian line fitted with noise, by brute force over 20,000 tables;
    the two covariances agree to 5% of their size (the simulation's own error is 2%)."""
    rng = np.random.default_rng(0)
    n, noise_sd = 60, 6.0
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    cell = (X[:, 1] > 0).astype(int)
    cells = np.eye(2)[cell]
    information = X.T @ X
    found, posterior = [], None
    for _ in range(20_000):
        y = rng.normal(size=n)
        estimate = np.linalg.solve(information, X.T @ y + noise_sd * rng.normal(size=2))
        found.append(cells.T @ (y - X @ estimate))
    inverse = np.linalg.inv(information)
    posterior = inverse + inverse @ inverse * noise_sd**2
    draws = rng.multivariate_normal(np.zeros(2), posterior, size=20_000)
    expected = _expectation(
        cells.T @ X, np.diag(cells.sum(0)), information, np.zeros((2, 2)), draws
    )
    ours = expected.sampling + expected.by_parameters
    theirs = np.cov(np.array(found), rowvar=False)
    assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).max()
