"""What makes some two hundred small fits in a row bearable."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

_SETTINGS = {
    # Nearly every fit has a table shape of its own, compiled for one short run.
    "jax_disable_most_optimizations": True,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(autouse=True, scope="package")
def _quick_compilation() -> Iterator[None]:
    """Compile in a hurry, and keep the smallest programs too (see the tests' conftest)."""
    before = {name: jax.config.values[name] for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
