"""How much privacy may be spent, and what "one person" means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from noisewise._validate import NoisewiseError, fraction, one_of, positive, shown

ADJACENCIES = ("add-remove", "replace-one")
_EPSILONS = (1e-9, 1e6)
"""Outside of these the accountant's own arithmetic overflows; neither end is of any use."""
_LEAST_DELTA = 1e-11
"""The accountant convolves by FFT in double precision; below this its rounding errors are no longer
small beside delta, and its epsilon is no longer surely an upper bound."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An (epsilon, delta) budget under a named adjacency.

    ``adjacency`` says which two tables must be hard to tell apart: ``"add-remove"`` (one record
    more or less; the default) or ``"replace-one"`` (one record changed, so the number of rows is
    public; costs about twice the noise).

    Args:
        epsilon: The most that a record may change the log-odds of any conclusion,
        delta: but for this probability; at least 1e-11.
        adjacency: As above.

    >>> Budget(epsilon=1.0, delta=1e-6).adjacency
    'add-remove'
    """

    epsilon: float
    delta: float
    adjacency: str = "add-remove"

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon, finite=True)
        if not _EPSILONS[0] <= self.epsilon <= _EPSILONS[1]:
            low, high = _EPSILONS
            raise NoisewiseError(
                f"epsilon must be from {low:g} to {high:g}, got {shown(self.epsilon)}: useful ones "
                "are between 0.01 and 10"
            )
        fraction("delta", self.delta)
        if not self.delta >= _LEAST_DELTA:
            raise NoisewiseError(
                f"delta must be at least {_LEAST_DELTA:g}, below which epsilon cannot be computed "
                f"as an upper bound, got {self.delta:g}"
            )
        one_of("adjacency", self.adjacency, ADJACENCIES)

    def warn_if_delta_is_large(self, public_count: int) -> None:
        """Warn when delta is not well below 1/N: it then permits publishing whole records.

        Args:
            public_count: The declared or bought number of rows, N.
        """
        if self.delta * public_count > 0.1:
            warnings.warn(
                f"delta={self.delta:g} is not well below 1/rows={1 / public_count:.1e}: at this "
                "delta a mechanism may publish somebody's whole record; choose delta below "
                f"{0.1 / public_count:.0e}",
                stacklevel=3,
            )
