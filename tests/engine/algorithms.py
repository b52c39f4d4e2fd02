"""Every algorithm as the engine runs it, on a tiny table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from noisewise.baselines import dp_vi_settings, network_target
from noisewise.baselines.dp_em import assemble_em
from noisewise.data import Column, Rows, Schema, Unit
from noisewise.dpsep import (
    Bounds,
    LinearSite,
    LogisticSite,
    MixtureSite,
    NetworkSite,
    Phase,
    ProbitSite,
    RegressionSite,
    SepSettings,
    Site,
)
from noisewise.dpsep import assemble as assemble_sep
from noisewise.dpvi import Settings, assemble, variability_run
from noisewise.dpvi.settings import RULES
from noisewise.engine import Run
from noisewise.mechanism import Mechanism
from noisewise.models import Target, bind_model, build_target, logistic
from noisewise.models.conjugate import normal_regression
from noisewise.models.target import WEIGHT

COUNT = 8
"""Records of the table, and the public number of them."""
STEPS, RATE, SIGMA = 200, 0.2, 1.5
WIDTH = 2


class Design(NamedTuple):
    """What a check may vary of a run."""

    steps: int = STEPS
    rate: float = RATE
    public_count: int = COUNT

    def mechanism(self, clip_norm: float) -> Mechanism:
        return Mechanism(
            clip_norm=clip_norm,
            sampling_rate=self.rate,
            steps=self.steps,
            noise_multiplier=SIGMA,
        )


USUAL = Design()


class Case(NamedTuple):
    """An algorithm: how it is put together, and a table prepared for it."""

    name: str
    assembled: Callable[[Design], Run]
    rows: Rows


def _regression_rows() -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(COUNT, WIDTH)).astype(np.float32)
    return {"X": X, "y": rng.integers(0, 2, COUNT).astype(np.float32)}


# -- DPVI --------------------------------------------------------------------------------------


def _dpvi(name: str, target: Target, rows: Rows, **chosen) -> Case:
    own = {"learning_rate": 0.01, "full_curvature": False, "clip_norm": 0.5} | chosen

    @cache
    def assembled(design: Design) -> Run:
        settings = Settings(steps=design.steps, sampling_rate=design.rate, **own)
        mechanism = design.mechanism(settings.clip_norm)
        return assemble(settings, target, mechanism, design.public_count)

    frame = assembled(USUAL).numbers.constants.frame
    prepared = {key: np.asarray(column) for key, column in target.prepare(rows, frame).items()}
    return Case(f"dpvi {name}", assembled, prepared)


def _rules() -> dict[str, dict]:
    """Every rule, with every guide and factor that it can have."""
    found: dict[str, dict] = {rule: {"rule": rule} for rule in RULES}
    found["means_only"] |= {"curvature": 4 * np.eye(WIDTH), "full_curvature": True}
    found["preconditioned"] |= {"precondition": 20.0}
    found["preconditioned by slope"] = {"rule": "preconditioned", "precondition": "slope"}
    for name in ("vanilla", "preconditioned", "preconditioned by slope", "aligned"):
        found[f"{name}, full rank"] = found[name] | {"guide": "full_rank"}
    return found


def _dpvi_cases() -> list[Case]:
    rows = _regression_rows()
    target = build_target(logistic(), {name: column[:4] for name, column in rows.items()})
    cases = [
        _dpvi(name + ", clipped prior" * clip_prior, target, rows, clip_prior=clip_prior, **chosen)
        for name, chosen in _rules().items()
        for clip_prior in (False, True)
    ]
    written = build_target(normal_regression, {name: column[:4] for name, column in rows.items()})
    cases.append(_dpvi("of a NumPyro model", written, rows, rule="aligned"))
    weights = np.linspace(0.1, 3, COUNT, dtype=np.float32)
    weighted = _dpvi("with weights", target, rows | {WEIGHT: weights}, **_rules()["means_only"])
    cases += [weighted, _gradient_products(weighted)]
    return [*cases, _dpvi_of_units(), _dpvi_of_a_mixture(), _dpvi_of_a_network(rows)]


def _dpvi_of_units() -> Case:
    """Of one to three rows each."""
    columns = (
        Column(name="age", kind="real", bounds=(0, 9)),
        Column(name="ill", kind="binary"),
    )
    bound = bind_model("logistic", Schema(columns, unit=Unit("person", 3)), "ill")
    rows = bound.view.simulate(np.random.default_rng(0), COUNT)
    return _dpvi("of units", bound.target, rows, rule="aligned")


def _gradient_products(descent: Case) -> Case:
    @cache
    def assembled(design: Design) -> Run:
        run = variability_run(descent.assembled(design), design.mechanism(0.25))
        return replace(run, schedule=np.ones(design.steps, np.float32))

    return Case("products of gradients", assembled, descent.rows)


def _dpvi_of_a_mixture() -> Case:
    column = Column(name="town", kind="category", categories=("x", "y", "z"))
    bound = bind_model("mixture(2)", Schema((column,)))
    rows = bound.view.simulate(np.random.default_rng(0), COUNT)
    return _dpvi("of a mixture", bound.target, rows, rule="aligned")


def _dpvi_of_a_network(rows: Rows) -> Case:
    weights = NetworkSite(WIDTH, 2).start(0)
    chosen = dp_vi_settings(weights).to_dict()
    own = {key: chosen[key] for key in ("clip_norm", "learning_rate", "initial_step_multiplier")}
    own |= {"initial_free_scale": chosen["initial_free_scale"], "start": np.array(chosen["start"])}
    return _dpvi("of a network", network_target(2, WIDTH), rows, rule=chosen["rule"], **own)


# -- DP-SEP and DP-EM --------------------------------------------------------------------------


def _dpsep(name: str, site: Site, rows: Rows, natural: bool = False) -> Case:
    @cache
    def assembled(design: Design) -> Run:
        settings = SepSettings(
            bounds=Bounds(0.7, 1.3, 0.4),
            natural_bounds=Bounds(2.0, 1.3, 0.4),
            natural_steps=design.steps if natural else 0,
            sampling_rate=design.rate,
            steps=design.steps,
        )
        phase = Phase(site, settings)
        mechanism = design.mechanism(phase.mechanism.clip_norm)
        initial = 0.3 * np.random.default_rng(1).standard_normal(site.family.dim)
        return assemble_sep(phase, mechanism, design.public_count, initial.astype(np.float32))

    return Case(f"dp-sep {name}", assembled, rows)


def _dpsep_cases() -> list[Case]:
    rows = _regression_rows()
    points = {"X": 1.5 * rows["X"]}
    return [
        _dpsep("linear", LinearSite(WIDTH), rows),
        _dpsep("linear, unknown noise", RegressionSite(WIDTH), rows),
        _dpsep("logistic", LogisticSite(WIDTH), rows),
        _dpsep("logistic, natural form", LogisticSite(WIDTH), rows, natural=True),
        _dpsep("probit", ProbitSite(WIDTH), rows),
        _dpsep("mixture", MixtureSite(2, WIDTH, 0.7), points),
        _dpsep("mixture, natural form", MixtureSite(2, WIDTH, 0.7), points, natural=True),
        _dpsep("network", NetworkSite(WIDTH, 2), rows),
    ]


def _dp_em() -> Case:
    @cache
    def assembled(design: Design) -> Run:
        start = np.array([[0.5, 0.2], [-0.6, 0.1]], np.float32)
        mechanism = design.mechanism(2**0.5)
        return assemble_em(mechanism, design.public_count, start, sd=0.7, radius=2.0, prior_sd=1.0)

    return Case("dp-em", assembled, {"X": _regression_rows()["X"]})


@cache
def cases() -> dict[str, Case]:
    """Every algorithm by name."""
    found = [*_dpvi_cases(), *_dpsep_cases(), _dp_em()]
    return {case.name: case for case in found}


REPRESENTATIVES = ("dpvi vanilla, clipped prior", "dp-sep linear", "dp-em")
"""One of each kind, quick to compile: what mutants are run with."""
