"""A one-hidden-layer Bayesian neural network for a regression, as a NumPyro model."""

import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from noisewise._validate import integer_at_least, positive
from noisewise.models.ready_made import Capabilities, ReadyMade

_TEXT = re.compile(r"network(?:\((?:hidden=)?(\d+)\))?")


@dataclass(frozen=True)
class Network(ReadyMade):
    """Standardised inputs ``X`` (rows x inputs) and target ``y``; biases in both layers.

    The network and the priors of PBP (Hernandez-Lobato and Adams 2015; DP-SEP eqs. 11 to 15):
    ReLU units, every layer divided by the root of its fan-in, weights N(0, 1/lambda), Gamma priors
    on lambda and on the noise's precision. `noisewise.dpsep.NetworkSite` is the same model.
    """

    hidden: int = 50
    shape: float = 6.0
    rate: float = 6.0

    capabilities = Capabilities(
        unique_optimum=False,
        ordered_latents=False,
        averaged_posterior=False,
        site="network",
        because="a network has many equal optima",
    )
    target_kinds = ("real", "count")

    def __post_init__(self) -> None:
        integer_at_least("hidden", self.hidden, 1)
        positive("shape", self.shape, finite=True)
        positive("rate", self.rate, finite=True)

    def __call__(self, X: Any, y: Any = None) -> None:
        """The generative process; latents in this order."""
        gamma = dist.Gamma(self.shape, self.rate)
        weight = dist.Normal(0.0, numpyro.sample("weight_precision", gamma) ** -0.5)
        inputs = X.shape[1] + 1
        first = numpyro.sample("first", weight.expand([self.hidden, inputs]).to_event(2))
        last = numpyro.sample("last", weight.expand([self.hidden + 1]).to_event(1))
        sd = numpyro.sample("noise_precision", gamma) ** -0.5
        with numpyro.plate("records", X.shape[0]):
            numpyro.sample("y", dist.Normal(self.output(first, last, X), sd), obs=y)

    def __str__(self) -> str:
        """As it is named on the command line."""
        return f"network(hidden={self.hidden})"

    def output(self, first: Any, last: Any, X: Any) -> Any:
        """What the network says of every row."""
        hidden = jax.nn.relu(_with_ones(X) @ first.T / (X.shape[1] + 1) ** 0.5)
        return _with_ones(hidden) @ last / (self.hidden + 1) ** 0.5


def network_from_text(text: str) -> Network | None:
    """The network that a text names, such as ``network`` or ``network(hidden=20)``, or None.

    >>> network_from_text("network(hidden=20)")
    Network(hidden=20, shape=6.0, rate=6.0)
    """
    found = _TEXT.fullmatch(text)
    return None if found is None else Network(int(found[1] or 50))


def _with_ones(values: Any) -> Any:
    return jnp.concatenate([values, jnp.ones_like(values[:, :1])], axis=1)
