"""Deterministic sites are in the posterior where no record enters them, and only there."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import noisewise as nw


def model(x, ill):
    rate = numpyro.sample("rate", dist.LogNormal(0.0, 0.5))
    shift = numpyro.sample("shift", dist.Normal(0.0, 1.0))
    numpyro.deterministic("doubled", 2 * rate)
    numpyro.deterministic("both", jnp.stack([rate, shift]))
    numpyro.deterministic("of_the_records", x.mean() + rate)
    with numpyro.plate("people", x.shape[0]):
        predictor = numpyro.deterministic("predictor", shift + rate * x)
        numpyro.sample("y", dist.Bernoulli(logits=predictor), obs=ill)


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    people = {"x": rng.uniform(-1, 1, 400), "ill": rng.integers(0, 2, 400)}
    columns = {"x": {"type": "real", "bounds": [-1, 1]}, "ill": {"type": "binary"}}
    schema = nw.Schema.from_dict({"columns": columns})
    budget = nw.Budget(epsilon=5.0, delta=1e-4)
    table = nw.Table(people, schema)
    return nw.fit(model, table, budget=budget, steps=40, draws=200, covariate_share=0.0)


def test_they_follow_the_draws_of_the_latents(result):
    draws = result.draws
    assert list(draws) == ["rate", "shift", "doubled", "both"]
    np.testing.assert_allclose(draws["doubled"], 2 * draws["rate"], rtol=1e-5)
    np.testing.assert_allclose(draws["both"][:, 1], draws["shift"], rtol=1e-5)
    assert "doubled" in result.summary().index and "doubled" in result.posterior["posterior"]
    np.testing.assert_allclose(
        result.noise_unaware["doubled"], 2 * result.noise_unaware["rate"], rtol=1e-5
    )


def test_they_are_saved(result, tmp_path):
    again = nw.Result.load(result.save(tmp_path / "out"))
    np.testing.assert_array_equal(again.draws["both"], result.draws["both"])
