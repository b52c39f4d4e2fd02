"""Results made by hand, so that a page can be tested without a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from noisewise.data import Column, Schema
from noisewise.dpvi import Settings
from noisewise.mechanism import Budget, Certificate, Release, issue
from noisewise.posterior import Status
from noisewise.result import Request, Result

_SOURCES = {
    "bounds and categories": "declared in the schema",
    "number of rows": "noised, paid from the budget",
    "randomness": "AES-128-CTR keyed by the operating system",
}


@pytest.fixture(scope="session")
def make_result() -> Callable[..., Result]:
    """A factory of plausible results: ``make_result(names=[...], status=..., ...)``."""
    return _result


def _result(
    names: tuple[str, ...] = ("intercept", "age", "sex=male"),
    *,
    status: Status = Status.OK,
    adjacency: str = "add-remove",
    reasons: tuple[str, ...] = (),
    blocks: int = 50,
    burn_in: int = 10,
    curvature: np.ndarray | None = None,
    extra: dict[str, np.ndarray] | None = None,
    **request: Any,
) -> Result:
    rng = np.random.default_rng(0)
    width = len(names)
    centre = rng.normal(0, 1, width)
    draws = {"coefficients": centre + rng.normal(0, 0.2, (800, width)), **(extra or {})}
    unaware = {name: values + 0.1 * (values - values.mean(0)) for name, values in draws.items()}
    unaware["coefficients"] = centre + 0.3 + rng.normal(0, 0.05, (800, width))
    ends = 100 * np.arange(1, blocks + 1)
    settled = 1 - np.exp(-ends[:, None] / 500)
    means = settled * rng.normal(0, 10, width) + rng.normal(0, 1, (blocks, width))
    return Result(
        draws=draws,
        noise_unaware=unaware,
        privacy=replace(_certificate(adjacency), not_private_because=reasons),
        status=status,
        request=replace(_request(names), **request),
        trace={
            "means": means,
            "ends": ends,
            "curvature": np.diag(np.linspace(0.5, 2.0, width)) if curvature is None else curvature,
        },
        burn_in=burn_in,
        coordinates={"coefficients": list(names)},
    )


@cache
def _certificate(adjacency: str) -> Certificate:
    budget = Budget(epsilon=1.0, delta=1e-6, adjacency=adjacency)
    if adjacency == "replace-one":
        return issue(budget, (Release(what="gradients", noise_multiplier=200.0, times=50),), {})
    releases = (
        Release(what="gradients", noise_multiplier=56.6, sampling_rate=0.1, times=10_000),
        Release(what="number of rows", noise_multiplier=60.0),
    )
    return issue(budget, releases, _SOURCES)


def _request(names: tuple[str, ...]) -> Request:
    encoding = []
    columns = [Column(name="visited", kind="binary")]
    for name in names:
        entry = {"name": name, "column": name.split("=")[0], "centre": 0.0, "scale": 1.0}
        if name == "intercept":
            entry["column"] = None
        elif name == "age":
            entry |= {"centre": 45.0, "scale": 15.0}
            columns.append(Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15))
        elif name == "sex=male":
            columns.append(Column(name="sex", kind="category", categories=("female", "male")))
        else:
            columns.append(Column(name=str(entry["column"]), kind="binary", share=0.5))
        encoding.append(entry)
    return Request(
        model="logistic",
        method="dpvi",
        posterior="analytic",
        target="visited",
        arguments=("X", "y"),
        encoding=tuple(encoding),
        schema=Schema(tuple({column.name: column for column in columns}.values())),
        public_count=20_180,
        settings=Settings(
            clip_norm=0.0662161,
            steps=10_000,
            contraction_rate=0.01,
            curvature=np.eye(len(names)),
        ),
    )
