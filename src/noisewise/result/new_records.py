"""Predictions for new records: means or outcomes, with intervals that include the privacy noise.

Nothing here opens a protected table. What is predicted follows from released draws and from the new
records, which are the caller's: a prediction says as much about its record as the record itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError, fraction, listed, one_of
from noisewise.data import Column, Encoder, Rows, Schema, open_columns, record_count
from noisewise.models import BoundModel, Target, bind_model
from noisewise.result.prediction import network_outputs

if TYPE_CHECKING:
    import pandas

    from noisewise.result.result import Result

KINDS = ("mean", "outcome")
_CHUNK_FLOATS = 2**22
"""Draws x records x levels that are held at a time: 16 MiB."""


class _Records(NamedTuple):
    """New records as a model wants them, and which column it explains."""

    rows: Rows
    argument: str
    outcome: Column


def predict(
    result: Result,
    data: Any,
    *,
    model: Callable[..., Any] | str | None,
    kind: str,
    level: float,
    seed: int,
    clamp: bool,
) -> pandas.DataFrame:
    """`Result.predict`.

    Args:
        result: Of a model with one outcome.
        data: The new records.
        model: The fit's, where the result cannot find it by its name.
        kind: One of `KINDS`.
        level: Probability of the intervals.
        seed: Of simulated outcomes.
        clamp: Move values outside the declared bounds to the nearer bound.
    """
    import pandas

    one_of("kind", kind, KINDS)
    fraction("level", level)
    ends = ((1 - level) / 2, (1 + level) / 2)
    index = data.index if isinstance(data, pandas.DataFrame) else None
    if result.request.network is not None:
        return _summary(_network(result, data, kind, seed, clamp), ends, [None], index)
    bound = _bound(result, model)
    records = _new_records(bound, data, clamp)
    names: list[str | None] = [None]
    if records.outcome.kind == "category" and records.outcome.categories is not None:
        levels = [str(name) for name in records.outcome.categories]
        names = [*levels] if len(levels) > 2 else [None]
    if kind == "outcome" and records.outcome.kind in ("category", "binary"):
        raise NoisewiseError(
            f"kind='outcome' wants an outcome that is a number, and '{records.outcome.name}' is "
            f"{records.outcome.kind}: kind='mean' gives its probabilities"
        )
    return _summary(_values(result, bound, records, kind, seed), ends, names, index)


def _summary(
    parts: Iterator[np.ndarray], ends: tuple[float, float], names: list[str | None], index: Any
) -> pandas.DataFrame:
    """Mean and interval over draws of each record's values (draws x records x levels)."""
    import pandas

    found: dict[Any, list[np.ndarray]] = {}
    for values in parts:
        values = np.asarray(values, float)
        low, high = np.quantile(values, ends, axis=0)
        for word, array in (("mean", values.mean(0)), ("lower", low), ("upper", high)):
            for place, name in enumerate(names):
                key = word if name is None else (name, word)
                found.setdefault(key, []).append(array[:, place])
    order = sorted(found, key=lambda key: names.index(key[0])) if names != [None] else found
    return pandas.DataFrame({key: np.concatenate(found[key]) for key in order}, index=index)


def _bound(result: Result, model: Callable[..., Any] | str | None) -> BoundModel:
    """The result's model on its schema, refused if it has other latents than the result."""
    request = result.request
    if request.target is None:
        raise NoisewiseError(
            f"the model {request.model} explains no one column, so there is nothing to predict: "
            "noisewise.synthesize draws whole records"
        )
    if request.event is not None:
        raise NoisewiseError(
            f"predict says means of one column, and {request.model} explains a time that may be "
            "censored: result.survival(...) gives the chance to be without the event, by time"
        )
    try:
        binding = request.binding(model)
        bound = bind_model(**binding)
        if bound.view.integrating:  # new records are complete
            known = [c.complete if c.how == "integrate" else c for c in request.schema]
            schema = replace(request.schema, columns=tuple(known))
            bound = bind_model(**(binding | {"schema": schema}))
    except NoisewiseError as error:
        if model is not None:
            raise
        raise NoisewiseError(
            f"the result's model {request.model} cannot be found by its name: pass model="
        ) from error
    latents = {site.name for site in bound.target.layout.latents}
    if not latents <= set(result.draws):
        raise NoisewiseError(
            f"the model has the latents {listed(sorted(latents))}, and the result "
            f"{listed(sorted(result.draws))}: pass the model that was fitted"
        )
    return bound


def _new_records(bound: BoundModel, data: Any, clamp: bool) -> _Records:
    """The covariates that the model takes, checked against the schema and encoded as the fit's."""
    view = bound.view
    observed = [argument for argument, _ in bound.target.layout.observed_arguments]
    if len(observed) != 1:
        raise NoisewiseError(
            f"the model {bound.name} generates {listed(sorted(observed))}, and predict takes one "
            "outcome: noisewise.synthesize draws whole records"
        )
    outcome = view.schema[view.source(observed[0])]
    covariates = view.covariates(bound.target.generated)
    arrays = _read(Schema(tuple(view.schema[name] for name in covariates)), data, clamp)
    rng = np.random.default_rng(0)
    for column in view.schema:  # what the model does not look at
        if column.name not in arrays:
            arrays[column.name] = column.complete.simulate(rng, record_count(arrays))
    return _Records(rows=view.encode(arrays), argument=observed[0], outcome=outcome)


def _read(covariates: Schema, data: Any, clamp: bool) -> Rows:
    if not covariates.names:
        raise NoisewiseError("the model takes no covariates: every record has the same prediction")
    return open_columns("the new records", data, covariates, clamp=clamp)


def _values(
    result: Result, bound: BoundModel, records: _Records, kind: str, seed: int
) -> Iterator[np.ndarray]:
    """Every draw's mean, probabilities or outcome (draws x records x levels), some at a time."""
    target = bound.target.rows  # row by row, whoever rows are about
    latents = {
        site.name: jnp.asarray(result.draws[site.name], jnp.float32)
        for site in target.layout.latents
    }
    thetas = target.unconstrain(latents)
    levels = _levels(records.outcome)
    count = record_count(records.rows)
    size = int(np.clip(_CHUNK_FLOATS // (len(thetas) * max(1, levels)), 1, count))
    for start in range(0, count, size):
        # The last chunk is filled up, so that one program serves all.
        places = np.minimum(np.arange(start, start + size), count - 1)
        rows = {name: jnp.asarray(column[places]) for name, column in records.rows.items()}
        if kind == "outcome":
            key = jax.random.fold_in(jax.random.PRNGKey(seed), start)
            found = _outcomes(target, records.argument, key, thetas, rows)
        else:
            found = _means(target, records.argument, levels, thetas, rows)
        yield np.asarray(found)[:, : count - start]


def _levels(outcome: Column) -> int:
    """Levels that get a probability each: 1 of a yes or no, 0 of a number, which gets a mean."""
    if outcome.kind not in ("category", "binary"):
        return 0
    levels = len(outcome.categories or ("no", "yes"))
    return 1 if levels == 2 else levels


@partial(jax.jit, static_argnums=(0, 1, 2))
def _means(target: Target, argument: str, levels: int, thetas: Array, rows: Rows) -> Array:
    site = dict(target.layout.observed_arguments)[argument]

    def one(theta: Array) -> Array:
        told = target.sites(theta, rows)[site]["fn"]
        if levels == 0:
            return jnp.asarray(told.mean)[:, None]
        shape = rows[argument].shape
        asked = [1] if levels == 1 else range(levels)
        chances = [told.log_prob(jnp.full(shape, k, rows[argument].dtype)) for k in asked]
        return jnp.exp(jnp.stack(chances, axis=-1))

    return jax.lax.map(one, thetas, batch_size=64)


@partial(jax.jit, static_argnums=(0, 1))
def _outcomes(target: Target, argument: str, key: Array, thetas: Array, rows: Rows) -> Array:
    def one(pair: tuple[Array, Array]) -> Array:
        return target.simulate(pair[0], pair[1], rows)[argument].astype(jnp.float32)[:, None]

    return jax.lax.map(one, (jax.random.split(key, len(thetas)), thetas), batch_size=64)


def _network(result: Result, data: Any, kind: str, seed: int, clamp: bool) -> Iterator[np.ndarray]:
    """A network's outputs (draws x records x 1), with its own noise where outcomes are wanted."""
    request = result.request
    encoder = Encoder(request.schema, request.target, request.features)
    arrays = _read(Schema(tuple(request.schema[name] for name in encoder.features)), data, clamp)
    if request.target is not None:
        column = request.schema[request.target].complete
        arrays[request.target] = column.simulate(np.random.default_rng(0), record_count(arrays))
    encoded = np.asarray(encoder.encode(arrays)["X"])[:, 1:]
    rng = np.random.default_rng(seed)
    for said in network_outputs(result, encoded):
        sd = np.asarray(result.draws["noise"]) if kind == "outcome" else 0.0
        yield (said + sd * rng.normal(size=said.shape)).T[:, :, None]
