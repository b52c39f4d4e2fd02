"""What runs away on simulated tables is refused before anything is spent."""

import importlib
import re
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.dpvi import Settings, assemble
from noisewise.models import ModelError, bind_model
from noisewise.planning.simulation import simulate_gradients
from noisewise.trials import refuse_if_it_diverges

GROUPS, ROWS = 4, 300
SCHEMA = nw.Schema(
    (
        nw.Column(name="ward", kind="category", categories=tuple("abcd")),
        nw.Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15),
        nw.Column(name="income", kind="real", bounds=(0, 1000)),
        nw.Column(name="y", kind="binary"),
    )
)
SETTINGS = Settings(
    clip_norm=0.1,
    steps=1000,
    contraction_rate=0.05,
    curvature=np.eye(GROUPS + 1),
    location=np.zeros(GROUPS + 1),
    prior_precision=np.eye(GROUPS + 1),
)


def intercepts(ward, y=None):
    s = numpyro.sample("s", dist.HalfNormal(1))
    a = numpyro.sample("a", dist.Normal(0, s).expand([GROUPS]).to_event(1))
    with numpyro.plate("people", ward.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=a[ward]), obs=y)


def without_gradients(ward, y=None):
    m = numpyro.sample("m", dist.Normal(0, 1))
    logit = m + jnp.sqrt(0 * m * ward)  # the slope of a root at zero times zero
    with numpyro.plate("people", ward.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=logit), obs=y)


def test_descent_along_a_funnel_is_refused_and_along_a_gaussian_prior_is_not():
    """The same fit of group intercepts: the gradient of its own prior runs away."""
    bound = bind_model(intercepts, SCHEMA, "y")
    mechanism = replace(SETTINGS.mechanism(), noise_multiplier=5.0)
    with pytest.raises(nw.NoisewiseError, match=r"rehearsal: \d of 8 simulated fits ran away"):
        refuse_if_it_diverges(bound, assemble(SETTINGS, bound.target, mechanism, ROWS), ROWS)
    gaussian = replace(SETTINGS, gaussian_prior=True)
    refuse_if_it_diverges(bound, assemble(gaussian, bound.target, mechanism, ROWS), ROWS)


def test_a_fit_is_refused_with_nothing_spent(monkeypatch):
    """No row count is bought, and the message is one line."""
    monkeypatch.setattr(importlib.import_module("noisewise.fitting.fit"), "public_count", None)
    rng = np.random.default_rng(0)
    columns = {
        "ward": rng.choice(list("abcd"), ROWS),
        "age": rng.uniform(0, 100, ROWS),
        "income": rng.uniform(0, 1000, ROWS),
        "y": rng.integers(0, 2, ROWS),
    }
    table, budget = nw.Table(columns, SCHEMA), nw.Budget(epsilon=1, delta=1e-5)
    with pytest.raises(nw.NoisewiseError, match="nothing was spent") as refused:
        nw.fit(intercepts, table, budget=budget, target="y", plan=SETTINGS)
    assert "\n" not in str(refused.value)
    assert not re.search(rf"\b{ROWS}\b", str(refused.value).replace("300 steps", ""))


def test_gradients_that_are_no_numbers_are_refused():
    bound = bind_model(without_gradients, SCHEMA, "y")
    with pytest.raises(ModelError, match="100% of simulated records have gradients that are not"):
        simulate_gradients(bound.target, bound.view)
