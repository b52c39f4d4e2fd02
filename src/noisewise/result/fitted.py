"""The model behind a result, found again: for whatever is done with a fit after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noisewise._validate import NoisewiseError, shown
from noisewise.models import Target, model_name, named_model
from noisewise.result.request import Request


def fitted_model(
    request: Request, given: Callable[..., Any] | str | None
) -> Callable[..., Any] | None:
    """The model that was fitted, None where its formula says it; never code that a result's file
    names by itself. `Request.binding` takes either.

    Args:
        request: What the result is a result of.
        given: A function of the user's has to be passed again; None is a ready-made one.
    """
    name, about = request.model, (request.schema, request.targets, request.features)
    if given is None and request.formula is not None:
        return None
    if given is None:
        try:
            if ":" in name:
                raise NoisewiseError("a file is run only if the caller names it")
            return named_model(name, *about)
        except NoisewiseError:
            raise NoisewiseError(
                f"the result's model '{name}' is a function of yours, which is not saved with it: "
                f"pass it again, as model={name} or model='path/to/model.py:{name}'"
            ) from None
    found = named_model(given, *about)
    if model_name(found) != name:
        raise NoisewiseError(
            f"model is '{model_name(found)}', but the result is of '{name}': pass the one that "
            "was fitted"
        )
    return found


def refuse_other_latents(target: Target, draws: dict[str, Any]) -> None:
    """The posterior must be of this very model; values computed from its latents may be with it.

    Args:
        target: The model's.
        draws: The posterior's, by latent.
    """
    expected = {site.name: tuple(site.shape) for site in target.layout.latents}
    found = {name: tuple(values.shape[1:]) for name, values in draws.items()}
    if not expected.items() <= found.items():
        raise NoisewiseError(
            f"the model has latents {shown(expected)}, but the result has {shown(found)}: pass the "
            "model that was fitted"
        )
