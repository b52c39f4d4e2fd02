"""A small table about made-up people, and a small private fit of it, shared by many tests."""

from __future__ import annotations

import os

import jax
import numpy as np
import pytest

import noisewise as nw
from people import make_frame, make_schema


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs in pytest's cache: workers, and later runs, share them."""
    if config.cache is not None:
        folder = str(config.cache.mkdir("jax"))
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
        # For processes that tests start.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"


@pytest.fixture(scope="session")
def frame() -> dict[str, np.ndarray]:
    return make_frame()


@pytest.fixture(scope="session")
def schema() -> nw.Schema:
    return make_schema()


@pytest.fixture(scope="session")
def table(frame, schema) -> nw.Table:
    return nw.Table(frame, schema)


@pytest.fixture(scope="session")
def budget() -> nw.Budget:
    return nw.Budget(epsilon=1.0, delta=1e-6)


@pytest.fixture(scope="session")
def result(table, budget) -> nw.Result:
    return nw.fit(
        "logistic",
        table,
        budget=budget,
        target="visited",
        features=["age", "sex"],
        steps=1000,
        insecure_seed=1,
    )
