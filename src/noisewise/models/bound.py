"""A model bound to a schema: everything that plans, fits and simulations need to know of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import PublicSample, Rows, Schema, is_formula
from noisewise.models.binding import bind
from noisewise.models.build import build_target
from noisewise.models.centring import centred
from noisewise.models.formulas import Priors, formula_model
from noisewise.models.inspection import ModelError
from noisewise.models.integrated import complete_rows, integrated
from noisewise.models.named import named_model
from noisewise.models.ready_made import (
    Capabilities,
    ReadyMade,
    TargetNames,
    capabilities_of,
    model_name,
)
from noisewise.models.row_view import RowView
from noisewise.models.target import Target
from noisewise.models.units import of_units

_ROWS = 256
"""Simulated, to see what a likelihood depends on."""
_NEEDS = {
    "unique_optimum": "a unique optimum",
    "ordered_latents": "latents that mean the same in every fit",
    "averaged_posterior": "a posterior that averaging can find",
    "site": "a site of the model",
}


_LOOKED_AT, _POINTS = 500, 4
_STARTED: list[int] = []
"""The process that looked at a model first, and with it started JAX."""


def refuse_after_fork() -> None:
    """Refuse to compute in a fork of a process that has computed: JAX's threads are not in it."""
    here = os.getpid()
    if not _STARTED:
        _STARTED.append(here)
    if _STARTED[0] != here:
        raise NoisewiseError(
            "this process was forked from one that has fitted or planned already, and JAX would "
            "hang in it: start processes with multiprocessing's 'spawn' method, or by joblib's loky"
        )


@dataclass(frozen=True, eq=False)
class BoundModel:
    """A model, how a table's columns become its arguments, and what it can do."""

    model: Callable[..., Any]
    view: RowView
    capabilities: Capabilities
    share_noise: float = 0.0
    """Noise of a share of people, where simulated covariates come from a noisy description."""

    @cached_property
    def target(self) -> Target:
        """Densities and gradients, found on a few simulated rows."""
        found = build_target(self.model, self._complete_rows(0, 4))
        if self.view.encoder is not None and "y" in set(self.view.arguments) - found.generated:
            raise ModelError(
                "the model changes y on its way to obs=, so that it cannot generate it: hand y "
                "itself to obs=, and put what was done to it into the distribution or the schema"
            )
        found = centred(found, self._complete_rows(1, _ROWS))
        found = integrated(found) if self.view.integrating else found
        unit = self.view.schema.unit
        if unit is None:
            return found
        made = self.model.of_units if isinstance(self.model, ReadyMade) else of_units
        return made(found, unit.max_rows)

    def _complete_rows(self, seed: int, count: int) -> Rows:
        """A few simulated rows as the model takes them."""
        return complete_rows(self.view.simulate_rows(np.random.default_rng(seed), count))

    @property
    def width(self) -> int:
        """Numbers that an encoded record has."""
        return self.target.record_width

    @cached_property
    def silent_share(self) -> float:
        """Share of simulated records whose gradient is not a number, wherever the parameters are:
        such a record contributes nothing to a fit. Ready-made models have none."""
        if isinstance(self.model, ReadyMade):
            return 0.0
        rows = self.view.simulate(np.random.default_rng(1), _LOOKED_AT)
        return float(np.mean(~_counted(self.target, {n: np.asarray(c) for n, c in rows.items()})))

    @property
    def name(self) -> str:
        """As files and reports call it."""
        return model_name(self.model)

    @property
    def formula(self) -> str | None:
        """What it was made from, where that was a formula."""
        return None if self.view.encoder is None else self.view.encoder.formula

    @property
    def prior_words(self) -> tuple[str, ...]:
        """Priors of a ready-made model, a line each."""
        if not isinstance(self.model, ReadyMade):
            return ()
        return self.model.prior_words(self.view.feature_names)

    @property
    def coordinates(self) -> dict[str, list[str]]:
        """Names along the last axis of latents that have them."""
        if not isinstance(self.model, ReadyMade):
            return {}
        return self.model.coordinates(self.view.feature_names)

    @property
    def labels(self) -> list[str]:
        """A name for each unconstrained coordinate: that of the column behind it, where there is
        one (``sex=male``), else the latent's with its place (``w[3]``)."""
        plain = self.target.labels
        found = list(plain)
        for site in self.target.layout.latents:
            names = self.coordinates.get(site.name, [])
            if site.unconstrained_shape == (len(names),):
                found[self.target.layout.places[site.name]] = names
        twice = {label for label in found if found.count(label) > 1}
        return [own if label in twice else label for label, own in zip(found, plain, strict=True)]

    @property
    def simulable(self) -> bool:
        """Whether simulated records are like real ones, up to the model: it takes no covariates,
        or all of them come from a public sample."""
        return self.view.covers(self.target.generated)

    @property
    def weighted(self) -> bool:
        """Whether records have survey weights."""
        return self.view.schema.weight is not None

    @property
    def approximate(self) -> bool:
        """Whether simulated covariates are like the data's only as far as a noisy description of
        them says: what depends on more than that must not be trusted."""
        return self.share_noise > 0

    def with_covariates(
        self, columns: Rows, *, share_noise: float = 0.0, size_shares: np.ndarray | None = None
    ) -> BoundModel:
        """The same model with simulated covariates taken from these rows, which are public.

        Args:
            columns: The rows.
            share_noise: Sd of the noise in a share of people, if the rows are simulated from a
                noisy description of the data's.
            size_shares: Shares of units with 1, 2, ... rows, where that was bought as well.
        """
        view = replace(self.view, sample=columns or None, size_shares=size_shares)
        found = replace(self, view=view, share_noise=share_noise)
        found.__dict__["target"] = self.target  # the model is the same: nothing to look at again
        return found

    def require_rows(self, purpose: str) -> None:
        """Refuse, in one line, what does not know units of several rows yet.

        Args:
            purpose: What was asked for.
        """
        unit = self.view.schema.unit
        if unit is not None:
            raise NoisewiseError(
                f"{purpose} protects single rows only, and the schema declares a [unit], "
                f"{unit.column}: fit a regression or a NumPyro model with method='dpvi'"
            )

    def require(self, capability: str, purpose: str, instead: str) -> None:
        """Refuse, in one line, what the model cannot do.

        >>> from noisewise.data import Column
        >>> column = Column(name="ward", kind="category", categories=("a", "b"))
        >>> bound = bind_model("mixture", Schema((column,)))
        >>> bound.require("ordered_latents", "coverage", "look at downstream estimates")
        Traceback (most recent call last):
            ...
        noisewise._validate.NoisewiseError: coverage needs latents that mean the same in every \
fit, and a mixture has one optimum for every order of its components: look at downstream estimates
        """
        if not getattr(self.capabilities, capability):
            because = self.capabilities.because or f"the model {self.name} has none"
            raise NoisewiseError(f"{purpose} needs {_NEEDS[capability]}, and {because}: {instead}")


@partial(jax.jit, static_argnums=0)
def _counted(target: Target, rows: Rows) -> jax.Array:
    """Which records have a finite gradient at one of a few prior draws at least."""
    thetas = target.sample_prior(jax.random.PRNGKey(0), _POINTS)
    gradient = jax.vmap(jax.grad(target.log_likelihood), (None, 0))
    found = jax.vmap(gradient, (0, None))(thetas, rows)
    return jnp.isfinite(found).all(-1).any(0)


def _with_outcomes(bound: BoundModel) -> BoundModel:
    """The model that knows which missing cells silence a record: those of what it generates."""
    view = bound.view
    if view.keeps_gaps or not any(column.gaps for column in view.schema):
        return bound
    sources = [view.source(name) for name in view.arguments if name in bound.target.generated]
    sources += [view.event] if view.event is not None else []
    features = () if view.encoder is None else view.encoder.features
    taken = {*features, *map(view.source, view.arguments)} - set(sources)
    for column in view.schema:
        if column.how == "integrate" and column.name in taken - set(view.integrating):
            raise NoisewiseError(
                f"column '{column.name}' is declared how = 'integrate', which needs a mixture, or "
                "a model that takes it in the design matrix X, without a formula: declare "
                "how = 'indicator'"
            )
    found = replace(bound, view=replace(view, outcomes=tuple(sources)))
    found.__dict__["target"] = bound.target
    return found


def bind_model(
    model: Callable[..., Any] | str,
    schema: Schema,
    target: TargetNames = None,
    features: list[str] | None = None,
    public_sample: PublicSample | None = None,
    *,
    family: str | None = None,
    priors: Priors | None = None,
) -> BoundModel:
    """Find a model by name, match its arguments with the schema's columns, and look at it.

    Args:
        model: A NumPyro model, the name of a ready-made one, ``"path/to/model.py:function"``, or a
            formula such as ``"visits ~ age * sex"``, which names target and features itself.
        schema: What is publicly known of the table.
        target: The column that is ``y`` to the model; of a survival model a time and an event.
        features: The columns that make up ``X``; None is all but the target.
        public_sample: Rows of other people, from which simulated rows take their covariates.
        family: Of a formula: see `formula_model`.
        priors: Of a formula's coefficients, by name.
    """
    refuse_after_fork()
    found: Callable[..., Any]
    if isinstance(model, str) and is_formula(model):
        if target is not None or features is not None:
            raise NoisewiseError(
                "a formula names the target and the features itself: leave out target and features"
            )
        found, view = formula_model(model, schema, family, priors)
    else:
        if family is not None or priors is not None:
            raise NoisewiseError(
                "family and priors go with a formula, such as model='visits ~ age': leave them out"
            )
        found = named_model(model, schema, target, features)
        view = bind(found, schema, target, features)
    if public_sample is not None:
        if not isinstance(public_sample, PublicSample):
            raise NoisewiseError(
                "public_sample must be a noisewise.PublicSample, got "
                f"{type(public_sample).__name__}: wrap rows that are public in one; a Table's are "
                "not"
            )
        view = replace(view, sample=public_sample.columns)
    bound = BoundModel(found, view, capabilities_of(found))
    if not bound.capabilities.averaged_posterior or not bound.capabilities.unique_optimum:
        bound.require_rows(f"the model {bound.name}")  # networks and mixtures
    return _with_outcomes(bound)
