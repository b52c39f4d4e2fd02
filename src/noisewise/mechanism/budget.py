"""How much privacy may be spent, and what "one person" means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from noisewise._validate import fraction, one_of, positive

__all__ = ["ADJACENCIES", "Budget"]

ADJACENCIES = ("add-remove", "replace-one")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An (epsilon, delta) budget under a named adjacency.

    ``adjacency`` says which two tables must be hard to tell apart: ``"add-remove"`` (one record
    more or less; the default) or ``"replace-one"`` (one record changed, so the number of rows is
    public; costs about twice the noise).

    >>> Budget(epsilon=1.0, delta=1e-6).adjacency
    'add-remove'
    """

    epsilon: float
    delta: float
    adjacency: str = "add-remove"

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon, finite=True)
        fraction("delta", self.delta)
        one_of("adjacency", self.adjacency, ADJACENCIES)

    def warn_if_delta_is_large(self, rows: int) -> None:
        """Warn when delta is not well below 1/N: it then permits publishing whole records."""
        if self.delta * rows > 0.1:
            warnings.warn(
                f"delta={self.delta:g} is not well below 1/rows={1 / rows:.1e}: at this delta a "
                "mechanism may publish somebody's whole record; choose delta below "
                f"{0.1 / rows:.0e}",
                stacklevel=3,
            )
