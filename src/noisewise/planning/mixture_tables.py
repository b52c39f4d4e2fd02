"""Simulated tables of a mixture, drawn on the host: no row is read, and nothing is compiled."""

import math
from typing import NamedTuple

import numpy as np

from noisewise.data import Rows, Schema, record_count
from noisewise.models import Mixture
from noisewise.models.mixture import COUNT_SHAPE

_LARGEST_SHARE = 0.9
_FARTHEST = 30.0


class SimulatedTable(NamedTuple):
    """A truth and its records."""

    latents: Rows
    rows: Rows
    """Columns by name, the target's too."""
    allowed: np.ndarray
    """Which records the schema allows."""


def declared_intercept(model: Mixture, schema: Schema) -> float | None:
    """Log rate or log odds of the target's declared mean or share; None where none is declared."""
    if model.target is None:
        return None
    column = schema[model.target]
    guess = column.mean if column.kind == "count" else column.share
    if not guess:
        return None
    return math.log(guess / (1 - guess)) if model.response == "logistic" else math.log(guess)


def simulate_table(
    model: Mixture, schema: Schema, rng: np.random.Generator, count: int
) -> SimulatedTable:
    """A truth from the prior, ``count`` records from it.

    Two things are not the prior's: one component has nine tenths of the records, for gradients are
    largest where a record clearly belongs to one, and a fit may end so; and where the target's
    mean or share is declared, the intercept makes the records' mean that.
    """
    rest = rng.dirichlet(np.ones(model.components - 1)) * (1 - _LARGEST_SHARE)
    latents: Rows = {"weights": np.concatenate([[_LARGEST_SHARE], rest])}
    component = rng.choice(model.components, count, p=latents["weights"])
    rows: Rows = {}
    for feature in model.features:
        if feature.levels:
            shares = rng.dirichlet(np.ones(feature.levels), model.components)
            edges = shares.cumsum(1)[component, :-1]
            rows[feature.name] = (rng.random(count)[:, None] > edges).sum(1).astype(np.int32)
            latents[f"{feature.name}_shares"] = shares
        else:
            rate = rng.gamma(COUNT_SHAPE, feature.mean / COUNT_SHAPE, model.components)
            rows[feature.name] = rng.poisson(rate[component]).astype(np.int32)
            latents[f"{feature.name}_rate"] = rate
    if model.target is not None:
        latents["coefficients"] = rng.standard_normal(len(model.design))
        rows[model.target] = _responses(model, schema, rng, latents, rows)
    return SimulatedTable(latents, rows, _allowed(schema, rows))


def _responses(
    model: Mixture, schema: Schema, rng: np.random.Generator, latents: Rows, rows: Rows
) -> np.ndarray:
    """Counts or yes and no given the other columns; sets the intercept where it is declared."""
    design = np.asarray(model.design_matrix([rows[f.name] for f in model.features]), float)
    coefficients = latents["coefficients"]
    others = np.clip(design[:, 1:] @ coefficients[1:], -_FARTHEST, _FARTHEST)
    declared = declared_intercept(model, schema)
    if declared is not None:
        logistic = model.response == "logistic"
        middle = others.mean() if logistic else float(np.log(np.exp(others).mean()))
        coefficients[0] = declared - middle
    predictor = np.clip(coefficients[0] + others, -_FARTHEST, math.log(2.0**30))
    if model.response == "logistic":
        return (rng.random(len(predictor)) < 1 / (1 + np.exp(-predictor))).astype(np.int32)
    return rng.poisson(np.exp(predictor)).clip(0, 2**31 - 1).astype(np.int32)


def _allowed(schema: Schema, rows: Rows) -> np.ndarray:
    allowed = np.ones(record_count(rows), bool)
    for name, values in rows.items():
        column = schema[name]
        if column.kind == "binary":
            allowed &= values <= 1
        elif column.bounds is not None:
            allowed &= (values >= column.bounds[0]) & (values <= column.bounds[1])
    return allowed
