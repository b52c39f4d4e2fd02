"""The mixture's gradients in closed form.

Shares live on simplexes, which NumPyro frees by breaking sticks: with z_i = sigmoid(x_i - log(L - 1
- i)), i from 0 to L - 2, the share of level l is z_l times all 1 - z_i before it. So the derivative
of a level's log share is 1[i = l] - z_i 1[i <= l], and a record's gradient is that, times the
probability of each component given the record.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Rows
from noisewise.models.frame import Frame
from noisewise.models.mixture import COUNT_SHAPE, Feature, Mixture
from noisewise.models.target import Target, weighted, weights_of


class _Parts(NamedTuple):
    """A flat vector of unconstrained latents, taken apart."""

    weights: Array
    """K - 1 stick fractions, as logits."""
    shares: tuple[Array, ...]
    """K x (levels - 1) logits for every category column."""
    log_rates: tuple[Array, ...]
    """K for every count."""
    coefficients: Array


@dataclass(frozen=True)
class MixtureTarget(Target):
    """A `Mixture` with closed-form gradients, equal to the generic ones to float accuracy."""

    model: Mixture

    @cached_property
    def _categories(self) -> tuple[Feature, ...]:
        return tuple(feature for feature in self.model.features if feature.levels)

    @cached_property
    def _counts(self) -> tuple[Feature, ...]:
        return tuple(feature for feature in self.model.features if not feature.levels)

    def prepare(self, rows: Rows, frame: Frame) -> Rows:
        """Every record in one row of numbers, so that a step gathers once.

        Per category column 1[l = i] and then 1[l > i] for its free levels i; counts; the design
        matrix and the target.
        """
        columns = {name: jnp.asarray(column) for name, column in rows.items()}
        levels = [(columns[f.name][:, None], jnp.arange(f.levels - 1)) for f in self._categories]
        parts = [code == free for code, free in levels] + [code > free for code, free in levels]
        parts += [columns[feature.name][:, None] for feature in self._counts]
        if self.model.target is not None:
            parts.append(self.model.design_matrix([columns[f.name] for f in self.model.features]))
            parts.append(columns[self.model.target][:, None])
        records = jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=1)
        return {"records": records} | weights_of(rows)

    def record_moments(
        self, frame: Frame, points: Array, base_normals: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """See `Target.record_moments`."""
        each = jax.vmap(self._gradients, (0, None))(frame.to_model(points), batch["records"])
        gradients = frame.gradient(each)
        mean, scale = gradients.mean(0), (gradients * base_normals[:, None]).mean(0)
        mean, scale = weighted(batch, mean, scale)
        return mean, scale

    def prior_moments(
        self, frame: Frame, points: Array, base_normals: Array
    ) -> tuple[Array, Array]:
        """See `Target.prior_moments`.

        Dirichlet(1) is flat, so a simplex only has its bijector's determinant: x_i gets
        1 - (L - i) z_i from it, which is zero where all levels are equal.
        """
        gradients = jax.vmap(self._prior_gradient)(frame.to_model(points))
        gradients = frame.gradient(gradients)
        return gradients.mean(0), (gradients * base_normals).mean(0)

    def simulate(self, key: Array, theta: Array, rows: Rows) -> Rows:
        """See `Target.simulate`; cells that are missing in the rows stay so."""
        found = super().simulate(key, theta, rows)
        gaps = [feature.name for feature in self.model.features if feature.gaps]
        if self.model.target is not None and self.model.target_gaps:
            gaps.append(self.model.target)
        return found | {n: jnp.where(rows[n] < 0, rows[n], found[n]) for n in gaps}

    def judged_together(self) -> dict[str, np.ndarray]:
        """The regression, and all components: which of them is which is not decided."""
        first = self.dim - len(self.model.design)
        groups = {"components": np.arange(first)}
        if self.model.target is not None:
            groups = {"regression": np.arange(first, self.dim), **groups}
        return groups

    def _parts(self, theta: Array) -> _Parts:
        split = self._split(theta)
        shares = tuple(_sticks(split[f"{f.name}_shares"]) for f in self._categories)
        rates = tuple(split[f"{f.name}_rate"] for f in self._counts)
        nothing = jnp.zeros(0)
        return _Parts(_sticks(split["weights"]), shares, rates, split.get("coefficients", nothing))

    def _join(self, parts: _Parts) -> Array:
        """Back into the flat order, on the last axis; arrays may have an axis of records first."""
        lead = parts.weights.shape[:-1]
        shares, rates = iter(parts.shares), iter(parts.log_rates)
        columns = [next(shares if f.levels else rates) for f in self.model.features]
        every = [parts.weights, *columns, parts.coefficients]
        return jnp.concatenate([part.reshape(*lead, -1) for part in every], axis=-1)

    def _gradients(self, theta: Array, records: Array) -> Array:
        """Minus the gradient of every record's log-likelihood: records x coordinates."""
        parts = self._parts(theta)
        free = [feature.levels - 1 for feature in self._categories]
        width, counts = sum(free), len(self._counts)
        here, beyond = records[:, :width], records[:, width : 2 * width]
        number = records[:, 2 * width : 2 * width + counts]
        share = self._responsibilities(parts, here, beyond, number)
        stick = jax.nn.sigmoid(parts.weights)
        # Of all components from this one on: what is left of the stick when this one is broken.
        left = jnp.cumsum(share[:, ::-1], axis=1)[:, ::-1]
        weights = share[:, :-1] - stick * left[:, :-1]
        reached = here + beyond
        starts = np.cumsum([0, *free])
        columns = [slice(start, start + count) for start, count in zip(starts, free, strict=False)]
        shares = tuple(
            share[:, :, None]
            * (here[:, None, place] - jax.nn.sigmoid(logits) * reached[:, None, place])
            for logits, place in zip(parts.shares, columns, strict=True)
        )
        known = jnp.where(number >= 0, 1.0, 0.0)
        rates = tuple(
            share
            * (number[:, place, None] - jnp.exp(log_rate))
            * (known[:, place, None] if self._counts[place].gaps else 1.0)
            for place, log_rate in enumerate(parts.log_rates)
        )
        coefficients = self._response_gradient(parts, records[:, 2 * width + counts :])
        return -self._join(_Parts(weights, shares, rates, coefficients))

    def _responsibilities(self, parts: _Parts, here: Array, beyond: Array, number: Array) -> Array:
        """Probability of each component given what is known of the record: records x components.

        A missing category has no 1 in ``here`` and ``beyond``, and so says nothing by itself.
        """
        fractions, rest = (jax.nn.log_sigmoid(parts.weights), jax.nn.log_sigmoid(-parts.weights))
        zero = jnp.zeros(1)
        score = jnp.concatenate([fractions, zero]) + jnp.concatenate([zero, jnp.cumsum(rest)])
        if parts.shares:
            logits = jnp.concatenate(parts.shares, axis=1)
            tables = jnp.concatenate([jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)], 1)
            score = score + jnp.concatenate([here, beyond], axis=1) @ tables.T
        for place, log_rate in enumerate(parts.log_rates):
            column = number[:, place, None]
            told = column * log_rate - jnp.exp(log_rate)
            gaps = self._counts[place].gaps
            score = score + (jnp.where(column >= 0, told, 0.0) if gaps else told)
        return jax.nn.softmax(jnp.broadcast_to(score, (len(here), score.shape[-1])), axis=1)

    def _response_gradient(self, parts: _Parts, regression: Array) -> Array:
        if self.model.target is None:
            return jnp.zeros((len(regression), 0))
        design, outcome = regression[:, :-1], regression[:, -1:]
        predictor = (design @ parts.coefficients)[:, None]
        logistic = self.model.response == "logistic"
        mean = jax.nn.sigmoid(predictor) if logistic else jnp.exp(predictor)
        residual = outcome - mean
        if self.model.target_gaps:
            residual = jnp.where(outcome >= 0, residual, 0.0)
        return residual * design

    def _prior_gradient(self, theta: Array) -> Array:
        """Minus the gradient of the log prior."""
        parts = self._parts(theta)
        rates = tuple(
            COUNT_SHAPE - COUNT_SHAPE / feature.mean * jnp.exp(log_rate)
            for feature, log_rate in zip(self._counts, parts.log_rates, strict=True)
        )
        simplexes = tuple(_determinant_slope(logits) for logits in parts.shares)
        weights = _determinant_slope(parts.weights)
        return -self._join(_Parts(weights, simplexes, rates, -parts.coefficients))


def _sticks(free: Array) -> Array:
    """Logits of the stick fractions: at zero, all levels are equally likely."""
    count = free.shape[-1]
    return free - jnp.log(count - jnp.arange(count))


def _determinant_slope(logits: Array) -> Array:
    count = logits.shape[-1]
    return 1 - (count + 1 - jnp.arange(count)) * jax.nn.sigmoid(logits)
