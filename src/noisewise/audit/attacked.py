"""Every algorithm, assembled as a fit assembles it, over simulated records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from noisewise.baselines import dp_vi_settings, network_target
from noisewise.baselines.dp_em import assemble_em
from noisewise.data import WEIGHT, Rows
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
from noisewise.dpvi import Settings, assemble, prepared_rows
from noisewise.dpvi.settings import RULES
from noisewise.engine import Run
from noisewise.mechanism import Mechanism
from noisewise.models import Target, build_target, logistic, of_units

MOST_RECORDS = 2**13
"""Of simulated tables."""
_FEWEST_STEPS = 10
_UNIT_ROWS = 3


class Setup(NamedTuple):
    """What an attack chooses of a run."""

    steps: int
    sampling_rate: float
    noise_multiplier: float
    public_count: int

    def mechanism(self, clip_norm: float) -> Mechanism:
        """With this noise; what it amounts to is the attack's to say."""
        return Mechanism(
            clip_norm=clip_norm,
            sampling_rate=self.sampling_rate,
            steps=self.steps,
            noise_multiplier=self.noise_multiplier,
        )


class Attacked(NamedTuple):
    """An algorithm, and simulated records as it takes them."""

    name: str
    assemble: Callable[[Setup], Run]
    rows: Callable[[Run, slice], Rows]
    """Some of the simulated records, prepared by themselves."""

    @property
    def released(self) -> int:
        """Coordinates of a release: so many canaries at once."""
        return int(self.assemble(Setup(_FEWEST_STEPS, 1.0, 1.0, 10)).algorithm.released)


def algorithms(width: int = 128) -> Iterator[Attacked]:
    """All of them, made when it is their turn.

    Args:
        width: Columns of a regression; other models have about as many released coordinates.
    """
    yield from _dpvi_rules(width)
    yield _network(width)
    yield from _sep_sites(width)
    yield _em(width)


@cache
def _people(width: int) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(MOST_RECORDS, width)).astype(np.float32)
    X *= (10 ** rng.uniform(-1.5, 0.5, (MOST_RECORDS, 1))).astype(np.float32)
    X[0] *= 3 * np.sqrt(width) / np.linalg.norm(X[0])  # far beyond every clip
    return {"X": X, "y": (rng.random(MOST_RECORDS) < 0.5).astype(np.float32)}


def _some_people(places: slice, width: int) -> Rows:
    return {name: column[places] for name, column in _people(width).items()}


# -- DPVI --------------------------------------------------------------------------------------


def _dpvi(name: str, target: Target, width: int, **chosen: Any) -> Attacked:
    fixed = {"clip_norm": 0.5, "full_curvature": False} | chosen

    def assembled(setup: Setup) -> Run:
        settings = Settings(steps=setup.steps, sampling_rate=setup.sampling_rate, **fixed)
        mechanism = setup.mechanism(settings.clip_norm)
        return assemble(settings, target, mechanism, setup.public_count)

    def rows(run: Run, places: slice) -> Rows:
        return prepared_rows(target, run, _some_people(places, width))

    return Attacked(f"DPVI, {name}", assembled, rows)


def _dpvi_rules(width: int) -> Iterator[Attacked]:
    rows = {name: column[:4] for name, column in _some_people(slice(4), width).items()}
    target = build_target(logistic(), rows)
    rates = {"learning_rate": 0.01}
    own: dict[str, dict[str, Any]] = {rule: rates | {"rule": rule} for rule in RULES}
    own["means_only"] |= {"curvature": 4 * np.eye(width), "full_curvature": True}
    own["preconditioned"] |= {"precondition": 20.0}
    own["aligned, full rank"] = own["aligned"] | {"guide": "full_rank"}
    for name, chosen in own.items():
        yield _dpvi(name, target, width, **chosen)
    yield _of_units(target, width, rates | {"rule": "aligned"})


def _of_units(target: Target, width: int, chosen: dict[str, Any]) -> Attacked:
    """Units of up to three rows, the first of which are full."""
    units = of_units(target, _UNIT_ROWS)
    plain = _dpvi("units of rows", units, width, **chosen)

    def rows(run: Run, places: slice) -> Rows:
        found = {
            name: np.stack([np.roll(column, -k, axis=0)[places] for k in range(_UNIT_ROWS)], axis=1)
            for name, column in _people(width).items()
        }
        count = len(found["y"])
        sizes = _UNIT_ROWS - np.arange(places.start or 0, (places.start or 0) + count) % _UNIT_ROWS
        weight = (np.arange(_UNIT_ROWS) < sizes[:, None]).astype(np.float32)
        return prepared_rows(units, run, found | {WEIGHT: weight})

    return plain._replace(rows=rows)


def _network(width: int) -> Attacked:
    inputs, hidden = 3, max(2, width // 5)
    planned = dp_vi_settings(np.asarray(NetworkSite(inputs, hidden).start(0)))
    names = ("clip_norm", "learning_rate", "initial_free_scale", "start", "rule")
    chosen = {name: getattr(planned, name) for name in names}
    return _dpvi("network", network_target(hidden, inputs), inputs, **chosen)


# -- DP-SEP and DP-EM --------------------------------------------------------------------------


def _sep(
    name: str, site: Site, width: int, columns: tuple[str, ...] = ("X", "y"), natural: bool = False
) -> Attacked:
    def assembled(setup: Setup) -> Run:
        settings = SepSettings(
            bounds=Bounds(0.7, 1.3, 0.4),
            natural_bounds=Bounds(2.0, 1.3, 0.4),
            natural_steps=setup.steps if natural else 0,
            sampling_rate=setup.sampling_rate,
            steps=setup.steps,
        )
        phase = Phase(site, settings)
        start = 0.3 * np.random.default_rng(1).standard_normal(site.family.dim)
        mechanism = setup.mechanism(phase.mechanism.clip_norm)
        return assemble_sep(phase, mechanism, setup.public_count, start.astype(np.float32))

    def rows(run: Run, places: slice) -> Rows:
        found = _some_people(places, width)
        return {name: found[name] for name in columns}

    return Attacked(f"DP-SEP, {name}", assembled, rows)


def _sep_sites(width: int) -> Iterator[Attacked]:
    """Precisions are matrices: fewer columns have as many coordinates."""
    few = max(2, round((2 * width) ** 0.5) - 1)
    half = max(2, round(0.7 * few))
    yield _sep("linear", LinearSite(few), few)
    yield _sep("linear with unknown noise", RegressionSite(few), few)
    yield _sep("logistic", LogisticSite(few), few)
    yield _sep("logistic, natural form", LogisticSite(few), few, natural=True)
    yield _sep("probit", ProbitSite(few), few)
    yield _sep("mixture", MixtureSite(2, half, 0.7), half, ("X",))
    yield _sep("network", NetworkSite(3, max(2, width // 10)), 3)


def _em(width: int) -> Attacked:
    columns = max(2, width // 4 - 1)
    start = 0.5 * np.random.default_rng(2).standard_normal((4, columns)).astype(np.float32)

    def assembled(setup: Setup) -> Run:
        mechanism = setup.mechanism(2**0.5)
        count = setup.public_count
        return assemble_em(mechanism, count, start, sd=0.7, radius=2.0, prior_sd=1.0)

    def rows(run: Run, places: slice) -> Rows:
        return {"X": _some_people(places, columns)["X"]}

    return Attacked("DP-EM", assembled, rows)
