"""Tables, reference and measures of the DP-SEP paper's mixture of Gaussians (DP-SEP sec. 6.1).

The reference is the posterior of the real mixture, assignments unknown: a long Gibbs run. A mixture
does not know its components' order, so everything is compared in the best of all orders.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.dpsep import gaussian_kl

__all__ = [
    "COMPONENTS",
    "ROWS",
    "SD",
    "WIDTH",
    "MixtureTables",
    "Posteriors",
    "aligned",
    "divergences",
    "gibbs",
    "mixture_tables",
    "norms",
]

ROWS, COMPONENTS, WIDTH, SD = 1000, 4, 4, 0.5
_SWEEPS = 20_000
_BURN_IN = 1000
_ORDERS = np.array(list(permutations(range(COMPONENTS))))


class MixtureTables(NamedTuple):
    """Simulated tables, with what they were made from."""

    X: np.ndarray
    """tables x rows x width."""
    labels: np.ndarray
    centres: np.ndarray
    """tables x components x width."""


class Posteriors(NamedTuple):
    """Gaussian posteriors of the components' means, one for every table."""

    means: np.ndarray
    """tables x components x width."""
    covariances: np.ndarray
    """tables x components x width x width."""


def mixture_tables(count: int, seed: int) -> MixtureTables:
    """mu_j ~ N(0, I), each record from one of them, all alike likely, with N(0, sd^2 I) around."""
    made = [_table(np.random.default_rng([seed, number])) for number in range(count)]
    return MixtureTables(*(np.stack(column) for column in zip(*made, strict=True)))


def _table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    centres = rng.standard_normal((COMPONENTS, WIDTH))
    labels = rng.integers(0, COMPONENTS, ROWS)
    X = centres[labels] + SD * rng.standard_normal((ROWS, WIDTH))
    return X.astype(np.float32), labels, centres


def gibbs(tables: MixtureTables, seed: int, sweeps: int = _SWEEPS) -> Posteriors:
    """Mean and covariance of every component's mean under the real posterior.

    Chains start at the true centres, which chooses one of the equal modes and tells nothing else:
    assignments are drawn from the first sweep on. Every sweep counts with the moments of the means
    given its assignments (Rao-Blackwell), in the order of components closest to the centres.
    """
    keys = jax.random.split(jax.random.PRNGKey(seed), len(tables.X))
    X, centres = jnp.asarray(tables.X), jnp.asarray(tables.centres, jnp.float32)

    def one(X: Array, centres: Array, key: Array) -> tuple[Array, Array]:
        return _chain(X, centres, jax.random.split(key, sweeps), _BURN_IN * sweeps // _SWEEPS)

    means, covariances = jax.jit(jax.vmap(one))(X, centres, keys)
    return Posteriors(np.asarray(means, float), np.asarray(covariances, float))


def _chain(X: Array, centres: Array, keys: Array, burn_in: int) -> tuple[Array, Array]:
    def sweep(means: Array, key: Array) -> tuple[Array, tuple[Array, Array]]:
        labels_key, means_key = jax.random.split(key)
        squares = jnp.sum((X[:, None, :] - means) ** 2, axis=-1)
        shares = jax.nn.softmax(-0.5 * squares / SD**2, axis=-1)
        below = jax.random.uniform(labels_key, (len(X), 1)) < jnp.cumsum(shares, axis=-1)[:, :-1]
        labels = COMPONENTS - 1 - jnp.sum(below, axis=-1)
        members = jax.nn.one_hot(labels, COMPONENTS)
        variances = 1 / (1 + members.sum(0) / SD**2)
        given = (members.T @ X) / SD**2 * variances[:, None]
        drawn = given + jnp.sqrt(variances)[:, None] * jax.random.normal(means_key, given.shape)
        order = _closest(given, centres)
        return drawn, (given[order], variances[order])

    _, (given, variances) = jax.lax.scan(sweep, centres, keys)
    given, variances = given[burn_in:], variances[burn_in:]
    mean = given.mean(0)
    moved = jnp.einsum("ski,skj->kij", given - mean, given - mean) / len(given)
    return mean, moved + variances.mean(0)[:, None, None] * jnp.eye(WIDTH)


def _closest(means: Array, wanted: Array) -> Array:
    """The order of components that brings the means closest to those wanted."""
    squares = jnp.sum((means[:, None, :] - wanted) ** 2, axis=-1)
    totals = squares[_ORDERS, np.arange(COMPONENTS)].sum(-1)
    return jnp.asarray(_ORDERS)[jnp.argmin(totals)]


def aligned(found: Posteriors, wanted: np.ndarray) -> Posteriors:
    """Components of every table in the order that is closest to the wanted means."""
    orders = np.asarray(jax.vmap(_closest)(jnp.asarray(found.means), jnp.asarray(wanted)))
    tables = np.arange(len(orders))[:, None]
    return Posteriors(found.means[tables, orders], found.covariances[tables, orders])


def norms(found: Posteriors, reference: Posteriors) -> tuple[np.ndarray, np.ndarray]:
    """The paper's F-norms, of means and of covariances, for every table: components aligned."""
    ours = aligned(found, reference.means)
    means, covariances = (
        np.linalg.norm((one - other).reshape(len(one), -1), axis=1)
        for one, other in zip(ours, reference, strict=True)
    )
    return means, covariances


def divergences(reference: Posteriors, found: Posteriors) -> np.ndarray:
    """KL(reference || found) of the Gaussians, all components together, for every table."""
    ours = aligned(found, reference.means)
    there, here = np.linalg.inv(reference.covariances), np.linalg.inv(ours.covariances)
    totals = np.zeros(len(here))
    for place in np.ndindex(here.shape[:2]):
        totals[place[0]] += gaussian_kl(
            reference.means[place], there[place], ours.means[place], here[place]
        )
    return totals
