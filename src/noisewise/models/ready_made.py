"""What a model can do, said by the model itself: nobody else asks for its class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from noisewise.data import Schema


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a model can do; what it cannot do is refused with ``because``."""

    closed_form_gradients: bool = False
    """Per-record gradients without automatic differentiation."""
    unique_optimum: bool = True
    """So that the noise-aware posterior can read a trace."""
    ordered_latents: bool = True
    """Each coordinate means the same in every fit: simulated fits can be compared with a truth."""
    averaged_posterior: bool = True
    """DPVIm's averaging makes sense of a trace."""
    integrates_gaps: bool = False
    """Missing cells are taken as they are, and integrated out under the model."""
    site: str | None = None
    """How DP-SEP calls its site of this model; None where it has none."""
    because: str = ""
    """Why something is missing, as the second half of a sentence: a refusal quotes it."""


class ReadyMade:
    """Base of the ready-made models: NumPyro models that know more of themselves than a function.

    What a model of the user's own does not say is as here.
    """

    capabilities: Capabilities = Capabilities()
    target_kinds: tuple[str, ...] | None = None
    """Kinds of column that the target may be; None is any."""

    def of(self, schema: Schema, target: str | None, features: list[str] | None) -> Self:
        """The same model for the columns of this schema."""
        return self

    def columns(self) -> tuple[str, ...] | None:
        """The columns that it takes, where its signature does not name them."""
        return None

    def coordinates(self, features: list[str] | None) -> dict[str, list[str]]:
        """Names along the last axis of latents, given those of the design matrix's columns."""
        return {}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """The generative process."""
        raise NotImplementedError


def capabilities_of(model: Callable[..., Any]) -> Capabilities:
    """What a model says it can do; a user's own function can do what needs no closed form."""
    return model.capabilities if isinstance(model, ReadyMade) else Capabilities()


def model_name(model: Callable[..., Any]) -> str:
    """What to call a model in files and reports.

    Args:
        model: Ready-made, or a function.
    """
    return str(model) if isinstance(model, ReadyMade) else getattr(model, "__name__", "model")
