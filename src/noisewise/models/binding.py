"""From a table's columns to a model's arguments: record by record, by public rules only."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import Encoder, Schema
from noisewise.models.glm import Glm

__all__ = ["RowView", "bind"]

_FARTHEST = 2e4


@dataclass(frozen=True, eq=False)
class RowView:
    """How a table's arrays become a model's arguments.

    The same view serves real rows and rows simulated from the schema, so a plan sees just what the
    fit will see.
    """

    schema: Schema
    arguments: tuple[str, ...]
    encoder: Encoder | None = None
    sample: dict[str, np.ndarray] | None = None
    """Arrays of a public sample, from which simulated rows take their covariates."""

    def rows(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The model's row arguments, from a table's arrays."""
        found: dict[str, np.ndarray] = {}
        if self.encoder is not None:
            found.update(self.encoder.encode(arrays))
        for name in self.arguments:
            if name not in found:
                found[name] = _single(arrays[name])
        return {name: found[name] for name in self.arguments}

    def simulate(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Made-up rows from the schema's declared marginals, or from the public sample; no row of
        the data is looked at."""
        arrays = self.schema.simulate(rng, n)
        if self.sample is not None:
            picked = rng.integers(len(next(iter(self.sample.values()))), size=n)
            arrays |= {name: column[picked] for name, column in self.sample.items()}
        return self.rows(arrays)

    def bounds(self, argument: str) -> tuple[float, float] | None:
        """Declared bounds of an argument in its own units; None where it has none."""
        encoder = self.encoder
        name = encoder.target if encoder is not None and argument == "y" else argument
        return self.schema[name].bounds if name is not None and name in self.schema else None

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of ``X``, where the model takes one."""
        return None if self.encoder is None else self.encoder.names


def _single(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32 if values.dtype.kind == "f" else np.int32)


def bind(
    model: Callable[..., Any], schema: Schema, target: str | None, features: list[str] | None = None
) -> RowView:
    """Match a model's arguments with the schema's columns.

    An argument gets the column of its name. ``X`` is the design matrix of all features (or those
    listed) and ``y`` the target column, unless the schema has columns of those very names.
    """
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError) as error:
        raise NoisewiseError(f"model must be a NumPyro model function, got {model!r}") from error
    wants_design = any(p.name == "X" for p in parameters) and "X" not in schema.names
    wants_target = any(p.name == "y" for p in parameters) and "y" not in schema.names
    if wants_target and target is None:
        raise NoisewiseError(
            "the model observes y but no target was named: pass target=, one of "
            f"{', '.join(schema.names)}"
        )
    offered = set(schema.names)
    encoder = None
    if wants_design or wants_target:
        encoder = Encoder(schema, target, features)
        offered |= {"X", "y"} if target is not None else {"X"}
    arguments = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise NoisewiseError("the model takes *args or **kwargs: name its arguments instead")
        if parameter.name in offered:
            arguments.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise NoisewiseError(
                f"model argument '{parameter.name}' is not a column: expected one of "
                f"{', '.join(sorted(offered))}"
            )
    if not arguments:
        raise NoisewiseError(
            f"the model takes no column of the table: name its arguments after columns "
            f"({', '.join(schema.names)}), or X and y"
        )
    if isinstance(model, Glm) and target is not None:
        _check_target(model, schema, target)
    view = RowView(schema, tuple(arguments), encoder)
    for name in arguments:
        _check_precision(name, view.bounds(name))
    return view


def _check_precision(argument: str, bounds: tuple[float, float] | None) -> None:
    """The engine holds arguments in single precision: seven digits, of which a few must be left."""
    if bounds is None:
        return
    low, high = bounds
    if max(abs(low), abs(high)) > _FARTHEST * (high - low):
        raise NoisewiseError(
            f"model argument '{argument}' has bounds [{low:g}, {high:g}], too far from 0 for their "
            f"width to be held in single precision: subtract a public number such as {low:g} first"
        )


def _check_target(model: Glm, schema: Schema, target: str) -> None:
    """A family's target must be of a kind that it can generate."""
    kinds = {"logistic": ("binary", "category"), "poisson": ("count",), "linear": ("real", "count")}
    found = schema[target].kind
    if found not in kinds[model.family]:
        raise NoisewiseError(
            f"target '{target}' is declared {found}, but {model.family} regression needs "
            f"{' or '.join(kinds[model.family])}: declare it so, or choose another model"
        )
