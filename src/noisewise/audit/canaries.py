"""Canaries through the driver that fits use, and what an attacker makes of the releases.

A canary is a record that contributes the most that the clip allows, in one direction, at every step
(a Dirac canary); all other records are silent. The attacker sees every release. That is the worst
case that the accounting is made for, so the attack should find all of epsilon, and no more.

**Many canaries in one run.** Canary j speaks in coordinate j alone, and is there by a coin of its
own. A step's release in coordinate j, in clip norms, is

    x_j = B_j s_j + sigma z_j,    B_j ~ Bernoulli(q),  z_j ~ N(0, 1),

with s_j what the canary says (0 where it is absent). By the claim, coins B and noise z are
independent over coordinates and steps, so the x_j are as many independent attacks: none knows of
another. The claim is what is tested; where it does not hold, that is what the audit is for.

**Many runs in one.** The driver draws fresh coins and noise for every step, and a canary says the
same wherever the algorithm has got to. So T steps one after the other are a run, and S steps are
S / T of them.

The score is the logarithm of the likelihood ratio, in full: with x_t the releases of a run,

    sum_t log((1 - q) + q exp(s x_t / sigma^2 - s^2 / (2 sigma^2))),

and under replace-one, where the canary says +1 or -1, the difference of two such sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from noisewise.data import PrivateRows, Rows
from noisewise.engine import Devices, Run, Step, run_secure

if TYPE_CHECKING:
    from jaxtyping import Float

_HUGE = 1e3
_CHUNK = 100


@dataclass(frozen=True)
class _Canaries:
    """An algorithm whose records are canaries, and whose releases are kept."""

    algorithm: Any

    blocks = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)

    def contributions(self, numbers: Any, point: Any, batch: Rows) -> Any:
        one_hot = jax.nn.one_hot(batch["direction"], self.algorithm.released)
        return batch["length"][:, None] * one_hot

    def update(
        self, numbers: Any, state: Any, record: Any, point: Any, schedule: Any, released: Any
    ) -> Step:
        found = self.algorithm.update(numbers, state, record, point, schedule, released)
        return Step(found.state, found.record, released)


class Game(NamedTuple):
    """What the attacker knows of a mechanism: all but the coins and the noise."""

    noise_multiplier: float
    sampling_rate: float
    steps: int
    replace_one: bool

    def score(self, released: Float[np.ndarray, "runs steps canaries"]) -> np.ndarray:
        """Logarithms of likelihood ratios, from releases in clip norms: runs x canaries."""
        found = self._against_nobody(released)
        return (found - self._against_nobody(-released) if self.replace_one else found).sum(axis=1)

    def _against_nobody(self, released: np.ndarray) -> np.ndarray:
        precision = self.noise_multiplier**-2
        ratio = released * precision - precision / 2
        if self.sampling_rate == 1.0:
            return ratio
        q = self.sampling_rate
        return np.logaddexp(math.log1p(-q), math.log(q) + ratio)

    @property
    def scale(self) -> float:
        """Sd of the score, nearly: the signal-to-noise ratio of all the steps."""
        sides = 2 if self.replace_one else 1
        return sides * self.sampling_rate * math.sqrt(self.steps) / self.noise_multiplier

    def said(self, present: np.ndarray) -> np.ndarray:
        """What canaries say, in clip norms, where they are ``present`` and where they are not."""
        return np.where(present, 1.0, -1.0 if self.replace_one else 0.0)


def needed_steps(game: Game, canaries: int, trials: int) -> int:
    """Steps of a driver's run after which there are ``trials`` of either kind, in whole chunks.

    Args:
        game: Says how many steps a trial has.
        canaries: In a step.
        trials: Wanted: half of a run's, as half its canaries are absent.
    """
    whole = math.lcm(game.steps, _CHUNK)
    return whole * math.ceil(game.steps * trials / canaries / whole)


class Played(NamedTuple):
    """What was seen of canaries that were there, and of others that were not."""

    absent: np.ndarray
    """Scores, one a trial."""
    present: np.ndarray
    silence: np.ndarray
    """Releases as they came, one by one, where no canary was (or the other one of two)."""
    speech: np.ndarray
    """Those where one was."""


def play(run: Run, game: Game, devices: Devices | None = None) -> Played:
    """Two runs of the secure driver: with canaries by fair coins, and with the others.

    Args:
        run: Of `needed_steps`, assembled for a public count of its released coordinates.
        game: Whose noise multiplier and rate the run has.
        devices: That share the canaries; None where one has them all.
    """
    dim, clip_norm = run.algorithm.released, np.float32(run.numbers.grid.clip_norm)
    coins = np.random.default_rng().random(dim) < 0.5  # the attacker's own: no privacy in them
    seen: tuple[list[np.ndarray], ...] = ([], [], [], [])
    for present in (coins, ~coins):
        released = _released(run, game.said(present), devices)
        scores = game.score(released.reshape(-1, game.steps, dim) / clip_norm)
        parts = scores[:, ~present], scores[:, present], released[:, ~present], released[:, present]
        for kept, part in zip(seen, parts, strict=True):
            kept.append(part.ravel())
    return Played(*(np.concatenate(parts) for parts in seen))


def _released(run: Run, said: np.ndarray, devices: Devices | None) -> np.ndarray:
    """Every release of a run over canaries: steps x coordinates."""
    (there,) = np.nonzero(said)
    rows = {
        "direction": there.astype(np.int32),
        "length": np.float32(said[there] * _lengths(run)[there]),
    }
    watched = replace(run, algorithm=_Canaries(run.algorithm))
    return np.asarray(run_secure(watched, PrivateRows(rows), devices=devices).kept)


def _lengths(run: Run) -> np.ndarray:
    """How loud canaries are: every other one is left to the clip; the rest are as loud as it allows
    and odd in grid steps, which would show in the lowest bit."""
    grid, dim = run.numbers.grid, run.algorithm.released
    inside = math.floor(float(grid.inner_norm))
    odd = (inside - 1 + inside % 2) * float(grid.clip_norm) / float(grid.points)
    return np.where(np.arange(dim) % 2, odd, _HUGE * float(grid.clip_norm))
