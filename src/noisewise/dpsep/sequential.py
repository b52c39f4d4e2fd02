"""One record at a time: EP, SEP, clipped SEP, and the paper's own DP-SEP (Algorithm 3).

These are references; `jax.vmap` them over tables. Nothing here is private, Algorithm 3 included:
its noise comes from a seed, and one pass per epoch in random order is neither Poisson nor uniform
sampling, so it would spend what one release per epoch does, each moved by all its clipped blocks
(`literal_certificate`).

Its step is theta <- theta + (gamma/N)(theta_fn - theta_f), DP-SEP eq. 5. gamma = N is SEP (Li
et al. 2015); gamma = 1 moves N times slower, and noise and signal alike carry the factor gamma/N.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import integer_at_least, positive
from noisewise.data import Rows, record_count
from noisewise.dpsep.family import Family
from noisewise.dpsep.site import Gaussian, Natural, Site
from noisewise.mechanism import Budget, Certificate, Release, calibrate, issue
from noisewise.mechanism.accounting import gaussian_epsilon

_LEAST = 1e-4


class _Walk(NamedTuple):
    theta: Natural
    extra: Array
    """Mean of the extras so far, N records' worth."""


def random_passes(rows: int, epochs: int, seed: int) -> np.ndarray:
    """Record numbers of ``epochs`` passes, each in a random order.

    Args:
        rows: Number of records.
        epochs: Number of passes.
        seed: Of their order.
    """
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(rows) for _ in range(epochs)]).astype(np.int32)


def one_at_a_time(
    site: Site,
    rows: Rows,
    order: np.ndarray | Array,
    *,
    initial: np.ndarray | Array,
    gamma: float | None = None,
    clip: float = math.inf,
    noise_multiplier: float = 0.0,
    seed: int | Array = 0,
) -> Gaussian:
    """SEP; with ``clip`` clipped SEP; with ``noise_multiplier`` as well, Algorithm 3 to the letter.

    Args:
        site: The model.
        rows: Simulated or public records.
        order: Record numbers, in the order in which they are visited (`random_passes`).
        initial: Mean to begin with.
        gamma: Of the step, gamma/N; N unless given.
        clip: Clips each of eta_s and Lambda_s (of every component, where there are several), as the
            paper's figures have it.
        noise_multiplier: Noise on them has this times 2 gamma clip/N as its standard deviation.
        seed: Of that noise.
    """
    count = record_count(rows)
    rate = (count if gamma is None else positive("gamma", gamma)) / count
    prior = site.prior(jnp.asarray(initial), jnp.zeros(site.family.dim))
    scale = rate * 2 * clip * noise_multiplier if noise_multiplier else 0.0

    def one(rows: Rows, walk: _Walk, inputs: tuple[Array, Array]) -> tuple[_Walk, None]:
        index, key = inputs
        theta = walk.theta
        average = _each(lambda part, base: (part - base) / count, theta, prior)
        if math.isfinite(clip):
            average = _clip(site.family, average, clip)
            theta = _each(lambda part, base: base + count * part, average, prior)
        cavity = _each(jnp.subtract, theta, average)
        found, extra = _record(site, cavity, walk.extra, count, rows, index)
        if math.isfinite(clip):
            found = _clip(site.family, found, clip)
        moved = _each(lambda part, new, old: part + rate * (new - old), theta, found, average)
        if noise_multiplier:
            keys = Natural(*jax.random.split(key))
            moved = _each(
                lambda part, key: part + scale * jax.random.normal(key, part.shape), moved, keys
            )
        extra = walk.extra + rate / count * (extra - walk.extra)
        return _Walk(_proper(site.family, moved), extra), None

    first = _Walk(_theta_at(site.family, prior, initial), site.first_extra())
    keys = jax.random.split(jax.random.PRNGKey(seed), len(order))
    last: _Walk = _scan(one, rows, first, (jnp.asarray(order), keys))
    return _gaussian(site.family, last.theta)


def ep(
    site: Site,
    rows: Rows,
    order: np.ndarray | Array,
    *,
    initial: np.ndarray | Array,
    damping: float = 1.0,
) -> Gaussian:
    """Expectation propagation: a site per record is kept (DP-SEP Alg. 1).

    A record whose removal leaves no proper cavity waits for its next turn.

    Args:
        site: The model.
        rows: Simulated or public records.
        order: Record numbers, in the order in which they are visited (`random_passes`).
        initial: Mean to begin with.
        damping: Share of the way to a new site that is made.
    """
    count, family = record_count(rows), site.family
    prior = site.prior(jnp.asarray(initial), jnp.zeros(family.dim))
    extra = site.first_extra()

    def one(rows: Rows, carry: Any, index: Array) -> tuple[Any, None]:
        theta, sites = carry
        old = Natural(sites.eta[index], sites.precision[index])
        cavity = _each(jnp.subtract, theta, old)
        proper = family.least_eigenvalue(cavity.precision) > 0
        safe = _each(partial(jnp.where, proper), cavity, prior)
        found, _ = _record(site, safe, extra, count, rows, index)
        new = _each(lambda a, b: a + damping * (b - a), old, found)
        moved = _each(lambda part, a, b: part + b - a, theta, old, new)
        fine = proper & (family.least_eigenvalue(moved.precision) > 0)
        kept = _each(partial(jnp.where, fine), new, old)
        sites = _each(lambda every, one: every.at[index].set(one), sites, kept)
        return (_each(partial(jnp.where, fine), moved, theta), sites), None

    sites = Natural(jnp.zeros((count, family.dim)), jnp.zeros((count, family.packed)))
    theta = _theta_at(family, prior, initial)
    theta, _ = _scan(one, rows, (theta, sites), jnp.asarray(order))
    return _gaussian(family, theta)


def _each(function: Any, *parts: Natural) -> Natural:
    """A function of eta, and of Lambda."""
    return Natural(*(function(*pair) for pair in zip(*parts, strict=True)))


def _proper(family: Family, theta: Natural) -> Natural:
    """Negative eigenvalues raised to a small positive value, as in the paper."""
    return theta._replace(precision=family.floored(theta.precision, jnp.asarray(_LEAST)))


def _theta_at(family: Family, prior: Natural, initial: np.ndarray | Array) -> Natural:
    """The prior's precision around the initial mean."""
    mean = jnp.asarray(initial, jnp.float32)
    return Natural(family.apply(prior.precision, mean), prior.precision)


def _gaussian(family: Family, theta: Natural) -> Gaussian:
    mean = family.solve(theta.precision, theta.eta)
    return Gaussian(mean, theta.precision, family.inverse(theta.precision))


def _record(
    site: Site, cavity: Natural, extra: Array, count: int, rows: Rows, index: Array
) -> tuple[Natural, Array]:
    """One record's natural parameters at a cavity, and its extra; nothing if not finite."""
    batch = {name: jnp.asarray(column)[index][None] for name, column in rows.items()}
    at = _gaussian(site.family, cavity)
    found = site.updates(at, extra, count, batch)
    eta = (found.gradient + site.family.apply(found.precision, at.mean))[0]
    natural = Natural(eta, found.precision[0])
    fine = jnp.all(jnp.isfinite(eta)) & jnp.all(jnp.isfinite(natural.precision))
    return Natural(*(jnp.where(fine, part, 0.0) for part in natural)), found.extra[0]


def _clip(family: Family, theta: Natural, clip: float) -> Natural:
    """eta and Lambda of every component clipped on their own."""
    groups = getattr(family, "count", 1)

    def clipped(part: Array) -> Array:
        split = part.reshape(groups, -1)
        norms = jnp.linalg.norm(split, axis=1, keepdims=True)
        return (split * jnp.minimum(1.0, clip / jnp.maximum(norms, 1e-30))).reshape(part.shape)

    return Natural(clipped(theta.eta), clipped(theta.precision))


def _scan(one: Any, rows: Rows, first: Any, inputs: Any) -> Any:
    """The last state. Rows are an argument of the program: as constants they would end up in JAX's
    compilation cache."""
    whole = jax.jit(lambda rows, first, inputs: jax.lax.scan(partial(one, rows), first, inputs)[0])
    columns = {name: jnp.asarray(column) for name, column in rows.items()}
    return whole(columns, first, inputs)


def literal_noise(budget: Budget, rows: int, epochs: int) -> float:
    """The noise multiplier that the paper's own accounting asks for: as if each of its N T steps
    drew its record by Poisson sampling at rate 1/N, and eta and Lambda were clipped jointly.

    Args:
        budget: What is meant to be spent.
        rows: Number of records.
        epochs: Passes over the table.
    """
    integer_at_least("epochs", epochs, 1)
    return calibrate(budget, 1 / rows, rows * epochs)


def literal_certificate(
    family: Family, budget: Budget, noise_multiplier: float, epochs: int
) -> Certificate:
    """What Algorithm 3 really spends at that noise, in place of what the budget says.

    Replacing a record moves one release per epoch by up to sqrt(K) 2C gamma/N, where K blocks are
    clipped at C each (eta and Lambda of every component), and the noise has noise_multiplier times
    2C gamma/N. Its neighbours are replace-one, as in the paper's Prop. 1.

    Args:
        family: Of the site's posterior.
        budget: What was meant to be spent.
        noise_multiplier: Of the noise (`literal_noise`).
        epochs: Passes over the table.
    """
    blocks = 2 * getattr(family, "count", 1)
    true = gaussian_epsilon(math.sqrt(blocks * epochs) / noise_multiplier, budget.delta)
    # A hair above: the ledger recomputes epsilon with pessimistic rounding.
    honest = Budget(epsilon=1.001 * true, delta=budget.delta, adjacency="replace-one")
    release = Release(
        what=f"sites, one record at a time, {epochs} epochs together",
        # So many Gaussian releases of equal noise are exactly one of this noise.
        noise_multiplier=2 * noise_multiplier / math.sqrt(blocks * epochs),
    )
    sources = {
        "clip norm": "the paper's: each of eta and Lambda on its own",
        "accounting": "one release of a record per epoch; passes in random order are not sampling",
    }
    void = (
        f"it spends epsilon {true:.3g}, not the {budget.epsilon:g} of the budget",
        "the noise comes from a seed",
    )
    return issue(honest, (release,), sources, void)
