"""A target whose records may lack covariates, which are integrated out under their declaration.

A record has its design row once for every value that the missing cells may have, and the
probability of each; its likelihood is their mean. A complete record has one of probability one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from noisewise._validate import NoisewiseError
from noisewise.data import WEIGHT, Rows
from noisewise.models.target import Target
from noisewise.models.wrapped import WrappedTarget

NODES = "(nodes)"
"""A column that rows hold beside ``X``, which has an axis of nodes: their probabilities."""


@dataclass(frozen=True)
class IntegratedTarget(WrappedTarget):
    """A model of complete records as one of records with gaps."""

    def log_likelihood(self, theta: Array, record: Rows) -> Array:
        """log p(what is known of a record | theta), times its weight, where it has one."""
        known = {name: record[name] for name in record if name not in ("X", NODES, WEIGHT)}
        weight = record.get(WEIGHT)
        if weight is not None:
            theta = jnp.where(weight > 0, theta, jax.lax.stop_gradient(theta))
        each = jax.vmap(lambda row: self.inner.log_likelihood(theta, known | {"X": row}))
        found = logsumexp(each(record["X"]), b=record[NODES])
        return found if weight is None else jnp.where(weight > 0, weight * found, 0.0)

    def simulate(self, key: Array, theta: Array, rows: Rows) -> Rows:
        """See `Target.simulate`: missing covariates are drawn, and stay missing."""
        key_node, key_rows = jax.random.split(key)
        node = jax.random.categorical(key_node, jnp.log(rows[NODES]), axis=-1)
        picked = jnp.take_along_axis(rows["X"], node[:, None, None], axis=1)[:, 0]
        complete = {name: rows[name] for name in rows if name != NODES} | {"X": picked}
        return rows | {
            argument: self.inner.simulate(key_rows, theta, complete)[argument]
            for argument, _ in self.layout.observed_arguments
        }

    def sites(self, theta: Array, rows: Rows) -> dict[str, Any]:
        """There is none: a record with gaps has no one value at each site."""
        raise NoisewiseError(
            "a model that integrates out missing covariates has no distribution of a record's "
            "outcome in closed form: declare how = 'indicator'"
        )


def integrated(target: Target) -> Target:
    """The target of records with gaps.

    Args:
        target: Of complete ones.
    """
    return IntegratedTarget(target.model, target.layout, target.example, target)


def complete_rows(rows: Rows) -> Rows:
    """Rows as the inner model takes them: the first of the nodes.

    Args:
        rows: Simulated ones.
    """
    if NODES not in rows:
        return rows
    return {name: rows[name] for name in rows if name != NODES} | {"X": rows["X"][:, 0]}
