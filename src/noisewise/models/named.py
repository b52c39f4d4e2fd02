"""Models by name or by file, for the command line and for people in a hurry."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noisewise._validate import NoisewiseError
from noisewise.models.glm import FAMILIES, Glm

__all__ = ["named_model"]


def named_model(model: Callable[..., Any] | str) -> Callable[..., Any]:
    """A model from its name (``logistic``, ``poisson``, ``linear``), from ``file.py:function``, or
    itself when it is a function already.

    >>> named_model("logistic")
    Glm(family='logistic', prior_scale=1.0, noise_scale=1.0)
    """
    if callable(model):
        return model
    if not isinstance(model, str):
        raise NoisewiseError(f"model must be a NumPyro model or a name, got {model!r}")
    if model in FAMILIES:
        return Glm(model)
    path, _, name = model.rpartition(":")
    if not path or not path.endswith(".py"):
        raise NoisewiseError(
            f"model {model!r} is neither {', '.join(FAMILIES)} nor path/to/model.py:function"
        )
    return _from_file(Path(path), name)


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
