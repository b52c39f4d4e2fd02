"""What a method of fitting is: prepare, run, posterior. `fit` drives all of them alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from noisewise._hosts import Hosts
from noisewise._validate import Progress
from noisewise.data import PrivateRows, PublicSample, Table
from noisewise.dpsep import SepSettings
from noisewise.dpvi import Settings
from noisewise.engine import Checkpoint, Devices, Finished, PublicCount, Run
from noisewise.mechanism import Budget, Ledger, Release
from noisewise.models import BoundModel
from noisewise.posterior import Status
from noisewise.result import NetworkScaling


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A fit as it was requested."""

    bound: BoundModel
    table: Table
    budget: Budget
    draws: int
    steps: int | None
    covariate_share: float | None
    """Share of the budget for the covariates' shape; None is the default."""
    misfit_share: float | None
    """Share of the budget for sizes of gradients at the fit; None is the default."""
    public_sample: PublicSample | None
    insecure_seed: int | None
    progress: Progress | None
    ledger: Ledger | None = None
    """Where everything is written before it is released."""
    checkpoint: Checkpoint | None = None
    """Where it is written once it is released."""
    hosts: Hosts = field(default_factory=Hosts)
    """Who fits together."""
    devices: Devices | None = None
    """That share the rows; None where one does it all."""

    @property
    def bought(self) -> dict[str, np.ndarray] | None:
        """Sums that were bought before the fit was stopped."""
        return None if self.checkpoint is None else self.checkpoint.bought

    @property
    def settings_before(self) -> dict[str, Any] | None:
        """Settings with which the fit began that goes on now."""
        settled = None if self.checkpoint is None else self.checkpoint.settled
        return None if settled is None else dict(settled["settings"])


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Ready to run: rows as the algorithm takes them, runs, and what is on the bill."""

    runs: Sequence[Run]
    rows: PrivateRows
    releases: tuple[Release, ...]
    """All but the row count's."""
    settings: Settings | SepSettings
    source: str
    """Where clip norms and settings come from, for the certificate."""
    count: PublicCount
    covariates: tuple[BoundModel, ...] = ()
    """The model with its covariates as far as they are known; see `covariates.known`."""
    sources: tuple[tuple[str, str], ...] = ()
    """What else the certificate says."""
    notes: tuple[str, ...] = ()
    """What the fit found that contradicts what was declared, in words."""
    details: Any = None
    """What the method itself needs again when it reads the posterior."""

    @property
    def public_count(self) -> int:
        """The number of rows as it may be used."""
        return self.count.value

    @property
    def sep_settings(self) -> SepSettings:
        """DP-SEP's."""
        assert isinstance(self.settings, SepSettings)
        return self.settings


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """The posterior, and how it went: all from what was released."""

    draws: dict[str, np.ndarray]
    noise_unaware: dict[str, np.ndarray]
    status: Status
    posterior: str
    trace: dict[str, np.ndarray]
    burn_in: int = 0
    network: NetworkScaling | None = None
    nuisance: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = ()
    """What the fit found that contradicts the model, in words."""


class Method(Protocol):
    """One way to fit a bound model privately."""

    @property
    def name(self) -> str:
        """As `fit` and results call it."""

    def rehearse(self, job: Job) -> None:
        """Refuse whatever can be refused: nothing has been spent yet."""

    def prepare(self, job: Job, count: PublicCount) -> Prepared:
        """Settle the settings, buy what is bought before the run, and put the runs together."""

    def run(self, job: Job, prepared: Prepared) -> Sequence[Finished]:
        """The private steps."""

    def posterior(
        self, job: Job, prepared: Prepared, finished: Sequence[Finished], rng: np.random.Generator
    ) -> Reading:
        """Draws from what was released."""


def nominal_count(table: Table) -> int:
    """A number of rows for rehearsals: the next power of two, so that no refusal tells the true one
    to better than a factor of two."""
    return 2 ** int(np.ceil(np.log2(2 * max(len(table), 2))))
