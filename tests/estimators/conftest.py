"""What makes some three hundred small fits in a row bearable."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="package")
def _pure_work_done_once() -> Iterator[None]:
    """Keep what depends on public quantities only: accounting, and simulation from a schema.

    Fits with one budget and one shape repeat both; the engine's own results are unchanged.
    """
    ledger = import_module("noisewise.mechanism.ledger")
    planning = import_module("noisewise.planning.first_guess")
    simulated: dict[Any, Any] = {}
    simulate = planning.simulate_gradients

    def simulate_once(target: Any, view: Any) -> Any:
        key = (target, view.schema.fingerprint())
        if key not in simulated:
            simulated[key] = simulate(target, view)
        return simulated[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "epsilon_spent", lru_cache(maxsize=None)(ledger.epsilon_spent))
        patch.setattr(planning, "simulate_gradients", simulate_once)
        yield
