"""What a model can do, said by the model itself: nobody else asks for its class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from noisewise._validate import NoisewiseError, listed, shown
from noisewise.data import Schema
from noisewise.models.target import Target
from noisewise.models.units import of_units

TargetNames: TypeAlias = str | Sequence[str] | None
"""The column that a model is to explain; of a survival model a time and whether it is an event's.
"""


def listed_targets(target: TargetNames) -> tuple[str, ...]:
    """The names of the target's columns: none, one, or a time and an event.

    Args:
        target: A name or a list of two.

    >>> listed_targets("visits"), listed_targets(["months", "died"])
    (('visits',), ('months', 'died'))
    """
    if target is None or isinstance(target, str):
        return () if target is None else (target,)
    names = tuple(target) if isinstance(target, Sequence) else (None,)
    if not (len(names) <= 2 and all(isinstance(name, str) for name in names)):
        raise NoisewiseError(
            "target must be a column's name, or a list of a time's and an event's, got "
            f"{shown(target)}"
        )
    if len(set(names)) < len(names):
        raise NoisewiseError(
            f"target names {names[0]!r} twice: a time's and an event's column differ"
        )
    return names


def single_target(target: TargetNames) -> str | None:
    """The one column that is the target, or None; two are refused.

    Args:
        target: A name, or a list of one.
    """
    names = listed_targets(target)
    if len(names) > 1:
        raise NoisewiseError(
            f"target must be one column, got {listed(names)}: a time and an event are for the "
            "models weibull and piecewise-exponential"
        )
    return names[0] if names else None


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
    fewest_levels: int = 2
    """Of a category that is the target: two, or so many and more."""
    positive_target: bool = False
    """Whether the target must be above 0."""
    survival: bool = False
    """Whether the target is two columns, a time and whether it is an event's."""

    def of(self, schema: Schema, target: TargetNames, features: list[str] | None) -> Self:
        """The same model for the columns of this schema."""
        return self

    def of_units(self, target: Target, most_rows: int) -> Target:
        """The target of units of up to so many rows, from that of rows."""
        return of_units(target, most_rows)

    def columns(self) -> tuple[str, ...] | None:
        """The columns that it takes, where its signature does not name them."""
        return None

    def coordinates(self, features: list[str] | None) -> dict[str, list[str]]:
        """Names along the last axis of latents, given those of the design matrix's columns."""
        return {}

    def prior_words(self, features: list[str] | None) -> tuple[str, ...]:
        """The priors, a line each, given the names of the design matrix's columns."""
        return ()

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
