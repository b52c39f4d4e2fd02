"""Rivals of DP-SEP for a Bayesian neural network: VI (Graves 2011), DP-VI, and a point estimate.

All three fit `noisewise.models.Network`. VI maximises the evidence lower bound of a diagonal
Gaussian guide by reparametrised gradients; DP-VI (DP-SEP App. D) is the same bound under
noisewise's DPVI. Only the settings of DP-VI are for data about people: the rest is not private.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Rows
from noisewise.dpsep import NetworkSite
from noisewise.dpvi import Settings
from noisewise.guides import DiagonalGuide
from noisewise.models import Network, Target, build_target

_INITIAL_SD = 0.05
_FREE = float(np.log(np.expm1(_INITIAL_SD)))
_LEARNING_RATE = 0.01
_BATCH = 100
Loss = Callable[[Array, Rows, Array], Array]


class NetworkGuide(NamedTuple):
    """What a guide says of a network: weights in the order of `NetworkSite`, and the noise."""

    mean: Array
    variance: Array
    noise_variance: Array


def network_target(hidden: int, inputs: int) -> Target:
    """The network, ready for DPVI; the weights are all unconstrained coordinates but the first
    (the weights' precision) and the last (the noise's).

    Args:
        hidden: Units.
        inputs: Columns of ``X``.
    """
    example = {"X": np.zeros((4, inputs), np.float32), "y": np.zeros(4, np.float32)}
    return build_target(Network(hidden), example)


def vi_start(weights: np.ndarray | Array) -> Array:
    """Guide parameters around these weights: sds of 0.05, precisions of one.

    Args:
        weights: In the order of `NetworkSite`.
    """
    ends = jnp.zeros(1)
    means = jnp.concatenate([ends, jnp.asarray(weights, jnp.float32), ends])
    return jnp.concatenate([means, jnp.full(len(means), _FREE)])


def network_guide(parameters: Array) -> NetworkGuide:
    """Weights and noise from a guide's parameters; the noise precision is log-normal.

    Args:
        parameters: As `vi_start` orders them.
    """
    means, free = jnp.split(parameters, 2)
    variances = DiagonalGuide(len(means)).scale(free) ** 2
    noise = jnp.exp(-means[-1] + variances[-1] / 2)
    return NetworkGuide(means[1:-1], variances[1:-1], noise)


def negative_elbo(target: Target, parameters: Array, rows: Rows, draw: Array, count: int) -> Array:
    """Minus the bound for ``count`` records, estimated from some of them and one draw, per record;
    the guide's entropy without its constant."""
    guide = DiagonalGuide(target.dim)
    point = guide.points(parameters, draw[None])[0]
    likelihood = jax.vmap(target.log_likelihood, (None, 0))(point, rows).mean()
    entropy = jnp.log(guide.scale(parameters[target.dim :])).sum()
    return -likelihood - (target.log_prior(point) + entropy) / count


def unsafe_vi(target: Target, rows: Rows, start: Array, key: Array, *, epochs: int) -> Array:
    """A guide's parameters by Adam on the bound, no noise and no clip: NOT PRIVATE.

    Args:
        target: The network (`network_target`).
        rows: Simulated or public records.
        start: The guide's parameters to begin with (`vi_start`).
        key: Of batches and draws.
        epochs: Passes over the records.
    """
    count = len(rows["y"])

    def loss(parameters: Array, batch: Rows, key: Array) -> Array:
        draw = jax.random.normal(key, (target.dim,))
        return negative_elbo(target, parameters, batch, draw, count)

    return _descend(loss, start, rows, key, epochs)


def unsafe_point_estimate(
    site: NetworkSite, rows: Rows, weights: Array, key: Array, *, epochs: int
) -> Array:
    """Weights of least squared error by Adam, no prior (DP-SEP App. C): NOT PRIVATE.

    Args:
        site: The network.
        rows: Simulated or public records.
        weights: To begin with.
        key: Of batches.
        epochs: Passes over the records.
    """

    def loss(weights: Array, batch: Rows, key: Array) -> Array:
        return jnp.mean((batch["y"] - site.forward(weights, batch["X"])) ** 2)

    return _descend(loss, weights, rows, key, epochs)


def _descend(loss: Loss, start: Array, rows: Rows, key: Array, epochs: int) -> Array:
    """Adam on batches of 100 records, the learning rate falling to zero as a cosine."""
    import optax

    rows = {name: jnp.asarray(column) for name, column in rows.items()}
    count = len(next(iter(rows.values())))
    batch = min(_BATCH, count)
    steps = epochs * (count // batch)
    adam = optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, steps))

    def step(carry: tuple[Array, Any], key: Array) -> tuple[tuple[Array, Any], None]:
        parameters, inner = carry
        key_rows, key_loss = jax.random.split(key)
        drawn = jax.random.randint(key_rows, (batch,), 0, count)
        some = {name: column[drawn] for name, column in rows.items()}
        gradient = jax.grad(loss)(parameters, some, key_loss)
        move, inner = adam.update(gradient, inner, parameters)
        return (parameters + move, inner), None

    start = jnp.asarray(start, jnp.float32)
    (last, _), _ = jax.lax.scan(step, (start, adam.init(start)), jax.random.split(key, steps))
    return last


def dp_vi_settings(weights: np.ndarray, epochs: int = 100) -> Settings:
    """DP-VI of a network whose inputs and target have sds of about one.

    The aligned rule, Adam's rate falling from 0.06 to 0.006, iterates of the last fifth averaged by
    whoever reads the trace. Of nine pairs of clip norm (0.5 to 5) and last rate (0.002 to 0.015)
    this one had the least mean RMSE at epsilon 1 on simulated regressions that `network_phases` was
    chosen on; vanilla was within 1% of aligned.

    Args:
        weights: To begin with.
        epochs: Passes over the records.
    """
    return Settings(
        rule="aligned",
        clip_norm=1.0,
        sampling_rate=1 / 8,
        steps=8 * epochs,
        guide_draws=1,
        learning_rate=0.006,
        initial_step_multiplier=10.0,
        burn_in=0.99,
        initial_free_scale=_FREE,
        full_curvature=False,
        start=np.concatenate([[0.0], weights, [0.0]]),
    )
