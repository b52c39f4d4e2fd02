"""Missing covariates of regressions, integrated out under their declared distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import expit
from scipy.stats import norm

import noisewise as nw
from noisewise.data.integration import nodes_of
from noisewise.models import bind_model, identity_frame
from noisewise.models.integrated import NODES

AGE = nw.Column(
    name="age",
    kind="real",
    bounds=(-8, 8),
    mean=0.5,
    sd=1,
    missing="allowed",
    how="integrate",
    missing_share=0.3,
)
WARD = nw.Column(
    name="ward",
    kind="category",
    categories=("a", "b", "c"),
    shares=(0.5, 0.3, 0.2),
    missing="allowed",
    how="integrate",
)
ILL = nw.Column(name="ill", kind="binary")
SCHEMA = nw.Schema((AGE, WARD, ILL))
THETA = jnp.array([0.3, 0.9, -0.4, 0.7])
"""Of the intercept, the age and two wards: there is no indicator."""


def rows():
    arrays = {
        "age": np.array([1.2, np.nan, 1.2, np.nan]),
        "ward": np.array([1, 1, -1, -1]),
        "ill": np.array([1, 1, 1, 0]),
    }
    return bind_model("logistic", SCHEMA, "ill"), arrays


def chance(age, ward):
    return expit(0.3 + 0.9 * (age - 0.5) + np.array([0, -0.4, 0.7])[ward])


def test_a_likelihood_is_the_integral_over_what_is_missing() -> None:
    """Against sums over a fine grid and the shares: to the quadrature's 1e-4."""
    bound, arrays = rows()
    assert bound.labels == ["intercept", "age", "ward=b", "ward=c"]
    records = bound.view.encode(arrays)
    found = jax.vmap(lambda row: bound.target.log_likelihood(THETA, row))(
        {name: jnp.asarray(column) for name, column in records.items()}
    )
    ages = np.linspace(-8, 8, 4001)
    density = norm.pdf(ages, 0.5, 1)
    density /= density.sum()
    shares = np.array([0.5, 0.3, 0.2])
    both = sum(s * (density @ chance(ages, w)) for w, s in enumerate(shares))
    expected = [
        chance(1.2, 1),
        density @ chance(ages, 1),
        sum(s * chance(1.2, w) for w, s in enumerate(shares)),
        1 - both,
    ]
    assert np.allclose(np.exp(found), expected, atol=1e-4)


def test_a_complete_record_has_the_gradient_of_a_model_without_gaps() -> None:
    bound, arrays = rows()
    plain = bind_model("logistic", nw.Schema((AGE.complete, WARD.complete, ILL)), "ill")
    whole = {name: values[:1] for name, values in arrays.items()}
    noise = jnp.zeros((1, 4))
    frame = identity_frame(4)
    moments = [
        each.target.record_moments(
            frame, THETA[None], noise, each.target.prepare(each.view.encode(whole), frame)
        )[0]
        for each in (bound, plain)
    ]
    assert np.allclose(moments[0], moments[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("column", [AGE, WARD, nw.Column(name="b", kind="binary", share=0.3)])
def test_nodes_have_the_declared_mean_and_shares(column) -> None:
    nodes = nodes_of(column)
    assert nodes.shares.sum() == pytest.approx(1)
    if column is AGE:
        assert nodes.shares @ nodes.values == pytest.approx(0.5, abs=1e-9)
        spread = nodes.shares @ (nodes.values - 0.5) ** 2
        assert spread == pytest.approx(1, abs=0.04)  # eight points on the scale of quantiles


def test_no_shape_follows_from_which_cells_are_missing() -> None:
    bound, arrays = rows()
    whole = arrays | {"age": np.ones(4), "ward": np.zeros(4, int)}
    shapes = [
        {name: column.shape for name, column in bound.view.encode(each).items()}
        for each in (arrays, whole)
    ]
    assert shapes[0] == shapes[1]
    assert shapes[0][NODES] == (4, 24)


def test_simulated_outcomes_follow_the_missing_covariate() -> None:
    """Share of ones among 20,000 records without an age within five standard errors (fixed seed,
    chance 6e-7)."""
    bound = bind_model("logistic", nw.Schema((AGE, ILL)), "ill")
    n = 20_000
    gaps = {"age": np.full(n, np.nan), "ill": np.zeros(n, int)}
    drawn = bound.target.simulate(jax.random.PRNGKey(0), THETA[:2], bound.view.encode(gaps))
    ages = np.random.default_rng(0).normal(0.5, 1, 10**6)
    expected = expit(0.3 + 0.9 * (ages - 0.5)).mean()
    assert abs(np.mean(drawn["y"]) - expected) < 5 * 0.5 / np.sqrt(n) + 1e-3


def test_what_cannot_integrate_says_so() -> None:
    table = nw.Table.from_arrays(SCHEMA.simulate(np.random.default_rng(0), 50), SCHEMA)
    budget = nw.Budget(epsilon=1, delta=1e-5)
    with pytest.raises(nw.NoisewiseError, match="integrates no gaps out, as column 'age'"):
        nw.fit("logistic", table, budget=budget, target="ill", method="dp-sep")

    def own(age, ill=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("people", age.shape[0]):
            numpyro.sample("ill", dist.Bernoulli(logits=slope * age), obs=ill)

    with pytest.raises(nw.NoisewiseError, match="takes it in the design matrix X"):
        bind_model(own, nw.Schema((AGE, ILL)))
    wide = [nw.Column(**{**WARD.__dict__, "name": f"ward{k}"}) for k in range(4)]
    with pytest.raises(ValueError, match="81 combinations"):
        bind_model("logistic", nw.Schema((*wide, ILL)), "ill")


@pytest.mark.slow
def test_a_fit_integrates_gaps_out_and_predicts_complete_records() -> None:
    """z scores of two coefficients within five sds (one seed, which is fixed)."""
    rng = np.random.default_rng(5)
    age = rng.normal(0.5, 1, 3000)
    ill = (rng.random(3000) < expit(-0.4 + 1.1 * (age - 0.5))).astype(int)
    age[rng.random(3000) < 0.3] = np.nan
    table = nw.Table({"age": age, "ill": ill}, nw.Schema((AGE, ILL), rows=3000))
    result = nw.fit(
        "logistic",
        table,
        budget=nw.Budget(epsilon=2, delta=1e-6),
        target="ill",
        steps=600,
        draws=500,
        insecure_seed=2,
    )
    found = result.summary()
    assert list(found.index) == ["intercept", "age"]
    z = (found["mean"] - [-0.4, 1.1]) / found["sd"]
    assert (np.abs(z) < 5).all()
    assert (found["sd"] < 0.5).all()
    predicted = result.predict({"age": np.array([0.5, 2.0])})
    assert len(predicted) == 2
