"""DP-SEP from a table to a result: regressions and networks by expectation propagation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.account import certified, row_count
from noisewise.data import PublicSample, Table
from noisewise.dpsep import (
    EPOCH_STEPS,
    NETWORK_TARGET_SD,
    Gaussian,
    LogisticSite,
    NetworkSite,
    Phase,
    ProbitSite,
    RegressionSite,
    SepFit,
    SepSettings,
    buy_whitening,
    fit_phases_secure,
    glm_phases,
    network_phases,
    noise_aware,
    phase_mechanisms,
    plain,
    understatement,
)
from noisewise.mechanism import Budget, Mechanism, Release
from noisewise.models import Glm, Network, RowView, model_name
from noisewise.posterior import Status
from noisewise.result import Result

__all__ = ["fit_sep"]

_MADE_UP = 2000
_SEEN = 100
_STILL = 1e-10
"""Variance of weights that are taken as they are."""
_DRIFT = 1.5
"""Most that means may move between the halves of the averaged part, in sds: their posterior's and
those of their scatter within a half. Noise alone moves them by about one, a steady drift by 3.5."""


@dataclass(frozen=True)
class _Ready:
    """A model as DP-SEP fits it: its rows, how it is run, and the way back to its own units."""

    phases: tuple[Phase, ...]
    rows: dict[str, np.ndarray]
    initial: np.ndarray
    releases: tuple[Release, ...]
    latents: Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]]
    """From draws of the site's coordinates and of the noise's sd to the model's latents."""
    seen: Callable[[np.ndarray], np.ndarray]
    """What must settle, of so many draws of the coordinates: themselves, or what they say of
    made-up inputs, where weights may go on drifting along directions that say nothing."""
    coordinates: dict[str, list[str]]
    asked: dict[str, Any]
    source: str
    """Where clip norms and settings come from, for the certificate."""


def fit_sep(
    model: Callable[..., Any],
    table: Table,
    *,
    budget: Budget,
    view: RowView,
    steps: int | None,
    draws: int,
    public_sample: PublicSample | None,
    insecure_seed: int | None,
    progress: Callable[[int, int], None] | None,
) -> Result:
    """One private fit; see `noisewise.fit`."""
    _refuse(model, view, public_sample)
    count = row_count(table, budget, insecure_seed)
    budget.warn_if_delta_is_large(count.public)
    if isinstance(model, Network):
        ready = _network(model, table, view, count.public, budget, steps, insecure_seed)
    else:
        assert isinstance(model, Glm)
        ready = _regression(model, table, view, steps)
    mechanisms = phase_mechanisms(ready.phases, budget, (*ready.releases, *count.releases))
    parts = 2 if isinstance(model, Network) else 1  # the second, a made-up table's fit, is unheard
    watched = _Watched(ready.phases[-1].settings, progress, parts)
    fit = fit_phases_secure(
        ready.phases,
        mechanisms,
        ready.rows,
        count.public,
        ready.initial,
        insecure_seed=insecure_seed,
        progress=watched,
    )
    sites = tuple(mechanism.release("sites") for mechanism in mechanisms)
    certificate = certified(
        budget, (*ready.releases, *sites), count, ready.source, public_sample, insecure_seed
    )
    rng = np.random.default_rng(insecure_seed)
    phase = ready.phases[-1]
    aware, understated = noise_aware(phase.site, fit), None
    if isinstance(model, Network):
        understated = _understated(ready, mechanisms, fit, count.public, rng)
        aware = aware._replace(covariance=(understated or 1.0) * aware.covariance)
        watched.finish()
    theta = _normals(phase, aware, draws, rng)
    status = watched.status(ready.seen, theta)
    if isinstance(model, Network) and understated is None and status is Status.OK:
        status = Status.NOT_CONVERGED  # its own made-up table could not be fitted
    return Result(
        draws=ready.latents(theta, _noise_sds(phase, fit, count.public, draws, rng)),
        plain=ready.latents(
            _normals(phase, plain(fit), draws, rng),
            _noise_sds(phase, fit._replace(extra_variance=0.0), count.public, draws, rng),
        ),
        privacy=certificate,
        status=status,
        asked={
            "model": model_name(model),
            "target": None if view.encoder is None else view.encoder.target,
            "arguments": list(view.arguments),
            "encoding": [] if view.encoder is None else view.encoder.describe(),
            "schema": view.schema.to_dict(),
            "rows": count.public,
            "posterior": "dp-sep",
            "settings": phase.settings.to_dict(),
            **ready.asked,
            **({"understated": understated} if isinstance(model, Network) else {}),
        },
        trace=watched.trace,
        coordinates=ready.coordinates,
        inner=("first", "last") if isinstance(model, Network) else (),
    )


def _refuse(model: Callable[..., Any], view: RowView, public_sample: PublicSample | None) -> None:
    """Before anything is spent: DP-SEP needs a site, which these models have, and features."""
    known = isinstance(model, Network) or (isinstance(model, Glm) and model.family != "poisson")
    if not known:
        raise NoisewiseError(
            f"method='dp-sep' has no site for the model {model_name(model)}: use linear, logistic, "
            "probit or network, method='dpvi', or write a site (noisewise.dpsep.Site)"
        )
    if view.encoder is None or view.encoder.target is None:
        raise NoisewiseError(
            "method='dp-sep' needs the features encoded: rename the schema's own columns X and y"
        )
    if isinstance(model, Network) and len(view.encoder.names) < 2:
        raise NoisewiseError("a network needs at least one feature besides the target")
    if isinstance(model, Network) and public_sample is not None:
        raise NoisewiseError("a network simulates no rows from the schema: drop the public_sample")


def _regression(model: Glm, table: Table, view: RowView, steps: int | None) -> _Ready:
    """Targets of a linear model are shifted and scaled so that its prior is standard normal."""
    made_up = view.simulate(np.random.default_rng(0), _MADE_UP)["X"]
    rows = view.rows(table.arrays)
    width, linear = made_up.shape[1], model.family == "linear"
    centre, scale = (model.centre, model.prior_scale) if linear else (0.0, 1.0)
    if linear:
        site: Any = RegressionSite(width, 1.0, model.noise_scale / scale)
        rows = rows | {"y": ((rows["y"] - centre) / scale).astype(np.float32)}
    else:
        kind = LogisticSite if model.family == "logistic" else ProbitSite
        site = kind(width, model.prior_scale)

    def latents(theta: np.ndarray, sds: np.ndarray) -> dict[str, np.ndarray]:
        coefficients = theta * scale
        coefficients[:, 0] += centre
        return {"coefficients": coefficients} | ({"noise": sds * scale} if linear else {})

    phases = glm_phases(site, made_up) if steps is None else glm_phases(site, made_up, steps)
    names = view.feature_names
    return _Ready(
        phases=phases,
        rows=rows,
        initial=np.zeros(width),
        releases=(),
        latents=latents,
        seen=lambda theta: theta,
        coordinates={} if names is None else {"coefficients": names},
        asked={},
        source="rules of the model, the declared bounds and made-up rows",
    )


def _network(
    model: Network,
    table: Table,
    view: RowView,
    public_rows: int,
    budget: Budget,
    steps: int | None,
    insecure_seed: int | None,
) -> _Ready:
    """Inputs whitened and the target standardised: by declaration, or bought from the budget."""
    rows = view.rows(table.arrays)
    inputs = np.asarray(rows["X"], float)[:, 1:]  # the network has biases of its own
    white = buy_whitening(inputs, public_rows, budget, insecure_seed=insecure_seed)
    assert view.encoder is not None  # `_refuse` has looked
    low, high = (end[1:] for end in view.encoder.feature_bounds())
    # With few rows the noise would carry the centre out of the declared bounds.
    white = replace(white, centre=np.clip(white.centre, low, high))
    centre, scale, bought = _target_scale(rows["y"], view, public_rows, budget, insecure_seed)
    epochs = 100 if steps is None else -(-steps // EPOCH_STEPS)
    phases = network_phases(inputs.shape[1], model.hidden, epochs)
    site = phases[0].site
    assert isinstance(site, NetworkSite)
    hidden = model.hidden

    def latents(theta: np.ndarray, sds: np.ndarray) -> dict[str, np.ndarray]:
        first, last = np.split(theta, [hidden * (inputs.shape[1] + 1)], axis=1)
        return {"noise": sds * scale, "first": first.reshape(len(theta), hidden, -1), "last": last}

    return _Ready(
        phases=phases,
        rows={"X": white(inputs), "y": ((rows["y"] - centre) / scale).astype(np.float32)},
        initial=site.start(insecure_seed or 0),
        releases=(*white.releases, *bought),
        latents=latents,
        seen=partial(_outputs, site),
        coordinates={},
        asked={
            "inputs": {"centre": white.centre.tolist(), "matrix": white.matrix.tolist()},
            "output": {"centre": centre, "scale": scale},
        },
        source="fixed, chosen on simulated regressions; inputs are scaled by the second moments "
        f"released, the target {'by those, too' if bought else 'as declared'}",
    )


def _understated(
    ready: _Ready,
    mechanisms: tuple[Mechanism, ...],
    fit: SepFit,
    rows: int,
    rng: np.random.Generator,
) -> float | None:
    """How many times too small the network's variance is, from a made-up table's fit; None where
    that fit is not finite."""
    key = jax.random.PRNGKey(int(rng.integers(2**31)))
    run = jax.jit(
        lambda fit, key: understatement(
            ready.phases, mechanisms, fit, rows, jnp.asarray(ready.initial), key
        )
    )
    found = float(run(SepFit(*(jnp.asarray(part) for part in fit)), key))
    return found if np.isfinite(found) else None


def _outputs(site: NetworkSite, theta: np.ndarray) -> np.ndarray:
    """What networks with these weights say of made-up inputs, which are standard normal once they
    are whitened: draws x inputs."""
    points = np.random.default_rng(0).standard_normal((_SEEN, site.inputs))
    still = jnp.full(site.family.dim, _STILL)
    say = jax.vmap(jax.vmap(site.output, (None, None, 0)), (0, None, None))
    return np.asarray(say(jnp.asarray(theta, jnp.float32), still, jnp.asarray(points)).mean)


def _target_scale(
    y: np.ndarray, view: RowView, rows: int, budget: Budget, insecure_seed: int | None
) -> tuple[float, float, tuple[Release, ...]]:
    """The target's mean, and the unit in which the preset likes it: as declared, or bought in two
    small releases."""
    column = view.schema[view.encoder.target] if view.encoder and view.encoder.target else None
    if column is not None and column.mean is not None and column.sd is not None:
        return float(column.mean), float(column.sd) / NETWORK_TARGET_SD, ()
    low, high = view.bounds("y") or (-1.0, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    inside = np.clip((np.asarray(y, float) - middle) / half, -1, 1)[:, None]
    white = buy_whitening(
        inside, rows, budget, rounds=2, share=0.05, what="target", insecure_seed=insecure_seed
    )
    sd = min(1.0, 1 / abs(float(white.matrix[0, 0])))  # of something between -1 and 1
    centre = middle + half * float(np.clip(white.centre[0], -1, 1))
    return centre, half * sd / NETWORK_TARGET_SD, white.releases


def _normals(phase: Phase, posterior: Gaussian, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of the coordinates, block by block of their covariance."""
    blocks = np.asarray(phase.site.family.matrices(posterior.covariance), float)
    if not np.isfinite(blocks).all():
        return np.full((draws, phase.site.family.dim), np.nan)
    values, vectors = np.linalg.eigh(blocks)
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    normal = rng.standard_normal((draws, *blocks.shape[:2]))
    spread = np.einsum("kij,dkj->dki", roots, normal).reshape(draws, -1)
    return np.asarray(posterior.mean, float) + spread


def _noise_sds(
    phase: Phase, fit: SepFit, rows: int, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Draws of the target's noise sd: its precision is Gamma given the mean squared residual, which
    is itself known up to the noise of its release."""
    site = phase.site
    if not isinstance(site, RegressionSite | NetworkSite):
        return np.zeros(draws)
    shape, rate = (np.asarray(part, float) for part in site.noise_gamma(fit.extra, rows))
    off = rows * np.sqrt(np.asarray(fit.extra_variance, float).ravel()[0]) / site.kept
    rates = rate + off * rng.standard_normal(draws)
    return np.sqrt(np.maximum(rates, 0.01 * rate) / rng.gamma(shape, size=draws))


class _Watched:
    """Hears the released means as the run goes on: for the bar, the report and the status."""

    def __init__(
        self,
        settings: SepSettings,
        progress: Callable[[int, int], None] | None,
        parts: int = 1,
    ) -> None:
        self._steps = settings.steps
        self._parts = parts
        self._averaged = settings.averaged
        self._progress = progress
        self._means: list[np.ndarray] = []
        self._ends: list[int] = []

    def __call__(self, done: int, mean: np.ndarray) -> None:
        self._means.append(mean)
        self._ends.append(done)
        if self._progress is not None:
            self._progress(done, self._parts * self._steps)

    def finish(self) -> None:
        """All parts are done."""
        if self._progress is not None:
            self._progress(self._parts * self._steps, self._parts * self._steps)

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """As `Result.trace` holds it."""
        return {"means": np.stack(self._means), "ends": np.array(self._ends, np.int64)}

    def status(self, seen: Callable[[np.ndarray], np.ndarray], theta: np.ndarray) -> Status:
        """Whether the means are finite, and what is seen of them stays over the averaged part."""
        means, ends = np.stack(self._means), np.array(self._ends)
        if not (np.isfinite(means).all() and np.isfinite(theta).all()):
            return Status.DIVERGED
        sds = seen(theta[:_SEEN]).std(0)
        late = seen(means[ends > (1 - self._averaged) * self._steps])
        first, second = late[: len(late) // 2], late[len(late) // 2 :]
        scatter = (first.var(0) + second.var(0)) / 2
        drift = (second.mean(0) - first.mean(0)) ** 2 / (sds**2 + scatter)
        return Status.OK if np.sqrt(drift.mean()) < _DRIFT else Status.NOT_CONVERGED
