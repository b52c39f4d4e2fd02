"""DP-SEP sec. 6.2: every method of the regressions, fitted to many splits of one table.

Splits of a table have one size, so a method is compiled once and `jax.vmap` runs all of them on a
GPU; on a CPU they go one after the other. Noise is seeded: nothing here is a private release.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise import baselines, dpsep
from noisewise.data import Rows
from noisewise.dpsep import NetworkSite, Prediction, SepFit
from noisewise.engine import run_simulated
from noisewise.mechanism import Budget
from noisewise.studies.dp_sep.regression_tables import Split
from noisewise.trials import fit_function

PRIVATE = ("dp-sep", "dp-vi", "private-line")
_HIDDEN = 50
_TAIL = 0.2
_BATCHES = 300


class _Shape(NamedTuple):
    """What a method is compiled for."""

    rows: int
    inputs: int
    hidden: int
    epochs: int
    noise: float
    """Noise multiplier of private methods, what was bought for the scaling left out."""

    @property
    def site(self) -> NetworkSite:
        """The network, as SEP has it; as variational inference has it, it is `network_target`."""
        return NetworkSite(self.inputs, self.hidden)


class _Given(NamedTuple):
    """What a method is given of a split, on the device."""

    rows: Rows
    X: Array
    """Of the test rows."""
    start: Array
    """Initial weights."""
    key: Array
    factor: Array
    """On clip norms."""


_Fit = Callable[[_Given], Prediction]
"""Predictions come with the variance of the noise."""


Scores = dict[str, np.ndarray]
"""``rmse`` and ``log-likelihood``, one of each a split, in the table's own unit."""


def fit_splits(
    method: str,
    splits: Sequence[Split],
    epochs: int,
    budget: Budget,
    noise: float,
    seed: int,
    factors: Sequence[float] = (1.0,),
) -> list[Scores]:
    """Scores of a method on every split of a table, for each factor on the clip norms of SEP.

    Lines spend what is left of the budget on one release; networks have the noise multiplier.
    """
    if method in _LINES:
        found = [_LINES[method](split, budget, seed + n) for n, split in enumerate(splits)]
        return [_scores(splits, [each.mean for each in found], [each.variance for each in found])]
    rows, inputs = splits[0].X.shape
    hidden = dpsep.network_units(rows, budget.epsilon, _HIDDEN) if method in PRIVATE else _HIDDEN
    shape = _Shape(rows=rows, inputs=inputs, hidden=hidden, epochs=epochs, noise=noise)
    fit = _NETWORKS[method](shape)
    every = [(factor, number) for factor in factors for number in range(len(splits))]
    width = 1 if jax.default_backend() == "cpu" else len(every)
    run = jax.jit(jax.vmap(fit))
    keys = jax.random.split(jax.random.PRNGKey(seed), len(splits))
    pieces = []
    for first in range(0, len(every), width):
        group = every[first : first + width]
        some = [splits[number] for _, number in group]
        stacked = _Given(
            rows={name: jnp.stack([getattr(one, name) for one in some]) for name in ("X", "y")},
            X=jnp.stack([one.X_test for one in some]),
            start=jnp.stack([shape.site.start(seed + number) for _, number in group]),
            key=keys[np.array([number for _, number in group])],
            factor=jnp.asarray([factor for factor, _ in group], jnp.float32),
        )
        pieces.append(jax.device_get(run(stacked)))
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
    return {"rmse": np.array(errors), "log-likelihood": np.array(densities)}


def _sep_prediction(site: NetworkSite, fit: SepFit, rows: int, X: Array) -> Prediction:
    found = site.predict(dpsep.Gaussian(fit.mean, fit.precision, fit.covariance), X)
    return Prediction(found.mean, found.variance + site.noise_variance(fit.extra, rows))


def _guide_prediction(site: NetworkSite, parameters: Array, X: Array) -> Prediction:
    """With one hidden layer the moments of a guide's prediction are exact."""
    guide = baselines.network_guide(parameters)
    found = site.predict(dpsep.Gaussian(guide.mean, 1 / guide.variance, guide.variance), X)
    return Prediction(found.mean, found.variance + guide.noise_variance)


def _sep_fit(shape: _Shape, phase: dpsep.Phase[NetworkSite], private: bool = False) -> _Fit:
    """SEP with or without noise; private targets are on a smaller scale."""
    site, count = phase.site, shape.rows
    mechanism = replace(phase.mechanism, noise_multiplier=shape.noise) if private else None
    run = dpsep.assemble(phase, mechanism, count, np.zeros(site.family.dim))
    unit = dpsep.NETWORK_TARGET_SD if private else 1.0

    def fit(given: _Given) -> Prediction:
        # Clip norms of mean and precision times the factor; noise is in units of them.
        factors = jnp.stack([given.factor, given.factor, jnp.ones_like(given.factor)])
        numbers = run.numbers._replace(bounds=run.numbers.bounds * factors)
        clipped = replace(run, numbers=numbers, start=given.start)
        rows = {**given.rows, "y": unit * given.rows["y"]}
        if private:
            found = dpsep.finish([clipped], [run_simulated(clipped, rows, given.key)])
        else:
            found = dpsep.fit_unsafe(clipped, rows, given.key)
        output = _sep_prediction(site, found, count, given.X)
        return Prediction(output.mean / unit, output.variance / unit**2)

    return fit


def _dp_sep(shape: _Shape) -> _Fit:
    (phase,) = dpsep.network_phases(shape.inputs, shape.hidden, shape.epochs)
    return _sep_fit(shape, phase, private=True)


def _sep(shape: _Shape, clipped: bool = False) -> _Fit:
    """Clipped: at the clip norms of DP-SEP."""
    ((_, private),) = dpsep.network_phases(shape.inputs, shape.hidden)
    bounds = private.bounds if clipped else None
    size = (shape.inputs, shape.hidden, shape.epochs)
    return _sep_fit(shape, dpsep.network_reference(*size, bounds))


def _in_batches(method: Callable[..., SepFit], shape: _Shape) -> _Fit:
    batch = max(1, shape.rows // _BATCHES)

    def fit(given: _Given) -> Prediction:
        start, key = given.start, given.key
        found = method(shape.site, given.rows, start, key, epochs=shape.epochs, batch=batch)
        return _sep_prediction(shape.site, found, shape.rows, given.X)

    return fit


def _vi(shape: _Shape) -> _Fit:
    target = baselines.network_target(shape.hidden, shape.inputs)

    def fit(given: _Given) -> Prediction:
        start = baselines.vi_start(given.start)
        found = baselines.unsafe_vi(target, given.rows, start, given.key, epochs=shape.epochs)
        return _guide_prediction(shape.site, found, given.X)

    return fit


def _dp_vi(shape: _Shape) -> _Fit:
    """The DPVI engine as it is; means and scales averaged over the last blocks of the trace."""
    settings = baselines.dp_vi_settings(np.zeros(shape.site.family.dim), shape.epochs)
    target = baselines.network_target(shape.hidden, shape.inputs)
    fit_vi = fit_function(target, settings, shape.noise, shape.rows)

    def fit(given: _Given) -> Prediction:
        blocks = fit_vi(given.rows, baselines.vi_start(given.start), given.key)
        means = blocks.start + blocks.shift / blocks.count[:, None]
        tail = max(1, round(_TAIL * len(means)))
        return _guide_prediction(shape.site, means[-tail:].mean(0), given.X)

    return fit


def _point(shape: _Shape) -> _Fit:
    """Its noise variance is the mean squared residual of the training rows."""
    site = shape.site

    def fit(given: _Given) -> Prediction:
        rows, start, key = given.rows, given.start, given.key
        weights = baselines.unsafe_point_estimate(site, rows, start, key, epochs=shape.epochs)
        noise = jnp.mean((rows["y"] - site.forward(weights, rows["X"])) ** 2)
        mean = site.forward(weights, given.X)
        return Prediction(mean, jnp.full_like(mean, noise))

    return fit


_NETWORKS: dict[str, Callable[[_Shape], _Fit]] = {
    "vi": _vi,
    "ep": partial(_in_batches, dpsep.ep_in_batches),
    "sep": _sep,
    "clipped-sep": partial(_sep, clipped=True),
    "adf": partial(_in_batches, dpsep.adf_in_batches),
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
    clip_norm, spent = float(split.X.shape[1] + 2), split.releases
    line = baselines.private_line(
        split.X, split.y, budget, clip_norm=clip_norm, others=spent, insecure_seed=seed
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
