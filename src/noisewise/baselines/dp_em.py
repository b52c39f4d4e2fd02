"""DP-EM for a mixture of Gaussians with known covariance: Park, Foulds, Choudhary, Welling (2017).

Every iteration releases the expected sufficient statistics of all records, noised; the M step is
post-processing. A record's statistics are its responsibilities and its responsibility-weighted,
length-limited x, clipped jointly, so one norm bounds all that a record can do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._hosts import Hosts
from noisewise._validate import integer_at_least, positive
from noisewise.data import PrivateRows, Rows
from noisewise.engine import Devices, Run, Step, certify, release_numbers, run_secure
from noisewise.mechanism import Budget, Certificate, Grid, Mechanism

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

_LEAST_COUNT = 1.0


class EmFit(NamedTuple):
    """Means (components x width), their conditional posterior variances, and the certificate."""

    means: np.ndarray
    variances: np.ndarray
    certificate: Certificate


class EmNumbers(NamedTuple):
    """The first four are the engine's."""

    grid: Grid
    noise_scale: Array
    sampling_rate: float
    public_count: float
    sd: float
    radius: float
    prior_sd: float


class EmState(NamedTuple):
    """Means of the components and their variances."""

    means: Float[Array, "components width"]
    variances: Float[Array, " components"]


@dataclass(frozen=True)
class DpEm:
    """EM by released sums of responsibilities and responsibility-weighted records."""

    components: int
    width: int

    blocks = 1
    draws_public_numbers = False

    @property
    def released(self) -> int:
        """A count and a sum for every component."""
        return self.components * (1 + self.width)

    @property
    def pass_floats(self) -> int:
        """Several arrays of that size."""
        return 4 * self.released

    def init(self, numbers: EmNumbers, start: Any) -> EmState:
        """The given means."""
        means = jnp.asarray(start, jnp.float32)
        return EmState(means, jnp.full(self.components, numbers.prior_sd**2, jnp.float32))

    def empty_record(self, state: EmState) -> tuple[()]:
        """Nothing is recorded."""
        return ()

    def point(self, numbers: EmNumbers, state: EmState, schedule: Any, key: Any) -> Array:
        """The means."""
        return state.means

    def contributions(
        self, numbers: EmNumbers, point: Array, batch: Rows
    ) -> Float[Array, "batch released"]:
        """The E step: responsibilities, and responsibilities times x over the radius."""
        X = batch["X"]
        lengths = jnp.linalg.norm(X, axis=1, keepdims=True)
        short = X * jnp.minimum(1.0, numbers.radius / jnp.maximum(lengths, 1e-12))
        squares = jnp.sum((short[:, None, :] - point) ** 2, axis=-1)
        shares = jax.nn.softmax(-0.5 * squares / numbers.sd**2, axis=-1)
        weighted = shares[:, :, None] * short[:, None, :] / numbers.radius
        return jnp.concatenate([shares, weighted.reshape(len(X), -1)], axis=1)

    def update(
        self,
        numbers: EmNumbers,
        state: EmState,
        record: tuple[()],
        point: Array,
        schedule: Any,
        released: Float[Array, " released"],
    ) -> Step:
        """The M step."""
        # Named once: XLA divides by it otherwise where it finds it twice, on several devices alone.
        variance = numbers.sd**2
        counts = jnp.maximum(released[: self.components], _LEAST_COUNT)
        sums = released[self.components :].reshape(self.components, self.width) * numbers.radius
        variances = 1 / (numbers.prior_sd**-2 + counts / variance)
        means = sums / variance * variances[:, None]
        # A component with next to no records has a mean of noise: no mean is longer than a record.
        lengths = jnp.linalg.norm(means, axis=1, keepdims=True)
        means = means * jnp.minimum(1.0, numbers.radius / jnp.maximum(lengths, 1e-12))
        return Step(EmState(means, variances), record)

    def handover(self, numbers: EmNumbers, state: EmState) -> Array:
        """The means."""
        return state.means


def assemble_em(
    mechanism: Mechanism,
    public_count: int,
    start: np.ndarray,
    *,
    sd: float,
    radius: float,
    prior_sd: float,
) -> Run:
    """DP-EM ready to run; ``start`` (components x width) must not come from the data."""
    algorithm = DpEm(*start.shape)
    release = release_numbers(algorithm, mechanism, public_count)
    numbers = EmNumbers(
        grid=release.grid,
        noise_scale=jnp.asarray(release.noise_scale),
        sampling_rate=mechanism.sampling_rate,
        public_count=float(public_count),
        sd=sd,
        radius=radius,
        prior_sd=prior_sd,
    )
    return Run(
        algorithm=algorithm,
        passes=release.passes,
        sampling_rate=mechanism.sampling_rate,
        numbers=numbers,
        schedule=np.zeros(mechanism.steps, np.float32),
        start=start,
    )


def dp_em(
    X: np.ndarray,
    start: np.ndarray,
    *,
    sd: float,
    radius: float,
    budget: Budget,
    public_count: int,
    prior_sd: float = 1.0,
    iterations: int = 10,
    insecure_seed: int | None = None,
    devices: int | str | None = None,
) -> EmFit:
    """Posterior means of a mixture of N(mu_j, sd^2 I), mu_j ~ N(0, prior_sd^2 I), equal weights.

    Args:
        X: Records (rows x width).
        start: Initial means (components x width), not from the data.
        sd: Of every component, known.
        radius: Records longer than this public number are shortened to it.
        budget: What may be spent.
        public_count: Number of records, as everybody may know it: the grid follows it, not ``X``.
        prior_sd: Of the means.
        iterations: Of EM; each is a release.
        insecure_seed: Makes the fit repeatable, and therefore not private.
        devices: How many devices of this host share the records, or ``"all"``; one unless given.
    """
    positive("sd", sd, finite=True)
    positive("radius", radius, finite=True)
    integer_at_least("iterations", iterations, 1)
    integer_at_least("public_count", public_count, 1)
    # Responsibilities have norm at most 1, and so have they times x over the radius.
    mechanism = Mechanism(clip_norm=math.sqrt(2), sampling_rate=1.0, steps=iterations)
    mechanism = mechanism.calibrate(budget)
    run = assemble_em(mechanism, public_count, start, sd=sd, radius=radius, prior_sd=prior_sd)
    rows = PrivateRows({"X": np.asarray(X, np.float32)})
    shared = Devices.chosen(devices, Hosts())
    state = run_secure(run, rows, insecure_seed=insecure_seed, devices=shared).state
    certificate = certify(
        budget,
        (mechanism.release("expected sufficient statistics"),),
        settings="the clip norm follows from the declared radius",
        count="passed by the caller as public",
        insecure_seed=insecure_seed,
    )
    return EmFit(np.asarray(state.means), np.asarray(state.variances), certificate)
