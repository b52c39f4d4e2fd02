"""The mixture study's methods: each turns tables into posteriors, for all tables side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.baselines import dp_em
from noisewise.dpsep import (
    Gaussian,
    MixtureSite,
    certificate,
    ep,
    fit_phases_simulated,
    literal_certificate,
    literal_noise,
    mixture_phases,
    noise_aware,
    one_at_a_time,
    phase_mechanisms,
    plain,
    random_passes,
)
from noisewise.mechanism import Budget
from noisewise.studies.mixture_tables import COMPONENTS, ROWS, SD, WIDTH, MixtureTables, Posteriors
from noisewise.studies.rules import Options

__all__ = [
    "CLIPS",
    "DELTA",
    "GAMMAS",
    "LITERAL_CLIP",
    "METHODS",
    "NOISE_AWARE",
    "RADIUS",
    "Fitted",
    "Prepared",
    "literal_fits",
]

DELTA = 1e-5
CLIPS = (1.0, 10.0, 20.0)
GAMMAS = {"γ = N": float(ROWS), "γ = 1": 1.0}
LITERAL_CLIP = 1.0
NOISE_AWARE = "noise-aware"
RADIUS = 4.0
"""DP-EM shortens longer records: 3.6 sds of a coordinate under the prior predictive."""
_SLOW = 0.1
_EP_PASSES, _SEP_PASSES, _SLOW_PASSES = 10, 20, 50
_SITE = MixtureSite(COMPONENTS, WIDTH, SD)


class Prepared(NamedTuple):
    """What every method works on."""

    tables: MixtureTables
    starts: np.ndarray
    """tables x coordinates: public, from the prior, the same for every method."""
    reference: Posteriors


class Fitted(NamedTuple):
    """One method's posteriors at one budget."""

    name: str
    epsilon: float
    """Infinity: no privacy."""
    posteriors: Posteriors
    spent: float | None = None
    """The epsilon that its certificate says, where it has one."""


def _unpacked(found: Gaussian) -> Posteriors:
    means = np.asarray(found.mean, float).reshape(-1, COMPONENTS, WIDTH)
    return Posteriors(
        means, np.asarray(_SITE.family.matrices(jnp.asarray(found.covariance)), float)
    )


def _every_table(
    fit: Callable[[dict[str, Array], Array, Array, Array], Gaussian],
    passes: int,
    options: Options,
    prepared: Prepared,
) -> Posteriors:
    """A method that goes through the records one at a time, on all tables side by side."""
    count = len(prepared.starts)
    seeds = 1000 * options.seed + np.arange(count)
    orders = np.stack([random_passes(ROWS, passes, int(seed)) for seed in seeds])
    columns = (prepared.tables.X, prepared.starts, orders, seeds)

    def one(X: Array, start: Array, order: Array, seed: Array) -> Gaussian:
        return fit({"X": X}, start, order, seed)

    return _unpacked(jax.jit(jax.vmap(one))(*map(jnp.asarray, columns)))


def _ep(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    found = _every_table(
        lambda rows, start, order, seed: ep(_SITE, rows, order, initial=start),
        _EP_PASSES,
        options,
        prepared,
    )
    yield Fitted("ep", math.inf, found)


def _sep(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    settings: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("sep", _SEP_PASSES, {}),
        ("sep, γ = N/10", _SLOW_PASSES, {"gamma": _SLOW * ROWS}),
    )
    for name, passes, more in settings:
        yield Fitted(name, math.inf, _one_at_a_time(passes, options, prepared, **more))


def _clipped_sep(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    for clip in CLIPS:
        found = _one_at_a_time(_SEP_PASSES, options, prepared, clip=clip)
        yield Fitted(f"clipped-sep, C = {clip:g}", math.inf, found)


def _one_at_a_time(passes: int, options: Options, prepared: Prepared, **more: Any) -> Posteriors:
    return _every_table(
        lambda rows, start, order, seed: one_at_a_time(
            _SITE, rows, order, initial=start, seed=seed, **more
        ),
        passes,
        options,
        prepared,
    )


def _dp_sep(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    """Every budget by one compilation: the noise is an input."""
    phases = mixture_phases(COMPONENTS, WIDTH, SD, epochs=options.epochs)
    budgets = [Budget(epsilon=epsilon, delta=DELTA) for epsilon in options.epsilons]
    levels = [phase_mechanisms(phases, budget) for budget in budgets]
    loudest = max(levels, key=lambda mechanisms: mechanisms[0].multiplier)

    def one(X: Array, start: Array, key: Array, factor: Array) -> Any:
        return fit_phases_simulated(phases, loudest, {"X": X}, start, key, factor)

    every = jax.jit(jax.vmap(one, in_axes=(0, 0, 0, None)))
    data = (jnp.asarray(prepared.tables.X), jnp.asarray(prepared.starts))
    first = jax.random.PRNGKey(options.seed)
    for number, (budget, mechanisms) in enumerate(zip(budgets, levels, strict=True)):
        keys = jax.random.split(jax.random.fold_in(first, number), len(prepared.starts))
        fit = every(*data, keys, jnp.float32(mechanisms[0].multiplier / loudest[0].multiplier))
        spent = certificate(budget, mechanisms, insecure_seed=options.seed).epsilon_spent
        yield Fitted("dp-sep", budget.epsilon, _unpacked(plain(fit)), spent)
        aware = _unpacked(noise_aware(_SITE, fit))
        yield Fitted(f"dp-sep, {NOISE_AWARE}", budget.epsilon, aware)


def _dp_em(options: Options, prepared: Prepared) -> Iterator[Fitted]:
    for epsilon in options.epsilons:
        fits = [
            dp_em(
                X,
                start.reshape(COMPONENTS, WIDTH),
                sd=SD,
                radius=RADIUS,
                budget=Budget(epsilon=epsilon, delta=DELTA),
                insecure_seed=1000 * options.seed + number,
            )
            for number, (X, start) in enumerate(
                zip(prepared.tables.X, prepared.starts, strict=True)
            )
        ]
        variances = np.stack([fit.variances for fit in fits])[..., None, None]
        found = Posteriors(np.stack([fit.means for fit in fits]), variances * np.eye(WIDTH))
        yield Fitted("dp-em", epsilon, found, fits[0].certificate.epsilon_spent)


def literal_fits(
    epsilon: float, options: Options, prepared: Prepared
) -> tuple[list[Fitted], float]:
    """The paper's Algorithm 3 at the noise of the paper's accounting, and that noise multiplier."""
    budget = Budget(epsilon=epsilon, delta=DELTA)
    noise = literal_noise(budget, ROWS, options.epochs)
    spent = literal_certificate(_SITE.family, budget, noise, options.epochs).epsilon_spent
    fits = [
        Fitted(
            f"literal, {words}",
            epsilon,
            _one_at_a_time(
                options.epochs,
                options,
                prepared,
                gamma=gamma,
                clip=LITERAL_CLIP,
                noise_multiplier=noise,
            ),
            spent,
        )
        for words, gamma in GAMMAS.items()
    ]
    return fits, noise


METHODS: dict[str, Callable[[Options, Prepared], Iterator[Fitted]]] = {
    "ep": _ep,
    "sep": _sep,
    "clipped-sep": _clipped_sep,
    "dp-sep": _dp_sep,
    "dp-em": _dp_em,
}
