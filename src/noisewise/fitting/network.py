"""DP-SEP of a network: inputs whitened and the target standardised, by declaration or purchase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import Column, PrivateRows, Rows
from noisewise.dpsep import (
    EPOCH_STEPS,
    NETWORK_TARGET_SD,
    NetworkSite,
    Phase,
    SepFit,
    Whitening,
    assemble_phases,
    buy_whitening,
    finish,
    network_phases,
    phase_mechanisms,
    variance_inflation,
    whitening_cost,
)
from noisewise.engine import Finished, PublicCount, Run
from noisewise.fitting.dpsep import refuse_without_design, run_sep, sep_trace
from noisewise.fitting.method import Job, Prepared, Reading, nominal_count
from noisewise.mechanism import Release, count_cost, in_blocks
from noisewise.models import BoundModel, Network
from noisewise.posterior import Status, read_sep, sep_status
from noisewise.result import NetworkScaling

_EPOCHS = 100
_OBSERVED = 100
_FIXED = 1e-10
"""Variance of weights that are taken as they are."""
_TARGET_PURCHASE: dict[str, Any] = {"rounds": 2, "share": 0.05, "what": "target"}


class _Scales(NamedTuple):
    """From encoded columns to the network's inputs and standardised target."""

    inputs: Whitening
    centre: float
    scale: float

    def rows(self, rows: Rows) -> Rows:
        """Record by record; the network has biases of its own instead of a column of ones."""
        inputs = np.asarray(rows["X"], float)[:, 1:]
        target = ((rows["y"] - self.centre) / self.scale).astype(np.float32)
        return {"X": self.inputs(inputs), "y": target}


@dataclass(frozen=True)
class NetworkSep:
    """DP-SEP of a one-hidden-layer network."""

    name: str = "dp-sep"

    def rehearse(self, job: Job) -> None:
        """Calibrate beside all that will be bought, and assemble, before anything is spent."""
        refuse_without_design(job)
        assert job.bound.view.encoder is not None  # it was just looked for
        if len(job.bound.view.encoder.names) < 2:
            raise NoisewiseError("a network needs at least one feature besides the target")
        if job.public_sample is not None:
            raise NoisewiseError(
                "a network simulates no rows from the schema: drop the public_sample"
            )
        others = (*_purchases(job), *count_cost(job.table.schema.public_count, job.budget))
        phases = _phases(job)
        mechanisms = phase_mechanisms(phases, job.budget, others)
        assemble_phases(phases, mechanisms, nominal_count(job.table), phases[-1].site.start(0))

    def prepare(self, job: Job, count: PublicCount) -> Prepared:
        """Buy the inputs' whitening and, where it is not declared, the target's scale."""
        phases, bought = _phases(job), _purchases(job)
        scales = _buy_scales(job, count.value)
        mechanisms = phase_mechanisms(phases, job.budget, (*bought, *count.releases))
        initial = phases[-1].site.start(job.insecure_seed or 0)
        declared = "as declared" if _declared(job.bound) else "by those, too"
        return Prepared(
            runs=assemble_phases(phases, mechanisms, count.value, initial),
            rows=job.bound.view.private(job.table).map(partial(in_blocks, scales.rows)),
            releases=(*bought, *(one.release("sites") for one in mechanisms)),
            settings=phases[-1].settings,
            source="fixed, chosen on simulated regressions; inputs are scaled by the second "
            f"moments released, the target {declared}",
            count=count,
            details=scales,
        )

    def run(self, job: Job, prepared: Prepared) -> Sequence[Finished]:
        """All phases; a simulated table's fit of the same length follows in `posterior`."""
        return run_sep(job, prepared, 2 * prepared.settings.steps)

    def posterior(
        self, job: Job, prepared: Prepared, finished: Sequence[Finished], rng: np.random.Generator
    ) -> Reading:
        """Draws with the known spread of the mean, times what a simulated table's fit says."""
        scales, runs, settings = prepared.details, prepared.runs, prepared.sep_settings
        assert isinstance(scales, _Scales)
        site, fit = runs[-1].algorithm.site, finish(runs, finished)
        inflation = _inflation(runs, site, fit, prepared.public_count, rng)
        if job.progress is not None:
            job.progress(2 * settings.steps, 2 * settings.steps)
        read = read_sep(site, fit, prepared.public_count, job.draws, rng, inflation or 1.0)
        trace = sep_trace(finished[-1])
        status = sep_status(trace, settings, read.aware.theta, partial(_outputs, site))
        if inflation is None and status is Status.OK:
            status = Status.NOT_CONVERGED  # its own simulated table could not be fitted
        return Reading(
            draws=_latents(site, scales, *read.aware),
            noise_unaware=_latents(site, scales, *read.unaware),
            status=status,
            posterior=self.name,
            trace=trace._asdict(),
            network=NetworkScaling(
                input_centre=scales.inputs.centre,
                input_matrix=scales.inputs.matrix,
                output_centre=scales.centre,
                output_scale=scales.scale,
                variance_inflation=inflation,
            ),
            nuisance=("first", "last"),
        )


def _latents(
    site: NetworkSite, scales: _Scales, theta: np.ndarray, noise_sd: np.ndarray
) -> dict[str, np.ndarray]:
    hidden = site.units_hidden
    first, last = np.split(theta, [hidden * (site.inputs + 1)], axis=1)
    noise = noise_sd * scales.scale
    return {"noise": noise, "first": first.reshape(len(theta), hidden, -1), "last": last}


def _phases(job: Job) -> tuple[Phase[NetworkSite], ...]:
    assert isinstance(job.bound.model, Network)
    assert job.bound.view.encoder is not None
    epochs = _EPOCHS if job.steps is None else -(-job.steps // EPOCH_STEPS)
    return network_phases(len(job.bound.view.encoder.names) - 1, job.bound.model.hidden, epochs)


def _target_column(bound: BoundModel) -> Column | None:
    encoder = bound.view.encoder
    return bound.view.schema[encoder.target] if encoder and encoder.target else None


def _declared(bound: BoundModel) -> bool:
    """Whether the target's mean and sd are declared, so that they need not be bought."""
    column = _target_column(bound)
    return column is not None and column.mean is not None and column.sd is not None


def _purchases(job: Job) -> tuple[Release, ...]:
    """What is bought before the steps: known beforehand, to the last digit."""
    inputs = whitening_cost(job.budget)
    if _declared(job.bound):
        return inputs
    return (*inputs, *whitening_cost(job.budget, **_TARGET_PURCHASE))


def _buy_scales(job: Job, public_count: int) -> _Scales:
    rows, encoder = job.bound.view.private(job.table), job.bound.view.encoder
    assert encoder is not None
    inputs = rows.map(lambda columns: {"X": np.asarray(columns["X"], float)[:, 1:]})
    seed, width = job.insecure_seed, len(encoder.names) - 1
    white = buy_whitening(
        inputs, width, public_count, job.budget, insecure_seed=seed, bought=job.bought
    )
    low, high = (end[1:] for end in encoder.feature_bounds())
    # With few rows the noise would carry the centre out of the declared bounds.
    white = replace(white, centre=np.clip(white.centre, low, high))
    return _Scales(white, *_target_scale(job, rows, public_count))


def _target_scale(job: Job, rows: PrivateRows, public_count: int) -> tuple[float, float]:
    """The target's mean, and the unit in which the preset likes it: as declared, or bought in two
    small releases."""
    column = _target_column(job.bound)
    if column is not None and column.mean is not None and column.sd is not None:
        return float(column.mean), float(column.sd) / NETWORK_TARGET_SD
    low, high = job.bound.view.bounds("y") or (-1.0, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2

    def inside(columns: Rows) -> Rows:
        return {"X": np.clip((np.asarray(columns["y"], float) - middle) / half, -1, 1)[:, None]}

    white = buy_whitening(
        rows.map(inside),
        1,
        public_count,
        job.budget,
        insecure_seed=job.insecure_seed,
        bought=job.bought,
        **_TARGET_PURCHASE,
    )
    sd = min(1.0, 1 / abs(float(white.matrix[0, 0])))  # of something between -1 and 1
    centre = middle + half * float(np.clip(white.centre[0], -1, 1))
    return centre, half * sd / NETWORK_TARGET_SD


def _inflation(
    runs: Sequence[Run], site: NetworkSite, fit: SepFit, public_count: int, rng: np.random.Generator
) -> float | None:
    """How many times too small the network's variance is, from a simulated table's fit; None where
    that fit is not finite."""
    key = jax.random.PRNGKey(int(rng.integers(2**31)))
    compiled = jax.jit(lambda fit, key: variance_inflation(runs, site, fit, public_count, key))
    found = float(compiled(jax.tree.map(jnp.asarray, fit), key))
    return found if np.isfinite(found) else None


def _outputs(site: NetworkSite, theta: np.ndarray) -> np.ndarray:
    """What networks with these weights say of simulated inputs, which are standard normal once they
    are whitened: draws x inputs."""
    points = np.random.default_rng(0).standard_normal((_OBSERVED, site.inputs))
    fixed = jnp.full(site.family.dim, _FIXED)
    say = jax.vmap(jax.vmap(site.output, (None, None, 0)), (0, None, None))
    return np.asarray(say(jnp.asarray(theta, jnp.float32), fixed, jnp.asarray(points)).mean)
