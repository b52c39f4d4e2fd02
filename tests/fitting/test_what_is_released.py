"""A certificate lists what was released: every purchase and every run, with the noise that it had.

Releases are watched where noise is added, and costs are stated elsewhere: of a fit, both are held
against each other. Mutants that buy with more of the budget than they say, or buy something more,
are caught.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import noisewise as nw
from noisewise.covariates import pairs
from noisewise.engine import certify, phases
from noisewise.fitting import dpvi, misfit
from noisewise.mechanism import sums

COUNT = 1200
COLUMNS = (
    nw.Column(name="age", kind="real", bounds=(0, 100)),
    nw.Column(name="ward", kind="category", categories=("a", "b", "c")),
    nw.Column(name="ill", kind="binary"),
)
WEIGHT = nw.Column(name="w", kind="weight", bounds=(0.5, 2))
BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
ASKED = {"budget": BUDGET, "target": "ill", "steps": 20, "draws": 100}


def rows(schema: nw.Schema) -> nw.Table:
    plain = nw.Schema(schema.columns)
    arrays = plain.simulate(np.random.default_rng(3), COUNT)
    if schema.unit is not None:
        arrays["person"] = np.arange(COUNT) // 2
    return nw.Table.from_arrays(arrays, schema)


@contextmanager
def watched() -> Iterator[list[tuple[float, float, int]]]:
    """Noise multiplier, sampling rate and number of times of whatever is released."""
    found: list[tuple[float, float, int]] = []
    home = importlib.import_module(certify.__module__)
    total, count, run_secure = sums._noisy_total, home.noisy_count, dpvi.run_secure

    def sum_(values, sensitivity, noise_multiplier, *more):
        found.append((noise_multiplier, 1.0, 1))
        return total(values, sensitivity, noise_multiplier, *more)

    def number(true_count, release, *more):
        found.append((release.noise_multiplier, 1.0, 1))
        return count(true_count, release, *more)

    def run_(run, *given, **more):
        (noise,) = set(np.asarray(run.numbers.noise_scale, float) / float(run.numbers.grid.points))
        found.append((noise, run.sampling_rate, run.steps))
        return run_secure(run, *given, **more)

    with (
        mock.patch.object(sums, "_noisy_total", sum_),
        mock.patch.object(home, "noisy_count", number),
        mock.patch.object(dpvi, "run_secure", run_),
        mock.patch.object(phases, "run_secure", run_),
    ):
        yield found


def is_certified(found: list[tuple[float, float, int]], certificate: nw.Certificate) -> bool:
    """Whether both list the same; noise scales are rounded up in single precision."""
    lines = [(r.noise_multiplier, r.sampling_rate, r.times) for r in certificate.releases]
    made, said = np.array(sorted(found)), np.array(sorted(lines))
    if made.shape != said.shape or not np.array_equal(made[:, 1:], said[:, 1:]):
        return False
    ratio = made[:, 0] / said[:, 0]
    return bool(((ratio > 1 - 1e-9) & (ratio < 1 + 1e-6)).all())


def fitted(model: str, schema: nw.Schema, **how) -> bool:
    with watched() as found:
        result = nw.fit(model, rows(schema), **(ASKED | how))
    return is_certified(found, result.privacy)


PLAIN, OF_UNITS = nw.Schema(COLUMNS), nw.Schema(COLUMNS, unit=nw.Unit("person", 2))
FITS = {
    "what is bought": ("logistic", PLAIN, {}),
    "units": ("logistic", OF_UNITS, {}),
    "weights": ("logistic", nw.Schema((*COLUMNS, WEIGHT)), {}),
    "dp-sep": ("logistic", PLAIN, {"method": "dp-sep"}),
    "network": ("network(2)", PLAIN, {"method": "dp-sep", "target": "age"}),
    "mixture": ("mixture(2)", PLAIN, {"target": None, "features": ["ward"]}),
}
QUICK = ("what is bought",)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FITS]
)
def test_a_certificate_lists_what_was_released(name):
    model, schema, how = FITS[name]
    assert fitted(model, schema, **how)


def more_for_sizes():
    """Sizes of gradients are bought with four times their share."""
    usual = misfit.part_of
    return mock.patch.object(misfit, "part_of", lambda budget, share: usual(budget, 4 * share))


def pairs_bought_twice():
    """The second time for other rows' sake, say; it is on no bill."""
    usual = pairs.release_sum

    def twice(*given, **more):
        usual(*given, **(more | {"bought": None}))
        return usual(*given, **more)

    return mock.patch.object(pairs, "release_sum", twice)


def less_noise_in_the_steps():
    """Steps with nine tenths of the noise."""
    usual = dpvi.assemble

    def assemble(*given):
        run = usual(*given)
        less = run.numbers._replace(noise_scale=0.9 * run.numbers.noise_scale)
        return replace(run, numbers=less)

    return mock.patch.object(dpvi, "assemble", assemble)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [more_for_sizes, pairs_bought_twice, less_noise_in_the_steps])
def test_what_is_not_on_the_bill_is_caught(mutant):
    with mutant():
        assert not fitted("logistic", PLAIN)
