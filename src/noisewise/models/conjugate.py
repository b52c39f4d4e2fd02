"""The models of NA-DPVI, sections 4.2 and 4.3, with the priors of the authors' experiments.

Their posteriors are known in closed form, which makes them the yardstick for everything else.
"""

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist


def gamma_exponential(x: Any = None, rows: int = 1) -> None:
    """M1: rate ~ Gamma(8, 2), x ~ Exponential(rate)."""
    rate = numpyro.sample("rate", dist.Gamma(8.0, 2.0))
    with numpyro.plate("records", rows if x is None else x.shape[0]):
        numpyro.sample("x", dist.Exponential(rate), obs=x)


def beta_bernoulli(x: Any = None, rows: int = 1) -> None:
    """M2: probability ~ Beta(10, 10), x ~ Bernoulli(probability)."""
    probability = numpyro.sample("probability", dist.Beta(10.0, 10.0))
    with numpyro.plate("records", rows if x is None else x.shape[0]):
        numpyro.sample("x", dist.Bernoulli(probs=probability), obs=x)


def dirichlet_categorical(x: Any = None, rows: int = 1) -> None:
    """M3: probabilities ~ Dirichlet(5, 5, 5), x ~ Categorical(probabilities)."""
    probabilities = numpyro.sample("probabilities", dist.Dirichlet(jnp.full(3, 5.0)))
    with numpyro.plate("records", rows if x is None else x.shape[0]):
        numpyro.sample("x", dist.Categorical(probs=probabilities), obs=x)


def normal_regression(X: Any, y: Any = None) -> None:
    """Eq. 28: variance ~ InvGamma(20, 0.5), weights ~ N(0, 4 variance), y ~ N(Xw, variance).

    ``X`` carries its own column of ones.
    """
    variance = numpyro.sample("variance", dist.InverseGamma(20.0, 0.5))
    spread = 2.0 * variance**0.5
    weights = numpyro.sample("weights", dist.Normal(0, spread).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("records", X.shape[0]):
        numpyro.sample("y", dist.Normal(X @ weights, variance**0.5), obs=y)
