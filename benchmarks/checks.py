"""Do checks of the model raise false alarms, and do they find what is wrong?

    python -m benchmarks.checks [--fits 300] [--only NAME] [--epsilon 1] [--check-epsilon 0.5]

Every fit has a table of its own: a truth from the prior, outcomes from the model, or from one that
the fitted model is wrong about. P-values of right models are uniform if checks are true; the share
below 0.05 has a Monte Carlo sd of sqrt(0.05 * 0.95 / fits), 0.013 at 300. What is found of wrong
models is their power. All seeds are fixed.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import kstest

import noisewise as nw
from noisewise.models import bind_model

ROWS = 5000
Frame = dict[str, np.ndarray]


class Case(NamedTuple):
    """A model that is fitted, and the check of it."""

    model: str
    target: str
    features: list[str]
    check: dict[str, Any]
    spoil: Callable[[np.random.Generator, Frame, np.ndarray], np.ndarray] | None = None
    """Outcomes of another model than the one that is fitted, from covariates and what this one
    expects; None is a right model."""
    covariates: Callable[[np.random.Generator], Frame] | None = None
    """Other covariates than the schema declares, whose shape fits then buy; where they are as
    declared, nothing is bought."""


def schema() -> nw.Schema:
    """Declared as badly as people declare: the category has no shares."""
    return nw.Schema(
        (
            nw.Column(name="age", kind="real", bounds=(18, 90)),
            nw.Column(name="sex", kind="binary"),
            nw.Column(name="ward", kind="category", categories=("a", "b", "c", "d")),
            nw.Column(name="dose", kind="real", bounds=(0, 10)),
            nw.Column(name="ill", kind="binary"),
            nw.Column(name="visits", kind="count", bounds=(0, 60), mean=2, sd=2),
            nw.Column(name="cost", kind="real", bounds=(-40, 40), mean=0, sd=3),
        )
    )


def skewed(rng: np.random.Generator) -> Frame:
    """Covariates unlike the declared ones: skewed, dependent, with rare levels."""
    age = 18 + 72 * rng.beta(1.2, 4, ROWS)
    ward = rng.choice(4, ROWS, p=[0.8, 0.15, 0.04, 0.01])
    dose = np.clip((age - 18) / 15 + rng.exponential(0.7, ROWS), 0, 10)
    return {"age": age, "sex": rng.random(ROWS) < 0.3, "ward": ward, "dose": dose}


def declared(rng: np.random.Generator) -> Frame:
    """Covariates as the schema simulates them."""
    found: Frame = schema().simulate(rng, ROWS)
    return found


def curved(rng: np.random.Generator, frame: Frame, expected: np.ndarray) -> np.ndarray:
    """Yes or no with an effect of age that turns."""
    bend = 1.5 * ((frame["age"] - 54) / 36) ** 2 - 0.5
    return rng.random(ROWS) < 1 / (1 + np.exp(-np.log(expected / (1 - expected)) - bend))


def interacting(rng: np.random.Generator, frame: Frame, expected: np.ndarray) -> np.ndarray:
    """Yes or no with an effect of dose that has the other sign in one sex."""
    extra = 0.8 * (frame["dose"] - 5) / 5 * np.where(frame["sex"] > 0, 1, -1)
    return rng.random(ROWS) < 1 / (1 + np.exp(-np.log(expected / (1 - expected)) - extra))


def overdispersed(rng: np.random.Generator, frame: Frame, expected: np.ndarray) -> np.ndarray:
    """Counts that scatter more than Poisson's: the variance is twice a mean of two."""
    return rng.poisson(expected * rng.gamma(2.0, 0.5, ROWS))


def heavy(rng: np.random.Generator, frame: Frame, expected: np.ndarray) -> np.ndarray:
    """Numbers with residuals of heavy tails."""
    return expected + 2 * rng.standard_t(3, ROWS)


_ALL = ["age", "sex", "ward", "dose"]
_BY_SEX = {"kind": "groups", "by": ["sex", "dose"], "bins": 3}
CALIBRATION, RESIDUALS = {"kind": "calibration"}, {"kind": "residuals"}
CASES = {
    "logistic, calibration": Case("logistic", "ill", _ALL, CALIBRATION),
    "logistic, groups": Case("logistic", "ill", _ALL, _BY_SEX),
    "poisson, residuals": Case("poisson", "visits", _ALL, RESIDUALS),
    "poisson, calibration": Case("poisson", "visits", _ALL, CALIBRATION),
    "linear, residuals": Case("linear", "cost", _ALL, RESIDUALS),
    "skewed covariates, calibration": Case("logistic", "ill", _ALL, CALIBRATION, None, skewed),
    "skewed covariates, groups": Case("logistic", "ill", _ALL, _BY_SEX, None, skewed),
    "skewed covariates, residuals": Case("poisson", "visits", _ALL, RESIDUALS, None, skewed),
    "wrong: curved effect": Case("logistic", "ill", _ALL, {"kind": "groups", "by": "age"}, curved),
    "wrong: interaction left out": Case("logistic", "ill", _ALL, _BY_SEX, interacting),
    "wrong: overdispersed counts": Case("poisson", "visits", _ALL, RESIDUALS, overdispersed),
    "wrong: heavy tails": Case("linear", "cost", _ALL, RESIDUALS, heavy),
}


def frames(case: Case, fits: int) -> Iterator[Frame]:
    """A table for each fit."""
    declaration = schema()
    bound = bind_model(case.model, declaration, case.target, case.features)
    draw = case.covariates or declared
    for number in range(fits):
        for attempt in range(1000):
            rng = np.random.default_rng([number, attempt])
            frame = draw(rng)
            key = jax.random.PRNGKey(int(rng.integers(2**31)))
            theta = bound.target.sample_prior(key, 1)[0]
            if case.spoil is not None:
                theta = 0.3 * theta  # so that outcomes stay inside their bounds
            given = declared(rng) | {n: np.asarray(c) for n, c in frame.items()}
            rows = {n: jnp.asarray(c) for n, c in bound.view.encode(given).items()}
            if case.spoil is None:
                outcome = np.asarray(bound.target.simulate(key, theta, rows)["y"])
            else:
                distribution = bound.target.sites(theta, rows)["y"]["fn"]
                outcome = case.spoil(rng, frame, np.asarray(distribution.mean, float))
            low, high = declaration[case.target].bounds or (0, 1)
            if outcome.min() >= low and outcome.max() <= high:
                yield _in_words(given | {case.target: outcome})
                break


def _in_words(frame: Frame) -> Frame:
    """Columns as people have them."""
    binary = {name: np.asarray(frame[name]).astype(int) for name in ("sex", "ill")}
    return frame | binary | {"ward": np.array(["a", "b", "c", "d"])[frame["ward"]]}


def p_values(case: Case, fits: int, budget: nw.Budget, other: nw.Budget) -> np.ndarray:
    """Of one check a fit."""
    declaration, found = schema(), []
    settings = nw.plan(
        case.model,
        schema=declaration,
        rows=ROWS,
        budget=budget,
        target=case.target,
        features=case.features,
        covariate_share=0.0 if case.covariates is None else None,
        fits=0,
    )
    for number, frame in enumerate(frames(case, fits)):
        table = nw.Table(frame, declaration, allow_constant=True)
        result = nw.fit(
            case.model,
            table,
            budget=budget,
            target=case.target,
            features=case.features,
            plan=settings,
            covariate_share=0.0 if case.covariates is None else None,
            insecure_seed=number,
        )
        checked = nw.check(result, table, budget=other, insecure_seed=number, **case.check)
        found.append(checked.p_value)
    return np.array(found)


def main() -> None:
    """Print a line for every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=300)
    parser.add_argument("--only", choices=list(CASES))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--check-epsilon", type=float, default=0.5)
    asked = parser.parse_args()
    budget = nw.Budget(epsilon=asked.epsilon, delta=1e-6)
    other = nw.Budget(epsilon=asked.check_epsilon, delta=1e-6)
    print(f"{asked.fits} fits each, {ROWS} rows, epsilon {budget.epsilon:g} and {other.epsilon:g}")
    for name in [asked.only] if asked.only else list(CASES):
        found = p_values(CASES[name], asked.fits, budget, other)
        print(
            f"{name:35s} below 0.05: {np.mean(found < 0.05):.3f}  below 0.01: "
            f"{np.mean(found < 0.01):.3f}  KS p: {kstest(found, 'uniform').pvalue:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
