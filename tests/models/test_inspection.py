"""Models whose records are not independent given the latents are refused, each with its reason."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from noisewise.models import ModelError, build_target

ROWS = {
    "x": np.array([0.1, -0.4, 0.7, 1.2], np.float32),
    "y": np.array([0.0, 1.0, 1.0, 0.0], np.float32),
}


def latent_in_plate(x, y=None):
    with numpyro.plate("people", x.shape[0]):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Bernoulli(logits=z), obs=y)


def two_plates(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("x", dist.Normal(w, 1), obs=x)
    with numpyro.plate("others", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=w), obs=y)


def no_plate(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    numpyro.sample("y", dist.Bernoulli(logits=w * x).to_event(1), obs=y)


def fixed_plate(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("people", 3):
        numpyro.sample("y", dist.Bernoulli(logits=w), obs=y[:3])


def observed_outside(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    numpyro.sample("total", dist.Normal(w, 1), obs=x.sum())
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=w), obs=y)


def mixes_rows(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=w * (x - x.mean())), obs=y)


def prior_from_data(x, y=None):
    w = numpyro.sample("w", dist.Normal(x.mean(), 1))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=w), obs=y)


def discrete_latent(x, y=None):
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=1.0 * k), obs=y)


def growing_latent(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[0]]).to_event(1))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=w), obs=y)


def moving_support(x, y=None):
    top = numpyro.sample("top", dist.Gamma(2.0, 1.0))
    w = numpyro.sample("w", dist.Uniform(0.0, top))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=w), obs=y)


def own_subsampling(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("people", x.shape[0], subsample_size=2) as i:
        numpyro.sample("y", dist.Bernoulli(logits=w), obs=y[i])


def has_param(x, y=None):
    w = numpyro.param("w", jnp.zeros(()))
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=w), obs=y)


def observes_nothing(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("people", x.shape[0]):
        numpyro.deterministic("eta", w * x)


def nothing_to_infer(x, y=None):
    with numpyro.plate("people", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x), obs=y)


def crashes(x, y=None):
    raise RuntimeError("a mistake\nover two lines")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (latent_in_plate, "latent 'z' is inside plate 'people'"),
        (two_plates, "found 2 plates over records"),
        (no_plate, "found no plate over records"),
        (fixed_plate, "found no plate over records"),
        (observed_outside, "observed site 'total' is outside plate"),
        (mixes_rows, "the model mixes records"),
        (prior_from_data, "the prior depends on the data"),
        (discrete_latent, "latent 'k' is discrete"),
        (growing_latent, "latent 'w' grows with the number of rows"),
        (moving_support, "support of latent 'w' depends on other latents"),
        (own_subsampling, "subsamples by itself"),
        (has_param, "has no prior"),
        (observes_nothing, "observes nothing"),
        (nothing_to_infer, "no latent to infer"),
        (crashes, "failed on a few simulated rows with RuntimeError: a mistake over two lines"),
    ],
)
def test_refused_with_its_reason(model, message):
    with pytest.raises(ModelError) as caught:
        build_target(model, ROWS)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plate_over_features_is_fine():
    def model(x, y=None):
        with numpyro.plate("features", 2):
            w = numpyro.sample("w", dist.Normal(0, 1))
        with numpyro.plate("people", x.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=w[0] + w[1] * x), obs=y)

    assert build_target(model, ROWS).dim == 2


def test_several_observed_columns_in_one_plate_are_fine():
    def model(x, y=None):
        w = numpyro.sample("w", dist.Normal(0, 1))
        with numpyro.plate("people", x.shape[0]):
            numpyro.sample("x", dist.Normal(w, 1), obs=x)
            numpyro.sample("y", dist.Bernoulli(logits=w), obs=y)

    assert set(build_target(model, ROWS).layout.observed_arguments) == {("x", "x"), ("y", "y")}
