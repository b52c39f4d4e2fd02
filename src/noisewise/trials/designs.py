"""Fits as trials run them: on the device for many tables at once, then read on the host."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.dpsep import SepDesign, SepFit, SepRegression, finish
from noisewise.dpvi import (
    BlockSums,
    Settings,
    Trace,
    assemble,
    settled_mean,
    variability_of,
    variability_run,
)
from noisewise.engine import Run, block_length, run_phases_simulated, run_simulated
from noisewise.mechanism import Mechanism
from noisewise.models import BoundModel, Target
from noisewise.posterior import (
    FitContext,
    SepTrace,
    Status,
    default_method,
    infer_pooled,
    read_regression,
    sep_status,
)
from noisewise.trials.reference import reference_rows


class SimulatedPosterior(NamedTuple):
    """The posterior of one simulated fit, in the model's unconstrained space."""

    draws: Float[np.ndarray, "draws dim"]
    noise_unaware: Float[np.ndarray, "draws dim"]
    status: Status
    tail_mean: Float[np.ndarray, " dim"]
    """Mean iterate behind the burn-in; NaN where a fit diverged."""


TableFit = Callable[[Sequence[Run], Rows, Array], Any]
"""From runs, a table and a key to what is released of the table, in compiled code: hashable, equal
where the code is."""


@dataclass(frozen=True)
class _FitByDpvi:
    target: Target

    def __call__(self, runs: Sequence[Run], rows: Rows, key: Array) -> Any:
        run, *after = runs
        table = self.target.prepare(rows, run.numbers.constants.frame)
        found, products = run_simulated(run, table, key, block_length(run)), None
        if after:
            once = after[0].starting_at(settled_mean(found.records))
            products = run_simulated(once, table, jax.random.fold_in(key, 1)).state.total
        return found.records, found.state.parameters, products


@dataclass(frozen=True, eq=False)
class DpviTrial:
    """DPVI and the noise-aware reading of its trace."""

    bound: BoundModel
    settings: Settings
    run: Run
    public_count: int
    variability_run: Run | None = None
    """What is released after it, where records have weights."""
    posterior: str | None = None
    covariates: tuple[BoundModel, ...] = ()
    """The model with its covariates as far as a fit knows them; none are the model's own."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """One, or two."""
        return (self.run,) if self.variability_run is None else (self.run, self.variability_run)

    @property
    def fit_table(self) -> TableFit:
        """Block sums, last iterate and, where that is released, the sum of gradients' products."""
        return _FitByDpvi(self.bound.target)

    def read(
        self,
        released: Sequence[tuple[BlockSums, np.ndarray, np.ndarray | None]],
        draws: int,
        rngs: Sequence[np.random.Generator],
        width: int,
        posterior: str | None = None,
    ) -> list[SimulatedPosterior]:
        """Posteriors of many fits.

        Args:
            released: What every fit released.
            draws: Posterior draws of each.
            rngs: A generator for each.
            width: Fills the fits' number up, so that one compilation serves groups of any size.
            posterior: How to read them, where there are several ways; None is the design's own.
        """
        known = self.covariates or (self.bound,)
        references = [reference_rows(one, self.public_count) for one in known]
        outcomes = infer_pooled(
            posterior or self.posterior or default_method(self.settings),
            [self._trace(*one) for one in released],
            [FitContext.of(self.run, self.settings, one) for one in references],
            draws,
            rngs,
            side_by_side=width,
        )
        lost = np.full(self.bound.target.dim, np.nan)
        return [
            SimulatedPosterior(
                draws=outcome.draws,
                noise_unaware=outcome.noise_unaware,
                status=outcome.status,
                tail_mean=lost if outcome.tail_mean is None else outcome.tail_mean,
            )
            for outcome in outcomes
        ]

    def _trace(self, sums: BlockSums, last: np.ndarray, products: np.ndarray | None) -> Trace:
        found = None
        if products is not None:
            assert self.variability_run is not None  # which released them
            found = variability_of(self.variability_run, products)
        return Trace(BlockSums(*sums), last, variability=found)


def dpvi_trial(
    bound: BoundModel,
    settings: Settings,
    mechanism: Mechanism,
    public_count: int,
    posterior: str | None = None,
    variability: Mechanism | None = None,
) -> DpviTrial:
    """DPVI with these settings under a calibrated mechanism.

    Args:
        bound: The model.
        settings: How it is fitted.
        mechanism: Calibrated.
        public_count: Number of rows of every table.
        posterior: How traces are read; None is the default.
        variability: `posterior.variability_mechanism`, where records have weights.
    """
    run = assemble(settings, bound.target, mechanism, public_count)
    return DpviTrial(
        bound=bound,
        settings=settings,
        run=run,
        public_count=public_count,
        variability_run=None if variability is None else variability_run(run, variability),
        posterior=posterior,
    )


@dataclass(frozen=True)
class _FitBySep:
    regression: SepRegression

    def __call__(self, runs: Sequence[Run], rows: Rows, key: Array) -> tuple[SepFit, Array]:
        lengths = [block_length(run) for run in runs]
        finished = run_phases_simulated(runs, self.regression.rows(rows), key, lengths)
        return finish(runs, finished), finished[-1].records


@dataclass(frozen=True, eq=False)
class SepTrial:
    """DP-SEP of a regression."""

    bound: BoundModel
    design: SepDesign
    runs: tuple[Run, ...]
    public_count: int

    @property
    def fit_table(self) -> TableFit:
        """The fit, and means along its last phase."""
        return _FitBySep(self.design.regression)

    def read(
        self,
        released: Sequence[tuple[SepFit, np.ndarray]],
        draws: int,
        rngs: Sequence[np.random.Generator],
        width: int,
        posterior: str | None = None,
    ) -> list[SimulatedPosterior]:
        """See `DpviTrial.read`."""
        return [
            self._read_one(SepFit(*fit), means, draws, rng)
            for (fit, means), rng in zip(released, rngs, strict=True)
        ]

    def _read_one(
        self, fit: SepFit, means: np.ndarray, draws: int, rng: np.random.Generator
    ) -> SimulatedPosterior:
        run, settings = self.runs[-1], self.design.phases[-1].settings
        read = read_regression(run, fit, self.design.covariates, draws, rng)
        ends = block_length(run) * np.arange(1, len(means) + 1)
        aware = self._unconstrained(*read.aware)
        return SimulatedPosterior(
            draws=aware,
            noise_unaware=self._unconstrained(*read.unaware),
            status=sep_status(SepTrace(means, ends), settings, read.aware.theta),
            tail_mean=aware.mean(0),
        )

    def _unconstrained(self, theta: np.ndarray, noise_sd: np.ndarray) -> np.ndarray:
        latents = self.design.regression.latents(theta, noise_sd)
        wide = {name: jnp.asarray(value, jnp.float32) for name, value in latents.items()}
        return np.asarray(self.bound.target.unconstrain(wide), float)


Design = DpviTrial | SepTrial
"""One way to fit tables of a public number of rows: runs, how they fit one, and how it is read."""
