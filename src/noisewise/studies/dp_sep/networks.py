"""DP-SEP sec. 6.2: every method of the regressions, fitted to many splits of one table.

Splits of a table have one size, so a method is compiled once and `jax.vmap` runs all of them on a
GPU; on a CPU they go one after the other. Noise is seeded: nothing here is a private release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.baselines import (
    dp_vi_settings,
    network_guide,
    network_target,
    private_line,
    unsafe_point_estimate,
    unsafe_vi,
    vi_start,
)
from noisewise.data import Rows
from noisewise.dpsep import (
    NETWORK_TARGET_SD,
    Gaussian,
    NetworkSite,
    Phase,
    Prediction,
    SepFit,
    adf_in_batches,
    ep_in_batches,
    finish,
    fit_unsafe,
    network_phases,
    network_reference,
    network_units,
)
from noisewise.dpsep import assemble as assemble_sep
from noisewise.engine import Run, device_source, run_simulated
from noisewise.mechanism import Budget
from noisewise.models import Network
from noisewise.studies.dp_sep.regression_tables import Split
from noisewise.trials import fit_function

__all__ = ["PRIVATE", "Scores", "fit_splits"]

PRIVATE = ("dp-sep", "dp-vi", "private-line")
_HIDDEN = 50
_TAIL = 0.2
_BATCHES = 300

Fit = Callable[[Rows, Array, Array, Array, Array], Prediction]
"""Training rows, test inputs, initial weights, key, clip factor to predictions with their noise."""


class _Shape(NamedTuple):
    """What a method is compiled for."""

    rows: int
    inputs: int
    hidden: int
    epochs: int
    noise: float
    """Noise multiplier of private methods, what was bought for the scaling left out."""


class Scores(NamedTuple):
    """One of each a split, in the table's own unit."""

    rmse: np.ndarray
    log_likelihood: np.ndarray


def fit_splits(
    method: str,
    splits: Sequence[Split],
    epochs: int,
    budget: Budget,
    noise: float,
    seed: int,
    factors: Sequence[float] = (1.0,),
) -> list[Scores]:
    """Scores of a method on every split, for each factor on its clip norms.

    Args:
        method: its name.
        splits: of one table, all of one size.
        epochs: length of a network's fit.
        budget: for lines, which spend all of it on one release.
        noise: the noise multiplier of private networks.
        seed: of starts, batches and noise.
        factors: on the clip norms of SEP.
    """
    if method in _LINES:
        found = [_LINES[method](split, budget, seed + n) for n, split in enumerate(splits)]
        return [_scores(splits, [each.mean for each in found], [each.variance for each in found])]
    rows, inputs = splits[0].X.shape
    hidden = network_units(rows, budget.epsilon, _HIDDEN) if method in PRIVATE else _HIDDEN
    shape = _Shape(rows=rows, inputs=inputs, hidden=hidden, epochs=epochs, noise=noise)
    fit = _NETWORKS[method](shape)
    site = NetworkSite(inputs, hidden)
    every = [(factor, number) for factor in factors for number in range(len(splits))]
    width = 1 if jax.default_backend() == "cpu" else len(every)
    run = jax.jit(jax.vmap(lambda X, y, *rest: fit({"X": X, "y": y}, *rest)))
    keys = jax.random.split(jax.random.PRNGKey(seed), len(splits))
    pieces = []
    for first in range(0, len(every), width):
        group = every[first : first + width]
        some = [splits[number] for _, number in group]
        columns = [[getattr(split, name) for split in some] for name in ("X", "y", "X_test")]
        stacked = [jnp.asarray(np.stack(column)) for column in columns]
        starts = jnp.stack([jnp.asarray(site.start(seed + number)) for _, number in group])
        chosen = keys[np.array([number for _, number in group])]
        clips = jnp.asarray([factor for factor, _ in group], jnp.float32)
        pieces.append(jax.device_get(run(*stacked, starts, chosen, clips)))
    means, variances = (np.concatenate(part) for part in zip(*pieces, strict=True))
    size = len(splits)
    return [
        _scores(splits, means[first : first + size], variances[first : first + size])
        for first in range(0, len(every), size)
    ]


def _scores(splits: Sequence[Split], means: Any, variances: Any) -> Scores:
    """RMSE, and the mean log density of test targets under Gaussian predictions."""
    errors, densities = [], []
    for split, mean, variance in zip(splits, means, variances, strict=True):
        off = split.y_test - (split.centre + split.unit * np.asarray(mean, float))
        spread = split.unit**2 * np.asarray(variance, float)
        errors.append(np.sqrt(np.mean(off**2)))
        densities.append(np.mean(-0.5 * (off**2 / spread + np.log(2 * np.pi * spread))))
    return Scores(np.array(errors), np.array(densities))


def _sep_prediction(site: NetworkSite, fit: SepFit, rows: int, X: Array) -> Prediction:
    found = site.predict(Gaussian(fit.mean, fit.precision, fit.covariance), X)
    noise = site.noise_variance(fit.extra, rows)
    return Prediction(found.mean, found.variance + noise)


def _guide_prediction(site: NetworkSite, parameters: Array, X: Array) -> Prediction:
    """With one hidden layer the moments of a guide's prediction are exact."""
    guide = network_guide(parameters)
    found = site.predict(Gaussian(guide.mean, 1 / guide.variance, guide.variance), X)
    return Prediction(found.mean, found.variance + guide.noise_variance)


def _dp_sep(shape: _Shape) -> Fit:
    (phase,) = network_phases(shape.inputs, shape.hidden, shape.epochs)
    site = phase.site
    mechanism = replace(phase.mechanism, noise_multiplier=shape.noise)
    run = assemble_sep(phase, mechanism, shape.rows, np.zeros(site.family.dim))

    def fit(rows: Rows, X: Array, start: Array, key: Array, factor: Array) -> Prediction:
        small = {**rows, "y": NETWORK_TARGET_SD * rows["y"]}
        # By `run_simulated`, not by phases: these take the key apart.
        clipped = _clipped(run, factor).starting_at(start)
        finished = run_simulated(clipped, device_source(run, shape.rows), small, key)
        found = finish([clipped], [finished])
        output = _sep_prediction(site, found, shape.rows, X)
        return Prediction(output.mean / NETWORK_TARGET_SD, output.variance / NETWORK_TARGET_SD**2)

    return fit


def _clipped(run: Run, factor: Array) -> Run:
    """Clip norms of mean and precision times a factor; noise is in units of them."""
    bounds = run.numbers.bounds * jnp.stack([factor, factor, jnp.ones_like(factor)])
    return replace(run, numbers=run.numbers._replace(bounds=bounds))


def _reference(shape: _Shape, phase: Phase[NetworkSite]) -> Fit:
    """SEP without noise."""
    site = phase.site
    run = assemble_sep(phase, None, shape.rows, np.zeros(site.family.dim))

    def fit(rows: Rows, X: Array, start: Array, key: Array, factor: Array) -> Prediction:
        found = fit_unsafe(_clipped(run, factor).starting_at(start), rows, key)
        return _sep_prediction(site, found, shape.rows, X)

    return fit


def _sep(shape: _Shape) -> Fit:
    return _reference(shape, network_reference(shape.inputs, shape.hidden, shape.epochs))


def _clipped_sep(shape: _Shape) -> Fit:
    """At the clip norms of DP-SEP."""
    ((_, private),) = network_phases(shape.inputs, shape.hidden)
    phase = network_reference(shape.inputs, shape.hidden, shape.epochs, private.bounds)
    return _reference(shape, phase)


def _in_batches(shape: _Shape, method: Callable[..., SepFit]) -> Fit:
    site = NetworkSite(shape.inputs, shape.hidden)
    batch = max(1, shape.rows // _BATCHES)

    def fit(rows: Rows, X: Array, start: Array, key: Array, factor: Array) -> Prediction:
        found = method(site, rows, start, key, epochs=shape.epochs, batch=batch)
        return _sep_prediction(site, found, shape.rows, X)

    return fit


def _ep(shape: _Shape) -> Fit:
    return _in_batches(shape, ep_in_batches)


def _adf(shape: _Shape) -> Fit:
    return _in_batches(shape, adf_in_batches)


def _vi(shape: _Shape) -> Fit:
    site = NetworkSite(shape.inputs, shape.hidden)
    target = network_target(shape.hidden, shape.inputs)

    def fit(rows: Rows, X: Array, start: Array, key: Array, factor: Array) -> Prediction:
        found = unsafe_vi(target, rows, vi_start(start), key, epochs=shape.epochs)
        return _guide_prediction(site, found, X)

    return fit


def _dp_vi(shape: _Shape) -> Fit:
    """The DPVI engine as it is; means and scales averaged over the last blocks of the trace."""
    site = NetworkSite(shape.inputs, shape.hidden)
    target = network_target(shape.hidden, shape.inputs)
    settings = dp_vi_settings(np.zeros(site.family.dim), shape.epochs)
    fit_vi = fit_function(target, settings, shape.noise, shape.rows)

    def fit(rows: Rows, X: Array, start: Array, key: Array, factor: Array) -> Prediction:
        blocks = fit_vi(rows, vi_start(start), key)
        means = blocks.start + blocks.shift / blocks.count[:, None]
        tail = max(1, round(_TAIL * len(means)))
        return _guide_prediction(site, means[-tail:].mean(0), X)

    return fit


def _point(shape: _Shape) -> Fit:
    """Its noise variance is the mean squared residual of the training rows."""
    network = Network(shape.hidden)
    first = shape.hidden * (shape.inputs + 1)

    def fit(rows: Rows, X: Array, start: Array, key: Array, factor: Array) -> Prediction:
        weights = unsafe_point_estimate(network, rows, start, key, epochs=shape.epochs)
        layers = weights[:first].reshape(shape.hidden, -1), weights[first:]
        noise = jnp.mean((rows["y"] - network.output(*layers, rows["X"])) ** 2)
        mean = network.output(*layers, X)
        return Prediction(mean, jnp.full_like(mean, noise))

    return fit


_NETWORKS: dict[str, Callable[[_Shape], Fit]] = {
    "vi": _vi,
    "ep": _ep,
    "sep": _sep,
    "clipped-sep": _clipped_sep,
    "adf": _adf,
    "dp-sep": _dp_sep,
    "dp-vi": _dp_vi,
    "point": _point,
}


def _line(split: Split, budget: Budget, seed: int) -> Prediction:
    """Least squares, no privacy."""
    design, test = (np.column_stack([np.ones(len(X)), X]) for X in (split.X, split.X_test))
    weights = np.linalg.lstsq(design, split.y, rcond=None)[0]
    noise = np.mean((split.y - design @ weights) ** 2)
    return _even(test @ weights, float(noise))


def _private_line(split: Split, budget: Budget, seed: int) -> Prediction:
    """A record (1, x, y) of standardised columns has a squared length of about inputs + 2."""
    line = private_line(
        split.X,
        split.y,
        budget,
        clip_norm=float(split.X.shape[1] + 2),
        others=split.releases,
        insecure_seed=seed,
    )
    return _even(line.predict(split.X_test), line.variance)


def _even(mean: np.ndarray, variance: float) -> Prediction:
    """Predictions with one variance for all, noise included."""
    return Prediction(jnp.asarray(mean), jnp.full(len(mean), variance))


_LINES: dict[str, Callable[[Split, Budget, int], Prediction]] = {
    "line": _line,
    "private-line": _private_line,
}
"""What is left of the budget after the scaling goes into one release; the seed is its noise's."""
