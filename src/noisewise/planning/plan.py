"""A plan: settings for a fit, what they were made for, and where they come from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise._validate import integer_at_least
from noisewise.data import Schema
from noisewise.dpvi import Settings
from noisewise.mechanism import Budget
from noisewise.models import bind, build_target, named_model
from noisewise.planning.first_guess import first_guess

__all__ = ["SIMULATED", "Plan", "plan"]

SIMULATED = "simulated from the model's prior and the schema; no row was read"


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Settings for one model, schema, number of rows and budget."""

    settings: Settings
    rows: int
    schema: str
    """Fingerprint of the schema."""
    source: str = SIMULATED

    def warn_if_it_does_not_fit(self, schema: Schema, rows: int) -> None:
        """Warn when the table to be fitted is not the one that was planned for."""
        if self.schema != schema.fingerprint():
            warnings.warn("the plan was made for another schema: plan again", stacklevel=3)
        if not 0.8 < rows / self.rows < 1.25:
            warnings.warn(
                f"the plan was made for {self.rows} rows, the table has about {rows}: plan again",
                stacklevel=3,
            )


def plan(
    model: Callable[..., Any] | str,
    *,
    like: Schema,
    n: int,
    budget: Budget,
    target: str | None = None,
    features: list[str] | None = None,
    steps: int = 10_000,
) -> Plan:
    """Choose clip norm, step size, sampling rate and the rest by simulation; touches no row.

    ``n`` is the number of rows to plan for: a public or a noised one.
    """
    integer_at_least("n", n, 2)
    resolved = named_model(model, like, target)
    view = bind(resolved, like, target, features)
    built = build_target(resolved, view.simulate(np.random.default_rng(0), 4))
    settings = first_guess(built, view, n, budget, steps=steps)
    return Plan(settings=settings, rows=n, schema=like.fingerprint())
