"""What was requested of a fit, as typed data: all of it public."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from noisewise.data import Schema, source_columns
from noisewise.dpsep import SepSettings
from noisewise.dpvi import Settings

_SETTINGS: dict[str, type[Settings] | type[SepSettings]] = {"dpvi": Settings, "dp-sep": SepSettings}


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkScaling:
    """How a network's inputs were whitened and its target standardised, and what a simulated
    table's fit said of its error bars."""

    input_centre: np.ndarray
    input_matrix: np.ndarray
    output_centre: float
    output_scale: float
    variance_inflation: float | None
    """Factor on the variance, from a simulated table's fit; None where that was not finite."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        arrays = {name: getattr(self, name).tolist() for name in ("input_centre", "input_matrix")}
        return vars(self) | arrays

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> NetworkScaling:
        """Back from `to_dict`."""
        arrays = {name: np.asarray(plain[name]) for name in ("input_centre", "input_matrix")}
        return cls(**plain | arrays)


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """Model, columns, settings: what a result is a result of."""

    model: str
    method: str
    """``dpvi`` or ``dp-sep``."""
    posterior: str
    """How the posterior was computed: one of `noisewise.posterior.METHODS`, or ``dp-sep``."""
    target: str | None
    arguments: tuple[str, ...]
    """The model's, in order."""
    encoding: tuple[dict[str, Any], ...]
    """Columns of the design matrix, as `Encoder.describe` has them; none without one."""
    schema: Schema
    public_count: int
    """Number of rows as everybody may know it: declared, or noised."""
    settings: Settings | SepSettings
    network: NetworkScaling | None = None
    event: str | None = None
    """Of a survival model, the column that says whether the target is an event's time."""

    formula: str | None = None
    """What the design matrix was made from, where that was a formula."""
    priors: tuple[str, ...] = ()
    """Of a ready-made model, a line each."""

    @property
    def targets(self) -> list[str]:
        """The columns that the model explains."""
        return [name for name in (self.target, self.event) if name is not None]

    def binding(self, model: Any = None) -> dict[str, Any]:
        """Arguments of `bind_model` that bind the fit's model to its schema again.

        Args:
            model: The fit's, where it is not to be found by its name.
        """
        about = {"model": model or self.model, "schema": self.schema}
        if self.formula is not None and model is None:
            return about | {"model": self.formula, "family": self.model}
        return about | {"target": self.targets, "features": self.features}

    @property
    def sep_settings(self) -> SepSettings:
        """The settings of a DP-SEP fit; there are none of another method's."""
        assert isinstance(self.settings, SepSettings)
        return self.settings

    @property
    def features(self) -> list[str]:
        """The columns besides the target that the fit used: those it encoded, or its arguments."""
        encoded = [name for entry in self.encoding for name in source_columns(entry)]
        names = encoded if encoded else self.arguments
        return [name for name in dict.fromkeys(names) if name not in (None, *self.targets)]

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The schema's columns as plain data, by name."""
        found: dict[str, Any] = self.schema.to_dict()["columns"]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "arguments": list(self.arguments),
            "encoding": list(self.encoding),
            "priors": list(self.priors),
            "schema": self.schema.to_dict(),
            "settings": self.settings.to_dict(),
            "network": None if self.network is None else self.network.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Request:
        """Back from `to_dict`."""
        network = plain["network"]
        typed = {
            "arguments": tuple(plain["arguments"]),
            "encoding": tuple(plain["encoding"]),
            "priors": tuple(plain.get("priors", ())),
            "schema": Schema.from_dict(plain["schema"]),
            "settings": _SETTINGS[plain["method"]].from_dict(plain["settings"]),
            "network": None if network is None else NetworkScaling.from_dict(network),
        }
        return cls(**plain | typed)
