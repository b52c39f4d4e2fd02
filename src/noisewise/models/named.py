"""Models by name or by file, for the command line and for people in a hurry."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Schema
from noisewise.models.glm import FAMILIES, Glm
from noisewise.models.mixture import mixture_from_text
from noisewise.models.network import network_from_text
from noisewise.models.ready_made import ReadyMade


def named_model(
    model: Callable[..., Any] | str,
    schema: Schema | None = None,
    target: str | None = None,
    features: list[str] | None = None,
) -> Callable[..., Any]:
    """A model from its name (``logistic``, ``probit``, ``poisson``, ``linear``, ``network``,
    ``mixture``), from ``file.py:function``, or itself when it is a function already.

    A mixture gets its columns from the schema here: all of them, or the ``features`` and the
    target. Its name may say more, as in ``mixture(components=8, response=poisson)``.

    By name, priors follow the target's declaration: for ``linear``, coefficients and residual sd
    are on the scale of its ``sd`` (or a quarter of its range) and the intercept around its
    ``mean``; for ``poisson``, coefficients are Normal(0, 0.5), the intercept around log ``mean``.

    Args:
        model: A name, or the model itself.
        schema: What is publicly known of the table.
        target: The column that is ``y``.
        features: The columns that make up ``X``; None is all others.

    >>> named_model("logistic")
    Glm(family='logistic', prior_scale=1.0, noise_scale=1.0, centre=0.0)
    """
    if isinstance(model, str):
        model = mixture_from_text(model) or network_from_text(model) or model
    if isinstance(model, ReadyMade):
        return model if schema is None else model.of(schema, target, features)
    if callable(model):
        return model
    if not isinstance(model, str):
        raise NoisewiseError(f"model must be a NumPyro model or a name, got {model!r}")
    if model in FAMILIES:
        if schema is None or target is None or target not in schema:
            return Glm(model)
        return glm_for(model, schema[target])
    path, _, name = model.rpartition(":")
    if not path or not path.endswith(".py"):
        raise NoisewiseError(
            f"model {model!r} is neither {', '.join(FAMILIES)}, network, mixture nor "
            "path/to/model.py:function"
        )
    return _from_file(Path(path), name)


def glm_for(family: str, column: Column, prior_scale: float | None = None) -> Glm:
    """A regression whose priors fit its target's declaration, or with a ``prior_scale`` as given.

    A target of the wrong kind gets plain priors here and is refused when it is bound.

    Args:
        family: One of `FAMILIES`.
        column: The target, as it is declared.
        prior_scale: In place of the declaration's.
    """
    found = Glm(family)
    if family == "poisson":
        # A log rate moves the rate by its exponential: half a unit is already a factor of 1.6.
        found = Glm(family, prior_scale=0.5, centre=math.log(column.mean) if column.mean else 0.0)
    elif family == "linear" and column.bounds is not None:
        low, high = column.bounds
        scale = column.sd if column.sd is not None else (high - low) / 4
        centre = column.mean if column.mean is not None else (low + high) / 2
        found = Glm(family, float(scale), noise_scale=0.7 * scale, centre=float(centre))
    return found if prior_scale is None else replace(found, prior_scale=prior_scale)


def _from_file(path: Path, name: str) -> Callable[..., Any]:
    if not path.is_file():
        raise NoisewiseError(f"model file {path} does not exist")
    spec = importlib.util.spec_from_file_location(f"noisewise_model_{path.stem}", path)
    assert spec is not None  # a .py path always has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises
        text = " ".join(str(error).split())[:300]
        raise NoisewiseError(
            f"model file {path} failed with {type(error).__name__}: {text}"
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        raise NoisewiseError(f"model file {path} has no function '{name}'")
    return found
