"""Mixture of categorical products with a regression on top: a model of whole records.

DPVIm eqs. 24 and 25, priors of App. G.1. A record belongs to one of K components; within
it the columns are independent. Which one is summed out column by column: given the columns before,
a column is a mixture of the components' own distributions with the weights that those columns
leave. That is the chain rule for eq. 24, so the model scores and generates whole records without
a discrete latent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from noisewise._validate import NoisewiseError, integer_at_least, one_of
from noisewise.data import Column, Encoder, Schema
from noisewise.models.ready_made import Capabilities, ReadyMade, TargetNames, single_target

RESPONSES = ("poisson", "logistic")
COUNT_SHAPE = 2.0
"""Shape of the Gamma prior of a count's rate: its mean is the declared one, its sd 0.7 of that."""
_TEXT = re.compile(r"mixture(?:\((?:components=)?(\d+)(?:, ?(?:response=)?(\w+))?\))?")


class Feature(NamedTuple):
    """A column that the components generate."""

    name: str
    levels: int
    """Number of categories; 0 for a count."""
    mean: float = 1.0
    """Of the prior of a count's rate."""
    centre: float = 0.0
    scale: float = 1.0
    """How a count enters the regression: (count - centre) / scale."""
    gaps: bool = False
    """Whether cells may be missing, with the code -1: they are integrated out."""


@dataclass(frozen=True)
class Mixture(ReadyMade):
    """An ordinary NumPyro model of all columns of a table: call it with the columns by name.

    Weights of the components ~ Dirichlet(1); in every component, shares of a column's categories ~
    Dirichlet(1), rate of a count ~ Gamma around its declared mean. The target, if there is one, is
    regressed on all the others, by log rates (``poisson``) or log odds (``logistic``), with
    coefficients ~ Normal(0, 1) as the schema's `Encoder` lays them out, intercept first.

    `mixture` makes one for any table; fitting it to one fills in the columns. Missing cells are
    integrated out exactly: a record's likelihood is that of what is known of it.
    """

    components: int = 16
    response: str | None = None
    """``poisson`` or ``logistic``; None is ``poisson`` for a count and ``logistic`` for binary."""
    features: tuple[Feature, ...] = ()
    target: str | None = None
    target_gaps: bool = False
    """Whether the target's cells may be missing."""
    design: tuple[str, ...] = ()
    """Names of the coefficients."""

    capabilities = Capabilities(
        closed_form_gradients=True,
        integrates_gaps=True,
        unique_optimum=False,
        ordered_latents=False,
        because="a mixture has one optimum for every order of its components",
    )

    def __post_init__(self) -> None:
        integer_at_least("components", self.components, 2)
        if self.response is not None:
            one_of("response", self.response, RESPONSES)

    def columns(self) -> tuple[str, ...]:
        """The columns that it takes and generates, in the order in which it generates them."""
        names = tuple(feature.name for feature in self.features)
        return names if self.target is None else (*names, self.target)

    def of(self, schema: Schema, target: TargetNames, features: list[str] | None = None) -> Mixture:
        """The same mixture for the columns of this schema (or the ``features`` listed)."""
        target = single_target(target)
        encoder = Encoder(schema, target, features)
        scales = {each["column"]: each for each in encoder.describe() if "missing" not in each}
        _check_gaps([schema[name] for name in encoder.features], target)
        columns = tuple(
            _feature(schema[name], scales[name]["centre"], scales[name]["scale"])
            for name in encoder.features
        )
        if not columns:
            raise NoisewiseError(
                "a mixture generates the columns besides the target, and none are left: name some "
                "in features=, or declare more"
            )
        response = None if target is None else _response(schema[target], self.response)
        design = () if target is None else tuple(encoder.names)
        return replace(
            self,
            response=response,
            features=columns,
            target=target,
            target_gaps=target is not None and schema[target].gaps,
            design=design,
        )

    def coordinates(self, features: list[str] | None) -> dict[str, list[str]]:
        """The regression's coefficients."""
        return {"coefficients": list(self.design)} if self.design else {}

    def __call__(self, **columns: Any) -> None:
        if not self.features:
            raise NoisewiseError("this mixture knows no columns yet: fit it, or call of(schema)")
        count = self.components
        weights = numpyro.sample("weights", _FlatDirichlet(jnp.ones(count)))
        latents = [_sample_feature(feature, count) for feature in self.features]
        coefficients = None
        if self.target is not None:
            prior = dist.Normal(0, 1).expand([len(self.design)]).to_event(1)
            coefficients = numpyro.sample("coefficients", prior)
        rows = len(columns[self.features[0].name])
        with numpyro.plate("records", rows):
            log_weights, seen = jnp.broadcast_to(jnp.log(weights), (rows, count)), []
            for feature, latent in zip(self.features, latents, strict=True):
                column = columns.get(feature.name)
                marginal = _marginal(feature, log_weights, latent)
                marginal = _of_known_cells(marginal, feature.gaps, column)
                value = numpyro.sample(f"record:{feature.name}", marginal, obs=column)
                log_weights = _weights_after(feature.levels, log_weights, latent, value)
                seen.append(value)
            if self.target is not None:
                predictor = self.design_matrix(seen) @ coefficients
                column = columns.get(self.target)
                outcome = _of_known_cells(self._likelihood(predictor), self.target_gaps, column)
                numpyro.sample(f"record:{self.target}", outcome, obs=column)

    @partial(jax.jit, static_argnums=0)
    def design_matrix(self, columns: list[Any]) -> jax.Array:
        """Records as the regression sees them: ones, 0/1 for all categories but the first, counts
        scaled; the same as the schema's `Encoder` makes."""
        parts = [jnp.ones((len(columns[0]), 1))]
        for feature, column in zip(self.features, columns, strict=True):
            if feature.levels:
                parts.append(column[:, None] == jnp.arange(1, feature.levels))
            else:
                parts.append((column[:, None] - feature.centre) / feature.scale)
        return jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=1)

    def _likelihood(self, predictor: Any) -> dist.Distribution:
        if self.response == "logistic":
            return dist.Bernoulli(logits=predictor)
        return dist.Poisson(jnp.exp(predictor))

    def __str__(self) -> str:
        """As the command line takes it, and as results remember it."""
        if self.response is None and self.components == 16:
            return "mixture"
        response = "" if self.response is None else f", response={self.response}"
        return f"mixture(components={self.components}{response})"


def mixture(components: int = 16, response: str | None = None) -> Mixture:
    """A mixture of so many components for whatever table it is fitted to.

    Args:
        components: How many.
        response: ``poisson`` or ``logistic``; None is as the target asks for.

    >>> str(mixture(components=8))
    'mixture(components=8)'
    """
    return Mixture(components, response)


def mixture_from_text(text: str) -> Mixture | None:
    """The mixture that a text names, such as ``mixture`` or ``mixture(8)``; None if it names none.

    >>> mixture_from_text("mixture(components=8, response=poisson)") == mixture(8, "poisson")
    True
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    components, response = found.groups()
    return Mixture(int(components or 16), response)


class _FlatDirichlet(dist.Dirichlet):
    """Dirichlet(1), drawn as exponentials over their sum: gamma draws take long to compile."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        shape = (*sample_shape, *self.batch_shape, *self.event_shape)
        return _flat_draws(key, shape)


# Looking at a model runs it operation by operation; what is jitted here compiles as one of them.
@partial(jax.jit, static_argnums=1)
def _flat_draws(key: Any, shape: tuple[int, ...]) -> Any:
    drawn = jax.random.exponential(key, shape)
    return drawn / drawn.sum(-1, keepdims=True)


@jax.jit
def _mixed(log_weights: Any, shares: Any) -> Any:
    return jnp.exp(log_weights) @ shares


@partial(jax.jit, static_argnums=0)
def _weights_after(levels: int, log_weights: Any, latent: Any, value: Any) -> Any:
    """Log probabilities of the components once a column is seen, up from those before."""
    known = jnp.maximum(value, 0)
    seen = jnp.log(latent).T[known] if levels else dist.Poisson(latent).log_prob(known[:, None])
    seen = jnp.where(value[:, None] >= 0, seen, 0.0)  # a missing cell says nothing
    return jax.nn.log_softmax(log_weights + seen, axis=1)


def _of_known_cells(distribution: dist.Distribution, gaps: bool, column: Any) -> dist.Distribution:
    """The distribution with no say about missing cells, if there may be any."""
    return distribution.mask(column >= 0) if gaps and column is not None else distribution


def _check_gaps(columns: list[Column], target: str | None) -> None:
    """Gaps are integrated out of the columns that components generate, and of nothing else."""
    for column in columns:
        if column.how == "indicator":
            raise NoisewiseError(
                f"column '{column.name}' is declared how = 'indicator', and a mixture integrates "
                "missing cells out: declare how = 'integrate', or leave how out"
            )
        if column.gaps and target is not None:
            raise NoisewiseError(
                f"column '{column.name}' may have missing cells, and a mixture cannot integrate "
                f"them out of the regression of '{target}' on it: leave target out, so that the "
                "components generate both, or take the column out of the features"
            )


def _feature(column: Column, centre: float, scale: float) -> Feature:
    if column.kind == "real":
        raise NoisewiseError(
            f"column '{column.name}' is real, and a mixture generates categories and counts only: "
            "declare it as a category of ranges, or leave it out with features="
        )
    if column.kind == "count":
        assert column.bounds is not None  # every count has them
        low, high = column.bounds
        mean = column.mean or max((low + high) / 2, 0.5)
        mean, centre, scale = float(mean), float(centre), float(scale)
        return Feature(column.name, 0, mean=mean, centre=centre, scale=scale, gaps=column.gaps)
    levels = len(column.categories or ("no", "yes"))
    return Feature(column.name, levels, gaps=column.gaps)


def _response(column: Column, requested: str | None) -> str:
    if column.kind == "real":
        raise NoisewiseError(
            f"target '{column.name}' is real, and a mixture's regression predicts counts and yes "
            "or no: choose another target, or declare it as a category of ranges without target="
        )
    if column.kind == "count":
        if requested == "logistic":
            raise NoisewiseError(
                f"target '{column.name}' is a count: response must be 'poisson', got 'logistic'"
            )
        return "poisson"
    return requested or "logistic"


def _sample_feature(feature: Feature, components: int) -> Any:
    """Shares of a column's categories (components x levels), or rates of a count."""
    if feature.levels:
        prior = _FlatDirichlet(jnp.ones(feature.levels)).expand([components]).to_event(1)
        return numpyro.sample(f"{feature.name}_shares", prior)
    rate = dist.Gamma(COUNT_SHAPE, COUNT_SHAPE / feature.mean).expand([components]).to_event(1)
    return numpyro.sample(f"{feature.name}_rate", rate)


def _marginal(feature: Feature, log_weights: Any, latent: Any) -> dist.Distribution:
    """A column given the columns before: components by the weights that those leave."""
    if feature.levels:
        return dist.Categorical(probs=_mixed(log_weights, latent))
    return dist.MixtureSameFamily(
        dist.Categorical(logits=log_weights),
        dist.Poisson(jnp.broadcast_to(latent, log_weights.shape)),
    )
