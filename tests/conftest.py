"""A small table about made-up people, and a small private fit of it, shared by many tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

import noisewise as nw
from compiling import compile_quickly, forget_programs_if_many, hardly_optimised
from people import make_frame, make_schema

# Folders and files.
_MANY_SHORT_PROGRAMS = {
    *("dpvi", "engine", "estimators", "mechanism", "models"),
    *("test_fitting", "test_sep_fitting", "test_sep_models"),
}


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs in pytest's cache: workers, and later runs, share them."""
    compile_quickly(None if config.cache is None else str(config.cache.mkdir("jax")))


@pytest.fixture(autouse=True, scope="module")
def _compilation(request: pytest.FixtureRequest) -> Iterator[None]:
    hurry = bool({request.path.parent.name, request.path.stem} & _MANY_SHORT_PROGRAMS)
    with hardly_optimised() if hurry else nullcontext():
        yield
    forget_programs_if_many()


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
