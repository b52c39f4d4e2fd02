"""What a model says of a record's outcome: how much probability lies below it, and what it expects.

An outcome's interval is from the probability of less than it to that of no more than it, at fixed
parameters. Under those parameters a continuous outcome's interval is a point, uniform on [0, 1]; a
discrete one's has that width which makes a point drawn from it uniform; and that of a time without
an event reaches from what was survived up to 1. So, whatever a record's covariates are, mass spread
evenly over its interval is uniform in expectation: the non-randomised probability integral
transform of Czado, Gneiting and Held (2009). It follows from the record alone, as a sum that one
record can move by a known amount only must.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import Rows
from noisewise.models import BoundModel, Target
from noisewise.models.families.survival import CensoredTimes

_MOST_SUMMED = 4096
"""Counts whose probabilities are summed one by one, where a distribution has no closed form."""


@dataclass(frozen=True)
class Outcome:
    """The one observed site of a model, and how to read it."""

    target: Target
    site: str
    column: str
    """What it is called: the column's name."""
    most: int
    """The largest value that a count may have; 0 where it is none."""
    counted: bool = False
    """Whether outcomes have probabilities, not densities."""

    def read(self, theta: Array, rows: Rows) -> dict[str, Array]:
        """``lower`` and ``upper`` ends of the records' intervals, and what is ``expected``.

        Args:
            theta: Unconstrained parameters.
            rows: The model's arguments.
        """
        return _read(self, theta, rows)

    def log_probability(self, theta: Array, rows: Rows) -> Array:
        """Of every record's outcome; a density where it is no count.

        Args:
            theta: Unconstrained parameters.
            rows: The model's arguments.
        """
        found = self.target.sites(theta, rows)[self.site]
        return jnp.asarray(_unwrapped(found["fn"]).log_prob(found["value"]))


def outcome_of(bound: BoundModel) -> Outcome:
    """The model's outcome, or a line that says why it cannot be checked.

    Args:
        bound: The model.
    """
    bound.require("unique_optimum", "a check", "compare its synthetic tables instead")
    target = bound.target.rows
    layout = target.layout
    if bound.capabilities.site == "network":
        raise NoisewiseError(
            "a network's result cannot be checked: its weights have no posterior covariance that "
            "means anything; check a regression of the same columns"
        )
    if len(layout.observed) != 1:
        raise NoisewiseError(
            f"model '{bound.name}' observes {len(layout.observed)} sites, and a check is of one "
            "outcome"
        )
    arguments = {site: argument for argument, site in layout.observed_arguments}
    (site,) = layout.observed
    if site not in arguments:
        raise NoisewiseError(
            f"model '{bound.name}' changes the outcome on its way to obs=: hand the column itself "
            "to obs=, so that records can be simulated"
        )
    argument = arguments[site]
    bounds = bound.view.bounds(argument)
    counted = bound.view.kind(argument) == "count" and bounds is not None
    most = int(bounds[1]) if counted and bounds is not None else 0
    found = Outcome(target, site, bound.view.source(argument), most)
    rows = bound.view.simulate_rows(np.random.default_rng(0), 4)
    theta = target.sample_prior(jax.random.PRNGKey(0), 1)[0]
    rows = {name: jnp.asarray(column) for name, column in rows.items()}
    read = found.read(theta, rows)
    if any(np.shape(part) != (4,) for part in read.values()):
        raise NoisewiseError(
            f"model '{bound.name}' has more than one number an outcome: a check takes one"
        )
    function = target.sites(theta, rows)[site]["fn"]
    return replace(found, counted=bool(_unwrapped(function).is_discrete))


@partial(jax.jit, static_argnums=0)
def _read(outcome: Outcome, theta: Array, rows: Rows) -> dict[str, Array]:
    found = outcome.target.sites(theta, rows)[outcome.site]
    function, value = _unwrapped(found["fn"]), found["value"]
    lower, upper = _interval(function, value, outcome.most)
    expected = _expected(function)
    return {"lower": lower, "upper": upper, "expected": jnp.broadcast_to(expected, lower.shape)}


def _unwrapped(function: Any) -> Any:
    while isinstance(function, dist.ExpandedDistribution):
        function = function.base_dist
    return function


def _interval(function: Any, value: Array, most: int) -> tuple[Array, Array]:
    """The probability of less, and of no more."""
    if isinstance(function, CensoredTimes):
        reached = -jnp.expm1(-function.hazards(value[..., 0])[1])
        return reached, jnp.where(value[..., 1] > 0, reached, 1.0)
    if function.event_shape != ():
        raise NoisewiseError(
            f"the outcome's distribution {_name(function)} has more than one number a record: a "
            "check takes one"
        )
    listed = _listed(function)
    if listed is not None:
        values, chances = listed
        below = jnp.where(values < value, chances, 0.0).sum(0)
        return below, below + jnp.where(values == value, chances, 0.0).sum(0)
    if not function.is_discrete:
        point = _distribution_function(function, value)
        return point, point
    try:
        below = jnp.where(value > 0, _distribution_function(function, value - 1), 0.0)
        return below, _distribution_function(function, value)
    except NoisewiseError:
        if not 0 < most <= _MOST_SUMMED:
            raise
    return _summed(function, value, most)


def _distribution_function(function: Any, value: Array) -> Array:
    """The probability of no more than the value."""
    try:
        return jnp.clip(jnp.asarray(function.cdf(value)), 0.0, 1.0)
    except NotImplementedError:
        raise NoisewiseError(
            f"the outcome's distribution {_name(function)} has no cdf, from which residuals are "
            "made: give the class one, or use a distribution that has it"
        ) from None


def _listed(function: Any) -> tuple[Array, Array] | None:
    """All values of a distribution that has few, and their probabilities (values x records)."""
    if not (function.is_discrete and function.has_enumerate_support):
        return None
    try:
        values = function.enumerate_support(expand=False)
    except NotImplementedError:
        return None
    return values, jnp.exp(function.log_prob(values))


def _summed(function: Any, value: Array, most: int) -> tuple[Array, Array]:
    """Probabilities of counts, one after the other."""

    def add(count: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        chance = jnp.exp(function.log_prob(jnp.full_like(value, count)))
        below, upto = sums
        return below + jnp.where(count < value, chance, 0.0), upto + jnp.where(
            count <= value, chance, 0.0
        )

    nothing = jnp.zeros(jnp.shape(value), jnp.float32)
    return jax.lax.fori_loop(0, most + 1, add, (nothing, nothing))


def _expected(function: Any) -> Array:
    """What predictions are ordered by: the mean; of times, the risk by the end of follow-up."""
    if isinstance(function, CensoredTimes):
        end = jnp.full(function.batch_shape, function.follow_up)
        return -jnp.expm1(-function.hazards(end)[1])
    listed = _listed(function)
    if listed is not None:
        values, chances = listed
        return (values * chances).sum(0)
    try:
        return jnp.asarray(function.mean, jnp.float32)
    except NotImplementedError:
        raise NoisewiseError(
            f"the outcome's distribution {_name(function)} has no mean to order predictions by: "
            "give the class one"
        ) from None


def _name(function: Any) -> str:
    return type(function).__name__
