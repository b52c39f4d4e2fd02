"""Fits of tables with missing cells, and an adversary who moves them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import noisewise as nw
from engine.algorithms import SIGMA
from engine.watching import Case, secure, watched
from noisewise.dpvi import assemble, prepared_rows
from noisewise.mechanism import Mechanism
from noisewise.models import bind_model

AGE = nw.Column(name="age", kind="real", bounds=(0, 100), missing="allowed")
WARD = nw.Column(name="ward", kind="category", categories=("a", "b", "c"), missing="allowed")
ILL = nw.Column(name="ill", kind="binary", missing="allowed")
SEX = nw.Column(name="sex", kind="binary")
BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
COUNT, STEPS = 8, 60


def case(model, columns, target):
    """The run of a fit, and how a table's columns become its rows."""
    bound = bind_model(model, nw.Schema(columns), target)
    settings = nw.Settings(
        clip_norm=0.5,
        steps=STEPS,
        sampling_rate=0.5,
        learning_rate=0.01,
        full_curvature=False,
        rule="vanilla",
    )
    mechanism = Mechanism(clip_norm=0.5, sampling_rate=0.5, steps=STEPS, noise_multiplier=SIGMA)
    run = assemble(settings, bound.target, mechanism, COUNT)

    def rows(arrays):
        found = prepared_rows(bound.target, run, bound.view.encode(arrays))
        return {name: np.asarray(column) for name, column in found.items()}

    return run, rows


@pytest.mark.parametrize(
    ("model", "columns", "target"),
    [
        ("logistic", (AGE, WARD, ILL), "ill"),
        ("logistic", (replace(AGE, how="integrate"), ILL), "ill"),
        ("mixture(2)", (WARD, ILL, SEX), None),
    ],
)
def test_an_adversary_who_moves_gaps_moves_a_release_by_one_record(model, columns, target) -> None:
    """Every pattern of gaps in one record, at the same noise and batches: releases differ where it
    was drawn, and there by the clip norm's double at most; a missing outcome adds nothing."""
    run, rows = case(model, columns, target)
    arrays = {
        column.name: column.complete.simulate(np.random.default_rng(0), COUNT) for column in columns
    }
    free = [column.name for column in columns if column.gaps]
    seen = {}
    for gaps in itertools.product([False, True], repeat=len(free)):
        moved = {name: values.copy() for name, values in arrays.items()}
        for name, gap in zip(free, gaps, strict=True):
            if gap:
                moved[name][3] = np.nan if moved[name].dtype.kind == "f" else -1
        prepared = rows(moved)
        watching = watched(Case("gaps", lambda _: run, prepared), moveless=True)
        seen[gaps] = secure(watching, prepared, 1).released
    away = {name: np.delete(values, 3, axis=0) for name, values in rows(arrays).items()}
    gone = {
        name: np.insert(values, 3, np.nan if values.dtype.kind == "f" else 0, axis=0)
        for name, values in away.items()
    }
    without = secure(watched(Case("gone", lambda _: run, gone), moveless=True), gone, 1).released
    points = int(run.numbers.grid.points)
    drawn = (seen[(False,) * len(free)] != without).any(axis=1)
    assert drawn.any() and not drawn.all()
    for gaps, released in seen.items():
        off = released - without
        assert not off[~drawn].any()
        assert ((off**2).sum(1) <= points**2).all()
        silenced = target is not None and gaps[free.index(target)]
        assert off.any() != silenced


def table(seed=0, rows=4000):
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(50, 15, rows), 0, 100)
    logits = -0.5 + 1.5 * (age - 50) / 50
    ill = (rng.random(rows) < 1 / (1 + np.exp(-logits))).astype(float)
    ill[rng.random(rows) < 0.4] = np.nan
    age[rng.random(rows) < 0.2] = np.nan
    return {"age": age, "ill": ill}


def test_a_fit_finds_the_regression_behind_the_gaps() -> None:
    """z scores of two coefficients within five sds (one seed, which is fixed), with the gaps of 40%
    of the outcomes and 20% of the covariate bought; what is declared is 5%."""
    result = nw.fit(
        "logistic",
        nw.Table(table(), nw.Schema((AGE, ILL), rows=4000)),
        budget=BUDGET,
        target="ill",
        steps=600,
        draws=500,
        insecure_seed=2,
    )
    found = result.summary()
    assert list(found.index) == ["intercept", "age", "age (missing)"]
    z = (found["mean"][:2] - [-0.5, 1.5]) / found["sd"][:2]
    assert (np.abs(z) < 5).all()
    assert (found["sd"] < 0.8).all()
    assert "2 columns' values" in result.privacy.sources["covariates"]
    again = nw.Schema.from_dict(result.request.to_dict()["schema"])
    assert again["age"].gaps


@pytest.mark.slow
def test_a_mixture_of_a_table_with_gaps_makes_complete_tables() -> None:
    rng = np.random.default_rng(0)
    ward = rng.choice(["a", "b", "c"], 1000).astype(object)
    ward[rng.random(1000) < 0.3] = None
    cells = {"ward": ward, "sex": rng.integers(0, 2, 1000)}
    fitted = nw.fit(
        "mixture(2)",
        nw.Table(cells, nw.Schema((WARD, SEX), rows=1000)),
        budget=BUDGET,
        steps=60,
        draws=100,
        insecure_seed=1,
    )
    fitted = replace(fitted, status=nw.Status.OK)  # so short a fit is said not to have converged
    for made in nw.synthesize(fitted, copies=2, seed=1):
        assert set(made["ward"]) == {"a", "b", "c"}


def test_dp_sep_refuses_missing_outcomes() -> None:
    people = nw.Table(table(rows=100), nw.Schema((AGE, ILL)))
    with pytest.raises(nw.NoisewiseError, match="takes no missing outcomes"):
        nw.fit("logistic", people, budget=BUDGET, target="ill", method="dp-sep")
