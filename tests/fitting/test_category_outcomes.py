"""A category of three levels as the target of one's own model, from the fit to synthetic tables."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import noisewise as nw

ROWS, LEVELS = 2000, ("bus", "car", "walk")
SCHEMA = nw.Schema(
    (
        nw.Column(name="age", kind="real", bounds=(-3, 3), mean=0.0, sd=1.0),
        nw.Column(name="mode", kind="category", categories=LEVELS),
    ),
    rows=ROWS,
)
BUDGET = nw.Budget(epsilon=2.0, delta=1e-5)
TRUTH = np.array([[0.5, -0.5], [0.8, -0.4]])


def travel(X, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1], 2]).to_event(2))
    logits = jnp.concatenate([jnp.zeros((X.shape[0], 1)), X @ w], axis=1)
    with numpyro.plate("people", X.shape[0]):
        numpyro.sample("y", dist.Categorical(logits=logits), obs=y)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    age = np.clip(rng.standard_normal(ROWS), -3, 3)
    logits = np.column_stack([np.zeros(ROWS), TRUTH[0] + np.outer(age, TRUTH[1])])
    chosen = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    return {"age": age, "mode": np.array(LEVELS)[chosen]}


@pytest.fixture(scope="module")
def result(people):
    return nw.fit(
        travel,
        nw.Table(people, SCHEMA),
        budget=BUDGET,
        target="mode",
        steps=1000,
        public_sample=nw.PublicSample({"age": np.linspace(-2.5, 2.5, 500)}, SCHEMA),
        insecure_seed=1,
    )


def test_coefficients_of_both_other_levels_are_found(result):
    """All four within five of their own sds of what made the data, and not needlessly wide."""
    draws = result.draws["w"]
    assert (np.abs(draws.mean(0) - TRUTH) < 5 * draws.std(0)).all()
    assert draws.std(0).max() < 0.3
    assert result.status is nw.Status.OK


@pytest.mark.filterwarnings("ignore:these tables are NOT PRIVATE")
def test_report_and_synthetic_tables_speak_of_levels(result, people, tmp_path):
    assert "bus, car, walk" in result.report(tmp_path / "page.html").read_text()
    result.save(tmp_path / "out")
    loaded = nw.Result.load(tmp_path / "out")
    covariates = nw.PublicSample({"age": np.linspace(-2.5, 2.5, 500)}, SCHEMA)
    tables = nw.synthesize(loaded, model=travel, covariates=covariates, copies=2, rows=500, seed=0)
    drawn = next(iter(tables))["mode"]
    assert set(drawn) == set(LEVELS)


@pytest.mark.slow
def test_plan_and_coverage_simulate_codes():
    options = {"schema": SCHEMA, "rows": ROWS, "budget": BUDGET, "target": "mode"}
    plan = nw.plan(travel, fits=0, steps=1000, **options)
    found = nw.coverage(travel, plan=plan, simulations=16, **options)
    assert np.isfinite(found.truth).all() and found.truth.shape == (16, 4)
    with pytest.raises(nw.NoisewiseError, match="yes-or-no"):
        nw.coverage(travel, plan=plan, simulations=16, test_rows=10, **options)


@pytest.mark.parametrize("model", ["logistic", "probit"])
def test_ready_made_regressions_take_two_levels(people, model):
    with pytest.raises(nw.NoisewiseError, match=r"3 categories, and .* takes two"):
        nw.fit(model, nw.Table(people, SCHEMA), budget=BUDGET, target="mode")
