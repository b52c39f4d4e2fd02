"""The demonstration: real health data, a private fit, and what privacy does to error bars."""

from importlib import resources
from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, Progress
from noisewise.baselines import unsafe_posterior
from noisewise.data import Schema, Table
from noisewise.fitting import fit
from noisewise.mechanism import Budget
from noisewise.models import bind_model
from noisewise.result import Result

_TARGET = "visited"


class Comparison(NamedTuple):
    """One coefficient by three ways: (low, mean, high) each, at 95%."""

    name: str
    noise_aware: tuple[float, float, float]
    noise_unaware: tuple[float, float, float]
    """Plain DPVI ignores the noise: NOT FOR RELEASE as error bars."""
    unsafe_non_private: tuple[float, float, float]
    """From the raw rows: NOT FOR RELEASE."""


def load_table() -> Table:
    """The RAND Health Insurance Experiment (20,190 person-years), from the statsmodels wheel."""
    try:
        from statsmodels.datasets import randhie
    except ImportError as error:
        raise NoisewiseError(
            "the demo's data ship with statsmodels: pip install 'noisewise[demo]'"
        ) from error
    frame = randhie.load_pandas().data
    frame = frame.assign(visited=(frame["mdvis"] > 0).astype(int)).drop(columns="mdvis")
    with resources.as_file(resources.files(__package__) / "randhie.toml") as path:
        return Table(frame, Schema.from_toml(path))


def run(budget: Budget, progress: Progress | None = None) -> tuple[Result, list[Comparison]]:
    """Fit privately, and beside it the two ways that are not for release.

    Args:
        budget: what the private fit may spend.
        progress: gets how many steps are done, of how many.
    """
    table = load_table()
    result = fit("logistic", table, budget=budget, target=_TARGET, progress=progress)
    bound = bind_model("logistic", table.schema, _TARGET)
    unsafe = unsafe_posterior(bound.target, bound.view.private(table))
    reach = 1.959964 * np.sqrt(np.diag(unsafe.covariance))
    exact = np.transpose([unsafe.mode - reach, unsafe.mode, unsafe.mode + reach]).tolist()
    aware, unaware = (
        summary[["lower", "mean", "upper"]]
        for summary in (result.summary(), result.summary(noise_unaware=True))
    )
    intervals = zip(aware.index, aware.to_numpy(), unaware.to_numpy(), exact, strict=True)
    return result, [Comparison(name, *map(tuple, each)) for name, *each in intervals]
