"""DP-SEP sec. 6.1: mixtures of Gaussians, their reference, and every method fitted to them.

The reference is the posterior of the real mixture, assignments unknown: a long Gibbs run. A mixture
does not know its components' order, so everything is compared in the best of all orders.
"""

import math
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise import dpsep
from noisewise.baselines import dp_em
from noisewise.mechanism import Budget
from noisewise.mechanism.accounting import epsilon_spent
from noisewise.studies.core.study import Options

ROWS, COMPONENTS, WIDTH, SD = 1000, 4, 4, 0.5
_SWEEPS = 20_000
_BURN_IN = 1000
_ORDERS = np.array(list(permutations(range(COMPONENTS))))
_DELTA = 1e-5
CLIPPED = {clip: f"clipped-sep, C = {clip:g}" for clip in (1.0, 10.0, 20.0)}
GAMMAS = {"γ = N": float(ROWS), "γ = 1": 1.0}
LITERAL_CLIP = 1.0
NOISE_AWARE = "noise-aware"
RADIUS = 4.0
"""DP-EM shortens longer records: 3.6 sds of a coordinate under the prior predictive."""
_SLOW = 0.1
_EP_PASSES, _SEP_PASSES, _SLOW_PASSES = 10, 20, 50
_SITE = dpsep.MixtureSite(COMPONENTS, WIDTH, SD)


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
    tables = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        centres = rng.standard_normal((COMPONENTS, WIDTH))
        labels = rng.integers(0, COMPONENTS, ROWS)
        X = centres[labels] + SD * rng.standard_normal((ROWS, WIDTH))
        tables.append(MixtureTables(X.astype(np.float32), labels, centres))
    return MixtureTables(*(np.stack(column) for column in zip(*tables, strict=True)))


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


def norms(found: Posteriors, reference: Posteriors) -> list[np.ndarray]:
    """The paper's measures, means' and covariances' F-norms for every table: components aligned."""
    ours = aligned(found, reference.means)
    return [
        np.linalg.norm((one - other).reshape(len(one), -1), axis=1)
        for one, other in zip(ours, reference, strict=True)
    ]


def divergences(reference: Posteriors, found: Posteriors) -> np.ndarray:
    """KL(reference || found) of the Gaussians, all components together, for every table."""
    ours = aligned(found, reference.means)
    there, here = np.linalg.inv(reference.covariances), np.linalg.inv(ours.covariances)
    totals = np.zeros(len(here))
    for place in np.ndindex(here.shape[:2]):
        totals[place[0]] += dpsep.gaussian_kl(
            reference.means[place], there[place], ours.means[place], here[place]
        )
    return totals


class Prepared(NamedTuple):
    """What every method works on."""

    tables: MixtureTables
    starts: np.ndarray
    """tables x coordinates: public, from the prior, the same for every method."""
    reference: Posteriors


def prepare(options: Options) -> Prepared:
    """As many tables as fits, and their reference."""
    tables = mixture_tables(options.fits, options.seed)
    rng = np.random.default_rng([options.seed, ROWS])
    starts = rng.standard_normal((options.fits, COMPONENTS * WIDTH)).astype(np.float32)
    return Prepared(tables, starts, gibbs(tables, options.seed))


class Fitted(NamedTuple):
    """One method's posteriors at one budget."""

    name: str
    epsilon: float
    """Infinity: no privacy."""
    posteriors: Posteriors
    spent: float | None = None
    """The epsilon that its certificate says, where it has one."""


def _unpacked(found: dpsep.Gaussian) -> Posteriors:
    means = np.asarray(found.mean, float).reshape(-1, COMPONENTS, WIDTH)
    covariances = _SITE.family.matrices(jnp.asarray(found.covariance))
    return Posteriors(means, np.asarray(covariances, float))


def _one_at_a_time(
    passes: int, options: Options, prepared: Prepared, *, ep: bool = False, **settings: Any
) -> Posteriors:
    """SEP or EP, which go through the records one at a time, on all tables side by side."""
    seeds = 1000 * options.seed + np.arange(len(prepared.starts))
    orders = np.stack([dpsep.random_passes(ROWS, passes, int(seed)) for seed in seeds])
    columns = (prepared.tables.X, prepared.starts, orders, seeds)

    def fit(X: Array, start: Array, order: Array, seed: Array) -> dpsep.Gaussian:
        if ep:
            return dpsep.ep(_SITE, {"X": X}, order, initial=start)
        return dpsep.one_at_a_time(_SITE, {"X": X}, order, initial=start, seed=seed, **settings)

    return _unpacked(jax.jit(jax.vmap(fit))(*map(jnp.asarray, columns)))


def _ep(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    yield Fitted("ep", math.inf, _one_at_a_time(_EP_PASSES, options, prepared, ep=True))


def _sep(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    yield Fitted("sep", math.inf, _one_at_a_time(_SEP_PASSES, options, prepared))
    slow = _one_at_a_time(_SLOW_PASSES, options, prepared, gamma=_SLOW * ROWS)
    yield Fitted("sep, γ = N/10", math.inf, slow)


def _clipped_sep(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    for clip, name in CLIPPED.items():
        yield Fitted(name, math.inf, _one_at_a_time(_SEP_PASSES, options, prepared, clip=clip))


def _dp_sep(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    """Every budget by one compilation: the noise is an input."""
    phases = dpsep.mixture_phases(COMPONENTS, WIDTH, SD, epochs=options.epochs)
    budgets = [Budget(epsilon=epsilon, delta=_DELTA) for epsilon in options.epsilons]
    levels = [dpsep.phase_mechanisms(phases, budget) for budget in budgets]
    loudest = max(levels, key=lambda mechanisms: mechanisms[0].multiplier)

    def one(X: Array, start: Array, key: Array, factor: Array) -> Any:
        runs = dpsep.assemble_phases(phases, loudest, ROWS, start)
        return dpsep.fit_simulated([dpsep.scale_noise(run, factor) for run in runs], {"X": X}, key)

    every = jax.jit(jax.vmap(one, in_axes=(0, 0, 0, None)))
    data = (jnp.asarray(prepared.tables.X), jnp.asarray(prepared.starts))
    first = jax.random.PRNGKey(options.seed)
    for number, (budget, mechanisms) in enumerate(zip(budgets, levels, strict=True)):
        keys = jax.random.split(jax.random.fold_in(first, number), len(prepared.starts))
        fit = every(*data, keys, jnp.float32(mechanisms[0].multiplier / loudest[0].multiplier))
        releases = tuple(one.release("sites") for one in mechanisms)
        spent = epsilon_spent(releases, budget.delta, budget.adjacency)
        yield Fitted("dp-sep", budget.epsilon, _unpacked(dpsep.noise_unaware(fit)), spent)
        aware = _unpacked(dpsep.noise_aware(_SITE, fit))
        yield Fitted(f"dp-sep, {NOISE_AWARE}", budget.epsilon, aware)


def _dp_em(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    for epsilon in options.epsilons:
        budget, seed = Budget(epsilon=epsilon, delta=_DELTA), 1000 * options.seed
        starts = prepared.starts.reshape(-1, COMPONENTS, WIDTH)
        fits = [
            dp_em(
                X,
                start,
                sd=SD,
                radius=RADIUS,
                budget=budget,
                public_count=len(X),
                insecure_seed=seed + number,
            )
            for number, (X, start) in enumerate(zip(prepared.tables.X, starts, strict=True))
        ]
        variances = np.stack([fit.variances for fit in fits])[..., None, None]
        found = Posteriors(np.stack([fit.means for fit in fits]), variances * np.eye(WIDTH))
        yield Fitted("dp-em", epsilon, found, fits[0].certificate.epsilon_spent)


def literal_fits(
    epsilon: float, options: Options, prepared: Prepared
) -> tuple[list[Fitted], float]:
    """The paper's Algorithm 3 at the noise of the paper's accounting, and that noise multiplier."""
    budget = Budget(epsilon=epsilon, delta=_DELTA)
    noise = dpsep.literal_noise(budget, ROWS, options.epochs)
    certificate = dpsep.literal_certificate(_SITE.family, budget, noise, options.epochs)
    fits = []
    for words, gamma in GAMMAS.items():
        more: dict[str, Any] = {"gamma": gamma, "clip": LITERAL_CLIP, "noise_multiplier": noise}
        found = _one_at_a_time(options.epochs, options, prepared, **more)
        fits.append(Fitted(f"literal, {words}", epsilon, found, certificate.epsilon_spent))
    return fits, noise


METHODS: dict[str, Callable[[Options, Prepared], Iterator[Fitted]]] = {
    "ep": _ep,
    "sep": _sep,
    "clipped-sep": _clipped_sep,
    "dp-sep": _dp_sep,
    "dp-em": _dp_em,
}
